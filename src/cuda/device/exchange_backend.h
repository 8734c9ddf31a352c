/* Which way numbers take from rank to rank: pushes into the memory of the other GPUs
 * (common/rank_exchange.h), which is fast and needs GPUs of one host with peer access; or NCCL
 * (common/rank_gathered.h), which works between all GPUs. */
#ifndef CUDA_DEVICE_EXCHANGE_BACKEND_H
#define CUDA_DEVICE_EXCHANGE_BACKEND_H

#include "backend/backend.h"

enum exchange_backend { EXCHANGE_BY_PEER, EXCHANGE_BY_NCCL };

/* "peer" or "nccl", as --rank-exchange says, in static memory; NULL: the device chooses. */
const char *exchange_backend_asked(const struct device_options *options);

/* The one that all ranks use; collective. `device` is this rank's, `asked` the value of the option
 * --rank-exchange, or NULL. OSP_EUNSUPPORTED: pushes are asked for, and the GPUs cannot. */
CHECKED enum osp_status exchange_backend_find(enum exchange_backend *out, struct exchange *x,
                                              int device, const char *asked);

/* The one that the memory plan of ranks assumes, which does not know the other hosts. */
enum exchange_backend exchange_backend_planned(const struct step_shape *shape);

#endif
