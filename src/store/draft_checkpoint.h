/* The files of an Eagle3 draft head: a folder with config.json and safetensors. */
#ifndef STORE_DRAFT_CHECKPOINT_H
#define STORE_DRAFT_CHECKPOINT_H

#include "store/checkpoint.h"
#include "store/draft_config.h"

/* Opens the folder as a checkpoint whose own config stays zero. checkpoint_close() releases it. */
CHECKED enum osp_status draft_checkpoint_open(struct checkpoint *out, struct draft_config *config,
                                              const char *folder);

#endif
