/* What each of several replicas on this host gets of it: GPUs, or CPUs. */
#ifndef ENGINE_WORKER_REPLICA_SHARE_H
#define ENGINE_WORKER_REPLICA_SHARE_H

#include "osprey.h"
#include "base/status.h"

enum { REPLICA_VARIABLE_BYTES = 4096 };

struct replica_share {
    char visible[REPLICA_VARIABLE_BYTES]; /* "CUDA_VISIBLE_DEVICES=2,3"; "": no variable */
    const char *variables[2];             /* visible, NULL */
    char *cpus;                           /* list for cpu_affinity, owned; NULL: as it is given */
    int n_threads;                        /* of each rank; 0: as it is given */
};

/* GPUs that CUDA would show this process, by CUDA_VISIBLE_DEVICES, or else the device files; -1:
 * unknown, since there is neither (WSL has no such files). */
int visible_gpus(void);

/* Sets `visible` and `variables`: the n_each GPUs of replica i, by their names in this process's
 * CUDA_VISIBLE_DEVICES, or else their numbers. The caller has checked that there are as many. */
CHECKED enum osp_status replica_share_gpus(struct replica_share *out, int i, int n_each);

/* Of replica i of n. The share must not move: `variables` points into it. */
CHECKED enum osp_status replica_share_init(struct replica_share *out,
                                           const struct osp_model_options *opt, int i, int n);
void replica_share_release(struct replica_share *share); /* accepts a zeroed one */

#endif
