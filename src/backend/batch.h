/* A batch: everything that one step needs, in one contiguous block of bytes, without pointers: one
 * copy to the device, one broadcast to the other ranks, one blob to replay in a test.
 *
 * Letters: T tokens (rows), S sequences, R rows that need logits, P tokens a page. Rows of one
 * sequence are adjacent and in order of position. Decode rows come before prefill rows.
 *
 * Pages come in two groups, each with its own pool: GROUP_FULL for layers that see every
 * position, GROUP_WINDOW for sliding-window layers, which keep only the pages that the window
 * still touches. A sequence's table in a group is `n_pages` page numbers starting with the page
 * that holds position first_page * P. Position p lives in table[p / P - first_page], slot p % P.
 *
 * Rows of a draft tree: several rows of a sequence have the same position, so their keys and values
 * cannot all live at it. Such a batch has a mask for each row, see backend/tree_mask.h. */
#ifndef BACKEND_BATCH_H
#define BACKEND_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/tensor.h"

enum page_group { GROUP_FULL, GROUP_WINDOW, N_PAGE_GROUPS };

enum { PAGE_TOKENS = 64 }; /* P: positions a page; a multiple of every kernel's key tile */

enum phase {
    PHASE_PREFILL, /* the arithmetic of prefill, even in a chunk of one row */
    PHASE_DECODE   /* the arithmetic of decode */
};

struct batch_seq {
    int32_t first_row, n_rows; /* its rows in this batch */
    int32_t first_page[N_PAGE_GROUPS];
    int32_t table[N_PAGE_GROUPS]; /* index of its first entry in pages[] */
    int32_t n_pages[N_PAGE_GROUPS];
};

enum {
    TOP_LOGPROBS_MAX = 20,         /* the most top_logprobs of a sample */
    MASK_WORD_IDS = 32,            /* ids of a word of a mask */
    DRAFT_CANDIDATES_MAX = 16,     /* the most ids that a draft head gives for a sample */
    BATCH_DRAFTS_MAX = 16,         /* drafts that a step verifies for a sequence */
    BATCH_SAMPLES_LIMIT = 1 << 20, /* more than the samples of any batch */
    BATCH_STEPS_BACK = 3           /* tokens < 0 stand for samples of one of so many steps */
};

/* Stored in place of a token id where no token can be sampled. */
enum sample_failure {
    SAMPLE_NOT_FINITE = -1,  /* the logits have no finite largest value, or a NaN */
    SAMPLE_NONE_ALLOWED = -2 /* finite logits, but penalties, biases and mask allow no token */
};

/* An id of a sequence, prompt and answer together, for penalties. */
struct batch_seen {
    int32_t id;
    int32_t n_generated; /* how often the answer has it; 0: only the prompt has it */
};

/* Added to a logit; -infinity: the id cannot be sampled. */
struct batch_bias {
    int32_t id;
    float bias;
};

/* A row of logits and how to sample from it. Applied in this order: penalties of the ids in
 * seen[], biases, the mask (logits of ids that are not in it become -infinity), temperature, top_k,
 * top_p, min_p. A sample that does not use one of them has zeros there. */
struct batch_sample {
    int32_t row;       /* which of the T rows */
    int32_t top_k;     /* 0 = off */
    float temperature; /* 0 = greedy: the lowest id among the largest logits */
    float top_p;       /* 1 = off */
    float min_p;       /* 0 = off */
    uint32_t position; /* position of the sampled token */
    uint64_t seed;     /* of the noise of this position (backend/gumbel.h) */
    int32_t n_top;     /* top_logprobs, before penalties, biases and mask */
    int32_t n_seen, n_biases, n_mask_words;
    int32_t first_seen, first_bias; /* in seen[] and biases[]: ids rise strictly */
    int32_t first_mask_word;        /* in masks[]: bit i % 32 of word i / 32 allows id i */
    float repetition; /* positive logits of seen ids are divided by it, others times it; 0 = off */
    float presence, frequency; /* subtracted from generated ids: once; for each occurrence */
};

/* A sequence of a batch that was laid out before it was known how many drafts an earlier step, the
 * one with follows_ticket, accepts. The batch is laid out as if all were accepted; a device with
 * runs_pipelined lowers what depends on it by the number of rejected ones (backend/accept.h): the
 * row of the sequence's sample, or else the positions of its rows; and the sample's position. */
struct batch_follow {
    int32_t first_sample; /* of that step: of the row before the sequence's drafts */
    int32_t n_drafts;     /* 0: nothing is lowered */
    int32_t sample;       /* of this batch; -1: the sequence has none */
    int32_t lowers_row;   /* 1: the sample's row, of as many rows as drafts and one more */
    int32_t drafts[BATCH_DRAFTS_MAX];
};

struct batch {
    int64_t size_bytes; /* of the whole block, header included */
    int32_t n_rows, n_seqs, n_samples, n_pages, n_seen, n_biases, n_mask_words;
    int32_t offset_tokens;     /* int32_t[T]: token id of the row, or batch_token_sampled() */
    int32_t offset_positions;  /* int32_t[T] */
    int32_t offset_row_seq;    /* int32_t[T]: index of its sequence */
    int32_t offset_phases;     /* int32_t[T]: enum phase */
    int32_t offset_seqs;       /* struct batch_seq[S] */
    int32_t offset_samples;    /* struct batch_sample[R] */
    int32_t offset_pages;      /* int32_t[n_pages] */
    int32_t offset_seen;       /* struct batch_seen[n_seen] */
    int32_t offset_biases;     /* struct batch_bias[n_biases] */
    int32_t offset_masks;      /* uint32_t[n_mask_words] */
    int32_t n_tree_masks;      /* T, or 0: every row lives at its position */
    int32_t offset_tree_masks; /* uint32_t[n_tree_masks] */
    /* int32_t[T]: the slots that keys and values of the rows are written to. They are the
     * positions, but a device may set others in its copy of a batch with tree masks. */
    int32_t offset_slots;
    /* Of a draft head: ids with the best scores that each sample gives (args.h), or 0. */
    int32_t n_candidates;
    uint64_t tokens_ticket;  /* of the last step whose samples tokens < 0 stand for */
    int32_t n_follows;       /* S, or 0: nothing depends on accepted drafts */
    int32_t offset_follows;  /* struct batch_follow[n_follows] */
    uint64_t follows_ticket; /* of the step whose accepted drafts they count */
};

/* In place of a token id: the token of sample i of the step n_back before the one with the batch's
 * tokens_ticket, 0 <= n_back < BATCH_STEPS_BACK, which a device with runs_pipelined (backend.h)
 * fills in; a sample that fails gives id 0. */
static inline HOST_DEVICE int32_t batch_token_sampled_before(int n_back, int i)
{
    return -1 - (n_back * BATCH_SAMPLES_LIMIT + i);
}

static inline HOST_DEVICE int32_t batch_token_sampled(int i)
{
    return batch_token_sampled_before(0, i);
}

/* The sample that a token < 0 stands for, and its step. */
static inline HOST_DEVICE int batch_sample_index(int32_t token)
{
    return (-1 - token) % BATCH_SAMPLES_LIMIT;
}
static inline HOST_DEVICE int batch_sample_back(int32_t token)
{
    return (-1 - token) / BATCH_SAMPLES_LIMIT;
}

/* Typed views into the block. */
static inline HOST_DEVICE const void *batch_at(const struct batch *b, int32_t offset)
{
    return (const char *)b + offset;
}
#define BATCH_TOKENS(b)     ((const int32_t *)batch_at(b, (b)->offset_tokens))
#define BATCH_POSITIONS(b)  ((const int32_t *)batch_at(b, (b)->offset_positions))
#define BATCH_ROW_SEQ(b)    ((const int32_t *)batch_at(b, (b)->offset_row_seq))
#define BATCH_PHASES(b)     ((const int32_t *)batch_at(b, (b)->offset_phases))
#define BATCH_SEQS(b)       ((const struct batch_seq *)batch_at(b, (b)->offset_seqs))
#define BATCH_SAMPLES(b)    ((const struct batch_sample *)batch_at(b, (b)->offset_samples))
#define BATCH_PAGES(b)      ((const int32_t *)batch_at(b, (b)->offset_pages))
#define BATCH_SEEN(b)       ((const struct batch_seen *)batch_at(b, (b)->offset_seen))
#define BATCH_BIASES(b)     ((const struct batch_bias *)batch_at(b, (b)->offset_biases))
#define BATCH_MASKS(b)      ((const uint32_t *)batch_at(b, (b)->offset_masks))
#define BATCH_TREE_MASKS(b) ((const uint32_t *)batch_at(b, (b)->offset_tree_masks))
#define BATCH_SLOTS(b)      ((const int32_t *)batch_at(b, (b)->offset_slots))
#define BATCH_FOLLOWS(b)    ((const struct batch_follow *)batch_at(b, (b)->offset_follows))

/* Whether penalties, biases or a mask change the logits. */
static inline HOST_DEVICE int sample_is_processed(const struct batch_sample *s)
{
    return (s->n_seen | s->n_biases | s->n_mask_words) != 0;
}

/* Whether the sample needs the likeliest tokens in order: top_k or top_p. */
static inline HOST_DEVICE int sample_is_ranked(const struct batch_sample *s)
{
    return s->temperature > 0 && (s->top_k > 0 || s->top_p < 1);
}

/* Whether it needs more than the plain softmax over all tokens. */
static inline HOST_DEVICE int sample_is_special(const struct batch_sample *s)
{
    return sample_is_processed(s) || sample_is_ranked(s) || s->n_top > 0;
}

struct batch_counts {
    int n_rows, n_seqs, n_samples, n_pages;
    int n_seen, n_biases, n_mask_words; /* of all samples together */
    bool has_trees;
    int n_follows;
};

/* Whether one of its samples is special. */
bool batch_has_special(const struct batch *b);
/* Whether the samples name different rows in rising order, and not all rows: then the last layer
 * can compute these only (enum rows_needed of program.h). */
bool batch_has_tail(const struct batch *b);

/* Bytes of a block with these counts. */
int64_t batch_bytes(struct batch_counts counts);
/* Lays out an empty block in memory of batch_bytes(counts) bytes; the arrays are zeroed and
 * writable through the BATCH_ views (cast). Returns `memory` as a batch. */
struct batch *batch_init(void *memory, struct batch_counts counts);

#endif
