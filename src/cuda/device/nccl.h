/* NCCL, for ranks that cannot push into each other's memory: the library, which is loaded when
 * ranks need it, and a communicator of all ranks, which runs the collectives of a step in the
 * step's stream. Of NCCL only transfers are used (launch/collective.h).
 *
 * The communicator does not block: every call of the library that waits for other ranks is polled
 * here, and ends with a failure when a rank has ended or EXCHANGE_WAIT_MS are over. Kernels of NCCL
 * that wait on the GPU end when the communicator is closed. */
#ifndef CUDA_DEVICE_NCCL_H
#define CUDA_DEVICE_NCCL_H

#include "backend/exchange.h"
#include "cuda/launch/collective.h"

enum { NCCL_ID_BYTES = 128 };

struct nccl;

/* Loads the library: *version is 22803 for 2.28.3. OSP_EUNAVAILABLE: it cannot be used; the message
 * says why, and what to install. */
CHECKED enum osp_status nccl_find(int *version);

/* Joins the communicator of all ranks of the exchange, on the current GPU; collective. The id comes
 * from rank 0 through the exchange, which must outlive the communicator. OSP_EDEVICE names a rank
 * that has ended, or whose NCCL has another version or cannot be loaded. */
CHECKED enum osp_status nccl_open(struct nccl **out, struct exchange *x);
/* Ends the kernels of NCCL that wait for other ranks, and frees the communicator. CUDA graphs with
 * collectives must have been destroyed. Accepts NULL. */
void nccl_close(struct nccl *n);

/* Appends the collective to the stream, which may be one that is being captured. After a failure of
 * NCCL every call fails, with the same message. */
CHECKED enum osp_status nccl_run(struct nccl *n, const struct collective *c, void *stream);
/* OSP_EDEVICE: the connection to a rank is lost. */
CHECKED enum osp_status nccl_check(const struct nccl *n);

#endif
