#include "cpu/matmul/int8_interleaved.h"

struct interleave_run {
    const struct cpu *cpu;
    const struct int8_row *rows;
    const struct matmul *jobs;
    const struct interleaved *tiles;
    uint8_t *data;
};

static int tiles_of(const struct matmul *m)
{
    const bool is_interleaved = m->w.layout == LAYOUT_PACKED && m->n_tokens >= INT8_INTERLEAVED_MIN;

    return is_interleaved ? (m->n_tokens + INT8_INTERLEAVED_ROWS - 1) / INT8_INTERLEAVED_ROWS : 0;
}

static int64_t tile_at(const struct interleaved *a, int tile)
{
    return interleaved_bytes(tile * INT8_INTERLEAVED_ROWS, a->n_blocks);
}

static void interleave_tile(void *ctx, int tile, int worker)
{
    const struct interleave_run *run = ctx;
    struct int8_row x[INT8_INTERLEAVED_ROWS];
    int job = 0, first, n;

    (void)worker;
    while (run->tiles->first[job + 1] <= tile)
        job++;
    first = (tile - run->tiles->first[job]) * INT8_INTERLEAVED_ROWS;
    n = run->jobs[job].n_tokens - first;
    n = n < INT8_INTERLEAVED_ROWS ? n : INT8_INTERLEAVED_ROWS;
    for (int t = 0; t < n; t++)
        x[t] = run->rows[matmul_input_row(&run->jobs[job], first + t)];
    run->cpu->kernels->interleave_int8(run->data + tile_at(run->tiles, tile), x, n,
                                       run->tiles->n_blocks);
}

/* Reserves for the maximum number of tiles that so many tokens can have, so that the workspace does
 * not grow with their distribution over the experts. */
static enum osp_status tile_workspace(struct cpu *cpu, struct interleaved *a,
                                      const struct matmul *jobs, int n_jobs, uint8_t **data)
{
    int64_t n_tokens = 0;
    int32_t *first;
    enum osp_status st;

    TRY(workspace_reserve(&cpu->interleaved_first, (size_t)n_jobs + 1, sizeof(*first),
                          "first tiles of the jobs"));
    a->first = first = cpu->interleaved_first.data;
    first[0] = 0;
    for (int j = 0; j < n_jobs; j++) {
        first[j + 1] = first[j] + tiles_of(&jobs[j]);
        n_tokens += jobs[j].n_tokens;
    }
    if (first[n_jobs] == 0)
        return OSP_OK;
    TRY(workspace_reserve(&cpu->interleaved,
                          interleaved_tiles_max((size_t)n_tokens, (size_t)n_jobs),
                          (size_t)tile_at(a, 1), "interleaved int8 activations"));
    a->data = *data = cpu->interleaved.data;
out:
    return st;
}

enum osp_status cpu_interleave(struct cpu *cpu, struct interleaved *out,
                               const struct int8_row *rows, const struct matmul *jobs, int n_jobs)
{
    struct interleave_run run = {.cpu = cpu, .rows = rows, .jobs = jobs, .tiles = out};
    enum osp_status st;

    *out = (struct interleaved){.n_blocks = (int)(jobs[0].w.dim[1] / MXFP4_BLOCK)};
    if (cpu->kernels->interleave_int8 == NULL)
        return OSP_OK;
    TRY(tile_workspace(cpu, out, jobs, n_jobs, &run.data));
    if (out->data != NULL)
        pool_run(cpu->pool, interleave_tile, &run, out->first[n_jobs]);
out:
    return st;
}

const uint8_t *interleaved_of(const struct interleaved *a, int job)
{
    return a->data == NULL ? NULL : a->data + tile_at(a, a->first[job]);
}
