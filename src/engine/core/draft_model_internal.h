/* What draft_model.c, which follows the target and guesses chains, shares with
 * draft_guess_tree.c. */
#ifndef ENGINE_CORE_DRAFT_MODEL_INTERNAL_H
#define ENGINE_CORE_DRAFT_MODEL_INTERNAL_H

#include "engine/core/draft_model.h"

/* The places of one request. */
struct draft_places {
    const struct draft_progress *owner; /* NULL: free */
    uint64_t used;                      /* the last step with its owner */
};

/* The passes of the last chain; the guesses of the last ones have not been read. */
struct chain {
    struct draft_request **at; /* (n_seqs): sample i of a pass is that of at[i] */
    int n_seqs;
    int n[DRAFTS_MAX]; /* samples of each pass */
    uint64_t tickets[DRAFTS_MAX];
    int n_passes, n_read;
    uint64_t follows_ticket; /* of the target's step whose accepted drafts are not known; or 0 */
};

struct draft_model {
    struct model *model;
    int n_seqs_max, n_rows_max;
    int n_decode_max; /* rows of a batch that the device takes as decode rows */
    bool is_pipelined;
    bool is_queued;              /* passes run behind a step that was sent: nobody waits for them */
    int n_kept_max;              /* states of a request that wait */
    struct draft_places *places; /* (n_seqs_max) */
    uint64_t n_steps;
    void *batch_memory;
    /* The batch that is being collected, one segment a sequence. */
    struct draft_segment *segments; /* (n_seqs_max), n_segments of them */
    int n_segments, n_rows, n_pages;
    int32_t *tokens;     /* (n_seqs_max) */
    int n_samples_max;   /* of a pass that guesses trees */
    int32_t *candidates; /* (n_samples_max, DRAFT_CANDIDATES_MAX) of its samples */
    int n_candidates;    /* of the samples of the next batch */
    /* States of a step that will wait, of all its requests: copied together. */
    struct row_copy *kept; /* (n_seqs_max), n_kept of them */
    int n_kept;
    struct chain chain;
    int n_first_rows;         /* of the first pass of the last chain or tree */
    uint64_t chain_end_ns;    /* its last pass that was read, by the clock of a pipelined device */
    uint64_t device_ns;       /* likewise: of the passes that were read */
    struct pass_time *passes; /* (n_passes, n_seqs_max * (DRAFTS_MAX + 1)) that were read */
    int n_passes;
};

/* Rows of one sequence: positions [first, first + n_rows), and the tokens behind them. */
struct draft_segment {
    /* Of the sequence; or NULL: `token` is that of the first row, and where it is < 0, tokens of
     * the next rows are those of the next samples. */
    const int32_t *tokens;
    int32_t token;
    int first, n_rows;
    const int32_t *pages; /* (n_pages) of the full group, from position first_page * P on */
    int first_page, n_pages;
    const struct seq *sampled; /* guess behind the last row, as this one samples; NULL: no guess */
    int sample;                /* the index of that sample */
    int sampled_position;      /* of the guessed token */
    const struct batch_follow *follow; /* what depends on accepted drafts; NULL: nothing */
};

/* The page table of a sequence of a batch of the head, from pages[page] on. */
void draft_fill_seq(struct batch *b, const struct draft_segment *s, int seq, int row, int page);
/* How the target samples the token at `position`, for a guess of it at that row. */
struct batch_sample draft_sample_of(const struct seq *q, int row, int position);
/* Starts the pass that gives the first guess of each request. */
CHECKED enum osp_status draft_start_first(struct draft_model *d, struct draft_request *const *at,
                                          int n, uint64_t *ticket);

/* Waits for the pass of level `depth` of trees, and writes the candidates of its n samples to
 * d->candidates. */
CHECKED enum osp_status draft_read_candidates(struct draft_model *d, uint64_t ticket, int n,
                                              int depth);

/* Guesses the trees of these requests, level by level: at[i]->shape. */
CHECKED enum osp_status draft_guess_trees(struct draft_model *d, struct draft_request *const *at,
                                          int n);

#endif
