/* What the engine counts and measures for its operators: ends, latencies, speed. Pure but for
 * the clock values that it is given. Owned by the engine's thread, which copies it for others
 * once a step. */
#ifndef ENGINE_CORE_METRICS_H
#define ENGINE_CORE_METRICS_H

#include "engine/sched/sched.h"
#include "osprey.h"

/* A request's own marks; zeroed when it is submitted. */
struct request_marks {
    uint64_t token_ns; /* when its last token came */
    bool left_queue;   /* admitted or ended: it is no part of the backlog any more */
};

struct metrics {
    struct osp_engine_metrics published;
    int64_t n_prompt_left_queue; /* tokens of prompts that have left the queue */
    double recent_rows, recent_seconds, recent_answers, recent_answer_tokens; /* fading sums */
};

/* A step of n_rows has run. */
void metrics_step(struct metrics *m, int n_rows, double seconds);
/* A row of q was part of a step that ended at now_ns and, if `drew`, gave it a token. */
void metrics_part(struct metrics *m, struct request_marks *r, const struct seq *q, bool drew,
                  uint64_t now_ns);
/* q has ended, whether it ran or not. is_answered: the client took a cancel for a stop string's
 * end. */
void metrics_end(struct metrics *m, struct request_marks *r, const struct seq *q, bool is_answered,
                 uint64_t now_ns);

/* Rows a second of the last steps, and tokens of the last answers; 0 = not measured yet. */
double metrics_rows_a_second(const struct metrics *m);
double metrics_answer_tokens(const struct metrics *m);

#endif
