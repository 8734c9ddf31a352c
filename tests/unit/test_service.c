/* The server as a systemd service: what it sends to the socket of $NOTIFY_SOCKET, and when. */
#define UNIT_LIMIT_S 30
#include "unit.h"

#include <sys/un.h>

#include "base/sd_notify.h"
#include "http_fixture.h"

enum { DATAGRAM_BYTES = 1024, WATCHDOG_MS = 400 };

/* The service manager: an abstract socket, bound to a name that the kernel chooses. */
struct manager {
    int fd;
    char name[16]; /* "@00a1f" */
};

static void open_manager(struct manager *m)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;

    m->fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(m->fd, (struct sockaddr *)&address, sizeof address.sun_family), 0);
    assert_int_equal(getsockname(m->fd, (struct sockaddr *)&address, &size), 0);
    snprintf(m->name, sizeof m->name, "@%.*s", (int)(size - sizeof address.sun_family - 1),
             address.sun_path + 1);
    setenv("NOTIFY_SOCKET", m->name, 1);
}

static void receive(const struct manager *m, char out[DATAGRAM_BYTES])
{
    struct pollfd p = {.fd = m->fd, .events = POLLIN};
    ssize_t n = poll(&p, 1, PATIENCE_MS) == 1 ? recv(m->fd, out, DATAGRAM_BYTES - 1, 0) : -1;

    assert_true(n > 0);
    out[n] = '\0';
}

/* Receives until a datagram begins with `start`. */
static void expect_datagram(const struct manager *m, const char *start)
{
    char text[DATAGRAM_BYTES];

    do
        receive(m, text);
    while (strncmp(text, start, strlen(start)) != 0);
}

static void set_watchdog(const char *usec, long pid)
{
    char text[32];

    snprintf(text, sizeof text, "%ld", pid);
    setenv("WATCHDOG_USEC", usec, 1);
    setenv("WATCHDOG_PID", text, 1);
}

static void test_life_of_a_service(void **state)
{
    struct serve_options opt = usual_options();
    struct manager m;
    struct fixture f;
    char text[DATAGRAM_BYTES];

    (void)state;
    opt.names = "fake\nREADY=0"; /* a line break would begin another assignment */
    open_manager(&m);
    set_watchdog("400000", getpid());
    start(&f, opt);
    assert_null(getenv("NOTIFY_SOCKET")); /* a worker process must not find it */
    assert_null(getenv("WATCHDOG_USEC"));
    receive(&m, text);
    assert_string_equal(text, "STATUS=loading the model");
    receive(&m, text);
    assert_string_equal(text, "READY=1");
    expect_datagram(&m, "WATCHDOG=1");
    expect_datagram(&m, "STATUS=fake READY=0: 0 running, 0 waiting");
    expect_datagram(&m, "WATCHDOG=1");
    finish(&f);
    expect_datagram(&m, "STOPPING=1\nEXTEND_TIMEOUT_USEC=6300000"); /* 300 ms + 1 s + 5 s */
    close(m.fd);
}

/* Loading that fails is told with its reason, and never as READY. */
static enum osp_status load_nothing(void *ctx, struct serve_model *out)
{
    (void)ctx;
    (void)out;
    return fail(OSP_ENOTFOUND, "/models/x: no config.json there");
}

static void test_failed_load(void **state)
{
    struct fixture f = {.opt = usual_options()};
    char text[DATAGRAM_BYTES];
    struct manager m;

    (void)state;
    log_set_level(LOG_ERROR);
    open_manager(&m);
    f.opt.load = load_nothing;
    assert_int_equal(serve_open(&f.server, &f.opt), OSP_OK);
    assert_int_equal(serve_run(f.server, &f.forced), OSP_ENOTFOUND);
    serve_close(f.server);
    receive(&m, text);
    assert_string_equal(text, "STATUS=loading the model");
    receive(&m, text);
    assert_memory_equal(text, "STOPPING=1\n", 11);
    receive(&m, text);
    assert_string_equal(text, "STATUS=failed: /models/x: no config.json there");
    assert_int_equal(recv(m.fd, text, sizeof text, MSG_DONTWAIT), -1);
    close(m.fd);
}

static int count_datagrams(const struct manager *m, const char *wanted, int for_ms)
{
    uint64_t begin_ns = clock_ns();
    char text[DATAGRAM_BYTES];
    int n = 0;

    while (clock_ns() - begin_ns < (uint64_t)for_ms * 1000000) {
        struct pollfd p = {.fd = m->fd, .events = POLLIN};

        if (poll(&p, 1, 50) == 1) {
            receive(m, text);
            n += strcmp(text, wanted) == 0;
        }
    }
    return n;
}

/* The watchdog hears of a restarting worker, and nothing of a dead engine. */
static void test_watchdog_follows_the_engine(void **state)
{
    struct manager m;
    struct fixture f;

    (void)state;
    open_manager(&m);
    set_watchdog("400000", getpid());
    start(&f, usual_options());
    atomic_store(&fake_engine_restarts, true);
    expect_datagram(&m, "STATUS=restarting: the fake rises");
    expect_datagram(&m, "WATCHDOG=1");
    atomic_store(&fake_engine_restarts, false);
    atomic_store(&fake_engine_dead, true);
    expect_datagram(&m, "STATUS=dead: the fake is dead");
    assert_int_equal(count_datagrams(&m, "WATCHDOG=1", 3 * WATCHDOG_MS), 0);
    atomic_store(&fake_engine_dead, false);
    expect_datagram(&m, "WATCHDOG=1");
    finish(&f);
    close(m.fd);
}

static void test_environment(void **state)
{
    struct sd_notify n;
    struct manager m;

    (void)state;
    log_set_level(LOG_ERROR);
    sd_notify_open(&n); /* no manager */
    assert_false(sd_notify_is_open(&n));
    assert_true(sd_notify_send(&n, "READY=1"));

    setenv("NOTIFY_SOCKET", "not/absolute", 1);
    sd_notify_open(&n);
    assert_false(sd_notify_is_open(&n));
    setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
    sd_notify_open(&n);
    assert_false(sd_notify_is_open(&n));

    open_manager(&m);
    set_watchdog("400000", 1); /* of another process */
    sd_notify_open(&n);
    assert_true(sd_notify_is_open(&n));
    assert_int_equal(n.watchdog_us, 0);
    sd_notify_close(&n);

    setenv("NOTIFY_SOCKET", m.name, 1);
    set_watchdog("-1", getpid());
    sd_notify_open(&n);
    assert_int_equal(n.watchdog_us, 0);
    close(m.fd);
    assert_true(sd_notify_send(&n, "READY=1")); /* the manager is gone: given up, not repeated */
    assert_false(sd_notify_is_open(&n));
}

/* A manager that does not read fills its queue; sending then fails at once. */
static void test_full_queue_does_not_block(void **state)
{
    char text[DATAGRAM_BYTES];
    struct sd_notify n;
    struct manager m;
    int n_sent = 0;

    (void)state;
    open_manager(&m);
    sd_notify_open(&n);
    while (n_sent < 100000 && sd_notify_send(&n, "WATCHDOG=1"))
        n_sent++;
    assert_in_range(n_sent, 1, 99999);
    receive(&m, text);
    assert_true(sd_notify_send(&n, "READY=1"));
    sd_notify_close(&n);
    close(m.fd);
}

UNIT_MAIN(cmocka_unit_test(test_life_of_a_service), cmocka_unit_test(test_failed_load),
          cmocka_unit_test(test_watchdog_follows_the_engine), cmocka_unit_test(test_environment),
          cmocka_unit_test(test_full_queue_does_not_block))
