/* The probe's measurements: every thread works on its own part, the best of several passes counts. */
#include "base/probe.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"

enum {
    READ_BYTES = 512 << 20, /* several times the largest caches of a socket's share */
    READ_PASSES = 10,       /* the best counts: others may use the machine too */
    LANES = 8,              /* 64-bit words of a vector */
    VECTORS = 2, /* independent sums: with LANES of each, enough that no load waits for another */
    OPS_PASSES = 3,
    OPS_ROUNDS = 4 * 1000 * 1000, /* about 20 ms */
};

typedef uint64_t words __attribute__((vector_size(64))); /* LANES of them */

struct reading {
    words *data;
    size_t n_part;           /* vectors a thread, a multiple of VECTORS */
    _Atomic uint64_t result; /* so that the loads are not optimised away */
};

static void touch_part(void *ctx, int part, int worker)
{
    struct reading *r = ctx;
    words *data = r->data + (size_t)part * r->n_part;

    (void)worker;
    for (size_t i = 0; i < r->n_part; i++)
        for (int lane = 0; lane < LANES; lane++)
            data[i][lane] = i;
}

static void read_part(void *ctx, int part, int worker)
{
    struct reading *r = ctx;
    const words *data = r->data + (size_t)part * r->n_part;
    words even = {0}, odd = {0};
    uint64_t sum = 0;

    (void)worker;
    for (size_t i = 0; i < r->n_part; i += VECTORS) {
        even ^= data[i];
        odd ^= data[i + 1];
    }
    for (int lane = 0; lane < LANES; lane++)
        sum ^= even[lane] ^ odd[lane];
    r->result ^= sum;
}

static enum osp_status measure_reading(struct probe *p, struct pool *pool)
{
    struct reading r = {.data = NULL};
    size_t n_threads = (size_t)p->n_threads;
    enum osp_status st;

    r.n_part = READ_BYTES / sizeof(words) / n_threads / VECTORS * VECTORS;
    TRY(mem_try_aligned(&r.data, r.n_part * n_threads, sizeof(words), "the memory probe"));
    pool_run(pool, touch_part, &r, p->n_threads);
    for (int pass = 0; pass < READ_PASSES; pass++) {
        uint64_t begin_ns = clock_ns();
        double speed;

        pool_run(pool, read_part, &r, p->n_threads);
        speed = (double)(r.n_part * n_threads * sizeof(words)) /
                ((double)(clock_ns() - begin_ns) * 1e-9);
        if (speed > p->read_bytes_per_s)
            p->read_bytes_per_s = speed;
    }
out:
    free(r.data);
    return st;
}

struct operating {
    const struct probe_kernel *kernel;
    double n_ops;
};

static void operate_part(void *ctx, int part, int worker)
{
    struct operating *o = ctx;
    double n_ops = o->kernel->run(OPS_ROUNDS);

    (void)worker;
    if (part == 0)
        o->n_ops = n_ops;
}

static double measure_ops(const struct probe_kernel *kernel, struct pool *pool, int n_threads)
{
    double best = 0;

    for (int pass = 0; kernel->run != NULL && pass < OPS_PASSES; pass++) {
        struct operating o = {.kernel = kernel};
        uint64_t begin_ns = clock_ns();
        double speed;

        pool_run(pool, operate_part, &o, n_threads);
        speed = o.n_ops * n_threads / ((double)(clock_ns() - begin_ns) * 1e-9);
        if (speed > best)
            best = speed;
    }
    return best;
}

enum osp_status probe_run(struct probe *out, int n_threads)
{
    const struct probe_kernel f32 = probe_f32_kernel(), int8 = probe_int8_kernel();
    struct pool *pool = NULL;
    enum osp_status st;

    TRY(pool_open(&pool, n_threads));
    *out = (struct probe){
        .n_threads = pool_threads(pool), .f32_name = f32.name, .int8_name = int8.name};
    TRY(measure_reading(out, pool));
    out->f32_ops_per_s = measure_ops(&f32, pool, out->n_threads);
    out->int8_ops_per_s = measure_ops(&int8, pool, out->n_threads);
out:
    pool_close(pool);
    return st;
}
