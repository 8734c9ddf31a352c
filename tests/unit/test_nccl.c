/* Loading NCCL, its id, and the collectives of launch lists, with a stand-in for the library that
 * works on host memory (tests/fault/nccl_standin.c). Ranks are threads. */
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nccl_library.h"
#include "cuda/device/nccl.h"
#include "dist/host_exchange.h"

enum {
    INTRODUCTION_WORDS = COLLECTIVE_RANKS_MAX + NCCL_ID_BYTES / 4, /* a version each, the id */
    COLUMNS = 1003,
    ROWS = 5,
    FAULT_MS = 50, /* until a rank is lost */
    END_MS_MAX = 5000
};

static char standin[512]; /* beside the folder of the unit tests */

static void find_standin(void)
{
    char program[400];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    assert_true(n > 0);
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    (void)snprintf(standin, sizeof standin, "%s/../nccl_standin.so", program);
    assert_int_equal(setenv(NCCL_LIBRARY_VARIABLE, standin, 1), 0);
}

/* ---- loading ---- */

/* The library is loaded once in a process. */
static void expect_refusal(const char *file, const char *version, const char *words)
{
    const pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setenv(NCCL_LIBRARY_VARIABLE, file, 1);
        if (version != NULL)
            (void)setenv("NCCL_STANDIN_VERSION", version, 1);
        if (nccl_find(&status) != OSP_EUNAVAILABLE || status != 0)
            _exit(1);
        if (strstr(fail_message(), words) == NULL || strstr(fail_message(), "libnccl2") == NULL) {
            print_error("%s\n", fail_message());
            _exit(2);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_refuses(void **state)
{
    (void)state;
    find_standin();
    expect_refusal("/nonexistent/libnccl.so.2", NULL, "cannot open shared object file");
    expect_refusal("libc.so.6", NULL, "libc.so.6 has no ncclGetVersion");
    expect_refusal(standin, "21700", "has version 21700, expected 21800 or later");
    expect_refusal(standin, "2804", "has version 2804, expected 21800 or later");
}

static void test_finds(void **state)
{
    int version;

    (void)state;
    find_standin();
    assert_int_equal(nccl_find(&version), OSP_OK);
    assert_int_equal(version, 22803);
}

/* ---- ranks ---- */

struct team {
    struct rank_watch watch;
    void *region;
    int n_ranks;
    pthread_barrier_t barrier;
};

struct rank {
    struct team *team;
    int rank;
    struct exchange *exchange;
    struct nccl *nccl;
    enum osp_status st;
    char message[FAIL_MESSAGE_BYTES_MAX];
    pthread_t thread;
};

typedef void *rank_fn(void *rank);

static void fault(struct team *t)
{
    (void)snprintf(t->watch.fault, sizeof t->watch.fault, "rank 1 (b, process 7) has ended");
    atomic_store(&t->watch.has_fault, true);
}

static void run_ranks(int n_ranks, rank_fn *const fn[], struct rank ranks[COLLECTIVE_RANKS_MAX])
{
    struct team *t = calloc(1, sizeof *t);

    find_standin();
    assert_non_null(t);
    t->n_ranks = n_ranks;
    t->region = calloc(1, shm_region_bytes(n_ranks));
    assert_non_null(t->region);
    assert_int_equal(pthread_barrier_init(&t->barrier, NULL, (unsigned)n_ranks), 0);
    for (int r = 0; r < n_ranks; r++) {
        ranks[r] = (struct rank){.team = t, .rank = r};
        (void)snprintf(t->watch.names[r], sizeof t->watch.names[r], "rank %d", r);
        assert_int_equal(shm_exchange_open(&ranks[r].exchange, t->region,
                                           (struct shard){.rank = r, .n_ranks = n_ranks},
                                           &t->watch),
                         OSP_OK);
    }
    for (int r = 0; r < n_ranks; r++)
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, fn[r], &ranks[r]), 0);
    for (int r = 0; r < n_ranks; r++)
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
    for (int r = 0; r < n_ranks; r++)
        exchange_close(ranks[r].exchange);
    (void)pthread_barrier_destroy(&t->barrier);
    free(t->region);
    free(t);
}

static void note(struct rank *r, enum osp_status st)
{
    if (st == OSP_OK || r->st != OSP_OK)
        return;
    r->st = st;
    (void)snprintf(r->message, sizeof r->message, "%s", fail_message());
}

static void open_rank(struct rank *r)
{
    note(r, nccl_open(&r->nccl, r->exchange));
}

static void wait_for_all(struct rank *r)
{
    (void)pthread_barrier_wait(&r->team->barrier);
}

/* ---- collectives ---- */

/* Word i of a rank. */
static uint32_t word_of(int rank, int64_t i, uint32_t what)
{
    return (uint32_t)rank * 1000000u + (uint32_t)i * 16u + what;
}

static uint32_t *words(int64_t n, int rank, uint32_t what)
{
    uint32_t *w = malloc((size_t)(n > 0 ? n : 1) * sizeof *w);

    for (int64_t i = 0; w != NULL && i < n; i++)
        w[i] = word_of(rank, i, what);
    if (w == NULL)
        abort();
    return w;
}

static void expect(struct rank *r, const char *what, int64_t i, uint32_t got, uint32_t want)
{
    if (got == want || r->st != OSP_OK)
        return;
    r->st = OSP_EINTERNAL;
    (void)snprintf(r->message, sizeof r->message, "rank %d: %s: word %lld is %u, expected %u",
                   r->rank, what, (long long)i, got, want);
}

/* Two at once, and one in place. */
static void all_gather(struct rank *r)
{
    const int n = r->team->n_ranks;
    uint32_t *a = words(COLUMNS, r->rank, 1), *b = words(7, r->rank, 2);
    uint32_t *to = words((int64_t)n * COLUMNS, 9, 0), *to_b = words((int64_t)n * 7, 9, 0);
    struct collective c = {.kind = COLLECTIVE_ALL_GATHER,
                           .n_parts = 2,
                           .parts = {{.from = a, .to = to, .n_words = COLUMNS},
                                     {.from = b, .to = to_b, .n_words = 7}}};

    note(r, nccl_run(r->nccl, &c, NULL));
    for (int64_t i = 0; i < (int64_t)n * COLUMNS; i++)
        expect(r, "all-gather", i, to[i], word_of((int)(i / COLUMNS), i % COLUMNS, 1));
    for (int64_t i = 0; i < (int64_t)n * 7; i++)
        expect(r, "second all-gather", i, to_b[i], word_of((int)(i / 7), i % 7, 2));
    for (int i = 0; i < COLUMNS; i++)
        to[r->rank * COLUMNS + i] = word_of(r->rank, i, 3);
    c.n_parts = 1;
    c.parts[0].from = to + (int64_t)r->rank * COLUMNS;
    note(r, nccl_run(r->nccl, &c, NULL));
    for (int64_t i = 0; i < (int64_t)n * COLUMNS; i++)
        expect(r, "all-gather in place", i, to[i], word_of((int)(i / COLUMNS), i % COLUMNS, 3));
    free(a);
    free(b);
    free(to);
    free(to_b);
}

/* Parts of n_words; the last are shorter, or empty. */
static void all_to_all(struct rank *r, int64_t n_words)
{
    const int n = r->team->n_ranks;
    const int64_t part = (n_words + n - 1) / n, first = r->rank * part;
    const int64_t n_mine = n_words - first < part ? n_words - first : part;
    uint32_t *from = words(n_words, r->rank, 4), *to = words(n * part, 9, 0);
    const struct collective c = {
        .kind = COLLECTIVE_ALL_TO_ALL,
        .n_parts = 1,
        .parts = {{.from = from, .to = to, .n_words = n_words, .part_words = part}}};

    note(r, nccl_run(r->nccl, &c, NULL));
    for (int q = 0; q < n; q++)
        for (int64_t i = 0; i < part; i++)
            expect(r, "all-to-all", q * part + i, to[q * part + i],
                   q != r->rank && i < n_mine ? word_of(q, first + i, 4)
                                              : word_of(9, q * part + i, 0));
    free(from);
    free(to);
}

static void broadcast(struct rank *r)
{
    uint32_t *to = words(33, r->rank, 5);
    const struct collective c = {
        .kind = COLLECTIVE_BROADCAST, .n_parts = 1, .parts = {{.to = to, .n_words = 33}}};

    note(r, nccl_run(r->nccl, &c, NULL));
    for (int i = 0; i < 33; i++)
        expect(r, "broadcast", i, to[i], word_of(0, i, 5));
    free(to);
}

static int owner_of(const struct collective *c, int64_t column)
{
    int r = 0;

    while (column >= c->first_words[r + 1])
        r++;
    return r;
}

static void gather_rows(struct rank *r)
{
    const int n = r->team->n_ranks;
    uint32_t *rows = words((int64_t)ROWS * COLUMNS, r->rank, 6);
    struct collective c = {.kind = COLLECTIVE_GATHER_ROWS,
                           .n_parts = 1,
                           .parts = {{.to = rows, .n_words = COLUMNS}},
                           .n_rows = ROWS};

    for (int q = 0; q <= n; q++)
        c.first_words[q] = shard_vocab_row(COLUMNS, q, n);
    note(r, nccl_run(r->nccl, &c, NULL));
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++)
        expect(r, "rows", i, rows[i],
               word_of(r->rank == 0 ? owner_of(&c, i % COLUMNS) : r->rank, i, 6));
    free(rows);
}

static void *run_collectives(void *at)
{
    struct rank *r = at;

    open_rank(r);
    for (int round = 0; round < 3 && r->st == OSP_OK; round++) {
        all_gather(r);
        all_to_all(r, COLUMNS);
        all_to_all(r, 5); /* empty parts, with 4 and 8 ranks */
        broadcast(r);
        gather_rows(r);
        note(r, nccl_check(r->nccl));
    }
    wait_for_all(r);
    nccl_close(r->nccl);
    return NULL;
}

static void test_collectives(void **state)
{
    static rank_fn *const fn[COLLECTIVE_RANKS_MAX] = {
        run_collectives, run_collectives, run_collectives, run_collectives,
        run_collectives, run_collectives, run_collectives, run_collectives};
    static const int n_ranks[] = {2, 3, 4, 8};
    struct rank ranks[COLLECTIVE_RANKS_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof n_ranks / sizeof n_ranks[0]; i++) {
        run_ranks(n_ranks[i], fn, ranks);
        for (int r = 0; r < n_ranks[i]; r++)
            if (ranks[r].st != OSP_OK)
                fail_msg("%d ranks: %s", n_ranks[i], ranks[r].message);
    }
}

/* ---- faults ---- */

static void *open_alone(void *at)
{
    struct rank *r = at;

    open_rank(r);
    return NULL;
}

/* Takes part in the exchange of ids, with a version, and does not join. */
static void introduce(struct rank *r, int64_t version)
{
    int64_t all[INTRODUCTION_WORDS] = {0};

    all[r->rank] = version;
    note(r, r->exchange->ops->sum(r->exchange, all, INTRODUCTION_WORDS));
}

static void *end_before_joining(void *at)
{
    struct rank *r = at;

    introduce(r, 22803);
    (void)usleep(FAULT_MS * 1000);
    fault(r->team);
    return NULL;
}

static void *have_another_version(void *at)
{
    introduce(at, 22702);
    return NULL;
}

static void *have_no_library(void *at)
{
    introduce(at, 0);
    return NULL;
}

/* Rank 0 opens; rank 1 does something else. */
static void expect_failure(rank_fn *first, rank_fn *second, const char *message)
{
    rank_fn *const fn[] = {first, second};
    const uint64_t begin_ns = clock_ns();
    struct rank ranks[COLLECTIVE_RANKS_MAX];

    run_ranks(2, fn, ranks);
    assert_int_equal(ranks[1].st, OSP_OK);
    assert_int_equal(ranks[0].st, OSP_EDEVICE);
    if (strstr(ranks[0].message, message) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", ranks[0].message, message);
    assert_true(clock_ns() - begin_ns < END_MS_MAX * (uint64_t)1000000);
}

static void test_opening_fails(void **state)
{
    (void)state;
    expect_failure(open_alone, end_before_joining, "rank 1 (b, process 7) has ended");
    expect_failure(open_alone, have_another_version,
                   "NCCL has version 22702 on rank 1 and 22803 on rank 0");
    expect_failure(open_alone, have_no_library, "NCCL has version 0 on rank 1");
}

static void *gather_alone(void *at)
{
    struct rank *r = at;
    uint32_t from[4] = {0}, to[8];
    const struct collective c = {.kind = COLLECTIVE_ALL_GATHER,
                                 .n_parts = 1,
                                 .parts = {{.from = from, .to = to, .n_words = 4}}};

    open_rank(r);
    wait_for_all(r);
    note(r, nccl_run(r->nccl, &c, NULL));
    wait_for_all(r);
    if (nccl_run(r->nccl, &c, NULL) != OSP_EDEVICE || strcmp(fail_message(), r->message) != 0)
        abort(); /* a failure stays */
    nccl_close(r->nccl);
    return NULL;
}

static void *end_after_joining(void *at)
{
    struct rank *r = at;

    open_rank(r);
    wait_for_all(r);
    (void)usleep(FAULT_MS * 1000);
    fault(r->team);
    wait_for_all(r);
    nccl_close(r->nccl);
    return NULL;
}

static void break_connections(bool now)
{
    void (*breaks)(bool);
    void *library = dlopen(standin, RTLD_NOW | RTLD_LOCAL), *function;

    function = library != NULL ? dlsym(library, "nccl_standin_break") : NULL;
    if (function == NULL)
        abort();
    memcpy(&breaks, &function, sizeof breaks);
    breaks(now);
}

static void *lose_the_connection(void *at)
{
    struct rank *r = at;

    open_rank(r);
    wait_for_all(r);
    (void)usleep(FAULT_MS * 1000);
    break_connections(true);
    wait_for_all(r);
    if (nccl_check(r->nccl) != OSP_EDEVICE)
        note(r, fail(OSP_EINTERNAL, "the lost connection is not found"));
    break_connections(false);
    nccl_close(r->nccl);
    return NULL;
}

static void test_a_collective_fails(void **state)
{
    (void)state;
    expect_failure(gather_alone, end_after_joining, "rank 1 (b, process 7) has ended");
    expect_failure(gather_alone, lose_the_connection,
                   "NCCL: a step: remote process exited or there was a network error");
}

UNIT_MAIN(cmocka_unit_test(test_refuses), cmocka_unit_test(test_finds),
          cmocka_unit_test(test_collectives), cmocka_unit_test(test_opening_fails),
          cmocka_unit_test(test_a_collective_fails))
