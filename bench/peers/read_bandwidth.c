/* How fast this machine's memory can be read and nothing else: every thread, on a core of its own,
 * adds up its part of a block that is much larger than the caches. Prints GB/s of each pass as JSON.
 *
 *     read_bandwidth THREADS [GIB] [PASSES]      uses the first THREADS CPUs that it may run on */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef uint64_t u64x4 __attribute__((vector_size(32)));

enum { THREADS_MAX = 256, SUMS = 8, PASSES_MAX = 100 };

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

static uint64_t add_up(const u64x4 *data, size_t n)
{
    u64x4 sums[SUMS] = {{0}}, all = {0};

    for (size_t i = 0; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++)
            sums[k] += data[i + (size_t)k];
    for (int k = 0; k < SUMS; k++)
        all += sums[k];
    return all[0] + all[1] + all[2] + all[3];
}

static void *read_part(void *arg)
{
    struct part *part = arg;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)part->cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    memset((void *)(uintptr_t)part->data, part->cpu + 1, part->n * sizeof(*part->data));
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
    size_t each = n_bytes / (size_t)n_threads / (SUMS * sizeof(u64x4)) * SUMS;

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
