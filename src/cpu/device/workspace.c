/* The maximum size of each workspace, computed from the shape of the largest step. A stage reserves
 * what its call needs with workspace_reserve(); tests/unit/test_step_memory.c checks that no call
 * needs more than is computed here. Letters as in backend/batch.h and ARCHITECTURE.md. */
#include "cpu/common/workspace.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cpu/stages/attn.h"
#include "cpu/matmul/int8_interleaved.h"
#include "cpu/matmul/int8_rows.h"
#include "cpu/matmul/matmul.h"
#include "cpu/matmul/mxfp4_bf16.h"
#include "cpu/matmul/bf16_rows.h"
#include "cpu/stages/sample.h"

enum { QKV_JOBS = 3 }; /* matmuls of stage attn_qkv, the most of any stage but experts */

/* The bytes of each workspace, for all threads together except `workers`. */
#define WORKSPACE_LIST(X)                                                                          \
    X(cos_sin)                                                                                     \
    X(scratch)                                                                                     \
    X(jobs)                                                                                        \
    X(counts)                                                                                      \
    X(sums)                                                                                        \
    X(expert_sums)                                                                                 \
    X(rank_sums)                                                                                   \
    X(act_int8)                                                                                    \
    X(interleaved)                                                                                 \
    X(interleaved_first)                                                                           \
    X(attn_tasks)                                                                                  \
    X(attn_partials)                                                                               \
    X(attn_remaining)                                                                              \
    X(bf16_rows)                                                                                   \
    X(permuted)

/* The largest step, and the ISA that runs it. */
struct max_step {
    const struct step_shape *shape;
    const struct kernels *kernels; /* NULL: not known yet, so the maximum over all ISAs */
    int n_threads;
    size_t T, R, C, QW, E, A, F, V;
    struct attn_max attn;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct attn_run attn_of(const struct step_shape *s)
{
    return (struct attn_run){.n_kv_heads = (int)s->n_kv_heads,
                             .head_dim = (int)s->head_dim,
                             .width = kv_width(s->head_dim),
                             .n_group = (int)(s->q_width / (s->n_kv_heads * s->head_dim))};
}

static struct max_step max_step_of(const struct step_shape *s, const struct kernels *k,
                                   int n_threads)
{
    const struct attn_run run = attn_of(s);

    return (struct max_step){
        .shape = s,
        .kernels = k,
        .n_threads = n_threads,
        .T = (size_t)s->counts.n_rows,
        .R = (size_t)s->counts.n_samples,
        .C = (size_t)s->width,
        .QW = (size_t)s->q_width,
        .E = (size_t)s->n_experts,
        .A = (size_t)s->n_active,
        .F = (size_t)s->expert_width,
        .V = (size_t)s->vocab_size,
        .attn = attn_max_of(&run, s->counts.n_rows, s->n_seq_pages, n_threads),
    };
}

static size_t max_columns(const struct max_step *m)
{
    return larger(m->C, larger(m->QW, m->F));
}

static size_t max_jobs(const struct max_step *m)
{
    return larger(m->E, QKV_JOBS);
}

/* The maximum of a function of (rows, columns) over the inputs of all matmuls: activations (T, C),
 * the attention output (T, H*D), and the experts' units (T * A, F). */
#define MAX_OF_INPUTS(m, f)                                                                        \
    larger(f((m)->T, (m)->C), larger(f((m)->T, (m)->QW), f((m)->T *(m)->A, (m)->F)))

static size_t bytes_of_cos_sin(const struct max_step *m)
{
    return m->T * (size_t)m->shape->head_dim * sizeof(float);
}

static size_t bytes_of_scratch(const struct max_step *m)
{
    const size_t n_ints = larger(expert_lists_n(m->E, m->T * m->A), m->R);

    return larger(n_ints * sizeof(int32_t), sample_scratch_bytes(m->R, m->V));
}

static size_t bytes_of_jobs(const struct max_step *m)
{
    return m->E * sizeof(struct matmul);
}

static size_t bytes_of_counts(const struct max_step *m)
{
    return max_jobs(m) * sizeof(int32_t);
}

static size_t bytes_of_sums(const struct max_step *m)
{
    return (size_t)m->n_threads * SUMS_FLOATS * sizeof(float);
}

static size_t bytes_of_expert_sums(const struct max_step *m)
{
    return m->T * m->A * m->C * sizeof(int64_t);
}

static size_t bytes_of_rank_sums(const struct max_step *m)
{
    return m->shape->n_ranks > 1 ? m->T * m->C * sizeof(int64_t) : 0;
}

static size_t act_int8_bytes(size_t n_rows, size_t n_columns)
{
    return n_rows * int8_row_bytes(n_columns);
}

static size_t bytes_of_act_int8(const struct max_step *m)
{
    return m->kernels != NULL && m->kernels->gemm_int8 == NULL ? 0
                                                               : MAX_OF_INPUTS(m, act_int8_bytes);
}

static size_t interleaved_ws_bytes(size_t n_tokens, size_t n_jobs, size_t n_columns)
{
    return interleaved_tiles_max(n_tokens, n_jobs) *
           (size_t)interleaved_bytes(INT8_INTERLEAVED_ROWS, (int)(n_columns / MXFP4_BLOCK));
}

static size_t bytes_of_interleaved(const struct max_step *m)
{
    if (m->kernels != NULL && m->kernels->interleave_int8 == NULL)
        return 0;
    return larger(interleaved_ws_bytes(m->T * m->A, m->E, larger(m->C, m->F)),
                  larger(interleaved_ws_bytes(QKV_JOBS * m->T, QKV_JOBS, m->C),
                         interleaved_ws_bytes(m->T, 1, m->QW)));
}

static size_t bytes_of_interleaved_first(const struct max_step *m)
{
    return (max_jobs(m) + 1) * sizeof(int32_t);
}

static size_t bytes_of_attn_tasks(const struct max_step *m)
{
    return m->attn.n_tasks * sizeof(struct attn_task);
}

static size_t bytes_of_attn_partials(const struct max_step *m)
{
    return m->attn.n_floats * sizeof(float);
}

static size_t bytes_of_attn_remaining(const struct max_step *m)
{
    return m->attn.n_split_kv * (size_t)m->shape->n_kv_heads * sizeof(atomic_int);
}

static size_t bf16_ws_bytes(size_t n_rows, size_t n_columns)
{
    return 2 * bf16_rows_elements((int)n_rows, (int)n_columns) * sizeof(uint16_t);
}

static size_t bytes_of_bf16_rows(const struct max_step *m)
{
    return m->kernels != NULL && m->kernels->round_bf16 == NULL ? 0
                                                                : MAX_OF_INPUTS(m, bf16_ws_bytes);
}

static size_t permuted_bytes(size_t n_rows, size_t n_columns)
{
    return n_rows * n_columns * sizeof(uint16_t);
}

static size_t bytes_of_permuted(const struct max_step *m)
{
    return m->kernels != NULL && m->kernels->gemm_permuted == NULL
               ? 0
               : MAX_OF_INPUTS(m, permuted_bytes);
}

/* Workspace of one thread, the maximum over its uses: attention sums, norm weights, a tile of
 * widened weights, the tokens of an expert, sampling candidates. */
static size_t worker_bytes(const struct max_step *m)
{
    const struct attn_run run = attn_of(m->shape);
    size_t n = (size_t)attn_workspace_floats(&run) * sizeof(float);

    n = larger(n, max_columns(m) * GROUP_ROWS * sizeof(float));
    n = larger(n, permuted_ws_bytes((int64_t)max_columns(m)));
    return larger(n, m->V * CANDIDATE_BYTES);
}

int64_t cpu_step_bytes(const struct step_shape *shape)
{
    const int n_threads = shape->n_threads > 0 ? shape->n_threads : pool_usable_cpus();
    const struct max_step m = max_step_of(shape, NULL, n_threads);
    size_t n = (size_t)n_threads * worker_bytes(&m);

#define WORKSPACE_BYTES(name) n += bytes_of_##name(&m);
    WORKSPACE_LIST(WORKSPACE_BYTES)
#undef WORKSPACE_BYTES
    return (int64_t)n;
}

/* ---- reserving ---- */

enum osp_status workspace_reserve(struct workspace *workspace, size_t n, size_t size_bytes,
                                  const char *what)
{
    void *data;
    enum osp_status st;

    if (n == 0 || (workspace->data != NULL && workspace->size_bytes / n >= size_bytes))
        return OSP_OK;
    TRY(mem_try_aligned(&data, n, size_bytes, what));
    free(workspace->data);
    workspace->data = data;
    workspace->size_bytes = n * size_bytes;
out:
    return st;
}

enum osp_status cpu_reserve_workers(struct cpu *cpu, size_t n, size_t size_bytes, const char *what)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < pool_threads(cpu->pool); i++)
        TRY(workspace_reserve(&cpu->workers[i], n, size_bytes, what));
out:
    return st;
}

enum osp_status cpu_step_reserve(struct backend *be, const struct step_shape *shape)
{
    struct cpu *cpu = (struct cpu *)be;
    const struct max_step m = max_step_of(shape, cpu->kernels, pool_threads(cpu->pool));
    enum osp_status st;

#define WORKSPACE_RESERVE(name)                                                                    \
    TRY(workspace_reserve(&cpu->name, bytes_of_##name(&m), 1, "workspace of " #name));
    WORKSPACE_LIST(WORKSPACE_RESERVE)
#undef WORKSPACE_RESERVE
    TRY(cpu_reserve_workers(cpu, worker_bytes(&m), 1, "workspaces of the threads"));
out:
    return st;
}

void cpu_workspace_release(struct cpu *cpu)
{
    for (int i = 0; cpu->workers != NULL && i < pool_threads(cpu->pool); i++)
        free(cpu->workers[i].data);
    free(cpu->workers);
#define WORKSPACE_FREE(name) free(cpu->name.data);
    WORKSPACE_LIST(WORKSPACE_FREE)
#undef WORKSPACE_FREE
}
