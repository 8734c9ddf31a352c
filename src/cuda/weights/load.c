/* Copies large weights from host memory, usually a mapped file, to the device. A few threads take
 * chunks in turn. Each faults its chunk's pages in, copies them to pinned memory, and enqueues the
 * transfer on its own stream, while it reads the next chunk. Later work on the stages' stream waits
 * for all of it. */
#include "cuda/weights/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/device/host.h"

enum {
    CHUNK_BYTES = 4 << 20,
    LANES_MAX = 16,  /* at 8 GB/s each, more than PCIe transfers */
    LANE_CHUNKS = 2, /* one is sent while the next is read */
    N_BUFFERS = 2    /* one is packed while the next is filled */
};

/* A thread and its stream. */
struct lane {
    struct loader *l;
    pthread_t thread;
    cudaStream_t stream;
    char *chunks[LANE_CHUNKS];
    cudaEvent_t sent[LANE_CHUNKS]; /* the chunk may be overwritten */
    int next_buffer;
};

struct loader {
    cudaStream_t stages;
    struct lane lanes[LANES_MAX];
    int n_lanes, n_threads; /* n_lanes: initialized; n_threads: running */
    int device;
    struct gpu_workspace buffers[N_BUFFERS];
    cudaEvent_t buffer_done[N_BUFFERS]; /* the previous content of the buffer has been packed */
    int buffer;

    pthread_mutex_t lock;
    pthread_cond_t given, taken;
    /* The load in progress, protected by the lock: */
    char *to;
    const char *from;
    size_t n_bytes, n_claimed;
    int n_busy;
    bool stop;
    cudaError_t error;
    bool is_unreadable;
};

/* ---- one lane ---- */

/* Populates the pages without a page fault for each. Also reports a read error, which would
 * otherwise kill the process with SIGBUS. Where the system does not support it, the pages are read
 * normally. */
static bool fault_in(const char *from, size_t n_bytes)
{
#ifdef MADV_POPULATE_READ
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)from / page * page;

    return madvise((void *)begin, (uintptr_t)from + n_bytes - begin, MADV_POPULATE_READ) == 0 ||
           errno == EINVAL || errno == ENOSYS;
#else
    (void)from;
    (void)n_bytes;
    return true;
#endif
}

static cudaError_t send(struct lane *lane, char *to, const char *from, size_t n_bytes)
{
    const int i = lane->next_buffer++ % LANE_CHUNKS;
    cudaError_t e = cudaEventSynchronize(lane->sent[i]);

    if (e == cudaSuccess) {
        memcpy(lane->chunks[i], from, n_bytes);
        e = cudaMemcpyAsync(to, lane->chunks[i], n_bytes, cudaMemcpyHostToDevice, lane->stream);
    }
    return e == cudaSuccess ? cudaEventRecord(lane->sent[i], lane->stream) : e;
}

/* Called with the lock held; false: there is no chunk left. */
static bool claim(struct loader *l, size_t *at, size_t *n)
{
    *at = l->n_claimed;
    *n = l->n_bytes - *at < CHUNK_BYTES ? l->n_bytes - *at : CHUNK_BYTES;
    l->n_claimed += *n;
    return *n > 0;
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    struct loader *l = lane->l;
    size_t at, n;

    (void)cudaSetDevice(l->device);
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        char *to = l->to;
        const char *from = l->from;
        cudaError_t e = cudaSuccess;
        bool is_readable;

        if (!claim(l, &at, &n)) {
            pthread_cond_wait(&l->given, &l->lock);
            continue;
        }
        l->n_busy++;
        pthread_mutex_unlock(&l->lock);
        is_readable = fault_in(from + at, n);
        if (is_readable)
            e = send(lane, to + at, from + at, n);
        pthread_mutex_lock(&l->lock);
        l->is_unreadable = l->is_unreadable || !is_readable;
        l->error = l->error == cudaSuccess ? e : l->error;
        if (--l->n_busy == 0)
            pthread_cond_signal(&l->taken);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static enum osp_status lane_open(struct loader *l)
{
    struct lane *lane = &l->lanes[l->n_lanes++];
    enum osp_status st;

    lane->l = l;
    TRY(gpu_check(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking),
                  "creating a stream"));
    for (int i = 0; i < LANE_CHUNKS; i++) {
        TRY(gpu_check(cudaMallocHost((void **)&lane->chunks[i], CHUNK_BYTES),
                      "allocating pinned memory for weights"));
        TRY(gpu_check(cudaEventCreateWithFlags(&lane->sent[i], cudaEventDisableTiming),
                      "creating an event"));
    }
    if (pthread_create(&lane->thread, NULL, lane_main, lane) != 0)
        return fail(OSP_ENOMEM, "loading weights: cannot start a thread");
    l->n_threads++;
out:
    return st;
}

static void lane_close(struct lane *lane)
{
    for (int i = 0; i < LANE_CHUNKS; i++) {
        (void)cudaFreeHost(lane->chunks[i]);
        if (lane->sent[i] != NULL)
            (void)cudaEventDestroy(lane->sent[i]);
    }
    if (lane->stream != NULL)
        (void)cudaStreamDestroy(lane->stream);
}

/* ---- the loader ---- */

static int n_lanes_wanted(int n_threads)
{
    const long n_cpus = n_threads > 0 ? n_threads : sysconf(_SC_NPROCESSORS_ONLN);

    return n_cpus < 1 ? 1 : n_cpus > LANES_MAX ? LANES_MAX : (int)n_cpus;
}

enum osp_status loader_open(struct loader **out, cudaStream_t stages, int n_threads, int device)
{
    struct loader *l = calloc(1, sizeof(*l));
    const int n_lanes = n_lanes_wanted(n_threads);
    enum osp_status st;

    if (l == NULL)
        return fail(OSP_ENOMEM, "loading weights: out of host memory");
    l->stages = stages;
    l->device = device;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->given, NULL);
    pthread_cond_init(&l->taken, NULL);
    for (int i = 0; i < N_BUFFERS; i++)
        TRY(gpu_check(cudaEventCreateWithFlags(&l->buffer_done[i], cudaEventDisableTiming),
                      "creating an event"));
    while (l->n_lanes < n_lanes)
        TRY(lane_open(l));
    *out = l;
out:
    if (st != OSP_OK)
        loader_close(l);
    return st;
}

void loader_close(struct loader *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->given);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->lanes[i].thread, NULL);
    (void)cudaStreamSynchronize(l->stages);
    for (int i = 0; i < l->n_lanes; i++)
        lane_close(&l->lanes[i]);
    for (int i = 0; i < N_BUFFERS; i++) {
        (void)cudaFree(l->buffers[i].data);
        if (l->buffer_done[i] != NULL)
            (void)cudaEventDestroy(l->buffer_done[i]);
    }
    pthread_cond_destroy(&l->given);
    pthread_cond_destroy(&l->taken);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

enum osp_status loader_buffer(struct loader *l, char **out, size_t size_bytes)
{
    struct gpu_workspace *buffer;
    enum osp_status st = OSP_OK;

    l->buffer = (l->buffer + 1) % N_BUFFERS;
    buffer = &l->buffers[l->buffer];
    if (size_bytes > buffer->size_bytes) {
        TRY(gpu_check(cudaStreamSynchronize(l->stages), "packing weights"));
        (void)cudaFree(buffer->data);
        *buffer = (struct gpu_workspace){0};
        TRY(gpu_check(cudaMalloc(&buffer->data, size_bytes),
                      "allocating memory for packing weights"));
        buffer->size_bytes = size_bytes;
    }
    for (int i = 0; i < l->n_lanes; i++)
        TRY(gpu_check(cudaStreamWaitEvent(l->lanes[i].stream, l->buffer_done[l->buffer], 0),
                      "packing weights"));
    *out = buffer->data;
out:
    return st;
}

enum osp_status loader_buffer_done(struct loader *l)
{
    return gpu_check(cudaEventRecord(l->buffer_done[l->buffer], l->stages), "packing weights");
}

static enum osp_status wait_for_lanes(struct loader *l)
{
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&l->lock);
    while (l->n_claimed < l->n_bytes || l->n_busy > 0)
        pthread_cond_wait(&l->taken, &l->lock);
    pthread_mutex_unlock(&l->lock);
    if (l->is_unreadable)
        return fail(OSP_EIO, "loading weights: the checkpoint file cannot be read");
    TRY(gpu_check(l->error, "copying weights to the device"));
    for (int i = 0; i < l->n_lanes; i++)
        for (int k = 0; k < LANE_CHUNKS; k++)
            TRY(gpu_check(cudaStreamWaitEvent(l->stages, l->lanes[i].sent[k], 0),
                          "copying weights to the device"));
out:
    return st;
}

enum osp_status loader_copy(struct loader *l, char *to, const char *from, size_t n_bytes)
{
    pthread_mutex_lock(&l->lock);
    l->to = to;
    l->from = from;
    l->n_bytes = n_bytes;
    l->n_claimed = 0;
    pthread_cond_broadcast(&l->given);
    pthread_mutex_unlock(&l->lock);
    return wait_for_lanes(l);
}
