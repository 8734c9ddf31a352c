/* What the engine counts and measures for operators: ends, latencies, speed. Pure but for the clock
 * values passed to it. Owned by the engine's thread, which copies it for other threads once a
 * step. */
#ifndef ENGINE_CORE_METRICS_H
#define ENGINE_CORE_METRICS_H

#include "engine/sched/sched.h"
#include "osprey.h"

/* Marks of one request; zeroed when it is submitted. */
struct request_marks {
    uint64_t token_ns; /* time of its last token */
    bool left_queue;   /* admitted or ended: no longer part of the backlog */
};

struct metrics {
    struct osp_engine_metrics published;
    int64_t n_prompt_left_queue; /* tokens of prompts that have left the queue */
    double recent_rows, recent_seconds, recent_answers, recent_answer_tokens; /* fading sums */
};

/* A step of n_rows has run. */
void metrics_step(struct metrics *m, int n_rows, double seconds);
/* q had rows in a step that ended at now_ns; has_token: the step sampled a token of it. */
void metrics_chunk(struct metrics *m, struct request_marks *r, const struct seq *q, bool has_token,
                   uint64_t now_ns);
/* q has ended, whether it ran or not. is_answered: it was canceled because a stop string ended the
 * answer. */
void metrics_end(struct metrics *m, struct request_marks *r, const struct seq *q, bool is_answered,
                 uint64_t now_ns);

/* Rows a second of the last steps, and tokens of the last answers; 0: not measured yet. */
double metrics_rows_a_second(const struct metrics *m);
double metrics_answer_tokens(const struct metrics *m);

#endif
