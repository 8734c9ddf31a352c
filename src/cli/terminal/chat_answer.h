/* One answer of `osprey chat`: submits the request, prints the stream, stops at Ctrl-C. */
#ifndef CLI_TERMINAL_CHAT_ANSWER_H
#define CLI_TERMINAL_CHAT_ANSWER_H

#include <stdbool.h>
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
    struct osp_usage usage;
    enum osp_finish finish;
};

void answer_init(struct answer *a);
void answer_release(struct answer *a);

/* Fills `a` until the answer is complete or Ctrl-C stops it (OSP_FINISH_CANCELED). */
CHECKED enum osp_status answer_run(struct answer *a, struct osp_engine *engine,
                                   const struct osp_chat *chat,
                                   const struct osp_request_options *opt,
                                   const struct answer_style *style);

/* "34 tokens in 0.8 s (42.5 tokens/s) after a prompt of 70 in 0.2 s" */
void answer_print_rate(FILE *out, const struct answer *a);

/* From now on Ctrl-C is recorded and does not end the program. */
void interrupt_catch(void);
bool interrupt_consume(void); /* whether Ctrl-C was recorded; clears it */
int interrupt_descriptor(
    void); /* readable while a Ctrl-C is recorded; -1 before interrupt_catch() */

#endif
