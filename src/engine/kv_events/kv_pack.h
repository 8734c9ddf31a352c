/* A batch of KV events in MessagePack, in the format of vLLM since its version 0.24: an array of
 * time, events and replica; each event is a map with its `type`. */
#ifndef ENGINE_KV_EVENTS_KV_PACK_H
#define ENGINE_KV_EVENTS_KV_PACK_H

#include "base/buf.h"
#include "engine/sched/prefix_log.h"

struct kv_batch {
    double unix_seconds;
    int data_parallel_rank;
    bool is_cleared; /* AllBlocksCleared comes first */
    const struct prefix_change *changes;
    size_t n_changes;
};

/* Appends to out, whose limit is the caller's. Neighbouring pages of one sequence become one
 * BlockStored, neighbouring removals one BlockRemoved. */
void kv_pack(struct buf *out, const struct kv_batch *batch);

#endif
