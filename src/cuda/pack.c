/* Weights on their way into the device's memory. Matrices of BF16 and MXFP4 are copied as they lie, or
 * generated, one matrix of a stack at a time, and packed there; everything else stays as it is. */
#include <stdlib.h>

#include "cuda/gpu.h"
#include "cuda/layout.h"

static bool is_packed_here(const struct tensor *host)
{
    return host->n_dims >= 2 && (host->dtype == DTYPE_MXFP4 || host->dtype == DTYPE_BF16) &&
           host->layout != LAYOUT_PACKED;
}

static int64_t n_stacked(const struct tensor *t)
{
    return t->n_dims == 3 ? t->dim[0] : 1;
}

int64_t gpu_pack_bytes(const struct tensor *host)
{
    return is_packed_here(host) ? n_stacked(host) * matrix_bytes(host) : tensor_bytes(host);
}

/* Memory of the device for a weight, kept until it closes. */
static enum osp_status keep(struct gpu *gpu, void **out, int64_t size_bytes)
{
    struct packed *p = malloc(sizeof(*p));
    enum osp_status st;

    if (p == NULL)
        return fail(OSP_ENOMEM, "packed weights: no memory");
    st = gpu_check(cudaMalloc(out, (size_t)size_bytes), "memory for weights");
    if (st != OSP_OK) {
        free(p);
        return st;
    }
    *p = (struct packed){.next = gpu->packed, .data = *out};
    gpu->packed = p;
    return OSP_OK;
}

/* Where a weight comes from: the host's memory, or values that the device makes. */
struct source {
    const struct tensor *host;
    const struct generated *values; /* NULL: the host's */
};

/* Bytes first to first + n of the weight's data or scales, as they lie in a checkpoint, to the device. */
static enum osp_status fetch(struct gpu *gpu, void *to, const void *host,
                             const struct generated_bytes *values, int64_t first, int64_t n)
{
    if (values == NULL)
        return gpu_check(cudaMemcpyAsync(to, (const char *)host + first, (size_t)n,
                                         cudaMemcpyHostToDevice, gpu->stream),
                         "weights to the device");
    launch_generate(gpu->stream, to, values, first, n);
    return gpu_check(cudaGetLastError(), "generating weights");
}

/* Matrix e of the stack. */
static enum osp_status pack_matrix(struct gpu *gpu, char *to, const struct source *from, int64_t e)
{
    const struct tensor *host = from->host;
    struct tensor raw = {.dtype = host->dtype,
                         .n_dims = 2,
                         .dim = {matrix_rows(host), matrix_columns(host)},
                         .layout = host->layout};
    const int64_t n = tensor_elements(&raw), n_scales = host->scales == NULL ? 0 : n / MXFP4_BLOCK;
    const int64_t data_bytes = host->scales == NULL ? n * 2 : n / 2;
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->raw, (size_t)(data_bytes + n_scales), "weights to be packed"));
    raw.data = gpu->raw.data;
    TRY(fetch(gpu, raw.data, host->data, from->values ? &from->values->data : NULL, e * data_bytes,
              data_bytes));
    if (n_scales > 0) {
        raw.scales = (char *)raw.data + data_bytes;
        TRY(fetch(gpu, (char *)raw.data + data_bytes, host->scales,
                  from->values ? &from->values->scales : NULL, e * n_scales, n_scales));
    }
    launch_pack(gpu->stream, to, &raw);
    TRY(gpu_check(cudaGetLastError(), "packing weights"));
out:
    return st;
}

static enum osp_status pack_from(struct gpu *gpu, struct tensor *out, const struct source *from)
{
    const struct tensor *host = from->host;
    struct tensor ours = *host;
    enum osp_status st;

    TRY(keep(gpu, &ours.data, gpu_pack_bytes(host)));
    ours.scales = NULL;
    if (is_packed_here(host)) {
        ours.layout = LAYOUT_PACKED;
        for (int64_t e = 0; e < n_stacked(host); e++)
            TRY(pack_matrix(gpu, (char *)ours.data + e * matrix_bytes(host), from, e));
    } else if (host->dtype == DTYPE_MXFP4) {
        return fail(OSP_EINTERNAL, "the device takes MXFP4 weights as matrices, not as vectors");
    } else {
        TRY(fetch(gpu, ours.data, host->data, from->values ? &from->values->data : NULL, 0,
                  tensor_bytes(host)));
    }
    *out = ours;
out:
    return st;
}

enum osp_status gpu_pack(struct gpu *gpu, struct tensor *out, const struct tensor *host)
{
    const struct source from = {.host = host};
    enum osp_status st;

    TRY(pack_from(gpu, out, &from));
    /* The host's memory may be given back behind this call. */
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "packing weights"));
out:
    return st;
}

enum osp_status gpu_generate(struct gpu *gpu, struct tensor *out, const struct tensor *host,
                             const struct generated *values)
{
    const struct source from = {.host = host, .values = values};

    return pack_from(gpu, out, &from);
}

void gpu_pack_release(struct gpu *gpu)
{
    while (gpu->packed != NULL) {
        struct packed *p = gpu->packed;

        gpu->packed = p->next;
        (void)cudaFree(p->data);
        free(p);
    }
}
