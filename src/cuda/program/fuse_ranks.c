/* Launches that exchange numbers between ranks, by pushes (common/rank_exchange.h) or by NCCL
 * (common/rank_gathered.h): sums after attn_out and the experts, logits before sampling, tokens
 * after it. All ranks have the same ones in the same order. */
#include <string.h>

#include "backend/exchange.h"
#include "cuda/common/rank_gathered.h"
#include "cuda/launch/collective.h"
#include "cuda/program/fuse_internal.h"

static_assert((int)RANK_PAIR_ROWS >= (int)DECODE_FUSED_MAX, "pairs for the rows of fused kernels");
static_assert((int)RANK_OUT_ROWS >= (int)DECODE_ROWS_MAX, "words for all decode rows");

static_assert((int)COLLECTIVE_RANKS_MAX >= (int)RANK_PEERS_MAX, "first words of all ranks");

/* ---- sums ---- */

static uint32_t *window_of(const struct rank_peers *p, int64_t at_bytes)
{
    return (uint32_t *)(p->windows[p->rank] + at_bytes);
}

/* A collective of h, which its op has written. */
static void gather_numbers(struct fuse *f, int i, const struct tensor *h,
                           const struct collective *c)
{
    next_launch(f);
    launch_collective(f->list, c);
    reads(f, i, h);
    set_op(f, i);
}

/* The sums in two collectives, of parts and of their sums: as many words as two ranks have. */
static void gather_owned(struct fuse *f, int i, const struct tensor *h, const struct rank_sums *s)
{
    const int64_t n_vectors = (int64_t)s->n_rows * (s->n_columns / RANK_WORDS);
    const int64_t part_words = rank_part_vectors(n_vectors, s->peers.n_ranks) * RANK_WORDS;
    uint32_t *sums = window_of(&s->peers, rank_owned_sums_at(n_vectors, s->peers.n_ranks));
    const struct collective parts = {.kind = COLLECTIVE_ALL_TO_ALL,
                                     .n_parts = 1,
                                     .parts = {{.from = (const uint32_t *)s->h,
                                                .to = window_of(&s->peers, 0),
                                                .n_words = n_vectors * RANK_WORDS,
                                                .part_words = part_words}}};
    const struct collective all = {
        .kind = COLLECTIVE_ALL_GATHER,
        .n_parts = 1,
        .parts = {{.from = sums + s->peers.rank * part_words, .to = sums, .n_words = part_words}}};

    gather_numbers(f, i, h, &parts);
    launch_gathered_sums(f->list, s);
    reads(f, i, h);
    set_op(f, i);
    launch_collective(f->list, &all);
    set_op(f, i);
    launch_gathered_parts(f->list, s);
    writes(f, i, h);
    set_op(f, i);
}

static void gather_sums(struct fuse *f, int i, const struct tensor *h, const struct rank_sums *s)
{
    const int64_t n_words = (int64_t)s->n_rows * s->n_columns;
    const struct collective c = {
        .kind = COLLECTIVE_ALL_GATHER,
        .n_parts = 1,
        .parts = {
            {.from = (const uint32_t *)s->h, .to = window_of(&s->peers, 0), .n_words = n_words}}};

    if (rank_is_owned(n_words / RANK_WORDS, s->peers.n_ranks)) {
        gather_owned(f, i, h, s);
        return;
    }
    gather_numbers(f, i, h, &c);
    launch_gathered_sums(f->list, s);
    reads(f, i, h);
    writes(f, i, h);
    set_op(f, i);
}

void exchange_sums(struct fuse *f, int i, const struct tensor *h, int n_integer, const float *unit)
{
    struct rank_sums s;

    if (!is_exchanged(f, i) || f->n_rows == 0)
        return;
    if (is_shared(f)) { /* the residual takes them */
        f->sums_index = f->list->n_exchanges++;
        return;
    }
    memset(&s, 0, sizeof(s)); /* padding, too: tests look for addresses in parameters */
    s.peers = *f->in->peers;
    s.h = h->data;
    s.unit = unit;
    s.n_live = f->n_live;
    s.n_rows = f->n_rows;
    s.n_integer = n_integer;
    s.n_columns = (int32_t)h->dim[1];
    s.index = f->list->n_exchanges++;
    next_launch(f);
    if (f->in->is_gathered) {
        gather_sums(f, i, h, &s);
        return;
    }
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

static void gather_words(struct fuse *f, int i, const struct attn_out_args *a,
                         const struct rank_out *o)
{
    const int64_t n_words = (int64_t)o->n_rows * o->n_columns;
    uint32_t *to = window_of(&o->peers, 0);
    const struct collective c = {
        .kind = COLLECTIVE_ALL_GATHER,
        .n_parts = 2,
        .parts = {{.from = (const uint32_t *)o->h, .to = to, .n_words = n_words},
                  {.from = (const uint32_t *)o->low,
                   .to = to + o->peers.n_ranks * n_words,
                   .n_words = n_words}}};

    launch_collective(f->list, &c);
    reads(f, i, &a->h);
    reads_copy(f, i, WORKSPACE_out_low, 0);
    set_op(f, i);
    launch_gathered_out(f->list, o);
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
    if (f->in->is_gathered)
        gather_words(f, i, a, &o);
    else
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
        share_parts(f, &a->h, 1);
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
    if (f->in->is_gathered) {
        f->st = fail(OSP_EINTERNAL, "cuda: sums of experts beside x are exchanged by pushes only");
        return;
    }
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

/* ---- logits and tokens ---- */

static void gather_logits(struct fuse *f, int i, const struct logits_args *a)
{
    const int64_t width = a->logits.dim[1];
    const int n_ranks = f->in->peers->n_ranks;
    struct collective c = {.kind = COLLECTIVE_GATHER_ROWS,
                           .n_parts = 1,
                           .parts = {{.to = a->logits.data, .n_words = width}},
                           .n_rows = f->in->counts.n_samples};

    for (int r = 0; r <= n_ranks; r++)
        c.first_words[r] = shard_vocab_row(width, r, n_ranks);
    launch_collective(f->list, &c);
    reads(f, i, &a->logits);
    writes(f, i, &a->logits);
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
    if (f->in->is_gathered) {
        gather_logits(f, i, a);
        return;
    }
    launch_rank_logits(f->list, &l);
    reads(f, i, &a->logits);
    writes(f, i, &a->logits);
    set_op(f, i);
}

/* Rank 0 has sampled them. */
static void gather_tokens(struct fuse *f, int i, const struct sample_args *a,
                          const struct rank_tokens *t)
{
    const struct collective c = {.kind = COLLECTIVE_BROADCAST,
                                 .n_parts = 1,
                                 .parts = {{.to = (uint32_t *)t->tokens, .n_words = t->n}}};

    launch_collective(f->list, &c);
    if (t->peers.rank == 0)
        reads(f, i, &a->tokens);
    writes(f, i, &a->tokens);
    set_op(f, i);
    if (t->peers.rank > 0)
        launch_gathered_tokens(f->list, t);
}

static void push_tokens(struct fuse *f, int i, const struct sample_args *a,
                        const struct rank_tokens *t)
{
    launch_rank_tokens(f->list, t);
    if (t->peers.rank == 0)
        reads(f, i, &a->tokens);
    writes(f, i, &a->tokens);
}

/* What the kernel of tokens touches besides these. */
static void note_tokens(struct fuse *f, int i, const struct sample_args *a,
                        const struct rank_tokens *t)
{
    if (t->logprobs != NULL)
        writes(f, i, &a->logprobs);
    if (t->top_tokens != NULL) {
        writes(f, i, &a->top_tokens);
        writes(f, i, &a->top_logprobs);
    }
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
    if (f->in->is_gathered)
        gather_tokens(f, i, a, &t);
    else
        push_tokens(f, i, a, &t);
    note_tokens(f, i, a, &t);
}
