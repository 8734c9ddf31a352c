/* A draft head without files, for a model with generated weights: the shape of
 * nvidia/gpt-oss-120b-Eagle3-v3 in relation to the target, matrices as MXFP4. Its guesses are
 * meaningless; it takes the time of a real one. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "model/draft.h"
#include "model/dummy.h"

enum {
    MLP_OF_WIDTH = 6, /* 17,280 of 2,880 */
    SEED = 33
};

static void choose_config(struct draft_config *c, const struct gptoss_config *target)
{
    const int L = target->n_layers;

    *c = (struct draft_config){.width = target->width,
                               .mlp_width = MLP_OF_WIDTH * target->width,
                               .n_heads = target->n_heads,
                               .n_kv_heads = target->n_kv_heads,
                               .head_dim = target->head_dim,
                               .vocab_size = target->vocab_size,
                               .draft_vocab_size = target->vocab_size,
                               .norm_eps = 1e-5f,
                               .state_ids = {2 * L / 3, 5 * L / 6, L},
                               .n_states = 3,
                               .fc_norm = FC_NORM_ALL,
                               .rope = *target};
}

/* Memory of the head: of what the device generates itself, it only has addresses. */
static enum osp_status own(struct draft_weights *w, void **out, size_t n_bytes)
{
    enum osp_status st;

    TRY(mem_try_aligned(out, n_bytes, 1, "a generated draft head"));
    w->copies[w->n_copies++] = *out;
out:
    return st;
}

static void fill(void *out, size_t n_bytes, const struct random_fill *values)
{
    for (size_t i = 0; i < n_bytes; i += RANDOM_WORD_BYTES) {
        const uint64_t word = random_word(values, i / RANDOM_WORD_BYTES);

        memcpy((char *)out + i, &word, n_bytes - i < sizeof word ? n_bytes - i : sizeof word);
    }
}

/* Blocks, and scales behind them. */
static enum osp_status add_matrix(struct draft_weights *w, struct tensor *out, int64_t n_rows,
                                  int64_t n_columns)
{
    const size_t n_blocks = (size_t)(n_rows * n_columns / 2);
    const size_t n_scales = (size_t)(n_rows * n_columns / MXFP4_BLOCK);
    struct random_weight *values = &w->values[w->n_values];
    void *memory;
    enum osp_status st;

    *out = (struct tensor){.dtype = DTYPE_MXFP4, .n_dims = 2, .dim = {n_rows, n_columns}};
    TRY(own(w, &memory, n_blocks + n_scales));
    out->data = memory;
    out->scales = (char *)memory + n_blocks;
    dummy_matrix(values, n_columns, rng_bits(SEED, (uint64_t)w->n_values, 0),
                 rng_bits(SEED, (uint64_t)w->n_values, 1));
    w->generated[w->n_values++] = memory;
    if (!w->is_filled_by_device) {
        fill(memory, n_blocks, &values->data);
        fill((char *)memory + n_blocks, n_scales, &values->scales);
    }
    w->data_bytes += (int64_t)(n_blocks + n_scales);
out:
    return st;
}

static enum osp_status add_ones(struct draft_weights *w, struct tensor *out, int64_t n)
{
    void *memory;
    enum osp_status st;

    *out = (struct tensor){.dtype = DTYPE_F32, .n_dims = 1, .dim = {n}};
    TRY(own(w, &memory, (size_t)n * sizeof(float)));
    out->data = memory;
    for (int64_t i = 0; i < n; i++)
        ((float *)memory)[i] = 1;
    w->data_bytes += n * (int64_t)sizeof(float);
out:
    return st;
}

enum osp_status draft_files_generate(struct draft_files *out, struct gptoss_config *target,
                                     bool is_filled_by_device)
{
    struct draft_config *c = &out->config;
    struct draft_weights *w = &out->weights;
    const int64_t heads[3] = {target->n_heads, target->n_kv_heads, target->n_kv_heads};
    enum osp_status st;

    *out = (struct draft_files){.weights = {.is_filled_by_device = is_filled_by_device}};
    choose_config(c, target);
    TRY(add_matrix(w, &w->fc, c->width, 3 * (int64_t)c->width));
    for (int i = 0; i < 3; i++)
        TRY(add_matrix(w, &w->wqkv[i], heads[i] * c->head_dim, 2 * (int64_t)c->width));
    TRY(add_matrix(w, &w->wo, c->width, heads[0] * c->head_dim));
    TRY(add_matrix(w, &w->w_gate, c->mlp_width, c->width));
    TRY(add_matrix(w, &w->w_up, c->mlp_width, c->width));
    TRY(add_matrix(w, &w->w_down, c->width, c->mlp_width));
    TRY(add_ones(w, &w->input_norm, 3 * (int64_t)c->width));
    TRY(add_ones(w, &w->embed_norm, c->width));
    TRY(add_ones(w, &w->hidden_norm, c->width));
    TRY(add_ones(w, &w->mlp_norm, c->width));
    TRY(add_ones(w, &w->norm, c->width));
    draft_add_to_target(target, c);
out:
    if (st != OSP_OK)
        draft_files_close(out);
    return st;
}
