/* The table of kernels: which one a stage launches, and with which tile, by card, by the
 * weights' format, and by how many rows of which kind a step has. Pure data: nothing here needs
 * a card, and the unit test test_cuda_tuning holds that exactly one kernel is meant for
 * everything that can be asked.
 *
 * A row's bits must not depend on the rows beside it, so kernels that change with the number of
 * rows of one kind have to sum alike; prompt and generated rows may have kernels that do not.
 * Where the order is free (order.h), the first rows of the table stand before that. */
#ifndef CUDA_DEVICE_TUNING_H
#define CUDA_DEVICE_TUNING_H

#include <stdbool.h>

#include "backend/program.h"
#include "cuda/common/order.h"

/* X(card, capability's major from, to, text) */
#define ARCH_LIST(X)                                                                               \
    X(AMPERE, 8, 8, "Ampere or Ada")                                                               \
    X(HOPPER, 9, 9, "Hopper")                                                                      \
    X(BLACKWELL, 10, 11, "Blackwell, data centre (tcgen05)")                                       \
    X(BLACKWELL_RTX, 12, 12, "Blackwell, consumer and DGX Spark (block-scaled mma.sync)")

enum arch {
#define ARCH_ENUM(arch, from, to, text) ARCH_##arch,
    ARCH_LIST(ARCH_ENUM)
#undef ARCH_ENUM
        N_ARCHS
};

/* What a kernel computes with: the words of --mxfp4-backend and --attention-backend. X(family,
 * word) */
#define OPCLASS_LIST(X)                                                                            \
    X(AUTO, "auto") /* as a wish: what the table means for the card; of kernels: no products */    \
    X(NATIVE, "native") /* block-scaled mma.sync over MXFP4 and MXFP8 */                           \
    X(WGMMA, "wgmma")   /* a warp group's products, operands in shared memory */                   \
    X(MMA, "mma")       /* mma.sync.m16n8k16 in bf16 or fp16 */                                    \
    X(SIMT, "simt")     /* float32, no tensor cores */

enum op_class {
#define OPCLASS_ENUM(op_class, word) OPCLASS_##op_class,
    OPCLASS_LIST(OPCLASS_ENUM)
#undef OPCLASS_ENUM
        N_OPCLASSES
};

/* X(kernel, family, symbol, text): the symbol is its function's name in the sources, by which the report of
 * what ran knows it. */
#define KERNEL_LIST(X)                                                                             \
    X(EMBED_RMSNORM, AUTO, "embed_rmsnorm", "a block a row")                                       \
    X(RESIDUAL_RMSNORM, AUTO, "residual_rmsnorm", "a block a row")                                 \
    X(SAMPLE, AUTO, "sample", "a block a row")                                                     \
    X(DECODE_QKV, MMA, "qkv_kernel",                                                               \
      "norm, products, rotation and pages in one; rings of cp.async")                              \
    X(DECODE_MATMUL, MMA, "decode_matmul_kernel",                                                  \
      "norm before, residual behind; rings of cp.async")                                           \
    X(DECODE_OUT, MMA, "out_kernel", "residual behind, and the router's products of what it made") \
    X(DECODE_ENTRIES, MMA, "up_kernel", "blocks share the experts of a token; rings of cp.async")  \
    X(DECODE_GROUPED, MMA, "grouped_kernel", "an expert for all its tokens; rings of cp.async")    \
    X(DECODE_GEMM, MMA, "decode_gemm_kernel",                                                      \
      "rounded rows and weights through one ring of cp.async")                                     \
    X(DECODE_SMEM_RESIDENT, MMA, "smem_resident_kernel",                                           \
      "a block keeps its weights, and tokens come past them")                                      \
    X(DECODE_HEAD, MMA, "head_kernel", "a block keeps its tokens, and weights come past them")     \
    X(DECODE_ROUTE, MMA, "route_kernel",                                                           \
      "eight blocks share the columns, and each chooses for a row; sums in their shared memory")   \
    X(MATMUL_MMA, MMA, "matmul_kernel", "weights as operand A, tokens as its columns")             \
    X(GEMM_256, WGMMA, "gemm_256_kernel",                                                          \
      "weights as operand A from registers, tiles of 256 rows")                                    \
    X(GEMM_128, WGMMA, "gemm_128_kernel", "the same of 128 rows, two warpgroups to a tile")        \
    X(GEMM_64, WGMMA, "gemm_64_kernel", "the same of 64 rows, warpgroups by turns")                \
    X(GEMM_MMA, MMA, "prefill_mma_kernel", "weights expanded once for up to 128 tokens; ldmatrix") \
    X(MXFP8_MATMUL, NATIVE, "mxfp8_matmul_kernel", "block-scaled products of MXFP8 rows")          \
    X(MATMUL_SIMT, SIMT, "plain_kernel", "a warp a row of weights, float32")                       \
    X(ATTN_SIMT, SIMT, "attn_kernel", "splits of 256 keys, merged in order, float32")              \
    X(ATTN_DECODE, MMA, "attn_decode", "a block a split of a row's keys, queries as columns")      \
    X(ATTN_PREFILL, MMA, "attn_prefill", "16 tokens with 8 heads a block, walking pages")          \
    X(ATTN_SM90, WGMMA, "attn_sm90", "24 tokens with 8 heads a block, walking pages")

enum kernel {
#define KERNEL_ENUM(kernel, op_class, symbol, text) KERNEL_##kernel,
    KERNEL_LIST(KERNEL_ENUM)
#undef KERNEL_ENUM
        N_KERNELS
};

struct kernel_text {
    const char *name; /* "MATMUL_MMA" */
    enum op_class op_class;
    const char *symbol, *text;
};
extern const struct kernel_text kernel_texts[N_KERNELS];
extern const char *const opclass_names[N_OPCLASSES];
extern const char *const arch_texts[N_ARCHS];

/* How the weights of a product lie. X(format) */
#define FORMAT_LIST(X)                                                                             \
    X(NONE)  /* the stage has no product of weights */                                             \
    X(BF16)  /* packed */                                                                          \
    X(MXFP4) /* packed */                                                                          \
    X(OTHER) /* F32, or anything that is not packed */

enum weight_format {
#define FORMAT_ENUM(format) WEIGHTS_##format,
    FORMAT_LIST(FORMAT_ENUM)
#undef FORMAT_ENUM
        N_FORMATS
};

/* Sets of the above, of stages, and of row kinds, as bits. */
#define SET(i) (1u << (i))

/* Products of prompts by wgmma. */
#define GEMM_KERNELS (SET(KERNEL_GEMM_256) | SET(KERNEL_GEMM_128) | SET(KERNEL_GEMM_64))

enum { TUNING_ROWS_MAX = 1 << 30 };

/* 0 where the kernel has no choice. */
struct tile {
    int rows, tokens, columns; /* of weights, of tokens, of the sum at a time */
};

struct tuning_row {
    unsigned stages, archs, formats, phases;
    int n_rows_min, n_rows_max; /* rows of that kind in the step; of logits and sample: samples */
    enum kernel kernel;
    struct tile tile;
    bool is_on_request; /* only where its family is asked for */
    const char *why;    /* printed by `osprey validate` */
};
extern const struct tuning_row tuning_rows[];
extern const int n_tuning_rows;

struct tuning_key {
    enum stage stage;
    enum arch arch;
    enum weight_format format;
    enum phase phase;
    int n_rows;
};

/* What was asked for by name. */
struct kernel_request {
    enum op_class op_class;     /* AUTO: any */
    int tile_rows, tile_tokens; /* 0: any */
};

/* The row that is as wished; where there is none of that kind for the key, the one that is meant
 * for it. NULL: neither, which the unit test excludes. */
const struct tuning_row *tuning_find(const struct tuning_key *key,
                                     const struct kernel_request *kernel_request);

/* N_ARCHS: none of ours. */
enum arch arch_of_capability(int major);
/* Whether machine code of these architectures, "80 90a" as nvcc names them, is for a card of
 * that capability: it runs on later minor ones too, but with an "a" on that one alone. */
bool arch_has_code(const char *archs, int major, int minor);
/* "AMPERE"; N_ARCHS: none of ours. */
enum arch arch_of_name(const char *name);

/* The formats that a stage's weights can have; 0: it has no product of weights. */
unsigned stage_formats(enum stage stage);

#endif
