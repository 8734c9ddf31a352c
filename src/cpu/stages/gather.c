/* Stage gather: the rows of x that the batch's samples name, in order. Copies 8 bytes an
 * element. */
#include <string.h>

#include "cpu/common/cpu.h"

enum osp_status cpu_gather(struct cpu *cpu, const struct gather_args *a, struct work *work)
{
    const int64_t width = a->x.dim[1];
    const int n_samples = cpu->batch->n_samples;

    for (int i = 0; i < n_samples; i++) {
        const int row = cpu->is_tail ? i : BATCH_SAMPLES(cpu->batch)[i].row;

        memcpy((float *)a->out.data + i * width, (const float *)a->x.data + row * width,
               (size_t)width * sizeof(float));
    }
    work->bytes = 8.0 * n_samples * (double)width;
    return OSP_OK;
}
