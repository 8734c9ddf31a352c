/* The scheduler: which rows of which sequences make up the next step, and what a finished step
 * changes. A pure function of its state and of the clock values passed to it: no device, no socket,
 * no lock, no clock. Owned by one thread; tests/sim_engine.c runs it for millions of seeded steps.
 *
 * Policy (docs/engine.md):
 * - Every decoding sequence has one row in every step. The rest of the step's row budget goes to
 *   prefill chunks; their size is limited so that decode requests do not wait long. On a device
 *   where a step with both takes as long as two steps, prefill chunks get steps of their own: the
 *   first tokens of their prompts are there earlier, and decode requests wait as long as before.
 * - A sequence with draft tokens has further decode rows, one a draft, where rows, pages and lists
 *   are left over: drafts never preempt, and never take the row of another sequence. The drafts
 *   that equal the sampled tokens are accepted when the step is committed; all else looks at the
 *   committed tokens alone (docs/drafts.md).
 * - Admission: the client served least is next. Among its requests, the lowest priority number is
 *   next, then the user served least, then the oldest request. Bypasses are bounded.
 * - A sequence is admitted when the pages of its prompt are free or held by the prefix cache alone.
 *   It allocates more pages as it grows.
 * - Preemption: when no page is left, the client with the most running sequences loses one: the one
 *   with the highest priority number, then the youngest. Its pages are swapped to host memory
 *   (moves of the plan), or recomputed later in the arithmetic that made them. The first sequence
 *   in preemption order is never preempted. */
#ifndef ENGINE_SCHED_SCHED_H
#define ENGINE_SCHED_SCHED_H

#include <stdbool.h>

#include "engine/sched/draft_tree.h"
#include "engine/sched/pages.h"
#include "engine/sched/prefix_log.h"
#include "engine/sched/sampling_state.h"
#include "engine/sched/sched_clients.h"

enum {
    SCHED_STOP_IDS_MAX = 24, /* three of Harmony and CONFIG_STOP_IDS_MAX of the checkpoint */
    SCHED_MESSAGE_END_IDS_MAX = 4,
    PREEMPTIONS_MAX = 3, /* preemptions of a sequence; then later sequences no longer preempt it */
    /* Later requests of the same client that may be admitted before a waiting request, and requests
     * of other clients that may be admitted before a waiting client's. A request or client bypassed
     * so often is due. Among the requests of a client, every second admission goes to the one that
     * became due first. Among clients, an admission that bypasses a due client is followed by the
     * admission of the client that became due first: sched_bypass_bound(). */
    BYPASS_MAX_DEFAULT = 1024,
    PREFILL_ROWS_MIN = 16, /* in every step, however slow the machine */
    /* A step without decode rows has this part of n_batch_tokens_max at least: with fewer rows, the
     * experts' weights are read for too few rows each, and a long prompt takes longer. */
    PREFILL_ALONE_PART = 4,
    OLDEST_PREFILL_PART =
        4 /* the prompt admitted first, and the one preempted last, get 1/4 of the rows each */
};

/* A step with decode rows is planned to take at most limits.target_itl_ns; or, where that is 0,
 * STEP_TARGET_NS, or STEP_TARGET_FACTOR times what its decode rows take alone, whichever is more.
 * One without, STEP_ALONE_TARGET_NS: a request that comes meanwhile waits for its end. */
#define STEP_TARGET_NS       100e6
#define STEP_TARGET_FACTOR   4.0
#define STEP_ALONE_TARGET_NS 300e6
/* Of limits.has_prefill_bursts: where prompts wait, the time of a step with decode rows grows by
 * the ratio of these prompts to the decode rows, up to this. */
#define STEP_BURST_TARGET_NS 250e6
/* Of limits.has_prefill_bursts: while all n_seqs_max sequences run, and these are many, prompts
 * that do not fill a prefill step wait for others for so many decode steps, since a step of few
 * prefill rows takes nearly as long as one of more. */
enum { PREFILL_HELD_STEPS = 4, PREFILL_HELD_SEQS = 64 };

struct sched_limits {
    int n_seqs_max, n_batch_tokens_max; /* n_batch_tokens_max >= n_seqs_max */
    int context_tokens_max, window_tokens;
    int n_draft_rows_max; /* of a step, all sequences together; 0: no drafts */
    int n_pages[N_PAGE_GROUPS];
    int n_host_pages[N_PAGE_GROUPS]; /* for swapped sequences */
    int bypass_max;                  /* see BYPASS_MAX_DEFAULT */
    int slot_share; /* sequences a client may run for each free slot; 0: no limit */
    bool no_prefix_cache;
    bool has_decode_prompts; /* for tests: the device gets prefill rows as decode rows */
    double target_itl_ns;    /* time between two steps with decode rows; 0: STEP_TARGET_NS */
    int n_held_seqs; /* has_prefill_bursts: prompts are held from so many n_seqs_max on; 0: never */
    /* device_info.has_slow_small_prefill: prompts are computed together rather than one by one. */
    bool has_prefill_bursts;
    bool has_steps_apart; /* device_info.runs_phases_apart: no step mixes decode and prefill rows */
    /* The key of a draft head at a position depends on the next token: a sequence that finds a part
     * of a page in the prefix cache computes the last position of it again. */
    bool has_draft_head;
    bool has_guesses_behind; /* the head guesses behind a step whose drafts are not counted */
    int32_t message_end_ids
        [SCHED_MESSAGE_END_IDS_MAX]; /* tokens that end a message, where later prompts go on */
    int n_message_end_ids;
    struct batch_counts lists; /* sampling_state_max(); one sequence's lists always fit */
    int32_t stop_ids[SCHED_STOP_IDS_MAX];
    int n_stop_ids;
};

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_ENDED };

enum seq_end {
    SEQ_END_NONE,
    SEQ_END_STOP,     /* its last token is a stop token */
    SEQ_END_LENGTH,   /* n_tokens_max reached */
    SEQ_END_CANCELED, /* removed by sched_remove */
    SEQ_END_TIMEOUT,  /* likewise, past its deadline */
    SEQ_END_FAILED    /* no token could be sampled from its logits, or the device failed */
};

struct seq_times {
    uint64_t submit_ns, admit_ns, first_token_ns, last_token_ns; /* 0 = not yet */
};

struct prefix_node;

/* A token list and its page lists. The caller of seq_init() owns its memory; from sched_add() until
 * it is SEQ_ENDED only the scheduler changes it. */
struct seq {
    int32_t *tokens; /* (n_tokens_max): the prompt, then the sampled tokens; never moves */
    int n_prompt, n_tokens, n_tokens_max;
    int n_stored; /* positions whose K and V are in the pages */
    struct page_list pages[N_PAGE_GROUPS];
    struct batch_sample
        sampling_params; /* temperature, top_k, ..., seed; row and position are set a step */
    bool is_uncached;    /* does not use the prefix cache, neither reads nor adds */
    bool is_exact;       /* reads only pages that its own prompt would compute, bit for bit */
    const char *salt;    /* of its prefix tree; borrowed; may be NULL */
    int n_cached;        /* positions found in the cache when it was first admitted */
    struct sampling_state lists;
    bool has_prompt_logprobs;  /* log-probabilities of all its prompt's tokens but the first */
    int n_top_prompt_logprobs; /* likeliest tokens beside each of them */
    bool is_prompt_only; /* ends when its prompt is computed; the token sampled then is dropped */
    bool is_constrained; /* its mask depends on its last token: see sched_mask_ready() */
    bool ignore_stop;    /* the stop ids of the limits do not end it */
    int32_t stop_ids[OSP_STOP_TOKENS_MAX]; /* (n_stop_ids) its own, which always end it */
    int n_stop_ids;
    int priority;           /* lower goes first, among the requests of one client */
    const char *client_key; /* client whose share it uses; borrowed; NULL: the unnamed client */
    const char *user_key;   /* user of that client; likewise */
    uint64_t deadline_ns;   /* 0: none */
    enum seq_state state;
    enum seq_end end;
    enum sample_failure
        failure; /* of the sample that ended it as SEQ_END_FAILED; 0: no sample failed */
    struct seq_times times;
    void *owner; /* not used by the scheduler */

    /* private to the scheduler */
    struct client *client, *user; /* user->parent is the client */
    int64_t arrival, admission;   /* sequence numbers */
    struct bypass bypass;         /* by later requests of the client */
    int rank;                     /* among its client's sequences in preemption order; 0: last */
    struct seq *before, *after;   /* in the queue */
    int n_rows;                   /* its rows in the planned step, without those of drafts */
    int n_draft_rows;             /* of its drafts, those that the planned step verifies */
    int32_t drafts[DRAFTS_MAX];   /* (n_drafts) after its last token: sched_set_drafts() */
    int8_t draft_parents[DRAFTS_MAX]; /* (n_drafts): draft_tree.h */
    int n_drafts;
    int n_logprobs_done; /* has_prompt_logprobs: positions whose logits are reported or in flight */
    bool is_in_flight;   /* has rows in the step in flight */
    bool is_token_pending; /* the step in flight samples its next token */
    int pending_sample;    /* is_token_pending: index of that sample in the step */
    enum seq_end
        end_pending; /* how it ends when that step is committed; SEQ_END_NONE: it does not */
    bool needs_mask; /* is_constrained, and the mask for its last token is missing */
    int n_charged;   /* positions that its client was charged for */
    int n_preempted;
    struct page_list host[N_PAGE_GROUPS]; /* is_swapped: the places of its pages in host memory */
    bool is_swapped;
    struct prefix_node
        *node;     /* of its last page in the prefix cache, or the root; NULL: uncached */
    int n_chained; /* its pages that are in the prefix cache */
    bool is_cut;   /* no further page is added: the cache has other pages for these tokens */
    int n_clean;   /* clean positions of what it found in the cache; INT_MAX: all */
};

/* Copies the prompt. n_tokens_max counts prompt and answer; the caller has checked it with
 * sched_can_fit(). */
CHECKED enum osp_status seq_init(struct seq *q, const struct sched_limits *l, const int32_t *prompt,
                                 int n_prompt, int n_tokens_max);
void seq_release(struct seq *q); /* accepts a zeroed sequence; it must hold no page */

/* One sequence's rows in a step: positions [first, first + n_rows). The token of the last row may
 * still be sampled by the step in flight. With drafts the last n_drafts rows are those of the
 * drafts, and the row before them and each of them are sampled. */
struct step_chunk {
    struct seq *seq; /* NULL: it left after the step was sent; its results are dropped */
    int first, n_rows;
    bool is_sampled; /* a token is sampled from the last row, or from the last 1 + n_drafts */
    int n_drafts;
    int n_new;                   /* once committed: tokens that the sequence got, */
    int8_t path[1 + DRAFTS_MAX]; /* (n_new) and the sample of each, and its row: 0 is that of the
                                  * last token, 1 + i of draft i */
    /* Rows whose logits give the log-probability of the prompt's next token: the last rows of the
     * chunk, before the row that is sampled. */
    int n_prompt_logprobs;
};

static inline int chunk_n_samples(const struct step_chunk *p)
{
    return p->n_prompt_logprobs + (p->is_sampled ? 1 + p->n_drafts : 0);
}

/* Position of the first row with prompt_logprobs. */
static inline int chunk_first_logprob(const struct step_chunk *p)
{
    return p->first + p->n_rows - p->is_sampled - p->n_prompt_logprobs;
}

/* To be done in order before the step, even if it has no chunks. `to` and `from` are pages; a swap
 * has a place in host memory as one of them. MOVE_SLOT copies one slot, of an accepted draft that
 * is not in place. */
enum move_kind { MOVE_COPY, MOVE_SWAP_OUT, MOVE_SWAP_IN, MOVE_SLOT };
struct page_move {
    enum move_kind kind;
    enum page_group group;
    int32_t from, to;
    int32_t from_slot, to_slot; /* of MOVE_SLOT, else 0 */
};

struct step_plan {
    struct page_move *moves; /* (n_moves) */
    int n_moves;
    struct step_chunk *chunks; /* (n_chunks) decode rows first */
    int n_chunks, n_rows, n_prefill_rows, n_sampled, n_prompt_logprobs, n_pages;
    int n_draft_rows; /* of n_rows, those of drafts */
    bool has_begun;
    bool has_decode_prompts; /* of the limits */
    bool has_held;           /* prompts wait, though there could be a prefill step of their rows */
    bool is_ahead;           /* made while the step before was in flight */
    bool is_sent;            /* queued on the device: it begins as it is, even if sequences leave */
    bool is_valid;           /* nothing has changed since it was made */
    struct batch *batch;     /* laid out, except for tokens that were unknown then; NULL: not yet */
};

struct sched;

/* Counts since sched_new(), except where a comment says "now". */
struct sched_stats {
    int n_running, n_waiting; /* sequences, now */
    int64_t n_steps, n_prompt_tokens, n_generated_tokens, n_ended;
    int64_t n_cached_tokens, n_preemptions, n_swapped_pages;
    int64_t n_prompt_left;   /* tokens of running sequences' prompts that are not computed, now */
    int64_t n_recomputed;    /* rows computed again after a preemption */
    int64_t n_planned_ahead; /* steps that began as planned while the step before ran */
    int64_t n_sent;          /* of these, steps sent to the device while the step before ran */
    int64_t n_wasted_rows;   /* rows of sent steps whose sequence had left */
    int64_t n_draft_rows;    /* drafts that were verified, */
    int64_t n_accepted;      /* and those of them that became tokens */
    int pages_used[N_PAGE_GROUPS];   /* now: held by sequences */
    int pages_cached[N_PAGE_GROUPS]; /* now: held by the prefix cache alone */
    int pages_total[N_PAGE_GROUPS];
    int host_pages_used[N_PAGE_GROUPS]; /* now: of preempted sequences */
};

CHECKED enum osp_status sched_new(struct sched **out, const struct sched_limits *l);
/* From now on changes of the prefix cache are added to this log, borrowed until sched_free(). */
void sched_log_prefixes(struct sched *s, struct prefix_log *log);
void sched_free(struct sched *s); /* accepts NULL; no sequence may be in it */
struct sched_stats sched_stats(const struct sched *s);

/* Pages of the sliding-window group that a running sequence holds at most between two steps. */
int sched_window_pages(int window_tokens);
/* Pages of that group that the chunks of one step need in addition, all sequences together. */
int sched_chunk_pages(int n_batch_tokens_max);
/* True when a sequence of n_tokens_max can be admitted to an empty scheduler. */
bool sched_can_fit(const struct sched_limits *l, int n_tokens_max);

/* The most bypasses that a sequence (by others of its client) or a client (by other clients) can
 * have when it is admitted. */
int64_t sched_bypass_bound(const struct sched_limits *l, const struct bypass *p);

/* Puts q into the queue. OSP_ENOMEM: no memory for its client's record; q has ended. */
CHECKED enum osp_status sched_add(struct sched *s, struct seq *q);
/* Removes q, waiting or running, and ends it. False: it has rows in the step in flight. Then it
 * gets no more rows, and ends when that step is committed: by its own end, else with `end`. */
bool sched_remove(struct sched *s, struct seq *q, enum seq_end end);
/* A sequence that is past its deadline and not leaving already; or NULL. */
struct seq *sched_expired(const struct sched *s, uint64_t now_ns);
/* Any sequence of the scheduler, or NULL. */
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
/* Admits requests and plans the next step; the plan is valid until the next call. A plan without
 * chunks means that there is nothing to do. While a step is in flight, it plans ahead as if no
 * sequence ended with that step; a plan without chunks then means that the tokens are needed first.
 * Called again after the commit, it returns the same plan if no sequence did end, else a new plan
 * whose moves begin with those of the first one. */
const struct step_plan *sched_plan(struct sched *s, uint64_t now_ns);
/* The plan's moves are done. They must be done even if the plan has no chunks: the prefix cache may
 * have kept the pages of a sequence that has left. */
void sched_moves_done(struct sched *s);
/* True when the step planned ahead, whose batch is laid out, can be queued on the device behind the
 * step in flight: it moves no page, and nothing except tokens depends on what that step samples. */
bool sched_can_send(const struct sched *s);
/* The step was queued. Until it begins, when the step in flight is committed, sched_plan() returns
 * the same plan; the chunks of sequences that leave meanwhile have seq == NULL. */
void sched_mark_sent(struct sched *s);
/* Whether such a step waits to begin. */
bool sched_has_sent(const struct sched *s);
/* The step that has begun and is not committed; NULL: none. */
const struct step_plan *sched_in_flight(const struct sched *s);
/* The plan of the last sched_plan() until it begins; it may be empty. */
const struct step_plan *sched_next(const struct sched *s);
/* The expected time of a step with that plan, and the time beyond which it is stuck (step_time.h).
 * sched_predict_ns() is 0 before such a step has run. The plan has rows. */
double sched_predict_ns(const struct sched *s, const struct step_plan *plan);
double sched_limit_ns(const struct sched *s, const struct step_plan *plan);
/* The planned step, whose tokens are all known or which was sent, has been launched: from now on
 * its rows count as stored. */
void sched_begin(struct sched *s);
/* The step in flight has run, in step_ns; tokens: (n_prompt_logprobs + n_sampled) of the batch's
 * samples, the samples of drafts included. A token < 0 is a failed sample (enum sample_failure).
 * Sequences that end leave the scheduler, but the plan's chunks still name them until sched_plan()
 * is called. */
void sched_commit(struct sched *s, const int32_t *tokens, uint64_t step_ns, uint64_t now_ns);
/* The step in flight has failed, or its tokens are not needed. */
void sched_abandon(struct sched *s);
/* Draft tokens after the last token of q, to be verified in the next step: the first `n` of them,
 * as many as that step has place for. They replace earlier ones, and are dropped when q gets a
 * token. q->is_constrained: its present mask must be that of all n samples after the first, too. A
 * step with drafts is planned only when no step is in flight. */
void sched_set_drafts(struct sched *s, struct seq *q, const int32_t *drafts, int n);
/* The same for a tree of drafts: parents (n) as in draft_tree.h. */
void sched_set_tree(struct sched *s, struct seq *q, const int32_t *drafts, const int8_t *parents,
                    int n);
/* The first n drafts of q, if it still has them: those set before may have been tokens < 0, for a
 * device that knows them (batch.h). To be called before the step with them is committed. */
void sched_know_drafts(struct seq *q, const int32_t *drafts, int n);
/* True when that token ends the answer of q. */
bool sched_is_stop(const struct sched *s, const struct seq *q, int32_t token);
/* The most drafts of q that the next step can use; 0: its last token is not known or stored. */
int sched_drafts_max(const struct sched *s, const struct seq *q);
/* The same of the step after the one in flight, whatever number of the chunk's drafts that step
 * accepts; may be negative. */
int sched_drafts_after_max(const struct sched *s, const struct step_chunk *chunk);
/* The mask of the constrained sequence q is ready for its next sample. Until then q has no rows;
 * other sequences do not wait for it. */
void sched_mask_ready(struct sched *s, struct seq *q);

/* Bytes that hold the batch of any plan. */
int64_t sched_batch_bytes_max(const struct sched_limits *l);
/* The batch of the current plan, laid out in `memory` of that size. While a step is in flight, the
 * tokens that it samples are batch_token_sampled(), and the caller sets tokens_ticket; a call after
 * the commit fills them in. NULL: more than tokens depends on the step in flight. */
struct batch *sched_batch(struct sched *s, void *memory);

#endif
