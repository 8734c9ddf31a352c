/* The files of a checkpoint's folder besides config and weights: the tokenizer, the chat template,
 * the licence. */
#ifndef STORE_AUX_FILES_H
#define STORE_AUX_FILES_H

#include "store/staging_dir.h"

/* Copies them from the checkpoint in `folder`. With `from_parent` (the layout original/, beside the
 * tokenizer) it also copies the tokenizer's files of the parent that the folder itself lacks. */
CHECKED enum osp_status aux_files_copy(const struct staging_dir *to, const char *folder,
                                       bool from_parent);

#endif
