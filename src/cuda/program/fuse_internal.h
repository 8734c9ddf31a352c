/* Shared by the files of fuse(): the state while the ops of a program become launches. */
#ifndef CUDA_PROGRAM_FUSE_INTERNAL_H
#define CUDA_PROGRAM_FUSE_INTERNAL_H

#include "cuda/common/layout.h"
#include "cuda/program/fuse.h"

/* The output of the router that the kernels of the experts start from. */
enum router_result {
    ROUTER_TOPK,   /* ids and gates */
    ROUTER_LOGITS, /* logits: the first kernel of the experts does the top-k */
    ROUTER_SUMS    /* fixed-point sums of the output projection's epilogue: it also does the norm */
};

/* Tensors of the current matmul, by id, for the touches of its launches. */
struct product_tensors {
    int x;                    /* its rows */
    int out[MATMUL_JOBS_MAX]; /* of each job */
    enum workspace out_rows;  /* where has_out_rows: out[0] is this workspace */
    bool has_out_rows;
    bool is_gathered; /* copies of its rows have an order of their own: no other op takes them */
    bool is_listed;   /* its rows are listed by expert, in the workspace `lists` */
};

struct fuse {
    const struct fuse_input *in;
    struct launch_list *list;
    int op; /* the current op of the program: touches of its matmuls are noted for it */
    struct product_tensors product;
    int n_rows, n_decode; /* of the current ops: rows of the batch, or of the tail */
    /* common/live_rows.cuh; in a padded step the number of rows, decode rows and samples; NULL in
     * others */
    const int32_t *n_live;
    bool is_tail; /* the current ops have only the rows that are sampled, as rows 0 and on */
    int rounded;  /* id of the tensor whose decode rows are in the workspace `rounded`; 0: none */
    int operand;  /* the same, in the workspace `operand` for launch_decode_gemm_sm90(); 0: none */
    int mxfp8;    /* id of the tensor whose prefill rows are in the workspace `mxfp8`; 0: none */
    const struct rope *rope; /* whose cos and sin are in their workspace; NULL: none */
    int factors_of;          /* op whose RMSNorm factors are in their workspace; -1: none */
    int deferred_norm;       /* residual op whose norm the kernel of the next op does; -1: none */
    int out_op;              /* attn_out op whose result is in h; -1: none */
    int n_integer;           /* rows of the experts' h that are integer sums */
    int32_t *out_low;  /* of attn_out, while decode rows leave sums; NULL: they leave floats */
    int pending_sums;  /* experts op of a step of a few rows whose sums x lacks; -1: none */
    bool are_sums_own; /* the pending sums are those of this rank: QKV exchanges them */
    bool has_totals;   /* it has: those of all ranks are in the workspace expert_totals */
    enum router_result router;
    int router_residual; /* ROUTER_SUMS: residual op whose norm the kernel of the experts does */
    int jobs_of;         /* experts op whose jobs the router's kernel has listed; 0: none */
    bool is_shared;      /* ranks share out the rows of all ops before the tail */
    struct rank_share share;
    int sums_index;      /* the exchange of shared rows that the residual does; -1: h is whole */
    struct tensor parts; /* (n_rows * n_parts, C): this rank's parts of the sums of these rows */
    int n_parts;
    int gathered;           /* id of the tensor of which `gathered` has the prefill rows; 0: none */
    bool is_x_shared;       /* a rank has its own rows of x only */
    bool are_sums_cleared;  /* the QKV kernel has zeroed the sums of the router */
    uint64_t *router_sums;  /* ROUTER_SUMS: where they are */
    int n_attn_layers;      /* launches of fuse_attn_layer() */
    struct tensor tail_att; /* the attention rows of the tail */
    int first;              /* touches are noted for launches from this one to the last */
    enum osp_status st;
};

/* ---- reading the program ---- */

static inline const struct program_op *op_at(const struct fuse *f, int i)
{
    return i < f->in->program->n_ops ? &f->in->program->ops[i] : NULL;
}

static inline bool is_stage(const struct fuse *f, int i, enum stage stage)
{
    return op_at(f, i) != NULL && op_at(f, i)->stage == stage;
}

/* Op i, or the first op behind it that is no tap: taps read x and change nothing. */
static inline int op_behind_taps(const struct fuse *f, int i)
{
    while (is_stage(f, i, STAGE_tap))
        i++;
    return i;
}

/* The arguments of op i; in the tail, with its rows in place of the batch's. */
void op_args(const struct fuse *f, int i, union stage_args *out);
/* The last op before op i that writes the tensor; -1: none. */
int last_writer(const struct fuse *f, int i, const struct tensor *t);
/* Whether the caller, or an op after op i other than `but`, reads the contents that op i leaves in
 * the tensor. */
bool is_read_after(const struct fuse *f, int i, int but, const struct tensor *t);

static inline void *workspace(const struct fuse *f, enum workspace w)
{
    return f->in->workspaces->at[w].data;
}

/* An array of the batch, or the batch itself, in device memory. */
const struct batch *batch_on_device(const struct fuse *f);
const void *on_device(const struct fuse *f, int32_t offset);

/* ---- ranks ---- */

/* Whether other ranks add to the outputs of op i, or have part of them. */
static inline bool is_exchanged(const struct fuse *f, int i)
{
    return f->in->peers != NULL && f->in->peers->n_ranks > 1 && op_at(f, i) != NULL &&
           op_at(f, i)->exchange != EXCHANGE_NONE;
}

/* Whether NCCL gathers their numbers, between kernels. */
static inline bool is_gathered(const struct fuse *f, int i)
{
    return f->in->is_gathered && is_exchanged(f, i);
}

/* fuse_ranks.c: the launches after those of op i, if it is exchanged. h: its output, of which the
 * first n_integer rows are integers in these units of the columns. */
void exchange_sums(struct fuse *f, int i, const struct tensor *h, int n_integer, const float *unit);
/* Of attn_out: f->out_low, or NULL, for its decode rows. */
void exchange_out(struct fuse *f, int i, const struct attn_out_args *a);
/* Whether decode rows of attn_out leave sums for an exchange behind their kernel. */
bool has_out_words(const struct fuse *f, int i, const struct attn_out_args *a);
/* Of the experts op i of a step of one row: their integer sums in their workspace. */
void exchange_expert_sums(struct fuse *f, int i);
void exchange_logits(struct fuse *f, int i, const struct logits_args *a);

/* fuse_share.c: rows that ranks share out (common/rank_share.h), in a step of prefill rows. */
void share_begin(struct fuse *f);
static inline bool is_shared(const struct fuse *f)
{
    return f->is_shared && !f->is_tail;
}
/* Of the sums of the current op, which the residual pushes: each row has n_parts rows here. */
void share_parts(struct fuse *f, const struct tensor *parts, int n_parts);
/* The exchange of shared rows, and the residual of this rank's. */
int share_residual(struct fuse *f, int i, const struct residual_rmsnorm_args *a, bool is_partial);
int share_router(struct fuse *f, int i, const struct router_args *a);
/* The rows of all ranks as an operand; ids and gates. */
struct operand share_operand(const struct fuse *f, enum rounding rounding);
const int32_t *share_ids(const struct fuse *f);
const float *share_gates(const struct fuse *f);
/* to[i] = the row of x that sample i names. */
void share_gather(struct fuse *f, int i, const struct tensor *to, const struct tensor *x);
void exchange_tokens(struct fuse *f, int i, const struct sample_args *a);

/* fuse.c: whether the tail begins at op i, an attn_out. */
bool is_tail_begin(const struct fuse *f, int i);

/* ---- the tuning table ---- */

enum weight_format format_of(const struct tensor *w);
const struct tuning_row *tuning_row_of(const struct fuse *f, enum stage stage,
                                       enum weight_format format, enum phase phase, int n_rows);
/* Whether the current ops have decode rows only. */
static inline bool is_decode(const struct fuse *f)
{
    return f->n_decode == f->n_rows;
}

/* Few enough rows for the kernels that normalize their inputs and process experts row by row. */
static inline bool is_fused_batch(const struct fuse *f)
{
    return f->n_rows <= DECODE_FUSED_MAX;
}

/* Whether the table has this kernel for a matrix times n_rows decode rows, in a step without
 * prefill rows. */
bool is_tuned(const struct fuse *f, enum stage stage, const struct tensor *w, int n_rows,
              enum kernel kernel);

/* ---- weights in the format of decode.h ---- */

struct decode_matrix matrix_of(const struct tensor *w);
struct decode_vector vector_of(const struct tensor *v); /* a vector or a stack of vectors */
bool is_vector(const struct tensor *v);                 /* whether vector_of() takes it */
/* Rows are read and normalized in pieces of DECODE_COLUMNS_OF numbers, at most DECODE_WIDTH_MAX. */
static inline bool is_fused_width(int64_t n_columns)
{
    return n_columns % DECODE_COLUMNS_OF == 0 && n_columns <= DECODE_WIDTH_MAX;
}

/* ---- touches of the launches since f->first: the first one reads, the last one writes ---- */

/* A note of one launch. */
void touch(struct fuse *f, int launch, enum touch_kind kind, int tensor, int workspace, int op);
void reads(struct fuse *f, int op, const struct tensor *t);
void reads_id(struct fuse *f, int op, int id);
void writes_id(struct fuse *f, int op, int id);
void reads_early(struct fuse *f, const struct tensor *t); /* weights, before griddepcontrol.wait */
void writes(struct fuse *f, int op, const struct tensor *t);
void reads_workspace(struct fuse *f, enum workspace w);
void writes_workspace(struct fuse *f, enum workspace w);
/* The same of a workspace with the rows of a tensor in another form: those that op reads or writes.
 */
void reads_copy(struct fuse *f, int op, enum workspace w, int tensor_id);
void writes_copy(struct fuse *f, int op, enum workspace w, int tensor_id);
/* The next touches are those of the next kernel. */
static inline void next_launch(struct fuse *f)
{
    f->first = f->list->n;
}

/* The launches since f->first belong to this op: their time counts for its stage. Then as
 * next_launch(). */
void set_op(struct fuse *f, int op);

/* ---- stages: each function returns the number of ops that its launches cover ---- */

int fuse_qkv(struct fuse *f, int i);
/* From attn_qkv to the router in one launch; 0: not supported here. */
int fuse_attn_layer(struct fuse *f, int i);
int fuse_attn(struct fuse *f, int i);
/* With the residual, its norm and the router, if one kernel does more than attn_out. */
int fuse_attn_out(struct fuse *f, int i);
int fuse_residual(struct fuse *f, int i); /* may include the router */
int fuse_router(struct fuse *f, int i);
int fuse_experts(struct fuse *f, int i); /* may include the residual */
int fuse_logits(struct fuse *f, int i);
int fuse_sample(struct fuse *f, int i);

/* fuse_draft.c: stages of draft heads. */
int fuse_tap(struct fuse *f, int i);
int fuse_draft_fc(struct fuse *f, int i);
int fuse_draft_input(struct fuse *f, int i);
int fuse_mlp(struct fuse *f, int i);
int fuse_gather(struct fuse *f, int i);

/* fuse_qkv.c: the rows of y for a kernel that can norm its inputs: y itself, or x whose deferred
 * norm they are; and the notes of what such a kernel touches. */
struct decode_rows normed_rows_of(const struct fuse *f, const struct tensor *y);
void reads_normed_rows(struct fuse *f, int i, const struct tensor *y, bool has_y);
/* The arguments of its kernel, without its rows, and its weights. */
struct decode_qkv qkv_of(const struct fuse *f, const struct attn_qkv_args *a);
void touch_qkv_weights(struct fuse *f, const struct attn_qkv_args *a);
/* Cos and sin of the batch's positions, once for all layers. */
void make_cos_sin(struct fuse *f, const struct rope *rope);
/* Whether QKV, rotation and KV cache of these rows are one kernel. */
bool is_fused_qkv(const struct fuse *f, const struct attn_qkv_args *a);
/* Whether its kernel can exchange the pending sums of this residual with other ranks. */
bool takes_exchange(const struct fuse *f, const struct attn_qkv_args *a,
                    const struct residual_rmsnorm_args *residual);

/* fuse_attn.c: the kernel of rows of a phase, the batch, and the most units of keys that a row sees
 * (attn_units_bucket()). */
enum kernel attn_kernel_of(const struct fuse *f, const struct attn_args *a, enum phase phase);
struct attn_rows attn_rows_of(const struct fuse *f);
int attn_units_at_most(const struct attn_args *a, int n_units);

/* fuse_out.c: attn_out of decode rows, and whether decode kernels take it. */
struct decode_matmul out_matmul(const struct fuse *f, const struct attn_out_args *a);
bool takes_out(const struct fuse *f, const struct attn_out_args *a);

/* fuse_router.c */
/* The router of decode rows: of y, or, if a norm has computed y, of x with the norm's factors. */
struct decode_router router_of(const struct fuse *f, const struct router_args *a);
/* Whether decode rows, in any number, use the router matmul by columns; it depends on the model and
 * the GPU only. */
bool is_by_columns(const struct fuse *f, const struct router_args *a);
void touch_router(struct fuse *f, int i, const struct router_args *a);
/* The router matmul of a few rows, which its kernel can normalize (residual op i - 1; NULL: y is
 * there): whether it takes these, and its launch. */
bool takes_router_logits(const struct fuse *f, const struct router_args *a);
bool launch_router_logits(struct fuse *f, int i, const struct router_args *a,
                          const struct residual_rmsnorm_args *residual);
/* ids and gates of all rows from their logits. */
void launch_topk_of(struct fuse *f, int i, const struct router_args *a);

/* fuse_residual.c */
/* fuse_ends.c: whether the kernel of op i can apply the norm of the residual op to its inputs. */
bool takes_norm(const struct fuse *f, int i, int residual);
/* Whether kernels that fuse the norm can read its weights. */
bool is_plain_norm(const struct residual_rmsnorm_args *a);
/* Appends the norm of a residual op whose sum is in x. */
void norm_now(struct fuse *f, int residual);

/* fuse_experts.c: the pending sums, for a kernel that adds them to x; zeros: none are pending. */
struct expert_sums pending_sums_of(const struct fuse *f);
/* The same for the kernel that also sets them to zero: without pending sums it only does that. */
struct expert_sums cleared_sums_of(const struct fuse *f);
/* x has the pending sums. */
void forget_pending_sums(struct fuse *f);
/* The launch since f->first reads the pending sums. */
void reads_pending_sums(struct fuse *f);
/* Adds the pending sums to x. */
void settle_sums(struct fuse *f);
/* fuse_experts.c: whether the decode kernels support the experts at i after a router with this
 * router_result. */
bool takes_experts(const struct fuse *f, int i, int router);
/* Whether the experts at op i group more than a few rows by the ids of the router op before it;
 * then *out is the list of their jobs, which the router's kernel can make. */
bool has_job_list(const struct fuse *f, int i, struct decode_grouped *out);

/* ---- fuse_matmul.c ---- */

/* Adds a job to m. */
void matmul_add(struct matmul *m, const struct tensor *w, const struct tensor *bias, float *out,
                int64_t out_width);
/* Launches all jobs, in any format, by the kernels that the table has for each phase. x: the tensor
 * of the rows. The caller sets f->product; all touches of the launches are noted. */
void matmul_launch(struct fuse *f, enum stage stage, const struct matmul *m,
                   const struct tensor *x);
/* The same for the prefill rows only, if matmul_has_prefill(). */
void matmul_launch_prefill(struct fuse *f, enum stage stage, const struct matmul *m,
                           const struct tensor *x);
/* The table's row for prefill rows, and whether its kernel is for prefill rows only. */
const struct tuning_row *matmul_prefill_row(const struct fuse *f, enum stage stage,
                                            const struct tensor *w);
bool matmul_has_prefill(const struct fuse *f, enum stage stage, const struct tensor *w);
/* Number of rows for the decode kernels. In a build without batch invariance (order.h): 0 in a step
 * with prefill rows. */
int matmul_decode_rows(const struct fuse *f);
/* QKV of decode rows with RoPE and the KV cache write in one kernel; false: not supported here. */
bool matmul_qkv(struct fuse *f, const struct attn_qkv_args *a, const struct matmul *m);

/* The launch since f->first makes the product's rows ready in the workspace. */
void note_rows(struct fuse *f, enum workspace w);
/* The launch since f->first is the product, of rows in the workspace, or in their tensor. */
void note_product(struct fuse *f, const struct matmul *m);
void note_product_of(struct fuse *f, const struct matmul *m, enum workspace rows);

/* The workspace for n_rows rows as FP16, of whole units. */
uint16_t *rounded_workspace(struct fuse *f, int n_rows, int64_t n_columns);
/* Where a kernel that computes the decode rows of t also stores them as FP16; NULL: nothing reads
 * them as FP16. */
uint16_t *rounded_buffer(struct fuse *f, const struct tensor *t);
/* The same if op `reader` is a matmul of t whose kernel takes an operand, of *n_operand_rows rows;
 * otherwise NULL. */
uint16_t *operand_buffer(struct fuse *f, const struct tensor *t, int reader, int *n_operand_rows);
/* Rows of another tensor follow: nothing has them as FP16 yet. */
void forget_rounded(struct fuse *f);
/* The first n_rows rows of t as FP16: stored by an earlier kernel, or converted for f->op now. */
const uint16_t *rounded_rows(struct fuse *f, const struct tensor *t, int n_rows);

/* ---- fuse_prefill.c: matmuls of many rows ---- */

void prefill_mma(struct fuse *f, const struct matmul *m);
void prefill_sm90(struct fuse *f, const struct matmul *m);
/* The format of a matrix's operand. */
enum rounding rounding_of(const struct tensor *w, bool is_exact);
/* x: id of the tensor whose prefill rows m multiplies; 0: other rows. */
void prefill_mxfp8(struct fuse *f, const struct matmul *m, int x, int tile_rows);
/* Experts of the first n_rows rows of the tensors, by the kernel of that row of the table. */
void prefill_experts(struct fuse *f, const struct experts_args *a, const struct tuning_row *row,
                     int n_rows);
/* The residual and its norm, whose prefill rows are also stored as MXFP8 for the next matmuls. */
void residual_mxfp8(struct fuse *f, const struct residual_rmsnorm_args *a, float *factors);

/* ---- fuse_experts.c ---- */

/* Matmuls over the rows of each expert, and the lists of these rows. */
struct grouped_experts {
    struct grouping lists;
    struct matmul up, down;
};
void group_experts(struct fuse *f, const struct experts_args *a, int n_rows,
                   struct grouped_experts *out);
/* The launch since f->first sums the parts of each row to h. */
void touch_combine(struct fuse *f, const struct experts_args *a);

#endif
