/* What the parts of check_backend share: the device under test, tensors with numbers of their
 * own, batches, and a stage's run, for which its tensors are brought to a device that has memory
 * of its own, and back. */
#ifndef STAGES_HARNESS_H
#define STAGES_HARNESS_H

#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/rng.h"
#include "naive.h"
#include "worst.h"

enum { ROWS_MAX = 130, SAMPLES_MAX = 130, BLOCK_MAX = 512 };

/* ---- limits ---- */

/* |found - expected| / (1 + |expected|): sums of up to 3,000 products in f32 stay below 1e-5. */
#define ERROR_MAX 2e-5
/* Of the experts where their inputs are int8 or bf16, the root of the mean square of errors over
 * that of the values: each of two products rounds its inputs to 1/254 of the largest of 32,
 * which is about 0.5 % of a typical one (or to 1/512 of each), and the gates between them double
 * that at worst. */
#define RELATIVE_ERROR_MAX 0.02
/* |found - expected| / (1 + |expected|) of attention where weights are rounded to bf16: each by 2^-9 of
 * itself, with values of up to 2.5. */
#define WEIGHTS_ERROR_MAX 4e-3

/* The same where queries and weights become integers: the largest scores are 20, and an element
 * is rounded to 1/11,500 of the root of the mean square. */
#define CODES_ERROR_MAX 5e-4
/* Of rows as MXFP8: numbers of e4m3 are off by up to 1/16, and by 2.6 % on the average of
 * squares; the rest is as above. */
#define MXFP8_ERROR_MAX 0.1

/* ---- the device under test ---- */

/* Of which kinds the rows of batches are: a device may have kernels for each. */
enum mixture { ALL_PROMPT, A_THIRD_GENERATED, ALL_GENERATED, N_MIXTURES };

struct under_test {
    const struct backend_ops *ops;
    struct backend *device;
    enum mixture mixture;
    const int *row_counts; /* numbers of rows that cases have */
    int n_row_counts;
    int n_kv_types;      /* of kv_types, that the device has */
    enum dtype kv_timed; /* the level's own type of KV cache: its time is printed */
    int n_repeats;       /* of every stage that runs: more while it is timed */
    uint64_t best_ns;    /* of the last stage's repeats */
    bool has_int8;       /* the level at hand */
    bool has_rounding;   /* it rounds what meets BF16 weights to bf16, but for the router */
    bool has_codes;      /* the level meets pages of I16 with integers */
    bool is_quick;       /* CHECK_QUICK: fewer cases */
    bool is_in_worker;   /* the device has memory of its own; what meets MXFP4 is fp16 */
    bool is_mxfp8;       /* the device rounds prompts' rows to MXFP8 for MXFP4 weights */
};
extern struct under_test under;

/* The largest errors so far. */
struct worst {
    double stage;   /* of the stage at hand, of 1 + |value| */
    double mxfp8;   /* relative, of a case with rows as MXFP8 */
    double int8;    /* the same with int8 inputs */
    double weights; /* of a row with rounded weights */
    double codes;   /* of attention with integers */
};
extern struct worst worst;

void must(enum osp_status st);
void note(double found, double expected);
void note_wrong(const char *what, int64_t found, int64_t expected);

/* ---- tensors: full of NaN until they are filled; drop() them ---- */

/* Memory full of NaN in every float type; free() it. */
void *room(int64_t size_bytes);
struct tensor shaped(enum dtype dtype, int n_dims, const int64_t *dim);
#define SHAPED(dtype, ...)                                                                         \
    shaped(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
           (int64_t[]){__VA_ARGS__})
void drop(struct tensor *t);

/* Every tensor that is filled gets numbers of its own, uniform, with this standard deviation. */
void begin_fill(void);
uint64_t fill_id(void);
float random_at(int64_t i, double deviation);
struct tensor filled(struct tensor t, double deviation);
#define FILLED(deviation, dtype, ...) filled(SHAPED(dtype, __VA_ARGS__), deviation)

/* The weight as the device wants it; what it packs is kept until the device closes. */
struct tensor packed(const struct tensor *host);

float f32_at(const struct tensor *t, int64_t i);
const float *row_of(const struct tensor *t, int64_t row);
/* Row r of a matrix times x, as the level rounds it; and with x as MXFP8. */
double rounded_dot(const struct tensor *w, int64_t r, const float *x);
double mxfp8_dot(const struct tensor *w, int64_t r, const float *x);

/* ---- batches; free() them ---- */

struct span {
    int first_position, n_rows;
};

/* Sequences with pages for all their positions, or for those that the window reaches; the pages are
 * numbered from the end of the pool. */
struct batch *batch_of(const struct span *spans, int n, int n_samples, int window_tokens);
struct batch *rows_batch(int n_rows, int n_samples);

/* ---- a stage's run ---- */

/* A stage's arguments on their way. */
struct mirror {
    enum stage stage;
    struct mem mem[STAGE_FIELDS_MAX];
};

/* Changes the tensors of args to such of the device with the same contents. */
void move_there(struct mirror *m, void *args);
/* Brings what the stage wrote to the tensors of `args` from those of `there`. */
void move_back(struct mirror *m, const void *args, void *there);
/* Runs a program of this stage alone, under.n_repeats times, and notes the time. */
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

/* One token, tiles of 2, 4, 8 and 16, and one more or less; of a device elsewhere blocks of 64
 * and 128 too. A few of them where CHECK_QUICK is set: every kernel, but not every edge. */
enum { ROW_COUNTS = 18, ROW_COUNTS_CPU = 9, ROW_COUNTS_QUICK = 5 };
void choose_row_counts(void);
extern const enum dtype plain_types[2];

/* ---- rotations and caches ---- */

enum { KV_TYPES = 4 };
extern const enum dtype kv_types[KV_TYPES]; /* only the last is not everywhere */

/* Frequencies of any kind: what matters here is where they are used. */
struct rope some_rope(int head_dim);
/* A KV cache full of NaN. */
struct tensor cache_of(enum dtype dtype, int n_pages, int n_heads, int head_dim);

/* ---- the parts: cases of a stage, and its time with so many rows at the shapes of gpt-oss-20b ---- */

enum { C20 = 2880, F20 = 2880, H20 = 64, K20 = 8, D20 = 64, E20 = 32, A20 = 4 };
enum { V20 = 201088 / 8 }; /* an eighth of the head: its time is proportional */
enum { CONTEXT = 4096 };

void check_embed_rmsnorm(void);
void check_residual_rmsnorm(void);
void check_attn_qkv(void);
void check_attn(void);
void check_attn_out(void);
void check_router(void);
void check_experts(void);
void check_logits(void);
void check_sample(void);

void time_residual_rmsnorm(int n_rows);
void time_attn_qkv(int n_rows);
void time_attn(int n_rows);
void time_attn_out(int n_rows);
void time_router(int n_rows);
void time_experts(int n_rows);
void time_logits(int n_rows);

#endif
