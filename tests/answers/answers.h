/* Parts of check_answers: an answer's tokens, and what is made of them by every way. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include <stdatomic.h>

#include "engine/chat/chat.h"
#include "engine/core/request.h"
#include "harmony_streams.h"
#include "text/token/detok.h"

enum { STOPS_MAX = 3, N_FUNCTIONS = 2 };

extern const char *const answer_functions[N_FUNCTIONS]; /* on offer */

/* What an answer says, by whichever way it came. */
struct says {
    struct buf reasoning, content, calls; /* calls: "\2NAME\1ARGUMENTS" each */
    enum osp_finish finish;
};

struct results {
    atomic_ullong n_messages, n_calls, n_cut, n_tokens, n_sent_back, n_reused;
};

/* An answer, and what is at hand to read it. A thread has one of its own. */
struct answer {
    const struct tokenizer *t; /* borrowed */
    struct results *results;   /* borrowed */
    uint64_t number;           /* of the stream at hand */
    const char *name;          /* of the row at hand; NULL: it is a stream */
    struct dice dice;
    struct ids ids;
    const char *stops[STOPS_MAX];
    int n_stops;
    bool ignores_stop_tokens;
    struct says oracle, whole, streamed;

    struct buf message;         /* the oracle's: content of the message under way */
    struct buf pushed, brought; /* what was written inside of content, and what came of it */
    struct detok detok;
    struct buf out;
    bool is_open, is_cut, in_content;
    size_t n_published;

    /* Of one that is sent back, else NULL. */
    struct osp_chat *chat;
    struct completion_cache *store;
    struct ids prompt;
    uint64_t prompt_hash;
};

void answer_init(struct answer *a, const struct tokenizer *t, struct results *results);
void answer_release(struct answer *a);

/* Prints the answer and why, and ends the program. */
PRINTF_LIKE(2, 3) void answer_die(const struct answer *a, const char *format, ...);
#define CHECK(a, holds)                                                                            \
    do {                                                                                           \
        if (!(holds))                                                                              \
            answer_die(a, "%s:%d: %s", __FILE__, __LINE__, #holds);                                \
    } while (0)

void says_init(struct says *t);
void says_clear(struct says *t);
void says_release(struct says *t);
void says_add_call(struct says *t, const char *name);

bool ends_answer(const struct answer *a, int32_t token);
/* Sets `oracle` from the ids, read message by message, and cuts them where an engine would end. */
void answer_ask_oracle(struct answer *a);
/* Sets `whole` and `streamed`: what comes of the same tokens as a request's events and as HTTP
 * replies. */
void answer_reply(struct answer *a);
/* Around answer_reply(): the conversation that is answered, and what comes of it when the client
 * has sent the answer back (read_whole() does). */
void history_begin(struct answer *a);
void history_check(struct answer *a);
void answer_compare(const struct answer *a, const char *what, const struct says *got,
                    const struct says *want);
/* All of that. */
void answer_check(struct answer *a);

/* The rows of docs/harmony.md, each read by every way and held against what it says; their
 * number. */
int table_check(struct answer *a, const char *path);

#endif
