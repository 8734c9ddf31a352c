#include "engine/memory/kv_dtype.h"

#include <string.h>

/* The first name of a type is the one that is printed. */
static const struct {
    const char *text;
    enum dtype dtype;
} names[] = {
    {"auto", DTYPE_NONE},     {"f32", DTYPE_F32}, {"float32", DTYPE_F32}, {"bf16", DTYPE_BF16},
    {"bfloat16", DTYPE_BF16}, {"fp8", DTYPE_F8},  {"fp8_e4m3", DTYPE_F8}, {"int16", DTYPE_I16},
};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

const char *kv_dtype_text(enum dtype dtype)
{
    for (int i = 0; i < N_NAMES; i++)
        if (names[i].dtype == dtype)
            return names[i].text;
    return dtype_name(dtype);
}

static enum osp_status parse(enum dtype *out, const char *text)
{
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(names[i].text, text) == 0) {
            *out = names[i].dtype;
            return OSP_OK;
        }
    return fail(
        OSP_EINVAL,
        "KV cache type \"%s\": there are auto, f32, bf16 (bfloat16), fp8 (fp8_e4m3) and int16",
        text);
}

enum osp_status kv_dtype_choose(enum dtype *out, const char *text, const char *device,
                                const char *cpu_features)
{
    const struct backend_options options = {.cpu_features = cpu_features};
    const struct backend_ops *ops;
    enum osp_status st;

    TRY(parse(out, text == NULL ? "auto" : text));
    ops = backend_find(device);
    if (ops == NULL)
        return OSP_ENOTFOUND;
    TRY(ops->kv_dtype(&options, out));
out:
    return st;
}
