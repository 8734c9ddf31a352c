/* Which files a checkpoint folder consists of, and the contents of its index. Private to store/. */
#ifndef STORE_SHARD_LIST_H
#define STORE_SHARD_LIST_H

#include "store/safetensors.h"

enum { SHARDS_MAX = 1024 }; /* gpt-oss-120b has 15 */

/* Owned by the caller of shard_list_read(). */
struct shard_list {
    char **names; /* plain file names, sorted */
    int n;
    char *index_path;     /* NULL without an index */
    struct json_t *index; /* parsed; NULL without an index */
};

/* Looks for model.safetensors.index.json, else model.safetensors, else all of
 * model--0000I-of-0000N.safetensors. */
CHECKED enum osp_status shard_list_read(struct shard_list *out, const char *folder);
void shard_list_release(struct shard_list *l); /* accepts a zeroed list */

/* Compares the opened files, in the order of names, with the index. Does nothing without an
 * index. */
CHECKED enum osp_status shard_list_check(const struct shard_list *l, const struct st_file *files,
                                         int64_t data_bytes);

#endif
