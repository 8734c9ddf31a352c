/* Opens a draft head beside its target: binds weights and activations, compiles its passes and the
 * target's program with the states that it reads; and runs them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kv_page.h"
#include "base/memory.h"
#include "model/model.h"

/* ---- files ---- */

static int larger(int a, int b)
{
    return a > b ? a : b;
}

void draft_add_to_target(struct gptoss_config *target, const struct draft_config *c)
{
    target->draft_heads = c->n_heads;
    target->draft_kv_heads = c->n_kv_heads;
    target->draft_head_dim = c->head_dim;
    target->draft_width = larger(larger(c->n_states, 2) * c->width, c->mlp_width);
}

enum osp_status draft_files_open(struct draft_files *out, const char *path,
                                 struct gptoss_config *target)
{
    enum osp_status st;

    *out = (struct draft_files){.checkpoint = {.path = NULL}};
    TRY(draft_checkpoint_open(&out->checkpoint, &out->config, path));
    TRY(draft_weights_bind(&out->weights, &out->checkpoint, &out->config, target));
    draft_add_to_target(target, &out->config);
out:
    if (st != OSP_OK)
        draft_files_close(out);
    return st;
}

bool draft_files_is_open(const struct draft_files *s)
{
    return s->config.width > 0;
}

void draft_files_close(struct draft_files *s)
{
    draft_weights_release(&s->weights);
    checkpoint_close(&s->checkpoint);
    *s = (struct draft_files){.checkpoint = {.path = NULL}};
}

/* ---- memory ---- */

/* Frequencies below a threshold are divided by a factor, with a ramp (Llama 3.1). */
static float llama3_frequency(const struct draft_config *c, double plain)
{
    const double turns = c->rope.rope_original_tokens * plain / 6.283185307179586;
    const double share = (turns - c->llama3_low) / (c->llama3_high - c->llama3_low);
    const double kept = share < 0 ? 0 : share > 1 ? 1 : share;

    return (float)(plain * (kept + (1 - kept) / c->llama3_factor));
}

void draft_rope_init(struct rope *out, const struct draft_config *c)
{
    rope_init(out, &c->rope);
    for (int i = 0; c->llama3_factor > 0 && i < c->head_dim / 2; i++)
        out->inverse_frequency[i] =
            llama3_frequency(c, pow(c->rope.rope_theta, -2.0 * i / c->head_dim));
}

static int64_t layout(struct draft_activations *out, const struct draft_config *c, int n_rows_max,
                      int n_seqs_max, int n_kept, char *base)
{
    const int64_t T = n_rows_max, R = n_seqs_max, S = c->n_states;
    int64_t end_bytes = 0;

#define DRAFT_ACTIVATION_PLACE(name, dtype, rows, columns)                                         \
    out->name = activation_placed(base, &end_bytes, dtype, rows, columns);
    DRAFT_ACTIVATION_LIST(DRAFT_ACTIVATION_PLACE)
#undef DRAFT_ACTIVATION_PLACE
    out->tokens.n_dims = out->logprobs.n_dims = out->ids.n_dims = 1;
    return end_bytes;
}

int64_t draft_activation_bytes(const struct draft_config *c, int n_rows_max, int n_seqs_max,
                               int n_kept)
{
    struct draft_activations unused;

    return layout(&unused, c, n_rows_max, n_seqs_max, n_kept, NULL);
}

static enum osp_status allocate(struct model *m, const struct model_options *opt)
{
    struct draft *d = &m->draft;
    const struct draft_config *c = &d->source.config;
    const int64_t page_bytes = kv_page_bytes(m->kv_dtype, c->n_kv_heads, c->head_dim);
    const int64_t n_vectors = (c->n_states + 6) * (int64_t)c->width + c->n_heads;
    enum osp_status st;

    TRY(mem_try_aligned(&d->vectors, (size_t)n_vectors, sizeof(float), "norms of the draft head"));
    TRY(m->ops->alloc(m->be, &d->activations,
                      (size_t)draft_activation_bytes(c, opt->n_rows_max, opt->n_samples_max,
                                                     opt->n_draft_states_kept)));
    (void)layout(&d->act, c, opt->n_rows_max, opt->n_samples_max, opt->n_draft_states_kept,
                 d->activations.data);
    TRY(m->ops->alloc(m->be, &d->pages, (size_t)(page_bytes * opt->n_pages[GROUP_FULL])));
    d->kv = (struct tensor){
        .dtype = m->kv_dtype,
        .n_dims = 5,
        .dim = {opt->n_pages[GROUP_FULL], 2, c->n_kv_heads, PAGE_TOKENS, c->head_dim},
        .data = d->pages.data};
out:
    return st;
}

/* ---- binding ---- */

/* State while a head is bound. */
struct draft_builder {
    struct model *m;
    struct draft *d;
    float *vectors_end;
};

static enum osp_status pack(struct draft_builder *b, struct tensor *out, const struct tensor *host)
{
    const struct draft_weights *w = &b->d->source.weights;

    for (int i = 0; w->is_filled_by_device && i < w->n_values; i++)
        if (host->data == w->generated[i])
            return b->m->ops->fill_random(b->m->be, out, host, &w->values[i]);
    return b->m->ops->pack(b->m->be, out, host);
}

/* A norm as f32; one that the head does not have stays empty. */
static enum osp_status pack_norm(struct draft_builder *b, struct tensor *out,
                                 const struct tensor *host)
{
    struct tensor norm = *host;

    if (host->data == NULL)
        return OSP_OK;
    norm.dtype = DTYPE_F32;
    norm.data = b->vectors_end;
    for (int64_t i = 0; i < host->dim[0]; i++)
        *b->vectors_end++ = tensor_element_f32(host, i);
    return pack(b, out, &norm);
}

/* The head's attention has no sinks. */
static enum osp_status pack_no_sinks(struct draft_builder *b, struct tensor *out)
{
    const int n = b->d->source.config.n_heads;
    const struct tensor sinks = {
        .dtype = DTYPE_F32, .n_dims = 1, .dim = {n}, .data = b->vectors_end};

    for (int i = 0; i < n; i++)
        *b->vectors_end++ = -INFINITY;
    return pack(b, out, &sinks);
}

static enum osp_status bind_input(struct draft_builder *b)
{
    struct draft *d = b->d;
    const struct draft_config *c = &d->source.config;
    const struct draft_weights *w = &d->source.weights;
    const bool is_each = c->fc_norm == FC_NORM_EACH;
    struct draft_stages *s = &d->stages;
    enum osp_status st;

    s->fc = (struct draft_fc_args){.f = d->act.f,
                                   .taps = d->act.taps,
                                   .normed = d->act.normed,
                                   .n_norms = is_each ? c->n_states : 1,
                                   .eps = c->norm_eps};
    s->input = (struct draft_input_args){.x = d->act.x,
                                         .y = d->act.y,
                                         .f = d->act.f,
                                         .table = b->m->embed_rmsnorm.table,
                                         .normed_residual = c->norm_before_residual,
                                         .eps = c->norm_eps};
    TRY(pack_norm(b, &s->fc.norm, is_each ? &w->fc_norm : &w->input_norm));
    if (w->fc.data != NULL)
        TRY(pack(b, &s->fc.w, &w->fc));
    if (w->embed.data != NULL)
        TRY(pack(b, &s->input.table, &w->embed));
    TRY(pack_norm(b, &s->input.embed_norm, &w->embed_norm));
    TRY(pack_norm(b, &s->input.hidden_norm, &w->hidden_norm));
out:
    return st;
}

static enum osp_status bind_attn(struct draft_builder *b)
{
    struct draft *d = b->d;
    const struct draft_config *c = &d->source.config;
    const struct draft_weights *w = &d->source.weights;
    struct draft_stages *s = &d->stages;
    enum osp_status st = OSP_OK;

    s->attn_qkv = (struct attn_qkv_args){.q = d->act.q,
                                         .kv = d->kv,
                                         .y = d->act.y,
                                         .rope = &d->rope,
                                         .group = GROUP_FULL,
                                         .kv_rows = d->act.kv_rows};
    s->attn = (struct attn_args){.att = d->act.att,
                                 .q = d->act.q,
                                 .kv = d->kv,
                                 .scale = 1.0f / sqrtf((float)c->head_dim),
                                 .group = GROUP_FULL};
    s->attn_out =
        (struct attn_out_args){.h = d->act.h, .att = d->act.att, .n_slices = c->n_kv_heads};
    for (int i = 0; i < 3; i++)
        TRY(pack(b, &s->attn_qkv.wqkv[i], &w->wqkv[i]));
    TRY(pack_no_sinks(b, &s->attn.sinks));
    TRY(pack(b, &s->attn_out.wo, &w->wo));
out:
    return st;
}

static enum osp_status bind_mlp(struct draft_builder *b)
{
    struct draft *d = b->d;
    const struct draft_weights *w = &d->source.weights;
    const struct residual_rmsnorm_args residual = {
        .x = d->act.x, .y = d->act.normed_x, .h = d->act.h, .eps = d->source.config.norm_eps};
    struct draft_stages *s = &d->stages;
    enum osp_status st;

    s->attn_residual = s->mlp_residual = residual;
    s->mlp = (struct mlp_args){
        .h = d->act.h, .y = d->act.normed_x, .units = d->act.units, .ups = d->act.ups};
    TRY(pack_norm(b, &s->attn_residual.norm, &w->mlp_norm));
    TRY(pack_norm(b, &s->mlp_residual.norm, &w->norm));
    TRY(pack(b, &s->mlp.w_gate, &w->w_gate));
    TRY(pack(b, &s->mlp.w_up, &w->w_up));
    TRY(pack(b, &s->mlp.w_down, &w->w_down));
out:
    return st;
}

static enum osp_status bind_output(struct draft_builder *b)
{
    struct draft *d = b->d;
    const struct draft_config *c = &d->source.config;
    const struct draft_weights *w = &d->source.weights;
    struct draft_stages *s = &d->stages;
    enum osp_status st = OSP_OK;

    s->gather =
        (struct gather_args){.out = d->act.f, .x = c->norm_output ? d->act.normed_x : d->act.x};
    s->logits = (struct logits_args){
        .logits = d->act.logits, .y = d->act.normed_x, .head = b->m->logits.head};
    s->sample = (struct sample_args){.tokens = d->act.tokens,
                                     .logprobs = d->act.logprobs,
                                     .logits = d->act.logits,
                                     .candidates = d->act.candidates,
                                     .n_valid = w->target_ids == NULL && w->head.data == NULL
                                                    ? b->m->sample.n_valid
                                                    : c->draft_vocab_size};
    if (w->head.data != NULL)
        TRY(pack(b, &s->logits.head, &w->head));
    if (w->target_ids != NULL) {
        s->sample.ids = d->act.ids;
        TRY(b->m->ops->write(b->m->be, d->act.ids.data, w->target_ids,
                             (size_t)tensor_bytes(&d->act.ids)));
    }
out:
    return st;
}

enum osp_status draft_open(struct model *m, const struct model_options *opt)
{
    struct draft *d = &m->draft;
    struct draft_builder b = {.m = m, .d = d};
    enum osp_status st;

    d->source = *opt->draft;
    *opt->draft = (struct draft_files){.checkpoint = {.path = NULL}};
    draft_rope_init(&d->rope, &d->source.config);
    TRY(allocate(m, opt));
    b.vectors_end = d->vectors;
    TRY(bind_input(&b));
    TRY(bind_attn(&b));
    TRY(bind_mlp(&b));
    TRY(bind_output(&b));
out:
    return st;
}

enum osp_status draft_compile(struct model *m)
{
    struct draft *d = &m->draft;
    enum osp_status st;

    for (int i = 0; i < N_DRAFT_PASSES; i++) {
        TRY(draft_program(&d->passes[i], d, (enum draft_pass)i));
        TRY(m->ops->compile(m->be, &d->passes[i], &d->run_passes[i]));
    }
    TRY(forward_program(&d->tapped, m, true));
    TRY(m->ops->compile(m->be, &d->tapped, &d->run_tapped));
out:
    return st;
}

void draft_close(struct model *m)
{
    struct draft *d = &m->draft;

    if (m->be != NULL) {
        for (int i = 0; i < N_DRAFT_PASSES; i++)
            m->ops->release_program(m->be, d->run_passes[i]);
        m->ops->release_program(m->be, d->run_tapped);
        m->ops->release(m->be, &d->activations);
        m->ops->release(m->be, &d->pages);
    }
    for (int i = 0; i < N_DRAFT_PASSES; i++)
        program_free(&d->passes[i]);
    program_free(&d->tapped);
    free(d->vectors);
    draft_files_close(&d->source);
}

/* ---- running ---- */

bool model_draft_reads_last_layer(const struct model *m)
{
    const struct draft_config *c = &m->draft.source.config;
    bool is_last = c->reads_final_norm;

    for (int i = 0; i < c->n_states; i++)
        is_last = is_last || c->state_ids[i] == m->n_layers;
    return is_last;
}

bool model_has_draft(const struct model *m)
{
    return m->draft.run_passes[DRAFT_FIRST] != NULL;
}

static enum osp_status copy_rows(struct model *m, const struct tensor *to, int to_row,
                                 const struct tensor *from, int from_row, int n)
{
    const size_t row_bytes = (size_t)from->dim[1] * sizeof(float);

    assert(to->dim[1] == from->dim[1] && to_row + n <= to->dim[0] && from_row + n <= from->dim[0]);
    return m->ops->copy(m->be, (char *)to->data + (size_t)to_row * row_bytes,
                        (const char *)from->data + (size_t)from_row * row_bytes,
                        (size_t)n * row_bytes);
}

/* What the first stage of the head reads. */
static const struct tensor *input_of(const struct draft *d)
{
    return d->source.weights.fc.data != NULL ? &d->act.taps : &d->act.f;
}

enum osp_status model_draft_keep(struct model *m, const struct row_copy *rows, int n)
{
    const struct tensor *to = &m->draft.act.kept, *from = &m->draft.act.step_taps;
    struct row_copies c = {.to = to->data,
                           .from = from->data,
                           .row_bytes = (int64_t)from->dim[1] * (int64_t)sizeof(float)};
    enum osp_status st = OSP_OK;

    assert(to->dim[1] == from->dim[1]);
    for (int first = 0; first < n; first += c.n) {
        c.n = n - first < ROW_COPIES_MAX ? n - first : (int)ROW_COPIES_MAX;
        memcpy(c.rows, rows + first, (size_t)c.n * sizeof *rows);
        for (int i = 0; i < c.n; i++)
            assert(c.rows[i].to + c.rows[i].n <= to->dim[0] &&
                   c.rows[i].from + c.rows[i].n <= from->dim[0]);
        TRY(m->ops->copy_rows(m->be, &c));
    }
out:
    return st;
}

enum osp_status model_draft_keep_move(struct model *m, int from, int to)
{
    const struct tensor *kept = &m->draft.act.kept;

    return from == to ? OSP_OK : copy_rows(m, kept, to, kept, from, 1);
}

enum osp_status model_draft_take_step(struct model *m, int step_row, int n_rows, int row)
{
    return copy_rows(m, input_of(&m->draft), row, &m->draft.act.step_taps, step_row, n_rows);
}

enum osp_status model_draft_take_kept(struct model *m, int place, int n_rows, int row)
{
    return copy_rows(m, input_of(&m->draft), row, &m->draft.act.kept, place, n_rows);
}

enum osp_status model_draft_run(struct model *m, const struct batch *b, uint64_t *ticket)
{
    return m->ops->run(m->be, m->draft.run_passes[DRAFT_FIRST], b, ticket);
}

enum osp_status model_draft_behind(struct model *m, const struct batch *b, uint64_t *ticket)
{
    return m->ops->run(m->be, m->draft.run_passes[DRAFT_BEHIND], b, ticket);
}

enum osp_status model_draft_again(struct model *m, const struct batch *b, uint64_t *ticket)
{
    return m->ops->run(m->be, m->draft.run_passes[DRAFT_AGAIN], b, ticket);
}

bool model_draft_is_pipelined(const struct model *m)
{
    struct device_info info;

    m->ops->info(m->be, &info);
    return info.runs_pipelined;
}

enum osp_status model_draft_move(struct model *m, int from, int to)
{
    return from == to ? OSP_OK : copy_rows(m, &m->draft.act.f, to, &m->draft.act.f, from, 1);
}

enum osp_status model_draft_tokens(struct model *m, uint64_t ticket, int n, int32_t *tokens)
{
    const size_t size_bytes = (size_t)n * sizeof *tokens;
    struct sampled sampled;
    enum osp_status st;

    TRY(m->ops->step_wait(m->be, ticket));
    if (n == 0)
        return OSP_OK;
    if (!model_draft_is_pipelined(m))
        return m->ops->read(m->be, tokens, m->draft.act.tokens.data, size_bytes);
    TRY(m->ops->sampled(m->be, &sampled));
    memcpy(tokens, sampled.tokens, size_bytes);
out:
    return st;
}

enum osp_status model_draft_candidates(struct model *m, int n, int32_t *tokens)
{
    const struct tensor *t = &m->draft.act.candidates;
    const size_t size_bytes = (size_t)n * (size_t)t->dim[1] * sizeof *tokens;
    struct sampled sampled;
    enum osp_status st;

    if (!model_draft_is_pipelined(m))
        return m->ops->read(m->be, tokens, t->data, size_bytes);
    TRY(m->ops->sampled(m->be, &sampled));
    memcpy(tokens, sampled.candidates, size_bytes);
out:
    return st;
}

enum osp_status model_draft_logits(struct model *m, int n, float *logits)
{
    const struct tensor *t = &m->draft.act.logits;

    return m->ops->read(m->be, logits, t->data, (size_t)n * (size_t)t->dim[1] * sizeof *logits);
}
