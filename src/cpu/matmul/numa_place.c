#include "cpu/matmul/numa_place.h"

#include <string.h>

#include "cpu/matmul/pack.h"

/* Copies tiles of 16 rows, divided among threads as matmuls divide them. */
struct place_run {
    const char *from;
    char *to;
    int64_t tile_bytes,
        matrix_bytes; /* of one tile; of one matrix of a stack, whose last tile may be smaller */
};

static void place_tiles(void *ctx, int job, int first, int end, int worker)
{
    const struct place_run *run = ctx;
    const int64_t base = job * run->matrix_bytes;
    const int64_t begin = first * run->tile_bytes, behind = end * run->tile_bytes;
    const int64_t stop = behind < run->matrix_bytes ? behind : run->matrix_bytes;

    (void)worker;
    memcpy(run->to + base + begin, run->from + base + begin, (size_t)(stop - begin));
}

/* Vectors are small and read by all threads; only the oracle reads unpacked MXFP4. */
static bool is_numa_placed(const struct cpu *cpu, const struct tensor *host)
{
    if (pool_nodes(cpu->pool) < 2 || host->n_dims < 2)
        return false;
    return host->layout == LAYOUT_PACKED ||
           (host->layout == LAYOUT_ROWS && host->dtype != DTYPE_MXFP4);
}

enum osp_status cpu_numa_place_tensor(struct cpu *cpu, struct tensor *out,
                                      const struct tensor *host)
{
    const int n_stacked = host->n_dims == 3 ? (int)host->dim[0] : 1;
    const int64_t n_rows = host->n_dims < 2 ? 0 : host->dim[host->n_dims - 2];
    const int64_t n_columns = host->dim[host->n_dims - 1];
    const int64_t n_tiles = (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
    struct place_run run = {.from = host->data};
    enum osp_status st;

    *out = *host;
    if (!is_numa_placed(cpu, host))
        return OSP_OK;
    if (host->layout == LAYOUT_PACKED) {
        run.tile_bytes = packed_group_bytes(n_columns);
        run.matrix_bytes = n_tiles * run.tile_bytes;
    } else {
        run.tile_bytes = GROUP_ROWS * n_columns * (host->dtype == DTYPE_BF16 ? 2 : 4);
        run.matrix_bytes = run.tile_bytes / GROUP_ROWS * n_rows;
    }
    TRY(cpu_weight_alloc(cpu, &run.to, (size_t)n_stacked, (size_t)run.matrix_bytes));
    TRY(cpu_run_owned_tiles(cpu, n_stacked, (int32_t)n_tiles, place_tiles, &run));
    out->data = run.to;
out:
    return st;
}
