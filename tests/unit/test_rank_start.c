/* What a rank needs before and beside its steps: which rank it is, the command that starts it, what
 * it opens the model with, messages, and moves of pages to memory of its own. */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/wait_word.h"
#include "dist/mpirun.h"
#include "dist/rank_env.h"
#include "dist/rank_protocol.h"
#include "engine/core/rank_pages.h"
#include "engine/worker/rank_model.h"

/* ---- variables ---- */

/* Names and values by turns. */
static const char *get_from(void *ctx, const char *name)
{
    for (const char *const *at = ctx; *at != NULL; at += 2)
        if (strcmp(*at, name) == 0)
            return at[1];
    return NULL;
}

static void check_rank(const char *const *variables, int rank, int n_ranks, const char *address)
{
    struct rank_env env;
    bool found;

    assert_int_equal(rank_env_read(&found, &env, get_from, (void *)(uintptr_t)variables), OSP_OK);
    assert_true(found);
    assert_int_equal(env.rank, rank);
    assert_int_equal(env.n_ranks, n_ranks);
    assert_string_equal(env.address, address);
}

static void test_launchers(void **state)
{
    (void)state;
    check_rank((const char *[]){"RANK", "3", "WORLD_SIZE", "4", "MASTER_ADDR", "node-a",
                                "MASTER_PORT", "1234", NULL},
               3, 4, "node-a:1234");
    check_rank((const char *[]){"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "node-a",
                                "MASTER_PORT", "1234", "TORCHELASTIC_USE_AGENT_STORE", "True",
                                NULL},
               1, 2, "node-a:1235");
    check_rank((const char *[]){"LWS_WORKER_INDEX", "1", "LWS_GROUP_SIZE", "2",
                                "LWS_LEADER_ADDRESS", "osprey-0.osprey.default", NULL},
               1, 2, "osprey-0.osprey.default:29500");
    check_rank((const char *[]){"SLURM_PROCID", "2", "SLURM_STEP_NUM_TASKS", "4",
                                "SLURM_STEP_NODELIST", "gpu[07-08,11],login", NULL},
               2, 4, "gpu07:29500");
    check_rank((const char *[]){"SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2",
                                "SLURM_STEP_NODELIST", "one,two", NULL},
               0, 2, "one:29500");
    check_rank((const char *[]){"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2",
                                "OSPREY_RANK_ADDRESS", "10.0.0.1:7", NULL},
               0, 2, "10.0.0.1:7");
    check_rank((const char *[]){"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", NULL}, 1,
               2, "");
}

static int n_local(const char *const *variables)
{
    struct rank_env env;
    bool found;

    assert_int_equal(rank_env_read(&found, &env, get_from, (void *)(uintptr_t)variables), OSP_OK);
    return env.n_local;
}

static void test_local_ranks(void **state)
{
    (void)state;
    assert_int_equal(n_local((const char *[]){"RANK", "3", "WORLD_SIZE", "4", NULL}), 0);
    assert_int_equal(
        n_local((const char *[]){"RANK", "3", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "2", NULL}),
        2);
    assert_int_equal(
        n_local((const char *[]){"RANK", "3", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "9", NULL}),
        0);
    assert_int_equal(
        n_local((const char *[]){"LWS_WORKER_INDEX", "1", "LWS_GROUP_SIZE", "4", NULL}), 1);
    assert_int_equal(n_local((const char *[]){"SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "8",
                                              "SLURM_STEP_TASKS_PER_NODE", "4(x2)", NULL}),
                     4);
}

static void test_wrong_variables(void **state)
{
    static const char *const wrong[][5] = {
        {"RANK", "4", "WORLD_SIZE", "4", NULL},  {"RANK", "-1", "WORLD_SIZE", "4", NULL},
        {"RANK", "", "WORLD_SIZE", "4", NULL},   {"RANK", "1x", "WORLD_SIZE", "4", NULL},
        {"RANK", "0", "WORLD_SIZE", "17", NULL}, {"RANK", "0", "WORLD_SIZE", "0", NULL},
    };
    const char *none[] = {"RANK", "0", NULL};
    struct rank_env env;
    bool found;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(rank_env_read(&found, &env, get_from, (void *)(uintptr_t)wrong[i]),
                         OSP_EINVAL);
    assert_int_equal(rank_env_read(&found, &env, get_from, none), OSP_OK);
    assert_false(found);
}

/* ---- mpirun ---- */

static void check_command(const char *hosts, int n_ranks, const char *const *want)
{
    const struct mpirun_options opt = {
        .n_ranks = n_ranks, .hosts = hosts, .address = "a:1", .argument = "--rank", .folder = "/f"};
    char **words;
    int n = 0;

    assert_int_equal(mpirun_command(&words, &opt, "/bin/osprey"), OSP_OK);
    for (; words[n] != NULL && want[n] != NULL; n++)
        assert_string_equal(words[n], want[n]);
    assert_true(words[n] == NULL && want[n] == NULL);
    mpirun_command_free(words);
}

static void test_mpirun_command(void **state)
{
    static const char *const bad[] = {"",      "a,",    ",b",   "a,-oProxyCommand=x",
                                      "a:2,b", "a b,c", "a,b;c"};
    const struct mpirun_options odd = {.n_ranks = 4, .hosts = "a,b,c"};

    (void)state;
    check_command(NULL, 4,
                  (const char *[]){"mpirun", "-q", "--mca", "plm", "isolated", "--mca",
                                   "orte_local_tmpdir_base", "/f", "--oversubscribe", "--bind-to",
                                   "none", "-x", "OSPREY_RANK_TOKEN", "-n", "3", "/bin/osprey",
                                   "--rank", "a:1", NULL});
    check_command("a,b", 4,
                  (const char *[]){"mpirun", "-q", "--host", "a:1,b:2", "--mca",
                                   "orte_local_tmpdir_base", "/f", "--oversubscribe", "--bind-to",
                                   "none", "-x", "OSPREY_RANK_TOKEN", "-n", "3", "/bin/osprey",
                                   "--rank", "a:1", NULL});
    check_command("a,b", 2,
                  (const char *[]){"mpirun", "-q", "--host", "b:1", "--mca",
                                   "orte_local_tmpdir_base", "/f", "--oversubscribe", "--bind-to",
                                   "none", "-x", "OSPREY_RANK_TOKEN", "-n", "1", "/bin/osprey",
                                   "--rank", "a:1", NULL});
    (void)setenv("NCCL_SOCKET_IFNAME", "eth0=x", 1); /* to other hosts only */
    (void)setenv("OSPREY_NCCL_LIBRARY", "/l/libnccl.so.2", 1);
    check_command(NULL, 2,
                  (const char *[]){"mpirun", "-q", "--mca", "plm", "isolated", "--mca",
                                   "orte_local_tmpdir_base", "/f", "--oversubscribe", "--bind-to",
                                   "none", "-x", "OSPREY_RANK_TOKEN", "-n", "1", "/bin/osprey",
                                   "--rank", "a:1", NULL});
    check_command("a,b", 2, (const char *[]){"mpirun",      "-q",
                                             "--host",      "b:1",
                                             "--mca",       "orte_local_tmpdir_base",
                                             "/f",          "--oversubscribe",
                                             "--bind-to",   "none",
                                             "-x",          "OSPREY_RANK_TOKEN",
                                             "-x",          "NCCL_SOCKET_IFNAME",
                                             "-x",          "OSPREY_NCCL_LIBRARY",
                                             "-n",          "1",
                                             "/bin/osprey", "--rank",
                                             "a:1",         NULL});
    (void)unsetenv("NCCL_SOCKET_IFNAME");
    (void)unsetenv("OSPREY_NCCL_LIBRARY");
    assert_int_equal(mpirun_check(&odd), OSP_EINVAL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct mpirun_options opt = {.n_ranks = 2, .hosts = bad[i]};

        assert_int_equal(mpirun_check(&opt), OSP_EINVAL);
        assert_null(strstr(fail_message(), "divided"));
    }
}

/* ---- messages ---- */

static void test_messages(void **state)
{
    struct rank_message m = {.data = NULL};
    char text[100000], got[8];
    int ends[2];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(rank_send(ends[0], RANK_STEP, text, sizeof text, 1000, NULL), OSP_OK);
    assert_int_equal(rank_receive(ends[1], &m, sizeof text, 1000, NULL), OSP_OK);
    assert_int_equal(m.kind, RANK_STEP);
    assert_int_equal(m.n_bytes, sizeof text);
    assert_memory_equal(m.data, text, sizeof text);
    assert_int_equal(rank_receive(ends[1], &m, sizeof text, 0, NULL), OSP_ETIMEOUT);
    assert_int_equal(rank_send(ends[0], RANK_REFUSED, "no", 2, 1000, NULL), OSP_OK);
    assert_int_equal(rank_expect(ends[1], RANK_WELCOME, got, 8, 1000), OSP_EUNAVAILABLE);
    assert_string_equal(fail_message(), "no");
    assert_int_equal(rank_send(ends[0], RANK_READY, "1234", 4, 1000, NULL), OSP_OK);
    assert_int_equal(rank_expect(ends[1], RANK_READY, got, 8, 1000), OSP_EFORMAT);
    assert_int_equal(send(ends[0], text, 200, 0), 200);
    assert_int_equal(rank_receive(ends[1], &m, sizeof text, 1000, NULL), OSP_EFORMAT);
    close(ends[0]);
    assert_int_equal(rank_send(ends[1], RANK_STEP, text, 4, 1000, NULL), OSP_EIO);
    close(ends[1]);
    rank_message_release(&m);
}

/* Sends a byte of a message's head at a time, or takes a byte at a time, until the other end has
 * given up. */
struct slow_peer {
    int fd;
    bool sends;
    atomic_bool is_stopped;
};

static void *be_slow(void *arg)
{
    enum { PAUSE_MS = 5 };
    struct slow_peer *p = arg;
    const int32_t head[4] = {0x4b4e524f, RANK_STEP, 1000, 0};
    char byte;

    for (size_t i = 0; i < 1000 && !atomic_load(&p->is_stopped); i++) {
        const char next = i < sizeof head ? ((const char *)head)[i] : 'x';

        if (p->sends ? send(p->fd, &next, 1, MSG_NOSIGNAL) != 1 : recv(p->fd, &byte, 1, 0) != 1)
            break;
        (void)poll(NULL, 0, PAUSE_MS);
    }
    close(p->fd);
    return NULL;
}

/* The time limit is that of the whole message. */
static void check_slow_peer(bool sends)
{
    enum { LIMIT_MS = 100, N_BYTES = 4 << 20 };
    struct rank_message m = {.data = NULL};
    const uint64_t begin_ns = clock_ns();
    char *data = mem_new(N_BYTES);
    struct slow_peer peer;
    pthread_t thread;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    peer.fd = ends[0];
    peer.sends = sends;
    atomic_init(&peer.is_stopped, false);
    assert_int_equal(pthread_create(&thread, NULL, be_slow, &peer), 0);
    assert_int_equal(sends ? rank_receive(ends[1], &m, 1000, LIMIT_MS, NULL)
                           : rank_send(ends[1], RANK_STEP, data, N_BYTES, LIMIT_MS, NULL),
                     OSP_ETIMEOUT);
    assert_true(clock_ns() - begin_ns < 3000 * 1000000ull); /* the peer needs 5 s and more */
    atomic_store(&peer.is_stopped, true);
    pthread_join(thread, NULL);
    close(ends[1]);
    rank_message_release(&m);
    free(data);
}

static void test_slow_peers(void **state)
{
    (void)state;
    check_slow_peer(true);
    check_slow_peer(false);
}

/* Nothing is allocated for a size that no expected message has, and a stranger's text is no reason. */
static void test_first_message(void **state)
{
    const int32_t head[4] = {0x4b4e524f, RANK_JOIN, 1 << 29, 0};
    struct rank_join join;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[0], head, sizeof head, 0), sizeof head);
    assert_int_equal(rank_expect(ends[1], RANK_JOIN, &join, sizeof join, 1000), OSP_EFORMAT);
    assert_non_null(strstr(fail_message(), "RANK_JOIN of 536870912 bytes, expected at most"));
    assert_int_equal(rank_send(ends[0], RANK_FAILED, "believe me", 10, 1000, NULL), OSP_OK);
    assert_int_equal(rank_expect(ends[1], RANK_JOIN, &join, sizeof join, 1000), OSP_EFORMAT);
    assert_null(strstr(fail_message(), "believe me"));
    close(ends[0]);
    close(ends[1]);
}

/* A program without the token, of another version or rank, is none of this start's. */
static void test_joins(void **state)
{
    struct rank_join j;

    (void)state;
    setenv(RANK_TOKEN_VARIABLE, "secret", 1);
    j = rank_join_make(1, CONNECTION_PULSE);
    assert_true(rank_join_is_valid(&j, 2, "secret"));
    assert_false(rank_join_is_valid(&j, 1, "secret"));
    assert_false(rank_join_is_valid(&j, 2, "secre"));
    assert_false(rank_join_is_valid(&j, 2, ""));
    j.version++;
    assert_false(rank_join_is_valid(&j, 2, "secret"));
    j = rank_join_make(0, CONNECTION_CONTROL); /* rank 0 does not join itself */
    assert_false(rank_join_is_valid(&j, 2, "secret"));
}

static void test_model_frame(void **state)
{
    const struct osp_device_option device = {"name", "value"};
    const struct osp_model_options opt = {.path = "/models/one",
                                          .device = "cpu",
                                          .tensor_parallel_size = 4,
                                          .device_options = &device,
                                          .n_device_options = 1};
    const struct model_part part = {.plan = {.n_seqs_max = 7}, .fingerprint = 99};
    struct rank_model_frame f = {.bytes = NULL};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    assert_int_equal(rank_model_write(&b, &opt, &part), OSP_OK);
    assert_int_equal(rank_model_read(&f, buf_text(&b), b.size_bytes), OSP_OK);
    assert_string_equal(f.options.path, "/models/one");
    assert_int_equal(f.options.tensor_parallel_size, 4);
    assert_string_equal(f.options.device_options[0].value, "value");
    assert_int_equal(f.part.plan.n_seqs_max, 7);
    assert_int_equal(f.part.fingerprint, 99);
    rank_model_release(&f);
    assert_int_equal(rank_model_read(&f, buf_text(&b), b.size_bytes - 1), OSP_EFORMAT);
    rank_model_release(&f);
    buf_release(&b);
}

/* ---- pages ---- */

static struct page_move move_of(enum move_kind kind, enum page_group group, int from, int to)
{
    return (struct page_move){.kind = kind, .group = group, .from = from, .to = to};
}

static void check_refused(struct rank_pages *p, const struct osp_model *m, struct page_move move)
{
    assert_int_equal(rank_pages_move(p, m, &move, sizeof move), OSP_EFORMAT);
}

static void test_pages(void **state)
{
    const struct osp_model_options opt = {
        .path = "models/osprey-nano", .device = "cpu", .n_threads = 1, .context_tokens_max = 512};
    const int32_t n_host[N_PAGE_GROUPS] = {3, 2};
    const struct page_move out = move_of(MOVE_SWAP_OUT, GROUP_FULL, 1, 2);
    const struct page_move in = move_of(MOVE_SWAP_IN, GROUP_FULL, 2, 0);
    struct rank_pages pages = {.n_host = {0}};
    struct osp_model *m;
    size_t n_bytes;
    char *a, *b;

    (void)state;
    assert_int_equal(osp_model_open(&m, &opt), OSP_OK);
    n_bytes = (size_t)m->facts.page_bytes[GROUP_FULL];
    a = mem_new(n_bytes);
    b = mem_new(n_bytes);
    memset(a, 0x5a, n_bytes);
    assert_int_equal(rank_pages_alloc(&pages, m, n_host, 3), OSP_EFORMAT);
    assert_int_equal(rank_pages_alloc(&pages, m, n_host, sizeof n_host), OSP_OK);
    assert_int_equal(model_page_write(m->model, GROUP_FULL, 1, a), OSP_OK);
    assert_int_equal(rank_pages_move(&pages, m, &out, sizeof out), OSP_OK);
    assert_int_equal(rank_pages_move(&pages, m, &in, sizeof in), OSP_OK);
    assert_int_equal(model_page_read(m->model, GROUP_FULL, 0, b), OSP_OK);
    assert_memory_equal(a, b, n_bytes);
    check_refused(&pages, m, move_of(MOVE_SWAP_OUT, GROUP_FULL, 1, 3));
    check_refused(&pages, m, move_of(MOVE_SWAP_IN, GROUP_WINDOW, 2, 0));
    check_refused(&pages, m, move_of(MOVE_SWAP_OUT, GROUP_FULL, -1, 0));
    check_refused(&pages, m, move_of(MOVE_SWAP_OUT, (enum page_group)2, 0, 0));
    check_refused(&pages, m, move_of(MOVE_SLOT, GROUP_FULL, 0, 1)); /* ranks have no trees */
    rank_pages_release(&pages);
    free(a);
    free(b);
    osp_model_close(m);
}

/* ---- counters ---- */

static void test_wait_word(void **state)
{
    struct wait_word w = {.value = 0};

    (void)state;
    assert_true(wait_word_wait(&w, 0, 0));
    assert_false(wait_word_wait(&w, 1, 1000000));
    wait_word_set(&w, UINT32_MAX);
    assert_true(wait_word_has(&w, UINT32_MAX));
    assert_false(wait_word_has(&w, 0)); /* the next one, though smaller */
    wait_word_set(&w, 0);
    assert_true(wait_word_has(&w, UINT32_MAX));
}

UNIT_MAIN(cmocka_unit_test(test_launchers), cmocka_unit_test(test_local_ranks),
          cmocka_unit_test(test_wrong_variables), cmocka_unit_test(test_mpirun_command),
          cmocka_unit_test(test_messages), cmocka_unit_test(test_slow_peers),
          cmocka_unit_test(test_first_message), cmocka_unit_test(test_joins),
          cmocka_unit_test(test_model_frame), cmocka_unit_test(test_pages),
          cmocka_unit_test(test_wait_word))
