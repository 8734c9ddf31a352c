#include "cpu/matmul/int8_arranged.h"

struct arrange_run {
    const struct cpu *cpu;
    const struct int8_row *rows;
    const struct matmul *jobs;
    const struct arranged *tiles;
    uint8_t *data;
};

static int tiles_of(const struct matmul *m)
{
    const bool is_arranged = m->w.layout == LAYOUT_PACKED && m->n_tokens >= INT8_ARRANGED_MIN;

    return is_arranged ? (m->n_tokens + INT8_ARRANGED_ROWS - 1) / INT8_ARRANGED_ROWS : 0;
}

static int64_t tile_at(const struct arranged *a, int tile)
{
    return arranged_bytes(tile * INT8_ARRANGED_ROWS, a->n_blocks);
}

static void arrange_tile(void *ctx, int tile, int worker)
{
    const struct arrange_run *run = ctx;
    struct int8_row x[INT8_ARRANGED_ROWS];
    int job = 0, first, n;

    (void)worker;
    while (run->tiles->first[job + 1] <= tile)
        job++;
    first = (tile - run->tiles->first[job]) * INT8_ARRANGED_ROWS;
    n = run->jobs[job].n_tokens - first;
    n = n < INT8_ARRANGED_ROWS ? n : INT8_ARRANGED_ROWS;
    for (int t = 0; t < n; t++)
        x[t] = run->rows[matmul_input_row(&run->jobs[job], first + t)];
    run->cpu->kernels->arrange_int8(run->data + tile_at(run->tiles, tile), x, n,
                                    run->tiles->n_blocks);
}

/* Room for so many tiles as these tokens could have, so that it does not grow with their distribution. */
static enum osp_status tile_room(struct cpu *cpu, struct arranged *a, const struct matmul *jobs,
                                 int n_jobs, uint8_t **data)
{
    int64_t n_tokens = 0;
    int32_t *first;
    enum osp_status st;

    TRY(room_need(&cpu->arranged_first, (size_t)n_jobs + 1, sizeof(*first), "tiles of rows"));
    a->first = first = cpu->arranged_first.data;
    first[0] = 0;
    for (int j = 0; j < n_jobs; j++) {
        first[j + 1] = first[j] + tiles_of(&jobs[j]);
        n_tokens += jobs[j].n_tokens;
    }
    if (first[n_jobs] == 0)
        return OSP_OK;
    TRY(room_need(&cpu->arranged, arranged_tiles_max((size_t)n_tokens, (size_t)n_jobs),
                  (size_t)tile_at(a, 1), "int8 activations, arranged"));
    a->data = *data = cpu->arranged.data;
out:
    return st;
}

enum osp_status cpu_arrange(struct cpu *cpu, struct arranged *out, const struct int8_row *rows,
                            const struct matmul *jobs, int n_jobs)
{
    struct arrange_run run = {.cpu = cpu, .rows = rows, .jobs = jobs, .tiles = out};
    enum osp_status st;

    *out = (struct arranged){.n_blocks = (int)(jobs[0].w.dim[1] / MXFP4_BLOCK)};
    if (cpu->kernels->arrange_int8 == NULL)
        return OSP_OK;
    TRY(tile_room(cpu, out, jobs, n_jobs, &run.data));
    if (out->data != NULL)
        pool_run(cpu->pool, arrange_tile, &run, out->first[n_jobs]);
out:
    return st;
}

const uint8_t *arranged_of(const struct arranged *a, int job)
{
    return a->data == NULL ? NULL : a->data + tile_at(a, a->first[job]);
}
