/* Plays token sequences through a model, for tests: pages, batches in any chunks, and all that
 * comes out. Every sequence owns its pages; they are handed out scattered, so that an order by
 * number can not hide a mistake. */
#ifndef STEPS_H
#define STEPS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "model/model.h"

enum {
    STEPS_PAGES_MAX = 96, /* a sequence: 6144 positions */
    STEPS_SEQS_MAX = 8
};

/* Test programs cannot go on without memory or a model. As osprey's processes they end without the
 * handlers of libraries, which could wait for kernels that wait for a lost rank. */
static inline void must(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "%s: %s\n", status_name(st), fail_message());
    (void)fflush(NULL);
    _exit(2);
}

struct steps_seq {
    const int32_t *tokens;
    int n_tokens, n_done;
    int n_prefill;    /* rows from this position on are decode rows; 0: none is */
    bool drop_pages;  /* forget window pages that no later row can see */
    int slot;         /* 0 .. STEPS_SEQS_MAX - 1: which pages are its own */
    float *logits;    /* (n_tokens, V): out, NULL = not wanted */
    int32_t *sampled; /* (n_tokens): out, NULL = not wanted */
};

/* What steps_open opens: tests say so when they mean another device than the CPU. */
static const char *steps_device = "cpu";
static unsigned steps_mxfp4_layers; /* to be quantised on load */
static int steps_dummy_layers; /* not 0: the path is the name of a shape, with so many layers */

/* Which rows of a step belong to whom: the next n_rows tokens of a sequence. */
struct steps_chunk {
    struct steps_seq *seq;
    int n_rows;
};

static inline int steps_pages(int n_tokens)
{
    return (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

/* A model with room for n_seqs sequences of n_tokens and steps of n_rows_max rows, all sampled. */
static inline struct model *steps_open_kv(const char *path, int n_threads, int n_rows_max,
                                          int n_seqs, int n_tokens, enum dtype kv_dtype)
{
    struct model_options opt = {.path = steps_dummy_layers > 0 ? NULL : path,
                                .dummy_shape = steps_dummy_layers > 0 ? path : NULL,
                                .dummy_layers = steps_dummy_layers,
                                .device = steps_device,
                                .n_threads = n_threads,
                                .n_rows_max = n_rows_max,
                                .n_samples_max = n_rows_max,
                                .mxfp4_layers = steps_mxfp4_layers,
                                .kv_dtype = kv_dtype};
    struct model *m;

    if (steps_pages(n_tokens) > STEPS_PAGES_MAX || n_seqs > STEPS_SEQS_MAX)
        abort();
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        opt.n_pages[g] = n_seqs * steps_pages(n_tokens);
    must(model_open(&m, &opt));
    return m;
}

/* With the level's own type of KV cache. */
static inline struct model *steps_open(const char *path, int n_threads, int n_rows_max, int n_seqs,
                                       int n_tokens)
{
    return steps_open_kv(path, n_threads, n_rows_max, n_seqs, n_tokens, DTYPE_NONE);
}

static inline void steps_poison_mem(struct model *m, const struct mem *mem)
{
    static _Thread_local char poison[1 << 16]; /* ranks of a test are threads */
    size_t n;

    memset(poison, 0xFF, sizeof poison);
    for (size_t i = 0; i < mem->size_bytes; i += n) {
        n = mem->size_bytes - i < sizeof poison ? mem->size_bytes - i : sizeof poison;
        must(m->ops->write(m->be, (char *)mem->data + i, poison, n));
    }
}

/* Fills activations and pages with NaN patterns: nothing may be read before it is written. */
static inline void steps_poison(struct model *m)
{
    steps_poison_mem(m, &m->activations);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        steps_poison_mem(m, &m->pages[g]);
}

/* The number of a sequence's page: all sequences' pages are dealt round, in reverse. */
static inline int32_t steps_page(const struct steps_seq *s, int page, int n_seqs, int n_pool)
{
    return n_pool - 1 - (page * n_seqs + s->slot);
}

static inline int steps_first_page(const struct model *m, const struct steps_seq *s,
                                   enum page_group group)
{
    const int first = s->n_done - model_config(m)->window_tokens + 1;

    return s->drop_pages && group == GROUP_WINDOW && first > 0 ? first / PAGE_TOKENS : 0;
}

/* One sequence's part of a batch whose arrays have room for it. */
static inline void steps_fill(const struct model *m, struct batch *b, const struct steps_chunk *c,
                              int index, int *n_rows, int *n_pages, int n_seqs)
{
    struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + index;

    seq->first_row = *n_rows;
    seq->n_rows = c->n_rows;
    for (int i = 0; i < c->n_rows; i++, (*n_rows)++) {
        ((int32_t *)BATCH_TOKENS(b))[*n_rows] = c->seq->tokens[c->seq->n_done + i];
        ((int32_t *)BATCH_POSITIONS(b))[*n_rows] = c->seq->n_done + i;
        ((int32_t *)BATCH_ROW_SEQ(b))[*n_rows] = index;
        ((int32_t *)BATCH_PHASES(b))[*n_rows] =
            c->seq->n_prefill > 0 && c->seq->n_done + i >= c->seq->n_prefill ? PHASE_DECODE
                                                                             : PHASE_PREFILL;
        ((struct batch_sample *)BATCH_SAMPLES(b))[*n_rows] =
            (struct batch_sample){.row = *n_rows, .top_p = 1};
    }
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        const int first = steps_first_page(m, c->seq, (enum page_group)g);
        const int end = steps_pages(c->seq->n_done + c->n_rows);
        const size_t pool = m->pages[g].size_bytes;
        const int64_t page_bytes =
            model_page_bytes(&m->checkpoint.config, (enum page_group)g, m->kv_dtype);

        seq->first_page[g] = first;
        seq->table[g] = *n_pages;
        seq->n_pages[g] = end - first;
        for (int p = first; p < end; p++)
            ((int32_t *)BATCH_PAGES(b))[(*n_pages)++] =
                page_bytes == 0 ? 0
                                : steps_page(c->seq, p, n_seqs, (int)((int64_t)pool / page_bytes));
    }
}

/* Copies what the step drew to the sequences and moves them on. */
static inline void steps_collect(const struct steps_chunk *chunks, int n_chunks,
                                 const float *logits, const int32_t *sampled, int64_t vocab)
{
    for (int i = 0, row = 0; i < n_chunks; row += chunks[i++].n_rows) {
        struct steps_seq *s = chunks[i].seq;
        const size_t n = (size_t)chunks[i].n_rows;

        if (s->logits != NULL)
            memcpy(s->logits + s->n_done * vocab, logits + row * vocab,
                   n * (size_t)vocab * sizeof(float));
        if (s->sampled != NULL)
            memcpy(s->sampled + s->n_done, sampled + row, n * sizeof(int32_t));
        s->n_done += chunks[i].n_rows;
    }
}

/* One step over these chunks; n_seqs as given to steps_open. */
static inline void steps_run(struct model *m, const struct steps_chunk *chunks, int n_chunks,
                             int n_seqs)
{
    const int64_t vocab = model_config(m)->vocab_size;
    struct batch_counts counts = {.n_seqs = n_chunks};
    int n_rows = 0, n_pages = 0;
    float *logits, *logprobs;
    int32_t *sampled;
    uint64_t ticket;
    struct batch *b;

    for (int i = 0; i < n_chunks; i++) {
        counts.n_rows += chunks[i].n_rows;
        counts.n_pages += N_PAGE_GROUPS * steps_pages(chunks[i].seq->n_done + chunks[i].n_rows);
    }
    counts.n_samples = counts.n_rows;
    b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    for (int i = 0; i < n_chunks; i++)
        steps_fill(m, b, &chunks[i], i, &n_rows, &n_pages, n_seqs);
    must(model_step(m, b, &ticket));
    must(model_wait(m, ticket));
    logits = mem_new((size_t)counts.n_rows * (size_t)vocab * sizeof(float));
    logprobs = mem_new((size_t)counts.n_rows * sizeof(float));
    sampled = mem_new((size_t)counts.n_rows * sizeof(int32_t));
    must(model_logits(m, counts.n_rows, logits));
    must(model_tokens(m, counts.n_rows, sampled, logprobs));
    steps_collect(chunks, n_chunks, logits, sampled, vocab);
    free(logits);
    free(logprobs);
    free(sampled);
    free(b);
}

/* Plays one sequence to its end in chunks of n_rows. */
static inline void steps_play(struct model *m, struct steps_seq *s, int n_rows, int n_seqs)
{
    while (s->n_done < s->n_tokens) {
        const int n_left = s->n_tokens - s->n_done;
        const struct steps_chunk chunk = {s, n_left < n_rows ? n_left : n_rows};

        steps_run(m, &chunk, 1, n_seqs);
    }
}

#endif
