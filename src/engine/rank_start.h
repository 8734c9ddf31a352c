/* Rank 0 of a divided model: how many ranks this host has, and the start of the others. */
#ifndef ENGINE_RANK_START_H
#define ENGINE_RANK_START_H

#include "engine/core/model_api.h"

/* How the model is divided among ranks of the device. */
enum shard_rule ranks_shard_rule(const struct osp_model_options *opt);
/* The number of ranks on this host, which share its memory and CPUs: all ranks, unless the options
 * name other hosts. */
int ranks_on_this_host(const struct osp_model_options *opt);
/* Compute threads of each: the option, or an equal share of this host's CPUs. */
int ranks_threads(const struct osp_model_options *opt, int n_local);

/* Starts m->ranks, which open the model with m's plan. fingerprint: of the files. */
CHECKED enum osp_status ranks_start(struct osp_model *m, const struct osp_model_options *opt,
                                    uint64_t fingerprint);

#endif
