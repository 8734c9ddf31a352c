/* Writes tensors as the shards of a checkpoint: one model.safetensors, or several files of a
 * limited size and their index, with the names of published checkpoints. */
#ifndef STORE_SHARD_WRITE_H
#define STORE_SHARD_WRITE_H

#include "store/staging_dir.h"
#include "store/st_write.h"

struct shard_write {
    struct st_write all;     /* every tensor, in the order of the files */
    int64_t shard_bytes_max; /* of a shard's tensors; a larger tensor gets its own shard */
    int n_files;             /* written */
    int64_t file_bytes;      /* of those files, headers included */
};

/* Bytes of data of all tensors. */
int64_t shard_write_data_bytes(const struct shard_write *w);

CHECKED enum osp_status shard_write_all(struct shard_write *w, const struct staging_dir *folder);

#endif
