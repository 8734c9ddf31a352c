/* A stand-in for libnccl.so.2 that moves words of host memory between threads of one process, for
 * tests of the code that calls NCCL. Ranks match sends and receives in their order, as NCCL does.
 * Calls do not block: a group is ncclInProgress until ncclCommGetAsyncError() has found all its
 * partners. It checks what NCCL would refuse. Its own knobs:
 *
 *   NCCL_STANDIN_VERSION   environment: the version that it reports
 *   nccl_standin_break()   connections are lost: every communicator has ncclRemoteError */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device/nccl_api.h"

enum { WORLDS_MAX = 64, OPS_MAX = 4096, VERSION = 22803 };

#define EXPORTED __attribute__((visibility("default")))

#define DECLARE(result, name, parameters) EXPORTED result name parameters;
NCCL_FUNCTION_LIST(DECLARE)
#undef DECLARE
EXPORTED int ncclGetVersion(int *version);
EXPORTED void nccl_standin_break(bool now);

/* A send or a receive that waits for its partner. */
struct op {
    bool is_send, is_done;
    const uint32_t *from;
    uint32_t *to;
    size_t n;
    int peer;
};

struct comm {
    struct world *world;
    int rank;
    struct op ops[OPS_MAX]; /* (n) */
    int n;
};

struct world {
    int n_ranks, n_joined;
    struct comm *comms[COLLECTIVE_RANKS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct world worlds[WORLDS_MAX];
static int n_worlds;
static bool is_broken;

static _Thread_local bool is_group;
static _Thread_local struct comm *group_comm;

/* ---- the library ---- */

int ncclGetVersion(int *version)
{
    const char *given = getenv("NCCL_STANDIN_VERSION");

    *version = given != NULL ? atoi(given) : VERSION;
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
                                       : "invalid usage";
}

const char *ncclGetLastError(nccl_comm of)
{
    (void)of;
    return "";
}

void nccl_standin_break(bool now)
{
    pthread_mutex_lock(&lock);
    is_broken = now;
    pthread_mutex_unlock(&lock);
}

/* ---- communicators ---- */

int ncclGetUniqueId(struct nccl_id *id)
{
    int number;

    pthread_mutex_lock(&lock);
    number = n_worlds++;
    pthread_mutex_unlock(&lock);
    if (number >= WORLDS_MAX)
        return NCCL_INVALID_USAGE;
    memset(id, 0x5A, sizeof *id); /* all bytes must arrive */
    memcpy(id, &number, sizeof number);
    return NCCL_SUCCESS;
}

static bool is_valid(const struct nccl_id *id, int *number)
{
    memcpy(number, id, sizeof *number);
    for (size_t i = sizeof *number; i < sizeof *id; i++)
        if (id->bytes[i] != 0x5A)
            return false;
    return *number >= 0 && *number < n_worlds;
}

int ncclCommInitRankConfig(nccl_comm *out, int n_ranks, struct nccl_id id, int rank,
                           struct nccl_config *config)
{
    struct comm *comm;
    int number;

    if (config->magic != NCCL_CONFIG_MAGIC || config->size < sizeof *config ||
        config->version < 21700 || config->blocking != 0 || config->max_ctas != NCCL_CHANNELS_MAX ||
        n_ranks > COLLECTIVE_RANKS_MAX || rank >= n_ranks)
        return NCCL_INVALID_ARGUMENT;
    comm = calloc(1, sizeof *comm);
    pthread_mutex_lock(&lock);
    if (comm == NULL || !is_valid(&id, &number) || worlds[number].comms[rank] != NULL) {
        pthread_mutex_unlock(&lock);
        free(comm);
        return NCCL_INVALID_ARGUMENT;
    }
    *comm = (struct comm){.world = &worlds[number], .rank = rank};
    worlds[number].n_ranks = n_ranks;
    worlds[number].n_joined++;
    worlds[number].comms[rank] = comm;
    *out = comm;
    pthread_mutex_unlock(&lock);
    return NCCL_IN_PROGRESS;
}

int ncclCommAbort(nccl_comm of)
{
    struct comm *comm = of;

    pthread_mutex_lock(&lock);
    comm->world->comms[comm->rank] = NULL;
    pthread_mutex_unlock(&lock);
    free(comm);
    return NCCL_SUCCESS;
}

/* ---- progress ---- */

/* The first op of the peer that waits for this one. */
static struct op *partner_of(const struct comm *comm, const struct op *op)
{
    struct comm *peer = comm->world->comms[op->peer];

    for (int i = 0; peer != NULL && i < peer->n; i++) {
        struct op *other = &peer->ops[i];

        if (!other->is_done && other->is_send != op->is_send && other->peer == comm->rank)
            return other;
    }
    return NULL;
}

static int match(const struct comm *comm, struct op *op)
{
    struct op *other = partner_of(comm, op);

    if (other == NULL)
        return NCCL_IN_PROGRESS;
    if (other->n != op->n)
        return NCCL_INVALID_USAGE;
    if (op->is_send)
        memcpy(other->to, op->from, op->n * sizeof(uint32_t));
    else
        memcpy(op->to, other->from, op->n * sizeof(uint32_t));
    op->is_done = other->is_done = true;
    return NCCL_SUCCESS;
}

static int progress(struct comm *comm)
{
    int result = comm->world->n_joined < comm->world->n_ranks ? NCCL_IN_PROGRESS : NCCL_SUCCESS;

    for (int i = 0; i < comm->n; i++) {
        const int one = comm->ops[i].is_done ? NCCL_SUCCESS : match(comm, &comm->ops[i]);

        if (one != NCCL_SUCCESS && (result == NCCL_SUCCESS || one != NCCL_IN_PROGRESS))
            result = one;
    }
    if (result == NCCL_SUCCESS)
        comm->n = 0;
    return is_broken ? NCCL_REMOTE_ERROR : result;
}

int ncclCommGetAsyncError(nccl_comm of, int *error)
{
    pthread_mutex_lock(&lock);
    *error = progress(of);
    pthread_mutex_unlock(&lock);
    return NCCL_SUCCESS;
}

/* ---- calls of a group ---- */

static int add(struct comm *comm, struct op op, int type)
{
    int result = NCCL_SUCCESS;

    if (type != NCCL_INT32 || !is_group || op.peer < 0 || op.peer >= comm->world->n_ranks ||
        (group_comm != NULL && group_comm != comm))
        return NCCL_INVALID_ARGUMENT;
    group_comm = comm;
    pthread_mutex_lock(&lock);
    if (comm->n == OPS_MAX)
        result = NCCL_INVALID_USAGE;
    else
        comm->ops[comm->n++] = op;
    pthread_mutex_unlock(&lock);
    return result;
}

int ncclSend(const void *from, size_t n, int type, int to, nccl_comm comm, void *stream)
{
    (void)stream;
    return add(comm, (struct op){.is_send = true, .from = from, .n = n, .peer = to}, type);
}

int ncclRecv(void *to, size_t n, int type, int from, nccl_comm comm, void *stream)
{
    (void)stream;
    return add(comm, (struct op){.to = to, .n = n, .peer = from}, type);
}

int ncclAllGather(const void *from, void *to, size_t n, int type, nccl_comm of, void *stream)
{
    const struct comm *comm = of;
    int result = NCCL_SUCCESS;

    for (int r = 0; r < comm->world->n_ranks && result == NCCL_SUCCESS; r++) {
        uint32_t *part = (uint32_t *)to + (size_t)r * n;

        if (r != comm->rank && (result = ncclSend(from, n, type, r, of, stream)) == NCCL_SUCCESS)
            result = ncclRecv(part, n, type, r, of, stream);
        else if (r == comm->rank && part != from) /* in place: others may be reading it */
            memcpy(part, from, n * sizeof(uint32_t));
    }
    return result;
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, nccl_comm of,
                  void *stream)
{
    const struct comm *comm = of;
    int result = NCCL_SUCCESS;

    if (comm->rank != root)
        return ncclRecv(to, n, type, root, of, stream);
    for (int r = 0; r < comm->world->n_ranks && result == NCCL_SUCCESS; r++)
        if (r != root)
            result = ncclSend(from, n, type, r, of, stream);
    return result;
}

int ncclGroupStart(void)
{
    if (is_group)
        return NCCL_INVALID_USAGE;
    is_group = true;
    group_comm = NULL;
    return NCCL_SUCCESS;
}

int ncclGroupEnd(void)
{
    if (!is_group)
        return NCCL_INVALID_USAGE;
    is_group = false;
    return group_comm == NULL ? NCCL_SUCCESS : NCCL_IN_PROGRESS;
}
