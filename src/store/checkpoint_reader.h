/* What opens the files of a checkpoint: one reader for each kind of files. Private to store/. */
#ifndef STORE_CHECKPOINT_READER_H
#define STORE_CHECKPOINT_READER_H

#include "store/checkpoint.h"

struct checkpoint_reader {
    /* Sets *place to the folder or file that open() reads, to be freed; NULL: the path is no
     * checkpoint of this reader. OSP_EFORMAT: it is one, but which of several is not clear. */
    enum osp_status (*find)(char **place, const char *path);
    /* Fills the config, and adds the files, of a checkpoint whose path is that place. */
    enum osp_status (*open)(struct checkpoint *out);
};

extern const struct checkpoint_reader gguf_reader, safetensors_reader;

/* Adds the safetensors files of the folder out->path, checked against its index. */
CHECKED enum osp_status safetensors_folder_open(struct checkpoint *out);

/* Makes place for n files. */
CHECKED enum osp_status checkpoint_files_alloc(struct checkpoint *c, int n);
/* Counts files[n_files], which was just opened, as a file of the checkpoint. */
CHECKED enum osp_status checkpoint_files_count(struct checkpoint *c);
/* After the last file: OSP_EFORMAT if two files have a tensor of the same name. */
CHECKED enum osp_status checkpoint_check_unique(const struct checkpoint *c);

#endif
