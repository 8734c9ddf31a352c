/* The scheduler: which rows of which sequences make the next step, and what a finished step
 * changes. A pure function of its state and of the clock values that it is given: no device, no
 * socket, no lock, no clock. Owned by one thread; tests/sim_engine.c runs it for millions of
 * seeded steps.
 *
 * Policy (docs/engine.md): every running sequence that generates gets its row in every step;
 * what is left of the step's budget goes to prompts in chunks, few enough rows that those who
 * generate need not wait long. The client that was served least is next, and of its requests the
 * one of the lowest priority number, then of the user that was served least, then the oldest;
 * nobody is passed more often than a known number of times. A sequence is admitted when the
 * pages of its prompt are free or only cached; it takes more as it grows. When there are none,
 * those of the client that runs most give way, of these the one of the highest priority number,
 * then the youngest: their pages go to the host's memory (moves of the plan), or are computed
 * again in the arithmetic that made them. The first in that order always goes on. */
#ifndef ENGINE_SCHED_SCHED_H
#define ENGINE_SCHED_SCHED_H

#include <stdbool.h>

#include "engine/sched/pages.h"
#include "engine/sched/sampling_state.h"
#include "engine/sched/sched_clients.h"

enum {
    SCHED_STOP_IDS_MAX = 24, /* three of Harmony and CONFIG_STOP_IDS_MAX of the checkpoint */
    SCHED_MESSAGE_END_IDS_MAX = 4,
    PREEMPTIONS_MAX =
        3, /* who gave way so often does so no more for later ones, whatever their priority */
    /* Later requests of the same client that may be admitted before one that waits, and requests
     * of other clients before one of a client of which some wait. Then every second place is for
     * those who were passed so often, in that order: sched_bypass_bound(). */
    BYPASS_MAX_DEFAULT = 1024,
    PREFILL_ROWS_MIN = 16, /* of prompts in every step, however slow the machine */
    OLDEST_PREFILL_PART =
        4 /* the prompt admitted first, and the one that gives way last, get 1/4 each */
};

/* While somebody generates, a step is planned to take no longer than this, or than this many steps
 * of the generated rows alone, whichever is more. */
#define STEP_TARGET_NS     100e6
#define STEP_TARGET_FACTOR 4.0

struct sched_limits {
    int n_seqs_max, n_batch_tokens_max; /* n_batch_tokens_max >= n_seqs_max */
    int context_tokens_max, window_tokens;
    int n_pages[N_PAGE_GROUPS];
    int n_host_pages[N_PAGE_GROUPS]; /* for sequences that gave way */
    int bypass_max;                  /* see BYPASS_MAX_DEFAULT */
    int slot_share; /* a client runs at most so many sequences for each free slot; 0: no limit */
    bool no_prefix_cache;
    int32_t message_end_ids
        [SCHED_MESSAGE_END_IDS_MAX]; /* that end a message: one may go on behind it */
    int n_message_end_ids;
    struct batch_counts lists; /* sampling_state_max(); a sequence's lists fit in by themselves */
    int32_t stop_ids[SCHED_STOP_IDS_MAX];
    int n_stop_ids;
};

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_ENDED };

enum seq_end {
    SEQ_END_NONE,
    SEQ_END_STOP,     /* its last token is a stop token */
    SEQ_END_LENGTH,   /* n_tokens_max reached */
    SEQ_END_CANCELED, /* taken out by sched_remove */
    SEQ_END_TIMEOUT,  /* likewise, past its deadline */
    SEQ_END_FAILED    /* nothing could be drawn from its logits, or the device failed */
};

struct seq_times {
    uint64_t submit_ns, admit_ns, first_token_ns, last_token_ns; /* 0 = not yet */
};

struct prefix_node;

/* A token list and its page lists. Its memory belongs to the one who made it; from sched_add until
 * it is SEQ_ENDED the scheduler is the only one to change it. */
struct seq {
    int32_t *tokens; /* (n_tokens_max): the prompt, then what was drawn; never moves */
    int n_prompt, n_tokens, n_tokens_max;
    int n_stored; /* positions whose K and V lie in the pages */
    struct page_list pages[N_PAGE_GROUPS];
    struct batch_sample
        sampling_params; /* temperature, top_k, ..., seed; row and position are set a step */
    bool is_uncached;    /* neither takes from the prefix cache nor gives to it */
    bool is_exact;       /* takes from it only what its own prompt would give, bit for bit */
    const char *salt;    /* of its prefix tree; borrowed; may be NULL */
    int n_cached;        /* positions that it had from the cache when it was first admitted */
    struct sampling_state lists;
    bool
        has_prompt_logprobs; /* the log-probability of every token of its prompt but the first is told, */
    int n_top_prompt_logprobs; /* with so many of the likeliest beside it */
    bool
        is_prompt_only; /* ends when its prompt is computed: what is drawn then is no token of it */
    bool is_constrained; /* its mask depends on its last token: see sched_mask_ready() */
    bool ignore_stop;    /* of the limits' stop ids; */
    int32_t stop_ids[OSP_STOP_TOKENS_MAX]; /* (n_stop_ids) and its own, which end it in any case */
    int n_stop_ids;
    int priority;           /* lower goes first, among the requests of one client */
    const char *client_key; /* whose share it takes; borrowed; NULL: of those who give none; */
    const char *user_key;   /* and which part of that; likewise */
    uint64_t deadline_ns;   /* 0: none */
    enum seq_state state;
    enum seq_end end;
    enum sample_failure
        failure; /* of a draw that ended it as SEQ_END_FAILED; 0: it was not a draw */
    struct seq_times times;
    void *owner; /* the scheduler never looks at it */

    /* the scheduler's own */
    struct client *client, *user; /* user->parent is the client */
    int64_t arrival, admission;   /* numbers in order */
    struct bypass bypass;         /* by later ones of the client that were admitted */
    int rank;                     /* so many of its client give way after it */
    struct seq *before, *after;   /* in the queue */
    int n_rows;                   /* of it in the step that is planned */
    int n_logprobs_done; /* has_prompt_logprobs: positions whose logits were told of, or are under way */
    bool is_in_flight;        /* has rows in the step under way, */
    bool is_token_pending;    /* which draws its next token, */
    int pending_sample;       /* as this one of its samples */
    enum seq_end end_pending; /* ends so, whatever that is; SEQ_END_NONE: it goes on */
    bool needs_mask;          /* is held, and its last token has not made a mask yet */
    int n_charged;            /* positions that its client was charged for */
    int n_preempted;
    struct page_list host[N_PAGE_GROUPS]; /* is_swapped: its pages' places in the host's memory */
    bool is_swapped;
    struct prefix_node
        *node;     /* of its last page that is in the prefix cache; a root; NULL: uncached */
    int n_chained; /* pages that are */
    bool is_cut;   /* the cache has others for the rest */
    int n_clean;   /* positions that are clean in what it took; INT_MAX: all */
};

/* Copies the prompt. n_tokens_max counts prompt and answer; the caller has checked it against the
 * limits. */
CHECKED enum osp_status seq_init(struct seq *q, const struct sched_limits *l, const int32_t *prompt,
                                 int n_prompt, int n_tokens_max);
void seq_release(struct seq *q); /* accepts a zeroed one; it must hold no page */

/* One sequence's rows in a step: positions [first, first + n_rows). The last of them may have a
 * token that the step under way draws. */
struct step_chunk {
    struct seq
        *seq; /* NULL: it has left since the step was sent, and nobody wants what these rows give */
    int first, n_rows;
    bool is_sampled; /* a token is drawn from the last row */
    int n_prompt_logprobs; /* rows, the last ones but for one that draws: the token behind each is known, and scored */
};

/* Position of the first row that is told of. */
static inline int chunk_first_logprob(const struct step_chunk *p)
{
    return p->first + p->n_rows - p->is_sampled - p->n_prompt_logprobs;
}

/* To be done in order before the step, whatever its parts. `to` and `from` are pages, but for
 * the one that is a place in the host's memory. */
enum move_kind { MOVE_COPY, MOVE_SWAP_OUT, MOVE_SWAP_IN };
struct page_move {
    enum move_kind kind;
    enum page_group group;
    int32_t from, to;
};

struct step_plan {
    struct page_move *moves; /* (n_moves) */
    int n_moves;
    struct step_chunk *chunks; /* (n_chunks) generated rows first */
    int n_chunks, n_rows, n_prefill_rows, n_sampled, n_prompt_logprobs, n_pages;
    bool has_begun;
    bool is_ahead;       /* made while the step before was under way, */
    bool is_sent;        /* and given to the device then: it begins as it is, whoever leaves */
    bool is_valid;       /* nothing has changed since it was made */
    struct batch *batch; /* laid out, but for tokens that were not known then; NULL: not yet */
};

struct sched;

/* Counts since sched_new(), except where a comment says "now". */
struct sched_stats {
    int n_running, n_waiting; /* sequences, now */
    int64_t n_steps, n_prompt_tokens, n_generated_tokens, n_ended;
    int64_t n_cached_tokens, n_preemptions, n_swapped_pages;
    int64_t n_recomputed;    /* rows computed again after a preemption */
    int64_t n_planned_ahead; /* steps that began as planned while the step before ran */
    int64_t n_sent;          /* of these, steps sent to the device while the step before ran */
    int64_t n_wasted_rows;   /* rows of sent steps whose sequence had left */
    int pages_used[N_PAGE_GROUPS];   /* now: held by sequences */
    int pages_cached[N_PAGE_GROUPS]; /* now: held by the prefix cache alone */
    int pages_total[N_PAGE_GROUPS];
    int host_pages_used[N_PAGE_GROUPS]; /* now: of preempted sequences */
};

CHECKED enum osp_status sched_new(struct sched **out, const struct sched_limits *l);
void sched_free(struct sched *s); /* accepts NULL; no sequence may be in it */
struct sched_stats sched_stats(const struct sched *s);

/* Pages a running sequence holds at most between two steps of the sliding-window group. */
int sched_window_pages(int window_tokens);
/* Pages of the window group that the chunks of one step need on top, all sequences together. */
int sched_chunk_pages(int n_batch_tokens_max);
/* True when a sequence of n_tokens_max can be admitted to an empty scheduler. */
bool sched_can_fit(const struct sched_limits *l, int n_tokens_max);

/* How often a sequence, by others of its client, or a client, by other clients, can have been
 * passed when it is admitted. */
int64_t sched_bypass_bound(const struct sched_limits *l, const struct bypass *p);

/* Puts q into the queue. OSP_ENOMEM: there is none to remember its client by; q has ended. */
CHECKED enum osp_status sched_add(struct sched *s, struct seq *q);
/* Takes q out, waiting or running, and ends it. False: it has rows in the step under way, gets
 * no more, and is taken out when that is committed, as its end or as this one. */
bool sched_remove(struct sched *s, struct seq *q, enum seq_end end);
/* A sequence that is past its deadline, and not about to leave; or NULL. */
struct seq *sched_expired(const struct sched *s, uint64_t now_ns);
/* Any sequence that is in it, or NULL. */
struct seq *sched_any(const struct sched *s);
/* The running sequences, 0 <= i < sched_n_running(), in order of admission. */
int sched_n_running(const struct sched *s);
struct seq *sched_running(const struct sched *s, int i);
/* The waiting sequences in order of arrival: the first one, and the one after q; or NULL. */
struct seq *sched_first_waiting(const struct sched *s);
struct seq *sched_next_waiting(const struct seq *q);
/* True when sched_remove() was called and the step in flight still has rows of q. */
bool seq_is_leaving(const struct seq *q);
/* True when q has no rows until sched_mask_ready() is called for its last token. */
bool seq_needs_mask(const struct seq *q);
/* Admits, and plans the next step: valid until the next call. No parts: there is nothing to do.
 * While a step is under way it plans ahead, as if all went on that it draws for: no parts then
 * mean that its tokens have to be known first. Called again when they are, it gives the same
 * plan if all did go on, else another one, whose moves begin with those of the first one. */
const struct step_plan *sched_plan(struct sched *s, uint64_t now_ns);
/* The plan's moves are done. They are to be even if it has no parts: the prefix cache may have
 * kept their pages of one that has left. */
void sched_moves_done(struct sched *s);
/* Whether the step that was planned ahead, and whose batch is laid out, can be given to the
 * device while the one before is under way: it moves no page, and nothing but tokens depends on
 * what that one draws. */
bool sched_can_send(const struct sched *s);
/* It was. Until it begins, when the step under way is committed, sched_plan() gives the same
 * plan; who leaves meanwhile has no part in it any more. */
void sched_mark_sent(struct sched *s);
/* The step that has begun and is not committed; NULL: none. */
const struct step_plan *sched_in_flight(const struct sched *s);
/* The plan of the last sched_plan() until it begins; it may be empty. */
const struct step_plan *sched_next(const struct sched *s);
/* The expected time of a step with that plan, and the time beyond which it is stuck (step_time.h).
 * sched_predict_ns() is 0 before such a step has run. The plan has rows. */
double sched_predict_ns(const struct sched *s, const struct step_plan *plan);
double sched_limit_ns(const struct sched *s, const struct step_plan *plan);
/* The planned step, in which all tokens are known or which was sent, is on its way: what comes
 * later finds its rows stored. */
void sched_begin(struct sched *s);
/* The step under way has run, in step_ns; tokens: (n_prompt_logprobs + n_sampled) of the batch's samples. A
 * token < 0 is a failed draw. Sequences that end leave the scheduler, but the plan's parts still
 * name them, until sched_plan() is called. */
void sched_commit(struct sched *s, const int32_t *tokens, uint64_t step_ns, uint64_t now_ns);
/* The step under way has failed, or nobody wants its tokens. */
void sched_abandon(struct sched *s);
/* The mask of q, which is held, is that for its next draw. Without it q has no rows, and others
 * do not wait. */
void sched_mask_ready(struct sched *s, struct seq *q);

/* Bytes that the batch of any plan fits in, and the batch of the current plan, laid out there.
 * While a step is under way tokens that it draws are batch_token_sampled(), until it is called
 * again when they are known; NULL if more than tokens depends on them. */
int64_t sched_batch_bytes_max(const struct sched_limits *l);
const struct batch *sched_batch(struct sched *s, void *memory);

#endif
