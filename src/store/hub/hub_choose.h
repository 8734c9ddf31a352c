/* Chooses the files that osprey needs from a repository. */
#ifndef STORE_HUB_HUB_CHOOSE_H
#define STORE_HUB_HUB_CHOOSE_H

#include "store/hub/hub_listing.h"

struct hub_choice {
    const char *tag;     /* of a GGUF file: "Q8_0"; NULL or "": none */
    const char *file;    /* the name of a GGUF file in the repository; NULL: none */
    const char *include; /* patterns of further files, with commas: "original/" and "*"; or NULL */
};

/* Sets is_wanted of every file. *gguf is the first file of the chosen GGUF model, or NULL for a
 * checkpoint of .safetensors files: its config, tokenizer, chat template, index and shards, without
 * the folders original/ and metal/.
 *
 * A GGUF model is chosen if a tag or a file is given, or if the repository has no .safetensors
 * files. A tag matches as in llama-server: the file's name has it before a "." or "-", in any case;
 * whole words come first. Without a tag that is Q4_K_M, then Q8_0, then the first model. Of a split
 * model all parts are wanted. OSP_ENOTFOUND lists the files that could be chosen. */
CHECKED enum osp_status hub_choose(const struct hub_file **gguf, struct hub_listing *l,
                                   const struct hub_choice *choice, const char *where);

#endif
