/* One answer of `osprey chat`: its texts, and how they are printed while they arrive. */
#ifndef CLI_CHAT_CHAT_ANSWER_H
#define CLI_CHAT_CHAT_ANSWER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "osprey.h"

enum reasoning_view {
    REASONING_HIDDEN, /* not at all */
    REASONING_FOLDED, /* one line with the reasoning time */
    REASONING_SHOWN
};

struct answer_style {
    FILE *out, *reasoning_out;
    enum reasoning_view reasoning;
};

/* The result: texts for the conversation's next message, and usage. Release it also after a
 * failure. */
struct answer {
    struct buf content, reasoning;
    struct osp_usage usage; /* no tokens: a server did not report them */
    enum osp_finish finish;
};

void answer_init(struct answer *a);
void answer_release(struct answer *a);

/* Prints an answer as it arrives, and collects its texts in `answer`. */
struct answer_printer {
    const struct answer_style *style;
    struct answer *answer;
    bool in_reasoning;
    uint64_t reasoning_start_ns;
};

void answer_put_reasoning(struct answer_printer *p, const char *text, size_t n_bytes);
void answer_put_content(struct answer_printer *p, const char *text, size_t n_bytes);
/* After the last text: ends the line. */
void answer_end(struct answer_printer *p);

/* "34 tokens in 0.8 s (42.5 tokens/s) after a prompt of 70 in 0.2 s" */
void answer_print_rate(FILE *out, const struct answer *a);

#endif
