/* The scheduler's state, for src/engine/sched and for tests that check its inside. */
#ifndef ENGINE_SCHED_SCHED_INTERNAL_H
#define ENGINE_SCHED_SCHED_INTERNAL_H

#include "engine/sched/prefix.h"
#include "engine/sched/sched.h"
#include "engine/sched/step_time.h"

struct sched {
    struct sched_limits limits;
    struct pages pages[N_PAGE_GROUPS];
    struct pages host[N_PAGE_GROUPS]; /* places in host memory */
    struct prefix prefix;
    struct seq **running; /* (n_running) in order of admission */
    struct seq *
        *preempt_order; /* (n_preempt_order) the same, preempted last first; NULL: was preempted */
    int n_running, n_preempt_order;
    struct seq *first_waiting, *last_waiting; /* in order of arrival */
    int n_waiting;
    int64_t n_arrivals, n_admissions; /* so far */
    struct clients clients;
    struct step_time step_time;
    double prefill_ns; /* expected time of the prefill steps since the last one with decode rows */
    int n_held;        /* decode steps since then for which prompts have waited */
    struct step_plan plans[2];
    struct step_plan *plan;      /* of the next step */
    struct step_plan *in_flight; /* of the step that has begun and is not committed; NULL: none */
    int n_moves_max;
    int64_t n_planned_ahead, n_sent, n_wasted_rows; /* see struct sched_stats */
    int64_t n_steps, n_prompt_tokens, n_generated_tokens, n_ended;
    int64_t n_cached_tokens, n_preemptions, n_swapped_pages, n_recomputed;
    int64_t n_draft_rows, n_accepted;
};

/* Ends q, which has no rows in the step in flight: its pages are released, its place is free. */
void sched_end_seq(struct sched *s, struct seq *q, enum seq_end end);

#endif
