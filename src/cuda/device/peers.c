/* The ranks' GPUs: each rank allocates a window, into which the others push, after they have mapped
 * it with CUDA IPC (common/rank_exchange.h), or in which NCCL gathers their numbers
 * (common/rank_gathered.h). Handles travel through the host's exchange. */
#include <string.h>

#include "base/log.h"
#include "cuda/common/rank_gathered.h"
#include "cuda/device/gpu.h"

enum {
    WORD_BYTES = 16,
    NCCL_BYTES = 640 << 20,     /* of a communicator: its kernels, and buffers of a ring */
    NCCL_PEER_BYTES = 96 << 20, /* buffers of the connections to another rank */
    /* behind the window: the step's number of exchanges, the word that ends waits, and a copy of
     * peers */
    BEHIND_BYTES = 2 * WORD_BYTES + sizeof(struct rank_peers)
};

/* What a rank sends the others about its memory. */
struct memory_note {
    cudaIpcMemHandle_t handle;
    int64_t offset_bytes; /* of the memory in the allocation that the handle names */
    int32_t device, is_there;
};

/* A sum over ranks in which every word has one rank that sets it. */
enum { NOTE_WORDS = (sizeof(struct memory_note) + 3) / 4 };

enum osp_status gpu_peers_sum(struct gpu *gpu, int64_t *data, size_t n)
{
    return gpu->limits.exchange->ops->sum(gpu->limits.exchange, data, n);
}

static enum osp_status share_notes(struct gpu *gpu, const struct memory_note *mine,
                                   struct memory_note notes[RANK_PEERS_MAX])
{
    int64_t words[RANK_PEERS_MAX * NOTE_WORDS] = {0};
    uint32_t text[NOTE_WORDS] = {0};
    enum osp_status st;

    memcpy(text, mine, sizeof(*mine));
    for (int i = 0; i < NOTE_WORDS; i++)
        words[gpu->peers.rank * NOTE_WORDS + i] = text[i];
    TRY(gpu_peers_sum(gpu, words, (size_t)(gpu->peers.n_ranks * NOTE_WORDS)));
    for (int r = 0; r < gpu->peers.n_ranks; r++) {
        for (int i = 0; i < NOTE_WORDS; i++)
            text[i] = (uint32_t)words[r * NOTE_WORDS + i];
        memcpy(&notes[r], text, sizeof(notes[r]));
    }
out:
    return st;
}

/* The start of the allocation that has the address, by the driver: the runtime does not tell. */
static enum osp_status find_base(void **out, const void *data)
{
    typedef int range_fn(unsigned long long *base, size_t *size, unsigned long long address);
    enum cudaDriverEntryPointQueryResult found;
    unsigned long long base = 0;
    void *function = NULL;
    range_fn *range;
    enum osp_status st;

    TRY(gpu_check(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, 12000,
                                                   cudaEnableDefault, &found),
                  "looking up cuMemGetAddressRange"));
    memcpy(&range, &function, sizeof(range));
    if (range == NULL || range(&base, NULL, (unsigned long long)(uintptr_t)data) != 0)
        return fail(OSP_EDEVICE, "cuda: cuMemGetAddressRange failed, which ranks need to share "
                                 "memory: update the NVIDIA driver");
    *out = (void *)(uintptr_t)base;
out:
    return st;
}

static enum osp_status note_memory(struct gpu *gpu, struct memory_note *out, void *data)
{
    void *base = NULL;
    enum osp_status st;

    *out = (struct memory_note){.device = gpu->device};
    TRY(find_base(&base, data));
    TRY(gpu_check(cudaIpcGetMemHandle(&out->handle, base), "sharing memory with other ranks"));
    out->offset_bytes = (char *)data - (char *)base;
    out->is_there = 1;
out:
    return st;
}

static enum osp_status map_memory(char **out, void **mapping, const struct memory_note *note, int r)
{
    enum osp_status st;

    if (!note->is_there)
        return fail(OSP_EDEVICE, "cuda: rank %d could not share its memory; see its log", r);
    TRY(gpu_check(cudaIpcOpenMemHandle(mapping, note->handle, cudaIpcMemLazyEnablePeerAccess),
                  "mapping memory of another rank"));
    *out = (char *)*mapping + note->offset_bytes;
out:
    return st;
}

/* ---- windows ---- */

static int64_t slot_bytes_of(const struct step_shape *s)
{
    return rank_slot_bytes(s->counts.n_rows, s->width, s->n_ranks);
}

/* What ranks gather, behind the rest of a window that other ranks write. */
static struct rank_gather gather_of(const struct step_shape *s)
{
    return rank_gather_at(
        rank_window_bytes(slot_bytes_of(s), s->counts.n_samples, s->width, s->n_ranks),
        s->counts.n_rows, s->width, s->n_active, s->n_ranks);
}

static int64_t window_bytes_of(const struct step_shape *s, enum exchange_backend backend)
{
    return backend == EXCHANGE_BY_NCCL ? rank_gathered_bytes(s->counts.n_rows, s->width, s->n_ranks)
                                       : gather_of(s).end_at;
}

/* What a communicator takes at most with the channels that nccl_open() asks for. */
static int64_t nccl_bytes(int n_ranks)
{
    return NCCL_BYTES + (int64_t)(n_ranks - 1) * NCCL_PEER_BYTES;
}

int64_t gpu_peers_bytes(const struct step_shape *shape)
{
    const enum exchange_backend backend = exchange_backend_planned(shape);

    if (shape->n_ranks < 2)
        return 0;
    return window_bytes_of(shape, backend) + BEHIND_BYTES +
           (backend == EXCHANGE_BY_NCCL ? nccl_bytes(shape->n_ranks) : 0);
}

/* Two workspaces are in the window, where the other ranks write them; zeros at first. */
static enum osp_status place_workspaces(struct gpu *gpu, const struct step_shape *s)
{
    struct rank_gather *g = &gpu->gather;
    char *const window = gpu->window;

    *g = gather_of(s);
    gpu->workspaces.at[WORKSPACE_gathered] =
        (struct gpu_workspace){window + g->operand_at, (size_t)(g->ids_at - g->operand_at)};
    gpu->workspaces.at[WORKSPACE_routes] =
        (struct gpu_workspace){window + g->ids_at, (size_t)(g->flags_at - g->ids_at)};
    return gpu_check(cudaMemsetAsync(window + g->operand_at, 0, (size_t)(g->end_at - g->operand_at),
                                     gpu->stream),
                     "clearing this rank's exchange window");
}

/* Allocates and empties this rank's window, and the words behind it. */
static enum osp_status make_window(struct gpu *gpu, const struct step_shape *s)
{
    struct rank_peers *p = &gpu->peers;
    const int64_t n_bytes = window_bytes_of(s, gpu->exchange_backend);
    void *window;
    enum osp_status st;

    TRY(gpu_check(cudaMalloc(&window, (size_t)(n_bytes + BEHIND_BYTES)),
                  "allocating this rank's exchange window"));
    gpu->window = window;
    p->windows[p->rank] = window;
    p->n_before = (uint32_t *)(void *)((char *)window + n_bytes);
    p->slot_bytes = slot_bytes_of(s);
    p->pairs_at = rank_pairs_at(p->slot_bytes, s->counts.n_samples, s->n_ranks);
    p->pairs_bytes = rank_pairs_bytes(s->width, s->n_ranks);
    p->ended = (int32_t *)(void *)((char *)window + n_bytes + WORD_BYTES);
    p->on_device = (struct rank_peers *)(void *)((char *)window + n_bytes + 2 * WORD_BYTES);
    gpu->signals_at = rank_signals_at(p->slot_bytes, s->counts.n_samples);
    TRY(gpu_check(cudaHostAlloc((void **)&p->state, sizeof(*p->state), cudaHostAllocMapped),
                  "allocating the state of the ranks"));
    *p->state = 0;
    launch_rank_window(gpu->stream, window, n_bytes);
    if (gpu->exchange_backend != EXCHANGE_BY_NCCL)
        TRY(place_workspaces(gpu, s));
    TRY(gpu_check(cudaMemsetAsync(p->ended, 0, WORD_BYTES, gpu->stream),
                  "clearing the state of the ranks"));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "clearing this rank's exchange window"));
out:
    return st;
}

static enum osp_status check_shape(const struct step_shape *s)
{
    if (s->n_ranks > RANK_PEERS_MAX)
        return fail(OSP_EUNSUPPORTED, "cuda: %d ranks; at most %d GPUs are supported", s->n_ranks,
                    (int)RANK_PEERS_MAX);
    if (s->width % RANK_WORDS != 0 || s->vocab_size % RANK_WORDS != 0)
        return fail(OSP_EUNSUPPORTED,
                    "cuda: width %lld and vocabulary %lld must be multiples of %d to be divided "
                    "among ranks",
                    (long long)s->width, (long long)s->vocab_size, (int)RANK_WORDS);
    return OSP_OK;
}

/* Maps the windows of all ranks. */
static enum osp_status open_windows(struct gpu *gpu, const struct step_shape *s)
{
    struct memory_note mine = {.device = gpu->device}, notes[RANK_PEERS_MAX];
    enum osp_status st, made = make_window(gpu, s);

    if (made == OSP_OK)
        made = note_memory(gpu, &mine, gpu->window);
    TRY(share_notes(gpu, &mine, notes)); /* also where it failed: the others wait */
    TRY(made);
    for (int r = 0; r < gpu->peers.n_ranks; r++)
        if (r != gpu->peers.rank)
            TRY(map_memory(&gpu->peers.windows[r], &gpu->mappings[r], &notes[r], r));
    TRY(gpu_check(cudaMemcpy((void *)(uintptr_t)gpu->peers.on_device, &gpu->peers,
                             sizeof(gpu->peers), cudaMemcpyHostToDevice),
                  "copying the addresses of windows"));
out:
    return st;
}

/* Connections and their buffers are made by the first collective of a kind: now, not in a step. */
static enum osp_status try_collectives(struct gpu *gpu)
{
    uint32_t *to = gpu->window;
    const int64_t n = RANK_WORDS, n_all = gpu->peers.n_ranks * n;
    struct collective tries[] = {
        {.kind = COLLECTIVE_ALL_GATHER, .parts = {{.from = to + n_all, .to = to, .n_words = n}}},
        {.kind = COLLECTIVE_ALL_TO_ALL,
         .parts = {{.from = to + n_all, .to = to, .n_words = n_all, .part_words = n}}},
        {.kind = COLLECTIVE_BROADCAST, .parts = {{.to = to, .n_words = n}}}};
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        tries[i].n_parts = 1;
        TRY(nccl_run(gpu->nccl, &tries[i], gpu->stream));
    }
    TRY(gpu_stream_wait(gpu, "trying NCCL"));
out:
    return st;
}

static void log_nccl(const struct gpu *gpu, int version, int64_t n_bytes)
{
    const int64_t planned = nccl_bytes(gpu->peers.n_ranks);

    log_info("rank %d exchanges by NCCL %d.%d.%d, which takes %.0f MB of the GPU's memory",
             gpu->peers.rank, version / 10000, version / 100 % 100, version % 100,
             (double)n_bytes * 1e-6);
    if (n_bytes > planned)
        log_warn("NCCL takes %.0f MB of the GPU's memory, %.0f MB were planned; if memory runs "
                 "out, lower NCCL_MAX_CTAS or --gpu-memory-utilization",
                 (double)n_bytes * 1e-6, (double)planned * 1e-6);
}

static enum osp_status open_nccl(struct gpu *gpu, const struct step_shape *s)
{
    size_t before, after, all;
    int version;
    enum osp_status st, made = make_window(gpu, s);

    (void)cudaMemGetInfo(&before, &all);
    TRY(nccl_open(&gpu->nccl, gpu->limits.exchange)); /* also where it failed: the others wait */
    TRY(made);
    TRY(try_collectives(gpu));
    TRY(nccl_find(&version));
    (void)cudaMemGetInfo(&after, &all);
    log_nccl(gpu, version, before > after ? (int64_t)(before - after) : 0);
out:
    return st;
}

enum osp_status gpu_peers_open(struct gpu *gpu, const struct step_shape *shape)
{
    struct exchange *x = gpu->limits.exchange;
    struct step_shape s = *shape;
    enum osp_status st;

    if (x == NULL || x->shard.n_ranks < 2 || gpu->window != NULL)
        return OSP_OK;
    s.n_ranks = gpu->peers.n_ranks = x->shard.n_ranks;
    gpu->peers.rank = x->shard.rank;
    TRY(check_shape(&s));
    TRY(exchange_backend_find(&gpu->exchange_backend, x, gpu->device, gpu->exchange_asked));
    TRY(gpu->exchange_backend == EXCHANGE_BY_NCCL ? open_nccl(gpu, &s) : open_windows(gpu, &s));
out:
    return st;
}

enum osp_status gpu_peers_logits(struct gpu *gpu, float *logits)
{
    struct memory_note mine = {.device = gpu->device}, notes[RANK_PEERS_MAX];
    char *at = NULL;
    enum osp_status st, noted = OSP_OK;

    if (gpu->window == NULL || gpu->nccl != NULL || gpu->peers.logits != NULL)
        return OSP_OK;
    if (gpu->peers.rank == 0)
        noted = note_memory(gpu, &mine, logits);
    TRY(share_notes(gpu, &mine, notes));
    if (gpu->peers.rank == 0) {
        gpu->peers.logits = logits;
        return noted;
    }
    TRY(map_memory(&at, &gpu->mappings[gpu->peers.rank], &notes[0], 0));
    gpu->peers.logits = (float *)(void *)at;
out:
    return st;
}

/* ---- closing ---- */

/* Other ranks map this one's window and logits, which must stay until they have unmapped them, or
 * receive what this rank has sent by NCCL. */
void gpu_peers_close(struct gpu *gpu)
{
    if (gpu->nccl != NULL && !gpu->has_lost_ranks && gpu_stream_wait(gpu, "closing") != OSP_OK)
        log_debug("the exchange ends after a fault");
    if (gpu->has_lost_ranks)
        gpu_nccl_leave(gpu); /* the stream ends only then */
    if (gpu->peers.state != NULL)
        *(volatile int32_t *)gpu->peers.state = RANK_STATE_ENDED;
    if (gpu->stream != NULL)
        (void)cudaStreamSynchronize(gpu->stream);
    for (int r = 0; r < RANK_PEERS_MAX; r++)
        if (gpu->mappings[r] != NULL)
            (void)cudaIpcCloseMemHandle(gpu->mappings[r]);
    if (gpu->window != NULL)
        gpu->limits.exchange->ops->leave(gpu->limits.exchange);
    gpu->workspaces.at[WORKSPACE_gathered] = gpu->workspaces.at[WORKSPACE_routes] =
        (struct gpu_workspace){0};
    gpu_nccl_leave(gpu);
    (void)cudaFree(gpu->window);
    (void)cudaFreeHost(gpu->peers.state);
}
