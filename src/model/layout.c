/* Computes sizes and addresses of a model's memory besides the weights: activations and KV
 * pages. */
#include "backend/kv_page.h"
#include "model/model.h"

enum { ACTIVATION_ALIGN_BYTES = 64 }; /* a cache line */

struct tensor activation_placed(char *base, int64_t *end_bytes, enum dtype dtype, int64_t n_rows,
                                int64_t n_columns)
{
    struct tensor t = {.dtype = dtype, .n_dims = 2, .dim = {n_rows, n_columns}};
    const int64_t n_lines =
        (tensor_bytes(&t) + ACTIVATION_ALIGN_BYTES - 1) / ACTIVATION_ALIGN_BYTES;

    t.data = base == NULL ? NULL : base + *end_bytes;
    *end_bytes += n_lines * ACTIVATION_ALIGN_BYTES;
    return t;
}

int64_t activations_layout(struct activations *out, const struct gptoss_config *c, int n_rows_max,
                           int n_samples_max, char *base)
{
    const int64_t T = n_rows_max, R = n_samples_max;
    int64_t end_bytes = 0;

#define ACTIVATION_PLACE(name, dtype, rows, columns)                                               \
    out->name = activation_placed(base, &end_bytes, dtype, rows, columns);
    ACTIVATION_LIST(ACTIVATION_PLACE)
#undef ACTIVATION_PLACE
    out->tokens.n_dims = out->logprobs.n_dims = 1;
    return end_bytes;
}

int64_t model_activation_bytes(const struct gptoss_config *c, int n_rows_max, int n_samples_max)
{
    struct activations unused;

    return activations_layout(&unused, c, n_rows_max, n_samples_max, NULL);
}

struct step_shape model_step_shape(const struct gptoss_config *c, struct batch_counts counts,
                                   enum dtype kv_dtype, struct device_options options)
{
    if (c->draft_width > 0)
        counts.n_follows = counts.n_seqs; /* a pass of the head behind a step with drafts */
    return (struct step_shape){.counts = counts,
                               .width = c->width,
                               .q_width = (int64_t)c->n_heads * c->head_dim,
                               .head_dim = c->head_dim,
                               .n_kv_heads = c->n_kv_heads,
                               .n_experts = c->n_experts,
                               .n_active = c->n_experts_active,
                               .expert_width = c->expert_width,
                               .vocab_size = c->vocab_size,
                               .draft_width = c->draft_width,
                               .draft_q_width = (int64_t)c->draft_heads * c->draft_head_dim,
                               .draft_head_dim = c->draft_head_dim,
                               .n_layers = c->n_layers,
                               .kv_dtype = kv_dtype,
                               .device_options = options};
}

enum page_group group_of_layer(const struct gptoss_config *c, int layer)
{
    return c->layer_is_sliding[layer] ? GROUP_WINDOW : GROUP_FULL;
}

int64_t model_page_bytes(const struct gptoss_config *c, enum page_group group, enum dtype kv_dtype)
{
    int64_t size_bytes = 0;

    for (int i = 0; i < c->n_layers; i++)
        if (group_of_layer(c, i) == group)
            size_bytes += kv_page_bytes(kv_dtype, c->n_kv_heads, c->head_dim);
    if (group == GROUP_FULL && c->draft_kv_heads > 0)
        size_bytes += kv_page_bytes(kv_dtype, c->draft_kv_heads, c->draft_head_dim);
    return size_bytes;
}

struct tensor cache_of_layer(const struct gptoss_config *c, enum dtype kv_dtype, char *base,
                             int n_pages, int index)
{
    const int64_t layer_bytes = n_pages * kv_page_bytes(kv_dtype, c->n_kv_heads, c->head_dim);

    return (struct tensor){.dtype = kv_dtype,
                           .n_dims = 5,
                           .dim = {n_pages, 2, c->n_kv_heads, PAGE_TOKENS, c->head_dim},
                           .data = base + index * layer_bytes};
}
