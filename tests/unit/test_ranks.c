/* Tensor parallelism in one process: ranks are threads, each with its part of the weights. The bits
 * of logits and tokens are those of one rank, for prefill and decode rows, over shared memory and
 * over TCP's transport; what cannot be divided, and ranks that are gone, are errors. */
#define UNIT_LIMIT_S 120
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "dist/host_exchange.h"
#include "model/convert.h"
#include "model/shard.h"
#include "steps.h"

/* The thread sanitizer sees the same exchanges after fewer tokens. */
enum {
    PROMPT = UNIT_IS_TSAN ? 60 : 150,
    TOKENS = PROMPT + 20,
    CHUNK = 48,
    VOCAB = 2048,
    THREADS = 1
};

/* What a group of ranks has in common. */
struct group {
    struct model_options opt;
    int n_ranks;
    bool uses_tcp;
    void *region;
    int sockets[RANKS_MAX][RANKS_MAX];
    struct rank_watch watch;
    int32_t tokens[TOKENS];
    float *logits;           /* (TOKENS, V), of rank 0 */
    int32_t sampled[TOKENS]; /* likewise */
};

struct rank {
    struct group *group;
    int rank;
    pthread_t thread;
};

static void open_exchange(const struct rank *r, struct exchange **out)
{
    struct group *g = r->group;
    const struct shard shard = {.rank = r->rank, .n_ranks = g->n_ranks};

    if (g->uses_tcp)
        must(tcp_exchange_open(out, g->sockets[r->rank], shard, &g->watch));
    else
        must(shm_exchange_open(out, g->region, shard, &g->watch));
}

static void play(struct model *m, struct group *g, bool is_first)
{
    struct steps_seq s = {.tokens = g->tokens, .n_tokens = PROMPT, .n_prefill = PROMPT};

    s.logits = is_first ? g->logits : NULL;
    s.sampled = is_first ? g->sampled : NULL;
    steps_poison(m);
    steps_play(m, &s, CHUNK, 1);
    s.n_tokens = TOKENS;
    steps_play(m, &s, 1, 1);
}

static void *run_rank(void *arg)
{
    const struct rank *r = arg;
    struct model_options opt = r->group->opt;
    struct exchange *x = NULL;
    struct model *m;

    if (r->group->n_ranks > 1)
        open_exchange(r, &x);
    opt.exchange = x;
    must(model_open(&m, &opt));
    play(m, r->group, r->rank == 0);
    model_close(m);
    exchange_close(x);
    return NULL;
}

static void connect_all(struct group *g)
{
    for (int a = 0; a < g->n_ranks; a++)
        for (int b = 0; b < a; b++) {
            int ends[2];

            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
            g->sockets[a][b] = ends[0];
            g->sockets[b][a] = ends[1];
        }
}

static void run_group(struct group *g, const struct model_options *opt, int n_ranks, bool uses_tcp)
{
    struct rank ranks[RANKS_MAX];

    memset(g, 0, sizeof *g);
    g->opt = *opt;
    g->n_ranks = n_ranks;
    g->uses_tcp = uses_tcp;
    g->logits = mem_new((size_t)TOKENS * VOCAB * sizeof(float));
    for (int i = 0; i < TOKENS; i++)
        g->tokens[i] = (int32_t)(rng_bits(3, (uint64_t)i, 0) % 1900);
    if (uses_tcp)
        connect_all(g);
    else
        must(mem_try_array(&g->region, 1, shm_region_bytes(n_ranks), "region"));
    for (int r = 0; r < n_ranks; r++) {
        ranks[r] = (struct rank){.group = g, .rank = r};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(ranks[r].thread, NULL);
    free(g->region);
}

static struct model_options options_of(const char *shape, const char *isa)
{
    struct model_options opt = {.path = "models/osprey-nano",
                                .dummy_shape = shape,
                                .dummy_layers = shape != NULL ? 3 : 0,
                                .device = "cpu",
                                .cpu_features = isa,
                                .n_threads = THREADS,
                                .n_rows_max = CHUNK,
                                .n_samples_max = CHUNK};

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        opt.n_pages[g] = steps_pages(TOKENS);
    return opt;
}

static void check_same(const struct model_options *opt, int n_ranks, bool uses_tcp)
{
    static struct group one, several;

    run_group(&one, opt, 1, false);
    run_group(&several, opt, n_ranks, uses_tcp);
    for (int i = 0; i < TOKENS; i++)
        if (memcmp(one.logits + (size_t)i * VOCAB, several.logits + (size_t)i * VOCAB,
                   VOCAB * sizeof(float)) != 0)
            fail_msg("%d ranks, position %d: other bits than of one rank", n_ranks, i);
    assert_memory_equal(one.sampled, several.sampled, sizeof one.sampled);
    free(one.logits);
    free(several.logits);
}

/* Builds with sanitizers: the arithmetic is compared without them. */
static bool is_quick(void)
{
    return getenv("CHECK_QUICK") != NULL;
}

static void test_nano_on_two(void **state)
{
    const struct model_options opt = options_of(NULL, NULL);

    (void)state;
    check_same(&opt, 2, false);
}

static void test_four_and_eight(void **state)
{
    const struct model_options opt = options_of("osprey-nano-8kv", NULL);

    (void)state;
    check_same(&opt, 4, false);
    if (!is_quick())
        check_same(&opt, 8, false);
}

static void test_over_sockets(void **state)
{
    const struct model_options opt = options_of("osprey-nano-8kv", NULL);

    (void)state;
    check_same(&opt, 4, true);
}

/* The slowest kernels, and the layers that loading converts. */
static void test_scalar_and_quantized(void **state)
{
    struct model_options opt = options_of(NULL, "ref");

    (void)state;
    if (!is_quick())
        check_same(&opt, 2, false);
    opt = options_of(NULL, NULL);
    opt.mxfp4_layers = MXFP4_QKV | MXFP4_O | MXFP4_LM_HEAD;
    check_same(&opt, 2, false);
}

/* ---- which numbers of ranks ---- */

static void test_sizes(void **state)
{
    struct gptoss_config c, part;
    int units = 0;

    (void)state;
    must(dummy_config(&c, "gpt-oss-120b", 0, 0));
    for (int n = 1; n <= RANKS_MAX; n++) {
        const bool fits = n == 1 || n == 2 || n == 4 || n == 8;

        assert_int_equal(shard_check(&c, n, SHARD_FOR_CPU), fits ? OSP_OK : OSP_EINVAL);
    }
    assert_non_null(strstr(fail_message(), "sizes that fit: 1, 2, 4, 8"));
    for (int r = 0; r < 4; r++) {
        shard_config(&part, &c, (struct shard){.rank = r, .n_ranks = 4});
        assert_int_equal(part.n_heads, 16);
        assert_int_equal(part.n_kv_heads, 2);
        assert_int_equal(part.expert_width, r < 3 ? 4 * 192 : 3 * 192);
        units += part.expert_width;
    }
    assert_int_equal(units, 2880);
}

/* Every byte belongs to one rank, except routers and norms, which all have. */
static void test_bytes(void **state)
{
    struct model_source source;
    struct weights_report whole, part, sum = {0};

    (void)state;
    must(model_source_open(&source, "models/osprey-nano"));
    whole = source.report;
    for (int r = 0; r < 2; r++) {
        part = whole;
        must(shard_report(&source.weights, &source.checkpoint,
                          (struct shard){.rank = r, .n_ranks = 2}, &part));
        assert_true(weights_report_bytes(&part) < weights_report_bytes(&whole) * 6 / 10);
        sum.embed_bytes += part.embed_bytes;
        sum.attn_bytes += part.attn_bytes;
        sum.experts_bytes += part.experts_bytes;
        assert_int_equal(part.router_bytes, whole.router_bytes);
        assert_int_equal(part.norm_bytes, whole.norm_bytes);
    }
    assert_int_equal(sum.embed_bytes, whole.embed_bytes);
    assert_int_equal(sum.attn_bytes, whole.attn_bytes);
    assert_int_equal(sum.experts_bytes, whole.experts_bytes);
    model_source_close(&source);
}

/* ---- GPUs ---- */

/* Slices of six units, of which the last one is half as long; every rank has all of the embedding
 * and of attention's output bias. */
static void test_gpu_sizes(void **state)
{
    struct gptoss_config c, part;
    int units = 0;

    (void)state;
    must(dummy_config(&c, "gpt-oss-120b", 0, 0));
    for (int n = 1; n <= RANKS_MAX; n++) {
        const bool fits = n == 1 || n == 2 || n == 4 || n == 8;

        assert_int_equal(shard_check(&c, n, SHARD_FOR_GPU), fits ? OSP_OK : OSP_EINVAL);
    }
    for (int r = 0; r < 4; r++) {
        shard_config(&part, &c, (struct shard){.rank = r, .n_ranks = 4, .rule = SHARD_FOR_GPU});
        assert_int_equal(part.expert_width, r < 3 ? 2 * 384 : 384 + 192);
        units += part.expert_width;
    }
    assert_int_equal(units, 2880);
}

static void check_part(struct weights *w, struct tensor *slot)
{
    struct random_part data, scales;
    struct tensor whole;

    assert_true(weights_part(w, slot, &whole, &data, &scales));
    must(weight_load(w, slot, NULL));
    for (int64_t i = 0; i < tensor_elements(slot) / (slot->dtype == DTYPE_MXFP4 ? 2 : 1); i++)
        assert_int_equal(((const char *)slot->data)[i],
                         ((const char *)whole.data)[random_part_at(&data, i)]);
    for (int64_t i = 0; slot->scales != NULL && i < tensor_elements(slot) / MXFP4_BLOCK; i++)
        assert_int_equal(((const char *)slot->scales)[i],
                         ((const char *)whole.scales)[random_part_at(&scales, i)]);
}

/* What a GPU generates for a rank (struct random_part) are the bytes that loading gathers. */
static void test_gpu_parts(void **state)
{
    struct model_source source;
    struct weights_report report;

    (void)state;
    for (int r = 0; r < 2; r++) {
        must(model_source_open(&source, "models/osprey-nano"));
        report = source.report;
        must(weights_shard(&source.weights, &source.checkpoint,
                           (struct shard){.rank = r, .n_ranks = 2, .rule = SHARD_FOR_GPU},
                           &report));
        for (int i = 0; i < source.checkpoint.config.n_layers; i++) {
            check_part(&source.weights, &source.weights.layers[i].w_up);
            check_part(&source.weights, &source.weights.layers[i].w_down);
            check_part(&source.weights, &source.weights.layers[i].wo);
        }
        assert_int_equal(source.weights.embed.dim[0], source.checkpoint.config.vocab_size);
        model_source_close(&source);
    }
}

/* ---- the exchange ---- */

static struct rank_watch watch;

static void *declare_fault(void *arg)
{
    (void)arg;
    strcpy(watch.fault, "rank 1 (here, process 7) has ended");
    atomic_store(&watch.has_fault, true);
    return NULL;
}

static void check_fault(struct exchange *x)
{
    int64_t data[4] = {1, 2, 3, 4};
    pthread_t thread;

    atomic_store(&watch.has_fault, false);
    assert_int_equal(pthread_create(&thread, NULL, declare_fault, NULL), 0);
    assert_int_equal(x->ops->sum(x, data, 4), OSP_EDEVICE);
    assert_string_equal(fail_message(), "rank 1 (here, process 7) has ended");
    pthread_join(thread, NULL);
    exchange_close(x);
}

static void test_fault_ends_a_wait(void **state)
{
    struct exchange *x;
    void *region;
    int ends[2];

    (void)state;
    must(mem_try_array(&region, 1, shm_region_bytes(2), "region"));
    must(shm_exchange_open(&x, region, (struct shard){.rank = 0, .n_ranks = 2}, &watch));
    check_fault(x);
    free(region);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    must(tcp_exchange_open(&x, (int[]){-1, ends[0]}, (struct shard){.rank = 0, .n_ranks = 2},
                           &watch));
    check_fault(x);
    close(ends[1]);
}

struct adder {
    struct exchange *x;
    int64_t *data;
    size_t n;
};

static void *add(void *arg)
{
    struct adder *a = arg;

    must(a->x->ops->sum(a->x, a->data, a->n));
    return NULL;
}

/* More than a piece; NaN stays NaN; sums beyond 32 bits, and negative ones. */
static void test_sums(void **state)
{
    enum { N = PIECE_BYTES_MAX / 8 + 77, RANKS = 3 };
    struct adder adders[RANKS];
    pthread_t threads[RANKS];
    void *region;

    (void)state;
    atomic_store(&watch.has_fault, false);
    must(mem_try_array(&region, 1, shm_region_bytes(RANKS), "region"));
    for (int r = 0; r < RANKS; r++) {
        adders[r] = (struct adder){.data = mem_new(N * sizeof(int64_t)), .n = N};
        must(shm_exchange_open(&adders[r].x, region, (struct shard){.rank = r, .n_ranks = RANKS},
                               &watch));
        for (int i = 0; i < N; i++)
            adders[r].data[i] = ((int64_t)i << 30) * (r == 1 ? -2 : 1) + r;
        if (r == 2)
            adders[r].data[N - 1] = EXCHANGE_NAN;
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, add, &adders[r]), 0);
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
    }
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < N - 1; i++)
            assert_int_equal(adders[r].data[i], 3);
        assert_true(adders[r].data[N - 1] == EXCHANGE_NAN);
        exchange_close(adders[r].x);
        free(adders[r].data);
    }
    free(region);
}

static void *leave_with_others(void *arg)
{
    struct exchange *x = arg;

    x->ops->leave(x);
    return NULL;
}

/* A rank that has left waits for the others, not for one that has ended, and not for ever. */
static void test_leaving(void **state)
{
    const uint64_t begin_ns = clock_ns();
    struct exchange *x[2];
    pthread_t thread;
    void *region;

    (void)state;
    atomic_store(&watch.has_fault, false);
    must(mem_try_array(&region, 1, shm_region_bytes(2), "region"));
    for (int r = 0; r < 2; r++)
        must(shm_exchange_open(&x[r], region, (struct shard){.rank = r, .n_ranks = 2}, &watch));
    atomic_store(&watch.has_fault, true);
    leave_with_others(x[0]);
    assert_true(clock_ns() - begin_ns < EXCHANGE_CLOSE_MS * (uint64_t)1000000);
    atomic_store(&watch.has_fault, false);
    leave_with_others(x[0]); /* rank 1 is silent */
    assert_true(clock_ns() - begin_ns >= EXCHANGE_CLOSE_MS * (uint64_t)1000000);
    assert_int_equal(pthread_create(&thread, NULL, leave_with_others, x[0]), 0);
    leave_with_others(x[1]);
    pthread_join(thread, NULL);
    for (int r = 0; r < 2; r++)
        exchange_close(x[r]);
    free(region);
}

UNIT_MAIN(cmocka_unit_test(test_nano_on_two), cmocka_unit_test(test_four_and_eight),
          cmocka_unit_test(test_over_sockets), cmocka_unit_test(test_scalar_and_quantized),
          cmocka_unit_test(test_sizes), cmocka_unit_test(test_bytes),
          cmocka_unit_test(test_gpu_sizes), cmocka_unit_test(test_gpu_parts),
          cmocka_unit_test(test_fault_ends_a_wait), cmocka_unit_test(test_sums),
          cmocka_unit_test(test_leaving))
