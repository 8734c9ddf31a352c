/* Which replica a request goes to: cached pages against load, turns among equals, stuck and lost
 * replicas; and the tables of cached pages. */
#include "unit.h"

#include "engine/route/router.h"
#include "engine/worker/replica_share.h"

enum { N = 3, N_PAGES = 100 };

static const struct replica_load IDLE = {.state = REPLICA_OK, .n_seqs_max = 8};

struct fixture {
    struct router *router;
    struct replica_load loads[N];
};

static struct fixture fixture(void)
{
    struct fixture f;

    assert_int_equal(router_new(&f.router, N, N_PAGES), OSP_OK);
    for (int i = 0; i < N; i++)
        f.loads[i] = IDLE;
    return f;
}

/* n tokens that begin with `same` equal ones for every `seed`. */
static struct route_prefix prompt(const char *salt, int seed, int same, int n)
{
    int32_t *tokens = calloc((size_t)n, sizeof *tokens);
    struct route_prefix p;

    for (int i = 0; i < n; i++)
        tokens[i] = i < same ? i : seed * 1000 + i;
    assert_int_equal(route_prefix_init(&p, salt, tokens, n), OSP_OK);
    free(tokens);
    return p;
}

static int choose(struct fixture *f, struct route_prefix *p, int *n_cached)
{
    int n;

    return router_choose(f->router, p, false, f->loads, n_cached != NULL ? n_cached : &n);
}

static void test_equals_take_turns(void **state)
{
    struct fixture f = fixture();

    (void)state;
    for (int i = 0; i < 2 * N; i++) {
        struct route_prefix p = prompt(NULL, i, 0, 300);

        assert_int_equal(choose(&f, &p, NULL), i % N);
        route_prefix_release(&p);
    }
    router_free(f.router);
}

static void test_longest_prefix_wins(void **state)
{
    struct fixture f = fixture();
    struct route_prefix one = prompt(NULL, 1, 128, 400), other = prompt(NULL, 2, 128, 400);
    struct route_prefix longer = prompt(NULL, 1, 128, 1000), salted = prompt("a", 1, 128, 400);
    int n_cached;

    (void)state;
    router_add(f.router, 2, &one);
    router_add(f.router, 1, &other);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(choose(&f, &one, &n_cached), 2);
        assert_int_equal(n_cached, 384); /* 399 tokens that can be cached are six whole pages */
        assert_int_equal(choose(&f, &longer, &n_cached), 2);
        assert_int_equal(n_cached, 384);
        assert_int_equal(choose(&f, &other, &n_cached), 1);
    }
    assert_int_equal(router_cached(f.router, 1, &one), 128);
    assert_int_equal(router_cached(f.router, 0, &one), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(router_cached(f.router, i, &salted), 0);
    router_clear(f.router, 2);
    assert_int_equal(choose(&f, &one, &n_cached), 1); /* the common beginning is there */
    assert_int_equal(n_cached, 128);
    route_prefix_release(&one);
    route_prefix_release(&other);
    route_prefix_release(&longer);
    route_prefix_release(&salted);
    router_free(f.router);
}

/* A cached beginning outweighs as many requests as the header says, and no more. */
static void test_load_speaks_against_it(void **state)
{
    struct fixture f = fixture();
    struct route_prefix p = prompt(NULL, 1, 0, 64 * 10 + 1);
    const int n_outweighed = 64 * 10 / ROUTE_REQUEST_TOKENS;

    (void)state;
    router_add(f.router, 1, &p);
    f.loads[1].n_unfinished = n_outweighed;
    assert_int_equal(choose(&f, &p, NULL), 1);
    f.loads[1].n_unfinished = n_outweighed + 1;
    assert_int_not_equal(choose(&f, &p, NULL), 1);
    f.loads[1].n_unfinished = 0;
    f.loads[1].n_pending_tokens = 64 * 10 - 1;
    assert_int_equal(choose(&f, &p, NULL), 1);
    f.loads[1].n_pending_tokens = 64 * 10 + 1;
    assert_int_not_equal(choose(&f, &p, NULL), 1);
    route_prefix_release(&p);
    router_free(f.router);
}

/* More requests than run together: the next one waits for one of them to end. */
static void test_full_replica(void **state)
{
    struct fixture f = fixture();
    struct route_prefix p = prompt(NULL, 1, 0, ROUTE_WAIT_TOKENS + 8 * ROUTE_REQUEST_TOKENS);

    (void)state;
    router_add(f.router, 0, &p);
    f.loads[0].n_unfinished = 7;
    assert_int_equal(choose(&f, &p, NULL), 0);
    f.loads[0].n_unfinished = 8;
    assert_int_not_equal(choose(&f, &p, NULL), 0);
    for (int i = 1; i < N; i++)
        f.loads[i].n_unfinished = 8;
    assert_int_equal(choose(&f, &p, NULL), 0);
    route_prefix_release(&p);
    router_free(f.router);
}

static void test_uncached_requests_ignore_pages(void **state)
{
    struct fixture f = fixture();
    struct route_prefix p = prompt(NULL, 1, 0, 2000);
    int n_cached;

    (void)state;
    router_add(f.router, 1, &p);
    f.loads[1].n_unfinished = 1;
    assert_int_equal(router_choose(f.router, &p, true, f.loads, &n_cached), 0);
    assert_int_equal(n_cached, 0);
    route_prefix_release(&p);
    router_free(f.router);
}

static void test_stuck_and_lost_replicas(void **state)
{
    struct fixture f = fixture();
    struct route_prefix p = prompt(NULL, 1, 0, 2000);

    (void)state;
    router_add(f.router, 1, &p);
    f.loads[1].state = REPLICA_STUCK;
    assert_int_not_equal(choose(&f, &p, NULL), 1);
    f.loads[0].state = REPLICA_DOWN;
    assert_int_equal(choose(&f, &p, NULL), 2);
    f.loads[2].state = REPLICA_DOWN;
    assert_int_equal(choose(&f, &p, NULL), 1);
    f.loads[1].state = REPLICA_DOWN;
    assert_int_equal(choose(&f, &p, NULL), -1);
    route_prefix_release(&p);
    router_free(f.router);
}

/* The ends of the least recently used prompts leave first. */
static void test_evicted_pages(void **state)
{
    struct fixture f = fixture();
    struct route_prefix p[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        p[i] = prompt(NULL, i + 1, 0, 64 * 40 + 1);
    router_add(f.router, 0, &p[0]);
    router_add(f.router, 0, &p[1]);
    router_add(f.router, 0, &p[0]);
    router_add(f.router, 0, &p[2]); /* 120 pages, of which 100 are kept */
    assert_int_equal(router_cached(f.router, 0, &p[2]), 64 * 40);
    assert_int_equal(router_cached(f.router, 0, &p[0]), 64 * 40);
    assert_int_equal(router_cached(f.router, 0, &p[1]), 64 * 20);
    router_add(f.router, 0, &p[3]);
    assert_int_equal(router_cached(f.router, 0, &p[1]), 0);
    assert_int_equal(router_cached(f.router, 0, &p[0]), 64 * 20);
    for (int i = 0; i < 4; i++)
        route_prefix_release(&p[i]);
    router_free(f.router);
}

static int64_t cost(const struct replica_load *load, int n_uncached)
{
    const int n_over = load->n_unfinished + 1 - load->n_seqs_max;

    return n_uncached + load->n_pending_tokens + load->n_unfinished * ROUTE_REQUEST_TOKENS +
           (n_over > 0 ? n_over * ROUTE_WAIT_TOKENS : 0);
}

/* The rule as the header has it: every replica, from `next` on. */
static int expected_choice(const struct fixture *f, const struct route_prefix *p, int next,
                           int *n_cached)
{
    int best = -1;
    int64_t best_cost = 0;

    for (int k = 0; k < N; k++) {
        const int i = (next + k) % N, n = router_cached(f->router, i, p);
        const int64_t c = cost(&f->loads[i], p->n_tokens - n);

        if (f->loads[i].state == REPLICA_DOWN)
            continue;
        if (best >= 0 && (f->loads[i].state < f->loads[best].state ||
                          (f->loads[i].state == f->loads[best].state && c >= best_cost)))
            continue;
        best = i;
        best_cost = c;
        *n_cached = n;
    }
    return best;
}

static void draw_load(struct replica_load *load, uint64_t random)
{
    *load = (struct replica_load){.state = (enum replica_state)(random % 8 < 6   ? REPLICA_OK
                                                                : random % 8 < 7 ? REPLICA_STUCK
                                                                                 : REPLICA_DOWN),
                                  .n_unfinished = (int)(random >> 8) % 6,
                                  .n_seqs_max = 4,
                                  .n_pending_tokens = (int64_t)(random >> 16) % 8 * 64};
}

/* Replicas that cannot be better are passed over without a count of their pages: the choice is the
 * one of the whole rule. Prompts of the same beginning, evicted ends, loads of all kinds. */
static void test_choice_is_that_of_the_rule(void **state)
{
    enum { N_PROMPTS = 12, N_TURNS = 4000 };
    struct route_prefix p[N_PROMPTS];
    struct fixture f = fixture();
    uint64_t random = 1;
    int next = 0;

    (void)state;
    for (int i = 0; i < N_PROMPTS; i++)
        p[i] = prompt(NULL, i + 1, i % 3 * 300, 64 * (5 + 3 * i) + i);
    for (int turn = 0; turn < N_TURNS; turn++) {
        const struct route_prefix *one = &p[turn * 5 % N_PROMPTS];
        int n_cached = -1, n_expected = -1, chosen, expected;

        for (int i = 0; i < N; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            draw_load(&f.loads[i], random >> 20);
        }
        expected = expected_choice(&f, one, next, &n_expected);
        chosen = router_choose(f.router, one, false, f.loads, &n_cached);
        assert_int_equal(chosen, expected);
        assert_int_equal(n_cached, n_expected);
        if (chosen < 0)
            continue;
        next = (chosen + 1) % N;
        if (turn % 3 != 0)
            router_add(f.router, chosen, one);
    }
    for (int i = 0; i < N_PROMPTS; i++)
        route_prefix_release(&p[i]);
    router_free(f.router);
}

/* Takes it out of the list, newest first; false: it is not there. */
static bool list_remove(uint64_t *list, int *n, uint64_t hash)
{
    int at = 0;

    while (at < *n && list[at] != hash)
        at++;
    if (at == *n)
        return false;
    memmove(list + at, list + at + 1, (size_t)(*n - at - 1) * sizeof *list);
    (*n)--;
    return true;
}

/* Against a list in order of use, with hashes that share buckets. */
static void test_page_table(void **state)
{
    enum { SIZE = 7, N_HASHES = 20, N_TURNS = 20000 };
    uint64_t list[SIZE + 1], random = 1;
    struct page_table t;
    int n = 0;

    (void)state;
    assert_int_equal(page_table_init(&t, SIZE), OSP_OK);
    for (int turn = 0; turn < N_TURNS; turn++) {
        uint64_t hash;

        random = random * 6364136223846793005u + 1442695040888963407u;
        hash = (random >> 33) % N_HASHES * 64;
        assert_int_equal(page_table_has(&t, hash), list_remove(list, &n, hash));
        page_table_use(&t, hash);
        memmove(list + 1, list, (size_t)n * sizeof *list);
        list[0] = hash;
        n = n < SIZE ? n + 1 : SIZE; /* the oldest one leaves */
        assert_int_equal(t.n, n);
    }
    page_table_clear(&t);
    assert_int_equal(t.n, 0);
    assert_false(page_table_has(&t, 0));
    page_table_release(&t);
}

/* ---- shares of a host ---- */

static void expect_gpus(int i, int n_each, const char *expected)
{
    const char *const name = "CUDA_VISIBLE_DEVICES=";
    struct replica_share share;

    memset(&share, 0, sizeof share);
    assert_int_equal(replica_share_gpus(&share, i, n_each), OSP_OK);
    assert_ptr_equal(share.variables[0], share.visible);
    assert_null(share.variables[1]);
    assert_int_equal(strncmp(share.visible, name, strlen(name)), 0);
    assert_string_equal(share.visible + strlen(name), expected);
}

static void test_shares_of_gpus(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(visible_gpus(), 0);
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    assert_int_equal(visible_gpus(), 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1f,0", 1);
    assert_int_equal(visible_gpus(), 3);
    setenv("CUDA_VISIBLE_DEVICES", "3,9,GPU-1f,0", 1);
    expect_gpus(0, 2, "3,9");
    expect_gpus(1, 2, "GPU-1f,0");
    expect_gpus(3, 1, "0");
    expect_gpus(0, 4, "3,9,GPU-1f,0");
    unsetenv("CUDA_VISIBLE_DEVICES");
    expect_gpus(1, 2, "2,3");
    expect_gpus(11, 1, "11");
}

static void test_shares_of_cpus(void **state)
{
    const struct osp_model_options opt = {.device = "cpu"};
    struct osp_model_options given = {.device = "cpu", .cpu_affinity = "off", .n_threads = 3};
    struct replica_share share;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(replica_share_init(&share, &opt, i, 2), OSP_OK);
        assert_true(share.n_threads >= 1);
        assert_null(share.variables[0]);
        replica_share_release(&share);
    }
    assert_int_equal(replica_share_init(&share, &given, 0, 2), OSP_OK);
    assert_int_equal(share.n_threads, 0);
    assert_null(share.cpus);
    replica_share_release(&share);
}

UNIT_MAIN(cmocka_unit_test(test_equals_take_turns), cmocka_unit_test(test_longest_prefix_wins),
          cmocka_unit_test(test_load_speaks_against_it), cmocka_unit_test(test_full_replica),
          cmocka_unit_test(test_uncached_requests_ignore_pages),
          cmocka_unit_test(test_stuck_and_lost_replicas), cmocka_unit_test(test_evicted_pages),
          cmocka_unit_test(test_choice_is_that_of_the_rule), cmocka_unit_test(test_page_table),
          cmocka_unit_test(test_shares_of_gpus), cmocka_unit_test(test_shares_of_cpus))
