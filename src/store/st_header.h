/* The header of a safetensors file: from bytes to a list of checked tensors. Private to
 * safetensors.c and st_header.c. */
#ifndef STORE_ST_HEADER_H
#define STORE_ST_HEADER_H

#include "store/safetensors.h"

/* Fills tensors, n_tensors and data_bytes of `f` (path, names and size_bytes are set), pointing
 * into `bytes` of f->size_bytes. After a failure `f` may only be closed. */
CHECKED enum osp_status st_header_read(struct st_file *f, const unsigned char *bytes);

#endif
