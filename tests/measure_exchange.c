/* The time of a sum over ranks (dist/host_exchange.h), by bytes: ranks are processes of this host,
 * over shared memory and over TCP on the loopback interface. Not a test: run it by hand on an idle
 * machine.
 *
 *   build/tests/measure_exchange [RANKS] [ROUNDS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "dist/host_exchange.h"
#include "dist/rank_address.h"

enum { WIDTH = 2880, ROWS_MAX = 512 }; /* of gpt-oss; a step of prefill */

static struct rank_watch watch;

static void must(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "%s\n", fail_message());
    exit(EXIT_FAILURE);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median and the least time of a sum of so many rows, on rank 0. */
static void measure(struct exchange *x, int n_rows, int n_rounds, const char *name)
{
    const size_t n = (size_t)n_rows * WIDTH;
    int64_t *data = mem_new(n * sizeof *data);
    double *us = mem_new((size_t)n_rounds * sizeof *us);

    for (int i = 0; i < n_rounds; i++) {
        const uint64_t begin_ns = clock_ns();

        must(x->ops->sum(x, data, n));
        us[i] = (double)(clock_ns() - begin_ns) * 1e-3;
    }
    qsort(us, (size_t)n_rounds, sizeof *us, compare);
    if (x->shard.rank == 0)
        printf("%-14s %6d %10zu %12.1f %12.1f\n", name, n_rows, n * sizeof *data, us[0],
               us[n_rounds / 2]);
    free(us);
    free(data);
}

static void measure_all(struct exchange *x, int n_rounds, const char *name)
{
    for (int n_rows = 1; n_rows <= ROWS_MAX; n_rows *= 8)
        measure(x, n_rows, n_rows > 1 ? n_rounds / 8 + 1 : n_rounds, name);
    exchange_close(x);
}

/* A socket between each two ranks, all made before the ranks are processes. */
static void connect_all(int sockets[RANKS_MAX][RANKS_MAX], int n_ranks)
{
    char address[RANK_ADDRESS_BYTES];
    int listener;

    must(rank_listen(&listener, "127.0.0.1:0", address));
    for (int a = 0; a < n_ranks; a++)
        for (int b = 0; b < a; b++) {
            must(rank_connect(&sockets[a][b], address, 1000));
            must(rank_accept(&sockets[b][a], listener, 1000));
        }
    close(listener);
}

static void run_rank(int sockets[RANKS_MAX][RANKS_MAX], void *region, struct shard shard,
                     int n_rounds)
{
    struct exchange *x;

    must(shm_exchange_open(&x, region, shard, &watch));
    measure_all(x, n_rounds, "shared memory");
    must(tcp_exchange_open(&x, sockets[shard.rank], shard, &watch));
    measure_all(x, n_rounds, "TCP, loopback");
}

int main(int argc, char **argv)
{
    const int n_ranks = argc > 1 ? atoi(argv[1]) : 2, n_rounds = argc > 2 ? atoi(argv[2]) : 2000;
    static int sockets[RANKS_MAX][RANKS_MAX];
    void *region;

    if (n_ranks < 2 || n_ranks > RANKS_MAX || n_rounds < 1) {
        fprintf(stderr, "usage: %s [RANKS, 2 to %d] [ROUNDS]\n", argv[0], RANKS_MAX);
        return EXIT_FAILURE;
    }
    region = mmap(NULL, shm_region_bytes(n_ranks), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED)
        return EXIT_FAILURE;
    connect_all(sockets, n_ranks);
    printf("%d ranks      %6s %10s %12s %12s\n", n_ranks, "rows", "bytes", "least, us",
           "median, us");
    fflush(stdout);
    for (int r = 1; r < n_ranks; r++)
        if (fork() == 0) {
            run_rank(sockets, region, (struct shard){.rank = r, .n_ranks = n_ranks}, n_rounds);
            return EXIT_SUCCESS;
        }
    run_rank(sockets, region, (struct shard){.rank = 0, .n_ranks = n_ranks}, n_rounds);
    while (wait(NULL) > 0)
        continue;
    return EXIT_SUCCESS;
}
