/* Weights on their way into the device's memory. Matrices of BF16 and MXFP4 are copied as they lie, one
 * matrix of a stack at a time, and packed there; everything else stays as it is. */
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

/* Matrix e of a stack as it lies in the host's memory. */
static struct tensor raw_matrix(const struct tensor *host, int64_t e)
{
    struct tensor t = {.dtype = host->dtype, .n_dims = 2, .layout = host->layout};
    int64_t n;

    t.dim[0] = matrix_rows(host);
    t.dim[1] = matrix_columns(host);
    n = t.dim[0] * t.dim[1];
    if (t.dtype == DTYPE_MXFP4) {
        t.data = (char *)host->data + e * n / 2;
        t.scales = (const char *)host->scales + e * n / MXFP4_BLOCK;
    } else {
        t.data = (char *)host->data + e * n * 2;
    }
    return t;
}

static enum osp_status pack_matrix(struct gpu *gpu, char *to, const struct tensor *host)
{
    const int64_t n = tensor_elements(host), n_scales = host->scales == NULL ? 0 : n / MXFP4_BLOCK;
    const size_t data_bytes = (size_t)(tensor_bytes(host) - n_scales);
    struct tensor raw = *host;
    enum osp_status st;

    TRY(gpu_room_need(gpu, &gpu->raw, data_bytes + (size_t)n_scales, "weights to be packed"));
    raw.data = gpu->raw.data;
    TRY(gpu_check(
        cudaMemcpyAsync(raw.data, host->data, data_bytes, cudaMemcpyHostToDevice, gpu->stream),
        "weights to the device"));
    if (n_scales > 0) {
        raw.scales = (char *)raw.data + data_bytes;
        TRY(gpu_check(cudaMemcpyAsync((char *)raw.data + data_bytes, host->scales, (size_t)n_scales,
                                      cudaMemcpyHostToDevice, gpu->stream),
                      "scales to the device"));
    }
    launch_pack(gpu->stream, to, &raw);
    TRY(gpu_check(cudaGetLastError(), "packing weights"));
out:
    return st;
}

static enum osp_status copy_plain(struct gpu *gpu, struct tensor *out, const struct tensor *host)
{
    enum osp_status st;

    if (host->dtype == DTYPE_MXFP4)
        return fail(OSP_EINTERNAL, "the device takes MXFP4 weights as matrices, not as vectors");
    TRY(gpu_check(cudaMemcpyAsync(out->data, host->data, (size_t)tensor_bytes(host),
                                  cudaMemcpyHostToDevice, gpu->stream),
                  "weights to the device"));
out:
    return st;
}

enum osp_status gpu_pack(struct gpu *gpu, struct tensor *out, const struct tensor *host)
{
    struct tensor ours = *host;
    enum osp_status st;

    TRY(keep(gpu, &ours.data, gpu_pack_bytes(host)));
    ours.scales = NULL;
    if (is_packed_here(host)) {
        ours.layout = LAYOUT_PACKED;
        for (int64_t e = 0; e < n_stacked(host); e++) {
            const struct tensor raw = raw_matrix(host, e);

            TRY(pack_matrix(gpu, (char *)ours.data + e * matrix_bytes(host), &raw));
        }
    } else {
        TRY(copy_plain(gpu, &ours, host));
    }
    /* The host's memory may be given back behind this call. */
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "packing weights"));
    *out = ours;
out:
    return st;
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
