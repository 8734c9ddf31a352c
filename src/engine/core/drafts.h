/* Drafts of requests: made between two steps, passed to the scheduler, and compared with the tokens
 * that came. Which drafters there are is decided by the options of engine and request; how many
 * drafts are verified, by draft_control.h. Used by the engine's thread. */
#ifndef ENGINE_CORE_DRAFTS_H
#define ENGINE_CORE_DRAFTS_H

#include "engine/core/draft_model.h"
#include "engine/draft/draft_control.h"
#include "engine/draft/drafter.h"
#include "engine/sched/sched.h"
#include "osprey.h"

struct osp_engine;
struct osp_request;

/* Of one request. Zeroed: it has no drafts. */
struct request_drafts {
    struct drafter *drafters[N_DRAFT_SOURCES]; /* NULL: not used by this request */
    struct draft_acceptance acceptance[N_DRAFT_SOURCES];
    bool is_begun; /* acceptance[] has its first value */
    /* The proposal after the first `at` tokens of the sequence; at = 0: none was made yet. It is
     * compared with the tokens that come even if no step verifies it. */
    int32_t tokens[DRAFTS_MAX]; /* (n) */
    int8_t parents[DRAFTS_MAX]; /* (n): draft_tree.h; most proposals are chains */
    int n, at;
    int32_t replay[DRAFTS_MAX]; /* (n_replay), with osp_speculative.replays */
    int n_replay;
    enum draft_source source;
    struct draft_progress progress; /* of the draft head */
    bool has_model;                 /* the engine has a draft head, and this request may use it */
    /* The head follows a request from its first rows on, or not at all; a request that it does not
     * follow has no guesses. */
    bool is_decided, is_followed;
    int model_at,
        paid_at;  /* tokens when the head last guessed, and when its drafts were verified */
    int n_probes; /* guesses that were made to see whether they would be right */
    int n_accepted_prediction, n_rejected_prediction; /* verified drafts of the prediction */
};

/* Of the engine. */
struct engine_drafts {
    struct osp_speculative options;
    struct draft_control control;
    struct draft_acceptance acceptance[N_DRAFT_SOURCES]; /* of all requests */
    struct draft_candidate *candidates;                  /* (n_seqs_max) */
    struct osp_request **owners;                         /* (n_candidates) of them */
    int n_candidates;
    struct draft_model *model;      /* NULL: the method has no draft model */
    struct draft_request *requests; /* (n_requests) of the last guesses, of n_seqs_max */
    int n_requests;
    bool are_behind; /* they are queued behind the step in flight: drafts_guess_behind() */
    /* Of the head's trees; n = 0: it guesses chains. The shape of each request has the likeliest
     * nodes of the tree. */
    struct draft_shape tree;
    struct draft_shape *shapes; /* (n_requests) */
    /* How often the second, third, .. guess behind a token is right; that of the first is in the
     * requests. */
    struct draft_acceptance rank_acceptance[DRAFTS_MAX];
    struct draft_progress **progress; /* (n_seqs_max) of a step's chunks */
    uint64_t guess_ns, other_ns;      /* of the draft model since the last results */
    double fair_guess_ns;             /* what these guesses count for */
    bool
        is_wanted; /* some sequence had drafts, if only the step that was planned ahead took them */
    /* Requests that left beside a step in which they have no row: the states that wait are lost,
     * and the head misses their positions in pages that the prefix cache keeps. */
    int64_t n_unstored;
    struct osp_draft_stats stats;
    uint64_t results_ns; /* of the step before; 0: there was a pause */
};

/* Whether the draft head guesses trees that are no chains. */
bool drafts_are_trees(const struct osp_speculative *o);
/* model: of the engine; used by methods with a draft model. */
CHECKED enum osp_status engine_drafts_init(struct engine_drafts *d,
                                           const struct osp_speculative *options,
                                           struct model *model, const struct sched_limits *limits);
void engine_drafts_release(struct engine_drafts *d);

/* Makes the drafters of a new request. From the thread that submits it. */
CHECKED enum osp_status request_drafts_init(struct osp_request *r, const struct osp_engine *e,
                                            const struct osp_request_options *opt);
void request_drafts_release(struct request_drafts *d);

/* No step is in flight: chooses the drafts of the next step, or, if that was sent, whether the step
 * after it is worth planning only when its drafts are known. A failure is the device's. */
CHECKED enum osp_status drafts_make(struct osp_engine *e);
/* On a device with runs_pipelined the step may be run before its last drafts are known: the ticket
 * of the pass that gives them, which is the step's tokens_ticket; 0: all are known. */
uint64_t drafts_open_ticket(const struct osp_engine *e);
/* Waits for these drafts. To be called before the step with them is waited for. A failure is the
 * device's. */
CHECKED enum osp_status drafts_receive(struct osp_engine *e);
/* While a step with drafts is in flight, before it is waited for: queues the head's passes for the
 * drafts of the step after it behind it, if these do not depend on its tokens, and are worth it. */
CHECKED enum osp_status drafts_guess_behind(struct osp_engine *e);
/* Whether the draft head follows a request of the plan, and needs the states of its step, which the
 * step behind it replaces. */
bool drafts_follow(struct osp_engine *e, const struct step_plan *plan);
/* While a step is in flight: whether the step behind it can be sent before its tokens are known, as
 * far as the draft head's states are concerned. */
bool drafts_can_keep_ahead(struct osp_engine *e);
/* Queues the copies of these states; the step behind is sent next. A failure is the device's. */
CHECKED enum osp_status drafts_keep_ahead(struct osp_engine *e);
/* A request will leave between two steps. A failure is the device's. */
CHECKED enum osp_status drafts_leave(struct osp_engine *e, struct osp_request *r);
/* The step of that plan was committed. A failure is the device's. */
CHECKED enum osp_status drafts_observe(struct osp_engine *e, const struct step_plan *plan);

#endif
