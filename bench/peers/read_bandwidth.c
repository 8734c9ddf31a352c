/* How fast this machine's memory can be read and nothing else: every thread, on a core of its own,
 * adds up its part of a block that is much larger than the caches, in four streams side by side, which
 * is faster than one. Pages differ: a host may keep one copy of equal ones. Prints GB/s of each pass as
 * JSON.
 *
 *     read_bandwidth THREADS [GIB] [PASSES]      uses the first THREADS CPUs that it may run on */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

typedef uint64_t u64x4 __attribute__((vector_size(32)));

enum {
    THREADS_MAX = 256,
    STREAMS = 4,
    TURN = 4,
    SKEW = 6150, /* off a power of two, at which the streams meet in the same cache sets */
    PASSES_MAX = 100
};

struct part {
    const u64x4 *data;
    size_t n;
    int cpu;
    uint64_t sum;
    pthread_t thread;
};

static pthread_barrier_t barrier;
static int n_passes = 10;

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Two lines of each stream a turn; n is a multiple of both together. Sums by name: they stay in registers. */
static uint64_t add_up(const u64x4 *data, size_t n)
{
    const size_t stream = n / STREAMS;
    const u64x4 *s0 = data, *s1 = s0 + stream, *s2 = s1 + stream, *s3 = s2 + stream;
    u64x4 a = {0}, b = {0}, c = {0}, d = {0};

    for (size_t i = 0; i < stream; i += TURN) {
        a += s0[i] + s1[i] + s2[i] + s3[i];
        b += s0[i + 1] + s1[i + 1] + s2[i + 1] + s3[i + 1];
        c += s0[i + 2] + s1[i + 2] + s2[i + 2] + s3[i + 2];
        d += s0[i + 3] + s1[i + 3] + s2[i + 3] + s3[i + 3];
    }
    a += b + c + d;
    return a[0] + a[1] + a[2] + a[3];
}

static void fill(struct part *part)
{
    u64x4 *data = (u64x4 *)(uintptr_t)part->data;
    u64x4 words = {1, 2, 3, (uint64_t)part->cpu + 4};

    for (size_t i = 0; i < part->n; i++) {
        words = words * 6364136223846793005u + 1442695040888963407u;
        data[i] = words;
    }
}

static void *read_part(void *arg)
{
    struct part *part = arg;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)part->cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    fill(part);
    for (int pass = 0; pass < n_passes; pass++) {
        pthread_barrier_wait(&barrier);
        part->sum += add_up(part->data, part->n);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* The CPUs that this process may use, in order; gives their number. */
static int usable_cpus(int cpus[THREADS_MAX])
{
    cpu_set_t set;
    int n = 0;

    sched_getaffinity(0, sizeof(set), &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && n < THREADS_MAX; cpu++)
        if (CPU_ISSET((size_t)cpu, &set))
            cpus[n++] = cpu;
    return n;
}

static void start(struct part *parts, int n_threads, const int *cpus, char *block, size_t n_bytes)
{
    size_t stream = n_bytes / (size_t)n_threads / sizeof(u64x4) / STREAMS - SKEW;
    size_t each = stream / TURN * TURN * STREAMS;

    pthread_barrier_init(&barrier, NULL, (unsigned)n_threads + 1);
    for (int i = 0; i < n_threads; i++) {
        parts[i] =
            (struct part){(const u64x4 *)(void *)block + (size_t)i * each, each, cpus[i], 0, 0};
        if (pthread_create(&parts[i].thread, NULL, read_part, &parts[i]) != 0) {
            fprintf(stderr, "read_bandwidth: no thread\n");
            exit(1);
        }
    }
}

static void report(const struct part *parts, int n_threads)
{
    double n_bytes = (double)n_threads * (double)parts[0].n * sizeof(u64x4);

    printf("{\"threads\": %d, \"bytes\": %.0f, \"gb_s\": [", n_threads, n_bytes);
    for (int pass = 0; pass < n_passes; pass++) {
        double begin;

        pthread_barrier_wait(&barrier);
        begin = now_seconds();
        pthread_barrier_wait(&barrier);
        printf("%s%.3f", pass > 0 ? ", " : "", n_bytes / (now_seconds() - begin) / 1e9);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static struct part parts[THREADS_MAX];
    int cpus[THREADS_MAX], n_cpus = usable_cpus(cpus);
    int n_threads = argc > 1 ? atoi(argv[1]) : 1;
    size_t n_bytes = (size_t)((argc > 2 ? atof(argv[2]) : 1.0) * (1 << 30));
    char *block;

    n_passes = argc > 3 ? atoi(argv[3]) : n_passes;
    if (n_threads < 1 || n_threads > n_cpus || n_passes < 1 || n_passes > PASSES_MAX ||
        n_bytes < (1 << 20)) {
        fprintf(stderr, "read_bandwidth: threads 1 to %d, passes 1 to %d\n", n_cpus, PASSES_MAX);
        return 2;
    }
    block = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        perror("read_bandwidth");
        return 1;
    }
    madvise(block, n_bytes, MADV_HUGEPAGE);
    start(parts, n_threads, cpus, block, n_bytes);
    report(parts, n_threads);
    for (int i = 0; i < n_threads; i++)
        pthread_join(parts[i].thread, NULL);
    return parts[0].sum == 1; /* keeps the sums alive */
}
