/* What reaches a rank's listener beside the ranks: connections that say nothing, programs that are
 * no ranks, ranks that connect again. None of them ends or delays a start. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "dist/rank_address.h"
#include "dist/rank_joins.h"
#include "dist/rank_leader.h"
#include "dist/rank_member.h"

enum { CONNECT_MS = 2000, QUICK_MS = 5000 /* far below ANSWER_MS_MAX */ };

static int ms_since(uint64_t begin_ns)
{
    return (int)((clock_ns() - begin_ns) / 1000000u);
}

/* A name that no test beside this one has. */
static char *local_address(const char *name)
{
    static char address[RANK_ADDRESS_BYTES];

    snprintf(address, sizeof address, "@osprey-test-%s-%d", name, (int)getpid());
    return address;
}

static int connect_to(const char *address)
{
    int fd;

    assert_int_equal(rank_connect(&fd, address, CONNECT_MS), OSP_OK);
    return fd;
}

static int connect_as(const char *address, int rank, enum rank_connection connection)
{
    int fd;

    assert_int_equal(rank_connect_as(&fd, address, rank, connection, CONNECT_MS), OSP_OK);
    return fd;
}

static bool is_closed(int fd)
{
    char byte;
    const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* Whether the process still runs this program's file. */
static bool runs_own_program(pid_t pid)
{
    char path[32], own[512] = "", its[512] = "";

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return readlink("/proc/self/exe", own, sizeof own - 1) > 0 &&
           readlink(path, its, sizeof its - 1) > 0 && strcmp(own, its) == 0;
}

/* ---- connections for the exchange ---- */

static void check_mesh(const char *wanted)
{
    char address[RANK_ADDRESS_BYTES];
    int listener, sockets[RANKS_MAX], ends[6];
    char received;
    const uint64_t begin_ns = clock_ns();

    memset(sockets, -1, sizeof sockets);
    assert_int_equal(rank_listen(&listener, wanted, address), OSP_OK);
    ends[0] = connect_to(address); /* says nothing */
    ends[1] = connect_to(address);
    assert_int_equal(send(ends[1],
                          "GET / HTTP/1.1\r\nHost: a-stranger-with-a-long-name.example\r\n"
                          "Accept: text/plain, text/html;q=0.5\r\n\r\n",
                          97, 0),
                     97);
    ends[2] = connect_as(address, 1, CONNECTION_CONTROL);
    ends[3] = connect_as(address, 2, CONNECTION_MESH);
    ends[4] = connect_as(address, 2, CONNECTION_MESH);
    ends[5] = connect_as(address, 1, CONNECTION_MESH);
    assert_int_equal(mesh_accept(listener, 1, 3, rank_token(), sockets), OSP_OK);
    assert_true(ms_since(begin_ns) < QUICK_MS);
    for (int i = 0; i < 4; i++)
        assert_true(is_closed(ends[i]));
    assert_false(is_closed(ends[4]) || is_closed(ends[5]));
    assert_int_equal(send(ends[4], "2", 1, 0), 1); /* the second connection of rank 2 counts */
    assert_int_equal(recv(sockets[2], &received, 1, 0), 1);
    sockets_close(ends, 6);
    sockets_close(sockets, RANKS_MAX);
    close(listener);
}

static void test_mesh(void **state)
{
    (void)state;
    check_mesh("127.0.0.1:0");
    check_mesh(local_address("mesh"));
}

/* ---- another user ---- */

/* Returns 0 if the connection was refused because of the user. */
static int connect_as_nobody(const char *address)
{
    enum { NOBODY = 65534 };
    int fd;

    if (setuid(NOBODY) != 0 || rank_connect(&fd, address, 0) != OSP_EUNAVAILABLE)
        return 1;
    return strstr(fail_message(), "belongs to another user") == NULL;
}

static void test_another_user(void **state)
{
    char address[RANK_ADDRESS_BYTES];
    int listener, fd, status;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become another user */
    assert_int_equal(rank_listen(&listener, local_address("user"), address), OSP_OK);
    child = fork();
    if (child == 0)
        _exit(connect_as_nobody(address));
    assert_int_equal(rank_accept(&fd, listener, CONNECT_MS), OSP_EUNAVAILABLE);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(fail_message(), "belongs to another user"));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(listener);
}

static void test_addresses(void **state)
{
    char address[RANK_ADDRESS_BYTES], name[RANK_ADDRESS_BYTES / 2] = "";
    char token[RANK_TOKEN_BYTES + 1];
    int fd;

    (void)state;
    memset(name, '@', sizeof name - 1);
    assert_int_equal(rank_listen(&fd, name, address), OSP_EINVAL);
    assert_int_equal(rank_connect(&fd, name, CONNECT_MS), OSP_EINVAL);
    assert_int_equal(rank_listen(&fd, "127.0.0.1:0", address), OSP_OK);
    assert_true(rank_is_local(fd));
    close(fd);
    assert_int_equal(rank_listen(&fd, "0.0.0.0:0", address), OSP_OK);
    assert_false(rank_is_local(fd));
    close(fd);
    memset(token, 'x', sizeof token);
    token[RANK_TOKEN_BYTES] = '\0';
    setenv(RANK_TOKEN_VARIABLE, token, 1);
    assert_int_equal(rank_token_check(), OSP_EINVAL);
    token[RANK_TOKEN_BYTES - 1] = '\0';
    setenv(RANK_TOKEN_VARIABLE, token, 1);
    assert_int_equal(rank_token_check(), OSP_OK);
    unsetenv(RANK_TOKEN_VARIABLE);
}

/* IPv6, with and without the brackets that a port usually needs; where this host has it. */
static void test_brackets(void **state)
{
    char plain[RANK_ADDRESS_BYTES], address[RANK_ADDRESS_BYTES];
    int listener, fd;

    (void)state;
    if (rank_listen(&listener, "::1:0", plain) != OSP_OK)
        skip();
    close(listener);
    assert_int_equal(rank_listen(&listener, "[::1]:0", address), OSP_OK);
    assert_memory_equal(address, "[::1]:", 6);
    assert_true(rank_is_local(listener));
    fd = connect_to(address);
    close(fd);
    close(listener);
    assert_int_equal(rank_listen(&listener, "[]:0", address), OSP_EUNAVAILABLE);
}

/* Only another process of this program is ended where a peer names its id. */
static void test_process_ids(void **state)
{
    const pid_t child = fork();
    char *const other[] = {"sleep", "30", NULL};
    pid_t pid;
    int fd;

    (void)state;
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    fd = process_descriptor_same_program(child);
    assert_true(fd >= 0);
    process_kill(fd);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fd);
    assert_int_equal(process_descriptor_same_program(getpid()), -1);
    assert_int_equal(process_descriptor_same_program(getppid()), -1);
    assert_int_equal(process_descriptor_same_program(1), -1);
    assert_int_equal(process_descriptor_same_program(-5), -1);
    assert_int_equal(process_run(&pid, other, (const char *const[]){NULL}), OSP_OK);
    while (runs_own_program(pid)) /* until exec() */
        (void)poll(NULL, 0, 1);
    assert_int_equal(process_descriptor_same_program(pid), -1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- a full list ---- */

static void test_oldest_is_closed(void **state)
{
    struct rank_joins q = {.n = 0};
    int listener, silent[RANKS_PENDING_MAX + 1], real, fd = -1;
    char address[RANK_ADDRESS_BYTES];
    struct rank_join join;

    (void)state;
    assert_int_equal(rank_listen(&listener, "127.0.0.1:0", address), OSP_OK);
    for (int i = 0; i <= RANKS_PENDING_MAX; i++) {
        silent[i] = connect_to(address);
        assert_int_equal(rank_joins_next(&q, listener, 2, rank_token(), CONNECT_MS, &join), -1);
    }
    assert_int_equal(q.n, RANKS_PENDING_MAX);
    assert_true(is_closed(silent[0]));
    assert_false(is_closed(silent[1]));
    real = connect_as(address, 1, CONNECTION_PULSE);
    for (int i = 0; i < 100 && fd < 0; i++)
        fd = rank_joins_next(&q, listener, 2, rank_token(), CONNECT_MS, &join);
    assert_true(fd >= 0);
    assert_int_equal(join.connection, CONNECTION_PULSE);
    rank_joins_close(&q);
    close(fd);
    close(real);
    sockets_close(silent, RANKS_PENDING_MAX + 1);
    close(listener);
}

/* ---- a start ---- */

static void *be_member(void *arg)
{
    struct rank_message *message;
    struct rank_member *m;

    assert_int_equal(rank_member_open(&m, arg, 1, 2, CONNECT_MS), OSP_OK);
    assert_int_equal(rank_member_next(m, &message), OSP_OK);
    assert_int_equal(message->kind, RANK_QUIT);
    rank_member_close(m);
    return NULL;
}

static void *be_silent(void *arg)
{
    enum { N = 8 };
    static pthread_t member;
    int fds[N];

    for (int i = 0; i < N; i++)
        fds[i] = connect_to(arg);
    assert_int_equal(send(fds[0], "abc", 3, 0), 3); /* and no more */
    assert_int_equal(pthread_create(&member, NULL, be_member, arg), 0);
    pthread_join(member, NULL);
    sockets_close(fds, N);
    return NULL;
}

static void test_silent_connections(void **state)
{
    char *address = local_address("start");
    const struct rank_leader_options opt = {.n_ranks = 2, .address = address, .argument = ""};
    const uint64_t begin_ns = clock_ns();
    struct rank_leader *l;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, be_silent, address), 0);
    assert_int_equal(rank_leader_open(&l, &opt), OSP_OK);
    assert_true(ms_since(begin_ns) < QUICK_MS);
    assert_int_equal(rank_leader_local(l), 2);
    rank_leader_close(l);
    pthread_join(thread, NULL);
}

UNIT_MAIN(cmocka_unit_test(test_mesh), cmocka_unit_test(test_another_user),
          cmocka_unit_test(test_addresses), cmocka_unit_test(test_brackets),
          cmocka_unit_test(test_process_ids), cmocka_unit_test(test_oldest_is_closed),
          cmocka_unit_test(test_silent_connections))
