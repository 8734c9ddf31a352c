/* A checkpoint: its config and the tensors of all its shards, mapped, found by name. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include "store/hf_config.h"
#include "store/safetensors.h"

/* Of all shards together; gpt-oss-120b has 687. Each takes up to 0.4 kB of memory. */
enum { CHECKPOINT_TENSORS_MAX = 1 << 18 };

struct checkpoint {
    char *path; /* folder that holds config.json and the shards */
    struct gptoss_config config;
    struct st_file *files;
    int n_files;
    int64_t n_tensors;
    int64_t data_bytes; /* of all tensors */
    int64_t file_bytes; /* of all files, headers included */
};

/* Progress of a long load: called from the opening thread; may be NULL. */
typedef void load_progress_fn(void *ctx, int64_t done_bytes, int64_t total_bytes);

/* Opens folder `path` (HF layout with or without an index, or original/; a folder that only has
 * original/ inside is followed). Checks index against shards: every listed tensor in the file that
 * the map names, none unlisted, none twice, and the total size. Files of subfolders (original/,
 * metal/) are never mixed in. */
CHECKED enum osp_status checkpoint_open(struct checkpoint *out, const char *path);
void checkpoint_close(struct checkpoint *c); /* accepts a zeroed one */
const struct st_tensor *checkpoint_find(const struct checkpoint *c, const char *name,
                                        const struct st_file **file_out); /* or NULL */

/* Reads every byte once so that pages are warm, in parallel over `n_threads` (0 = all usable), with
 * progress. Reads through read(2), so that a failing disk or a file cut since is an error (OSP_EIO)
 * and not a signal. */
CHECKED enum osp_status checkpoint_prefetch(const struct checkpoint *c, int n_threads,
                                            load_progress_fn *progress, void *ctx);
#endif
