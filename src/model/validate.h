/* Validates a checkpoint without a device: returns every error that opening a model would return,
 * and reports what the files contain. */
#ifndef MODEL_VALIDATE_H
#define MODEL_VALIDATE_H

#include "model/shard.h"

enum { INSPECTION_TYPES_BYTES = 256 };

struct inspection {
    /* The folder with config.json, possibly original/ inside the given one, or the GGUF file;
     * owned. */
    char *folder;
    const char *layout; /* "hf mxfp4", "hf bf16", "original", "gguf" */
    int n_files, n_sliding_layers;
    int64_t n_tensors, file_bytes;
    char types[INSPECTION_TYPES_BYTES]; /* of the stored tensors: "289 F32, 98 Q8_0, 72 MXFP4" */
    struct gptoss_config config;
    struct weights_report weights;
    struct weights_report parts[RANKS_MAX]; /* of each rank, with n_ranks > 1 */
};

struct inspect_options {
    const char *path;
    /* Read every byte, with progress, and check the values of GGUF; else headers and scales. */
    bool read_all;
    int n_ranks; /* that the model is divided among; 0: 1 */
    enum shard_rule shard_rule;
    load_progress_fn *progress;
    void *progress_ctx;
};

CHECKED enum osp_status inspection_read(struct inspection *out, const struct inspect_options *opt);
void inspection_release(struct inspection *i); /* accepts a zeroed one */

#endif
