/* The ranks' GPUs: each rank allocates a window (common/rank_exchange.h) that the others map with
 * CUDA IPC. Handles travel through the host's exchange. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cuda/device/gpu.h"

enum {
    FAULT_MS_MAX = 700, /* after a CUDA error, for the heartbeats to find the rank that has ended */
    WORD_BYTES = 16,
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

static enum osp_status check_access(const struct gpu *gpu, int r, int peer)
{
    int can_access = 1;
    enum osp_status st = OSP_OK;

    if (peer != gpu->device)
        TRY(gpu_check(cudaDeviceCanAccessPeer(&can_access, gpu->device, peer),
                      "asking for peer access"));
    if (!can_access)
        return fail(OSP_EUNSUPPORTED,
                    "cuda: GPU %d of this rank cannot access memory of GPU %d of rank %d; tensor "
                    "parallelism needs GPUs with peer access (nvidia-smi topo -p2p w)",
                    gpu->device, peer, r);
out:
    return st;
}

static enum osp_status map_memory(struct gpu *gpu, char **out, void **mapping,
                                  const struct memory_note *note, int r)
{
    enum osp_status st;

    if (!note->is_there)
        return fail(OSP_EDEVICE, "cuda: rank %d could not share its memory; see its log", r);
    TRY(check_access(gpu, r, note->device));
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

static struct rank_gather gather_of(const struct step_shape *s)
{
    return rank_gather_at(
        rank_window_bytes(slot_bytes_of(s), s->counts.n_samples, s->width, s->n_ranks),
        s->counts.n_rows, s->width, s->n_active, s->n_ranks);
}

static int64_t window_bytes_of(const struct step_shape *s)
{
    return gather_of(s).end_at;
}

int64_t gpu_peers_bytes(const struct step_shape *shape)
{
    return shape->n_ranks > 1 ? window_bytes_of(shape) + BEHIND_BYTES : 0;
}

/* Two workspaces are in the window, where the other ranks write them. */
static void place_workspaces(struct gpu *gpu, char *window)
{
    const struct rank_gather *g = &gpu->gather;

    gpu->workspaces.at[WORKSPACE_gathered] =
        (struct gpu_workspace){window + g->operand_at, (size_t)(g->ids_at - g->operand_at)};
    gpu->workspaces.at[WORKSPACE_routes] =
        (struct gpu_workspace){window + g->ids_at, (size_t)(g->flags_at - g->ids_at)};
}

/* Allocates and empties this rank's window, and the words behind it. */
static enum osp_status make_window(struct gpu *gpu, const struct step_shape *s)
{
    struct rank_peers *p = &gpu->peers;
    const int64_t n_bytes = window_bytes_of(s);
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
    gpu->gather = gather_of(s);
    place_workspaces(gpu, window);
    TRY(gpu_check(cudaHostAlloc((void **)&p->state, sizeof(*p->state), cudaHostAllocMapped),
                  "allocating the state of the ranks"));
    *p->state = 0;
    launch_rank_window(gpu->stream, window, n_bytes);
    TRY(gpu_check(cudaMemsetAsync((char *)window + gpu->gather.operand_at, 0,
                                  (size_t)(n_bytes - gpu->gather.operand_at), gpu->stream),
                  "clearing this rank's exchange window"));
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

enum osp_status gpu_peers_open(struct gpu *gpu, const struct step_shape *shape)
{
    struct memory_note mine = {.device = gpu->device}, notes[RANK_PEERS_MAX];
    struct exchange *x = gpu->limits.exchange;
    struct step_shape s = *shape;
    enum osp_status st, made;

    if (x == NULL || x->shard.n_ranks < 2 || gpu->window != NULL)
        return OSP_OK;
    s.n_ranks = gpu->peers.n_ranks = x->shard.n_ranks;
    gpu->peers.rank = x->shard.rank;
    TRY(check_shape(&s));
    made = make_window(gpu, &s);
    if (made == OSP_OK)
        made = note_memory(gpu, &mine, gpu->window);
    TRY(share_notes(gpu, &mine, notes)); /* also where it failed: the others wait */
    TRY(made);
    for (int r = 0; r < gpu->peers.n_ranks; r++)
        if (r != gpu->peers.rank)
            TRY(map_memory(gpu, &gpu->peers.windows[r], &gpu->mappings[r], &notes[r], r));
    TRY(gpu_check(cudaMemcpy((void *)(uintptr_t)gpu->peers.on_device, &gpu->peers,
                             sizeof(gpu->peers), cudaMemcpyHostToDevice),
                  "copying the addresses of windows"));
out:
    return st;
}

enum osp_status gpu_peers_logits(struct gpu *gpu, float *logits)
{
    struct memory_note mine = {.device = gpu->device}, notes[RANK_PEERS_MAX];
    char *at;
    enum osp_status st, noted = OSP_OK;

    if (gpu->window == NULL || gpu->peers.logits != NULL)
        return OSP_OK;
    if (gpu->peers.rank == 0)
        noted = note_memory(gpu, &mine, logits);
    TRY(share_notes(gpu, &mine, notes));
    if (gpu->peers.rank == 0) {
        gpu->peers.logits = logits;
        return noted;
    }
    TRY(map_memory(gpu, &at, &gpu->mappings[gpu->peers.rank], &notes[0], 0));
    gpu->peers.logits = (float *)(void *)at;
out:
    return st;
}

/* Other ranks map this one's window and logits, which must stay until they have unmapped them. */
void gpu_peers_close(struct gpu *gpu)
{
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
    (void)cudaFree(gpu->window);
    (void)cudaFreeHost(gpu->peers.state);
}

/* ---- waits ---- */

static enum osp_status check_ranks(struct gpu *gpu)
{
    return gpu->limits.exchange->ops->check(gpu->limits.exchange);
}

/* A rank that ends takes its memory with it, so that CUDA can fail before its end is noticed. */
static enum osp_status explain(struct gpu *gpu, cudaError_t error)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)FAULT_MS_MAX * 1000000u;
    enum osp_status st;

    do {
        TRY(check_ranks(gpu));
        (void)usleep(1000);
    } while (clock_ns() < end_ns);
    return gpu_check(error, "a step");
out:
    return st;
}

enum osp_status gpu_peers_wait(struct gpu *gpu, cudaEvent_t done)
{
    cudaError_t error;
    enum osp_status st;

    while ((error = cudaEventQuery(done)) == cudaErrorNotReady) {
        st = check_ranks(gpu);
        if (st != OSP_OK) {
            *(volatile int32_t *)gpu->peers.state = RANK_STATE_ENDED;
            (void)cudaEventSynchronize(done);
            return check_ranks(gpu);
        }
        (void)sched_yield();
    }
    (void)cudaGetLastError(); /* clears cudaErrorNotReady */
    if (error != cudaSuccess)
        return explain(gpu, error);
    if (*gpu->peers.state > 0)
        return fail(OSP_EDEVICE, "rank %d did not reach the exchange of a step within %d s",
                    *gpu->peers.state - 1, EXCHANGE_WAIT_MS / 1000);
    return OSP_OK;
}
