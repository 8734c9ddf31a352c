/* How large each room can become. Every stage asks for what its call needs (room_need()), and what it can need
 * at most is counted here from the shape of the largest step; tests/unit/test_step_memory.c holds the one
 * against the other. Letters as in backend/batch.h and ARCHITECTURE.md. */
#include "cpu/common/rooms.h"

#include <stdlib.h>

#include "base/memory.h"
#include "cpu/stages/attn.h"
#include "cpu/matmul/int8_arranged.h"
#include "cpu/matmul/int8_rows.h"
#include "cpu/matmul/mixed.h"
#include "cpu/matmul/rounded.h"
#include "cpu/stages/sample.h"

enum { QKV_JOBS = 3 }; /* products of stage attn_in, the most of any stage but experts */

/* Of all threads together, but for `workers`. */
#define ROOM_LIST(X)                                                                               \
    X(rotations)                                                                                   \
    X(lists)                                                                                       \
    X(jobs)                                                                                        \
    X(counts)                                                                                      \
    X(quantised)                                                                                   \
    X(arranged)                                                                                    \
    X(arranged_first)                                                                              \
    X(attn_tasks)                                                                                  \
    X(attn_parts)                                                                                  \
    X(attn_left)                                                                                   \
    X(rounded)                                                                                     \
    X(mixed)

/* The largest step, and who runs it. */
struct most {
    const struct step_shape *shape;
    const struct kernels *kernels; /* NULL: not known, so what any of them needs */
    int n_threads;
    size_t T, R, C, QW, E, A, F, V;
    struct attn_most attn;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct attn_run attn_of(const struct step_shape *s)
{
    return (struct attn_run){.n_kv_heads = (int)s->n_kv_heads,
                             .head_width = (int)s->head_width,
                             .width = kv_width(s->head_width),
                             .n_group = (int)(s->q_width / (s->n_kv_heads * s->head_width))};
}

static struct most most_of(const struct step_shape *s, const struct kernels *k, int n_threads)
{
    const struct attn_run run = attn_of(s);

    return (struct most){
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
        .attn = attn_most_of(&run, s->counts.n_rows, s->n_seq_pages, n_threads),
    };
}

static size_t most_columns(const struct most *m)
{
    return larger(m->C, larger(m->QW, m->F));
}

static size_t most_jobs(const struct most *m)
{
    return larger(m->E, QKV_JOBS);
}

/* The largest value of a function of (rows, columns) over the inputs of all products: activations, attention's
 * and those of the experts, each token at A of them. */
#define MOST_OF_INPUTS(m, f)                                                                       \
    larger(f((m)->T, (m)->C), larger(f((m)->T, (m)->QW), f((m)->T *(m)->A, (m)->F)))

static size_t bytes_of_rotations(const struct most *m)
{
    return m->T * (size_t)m->shape->head_width * sizeof(float);
}

static size_t bytes_of_lists(const struct most *m)
{
    const size_t n_ints = larger(expert_lists_n(m->E, m->T * m->A), m->R);

    return larger(n_ints * sizeof(int32_t), sample_lists_bytes(m->R, m->V));
}

static size_t bytes_of_jobs(const struct most *m)
{
    return m->E * sizeof(struct matmul);
}

static size_t bytes_of_counts(const struct most *m)
{
    return most_jobs(m) * sizeof(int32_t);
}

static size_t quantised_bytes(size_t n_rows, size_t n_columns)
{
    return n_rows * int8_row_bytes(n_columns);
}

static size_t bytes_of_quantised(const struct most *m)
{
    return m->kernels != NULL && m->kernels->products_int8 == NULL
               ? 0
               : MOST_OF_INPUTS(m, quantised_bytes);
}

static size_t arranged_room_bytes(size_t n_tokens, size_t n_jobs, size_t n_columns)
{
    return arranged_tiles_max(n_tokens, n_jobs) *
           (size_t)arranged_bytes(INT8_ARRANGED_ROWS, (int)(n_columns / MXFP4_BLOCK));
}

static size_t bytes_of_arranged(const struct most *m)
{
    if (m->kernels != NULL && m->kernels->arrange_int8 == NULL)
        return 0;
    return larger(arranged_room_bytes(m->T * m->A, m->E, larger(m->C, m->F)),
                  larger(arranged_room_bytes(QKV_JOBS * m->T, QKV_JOBS, m->C),
                         arranged_room_bytes(m->T, 1, m->QW)));
}

static size_t bytes_of_arranged_first(const struct most *m)
{
    return (most_jobs(m) + 1) * sizeof(int32_t);
}

static size_t bytes_of_attn_tasks(const struct most *m)
{
    return m->attn.n_tasks * sizeof(struct attn_task);
}

static size_t bytes_of_attn_parts(const struct most *m)
{
    return m->attn.n_floats * sizeof(float);
}

static size_t bytes_of_attn_left(const struct most *m)
{
    return m->attn.n_cut * (size_t)m->shape->n_kv_heads * sizeof(atomic_int);
}

static size_t rounded_room_bytes(size_t n_rows, size_t n_columns)
{
    return 2 * rounded_elements((int)n_rows, (int)n_columns) * sizeof(uint16_t);
}

static size_t bytes_of_rounded(const struct most *m)
{
    return m->kernels != NULL && m->kernels->round_bf16 == NULL
               ? 0
               : MOST_OF_INPUTS(m, rounded_room_bytes);
}

static size_t mixed_bytes(size_t n_rows, size_t n_columns)
{
    return n_rows * n_columns * sizeof(uint16_t);
}

static size_t bytes_of_mixed(const struct most *m)
{
    return m->kernels != NULL && m->kernels->products_mixed == NULL
               ? 0
               : MOST_OF_INPUTS(m, mixed_bytes);
}

/* Of one thread: sums of attention; a norm's weights; a tile of widened weights; tokens of an expert; what is
 * drawn from. */
static size_t bytes_of_worker(const struct most *m)
{
    const struct attn_run run = attn_of(m->shape);
    size_t n = (size_t)attn_room_floats(&run) * sizeof(float);

    n = larger(n, most_columns(m) * GROUP_ROWS * sizeof(float));
    n = larger(n, mixed_room_bytes((int64_t)most_columns(m)));
    return larger(n, m->V * CANDIDATE_BYTES);
}

int64_t cpu_step_bytes(const struct step_shape *shape)
{
    const int n_threads = shape->n_threads > 0 ? shape->n_threads : pool_usable_cpus();
    const struct most m = most_of(shape, NULL, n_threads);
    size_t n = (size_t)n_threads * bytes_of_worker(&m);

#define ROOM_BYTES(name) n += bytes_of_##name(&m);
    ROOM_LIST(ROOM_BYTES)
#undef ROOM_BYTES
    return (int64_t)n;
}

/* ---- all of them ---- */

enum osp_status room_need(struct room *room, size_t n, size_t size_bytes, const char *what)
{
    void *data;
    enum osp_status st;

    if (n == 0 || (room->data != NULL && room->size_bytes / n >= size_bytes))
        return OSP_OK;
    TRY(mem_try_aligned(&data, n, size_bytes, what));
    free(room->data);
    room->data = data;
    room->size_bytes = n * size_bytes;
out:
    return st;
}

enum osp_status cpu_workers_need(struct cpu *cpu, size_t n, size_t size_bytes, const char *what)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < pool_threads(cpu->pool); i++)
        TRY(room_need(&cpu->workers[i], n, size_bytes, what));
out:
    return st;
}

enum osp_status cpu_step_reserve(struct backend *be, const struct step_shape *shape)
{
    struct cpu *cpu = (struct cpu *)be;
    const struct most m = most_of(shape, cpu->kernels, pool_threads(cpu->pool));
    enum osp_status st;

#define ROOM_TAKE(name) TRY(room_need(&cpu->name, bytes_of_##name(&m), 1, "room of " #name));
    ROOM_LIST(ROOM_TAKE)
#undef ROOM_TAKE
    TRY(cpu_workers_need(cpu, bytes_of_worker(&m), 1, "rooms of the threads"));
out:
    return st;
}

void cpu_rooms_release(struct cpu *cpu)
{
    for (int i = 0; cpu->workers != NULL && i < pool_threads(cpu->pool); i++)
        free(cpu->workers[i].data);
    free(cpu->workers);
#define ROOM_FREE(name) free(cpu->name.data);
    ROOM_LIST(ROOM_FREE)
#undef ROOM_FREE
}
