/* The results of `osprey doctor`: one finding for each thing that was looked at, in groups. */
#ifndef CLI_DOCTOR_FINDING_H
#define CLI_DOCTOR_FINDING_H

#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* X(name): good; slow: works, and something else is expected; broken: serving, or a part of it,
 * will fail; untested: there is nothing to test, or osprey cannot */
#define FINDING_STATE_LIST(X)                                                                      \
    X(good)                                                                                        \
    X(slow)                                                                                        \
    X(broken)                                                                                      \
    X(untested)

enum finding_state {
#define FINDING_STATE(name) FINDING_##name,
    FINDING_STATE_LIST(FINDING_STATE)
#undef FINDING_STATE
        N_FINDING_STATES
};

struct finding {
    enum finding_state state;
    const char *group; /* "memory" */
    char *subject;     /* "huge pages" */
    char *text;        /* what was found; of a slow one with the expected figure */
    char *advice;      /* what to do; NULL: nothing */
};

struct findings {
    struct finding *list; /* (n) */
    size_t n, n_max;
    const char *group; /* of the next ones */
};

void findings_release(struct findings *f); /* accepts a zeroed one */

/* Adds one to the current group. */
void finding_add(struct findings *f, enum finding_state state, const char *subject,
                 const char *format, ...) PRINTF_LIKE(4, 5);
/* Sets what to do about the last one. */
void finding_advise(struct findings *f, const char *format, ...) PRINTF_LIKE(2, 3);

int findings_count(const struct findings *f, enum finding_state state);

enum { FINDINGS_TEXT_BYTES_MAX = 1 << 20 };

/* Appends lines "state subject text", with the advice below, under the names of groups. */
void findings_put_text(struct buf *out, const struct findings *f);
/* Appends one JSON object: "good", "slow", "broken", "untested" (counts) and "findings". */
void findings_put_json(struct buf *out, const struct findings *f);

#endif
