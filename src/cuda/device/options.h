/* Options that only CUDA devices have. A new one is a row of this list and its use:
 * gpu_option(options, GPU_OPTION_<member>). Command line, config file, environment, public API and
 * worker process carry it as they carry every row. */
#ifndef CUDA_DEVICE_OPTIONS_H
#define CUDA_DEVICE_OPTIONS_H

#include "backend/device_options.h"
#include "backend/vllm_kernels.h"

#define GPU_MXFP4_ACTIVATION "mxfp4-activation"

/* X(member, fields of struct device_option_row) */
#define GPU_OPTION_LIST(X)                                                                         \
    X(MXFP4_ACTIVATION, .name = GPU_MXFP4_ACTIVATION, .metavar = "TYPE", .initial = "bf16",        \
      .values = "bf16,mxfp8",                                                                      \
      .help = "type of the activations that are multiplied with MXFP4 weights in prefill")         \
    X(MXFP4_BACKEND, .name = "mxfp4-backend", .metavar = "NAME", .initial = "auto",                \
      .values = "auto,native,wgmma,mma,simt", .vllm_values = VLLM_MXFP4_VALUES,                    \
      .help = "instructions of the GEMM kernels for MXFP4 weights")                                \
    X(MOE_TILE, .name = "moe-tile", .metavar = "TILE", .initial = "auto",                          \
      .values = "auto,64x128,128x128", .is_value = gpu_is_tile,                                    \
      .help = "tile of the MoE GEMM in prefill, as rows of weights x tokens")                      \
    X(ATTENTION_BACKEND, .name = "attention-backend", .aliases = "--attention-config.backend",     \
      .metavar = "NAME", .initial = "auto", .values = "auto,wgmma,mma,simt",                       \
      .vllm_values = VLLM_ATTENTION_VALUES, .help = "instructions of the attention kernels")       \
    X(RANK_EXCHANGE, .name = "rank-exchange", .metavar = "NAME", .initial = "auto",                \
      .values = "auto,peer,nccl",                                                                  \
      .help = "how ranks exchange sums: by writes into each other's GPU memory, or by NCCL")

enum gpu_option {
#define GPU_OPTION_ENUM(member, ...) GPU_OPTION_##member,
    GPU_OPTION_LIST(GPU_OPTION_ENUM)
#undef GPU_OPTION_ENUM
        N_GPU_OPTIONS
};

extern const struct device_option_row gpu_option_rows[N_GPU_OPTIONS + 1];

/* Reads "64x128" as rows of weights and tokens; false: the text is not a tile. */
bool gpu_tile_parse(int *rows, int *tokens, const char *text);

/* NULL: not set. */
static inline const char *gpu_option(const struct device_options *o, enum gpu_option option)
{
    return device_option_value(o, gpu_option_rows[option].name);
}

static inline bool gpu_option_is_mxfp8(const struct device_options *o)
{
    const char *value = gpu_option(o, GPU_OPTION_MXFP4_ACTIVATION);

    return value != NULL && strcmp(value, "mxfp8") == 0;
}

/* Whether a GPU with these options can multiply MXFP8 activations, for the memory plan, which does
 * not know the GPU: they are requested, or a tile, or a backend that is not known to be another. */
static inline bool gpu_option_can_be_mxfp8(const struct device_options *o)
{
    static const char *const others[] = {"auto", "wgmma", "mma", "simt"};
    const char *backend = gpu_option(o, GPU_OPTION_MXFP4_BACKEND);
    const char *tile = gpu_option(o, GPU_OPTION_MOE_TILE);

    if (tile != NULL && strcmp(tile, "auto") == 0)
        tile = NULL;
    for (size_t i = 0; backend != NULL && i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(backend, others[i]) == 0)
            backend = NULL;
    return backend != NULL || tile != NULL || gpu_option_is_mxfp8(o);
}

#endif
