/* Weights on their way to device memory. BF16 and MXFP4 matrices are copied as stored, or
 * generated, and packed on the device; all other weights are stored unchanged. */
#include <stdlib.h>

#include "cuda/device/gpu.h"
#include "cuda/common/layout.h"
#include "cuda/weights/load.h"

enum { LOADER_BYTES_MIN = 4 << 20 }; /* smaller weights are copied by one call */

static bool is_device_packed(const struct tensor *host)
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
    return is_device_packed(host) ? n_stacked(host) * matrix_bytes(host) : tensor_bytes(host);
}

/* Device memory for a weight, owned by the gpu until it is closed. */
static enum osp_status alloc_weight(struct gpu *gpu, void **out, int64_t size_bytes)
{
    struct packed *p = malloc(sizeof(*p));
    enum osp_status st;

    if (p == NULL)
        return fail(OSP_ENOMEM, "packing weights: out of host memory");
    st = gpu_check(cudaMalloc(out, (size_t)size_bytes), "allocating memory for weights");
    if (st != OSP_OK) {
        free(p);
        return st;
    }
    *p = (struct packed){.next = gpu->packed, .data = *out};
    gpu->packed = p;
    return OSP_OK;
}

/* The source of a weight: host memory, or values that the device generates. */
struct source {
    const struct tensor *host;
    const struct random_weight *values; /* NULL: host memory */
};

/* Bytes of a matrix in the checkpoint's layout. */
static int64_t raw_data_bytes(const struct tensor *t)
{
    const int64_t n = matrix_rows(t) * matrix_columns(t);

    return t->dtype == DTYPE_MXFP4 ? n / 2 : tensor_bytes(t) / n_stacked(t);
}

static int64_t raw_scales_bytes(const struct tensor *t)
{
    return t->scales == NULL ? 0 : matrix_rows(t) * matrix_columns(t) / MXFP4_BLOCK;
}

/* Copies bytes [first, first + n) of the weight's data or scales, in the checkpoint's layout, to
 * the device. */
static enum osp_status fetch(struct gpu *gpu, void *to, const void *host,
                             const struct random_fill *values, int64_t first, int64_t n)
{
    if (values == NULL)
        return gpu_check(cudaMemcpyAsync(to, (const char *)host + first, (size_t)n,
                                         cudaMemcpyHostToDevice, gpu->stream),
                         "copying weights to the device");
    launch_generate(gpu->stream, to, values, first, n);
    return gpu_check(cudaGetLastError(), "generating weights");
}

/* Packs matrix e of the stack; its bytes are at `data` and `scales`. */
static enum osp_status pack_matrix(struct gpu *gpu, const struct tensor *to,
                                   const struct tensor *host, int64_t e, char *data, char *scales)
{
    const struct tensor raw = {.dtype = host->dtype,
                               .n_dims = 2,
                               .dim = {matrix_rows(host), matrix_columns(host)},
                               .layout = host->layout,
                               .data = data,
                               .scales = host->scales == NULL ? NULL : scales};

    launch_pack(gpu->stream, (char *)to->data + e * matrix_bytes(host), &raw);
    return gpu_check(cudaGetLastError(), "packing weights");
}

/* One matrix after another. */
static enum osp_status pack_matrices(struct gpu *gpu, const struct tensor *to,
                                     const struct source *from)
{
    const struct tensor *host = from->host;
    const int64_t n = raw_data_bytes(host), n_scales = raw_scales_bytes(host);
    const struct random_weight *v = from->values;
    enum osp_status st = OSP_OK;

    for (int64_t e = 0; e < n_stacked(host); e++) {
        char *raw;

        TRY(gpu_workspace_reserve(gpu, WORKSPACE_raw, n + n_scales));
        raw = gpu->workspaces.at[WORKSPACE_raw].data;
        TRY(fetch(gpu, raw, host->data, v ? &v->data : NULL, e * n, n));
        if (n_scales > 0)
            TRY(fetch(gpu, raw + n, host->scales, v ? &v->scales : NULL, e * n_scales, n_scales));
        TRY(pack_matrix(gpu, to, host, e, raw, raw + n));
    }
out:
    return st;
}

static enum osp_status need_loader(struct gpu *gpu)
{
    return gpu->loader != NULL
               ? OSP_OK
               : loader_open(&gpu->loader, gpu->stream, gpu->limits.n_threads, gpu->device);
}

/* A large stack in host memory, in one load. */
static enum osp_status load_stack(struct gpu *gpu, const struct tensor *to,
                                  const struct tensor *host)
{
    const int64_t n = raw_data_bytes(host), n_scales = raw_scales_bytes(host);
    const int64_t n_matrices = n_stacked(host);
    char *raw;
    enum osp_status st;

    TRY(need_loader(gpu));
    TRY(loader_buffer(gpu->loader, &raw, (size_t)(n_matrices * (n + n_scales))));
    TRY(loader_copy(gpu->loader, raw, host->data, (size_t)(n_matrices * n)));
    if (n_scales > 0)
        TRY(loader_copy(gpu->loader, raw + n_matrices * n, host->scales,
                        (size_t)(n_matrices * n_scales)));
    for (int64_t e = 0; e < n_matrices; e++)
        TRY(pack_matrix(gpu, to, host, e, raw + e * n, raw + n_matrices * n + e * n_scales));
    TRY(loader_buffer_done(gpu->loader));
out:
    return st;
}

static enum osp_status load_plain(struct gpu *gpu, const struct tensor *to,
                                  const struct tensor *host)
{
    enum osp_status st;

    TRY(need_loader(gpu));
    TRY(loader_copy(gpu->loader, to->data, host->data, (size_t)tensor_bytes(host)));
out:
    return st;
}

static enum osp_status pack_from(struct gpu *gpu, struct tensor *out, const struct source *from)
{
    const struct tensor *host = from->host;
    const bool is_large = from->values == NULL && tensor_bytes(host) >= LOADER_BYTES_MIN;
    struct tensor ours = *host;
    enum osp_status st;

    TRY(alloc_weight(gpu, &ours.data, gpu_pack_bytes(host)));
    ours.scales = NULL;
    if (is_device_packed(host)) {
        ours.layout = LAYOUT_PACKED;
        TRY(is_large ? load_stack(gpu, &ours, host) : pack_matrices(gpu, &ours, from));
    } else if (host->dtype == DTYPE_MXFP4) {
        return fail(OSP_EINTERNAL, "cuda: an MXFP4 weight has one dimension; expected a matrix");
    } else if (is_large) {
        TRY(load_plain(gpu, &ours, host));
    } else {
        TRY(fetch(gpu, ours.data, host->data, from->values ? &from->values->data : NULL, 0,
                  tensor_bytes(host)));
    }
    /* Where the GPU reads pageable memory itself (Grace), a copy of it may still run. */
    if (!is_large && from->values == NULL && gpu->properties.pageableMemoryAccess)
        TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "copying weights to the device"));
    *out = ours;
out:
    return st;
}

/* The host memory may be freed when this call returns: all of it has been read. */
enum osp_status gpu_pack(struct gpu *gpu, struct tensor *out, const struct tensor *host)
{
    const struct source from = {.host = host};

    return pack_from(gpu, out, &from);
}

enum osp_status gpu_generate(struct gpu *gpu, struct tensor *out, const struct tensor *host,
                             const struct random_weight *values)
{
    const struct source from = {.host = host, .values = values};

    return pack_from(gpu, out, &from);
}

enum osp_status gpu_pack_end(struct gpu *gpu)
{
    enum osp_status st;

    if (gpu->loader == NULL && gpu->workspaces.at[WORKSPACE_raw].data == NULL)
        return OSP_OK;
    loader_close(gpu->loader);
    gpu->loader = NULL;
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "packing weights"));
    (void)cudaFree(gpu->workspaces.at[WORKSPACE_raw].data);
    gpu->workspaces.at[WORKSPACE_raw] = (struct gpu_workspace){0};
out:
    return st;
}

void gpu_pack_release(struct gpu *gpu)
{
    loader_close(gpu->loader);
    while (gpu->packed != NULL) {
        struct packed *p = gpu->packed;

        gpu->packed = p->next;
        (void)cudaFree(p->data);
        free(p);
    }
}
