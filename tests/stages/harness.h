/* What the parts of check_backend share: the device under test, tensors with random numbers,
 * batches, and the run of a stage. For a device with memory of its own, the tensors are uploaded
 * before and downloaded after the run. */
#ifndef STAGES_HARNESS_H
#define STAGES_HARNESS_H

#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/rng.h"
#include "naive.h"
#include "worst.h"

enum { ROWS_MAX = 224, SAMPLES_MAX = 224, BLOCK_MAX = 512 };

/* ---- limits ---- */

/* |found - expected| / (1 + |expected|): sums of up to 3,000 products in f32 stay below 1e-5. */
#define ERROR_MAX 2e-5
/* Experts with int8 or bf16 inputs: RMS of the errors / RMS of the values. Each of two matmuls
 * rounds its inputs to 1/254 of the largest of 32, about 0.5 % of a typical value (or to 1/512 of
 * each). The gates between them double that at worst. */
#define RELATIVE_ERROR_MAX 0.02
/* |found - expected| / (1 + |expected|) of attention if weights are rounded to bf16: by 2^-9 of
 * each, with values of up to 2.5. */
#define WEIGHTS_ERROR_MAX 4e-3

/* The same if queries and weights become integers: the largest scores are 20, and an element is
 * rounded to 1/11,500 of the root mean square. */
#define CODES_ERROR_MAX 5e-4
/* Rows as MXFP8: numbers of e4m3 have an error of up to 1/16, and of 2.6 % in the root mean square;
 * the rest is as above. */
#define MXFP8_ERROR_MAX 0.1

/* ---- the device under test ---- */

/* The phases of a batch's rows: a device may have kernels for each phase. */
enum mixture { ALL_PROMPT, A_THIRD_GENERATED, ALL_GENERATED, N_MIXTURES };

struct under_test {
    const struct backend_ops *ops;
    struct backend *device;
    enum mixture mixture;
    const int *row_counts; /* the numbers of rows of the cases */
    int n_row_counts;
    int n_kv_types;      /* how many of kv_types the device has */
    enum dtype kv_timed; /* the ISA's default KV cache type: its time is printed */
    int n_repeats;       /* of every stage that runs; more while it is timed */
    uint64_t best_ns;    /* the fastest of the last stage's repeats */
    bool has_int8;       /* the ISA has int8 kernels */
    bool has_rounding;   /* it rounds the inputs of BF16 weights to bf16, except the router's */
    bool has_codes;      /* the ISA multiplies I16 pages as integers */
    bool is_quick;       /* CHECK_QUICK: fewer cases */
    bool is_in_worker;   /* the device has memory of its own; inputs of MXFP4 matmuls are fp16 */
    bool is_mxfp8;       /* the device rounds prefill rows to MXFP8 for MXFP4 weights */
};
extern struct under_test under;

/* The largest errors so far. */
struct worst {
    double stage;   /* of the current stage, of 1 + |value| */
    double mxfp8;   /* relative, of a case with MXFP8 rows */
    double int8;    /* the same with int8 inputs */
    double weights; /* of a row with rounded weights */
    double codes;   /* of integer attention */
};
extern struct worst worst;

void must(enum osp_status st);
void note(double found, double expected);
void note_wrong(const char *what, int64_t found, int64_t expected);

/* ---- tensors: full of NaN until they are filled; free them with drop() ---- */

/* Memory full of NaN in every float type; the caller frees it. */
void *alloc_poisoned(int64_t size_bytes);
struct tensor shaped(enum dtype dtype, int n_dims, const int64_t *dim);
#define SHAPED(dtype, ...)                                                                         \
    shaped(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
           (int64_t[]){__VA_ARGS__})
void drop(struct tensor *t);

/* Every filled tensor gets its own random numbers, uniform, with this standard deviation. */
void begin_fill(void);
uint64_t fill_id(void);
float random_at(int64_t i, double deviation);
struct tensor filled(struct tensor t, double deviation);
#define FILLED(deviation, dtype, ...) filled(SHAPED(dtype, __VA_ARGS__), deviation)

/* The weight in the layout of the device; packed memory is kept until the device closes. */
struct tensor packed(const struct tensor *host);

float f32_at(const struct tensor *t, int64_t i);
const float *row_of(const struct tensor *t, int64_t row);
/* Row r of a matrix times x, rounded as the ISA rounds it; and with x as MXFP8. */
double rounded_dot(const struct tensor *w, int64_t r, const float *x);
double mxfp8_dot(const struct tensor *w, int64_t r, const float *x);

/* ---- batches; the caller frees them ---- */

struct span {
    int first_position, n_rows;
};

/* Sequences with pages for all their positions, or for those that the window reaches. Page numbers
 * start at the end of the pool. */
struct batch *batch_of(const struct span *spans, int n, int n_samples, int window_tokens);
struct batch *rows_batch(int n_rows, int n_samples);

/* ---- running a stage ---- */

/* A stage's arguments, uploaded to the device. */
struct mirror {
    enum stage stage;
    struct mem mem[STAGE_FIELDS_MAX];
};

/* Replaces the tensors of args by tensors on the device with the same contents. */
void move_there(struct mirror *m, void *args);
/* Downloads what the stage wrote, from the tensors of `there` to those of `args`. */
void move_back(struct mirror *m, const void *args, void *there);
/* Runs a program of this stage alone, under.n_repeats times, and records the time. */
void run_stage(enum stage stage, const union stage_args *args, const struct batch *b);

/* Runs one stage over a batch. */
#define RUN(stage, batch, args)                                                                    \
    do {                                                                                           \
        struct mirror mirror = {STAGE_##stage, {{0}}};                                             \
        union stage_args there = {.stage = *(args)};                                               \
                                                                                                   \
        move_there(&mirror, &there);                                                               \
        run_stage(STAGE_##stage, &there, batch);                                                   \
        move_back(&mirror, args, &there);                                                          \
    } while (0)

/* One token, tiles of 2, 4, 8 and 16, and one more or less; for a GPU also blocks of 64 and 128.
 * With CHECK_QUICK a few of them: every kernel, but not every edge. */
enum { ROW_COUNTS = 18, ROW_COUNTS_CPU = 9, ROW_COUNTS_QUICK = 5 };
void choose_row_counts(void);
extern const enum dtype plain_types[2];

/* ---- rotations and caches ---- */

enum { KV_TYPES = 4 };
extern const enum dtype kv_types[KV_TYPES]; /* some devices lack the last one */

/* Arbitrary frequencies: the test is about where they are used. */
struct rope some_rope(int head_dim);
/* A KV cache full of NaN. */
struct tensor cache_of(enum dtype dtype, int n_pages, int n_heads, int head_dim);

/* ---- cases of each stage, and its time for n_rows rows at the shapes of gpt-oss-20b ---- */

enum { C20 = 2880, F20 = 2880, H20 = 64, K20 = 8, D20 = 64, E20 = 32, A20 = 4 };
enum { V20 = 201088 / 8 }; /* an eighth of the output head: its time is proportional */
enum { CONTEXT = 4096 };

void check_embed_rmsnorm(void);
void check_residual_rmsnorm(void);
void check_attn_qkv(void);
void check_attn(void);
void check_attn_out(void);
void check_router(void);
void check_experts(void);
void check_expert_sums(void); /* of a GPU */
void check_logits(void);
void check_sample(void);
void check_tap(void);
void check_draft_fc(void);
void check_draft_input(void);
void check_mlp(void);
void check_gather(void);

void time_residual_rmsnorm(int n_rows);
void time_attn_qkv(int n_rows);
void time_attn(int n_rows);
void time_attn_out(int n_rows);
void time_router(int n_rows);
void time_experts(int n_rows);
void time_logits(int n_rows);
/* Prints the time of 1 to 256 rows (on the CPU 1 and 8) of all ids of gpt-oss, by the kind of
 * sampling. Opens the device again, with graphs. */
void time_sample(int n_threads);

#endif
