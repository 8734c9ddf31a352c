#include "model/routing.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/rng.h"
#include "model/stage_steps.h"

enum { TEXTS = 8 };

double routing_uniform(const struct gptoss_config *c, int n_tokens)
{
    const double missed = 1.0 - (double)c->n_experts_active / c->n_experts;

    return c->n_experts * (1.0 - pow(missed, n_tokens));
}

static struct batch *random_text(const struct gptoss_config *c, int n_tokens, uint64_t seed)
{
    const int n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    const struct batch_counts counts = {
        .n_rows = n_tokens, .n_seqs = 1, .n_samples = 1, .n_pages = N_PAGE_GROUPS * n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b);

    seq->n_rows = n_tokens;
    for (int i = 0; i < n_tokens; i++) {
        ((int32_t *)BATCH_TOKENS(b))[i] =
            (int32_t)(rng_bits(seed, (uint64_t)i, 0) % (uint64_t)c->vocab_size);
        ((int32_t *)BATCH_POSITIONS(b))[i] = i;
    }
    *(struct batch_sample *)BATCH_SAMPLES(b) =
        (struct batch_sample){.row = n_tokens - 1, .top_p = 1};
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        seq->table[g] = g * n_pages;
        seq->n_pages[g] = n_pages;
        for (int p = 0; p < n_pages; p++)
            ((int32_t *)BATCH_PAGES(b))[g * n_pages + p] = p;
    }
    return b;
}

static int count_distinct(const int32_t *ids, int n, bool *seen, int n_experts)
{
    int count = 0;

    for (int e = 0; e < n_experts; e++)
        seen[e] = false;
    for (int i = 0; i < n; i++) {
        count += !seen[ids[i]];
        seen[ids[i]] = true;
    }
    return count;
}

/* Adds up the numbers of distinct experts of one text, over all layers. */
static enum osp_status add_text(double *sum, struct model *m, const struct batch *b, int32_t *ids,
                                bool *seen)
{
    const struct gptoss_config *c = model_config(m);
    const int n = b->n_rows * c->n_experts_active;
    enum osp_status st = OSP_OK;

    for (int i = 0; i < stage_count(m); i++) {
        const struct stage_outputs out = stage_outputs(m, i);

        TRY(stage_step_run(m, i, b));
        if (out.stage != STAGE_router)
            continue;
        TRY(m->ops->read(m->be, ids, out.out[0].data, (size_t)n * sizeof(*ids)));
        *sum += count_distinct(ids, n, seen, c->n_experts);
    }
out:
    return st;
}

enum osp_status routing_measure(double *mean, struct model *m, int n_tokens)
{
    const struct gptoss_config *c = model_config(m);
    int32_t *ids = mem_new((size_t)n_tokens * (size_t)c->n_experts_active * sizeof(*ids));
    bool *seen = mem_new((size_t)c->n_experts * sizeof(*seen));
    double sum = 0;
    enum osp_status st = OSP_OK;

    for (int t = 0; t < TEXTS && st == OSP_OK; t++) {
        struct batch *b = random_text(c, n_tokens, (uint64_t)(n_tokens * TEXTS + t));

        st = add_text(&sum, m, b, ids, seen);
        free(b);
    }
    *mean = sum / TEXTS / c->n_layers;
    free(ids);
    free(seen);
    return st;
}
