/* Publishes changes of the prefix cache to routers over ZeroMQ, as vLLM does: an XPUB socket with
 * frames topic, sequence number (8 bytes, big-endian), batch (kv_pack.h); and, if wanted, a ROUTER
 * socket that sends the last batches again. A thread of its own packs and sends. Its queue is
 * limited: what does not fit is dropped, and the next batch begins with AllBlocksCleared, so that
 * readers know too little and never too much. */
#ifndef ENGINE_KV_EVENTS_KV_PUBLISHER_H
#define ENGINE_KV_EVENTS_KV_PUBLISHER_H

#include "engine/sched/prefix_log.h"
#include "osprey.h"
#include "base/status.h"

struct kv_publisher;

/* Opens the sockets and starts the thread. *out is NULL without an endpoint. rank: of the replica,
 * by which the endpoints' ports grow. Copies the strings. OSP_EUNAVAILABLE: libzmq is not
 * installed, or an endpoint cannot be bound. */
CHECKED enum osp_status kv_publisher_open(struct kv_publisher **out,
                                          const struct osp_engine_options *opt, int rank);
/* Passes what is queued to libzmq; accepts NULL. */
void kv_publisher_close(struct kv_publisher *p);

/* Takes the changes and leaves the log empty. For one thread, which never waits. */
void kv_publisher_take(struct kv_publisher *p, struct prefix_log *log);

/* From any thread: batches that were sent, and changes that were dropped. Accepts NULL. */
void kv_publisher_count(const struct kv_publisher *p, int64_t *n_batches, int64_t *n_dropped);

/* The endpoint of a replica: its port, or the name of an inproc endpoint, grows by the rank. Gives
 * a string to free(). OSP_EINVAL: that cannot be done for this endpoint. */
CHECKED enum osp_status kv_endpoint_of(char **out, const char *endpoint, int rank);

#endif
