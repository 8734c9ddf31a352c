/* What lies in a checkpoint's folder besides config and weights: the tokenizer, the chat template,
 * the licence. */
#ifndef STORE_SIDE_FILES_H
#define STORE_SIDE_FILES_H

#include "store/folder_out.h"

/* Copies them from the checkpoint in `folder`. With `from_parent` (original/ lies beside the
 * tokenizer), the tokenizer's files of the parent too, where the folder itself has none. */
CHECKED enum osp_status side_files_copy(const struct folder_out *to, const char *folder,
                                        bool from_parent);

#endif
