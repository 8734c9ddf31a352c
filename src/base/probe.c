/* The probe's measurements. Every thread works on its own part, and the best of several passes
 * counts. For reads of memory, the mean of further passes is reported as well. */
#include "base/probe.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"

enum {
    READ_BYTES = 1 << 30,         /* far more than the caches of a few cores, */
    READ_THREAD_BYTES = 64 << 20, /* and five times the cache of one core of any CPU */
    MEMORY_SHARE = 8,             /* but at most this fraction of the memory */
    READ_PASSES = 4,              /* the best counts, because others may use the machine too */
    OPS_PASSES = 3,
    CALIBRATION_ROUNDS = 100 * 1000,
    OPS_NS = 20 * 1000 * 1000, /* of one pass */
};

/* ---- reading ---- */

static const uint64_t MULTIPLIER = UINT64_C(6364136223846793005); /* Knuth's, for a sequence */

struct read_bench {
    char *data;
    size_t part_bytes; /* of one thread */
    struct probe_reader reader;
    _Atomic uint64_t result; /* keeps the loads from being optimised away */
};

struct probe_run {
    struct probe probe;
    struct pool *pool;
    struct read_bench read_bench;
    double mean_bytes; /* of probe_read */
    uint64_t mean_ns;
};

/* No two pages are alike: a hypervisor may merge identical pages. */
static void touch_part(void *ctx, int part, int worker)
{
    struct read_bench *r = ctx;
    uint64_t *words = (uint64_t *)(void *)(r->data + (size_t)part * r->part_bytes);
    uint64_t value = (uint64_t)part + 1;

    (void)worker;
    for (size_t i = 0; i < r->part_bytes / sizeof *words; i++)
        words[i] = value = value * MULTIPLIER + 1;
}

static void read_part(void *ctx, int part, int worker)
{
    struct read_bench *r = ctx;

    (void)worker;
    r->result ^= r->reader.run(r->data + (size_t)part * r->part_bytes, r->part_bytes);
}

static size_t bytes_to_read(size_t n_threads)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double want = (double)READ_BYTES + (double)READ_THREAD_BYTES * (double)n_threads;

    return (size_t)(want < memory / MEMORY_SHARE ? want : memory / MEMORY_SHARE);
}

/* Bytes of all threads together; returns the time in nanoseconds. */
static uint64_t read_once(struct probe_run *p, double *n_bytes)
{
    const uint64_t begin_ns = clock_ns();

    pool_run_each(p->pool, read_part, &p->read_bench);
    *n_bytes = (double)p->read_bench.part_bytes * p->probe.n_threads;
    return clock_ns() - begin_ns;
}

/* Returns the best of its passes in bytes per second. */
static double measure_reader(struct probe_run *p)
{
    double best = 0;

    for (int pass = 0; pass < READ_PASSES; pass++) {
        double n_bytes;
        const double time_ns = (double)read_once(p, &n_bytes);

        if (n_bytes / (time_ns * 1e-9) > best)
            best = n_bytes / (time_ns * 1e-9);
    }
    return best;
}

static enum osp_status measure_reading(struct probe_run *p)
{
    const size_t n_threads = (size_t)p->probe.n_threads;
    struct probe_reader readers[PROBE_READERS_MAX];
    const int n_readers = probe_readers(readers);
    int fastest = 0;
    size_t n_units;
    enum osp_status st;

    n_units = bytes_to_read(n_threads) / n_threads / PROBE_READ_UNIT;
    p->read_bench.part_bytes =
        (n_units | 1) * PROBE_READ_UNIT; /* odd: streams a power of two apart hit the same banks */
    TRY(mem_try_hugepages(&p->read_bench.data, n_threads, p->read_bench.part_bytes,
                          "the memory probe"));
    pool_run_each(p->pool, touch_part, &p->read_bench);
    for (int i = 0; i < n_readers; i++) {
        double speed;

        p->read_bench.reader = readers[i];
        speed = measure_reader(p);
        if (speed > p->probe.read_bytes_per_s) {
            p->probe.read_bytes_per_s = speed;
            fastest = i;
        }
    }
    p->read_bench.reader = readers[fastest];
    p->probe.read_name = readers[fastest].name;
out:
    return st;
}

void probe_read(struct probe_run *p, uint64_t time_ns)
{
    const uint64_t end_ns = p->mean_ns + time_ns;

    do {
        double n_bytes;

        p->mean_ns += read_once(p, &n_bytes);
        p->mean_bytes += n_bytes;
    } while (p->mean_ns < end_ns);
    p->probe.read_mean_bytes_per_s = p->mean_bytes / ((double)p->mean_ns * 1e-9);
}

/* ---- arithmetic ---- */

struct ops_bench {
    const struct probe_kernel *kernel;
    long n_rounds;
    double n_ops;
};

static void run_ops_part(void *ctx, int part, int worker)
{
    struct ops_bench *o = ctx;
    double n_ops = o->kernel->run(o->n_rounds);

    (void)worker;
    if (part == 0)
        o->n_ops = n_ops;
}

static double measure_ops(const struct probe_kernel *kernel, struct pool *pool)
{
    struct ops_bench o = {.kernel = kernel, .n_rounds = CALIBRATION_ROUNDS};
    double best = 0;

    for (int pass = 0; pass <= OPS_PASSES; pass++) {
        const uint64_t begin_ns = clock_ns();
        double time_ns, speed;

        pool_run_each(pool, run_ops_part, &o);
        time_ns = (double)(clock_ns() - begin_ns);
        if (pass == 0) { /* warms up the units and measures how long a round takes */
            o.n_rounds = (long)((double)o.n_rounds * OPS_NS / time_ns) + 1;
            continue;
        }
        speed = o.n_ops * pool_threads(pool) / (time_ns * 1e-9);
        if (speed > best)
            best = speed;
    }
    return best;
}

static void measure_peaks(struct probe *p, struct pool *pool)
{
    struct probe_kernel kernels[PROBE_PEAKS_MAX];

    p->n_peaks = probe_kernels(kernels);
    for (int i = 0; i < p->n_peaks; i++)
        p->peaks[i] =
            (struct probe_peak){kernels[i].name, kernels[i].kind, measure_ops(&kernels[i], pool)};
}

/* ---- begin and end ---- */

enum osp_status probe_begin(struct probe_run **out, int n_threads, const char *affinity)
{
    struct probe_run *p = mem_new(sizeof *p);
    enum osp_status st;

    TRY(pool_open_bound(&p->pool, n_threads, affinity));
    p->probe.n_threads = pool_threads(p->pool);
    TRY(measure_reading(p));
    *out = p;
out:
    if (st != OSP_OK)
        probe_cancel(p);
    return st;
}

void probe_end(struct probe_run *p, struct probe *out)
{
    measure_peaks(&p->probe, p->pool);
    *out = p->probe;
    probe_cancel(p);
}

void probe_cancel(struct probe_run *p)
{
    if (p == NULL)
        return;
    pool_close(p->pool);
    free(p->read_bench.data);
    free(p);
}

/* ---- results ---- */

const struct probe_peak *probe_best(const struct probe *p, enum probe_kind kind)
{
    const struct probe_peak *best = NULL;

    for (int i = 0; i < p->n_peaks; i++)
        if (p->peaks[i].kind == kind && (!best || p->peaks[i].ops_per_s > best->ops_per_s))
            best = &p->peaks[i];
    return best;
}

double probe_ops_per_s(const struct probe *p)
{
    double best = 0;

    for (int i = 0; i < p->n_peaks; i++)
        if (p->peaks[i].ops_per_s > best)
            best = p->peaks[i].ops_per_s;
    return best;
}

const char *probe_kind_name(enum probe_kind kind)
{
    static const char *const names[N_PROBE_KINDS] = {
        [PROBE_F32] = "f32", [PROBE_BF16] = "bf16", [PROBE_INT8] = "int8"};

    return names[kind];
}
