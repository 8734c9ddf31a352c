/* `osprey doctor --peer`: round trips of short messages, and bytes per second in both directions,
 * with one connection and with several. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_file.h"
#include "base/memory.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/peer_expected.h"
#include "cli/doctor/peer_wire.h"
#include "osprey.h"

enum {
    ROUND_TRIPS = 2000,
    ROUND_TRIPS_UNTIMED = 100,
    LATENCY_MS_MAX = 2000, /* fewer round trips over a slow network */
    STREAMS = 4,
    BULK_MS = 1000,
    EXCHANGES_OF_TOKEN = 2 * 36 /* of ranks: after attention and after the experts of each of
                                   gpt-oss-120b's layers */
};

struct target {
    const struct peer_address *address;
    struct addrinfo *found; /* to freeaddrinfo() */
    char version[PEER_VERSION_BYTES];
    char interface[64]; /* of this host's end; "" if it is not known */
    int64_t mbit;       /* its speed; 0: not known, as of the loopback */
};

/* ---- the address ---- */

enum osp_status peer_address_parse(struct peer_address *out, const char *peer)
{
    const char *colon = strrchr(peer, ':');
    const bool is_bracketed = peer[0] == '[';
    const char *end = is_bracketed ? strchr(peer, ']') : colon;
    const char *begin = peer + is_bracketed;
    int n;

    if (!is_bracketed && colon != NULL && strchr(peer, ':') != colon)
        colon = end = NULL; /* an IPv6 address */
    if (is_bracketed && (end == NULL || (end[1] != '\0' && end[1] != ':')))
        return fail(OSP_EINVAL, "--peer %s: expected HOST, HOST:PORT or [ADDRESS]:PORT", peer);
    if (is_bracketed)
        colon = end[1] == ':' ? end + 1 : NULL;
    n = end != NULL ? (int)(end - begin) : (int)strlen(begin);
    if (n == 0 || n >= PEER_HOST_BYTES)
        return fail(OSP_EINVAL, "--peer %s: expected HOST, HOST:PORT or [ADDRESS]:PORT", peer);
    snprintf(out->host, sizeof out->host, "%.*s", n, begin);
    snprintf(out->port, sizeof out->port, "%d", PEER_PORT_DEFAULT);
    if (colon != NULL) {
        char *rest;
        const long port = strtol(colon + 1, &rest, 10);

        if (*rest != '\0' || port < 1 || port > 65535)
            return fail(OSP_EINVAL, "--peer %s: the port must be a number from 1 to 65535", peer);
        snprintf(out->port, sizeof out->port, "%ld", port);
    }
    return OSP_OK;
}

static enum osp_status resolve(struct target *t)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const int error = getaddrinfo(t->address->host, t->address->port, &hints, &t->found);

    return error == 0 ? OSP_OK : fail(OSP_EUNAVAILABLE, "%s", gai_strerror(error));
}

/* ---- a connection ---- */

/* connect() with a limit of time. */
static enum osp_status connect_to(int *out, const struct addrinfo *a)
{
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t n = sizeof(int);
    int error = 0;

    if (fd < 0)
        return fail(OSP_EUNAVAILABLE, "%s", strerror(errno));
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS)
        error = poll(&p, 1, PEER_TIMEOUT_MS) == 1 &&
                        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0
                    ? error
                    : ETIMEDOUT;
    if (error != 0) {
        close(fd);
        return fail(OSP_EUNAVAILABLE, "%s", strerror(error));
    }
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    peer_set_limits(fd);
    *out = fd;
    return OSP_OK;
}

/* Connects and greets; `hello` receives the answer. */
static enum osp_status peer_open(struct peer *out, const struct target *t, enum peer_mode mode,
                                 struct peer_hello *hello)
{
    enum osp_status st = OSP_EUNAVAILABLE;

    for (const struct addrinfo *a = t->found; a != NULL && st != OSP_OK; a = a->ai_next)
        st = connect_to(&out->fd, a);
    if (st != OSP_OK)
        return st;
    out->deadline_ns = clock_ns() + (uint64_t)PEER_CONNECTION_MS * 1000000;
    peer_hello_fill(hello, mode);
    TRY(peer_send(out, hello, sizeof *hello));
    TRY(peer_receive(out, hello, sizeof *hello));
    TRY(peer_hello_check(hello));
out:
    if (st != OSP_OK)
        close(out->fd);
    return st;
}

/* The interface whose address is this end of the connection. */
static void find_interface(struct target *t, const char *root, int fd)
{
    struct sockaddr_storage own;
    socklen_t n = sizeof own;
    struct ifaddrs *all, *i;
    char text[INET6_ADDRSTRLEN] = "", other[INET6_ADDRSTRLEN];

    if (getsockname(fd, (struct sockaddr *)&own, &n) != 0 ||
        getnameinfo((struct sockaddr *)&own, n, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0 ||
        getifaddrs(&all) != 0)
        return;
    for (i = all; i != NULL; i = i->ifa_next)
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == own.ss_family &&
            getnameinfo(i->ifa_addr, n, other, sizeof other, NULL, 0, NI_NUMERICHOST) == 0 &&
            strcmp(text, other) == 0)
            snprintf(t->interface, sizeof t->interface, "%s", i->ifa_name);
    freeifaddrs(all);
    if (!host_number(&t->mbit, root, "/sys/class/net/%s/speed", t->interface) || t->mbit < 0)
        t->mbit = 0;
}

/* ---- latency ---- */

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static enum osp_status round_trips(const struct peer *p, uint64_t *times_ns, int *n)
{
    const uint64_t begin_ns = clock_ns();
    char message[PEER_MESSAGE_BYTES] = {0};
    enum osp_status st = OSP_OK;

    *n = 0;
    for (int i = 0; i < ROUND_TRIPS_UNTIMED + ROUND_TRIPS; i++) {
        uint64_t at_ns = clock_ns();

        TRY(peer_send(p, message, sizeof message));
        TRY(peer_receive(p, message, sizeof message));
        if (i >= ROUND_TRIPS_UNTIMED || *n > 0 ||
            clock_ns() - begin_ns > (uint64_t)LATENCY_MS_MAX * 1000000 / 2)
            times_ns[(*n)++] = clock_ns() - at_ns;
        if (clock_ns() - begin_ns > (uint64_t)LATENCY_MS_MAX * 1000000)
            break;
    }
out:
    return st;
}

static void report_latency(struct findings *f, const struct target *t, uint64_t *times_ns, int n)
{
    char over[80] = ""; /* the interface, if it is known */
    double median_us, p99_us;

    if (t->interface[0] != '\0')
        snprintf(over, sizeof over, ", over %s", t->interface);
    qsort(times_ns, (size_t)n, sizeof *times_ns, compare_times);
    median_us = (double)times_ns[n / 2] * 1e-3;
    p99_us = (double)times_ns[n - 1 - n / 100] * 1e-3;
    if (median_us <= PEER_ROUND_TRIP_US_MAX) {
        finding_add(f, FINDING_good, "latency", "round trip %.0f us, p99 %.0f us%s", median_us,
                    p99_us, over);
        return;
    }
    finding_add(f, FINDING_slow, "latency",
                "round trip %.0f us, p99 %.0f us%s; expected at most %d us", median_us, p99_us,
                over, PEER_ROUND_TRIP_US_MAX);
    finding_advise(f,
                   "use the address of the direct link; no Wi-Fi and no VPN. Ranks exchange "
                   "%d times for a token of gpt-oss-120b: %.1f ms of waiting",
                   EXCHANGES_OF_TOKEN, EXCHANGES_OF_TOKEN * median_us / 2 / 1000);
}

static enum osp_status measure_latency(struct findings *f, struct target *t, const char *root)
{
    uint64_t *times_ns = mem_new((ROUND_TRIPS_UNTIMED + ROUND_TRIPS) * sizeof *times_ns);
    struct peer p = {.fd = -1};
    struct peer_hello hello;
    enum osp_status st;
    int n;

    st = peer_open(&p, t, PEER_ECHO, &hello);
    if (st == OSP_OK) {
        snprintf(t->version, sizeof t->version, "%s", hello.version);
        find_interface(t, root, p.fd);
        st = round_trips(&p, times_ns, &n);
        close(p.fd);
    }
    if (st == OSP_OK && n > 0)
        report_latency(f, t, times_ns, n);
    free(times_ns);
    return st;
}

/* ---- bandwidth ---- */

struct stream {
    const struct target *target;
    enum peer_mode mode;
    pthread_t thread;
    double bytes_per_s;
    int64_t n_retransmissions; /* of packets that this end sent */
    enum osp_status st;
    char message[FAIL_MESSAGE_BYTES_MAX]; /* of this thread's failure */
};

/* When all has arrived the other end says how many bytes it has. */
static enum osp_status receive_count(const struct peer *p, uint64_t n_sent)
{
    unsigned char count[8];
    uint64_t n_bytes = 0;
    enum osp_status st;

    TRY(peer_receive(p, count, sizeof count));
    for (int i = 0; i < 8; i++)
        n_bytes = n_bytes << 8 | count[i];
    if (n_bytes != n_sent)
        st = fail(OSP_EFORMAT, "the other end has received %" PRIu64 " of %" PRIu64 " bytes",
                  n_bytes, n_sent);
out:
    return st;
}

static enum osp_status send_for_a_while(struct stream *s, const struct peer *p, char *block)
{
    const uint64_t begin_ns = clock_ns();
    struct tcp_info info;
    socklen_t n = sizeof info;
    uint64_t n_bytes = 0;
    enum osp_status st = OSP_OK;

    for (; clock_ns() - begin_ns < (uint64_t)BULK_MS * 1000000; n_bytes += PEER_BLOCK_BYTES)
        TRY(peer_send(p, block, PEER_BLOCK_BYTES));
    (void)shutdown(p->fd, SHUT_WR);
    TRY(receive_count(p, n_bytes));
    s->bytes_per_s = (double)n_bytes / ((double)(clock_ns() - begin_ns) * 1e-9);
    if (getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0)
        s->n_retransmissions = info.tcpi_total_retrans;
out:
    return st;
}

static enum osp_status receive_for_a_while(struct stream *s, const struct peer *p, char *block)
{
    const uint64_t begin_ns = clock_ns();
    uint64_t n_bytes = 0;
    enum osp_status st = OSP_OK;

    while (clock_ns() - begin_ns < (uint64_t)BULK_MS * 1000000) {
        TRY(peer_receive(p, block, PEER_BLOCK_BYTES));
        n_bytes += PEER_BLOCK_BYTES;
    }
    s->bytes_per_s = (double)n_bytes / ((double)(clock_ns() - begin_ns) * 1e-9);
out:
    return st;
}

static void *stream_main(void *arg)
{
    struct stream *s = arg;
    char *block = mem_new(PEER_BLOCK_BYTES);
    struct peer p = {.fd = -1};
    struct peer_hello hello;

    s->st = peer_open(&p, s->target, s->mode, &hello);
    if (s->st == OSP_OK) {
        s->st = (s->mode == PEER_SINK ? send_for_a_while : receive_for_a_while)(s, &p, block);
        close(p.fd);
    }
    if (s->st != OSP_OK)
        snprintf(s->message, sizeof s->message, "%s", fail_message());
    free(block);
    return NULL;
}

/* n streams at once. */
static enum osp_status measure_streams(const struct target *t, enum peer_mode mode, int n,
                                       struct stream *total)
{
    struct stream streams[STREAMS];
    int n_started = 0;

    *total = (struct stream){.st = OSP_OK};
    for (; n_started < n; n_started++) {
        struct stream *s = &streams[n_started];

        *s = (struct stream){.target = t, .mode = mode};
        if (pthread_create(&s->thread, NULL, stream_main, s) != 0)
            break;
    }
    for (int i = 0; i < n_started; i++) {
        (void)pthread_join(streams[i].thread, NULL);
        total->bytes_per_s += streams[i].bytes_per_s;
        total->n_retransmissions += streams[i].n_retransmissions;
        if (streams[i].st != OSP_OK)
            *total = streams[i];
        if (total->st != OSP_OK)
            return fail(total->st, "%s", total->message);
    }
    return n_started == n ? OSP_OK : fail(OSP_ENOMEM, "no thread can be started");
}

static enum osp_status measure_direction(struct findings *f, const struct target *t,
                                         enum peer_mode mode)
{
    const char *subject = mode == PEER_SINK ? "bandwidth to" : "bandwidth from";
    const double expected = peer_expected_gbit(t->mbit);
    struct stream one, several;
    double gbit;
    enum osp_status st;

    TRY(measure_streams(t, mode, 1, &one));
    TRY(measure_streams(t, mode, STREAMS, &several));
    gbit = 8e-9 * several.bytes_per_s;
    if (gbit >= expected) {
        finding_add(f, FINDING_good, subject,
                    "%.2f Gbit/s with one connection, %.2f with %d; %" PRId64 " retransmissions",
                    8e-9 * one.bytes_per_s, gbit, STREAMS, several.n_retransmissions);
    } else {
        finding_add(f, FINDING_slow, subject,
                    "%.2f Gbit/s with one connection, %.2f with %d, expected %.1f; %" PRId64
                    " retransmissions",
                    8e-9 * one.bytes_per_s, gbit, STREAMS, expected, several.n_retransmissions);
        finding_advise(f,
                       "stop other traffic; MTU 9000 on both hosts and the switch; `ethtool -S "
                       "%s` counts errors of the cable",
                       t->interface[0] != '\0' ? t->interface : "INTERFACE");
    }
out:
    return st;
}

/* ---- the check ---- */

static void report_version(struct findings *f, const struct target *t)
{
    if (strcmp(t->version, OSP_VERSION) == 0) {
        finding_add(f, FINDING_good, "version", "osprey %s on both hosts", t->version);
        return;
    }
    finding_add(f, FINDING_broken, "version", "osprey %s there, %s here", t->version, OSP_VERSION);
    finding_advise(f, "ranks of one model must have the same version: install it on both hosts");
}

static enum osp_status measure(struct findings *f, struct target *t, const char *root)
{
    enum osp_status st;

    TRY(resolve(t));
    TRY(measure_latency(f, t, root));
    report_version(f, t);
    TRY(measure_direction(f, t, PEER_SINK));
    TRY(measure_direction(f, t, PEER_SOURCE));
out:
    return st;
}

void check_peer(struct findings *f, const char *root, const struct peer_address *address)
{
    struct target t = {.address = address};

    f->group = "peer";
    if (measure(f, &t, root) != OSP_OK) {
        finding_add(f, FINDING_broken, address->host, "port %s: %s", address->port, fail_message());
        finding_advise(f, "run `osprey doctor --listen` on that host, and open the port in its "
                          "firewall");
    }
    if (t.found != NULL)
        freeaddrinfo(t.found);
}
