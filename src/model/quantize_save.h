/* Writes a checkpoint in the Hugging Face layout with mxfp4_layers quantized to MXFP4. */
#ifndef MODEL_QUANTIZE_SAVE_H
#define MODEL_QUANTIZE_SAVE_H

#include "store/checkpoint.h"

struct quantize_save_options {
    const char *from, *to;
    unsigned mxfp4_layers; /* enum mxfp4_layer */
    bool force;            /* replace an existing checkpoint */
    int64_t shard_bytes_max;
    int n_threads; /* 0 = all usable */
    /* Of a GGUF file, whose vocabulary is in its keys: gives the text of a tokenizer.json for
     * the new folder, to free(). OSP_ENOTFOUND: the file has no vocabulary. */
    enum osp_status (*tokenizer_json)(char **text, size_t *n_bytes, const char *path);
    const volatile int *stop;   /* a flag: not 0 = stop and leave nothing behind; may be NULL */
    load_progress_fn *progress; /* bytes written of all bytes; may be NULL */
    void *progress_ctx;
};

struct quantize_save_report {
    unsigned new_mxfp4_layers, mxfp4_layers; /* quantized now; MXFP4 in the result */
    int n_files;
    int64_t n_tensors, from_bytes, to_bytes; /* of the tensors' files */
};

/* Makes the folder `to` completely or not at all. OSP_EINVAL: nothing would change, `to` exists, or
 * `to` is `from`. OSP_ECANCELED: stopped. */
CHECKED enum osp_status quantize_save(const struct quantize_save_options *opt,
                                      struct quantize_save_report *report);

#endif
