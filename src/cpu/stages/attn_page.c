/* Attention of a block of rows over one page of one key/value head. The page is looked up once, and
 * F8 (and I16, if the ISA does not read it in place) is widened once. Then each row uses the slots
 * that it sees. "ref", which has no attention kernels, reads the page as rows of f32, head by
 * head. */
#include "cpu/stages/attn.h"

#include <math.h>
#include <string.h>

#include "backend/tree_mask.h"
#include "cpu/kernels/exp4.h"

enum {
    HEADS_AT_ONCE = 8, /* "ref": query heads that use the keys of a page together */
    CACHE_LINE_BYTES = 64
};

/* Keys (0) or values (1) of a page. */
static char *side_at(const struct attn_run *run, const struct attn_page_ref *at, int which)
{
    const struct attn_args *a = run->a;
    const struct batch_seq *s = &BATCH_SEQS(run->cpu->batch)[at->seq];
    const int32_t index = s->table[a->group] + at->page - s->first_page[a->group];

    return kv_side(&a->kv, BATCH_PAGES(run->cpu->batch)[index], which, at->kv_head);
}

static const float *queries(const struct attn_run *run, int row, int kv_head)
{
    return (const float *)run->a->q.data + row * run->a->q.dim[1] +
           kv_head * run->n_group * run->head_dim;
}

/* ---- plain rows of f32 ---- */

/* Adds a few keys to the sums: their scores q.k to the softmax, their values to `acc`. */
static void accumulate_page(const struct attn_run *run, struct softmax *m, float *acc,
                            struct rows v, float *scores)
{
    const struct kernels *k = run->cpu->kernels;
    const float largest = k->scale(scores, v.n_rows, run->a->scale, m->largest);
    const float shrink = exp1(m->largest - largest);

    if (shrink != 1.0f)
        for (int i = 0; i < v.n; i++)
            acc[i] *= shrink;
    m->largest = largest;
    m->denominator = m->denominator * shrink + k->exp_sum(scores, v.n_rows, largest);
    k->weighted_sum(acc, v, scores);
}

/* At most HEADS_AT_ONCE heads of one row, from head g on. */
static void attend_heads(const struct attn_run *run, const struct sums *sums, int g, const float *q,
                         struct rows keys, struct rows values)
{
    const int n_left = run->n_group - g, n = n_left < HEADS_AT_ONCE ? n_left : HEADS_AT_ONCE;
    float scores[HEADS_AT_ONCE][PAGE_TOKENS];
    const float *heads[HEADS_AT_ONCE];

    for (int i = 0; i < n; i++)
        heads[i] = q + (g + i) * keys.n;
    run->cpu->kernels->gemm_f32(&(struct gemm){.out = scores[0],
                                               .out_stride = PAGE_TOKENS,
                                               .w = keys.data,
                                               .x = heads,
                                               .n_rows = keys.n_rows,
                                               .n = keys.n,
                                               .n_x = n});
    for (int i = 0; i < n; i++)
        accumulate_page(run, &sums->states[g + i], sums->acc + (int64_t)(g + i) * run->width,
                        values, scores[i]);
}

/* ---- one row ---- */

/* Slots [s.first, s.end) of the page, which is in the thread's workspace as f32. */
static void row_plain(const struct attn_run *run, const struct attn_workspace *workspace,
                      struct span s, const float *q, const struct sums *sums)
{
    const int D = run->head_dim, n = s.end - s.first;
    const struct rows keys = {workspace->page[0] + s.first * D, n, D};
    const struct rows values = {workspace->page[1] + s.first * D, n, D};

    for (int g = 0; g < run->n_group; g += HEADS_AT_ONCE)
        attend_heads(run, sums, g, q, keys, values);
}

void attn_codes(const struct attn_run *run, const struct row_block *block, int kv_head,
                const struct attn_workspace *workspace)
{
    for (int r = 0; r < block->n_rows; r++)
        run->cpu->kernels->codes_i16(workspace->codes + (int64_t)r * run->n_group * run->width,
                                     workspace->q_scales + r * run->n_group,
                                     queries(run, block->first_row + r, kv_head), run->n_group,
                                     run->head_dim);
}

/* ---- a page ---- */

/* Widens keys or values into the thread's workspace, if the ISA does not read them in place. */
static const void *side_words(const struct attn_run *run, const char *side, int which,
                              float *workspace)
{
    const struct tensor *kv = &run->a->kv;
    const struct kernels *k = run->cpu->kernels;
    const int n_rows = kv_side_words(kv->dtype, run->head_dim) / KV_COLUMNS;

    if (k->attend == NULL)
        kv_load(workspace, kv, side, which);
    else if (kv->dtype == DTYPE_F8)
        k->widen_f8(workspace, side, n_rows);
    else if (kv->dtype == DTYPE_I16 && !attn_has_codes(run))
        k->widen_i16(workspace, side, n_rows);
    else
        return side;
    return workspace;
}

struct attend attn_call(const struct attn_run *run)
{
    return (struct attend){.n_heads = run->n_group,
                           .head_dim = run->head_dim,
                           .scale = run->a->scale,
                           .is_bf16 = run->a->kv.dtype == DTYPE_BF16};
}

/* Sets which keys and values the next calls read. */
static void use_side(const struct attn_run *run, int which, const char *side,
                     const struct attn_workspace *workspace)
{
    struct attend *call = workspace->call;

    call->sides[which] = side_words(run, side, which, workspace->page[which]);
    call->scales[which] = kv_scales(&run->a->kv, side);
}

static void use_page(const struct attn_run *run, const struct attn_page_ref *at,
                     const struct attn_workspace *workspace)
{
    for (int which = 0; which < 2; which++)
        use_side(run, which, side_at(run, at, which), workspace);
}

static void prefetch(const struct attn_run *run, const struct attn_page_ref *next,
                     struct attend *call)
{
    const struct tensor *kv = &run->a->kv;

    call->n_prefetch_lines =
        next == NULL ? 0 : (int)(kv_side_bytes(kv->dtype, run->head_dim) / CACHE_LINE_BYTES);
    for (int which = 0; which < 2 && next != NULL; which++)
        call->prefetch[which] = side_at(run, next, which);
}

/* ---- rows of a draft tree ---- */

/* Whether the page has positions of the row's path that live in other slots. */
static bool is_moved(const struct batch *b, int row, int page)
{
    return !tree_mask_is_plain(tree_mask(b, row)) && tree_first(b, row) < (page + 1) * PAGE_TOKENS;
}

/* Copies the keys or values of the row's path from their slots to their positions. */
static void copy_path(const struct attn_run *run, const struct attn_page_ref *at, int row,
                      int which, char *to)
{
    const struct batch *b = run->cpu->batch;
    int position = tree_first(b, row);
    const int first = position;

    for (uint32_t left = tree_mask(b, row); left != 0; left &= left - 1, position++) {
        const int slot = first + __builtin_ctz(left);
        const struct attn_page_ref from = {at->seq, at->kv_head, slot / PAGE_TOKENS};

        if (position / PAGE_TOKENS == at->page && slot != position)
            kv_copy_slot(&run->a->kv, which, to, position % PAGE_TOKENS, side_at(run, &from, which),
                         slot % PAGE_TOKENS);
    }
}

/* The page as the row sees it: every key and value at its position, as in one-row decode. So the
 * row's sums have the same order, and the same bits. */
static void use_tree_page(const struct attn_run *run, const struct attn_page_ref *at, int row,
                          const struct attn_workspace *workspace)
{
    const int64_t size_bytes = kv_side_bytes(run->a->kv.dtype, run->head_dim);

    for (int which = 0; which < 2; which++) {
        char *side = workspace->tree_page[which];

        memcpy(side, side_at(run, at, which), (size_t)size_bytes);
        copy_path(run, at, row, which, side);
        use_side(run, which, side, workspace);
    }
}

/* ---- all rows of a block ---- */

static void attend_row(const struct attn_run *run, const struct attn_workspace *workspace,
                       const struct sums *row)
{
    struct attend *call = workspace->call;

    if (run->cpu->kernels->attend == NULL)
        row_plain(run, workspace, (struct span){call->first, call->end}, call->q, row);
    else if (attn_has_codes(run))
        run->cpu->kernels->attend_i16(call);
    else
        run->cpu->kernels->attend(call);
    call->n_prefetch_lines = 0; /* prefetch once for each page */
}

void attn_page(const struct attn_run *run, const struct row_block *block,
               const struct attn_page_ref *at, const struct attn_page_ref *next,
               const struct attn_workspace *workspace, const struct sums *sums)
{
    const int32_t *positions = BATCH_POSITIONS(run->cpu->batch) + block->first_row;
    const int start = at->page * PAGE_TOKENS;
    struct attend *call = workspace->call;
    bool is_used = false; /* the calls read the page itself */

    prefetch(run, next, call);
    for (int r = 0; r < block->n_rows; r++) {
        const struct span s = span_within(attn_span(run->a, positions[r]), start, PAGE_TOKENS);
        const struct sums row = {sums->states + r * run->n_group,
                                 sums->acc + (int64_t)r * run->n_group * run->width};

        if (s.first >= s.end)
            continue;
        if (is_moved(run->cpu->batch, block->first_row + r, at->page)) {
            use_tree_page(run, at, block->first_row + r, workspace);
            is_used = false;
        } else if (!is_used) {
            use_page(run, at, workspace);
            is_used = true;
        }
        call->q = queries(run, block->first_row + r, at->kv_head);
        call->states = row.states;
        call->acc = row.acc;
        call->first = s.first - start;
        call->end = s.end - start;
        call->codes = workspace->codes + (int64_t)r * run->n_group * run->width;
        call->q_scales = workspace->q_scales + r * run->n_group;
        attend_row(run, workspace, &row);
    }
}
