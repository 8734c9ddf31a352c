#include "cuda/device/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/nccl_library.h"
#include "cuda/device/nccl_api.h"

struct nccl_library {
#define NCCL_MEMBER(result, name, parameters) result(*name) parameters;
    NCCL_FUNCTION_LIST(NCCL_MEMBER)
#undef NCCL_MEMBER
};

struct nccl {
    struct exchange *exchange; /* borrowed */
    nccl_comm comm;
    char error[256]; /* of the first failure; "": none */
};

/* ---- the library ---- */

static struct nccl_library library;
static int library_version;
static char library_error[512]; /* why it cannot be used; "": it can */

/* POSIX allows the conversion from a data pointer to a function pointer. */
static void find(void *in, const char *name, void *into)
{
    void *function = dlsym(in, name);

    memcpy(into, &function, sizeof(function));
    if (function == NULL && library_error[0] == '\0')
        snprintf(library_error, sizeof(library_error), "%s has no %s", nccl_library_file(), name);
}

static void load(void)
{
    void *loaded;

    if (!nccl_library_load(&loaded, &library_version, library_error, sizeof(library_error)))
        return;
#define NCCL_FIND(result, name, parameters) find(loaded, #name, &library.name);
    NCCL_FUNCTION_LIST(NCCL_FIND)
#undef NCCL_FIND
}

enum osp_status nccl_find(int *version)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    *version = library_error[0] == '\0' ? library_version : 0;
    return library_error[0] == '\0'
               ? OSP_OK
               : fail(OSP_EUNAVAILABLE, "cuda: NCCL cannot be used (%s); " NCCL_INSTALL,
                      library_error);
}

/* ---- failures ---- */

static enum osp_status check_ranks(const struct nccl *n)
{
    return n->exchange->ops->check(n->exchange);
}

/* The other ranks' end is the cause, if there is one; heartbeats may find it later than NCCL. */
static enum osp_status explain(struct nccl *n, int result, const char *what)
{
    const char *last = library.ncclGetLastError(n->comm);
    enum osp_status st;

    if (n->error[0] == '\0')
        snprintf(n->error, sizeof(n->error), "cuda: NCCL: %s: %s%s%.120s", what,
                 library.ncclGetErrorString(result), last != NULL && last[0] != '\0' ? "; " : "",
                 last != NULL ? last : "");
    TRY(check_ranks(n));
    return fail(OSP_EDEVICE, "%s", n->error);
out:
    return st;
}

/* Waits until the library has done what it was told. */
static enum osp_status settle(struct nccl *n, int result, const char *what)
{
    const uint64_t end_ns = clock_ns() + EXCHANGE_WAIT_MS * (uint64_t)1000000;
    enum osp_status st = OSP_OK;

    while (result == NCCL_IN_PROGRESS) {
        int status = NCCL_IN_PROGRESS;

        TRY(check_ranks(n));
        if (clock_ns() > end_ns) {
            snprintf(n->error, sizeof(n->error),
                     "cuda: NCCL: %s: other ranks did not do the same within %d s", what,
                     EXCHANGE_WAIT_MS / 1000);
            return fail(OSP_EDEVICE, "%s", n->error);
        }
        (void)sched_yield();
        result = library.ncclCommGetAsyncError(n->comm, &status);
        if (result == NCCL_SUCCESS)
            result = status;
    }
    if (result != NCCL_SUCCESS)
        return explain(n, result, what);
out:
    return st;
}

enum osp_status nccl_check(const struct nccl *n)
{
    int error = NCCL_SUCCESS;
    const int result = library.ncclCommGetAsyncError(n->comm, &error);

    if (result == NCCL_SUCCESS && (error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS))
        return OSP_OK;
    return fail(OSP_EDEVICE, "cuda: NCCL: a step: %s",
                library.ncclGetErrorString(result != NCCL_SUCCESS ? result : error));
}

/* ---- the communicator ---- */

enum { ID_WORDS = NCCL_ID_BYTES / 4 };

/* What every rank tells the others: its version, and rank 0 the id. */
struct introduction {
    int64_t version[COLLECTIVE_RANKS_MAX];
    int64_t id[ID_WORDS];
};

/* The id of rank 0; also where the library is missing, since the others wait. */
static enum osp_status introduce(struct nccl_id *id, struct exchange *x)
{
    const struct shard shard = x->shard;
    struct introduction all = {.version = {0}};
    uint32_t words[ID_WORDS];
    int version;
    enum osp_status st, found = nccl_find(&version);

    if (found == OSP_OK && shard.rank == 0 && library.ncclGetUniqueId(id) != NCCL_SUCCESS)
        found =
            fail(OSP_EDEVICE, "cuda: NCCL found no network interface to use: see NCCL_DEBUG=WARN");
    all.version[shard.rank] = found == OSP_OK ? version : 0;
    memcpy(words, id, sizeof(words));
    for (int i = 0; i < ID_WORDS && shard.rank == 0; i++)
        all.id[i] = words[i];
    TRY(x->ops->sum(x, (int64_t *)&all, sizeof(all) / sizeof(int64_t)));
    TRY(found);
    for (int r = 0; r < shard.n_ranks; r++)
        if (all.version[r] != version)
            return fail(OSP_EDEVICE,
                        "cuda: NCCL has version %lld on rank %d and %d on rank %d; all ranks need "
                        "the same (0: it cannot be loaded, see that rank's log)",
                        (long long)all.version[r], r, version, shard.rank);
    for (int i = 0; i < ID_WORDS; i++)
        words[i] = (uint32_t)all.id[i];
    memcpy(id, words, sizeof(words));
out:
    return st;
}

enum osp_status nccl_open(struct nccl **out, struct exchange *x)
{
    struct nccl_config config = NCCL_CONFIG;
    struct nccl_id id = {{0}};
    struct nccl *n = NULL;
    int result;
    enum osp_status st;

    *out = NULL;
    TRY(introduce(&id, x));
    n = calloc(1, sizeof(*n));
    if (n == NULL)
        return fail(OSP_ENOMEM, "out of memory for a communicator");
    n->exchange = x;
    result = library.ncclCommInitRankConfig(&n->comm, x->shard.n_ranks, id, x->shard.rank, &config);
    TRY(settle(n, result, "joining the communicator"));
    *out = n;
out:
    if (st != OSP_OK)
        nccl_close(n);
    return st;
}

void nccl_close(struct nccl *n)
{
    if (n == NULL)
        return;
    if (n->comm != NULL)
        (void)library.ncclCommAbort(n->comm);
    free(n);
}

/* ---- collectives: calls within a group, of which the first error counts ---- */

struct group {
    const struct nccl *n;
    void *stream;
    int result;
};

static void note(struct group *g, int result)
{
    if (g->result == NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
        g->result = result;
}

static void send(struct group *g, const uint32_t *from, int64_t n_words, int to)
{
    if (n_words > 0)
        note(g, library.ncclSend(from, (size_t)n_words, NCCL_INT32, to, g->n->comm, g->stream));
}

static void receive(struct group *g, uint32_t *to, int64_t n_words, int from)
{
    if (n_words > 0)
        note(g, library.ncclRecv(to, (size_t)n_words, NCCL_INT32, from, g->n->comm, g->stream));
}

static int64_t words_of_part(const struct collective_part *p, int r)
{
    const int64_t n_left = p->n_words - r * p->part_words;

    return n_left < p->part_words ? n_left : p->part_words;
}

static void swap_parts(struct group *g, const struct collective_part *p)
{
    const struct shard shard = g->n->exchange->shard;

    for (int r = 0; r < shard.n_ranks; r++) {
        if (r == shard.rank)
            continue;
        send(g, p->from + r * p->part_words, words_of_part(p, r), r);
        receive(g, p->to + r * p->part_words, words_of_part(p, shard.rank), r);
    }
}

static void gather_rows(struct group *g, const struct collective *c)
{
    const struct shard shard = g->n->exchange->shard;

    for (int row = 0; row < c->n_rows; row++)
        for (int r = 1; r < shard.n_ranks; r++) {
            uint32_t *at = c->parts[0].to + row * c->parts[0].n_words + c->first_words[r];
            const int64_t n_words = c->first_words[r + 1] - c->first_words[r];

            if (shard.rank == 0)
                receive(g, at, n_words, r);
            else if (shard.rank == r)
                send(g, at, n_words, 0);
        }
}

static void add_part(struct group *g, const struct collective *c, const struct collective_part *p)
{
    switch (c->kind) {
    case COLLECTIVE_ALL_GATHER:
        note(g, library.ncclAllGather(p->from, p->to, (size_t)p->n_words, NCCL_INT32, g->n->comm,
                                      g->stream));
        break;
    case COLLECTIVE_ALL_TO_ALL:
        swap_parts(g, p);
        break;
    case COLLECTIVE_BROADCAST:
        note(g, library.ncclBroadcast(p->to, p->to, (size_t)p->n_words, NCCL_INT32, 0, g->n->comm,
                                      g->stream));
        break;
    default:
        gather_rows(g, c);
    }
}

enum osp_status nccl_run(struct nccl *n, const struct collective *c, void *stream)
{
    struct group g = {.n = n, .stream = stream};
    int ended;

    if (n->error[0] != '\0')
        return fail(OSP_EDEVICE, "%s", n->error);
    g.result = library.ncclGroupStart();
    for (int i = 0; i < c->n_parts; i++)
        add_part(&g, c, &c->parts[i]);
    ended = library.ncclGroupEnd();
    return settle(n, g.result != NCCL_SUCCESS ? g.result : ended, "a step");
}
