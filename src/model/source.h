/* A checkpoint that is opened and bound once: its config and sizes are read to plan the memory,
 * then model_open() takes it over. */
#ifndef MODEL_SOURCE_H
#define MODEL_SOURCE_H

#include "model/weights.h"

/* Owns its members until model_open() takes them. Zeroed: empty. */
struct model_source {
    struct checkpoint checkpoint;
    struct weights weights; /* points into the checkpoint's mapping */
    struct weights_report report;
};

/* Opens the folder `path`, checks the config and binds the weights. */
CHECKED enum osp_status model_source_open(struct model_source *out, const char *path);
/* A number for the contents: the config's shape, every tensor's name, dtype, shape and some of its
 * bytes. Two copies of the same files have the same; it reads a page of each tensor. */
uint64_t checkpoint_fingerprint(const struct checkpoint *c);
void model_source_close(struct model_source *s); /* accepts a zeroed one */

#endif
