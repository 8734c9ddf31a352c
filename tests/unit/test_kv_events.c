/* Changes of the prefix cache as KV events: what the log has, how a batch is packed, the endpoints
 * of replicas, a full queue. tests/http/test_kv_events.py reads them with vLLM's libraries. */
#include "unit.h"

#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/kv_events/kv_pack.h"
#include "engine/kv_events/kv_publisher.h"
#include "engine/kv_events/zmq_library.h"
#include "engine/sched/prefix.h"
#include "engine/sched/prefix_hash.h"

enum { N_PAGES = 8 };

/* ---- the log ---- */

struct fixture {
    struct pages pages[N_PAGE_GROUPS];
    struct prefix prefix;
    struct prefix_log log;
};

static void setup(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        assert_int_equal(pages_init(&f->pages[g], N_PAGES), OSP_OK);
    assert_int_equal(prefix_init(&f->prefix, f->pages, 128, N_PAGES), OSP_OK);
    f->prefix.log = &f->log;
}

static void teardown(struct fixture *f)
{
    prefix_release(&f->prefix);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        pages_release(&f->pages[g]);
    prefix_log_release(&f->log);
}

/* A page with these tokens after `parent`, which is referenced. */
static struct prefix_node *add(struct fixture *f, struct prefix_node *parent, int first, int n,
                               int n_clean)
{
    int32_t tokens[PAGE_TOKENS], page = pages_alloc(&f->pages[GROUP_FULL]);
    struct prefix_entry e = {.tokens = tokens, .n_tokens = n, .n_clean = n_clean};
    struct prefix_node *node;

    for (int i = 0; i < PAGE_TOKENS; i++)
        tokens[i] = first + i;
    e.page[GROUP_FULL] = page;
    e.page[GROUP_WINDOW] = -1;
    node = prefix_add(&f->prefix, parent, &e);
    assert_non_null(node);
    pages_unref(&f->pages[GROUP_FULL], page);
    prefix_ref(&f->prefix, node);
    prefix_unref(&f->prefix, node);
    return node;
}

static void test_log(void **state)
{
    struct fixture f;
    struct prefix_node *root, *one, *two;

    (void)state;
    setup(&f);
    root = prefix_root(&f.prefix, NULL);
    prefix_ref(&f.prefix, root);
    one = add(&f, root, 100, PAGE_TOKENS, PAGE_TOKENS);
    prefix_move_ref(&f.prefix, root, one);
    two = add(&f, one, 200, PAGE_TOKENS, PAGE_TOKENS);
    (void)add(&f, one, 300, 10, 10);         /* not a whole page: nothing is published */
    (void)add(&f, one, 200, PAGE_TOKENS, 5); /* the same tokens again */
    assert_int_equal(f.log.n, 2);
    assert_int_equal(f.log.changes[0].kind, PREFIX_STORED);
    assert_true(f.log.changes[0].is_first);
    assert_int_equal(f.log.changes[0].salt, 0);
    assert_int_equal(f.log.changes[0].hash,
                     prefix_hash_next(prefix_hash_salt(""), f.log.changes[0].tokens, PAGE_TOKENS));
    assert_false(f.log.changes[1].is_first);
    assert_int_equal(f.log.changes[1].parent, one->hash);
    assert_int_equal(f.log.changes[1].tokens[1], 201);
    assert_int_equal(f.log.changes[1].hash, two->hash);
    prefix_unref(&f.prefix, one);
    prefix_log_release(&f.log);
    while (prefix_evict(&f.prefix, GROUP_FULL))
        continue;
    assert_int_equal(f.log.n, 2); /* the twin leaves with the last of its two pages */
    for (int i = 0; i < 2; i++)
        assert_int_equal(f.log.changes[i].kind, PREFIX_REMOVED);
    assert_true(f.log.changes[0].hash != f.log.changes[1].hash);
    teardown(&f);
}

static void test_salted_log(void **state)
{
    struct fixture f;
    struct prefix_node *root, *one;

    (void)state;
    setup(&f);
    root = prefix_root(&f.prefix, "tenant");
    prefix_ref(&f.prefix, root);
    one = add(&f, root, 100, PAGE_TOKENS, PAGE_TOKENS);
    prefix_move_ref(&f.prefix, root, one);
    (void)add(&f, one, 200, PAGE_TOKENS, PAGE_TOKENS);
    assert_int_equal(f.log.changes[0].salt, prefix_hash_salt("tenant"));
    assert_int_equal(f.log.changes[1].salt, 0);
    prefix_unref(&f.prefix, one);
    teardown(&f);
}

/* ---- batches ---- */

static int count(const struct buf *b, const char *text)
{
    int n = 0;

    for (size_t i = 0; i + strlen(text) <= b->size_bytes; i++)
        n += memcmp(b->data + i, text, strlen(text)) == 0;
    return n;
}

/* Pages that follow each other are one event; so are removals. */
static void test_pack(void **state)
{
    struct prefix_change c[6] = {
        {.kind = PREFIX_STORED, .hash = 1, .is_first = true},
        {.kind = PREFIX_STORED, .hash = 2, .parent = 1},
        {.kind = PREFIX_STORED, .hash = 3, .parent = 1}, /* another sequence */
        {.kind = PREFIX_REMOVED, .hash = 9},
        {.kind = PREFIX_REMOVED, .hash = 8},
        {.kind = PREFIX_STORED, .hash = 4, .is_first = true, .salt = 0xabc},
    };
    struct kv_batch batch = {.unix_seconds = 1.5, .changes = c, .n_changes = 6};
    struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    kv_pack(&b, &batch);
    assert_int_equal((unsigned char)b.data[0], 0x93);  /* an array of three */
    assert_int_equal((unsigned char)b.data[1], 0xcb);  /* a double */
    assert_int_equal((unsigned char)b.data[10], 0x94); /* four events */
    assert_int_equal((unsigned char)b.data[b.size_bytes - 1], 0);
    assert_int_equal(count(&b, "BlockStored"), 3);
    assert_int_equal(count(&b, "BlockRemoved"), 1);
    assert_int_equal(count(&b, "0000000000000abc"), 1);
    buf_release(&b);
    batch = (struct kv_batch){.is_cleared = true, .data_parallel_rank = 3};
    buf_init(&b, 1 << 20);
    kv_pack(&b, &batch);
    assert_int_equal(count(&b, "AllBlocksCleared"), 1);
    assert_int_equal((unsigned char)b.data[b.size_bytes - 1], 3);
    buf_release(&b);
}

/* ---- endpoints and the queue ---- */

static void expect_endpoint(const char *given, int rank, const char *expected)
{
    char *found;
    const enum osp_status st = kv_endpoint_of(&found, given, rank);

    if (expected == NULL) {
        assert_int_equal(st, OSP_EINVAL);
        assert_null(found);
        return;
    }
    assert_int_equal(st, OSP_OK);
    assert_string_equal(found, expected);
    free(found);
}

static void test_endpoints(void **state)
{
    char *none;

    (void)state;
    expect_endpoint("tcp://*:5557", 0, "tcp://*:5557");
    expect_endpoint("tcp://*:5557", 3, "tcp://*:5560");
    expect_endpoint("tcp://[::]:65534", 1, "tcp://[::]:65535");
    expect_endpoint("inproc://cache", 2, "inproc://cache_dp2");
    expect_endpoint("ipc:///tmp/x", 0, "ipc:///tmp/x");
    expect_endpoint("ipc:///tmp/x", 1, NULL);
    expect_endpoint("tcp://*:65535", 1, NULL);
    expect_endpoint("tcp://*", 1, NULL);
    expect_endpoint("tcp://*:55x", 1, NULL);
    expect_endpoint("tcp://*:99999999999999999999", 1, NULL);
    assert_int_equal(kv_endpoint_of(&none, NULL, 1), OSP_OK);
    assert_null(none);
}

/* Changes that do not fit are counted, and the engine's thread does not wait. */
static void test_full_queue(void **state)
{
    const struct osp_engine_options opt = {.kv_events_endpoint = "inproc://x",
                                           .kv_events_queue_max = 1};
    const struct prefix_change change = {.kind = PREFIX_STORED, .hash = 1, .is_first = true};
    struct kv_publisher *p;
    struct prefix_log log = {.changes = NULL};
    int64_t n_batches = 0, n_dropped = 0;

    (void)state;
    log_set_level(LOG_ERROR);
    if (kv_publisher_open(&p, &opt, 0) == OSP_EUNAVAILABLE) /* libzmq is not installed */
        skip();
    for (int i = 0; i < 1000000 && n_dropped == 0; i++) {
        for (int k = 0; k < 200; k++)
            prefix_log_add(&log, &change);
        kv_publisher_take(p, &log);
        assert_int_equal(log.n, 0);
        kv_publisher_count(p, &n_batches, &n_dropped);
    }
    assert_true(n_dropped > 0);
    assert_int_equal(n_dropped % 200, 0);
    log.is_incomplete = true; /* there was no memory for a change */
    kv_publisher_take(p, &log);
    assert_false(log.is_incomplete);
    kv_publisher_close(p);
    kv_publisher_close(NULL);
    kv_publisher_count(NULL, &n_batches, &n_dropped);
    assert_int_equal(n_batches, 0);
}

/* ---- a batch that cannot be packed ---- */

static int (*real_init_size)(zmq_msg_t *m, size_t n_bytes);
static int (*real_send)(zmq_msg_t *m, void *socket, int flags);
static atomic_bool has_no_memory, is_cleared;
static size_t n_payload_bytes; /* the publisher's thread alone */

static int init_size(zmq_msg_t *m, size_t n_bytes)
{
    n_payload_bytes = n_bytes;
    return atomic_load(&has_no_memory) ? -1 : real_init_size(m, n_bytes);
}

static int send_payload(zmq_msg_t *m, void *socket, int flags)
{
    const struct zmq_library *zmq;
    struct buf b;

    buf_init(&b, 1 << 20);
    if (zmq_library_find(&zmq) == OSP_OK)
        buf_append(&b, zmq->zmq_msg_data(m), n_payload_bytes);
    atomic_store(&is_cleared, count(&b, "AllBlocksCleared") == 1);
    buf_release(&b);
    return real_send(m, socket, flags);
}

/* Takes a step with n changes, and waits until as many batches and changes are counted. */
static void take(struct kv_publisher *p, int n, int64_t n_batches_expected,
                 int64_t n_dropped_expected)
{
    const struct prefix_change change = {.kind = PREFIX_STORED, .hash = 1, .is_first = true};
    struct prefix_log log = {.changes = NULL};
    int64_t n_batches, n_dropped;

    for (int i = 0; i < n; i++)
        prefix_log_add(&log, &change);
    kv_publisher_take(p, &log);
    do
        kv_publisher_count(p, &n_batches, &n_dropped);
    while (n_batches < n_batches_expected || n_dropped < n_dropped_expected);
    assert_int_equal(n_batches, n_batches_expected);
    assert_int_equal(n_dropped, n_dropped_expected);
}

static void test_lost_batch(void **state)
{
    const struct osp_engine_options opt = {.kv_events_endpoint = "inproc://lost"};
    const struct zmq_library *found;
    struct zmq_library *zmq;
    struct kv_publisher *p;

    (void)state;
    log_set_level(LOG_ERROR);
    if (zmq_library_find(&found) != OSP_OK)
        skip();
    zmq = (struct zmq_library *)found;
    real_init_size = zmq->zmq_msg_init_size;
    real_send = zmq->zmq_msg_send;
    zmq->zmq_msg_init_size = init_size;
    zmq->zmq_msg_send = send_payload;
    assert_int_equal(kv_publisher_open(&p, &opt, 0), OSP_OK);
    take(p, 1, 2, 0);
    assert_false(atomic_load(&is_cleared));
    atomic_store(&has_no_memory, true);
    take(p, 5, 2, 5);
    take(p, 2, 2, 7);
    atomic_store(&has_no_memory, false);
    take(p, 1, 3, 7);
    assert_true(atomic_load(&is_cleared));
    take(p, 1, 4, 7);
    assert_false(atomic_load(&is_cleared));
    kv_publisher_close(p);
    zmq->zmq_msg_init_size = real_init_size;
    zmq->zmq_msg_send = real_send;
}

/* ---- clients ---- */

enum { CLIENT_MS = 20000 };

/* An endpoint that no other test has: a Unix socket without a file. */
static const char *own_endpoint(const char *name)
{
    static char endpoint[64];

    snprintf(endpoint, sizeof endpoint, "ipc://@osprey-test-%s-%d", name, (int)getpid());
    return endpoint;
}

static void receive_bytes(int fd, char *out, size_t n_bytes)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    for (; n_bytes > 0; out += n, n_bytes -= (size_t)n) {
        assert_int_equal(poll(&p, 1, CLIENT_MS), 1);
        n = recv(fd, out, n_bytes, 0);
        assert_true(n > 0);
    }
}

/* Connects and greets as a subscriber does (ZMTP 3.0, without security). */
static int connect_subscriber(const char *endpoint)
{
    static const char ready[] = "\4\31\5READY\13Socket-Type\0\0\0\3SUB";
    const char *name = endpoint + strlen("ipc://@");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char greeting[64] = {(char)0xff, [9] = 0x7f, 3}, answer[64 + 2], rest[255];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(greeting + 12, "NULL", 4);
    memcpy(a.sun_path + 1, name, strlen(name));
    assert_int_equal(
        connect(fd, (struct sockaddr *)&a,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
        0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL), sizeof ready - 1);
    receive_bytes(fd, answer, sizeof answer); /* and its READY */
    receive_bytes(fd, rest, (unsigned char)answer[65]);
    return fd;
}

static struct kv_publisher *open_publisher(const char *endpoint, const char *replay_endpoint)
{
    const struct osp_engine_options opt = {.kv_events_endpoint = endpoint,
                                           .kv_events_replay_endpoint = replay_endpoint};
    const struct zmq_library *zmq;
    struct kv_publisher *p;

    log_set_level(LOG_ERROR);
    if (zmq_library_find(&zmq) != OSP_OK)
        skip();
    assert_int_equal(kv_publisher_open(&p, &opt, 0), OSP_OK);
    return p;
}

/* A subscriber that begins a subscription of 256 MiB is dropped before it has sent it. */
static void test_huge_subscription(void **state)
{
    static const char head[] = "\2\0\0\0\0\20\0\0\0";
    const char *endpoint = own_endpoint("huge");
    struct kv_publisher *p = open_publisher(endpoint, NULL);
    struct pollfd closed = {.fd = connect_subscriber(endpoint), .events = POLLIN};
    char byte;

    (void)state;
    assert_int_equal(send(closed.fd, head, sizeof head - 1, MSG_NOSIGNAL), sizeof head - 1);
    assert_int_equal(poll(&closed, 1, CLIENT_MS), 1);
    assert_true(recv(closed.fd, &byte, 1, 0) <= 0);
    close(closed.fd);
    kv_publisher_close(p);
}

struct client {
    const struct zmq_library *zmq;
    void *context, *socket;
};

/* Of a replay endpoint, with a name of n_name bytes; 0: none. */
static struct client connect_client(const char *endpoint, size_t n_name)
{
    struct client c;
    char name[255];

    memset(name, 'n', sizeof name);
    assert_int_equal(zmq_library_find(&c.zmq), OSP_OK);
    c.context = c.zmq->zmq_ctx_new();
    c.socket = c.zmq->zmq_socket(c.context, ZMQ_DEALER);
    if (n_name > 0)
        assert_int_equal(c.zmq->zmq_setsockopt(c.socket, ZMQ_ROUTING_ID, name, n_name), 0);
    assert_int_equal(c.zmq->zmq_connect(c.socket, endpoint), 0);
    return c;
}

static void ask(const struct client *c, size_t n_sequence)
{
    static const char sequence[9] = {0};

    assert_int_equal(c->zmq->zmq_send(c->socket, "", 0, ZMQ_SNDMORE), 0);
    assert_int_equal(c->zmq->zmq_send(c->socket, sequence, n_sequence, 0), n_sequence);
}

static void expect_answer(const struct client *c)
{
    zmq_pollitem_t item = {.socket = c->socket, .events = ZMQ_POLLIN};

    assert_int_equal(c->zmq->zmq_poll(&item, 1, CLIENT_MS), 1);
}

static void close_client(const struct client *c)
{
    (void)c->zmq->zmq_close(c->socket);
    (void)c->zmq->zmq_ctx_term(c->context);
}

/* A replay is also for clients that name themselves, with the longest name that ZeroMQ allows. */
static void test_named_client(void **state)
{
    const char *endpoint = own_endpoint("named");
    struct kv_publisher *p = open_publisher("inproc://named", endpoint);
    const struct client c = connect_client(endpoint, 255);

    (void)state;
    ask(&c, 8);
    expect_answer(&c);
    close_client(&c);
    kv_publisher_close(p);
}

/* Invalid requests do not fill the log. */
static void test_bad_requests(void **state)
{
    enum { N = 500, BYTES_MAX = 1000 };
    const char *endpoint = own_endpoint("bad");
    struct kv_publisher *p = open_publisher("inproc://bad", endpoint);
    const struct client c = connect_client(endpoint, 0);
    const int before = dup(STDERR_FILENO);
    char text[BYTES_MAX] = "";
    FILE *log = tmpfile();

    (void)state;
    log_set_level(LOG_WARN);
    assert_non_null(log);
    assert_true(dup2(fileno(log), STDERR_FILENO) >= 0);
    for (int i = 0; i < N; i++)
        ask(&c, 9);
    ask(&c, 8);
    expect_answer(&c); /* to the last one */
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(log);
    assert_true(fread(text, 1, sizeof text, log) < sizeof text);
    assert_non_null(strstr(text, "with frames of 0 and 9 bytes, expected an empty frame"));
    fclose(log);
    close_client(&c);
    kv_publisher_close(p);
}

/* Subscribers that come and go while nothing is published leave no memory behind: about 10 KB of
 * each are in use until then. Under the address sanitizer mallinfo2() says 0. */
static void test_former_subscribers(void **state)
{
    enum { N = 400, LEFT_BYTES_MAX = N * 2048 };
    const char *endpoint = own_endpoint("former");
    struct kv_publisher *p = open_publisher(endpoint, NULL);
    const size_t begin_bytes = mallinfo2().uordblks;
    uint64_t end_ns;

    (void)state;
    for (int i = 0; i < N; i++)
        close(connect_subscriber(endpoint));
    end_ns = clock_ns() + (uint64_t)CLIENT_MS * 1000000u;
    while (mallinfo2().uordblks > begin_bytes + LEFT_BYTES_MAX) {
        assert_true(clock_ns() < end_ns);
        (void)poll(NULL, 0, 10);
    }
    kv_publisher_close(p);
}

UNIT_MAIN(cmocka_unit_test(test_log), cmocka_unit_test(test_salted_log),
          cmocka_unit_test(test_pack), cmocka_unit_test(test_endpoints),
          cmocka_unit_test(test_full_queue), cmocka_unit_test(test_lost_batch),
          cmocka_unit_test(test_huge_subscription), cmocka_unit_test(test_named_client),
          cmocka_unit_test(test_bad_requests), cmocka_unit_test(test_former_subscribers))
