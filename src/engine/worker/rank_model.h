/* What rank 0 sends the others so that they open the same model: the options, the memory plan, and
 * a fingerprint of the files (RANK_MODEL of dist/rank_message.h). */
#ifndef ENGINE_WORKER_RANK_MODEL_H
#define ENGINE_WORKER_RANK_MODEL_H

#include "base/buf.h"
#include "engine/core/model_api.h"
#include "engine/worker/wire_fields.h"

/* Owns the bytes that the options' strings are in. */
struct rank_model_frame {
    char *bytes;
    struct osp_model_options options;
    wire_device_options device_options;
    struct model_part part; /* all but the exchange and n_local */
};

/* Appends the message to *out, which is initialized. OSP_ENOMEM: it does not fit. */
CHECKED enum osp_status rank_model_write(struct buf *out, const struct osp_model_options *opt,
                                         const struct model_part *part);
CHECKED enum osp_status rank_model_read(struct rank_model_frame *out, const void *data,
                                        size_t n_bytes);
void rank_model_release(struct rank_model_frame *f); /* accepts a zeroed one */

#endif
