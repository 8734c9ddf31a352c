/* Measures the links between the GPUs of this host: bandwidth of copies, and latency of a push by
 * the kernels of links.cu. It opens a context on every GPU, which ends with the process. */
#include "base/log.h"
#include "cuda/device/gpu.h"
#include "cuda/launch/links.h"

enum { COPY_BYTES = 64 << 20, COPIES = 8, RESULT_OFFSET_BYTES = 256 };

/* One end of a link: a GPU with its stream and COPY_BYTES of its memory. */
struct link_end {
    int device;
    cudaStream_t stream;
    char *data;
};

struct link_run {
    struct link_end ends[2]; /* from, to */
    cudaEvent_t begin, end;  /* of the first end */
};

static enum osp_status end_open(struct link_end *e, int device)
{
    enum osp_status st;

    e->device = device;
    TRY(gpu_check(cudaSetDevice(device), "selecting a device"));
    TRY(gpu_check(cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking),
                  "creating a stream"));
    TRY(gpu_check(cudaMalloc((void **)&e->data, COPY_BYTES), "allocating memory for a link"));
    TRY(gpu_check(cudaMemsetAsync(e->data, 0, COPY_BYTES, e->stream), "clearing memory"));
    TRY(gpu_check(cudaStreamSynchronize(e->stream), "clearing memory"));
out:
    return st;
}

static void end_close(struct link_end *e)
{
    (void)cudaSetDevice(e->device);
    (void)cudaFree(e->data);
    if (e->stream != NULL)
        (void)cudaStreamDestroy(e->stream);
}

/* Whether the kernels of both GPUs reach the memory of the other. */
static enum osp_status enable_peers(const struct link_run *r, int32_t *has_access)
{
    enum osp_status st = OSP_OK;

    *has_access = 1;
    for (int i = 0; i < 2 && *has_access; i++) {
        const int other = r->ends[1 - i].device;
        cudaError_t error;

        TRY(gpu_check(cudaDeviceCanAccessPeer(has_access, r->ends[i].device, other),
                      "querying peer access"));
        if (!*has_access)
            break;
        TRY(gpu_check(cudaSetDevice(r->ends[i].device), "selecting a device"));
        error = cudaDeviceEnablePeerAccess(other, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled)
            (void)cudaGetLastError();
        else
            TRY(gpu_check(error, "enabling peer access"));
    }
out:
    return st;
}

static enum osp_status copy(const struct link_run *r, float *ms)
{
    const struct link_end *from = &r->ends[0], *to = &r->ends[1];
    enum osp_status st;

    TRY(gpu_check(cudaEventRecord(r->begin, from->stream), "copying over a link"));
    TRY(gpu_check(cudaMemcpyPeerAsync(to->data, to->device, from->data, from->device, COPY_BYTES,
                                      from->stream),
                  "copying over a link"));
    TRY(gpu_check(cudaEventRecord(r->end, from->stream), "copying over a link"));
    TRY(gpu_check(cudaEventSynchronize(r->end), "copying over a link"));
    TRY(gpu_check(cudaEventElapsedTime(ms, r->begin, r->end), "copying over a link"));
out:
    return st;
}

/* The fastest of a few copies. */
static enum osp_status measure_copies(struct link_run *r, double *bytes_per_s)
{
    float best_ms = 1e9f;
    enum osp_status st;

    TRY(gpu_check(cudaSetDevice(r->ends[0].device), "selecting a device"));
    TRY(gpu_check(cudaEventCreate(&r->begin), "creating an event"));
    TRY(gpu_check(cudaEventCreate(&r->end), "creating an event"));
    for (int i = 0; i < COPIES; i++) {
        float ms;

        TRY(copy(r, &ms));
        best_ms = ms < best_ms ? ms : best_ms;
    }
    *bytes_per_s = COPY_BYTES / ((double)best_ms * 1e-3);
out:
    return st;
}

/* The data of both ends begins with zero, their flags. */
static enum osp_status measure_pushes(struct link_run *r, double *latency_s)
{
    uint64_t elapsed_ns = 0;
    enum osp_status st = OSP_OK;
    int n_pushes = 1;

    for (int i = 1; i >= 0; i--) {
        struct link_end *own = &r->ends[i], *peer = &r->ends[1 - i];

        TRY(gpu_check(cudaSetDevice(own->device), "selecting a device"));
        n_pushes = launch_pushes(own->stream, (uint32_t *)own->data, (uint32_t *)peer->data, i == 0,
                                 (uint64_t *)(own->data + RESULT_OFFSET_BYTES));
        TRY(gpu_check(cudaGetLastError(), "measuring pushes"));
    }
    for (int i = 0; i < 2; i++)
        TRY(gpu_check(cudaStreamSynchronize(r->ends[i].stream), "measuring pushes"));
    TRY(gpu_check(cudaMemcpy(&elapsed_ns, r->ends[0].data + RESULT_OFFSET_BYTES, sizeof(elapsed_ns),
                             cudaMemcpyDeviceToHost),
                  "measuring pushes"));
    if (elapsed_ns == 0)
        return fail(OSP_EDEVICE, "cuda: GPU %d and GPU %d do not see each other's writes",
                    r->ends[0].device, r->ends[1].device);
    *latency_s = (double)elapsed_ns * 1e-9 / n_pushes;
out:
    return st;
}

/* Pushes come first: the copies overwrite the flags of one end. A failure of one link is logged,
 * and what it did not measure is 0. */
static enum osp_status measure_link(struct device_link *out, int from, int to)
{
    struct link_run r = {.ends = {{.device = from}, {.device = to}}};
    enum osp_status st;

    *out = (struct device_link){.from = from, .to = to};
    TRY(end_open(&r.ends[0], from));
    TRY(end_open(&r.ends[1], to));
    TRY(enable_peers(&r, &out->has_peer_access));
    if (out->has_peer_access)
        TRY(measure_pushes(&r, &out->push_latency_s));
    TRY(measure_copies(&r, &out->bytes_per_s));
out:
    (void)cudaSetDevice(from);
    if (r.begin != NULL)
        (void)cudaEventDestroy(r.begin);
    if (r.end != NULL)
        (void)cudaEventDestroy(r.end);
    end_close(&r.ends[1]);
    end_close(&r.ends[0]);
    return st;
}

enum osp_status gpu_links(struct device_link *out, int n_max, int *n_devices, int *n)
{
    enum osp_status st;

    *n = 0;
    TRY(gpu_check(cudaGetDeviceCount(n_devices), "counting devices"));
    for (int from = 0; from < *n_devices; from++)
        for (int to = 0; to < *n_devices && *n < n_max; to++)
            if (from != to && measure_link(&out[(*n)++], from, to) != OSP_OK) {
                log_warn("cuda: the link from GPU %d to GPU %d cannot be measured: %s", from, to,
                         cudaGetErrorString(cudaGetLastError()));
            }
out:
    if (*n_devices > 0)
        (void)cudaSetDevice(0); /* where an engine of this process would run */
    return st;
}
