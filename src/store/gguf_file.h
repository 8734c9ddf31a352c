/* One GGUF file: its keys, and its tensors as checked tensors of a file. Knows nothing of
 * models. */
#ifndef STORE_GGUF_FILE_H
#define STORE_GGUF_FILE_H

#include "base/gguf.h"
#include "store/st_file.h"

enum {
    GGUF_TENSORS_MAX = 65536, /* gpt-oss-120b has 687 */
    GGUF_DIMS_MAX = 4         /* ggml has no more */
};

/* Maps and checks: header and keys (base/gguf.h), names, types, shapes without overflow, rows of
 * whole blocks, and offsets: aligned, inside the file, without overlap, and without more space
 * between tensors and behind the last one than alignment needs. Shapes become row-major: GGUF
 * writes the length of a row first. `keys` points into the mapping, and must be released before
 * the file is closed. */
CHECKED enum osp_status gguf_file_open(struct st_file *out, struct gguf_header *keys,
                                       const char *path);
/* The same for bytes that the caller keeps until the close; `path` is only used in messages. */
CHECKED enum osp_status gguf_file_from_bytes(struct st_file *out, struct gguf_header *keys,
                                             const char *path, const void *bytes,
                                             size_t size_bytes);

#endif
