/* Launches that exchange numbers between ranks (common/rank_exchange.h): sums after attn_out and
 * the experts, logits before sampling, tokens after it. All ranks have the same ones in the same
 * order. */
#include "cuda/program/fuse_internal.h"

static_assert((int)RANK_PAIR_ROWS >= (int)DECODE_FUSED_MAX, "pairs for the rows of fused kernels");
static_assert((int)RANK_OUT_ROWS >= (int)DECODE_ROWS_MAX, "words for all decode rows");

void exchange_sums(struct fuse *f, int i, const struct tensor *h, int n_integer, const float *unit)
{
    struct rank_sums s;

    if (!is_exchanged(f, i) || f->n_rows == 0)
        return;
    if (is_shared(f)) { /* the residual takes them */
        f->sums_index = f->list->n_exchanges++;
        return;
    }
    s = (struct rank_sums){.peers = *f->in->peers,
                           .h = h->data,
                           .unit = unit,
                           .n_live = f->n_live,
                           .n_rows = f->n_rows,
                           .n_integer = n_integer,
                           .n_columns = (int32_t)h->dim[1],
                           .index = f->list->n_exchanges++};
    next_launch(f);
    launch_rank_sums(f->list, &s);
    reads(f, i, h);
    writes(f, i, h);
    set_op(f, i);
}

/* On Hopper all kernels for decode rows of packed weights can. */
bool has_out_words(const struct fuse *f, int i, const struct attn_out_args *a)
{
    return is_exchanged(f, i) && f->in->arch == ARCH_HOPPER && a->wo.layout == LAYOUT_PACKED &&
           is_vector(&a->bo) && a->att.dim[1] % DECODE_COLUMNS_OF == 0 &&
           matmul_decode_rows(f) > 0 && f->n_decode <= DECODE_ROWS_MAX &&
           (is_decode(f) || matmul_has_prefill(f, STAGE_attn_out, &a->wo));
}

/* The decode rows, whose sums are words. */
static void exchange_words(struct fuse *f, int i, const struct attn_out_args *a, int n_rows)
{
    const struct rank_out o = {.peers = *f->in->peers,
                               .h = a->h.data,
                               .low = f->out_low,
                               .bias = a->bo.data,
                               .is_bias_bf16 = a->bo.dtype == DTYPE_BF16,
                               .n_live = f->n_live,
                               .n_rows = n_rows,
                               .n_columns = (int32_t)a->h.dim[1],
                               .index = f->list->n_exchanges++};

    next_launch(f);
    launch_rank_out(f->list, &o);
    reads(f, i, &a->h);
    reads_early(f, &a->bo);
    reads_copy(f, i, WORKSPACE_out_low, 0);
    writes(f, i, &a->h);
    set_op(f, i);
}

void exchange_out(struct fuse *f, int i, const struct attn_out_args *a)
{
    const int n_words = f->out_low != NULL ? f->n_decode : 0, n_all = f->n_rows;
    struct tensor rest = a->h;

    if (!is_exchanged(f, i))
        return;
    if (n_words > 0)
        exchange_words(f, i, a, n_words);
    if (is_shared(f))
        share_out(f, i, &a->h);
    rest.data = (float *)rest.data + n_words * rest.dim[1];
    f->n_rows = n_all - n_words;
    exchange_sums(f, i, &rest, 0, NULL);
    f->n_rows = n_all;
}

void exchange_expert_sums(struct fuse *f, int i)
{
    union stage_args args;
    struct rank_integers s;

    if (!is_exchanged(f, i))
        return;
    op_args(f, i, &args);
    s = (struct rank_integers){.peers = *f->in->peers,
                               .sums = workspace(f, WORKSPACE_expert_sums),
                               .poison = workspace(f, WORKSPACE_poison),
                               .n_rows = f->n_rows,
                               .n_columns = (int32_t)args.experts.h.dim[1],
                               .index = f->list->n_exchanges++};
    next_launch(f);
    launch_rank_integers(f->list, &s);
    reads_copy(f, i, WORKSPACE_expert_sums, 0);
    reads_copy(f, i, WORKSPACE_poison, 0);
    writes_copy(f, i, WORKSPACE_expert_sums, 0);
    writes_copy(f, i, WORKSPACE_poison, 0);
    set_op(f, i);
}

void exchange_logits(struct fuse *f, int i, const struct logits_args *a)
{
    const struct rank_logits l = {.peers = *f->in->peers,
                                  .logits = a->logits.data,
                                  .width = a->logits.dim[1],
                                  .first = a->first_id,
                                  .n = matrix_rows(&a->head),
                                  .signals_at = f->in->signals_at,
                                  .n_rows = f->in->counts.n_samples,
                                  .n_live = f->n_live};

    next_launch(f);
    launch_rank_logits(f->list, &l);
    reads(f, i, &a->logits);
    writes(f, i, &a->logits);
    set_op(f, i);
}

void exchange_tokens(struct fuse *f, int i, const struct sample_args *a)
{
    const bool is_first = f->in->peers->rank == 0;
    const bool has_top = !is_first && f->in->counts.has_special;
    const struct rank_tokens t = {.peers = *f->in->peers,
                                  .tokens = a->tokens.data,
                                  .logprobs = is_first ? NULL : a->logprobs.data,
                                  .top_tokens = has_top ? a->top_tokens.data : NULL,
                                  .top_logprobs = has_top ? a->top_logprobs.data : NULL,
                                  .n = f->in->counts.n_samples,
                                  .n_top = TOP_LOGPROBS_MAX,
                                  .n_live = f->n_live};

    next_launch(f);
    launch_rank_tokens(f->list, &t);
    if (is_first)
        reads(f, i, &a->tokens);
    else
        writes(f, i, &a->logprobs);
    if (has_top) {
        writes(f, i, &a->top_tokens);
        writes(f, i, &a->top_logprobs);
    }
    writes(f, i, &a->tokens);
    set_op(f, i);
}
