/* One safetensors file. Its header is read and checked against the file before anything else is
 * used. */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include "store/st_file.h"

enum {
    /* The reference reader allows 100 MB; gpt-oss-120b's header has 0.08 MB. A malicious header
     * could take 75 times its size when parsed, so st_header.c limits that, too. */
    SAFETENSORS_HEADER_BYTES_MAX = 8 * 1024 * 1024,
    SAFETENSORS_TENSORS_MAX = 65536 /* gpt-oss-120b has 687 */
};

/* Maps and checks: header length, JSON, duplicate names, known dtype, shape without overflow, and
 * offsets: inside the data, in agreement with shape and dtype, without overlap, gap or trailing
 * bytes. Every error contains the file, the tensor, the expected and the actual value. Data is
 * unaligned when the header's length is odd. */
CHECKED enum osp_status safetensors_open(struct st_file *out, const char *path);
/* The same for bytes that the caller keeps until the close; `path` is only used in messages. */
CHECKED enum osp_status safetensors_from_bytes(struct st_file *out, const char *path,
                                               const void *bytes, size_t size_bytes);

#endif
