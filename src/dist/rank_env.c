#include "dist/rank_env.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/exchange.h"

/* A launcher's variables; the first one that sets its rank counts. Order: torchrun and LWS may run
 * inside a Slurm job, and mpirun, too. */
struct launcher {
    const char *name, *rank, *size;
    const char *host;  /* variable with the host of rank 0; NULL: none */
    const char *hosts; /* variable with a list of Slurm's hosts, the first of which has rank 0 */
    const char *local; /* variable with the number of ranks on this host; NULL: none */
    bool is_alone;     /* a rank has its host for itself */
};

static const struct launcher LAUNCHERS[] = {
    {.name = "mpirun",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .host = "MASTER_ADDR",
     .local = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {.name = "torchrun",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .host = "MASTER_ADDR",
     .local = "LOCAL_WORLD_SIZE"},
    {.name = "LeaderWorkerSet",
     .rank = "LWS_WORKER_INDEX",
     .size = "LWS_GROUP_SIZE",
     .host = "LWS_LEADER_ADDRESS",
     .is_alone = true},
    {.name = "srun",
     .rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .hosts = "SLURM_STEP_NODELIST",
     .local = "SLURM_STEP_TASKS_PER_NODE"},
};
enum { N_LAUNCHERS = sizeof LAUNCHERS / sizeof LAUNCHERS[0] };

static const char *get_here(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static enum osp_status read_number(int *out, const char *name, const char *text, int least,
                                   int most)
{
    char *end = NULL;
    const long n = text == NULL ? -1 : strtol(text, &end, 10);

    if (text == NULL || end == text || *end != '\0' || n < least || n > most)
        return fail(OSP_EINVAL,
                    "environment variable %s is %s%s%s, expected a number from %d to %d", name,
                    text ? "\"" : "", text ? text : "not set", text ? "\"" : "", least, most);
    *out = (int)n;
    return OSP_OK;
}

/* The first host of Slurm's list: "node[03-07,9],other" begins with node03. */
static void first_host(char *out, size_t n_bytes, const char *list)
{
    const size_t n_name = strcspn(list, "[,");
    const char *number = list[n_name] == '[' ? list + n_name + 1 : "";

    snprintf(out, n_bytes, "%.*s%.*s", (int)n_name, list, (int)strspn(number, "0123456789"),
             number);
}

/* With an agent's store, torchrun itself listens at MASTER_PORT. */
static enum osp_status find_port(int *out, rank_getenv_fn *get, void *ctx)
{
    const char *port = get(ctx, "MASTER_PORT"), *store = get(ctx, "TORCHELASTIC_USE_AGENT_STORE");
    enum osp_status st = OSP_OK;

    *out = RANK_PORT_DEFAULT;
    if (port == NULL)
        return OSP_OK;
    TRY(read_number(out, "MASTER_PORT", port, 1, 65534));
    *out += store != NULL && strcmp(store, "True") == 0;
out:
    return st;
}

static enum osp_status find_address(struct rank_env *out, const struct launcher *l,
                                    rank_getenv_fn *get, void *ctx)
{
    const char *given = get(ctx, "OSPREY_RANK_ADDRESS");
    const char *host = l->host != NULL ? get(ctx, l->host) : NULL;
    const char *hosts = l->hosts != NULL ? get(ctx, l->hosts) : NULL;
    char first[RANK_ADDRESS_BYTES - 16] = "";
    int port;
    enum osp_status st;

    TRY(find_port(&port, get, ctx));
    if (given != NULL)
        snprintf(out->address, sizeof out->address, "%s", given);
    if (host != NULL)
        snprintf(first, sizeof first, "%s", host);
    else if (hosts != NULL)
        first_host(first, sizeof first, hosts);
    if (given == NULL && first[0] != '\0')
        snprintf(out->address, sizeof out->address, "%s:%d", first, port);
out:
    return st;
}

/* Slurm's list "4(x2),3" counts as 4: the ranks of the first host. */
static int count_local(const struct launcher *l, rank_getenv_fn *get, void *ctx, int n_ranks)
{
    const char *text = l->local != NULL ? get(ctx, l->local) : NULL;
    const long n = l->is_alone ? 1 : text != NULL ? strtol(text, NULL, 10) : 0;

    return n >= 1 && n <= n_ranks ? (int)n : 0;
}

static enum osp_status read_launcher(struct rank_env *out, const struct launcher *l,
                                     rank_getenv_fn *get, void *ctx)
{
    enum osp_status st;

    *out = (struct rank_env){.started_by = l->name};
    TRY(read_number(&out->n_ranks, l->size, get(ctx, l->size), 1, RANKS_MAX));
    TRY(read_number(&out->rank, l->rank, get(ctx, l->rank), 0, out->n_ranks - 1));
    out->n_local = count_local(l, get, ctx, out->n_ranks);
    TRY(find_address(out, l, get, ctx));
out:
    return st;
}

enum osp_status rank_env_read(bool *found, struct rank_env *out, rank_getenv_fn *get, void *ctx)
{
    get = get != NULL ? get : get_here;
    *found = false;
    for (int i = 0; i < N_LAUNCHERS; i++)
        if (get(ctx, LAUNCHERS[i].rank) != NULL && get(ctx, LAUNCHERS[i].size) != NULL) {
            *found = true;
            return read_launcher(out, &LAUNCHERS[i], get, ctx);
        }
    return OSP_OK;
}
