/* Tuning table: the kernel and tile of each stage, by architecture, weight format, phase and number
 * of rows of that phase in the step. Pure data: nothing here needs a GPU. The unit test
 * test_cuda_tuning checks that exactly one entry matches each possible key.
 *
 * A row's bits must not depend on the other rows of the batch. Kernels that are selected by the
 * number of rows within a phase must therefore use the same summation order; prefill and decode
 * rows may use kernels with different orders. In builds with free order (order.h) the first entries
 * of the table take precedence. */
#ifndef CUDA_DEVICE_TUNING_H
#define CUDA_DEVICE_TUNING_H

#include <stdbool.h>

#include "backend/program.h"
#include "cuda/common/order.h"

/* X(architecture, major compute capability from, to, text) */
#define ARCH_LIST(X)                                                                               \
    X(AMPERE, 8, 8, "Ampere or Ada")                                                               \
    X(HOPPER, 9, 9, "Hopper")                                                                      \
    X(BLACKWELL, 10, 11, "Blackwell, data center (tcgen05)")                                       \
    X(BLACKWELL_RTX, 12, 12, "Blackwell, consumer and DGX Spark (block-scaled mma.sync)")

enum arch {
#define ARCH_ENUM(arch, from, to, text) ARCH_##arch,
    ARCH_LIST(ARCH_ENUM)
#undef ARCH_ENUM
        N_ARCHS
};

/* Operation classes, the values of --mxfp4-backend and --attention-backend. X(class, word) */
#define OPCLASS_LIST(X)                                                                            \
    X(AUTO, "auto")     /* a request: the table's default; a kernel: no matrix product */          \
    X(NATIVE, "native") /* block-scaled mma.sync on MXFP4 and MXFP8 */                             \
    X(WGMMA, "wgmma")   /* wgmma, operands in shared memory */                                     \
    X(MMA, "mma")       /* mma.sync.m16n8k16 in bf16 or fp16 */                                    \
    X(SIMT, "simt")     /* float32, no tensor cores */

enum op_class {
#define OPCLASS_ENUM(op_class, word) OPCLASS_##op_class,
    OPCLASS_LIST(OPCLASS_ENUM)
#undef OPCLASS_ENUM
        N_OPCLASSES
};

/* X(kernel, class, symbol, text): the symbol is the function's name in the sources, by which the
 * kernel report identifies it. */
#define KERNEL_LIST(X)                                                                             \
    X(EMBED_RMSNORM, AUTO, "embed_rmsnorm", "one block per row")                                   \
    X(RESIDUAL_RMSNORM, AUTO, "residual_rmsnorm", "one block per row")                             \
    X(SAMPLE, AUTO, "sample", "one block per row")                                                 \
    X(DECODE_QKV, MMA, "qkv_kernel", "fused RMSNorm, QKV, RoPE and KV page write; cp.async rings") \
    X(DECODE_MATMUL, MMA, "decode_matmul_kernel", "fused RMSNorm or residual add; cp.async rings") \
    X(DECODE_OUT, MMA, "out_kernel", "fused residual add and router partials; cp.async rings")     \
    X(DECODE_ENTRIES, MMA, "up_kernel", "blocks share the experts of a token; cp.async rings")     \
    X(DECODE_GROUPED, MMA, "grouped_kernel", "tokens grouped by expert; cp.async rings")           \
    X(DECODE_GROUPED_WIDE, MMA, "grouped_wide_kernel",                                             \
      "tokens grouped by expert, up to 24 at once; bulk copies, equal shares of the cost")         \
    X(DECODE_GROUPED_SM90, WGMMA, "grouped_sm90_kernel",                                           \
      "tokens grouped by expert as operand B, weights as operand A from registers")                \
    X(DECODE_GEMM, MMA, "decode_gemm_kernel", "rounded rows and weights in one cp.async ring")     \
    X(DECODE_GEMM_SM90, WGMMA, "gemm_wide_kernel",                                                 \
      "32 tokens as operand B, weights as operand A from registers")                               \
    X(DECODE_SMEM_RESIDENT, MMA, "smem_resident_kernel",                                           \
      "weights resident in shared memory, tokens streamed")                                        \
    X(DECODE_HEAD, MMA, "head_kernel", "tokens resident in shared memory, weights streamed")       \
    X(DECODE_ROUTE, MMA, "route_kernel",                                                           \
      "cluster of 8 blocks: columns split, top-k of one row each")                                 \
    X(MATMUL_MMA, MMA, "matmul_kernel", "weights as operand A, tokens as its columns")             \
    X(GEMM_256, WGMMA, "gemm_256_kernel",                                                          \
      "weights as operand A from registers, tiles of 256 rows")                                    \
    X(GEMM_128, WGMMA, "gemm_128_kernel", "the same, tiles of 128 rows, cooperative warpgroups")   \
    X(GEMM_64, WGMMA, "gemm_64_kernel", "the same, tiles of 64 rows, ping-pong warpgroups")        \
    X(GEMM_MMA, MMA, "prefill_mma_kernel", "weights expanded once for up to 128 tokens; ldmatrix") \
    X(MXFP8_MATMUL, NATIVE, "mxfp8_matmul_kernel", "block-scaled MMAs on MXFP8 rows")              \
    X(MATMUL_SIMT, SIMT, "plain_kernel", "one warp per row of weights, float32")                   \
    X(ATTN_SIMT, SIMT, "attn_kernel", "splits of 256 keys, merged in order, float32")              \
    X(ATTN_DECODE, MMA, "attn_decode",                                                             \
      "one block per split of a row's keys, queries as operand B")                                 \
    X(ATTN_PREFILL, MMA, "attn_prefill", "16 tokens x 8 heads per block, loop over pages")         \
    X(ATTN_SM90, WGMMA, "attn_sm90", "24 tokens x 8 heads per block, loop over pages")

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

/* How the weights of a matrix multiplication are stored. X(format) */
#define FORMAT_LIST(X)                                                                             \
    X(NONE)  /* the stage has no weight matrix */                                                  \
    X(BF16)  /* packed */                                                                          \
    X(MXFP4) /* packed */                                                                          \
    X(OTHER) /* F32, or any other weight that is not packed */

enum weight_format {
#define FORMAT_ENUM(format) WEIGHTS_##format,
    FORMAT_LIST(FORMAT_ENUM)
#undef FORMAT_ENUM
        N_FORMATS
};

/* Bit sets of the above, of stages, and of phases. */
#define SET(i) (1u << (i))

/* Prefill GEMM kernels that use wgmma. */
#define GEMM_KERNELS (SET(KERNEL_GEMM_256) | SET(KERNEL_GEMM_128) | SET(KERNEL_GEMM_64))

enum { TUNING_ROWS_MAX = 1 << 30 };

/* 0 where the kernel has no such parameter. */
struct tile {
    int rows, tokens, columns; /* of weights, of tokens, of K per step */
};

struct tuning_row {
    unsigned stages, archs, formats, phases;
    int n_rows_min, n_rows_max; /* rows of that phase in the step; for logits and sample: samples */
    enum kernel kernel;
    struct tile tile;
    bool is_on_request; /* used only if its class is requested */
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

/* Kernel selection requested by name. */
struct kernel_request {
    enum op_class op_class;     /* AUTO: any */
    int tile_rows, tile_tokens; /* 0: any */
};

/* The entry that satisfies the request; if no entry for the key does, the default entry. NULL:
 * neither exists, which the unit test rules out. */
const struct tuning_row *tuning_find(const struct tuning_key *key,
                                     const struct kernel_request *kernel_request);

/* N_ARCHS: not supported. */
enum arch arch_of_capability(int major);
/* True if code for these architectures, "80 90a" in nvcc's notation, runs on a GPU of that
 * capability. It also runs on later minor versions, but with an "a" only on exactly that
 * version. */
bool arch_has_code(const char *archs, int major, int minor);
/* "AMPERE"; N_ARCHS: not supported. */
enum arch arch_of_name(const char *name);

/* Stages that a GPU has kernels for; those behind them are of draft heads. */
enum { N_GPU_STAGES = STAGE_sample + 1 };

/* The possible formats of a stage's weights; 0: it has no matrix multiplication. */
unsigned stage_formats(enum stage stage);

#endif
