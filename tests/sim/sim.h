/* The simulator: the real engine (scheduler, pages, prefix cache, requests, events) in one thread,
 * with a simulated clock, device and clients. A schedule is one small world, decided by a seed. */
#ifndef SIM_H
#define SIM_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/core/engine.h"
#include "engine/sched/sched_internal.h"

enum {
    LIVE_MAX = 14,
    CONTEXT_MAX = 420,
    PAGES_MAX = 160, /* of a group */
    LETTERS = 26,
    N_BASES = 3, /* texts that prompts begin with */
    KEYS_MAX = 3,
    USERS_MAX = 5, /* of a key */
    DRAFT_ROWS_MAX = 24,
    SAMPLES_MAX = LIVE_MAX + DRAFT_ROWS_MAX
};

/* How often a request was bypassed by those of its key, or a key by others. */
struct turn {
    int n_passed, n_due_before;
    int64_t due;
    bool is_owed; /* a key's: the last one that passed it was not due before it */
};

/* A client's request, and all that is known of it without the engine. */
struct caller {
    struct osp_request *request; /* NULL: the place is free */
    uint64_t id;
    int n_prompt, n_all, n_tokens_max; /* n_all: with the answer that it must get */
    int32_t tokens[CONTEXT_MAX];
    uint64_t token_hash[CONTEXT_MAX], kind_hash[CONTEXT_MAX]; /* of all up to a position */
    bool is_exact, is_drawn_nan; /* is_drawn_nan: the sample after n_all fails */
    int n_text;                  /* bytes of the answer that must have been read at the end */
    bool has_prompt_logprobs;    /* its prompt is */
    bool is_cut;                 /* by a stop string in its text */
    bool is_canceled, is_lazy;   /* reads only at the end */
    uint64_t deadline_ns;
    int n_heard, n_ends;
    /* as of the last iteration */
    int n_tokens, n_stored, n_preempted, n_charged;
    bool ran, is_mine; /* is_mine: still in the engine */
    bool is_admitted;  /* since then */
    /* Tokens that it must have when step n is committed, in n % 2: with the drafts that are right. */
    int n_due[2], n_accepted[2];
    int n_due_now;    /* of the last step that was waited for */
    int n_stored_due; /* and the positions stored then: it may be preempted in the same turn */
    /* the rule of admission, kept apart from the engine's own state */
    int key, user;
    struct turn turn;
};

/* Probabilities of what happens in a schedule. */
struct odds {
    int arrive, cancel, leave, nan, device, jump, limit; /* 1 in n; 0: never */
    bool same_priority, short_answers, long_answers, few_pages;
    bool many_users;          /* of the first key */
    bool is_behind, is_ahead; /* of the device */
    bool is_apart;            /* likewise: decode and prefill rows */
    bool has_bursts;          /* likewise: prompts are computed together */
    bool is_async;            /* of the engine */
    bool ngram, predictions;  /* drafts */
    bool eagle3;              /* with a draft head: the device is not behind, or ahead */
};

struct world {
    uint64_t seed, is_sampled, n_born;
    struct odds odds;
    struct osp_engine *engine;
    struct caller caller[LIVE_MAX];
    int32_t base[N_BASES][CONTEXT_MAX];
    int32_t last[CONTEXT_MAX]; /* tokens of an earlier request at its end */
    int n_last;
    int64_t n_turns;
    bool is_broken; /* the device has failed */
    int64_t dues, admissions;
    struct turn key_turn[KEYS_MAX];
    int64_t key_dues[KEYS_MAX], key_admissions[KEYS_MAX]; /* among the requests of each */
    int writer[N_PAGE_GROUPS][PAGES_MAX]; /* chunk of the step that writes a page, from 1 */
    bool is_in_flight;                    /* a step, on the device */
    bool has_unfollowed;                  /* the draft head did not follow some request */
    uint64_t n_begun, n_waited;           /* steps of the device */
};

struct totals {
    int64_t n_turns, n_requests, n_admissions, n_preemptions, n_swapped, n_again, n_cached, n_rows;
    int64_t n_due_total, n_key_dues, n_device, n_ahead, n_left, n_nan, n_timeouts, n_cuts, n_shared;
    int64_t n_logprobs_done; /* prompt tokens with correct log-probabilities */
    int64_t n_sent, n_wasted_rows;
    int64_t n_drafts, n_accepted;
    int64_t n_head_rows, n_guesses;     /* of the draft head */
    int64_t n_behind;                   /* passes behind a step whose drafts were not counted */
    int64_t n_tree_rows, n_slots_moved; /* rows of trees; accepted drafts that were not in place */
    int64_t n_short; /* prompts without all their rows in a step that has rows of longer ones */
};

extern struct world world;
extern struct totals totals;
extern uint64_t sim_now_ns;
extern int32_t sim_letter[LETTERS]; /* ids of "a", "b", ... */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("sim_engine: violation in schedule %" PRIu64 ": %s:%d: %s\n"                    \
                   "again: sim_engine 1 %" PRIu64 "\n",                                            \
                   world.seed, __FILE__, __LINE__, #condition, world.seed);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline int pick(int below)
{
    return (int)(rng_bits(world.seed, world.is_sampled++, 0) % (uint64_t)below);
}

static inline bool chance(int one_in)
{
    return one_in > 0 && pick(one_in) == 0;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;

    h = (h ^ h >> 29) * 0x94D049BB133111EBu;
    return h ^ h >> 32;
}

/* model.c: the content of a page slot, and the sampled tokens. */
uint64_t stamp_of(uint64_t token_hash, uint64_t kind_hash);
uint64_t salt_hash(const char *salt);
uint64_t next_token_hash(uint64_t before, int32_t token);
uint64_t next_kind_hash(uint64_t before, bool generated, int position);
uint64_t stamp_in(int g, int32_t page, int slot);
/* Where a position that a row of the batch sees lives: its slot, as if it were a position. */
int slot_seen(const struct batch *b, int row, int position);
float score_of(uint64_t stamp); /* log-probability of the token after a position with this stamp */
/* Letter's id, or -1. */
int32_t draw_at(const struct caller *c);
struct osp_model *sim_model(struct osp_tokenizer *tokenizer);
void sim_model_limits(const struct sched_limits *l);
void sim_model_head(bool has_head); /* for the next engine */

/* The tokens that the target's step with this ticket sampled; it is one of the last two. */
const int32_t *step_tokens(uint64_t ticket);

/* head.c: the draft head of the simulated device. The program is one of the head's. */
enum osp_status head_run(const struct batch *b, const struct compiled *program, uint64_t *ticket);
/* Whether the ticket is of one of its passes; and what the pass has guessed. */
bool head_ran(uint64_t ticket);
const int32_t *head_tokens(uint64_t ticket);
const int32_t *head_candidates(void);        /* of the last pass of trees */
void head_see(int row, uint64_t token_hash); /* the target's state of a row */
void head_init(struct model *m);

/* callers.c */
void callers_arrive(void);
void callers_read(void);
void callers_cancel(void);
void callers_hear_out(void); /* reads all that is left, to the end */
struct caller *caller_of(const struct seq *q);

/* check_prompts.c */
void check_prompt_order(const struct step_plan *plan); /* as a step begins */

/* check.c */
void check_before_step(void);
void check_in_step(void); /* before clients act while a step is in flight */
void check_after_step(void);
void check_accepted(const struct caller *c, int n);  /* n drafts of c, by the step that ends */
void check_draft_rows(const struct step_plan *plan); /* as a step begins */
void check_at_end(void);

#endif
