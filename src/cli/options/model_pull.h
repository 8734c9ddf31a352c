/* A model by its name on the hub: found in the cache, or downloaded if the user wants that. */
#ifndef CLI_OPTIONS_MODEL_PULL_H
#define CLI_OPTIONS_MODEL_PULL_H

#include "cli/options/model_args.h"

/* Gives the checkpoint's folder or a GGUF file to osp_free(). If the cache lacks the model, it is
 * downloaded with --pull or -hf, or after a question at the terminal. `quiet`: without progress.
 * Otherwise OSP_ENOTFOUND, with the command that downloads it. */
CHECKED enum osp_status model_pull_path(char **out, const struct model_args *args, const char *name,
                                        bool quiet);

#endif
