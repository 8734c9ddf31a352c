/* What the binding of all layouts (weights.c) and that of GGUF (weights_gguf.c) share. */
#ifndef MODEL_WEIGHTS_BIND_H
#define MODEL_WEIGHTS_BIND_H

#include <stdbool.h>

#include "model/weight_table.h"

struct binder {
    const struct checkpoint *c;
    struct weights *w;
    int64_t letters[N_LETTERS];
    bool *seen;           /* (all tensors of all files, in order): bound to a slot */
    int64_t copied_bytes; /* of misaligned tensors */
    int64_t part_bytes[N_PARTS];
    int64_t part_elements[N_PARTS];
};

void binder_mark_seen(struct binder *b, const struct st_file *file, const struct st_tensor *t);
/* The tensor as the model sees it: the rule's shape, without data. Counts its elements. */
struct tensor binder_shape(struct binder *b, const struct weight_rule *rule);

/* Binds one rule of a GGUF checkpoint: points its slot into the file, or adds a source. base: the
 * struct weights (layer < 0) or struct layer_weights that contains the slot. */
CHECKED enum osp_status bind_gguf(struct binder *b, const struct weight_rule *rule, int layer,
                                  void *base);

#endif
