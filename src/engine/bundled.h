/* Paths of the bundled model and of a checkpoint's tokenizer. All return strings to free(). */
#ifndef ENGINE_BUNDLED_H
#define ENGINE_BUNDLED_H

#include "base/status.h"

#define BUNDLED_MODEL_NAME "osprey-nano"

/* The folder of the bundled model: $OSPREY_MODEL_DIR, else near the library and the program (build
 * tree, bundle, installation). OSP_ENOTFOUND lists the places. */
CHECKED enum osp_status bundled_model_path(char **out);

/* The folder of its draft head, next to it. */
CHECKED enum osp_status bundled_draft_path(char **out);

/* The file `given` when not NULL, else the tokenizer in the checkpoint's folder or in its parent
 * (the original/ layout has it there), or the GGUF file that `folder` is. */
CHECKED enum osp_status bundled_tokenizer_path(char **out, const char *given, const char *folder);

#endif
