/* Stage tap: columns of `taps` = x, the residual stream, for a draft head. Copies 8 bytes an
 * element. */
#include <string.h>

#include "cpu/common/cpu.h"

enum osp_status cpu_tap(struct cpu *cpu, const struct tap_args *a, struct work *work)
{
    const int64_t width = a->x.dim[1], n_columns = a->taps.dim[1];

    for (int row = 0; row < cpu->n_rows; row++)
        memcpy((float *)a->taps.data + row * n_columns + a->index * width,
               (const float *)a->x.data + row * width, (size_t)width * sizeof(float));
    work->bytes = 8.0 * cpu->n_rows * (double)width;
    return OSP_OK;
}
