#include "cuda_host/symbolic.h"

#include <stdlib.h>

#include "backend/residual_sum.h"

/* Nothing else in a kernel's parameters looks like one of these: no two 32-bit numbers, and no
 * positive int or float beside padding that has half of an old address. */
#define LOW_HALF        ((uintptr_t)1 << 31)
#define TENSOR_FIRST    (((uintptr_t)0x5A5A << 48) + LOW_HALF)
#define TENSOR_STEP     ((uintptr_t)1 << 34)
#define WORKSPACE_FIRST (((uintptr_t)0x5B5B << 48) + LOW_HALF)
#define WORKSPACE_STEP  ((uintptr_t)1 << 36)
#define COUNTER         ((uintptr_t)0x5C5C << 48)
#define PEERS           ((uintptr_t)0x5E5E << 48)
#define WINDOW          ((uintptr_t)0x5F5F << 48)
#define EXPERT_GRIDS    ((uintptr_t)0x5D5D << 48)

enum { N_VOCAB = 201088, N_PAGES = 1000, N_NAMELESS = 1070 /* ids without text */ };

struct shape {
    int64_t experts, width, heads, kv_heads, head_dim, expert_width, active;
};

static struct shape shape_of(const struct symbolic_spec *spec)
{
    const int n = spec->n_ranks > 1 ? spec->n_ranks : 1;

    if (spec->is_nano)
        return (struct shape){8, 256, 8 / n, 2 / n, 32, 128 / n, 4};
    return (struct shape){spec->is_20b ? 32 : 128,          2880, 64 / n, 8 / n, 64,
                          n > 1 ? 24 / (n / 2) * 64 : 2880, 4};
}

/* ---- tensors ---- */

static struct tensor tensor(struct symbolic *s, enum dtype dtype, enum tensor_layout layout,
                            int64_t a, int64_t b, int64_t c)
{
    struct tensor t = {.dtype = dtype,
                       .layout = layout,
                       .n_dims = c > 0   ? 3
                                 : b > 0 ? 2
                                         : 1,
                       .dim = {a, b, c},
                       .data = (void *)s->next};

    s->next += TENSOR_STEP;
    return t;
}

static struct tensor rows(struct symbolic *s, int64_t n, int64_t n_columns)
{
    return tensor(s, DTYPE_F32, LAYOUT_ROWS, n, n_columns, 0);
}

static struct tensor matrix(struct symbolic *s, enum dtype dtype, int64_t n, int64_t n_columns)
{
    return tensor(s, dtype, LAYOUT_PACKED, n, n_columns, 0);
}

static struct tensor vector(struct symbolic *s, enum dtype dtype, int64_t n)
{
    return tensor(s, dtype, LAYOUT_ROWS, n, 0, 0);
}

static struct activations make_activations(struct symbolic *s, const struct shape *n)
{
    const int64_t T = SYMBOLIC_ROWS_MAX, R = SYMBOLIC_SAMPLES_MAX;
    const struct activations a = {
        .x = rows(s, T, n->width),
        .y = rows(s, T, n->width),
        .h = rows(s, T, n->width),
        .q = rows(s, T, n->heads * n->head_dim),
        .att = rows(s, T, n->heads * n->head_dim),
        .kv_rows = rows(s, T, 2 * n->kv_heads * n->head_dim),
        .router_logits = rows(s, T, n->experts),
        .ids = tensor(s, DTYPE_I32, LAYOUT_ROWS, T, n->active, 0),
        .gates = rows(s, T, n->active),
        .units = rows(s, T * n->active, n->expert_width),
        .parts = rows(s, T * n->active, n->width),
        .logits = rows(s, R, N_VOCAB),
        .tokens = tensor(s, DTYPE_I32, LAYOUT_ROWS, R, 0, 0),
        .logprobs = vector(s, DTYPE_F32, R),
        .top_tokens = tensor(s, DTYPE_I32, LAYOUT_ROWS, R, TOP_LOGPROBS_MAX, 0),
        .top_logprobs = rows(s, R, TOP_LOGPROBS_MAX),
    };

    return a;
}

/* ---- layers ---- */

static void make_attention(struct symbolic *s, struct layer *l, const struct symbolic_spec *spec,
                           const struct activations *a, bool is_window)
{
    const struct shape n = shape_of(spec);
    const int64_t widths[3] = {n.heads * n.head_dim, n.kv_heads * n.head_dim,
                               n.kv_heads * n.head_dim};
    struct tensor kv = tensor(s, spec->kv, LAYOUT_ROWS, N_PAGES, 2, n.kv_heads);

    kv.n_dims = 5;
    kv.dim[3] = PAGE_TOKENS;
    kv.dim[4] = n.head_dim;
    l->attn_qkv = (struct attn_qkv_args){.q = a->q,
                                         .kv = kv,
                                         .y = a->y,
                                         .rope = &s->model.rope,
                                         .group = is_window ? GROUP_WINDOW : GROUP_FULL,
                                         .kv_rows = a->kv_rows};
    for (int k = 0; k < 3; k++) {
        l->attn_qkv.wqkv[k] = matrix(s, spec->dense, widths[k], n.width);
        l->attn_qkv.bqkv[k] = vector(s, DTYPE_BF16, widths[k]);
    }
    l->attn = (struct attn_args){.att = a->att,
                                 .q = a->q,
                                 .kv = kv,
                                 .sinks = vector(s, DTYPE_F32, n.heads),
                                 .window_tokens = is_window ? 128 : 0,
                                 .scale = 0.125f,
                                 .group = l->attn_qkv.group};
    l->attn_out = (struct attn_out_args){.h = a->h,
                                         .att = a->att,
                                         .wo = matrix(s, spec->dense, n.width, widths[0]),
                                         .bo = vector(s, DTYPE_BF16, n.width),
                                         .n_slices = (int)n.kv_heads};
    l->attn_residual = (struct residual_rmsnorm_args){
        .x = a->x, .y = a->y, .h = a->h, .norm = vector(s, DTYPE_F32, n.width), .eps = 1e-5f};
}

static void make_experts(struct symbolic *s, struct layer *l, const struct symbolic_spec *spec,
                         const struct activations *a)
{
    const struct shape n = shape_of(spec);
    const enum dtype mx = DTYPE_MXFP4, bf16 = DTYPE_BF16;

    l->router =
        (struct router_args){.ids = a->ids,
                             .gates = a->gates,
                             .y = a->y,
                             .wr = spec->has_float_router ? rows(s, n.experts, n.width)
                                                          : matrix(s, bf16, n.experts, n.width),
                             .br = vector(s, bf16, n.experts),
                             .router_logits = a->router_logits};
    l->experts = (struct experts_args){
        .h = a->h,
        .y = a->y,
        .ids = a->ids,
        .gates = a->gates,
        .w_up = tensor(s, mx, LAYOUT_PACKED, n.experts, 2 * n.expert_width, n.width),
        .b_up = tensor(s, bf16, LAYOUT_ROWS, n.experts, 2 * n.expert_width, 0),
        .w_down = tensor(s, mx, LAYOUT_PACKED, n.experts, n.width, n.expert_width),
        .b_down = tensor(s, bf16, LAYOUT_ROWS, n.experts, n.width, 0),
        .limit = 7,
        .alpha = 1.702f,
        .slice_units = gpu_expert_units_per_slice(spec->is_nano ? 128 : 2880),
        .units = a->units,
        .parts = a->parts};
    l->experts_residual = l->attn_residual;
    l->experts_residual.norm = vector(s, DTYPE_F32, n.width);
}

static void make_model(struct symbolic *s, const struct symbolic_spec *spec)
{
    const struct shape n = shape_of(spec);
    const struct activations a = make_activations(s, &n);
    struct model *m = &s->model;

    m->rope.head_dim = (int)n.head_dim;
    m->layers = s->layers;
    m->n_layers = spec->n_layers;
    m->embed_rmsnorm = (struct embed_rmsnorm_args){
        .x = a.x,
        .y = a.y,
        .table = tensor(s, DTYPE_BF16, LAYOUT_ROWS, N_VOCAB, n.width, 0),
        .norm = vector(s, DTYPE_F32, n.width),
        .eps = 1e-5f};
    for (int i = 0; i < spec->n_layers; i++) {
        make_attention(s, &s->layers[i], spec, &a, i % 2 == 0);
        make_experts(s, &s->layers[i], spec, &a);
    }
    m->shard = (struct shard){.rank = spec->rank,
                              .n_ranks = spec->n_ranks > 1 ? spec->n_ranks : 1,
                              .rule = SHARD_FOR_GPU};
    m->logits =
        (struct logits_args){.logits = a.logits,
                             .y = a.y,
                             .head = matrix(s, spec->dense, N_VOCAB / m->shard.n_ranks, n.width),
                             .first_id = N_VOCAB / m->shard.n_ranks * spec->rank};
    m->sample = (struct sample_args){.tokens = a.tokens,
                                     .logprobs = a.logprobs,
                                     .top_tokens = a.top_tokens,
                                     .top_logprobs = a.top_logprobs,
                                     .logits = a.logits,
                                     .n_valid = N_VOCAB - N_NAMELESS};
}

/* ---- a draft head, of NVIDIA's v3 shape: it reads the first, the middle and the last state ---- */

enum { DRAFT_STATES = 3, DRAFT_MLP = 17280, DRAFT_VOCAB = 32000 };

static struct draft_activations make_draft_activations(struct symbolic *s,
                                                       const struct draft_config *c)
{
    const int64_t T = SYMBOLIC_ROWS_MAX, R = SYMBOLIC_SAMPLES_MAX, S = c->n_states, n_kept = 1;
    struct draft_activations a;

#define DRAFT_ACTIVATION_MAKE(name, dtype, n_rows, n_columns)                                      \
    a.name = tensor(s, dtype, LAYOUT_ROWS, n_rows, n_columns, 0);
    DRAFT_ACTIVATION_LIST(DRAFT_ACTIVATION_MAKE)
#undef DRAFT_ACTIVATION_MAKE
    return a;
}

static void make_draft_attention(struct symbolic *s, const struct symbolic_spec *spec,
                                 const struct shape *n)
{
    struct draft *d = &s->model.draft;
    const struct draft_activations *a = &d->act;
    const int64_t widths[3] = {n->heads * n->head_dim, n->kv_heads * n->head_dim,
                               n->kv_heads * n->head_dim};

    d->kv = tensor(s, spec->kv, LAYOUT_ROWS, N_PAGES, 2, n->kv_heads);
    d->kv.n_dims = 5;
    d->kv.dim[3] = PAGE_TOKENS;
    d->kv.dim[4] = n->head_dim;
    d->stages.attn_qkv = (struct attn_qkv_args){
        .q = a->q, .kv = d->kv, .y = a->y, .rope = &d->rope, .kv_rows = a->kv_rows};
    for (int k = 0; k < 3; k++)
        d->stages.attn_qkv.wqkv[k] = matrix(s, spec->dense, widths[k], 2 * n->width);
    d->stages.attn = (struct attn_args){.att = a->att,
                                        .q = a->q,
                                        .kv = d->kv,
                                        .sinks = vector(s, DTYPE_F32, n->heads),
                                        .scale = 0.125f};
    d->stages.attn_out = (struct attn_out_args){.h = a->h,
                                                .att = a->att,
                                                .wo = matrix(s, spec->dense, n->width, widths[0]),
                                                .n_slices = (int)n->kv_heads};
}

static void make_draft_ends(struct symbolic *s, const struct symbolic_spec *spec,
                            const struct shape *n)
{
    struct draft *d = &s->model.draft;
    const struct draft_activations *a = &d->act;

    d->stages.fc =
        (struct draft_fc_args){.f = a->f,
                               .taps = a->taps,
                               .norm = vector(s, DTYPE_F32, DRAFT_STATES * n->width),
                               .w = matrix(s, spec->dense, n->width, DRAFT_STATES * n->width),
                               .normed = a->normed,
                               .n_norms = 1,
                               .eps = 1e-5f};
    d->stages.input = (struct draft_input_args){.x = a->x,
                                                .y = a->y,
                                                .f = a->f,
                                                .table = s->model.embed_rmsnorm.table,
                                                .embed_norm = vector(s, DTYPE_F32, n->width),
                                                .hidden_norm = vector(s, DTYPE_F32, n->width),
                                                .eps = 1e-5f};
    d->stages.gather = (struct gather_args){.out = a->f, .x = a->x};
    d->stages.logits = (struct logits_args){.logits = a->logits,
                                            .y = a->normed_x,
                                            .head = matrix(s, spec->dense, DRAFT_VOCAB, n->width)};
    d->stages.sample = (struct sample_args){.tokens = a->tokens,
                                            .logprobs = a->logprobs,
                                            .logits = a->logits,
                                            .n_valid = DRAFT_VOCAB,
                                            .candidates = a->candidates,
                                            .ids = vector(s, DTYPE_I32, DRAFT_VOCAB)};
}

static void make_draft(struct symbolic *s, const struct symbolic_spec *spec)
{
    const struct shape n = shape_of(spec);
    struct draft *d = &s->model.draft;
    const struct draft_activations *a = &d->act;

    d->source.config = (struct draft_config){.width = (int)n.width,
                                             .mlp_width = DRAFT_MLP,
                                             .n_heads = (int)n.heads,
                                             .n_kv_heads = (int)n.kv_heads,
                                             .head_dim = (int)n.head_dim,
                                             .draft_vocab_size = DRAFT_VOCAB,
                                             .state_ids = {0, spec->n_layers / 2, spec->n_layers},
                                             .n_states = DRAFT_STATES};
    d->rope.head_dim = (int)n.head_dim;
    d->act = make_draft_activations(s, &d->source.config);
    make_draft_attention(s, spec, &n);
    d->stages.attn_residual = d->stages.mlp_residual =
        (struct residual_rmsnorm_args){.x = a->x, .y = a->normed_x, .h = a->h, .eps = 1e-5f};
    d->stages.attn_residual.norm = vector(s, DTYPE_F32, n.width);
    d->stages.mlp_residual.norm = vector(s, DTYPE_F32, n.width);
    d->stages.mlp = (struct mlp_args){.h = a->h,
                                      .y = a->normed_x,
                                      .w_gate = matrix(s, spec->dense, DRAFT_MLP, n.width),
                                      .w_up = matrix(s, spec->dense, DRAFT_MLP, n.width),
                                      .w_down = matrix(s, spec->dense, n.width, DRAFT_MLP),
                                      .units = a->units,
                                      .ups = a->ups};
    make_draft_ends(s, spec, &n);
    d->source.weights.fc = d->stages.fc.w;
    for (int i = 0; i < N_DRAFT_PASSES; i++)
        if (draft_program(&d->passes[i], d, (enum draft_pass)i) != OSP_OK)
            abort();
}

struct symbolic *symbolic_new(const struct symbolic_spec *spec)
{
    struct symbolic *s = calloc(1, sizeof(*s));

    if (s == NULL)
        abort();
    s->next = TENSOR_FIRST;
    make_model(s, spec);
    if (spec->has_draft)
        make_draft(s, spec);
    if (forward_program(&s->program, &s->model, spec->has_draft) != OSP_OK)
        abort();
    for (int w = 0; w < N_WORKSPACES; w++)
        s->workspaces.at[w] = (struct gpu_workspace){
            (void *)(WORKSPACE_FIRST + (uintptr_t)w * WORKSPACE_STEP), (size_t)WORKSPACE_STEP};
    if (s->model.shard.n_ranks > 1)
        s->peers = (struct rank_peers){.rank = spec->rank,
                                       .n_ranks = spec->n_ranks,
                                       .on_device = (const struct rank_peers *)PEERS};
    s->gather = rank_gather_at(0, SYMBOLIC_ROWS_MAX, shape_of(spec).width, shape_of(spec).active,
                               s->model.shard.n_ranks);
    if (spec->is_gathered)
        s->peers.windows[spec->rank] = (char *)WINDOW;
    s->is_gathered = spec->is_gathered;
    s->n_experts_read = (uint64_t *)COUNTER;
    s->expert_grids = (const float *)EXPERT_GRIDS;
    return s;
}

void symbolic_free(struct symbolic *s)
{
    program_free(&s->program);
    for (int i = 0; i < N_DRAFT_PASSES; i++)
        program_free(&s->model.draft.passes[i]);
    free(s);
}

enum address_of symbolic_find(const struct symbolic *s, const struct program *p, uint64_t address,
                              int *index)
{
    if (address >= WORKSPACE_FIRST && address < WORKSPACE_FIRST + N_WORKSPACES * WORKSPACE_STEP &&
        (address - WORKSPACE_FIRST) % WORKSPACE_STEP < WORKSPACE_STEP - LOW_HALF) {
        *index = (int)((address - WORKSPACE_FIRST) / WORKSPACE_STEP);
        return ADDRESS_WORKSPACE;
    }
    if (address < TENSOR_FIRST || address >= s->next)
        return ADDRESS_OTHER;
    for (int id = 1; id <= p->n_tensors; id++)
        if (address - (uintptr_t)p->tensors[id - 1].tensor.data < TENSOR_STEP - LOW_HALF) {
            *index = id;
            return ADDRESS_TENSOR;
        }
    return ADDRESS_OTHER;
}

/* ---- steps ---- */

static int rows_each(const struct step_spec *spec)
{
    return spec->n_each > 0 ? spec->n_each : 1;
}

static int decode_seqs(const struct step_spec *spec)
{
    return (spec->n_decode + rows_each(spec) - 1) / rows_each(spec);
}

static void fill_rows(struct batch *b, const struct step_spec *spec)
{
    int *phases = (int *)BATCH_PHASES(b), *positions = (int *)BATCH_POSITIONS(b);
    int *row_seq = (int *)BATCH_ROW_SEQ(b);
    struct batch_seq *seqs = (struct batch_seq *)BATCH_SEQS(b);

    for (int i = 0; i < b->n_rows; i++) {
        const bool is_decode = i < spec->n_decode;

        phases[i] = is_decode ? PHASE_DECODE : PHASE_PREFILL;
        positions[i] = is_decode ? spec->n_context + i % rows_each(spec) : i - spec->n_decode;
        row_seq[i] = is_decode ? i / rows_each(spec) : b->n_seqs - 1;
        if (seqs[row_seq[i]].n_rows++ == 0)
            seqs[row_seq[i]].first_row = i;
    }
    if (spec->n_context_first > 0 && spec->n_decode > 0)
        positions[0] = spec->n_context_first;
}

static void fill_samples(struct batch *b, const struct step_spec *spec)
{
    struct batch_sample *samples = (struct batch_sample *)BATCH_SAMPLES(b);

    for (int i = 0; i < b->n_samples; i++) {
        const int at = spec->samples == SAMPLES_FALLING ? b->n_samples - 1 - i : i;

        samples[i].row = at < spec->n_decode && spec->samples != SAMPLES_LAST ? at : b->n_rows - 1;
        samples[i].top_p = 1;
        samples[i].n_top = spec->has_special && i == 0 ? 3 : 0;
    }
}

struct batch *symbolic_batch(const struct step_spec *spec)
{
    const bool has_prefill = spec->n_prefill > 0;
    const struct batch_counts n = {
        .n_rows = spec->n_decode + spec->n_prefill,
        .n_seqs = decode_seqs(spec) + has_prefill,
        .n_samples = spec->samples == SAMPLES_LAST ? 1
                     : spec->samples == SAMPLES_NO
                         ? 0
                         : spec->n_decode + (has_prefill && spec->samples != SAMPLES_DECODE),
        .n_pages = 8 * (spec->n_decode + 1),
        .has_trees = spec->has_trees};
    void *memory = calloc(1, (size_t)batch_bytes(n));
    struct batch *b;

    if (memory == NULL)
        abort();
    b = batch_init(memory, n);
    fill_rows(b, spec);
    fill_samples(b, spec);
    for (int row = 0; row < b->n_tree_masks; row++)
        ((uint32_t *)(uintptr_t)BATCH_TREE_MASKS(b))[row] = 1; /* lists do not depend on them */
    b->n_candidates = spec->has_candidates ? 4 : 0;
    return b;
}
