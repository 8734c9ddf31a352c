/* Looks a checkpoint over without a device: everything that opening a model would refuse is refused
 * here, and the contents of the files are reported. */
#ifndef MODEL_VALIDATE_H
#define MODEL_VALIDATE_H

#include "model/weights.h"

struct inspection {
    char *folder;       /* that holds config.json, maybe the original/ of the given one; owned */
    const char *layout; /* "hf mxfp4", "hf bf16", "original" */
    int n_files, n_sliding_layers;
    int64_t n_tensors, file_bytes, data_bytes;
    struct gptoss_config config;
    struct weights_report weights;
};

struct inspect_options {
    const char *path;
    bool read_all; /* every byte, with progress; else headers and scales only */
    load_progress_fn *progress;
    void *progress_ctx;
};

CHECKED enum osp_status inspection_read(struct inspection *out, const struct inspect_options *opt);
void inspection_release(struct inspection *i); /* accepts a zeroed one */

#endif
