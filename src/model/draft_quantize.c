/* Quantizes the BF16 matrices of a draft head to MXFP4 when it is opened. Norms stay as they are,
 * and so does the embedding, of which a step reads a row. */
#include "base/memory.h"
#include "model/draft.h"
#include "model/quantize.h"

static struct tensor *matrix_at(struct draft_weights *w, int i)
{
    struct tensor *const all[] = {&w->fc,     &w->wqkv[0], &w->wqkv[1], &w->wqkv[2], &w->wo,
                                  &w->w_gate, &w->w_up,    &w->w_down,  &w->head};

    return i < (int)(sizeof all / sizeof all[0]) ? all[i] : NULL;
}

static bool can_be_quantized(const struct tensor *t)
{
    return t->data != NULL && t->dtype == DTYPE_BF16 && t->dim[1] % MXFP4_BLOCK == 0;
}

static enum osp_status quantize(struct draft_weights *w, struct tensor *t, const char *file,
                                struct pool *pool)
{
    const int64_t n = t->dim[0] * t->dim[1];
    struct quantize_job job = {.from = *t, .file = file, .name = "of the draft head"};
    void *memory;
    enum osp_status st;

    TRY(mem_try_aligned(&memory, (size_t)(n / 2 + n / MXFP4_BLOCK), 1, "an MXFP4 draft head"));
    w->quantized[w->n_quantized++] = memory;
    job.blocks = memory;
    job.scales = job.blocks + n / 2;
    TRY(tensor_quantize(&job, pool));
    *t = (struct tensor){.dtype = DTYPE_MXFP4,
                         .n_dims = 2,
                         .dim = {t->dim[0], t->dim[1]},
                         .data = job.blocks,
                         .scales = job.scales};
    w->data_bytes += n / 2 + n / MXFP4_BLOCK - 2 * n;
out:
    return st;
}

enum osp_status draft_files_quantize(struct draft_files *s, int n_threads)
{
    struct pool *pool = NULL;
    struct tensor *t;
    enum osp_status st;

    TRY(pool_open(&pool, n_threads));
    for (int i = 0; (t = matrix_at(&s->weights, i)) != NULL; i++)
        if (can_be_quantized(t))
            TRY(quantize(&s->weights, t, s->checkpoint.path, pool));
out:
    pool_close(pool);
    return st;
}
