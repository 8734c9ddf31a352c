/* The names of the KV cache's data types. */
#ifndef ENGINE_MEMORY_KV_DTYPE_H
#define ENGINE_MEMORY_KV_DTYPE_H

#include "backend/backend.h"

/* The type of a name: "f32" (or "float32"), "bf16" ("bfloat16"), "fp8" ("fp8_e4m3"), "int16";
 * "auto" or NULL: the device's default. OSP_EINVAL for other names. */
CHECKED enum osp_status kv_dtype_choose(enum dtype *out, const char *text, const char *device,
                                        const char *cpu_features);
/* "f32", "bf16", "fp8" or "int16". */
const char *kv_dtype_text(enum dtype dtype);

#endif
