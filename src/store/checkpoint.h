/* A checkpoint in any layout: its config and the tensors of all its files, memory-mapped, looked up
 * by name. A reader (checkpoint_reader.h) knows one kind of files; nothing else does. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include "store/hf_config.h"
#include "store/st_file.h"

/* Of all shards together; gpt-oss-120b has 687. Each takes up to 0.4 kB of memory. */
enum { CHECKPOINT_TENSORS_MAX = 1 << 18 };

struct checkpoint {
    char *path; /* the folder with config.json and the shards, or the (first) GGUF file */
    struct gptoss_config config;
    struct st_file *files;
    int n_files;
    int64_t n_tensors;
    int64_t data_bytes; /* of all tensors as stored */
    int64_t file_bytes; /* of all files, headers included */
};

/* Progress of a long load: called from the opening thread; may be NULL. */
typedef void load_progress_fn(void *ctx, int64_t done_bytes, int64_t total_bytes);

/* Opens `path`: a folder in the HF layout with or without an index, or original/; a folder with
 * only an original/ inside is followed; a GGUF file, or a folder with GGUF and no safetensors.
 * Checks the index against the shards: every listed tensor must be in its file, none may be
 * unlisted or duplicate, and the total size must match. Of a split GGUF model, any part may be
 * named; all must be there. Files of subfolders (original/, metal/) are never mixed in. */
CHECKED enum osp_status checkpoint_open(struct checkpoint *out, const char *path);
void checkpoint_close(struct checkpoint *c); /* accepts a zeroed checkpoint */
const struct st_tensor *checkpoint_find(const struct checkpoint *c, const char *name,
                                        const struct st_file **file_out); /* may be NULL */

/* Reads every byte once to fill the page cache, in parallel over `n_threads` (0 = all usable), with
 * progress. Uses read(2), so that a failing disk or a truncated file is an error (OSP_EIO) and not
 * a signal. */
CHECKED enum osp_status checkpoint_prefetch(const struct checkpoint *c, int n_threads,
                                            load_progress_fn *progress, void *ctx);
#endif
