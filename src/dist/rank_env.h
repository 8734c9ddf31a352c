/* Which rank this process is, by the environment of what started it: mpirun, srun, torchrun, or a
 * LeaderWorkerSet of Kubernetes. */
#ifndef DIST_RANK_ENV_H
#define DIST_RANK_ENV_H

#include <stdbool.h>

#include "dist/rank_address.h"

enum { RANK_PORT_DEFAULT = 29500 }; /* as in torchrun */

struct rank_env {
    int rank, n_ranks;
    int n_local;                      /* ranks on this host; 0: unknown */
    const char *started_by;           /* "mpirun" */
    char address[RANK_ADDRESS_BYTES]; /* of rank 0; "": unknown */
};

typedef const char *rank_getenv_fn(void *ctx, const char *name);

/* Reads the variables; `get` may be NULL for getenv(). False: there are none. OSP_EINVAL: one is
 * not a number, or the rank is not below the size. */
CHECKED enum osp_status rank_env_read(bool *found, struct rank_env *out, rank_getenv_fn *get,
                                      void *ctx);

#endif
