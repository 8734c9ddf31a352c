#include "clients.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"

enum { EVENTS_MAX = 512, READ_BYTES = 64 << 10, GAPS_MAX = 1 << 20, SOURCES = 200 };

/* What is looked for in a stream, wherever it is cut. */
static const char *const MARK_TEXT[MARKS] = {"\"content\":\"", "data: [DONE]", "data: {\"error\""};
enum { MARK_CONTENT, MARK_DONE, MARK_ERROR };

static void mark_dead(const char *what)
{
    perror(what);
    exit(1);
}

static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

void clients_init(struct clients *c, int n, int port)
{
    *c = (struct clients){.epoll = epoll_create1(0), .port = port, .n = n};
    raise_file_limit();
    c->all = mem_new((size_t)n * sizeof *c->all);
    c->gaps = mem_new(GAPS_MAX * sizeof *c->gaps);
    for (int i = 0; i < n; i++)
        c->all[i].fd = -1;
}

void clients_release(struct clients *c)
{
    for (int i = 0; i < c->n; i++) {
        client_close(c, &c->all[i], true);
        free(c->all[i].request);
    }
    close(c->epoll);
    free(c->all);
    free(c->gaps);
}

static int dial(int port, int index)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;

    if (fd < 0)
        mark_dead("socket");
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)index % SOURCES);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) != 0)
        mark_dead("bind");
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        mark_dead("connect");
    return fd;
}

void client_open(struct clients *c, int index, char *request, size_t n_request)
{
    struct client *k = &c->all[index];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};

    free(k->request);
    *k = (struct client){.kind = k->kind,
                         .fd = dial(c->port, index),
                         .request = request,
                         .n_request = n_request,
                         .n_allowed = n_request,
                         .begin_ns = clock_ns()};
    event.data.ptr = k;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, k->fd, &event) != 0)
        mark_dead("epoll_ctl");
    c->n_open++;
}

void client_close(struct clients *c, struct client *k, bool with_reset)
{
    struct linger at_once = {.l_onoff = 1};

    if (k->fd < 0)
        return;
    if (with_reset)
        setsockopt(k->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(k->fd);
    k->fd = -1;
    k->end_ns = clock_ns();
    c->n_open--;
}

void client_send(struct clients *c, struct client *k)
{
    (void)c;
    while (k->fd >= 0 && k->n_sent < k->n_allowed) {
        ssize_t n = send(k->fd, k->request + k->n_sent, k->n_allowed - k->n_sent, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        k->n_sent += (size_t)n;
    }
}

/* ---- hearing ---- */

static void note_gap(struct clients *c, double seconds)
{
    size_t i = c->n_gaps_seen++;

    if (i >= GAPS_MAX)
        i = (size_t)(rng_bits(1, i, 0) % c->n_gaps_seen);
    if (i >= GAPS_MAX)
        return;
    c->gaps[i] = seconds;
    c->n_gaps += c->n_gaps < GAPS_MAX;
}

static void take_letter(struct clients *c, struct client *k, char letter, uint64_t now_ns)
{
    char next = k->letter == 'p' ? 'a' : (char)(k->letter + 1);

    k->is_broken |= k->n_letters > 0 && letter != next;
    k->letter = letter;
    if (k->n_letters++ == 0)
        k->first_ns = now_ns;
    else
        note_gap(c, (double)(now_ns - k->last_ns) * 1e-9);
    k->last_ns = now_ns;
}

static void take_byte(struct clients *c, struct client *k, char byte, uint64_t now_ns)
{
    if (k->mark[MARK_CONTENT] == (int)strlen(MARK_TEXT[MARK_CONTENT]) && byte != '"') {
        take_letter(c, k, byte, now_ns);
        return;
    }
    for (int i = 0; i < MARKS; i++) {
        const char *text = MARK_TEXT[i];
        int at = text[k->mark[i]] == '\0' ? 0 : k->mark[i];

        k->mark[i] = byte == text[at] ? at + 1 : byte == text[0];
    }
    k->is_done |= MARK_TEXT[MARK_DONE][k->mark[MARK_DONE]] == '\0';
    k->has_error |= MARK_TEXT[MARK_ERROR][k->mark[MARK_ERROR]] == '\0';
}

static void take_head(struct client *k, const char *data, size_t n_bytes, uint64_t now_ns)
{
    size_t room = HEAD_BYTES - 1 - k->n_head;

    if (k->n_head == 0)
        k->head_ns = now_ns;
    n_bytes = n_bytes < room ? n_bytes : room;
    memcpy(k->head + k->n_head, data, n_bytes);
    k->n_head += n_bytes;
    if (k->n_head > 12)
        k->status = atoi(k->head + 9);
    k->has_retry_after = strstr(k->head, "\r\nretry-after: ") != NULL;
}

/* False: the connection has ended. */
static bool hear(struct clients *c, struct client *k)
{
    static char data[READ_BYTES];

    for (;;) {
        ssize_t n = recv(k->fd, data, sizeof data, 0);
        uint64_t now_ns = clock_ns();

        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return false;
        take_head(k, data, (size_t)n, now_ns);
        for (ssize_t i = 0; i < n; i++)
            take_byte(c, k, data[i], now_ns);
    }
}

void clients_wait(struct clients *c, int timeout_ms,
                  void (*ended)(struct clients *c, struct client *k))
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(c->epoll, events, EVENTS_MAX, timeout_ms);

    for (int i = 0; i < n; i++) {
        struct client *k = events[i].data.ptr;

        if (k->fd < 0)
            continue;
        client_send(c, k);
        if (k->reads_nothing && !(events[i].events & (EPOLLHUP | EPOLLERR)))
            continue;
        if (hear(c, k))
            continue;
        client_close(c, k, false);
        ended(c, k);
    }
}

/* ---- small things ---- */

char *chat_request(int n_tokens, bool streams, const char *text, size_t *n_bytes)
{
    char *body = mem_printf("{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                            "\"max_tokens\":%d,\"stream\":%s}",
                            text, n_tokens, streams ? "true" : "false");
    char *all = mem_printf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Type: application/json\r\nConnection: close\r\n"
                           "Content-Length: %zu\r\n\r\n%s",
                           strlen(body), body);

    free(body);
    *n_bytes = strlen(all);
    return all;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double percentile(double *values, size_t n, double share)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, compare);
    return values[(size_t)(share * (double)(n - 1))];
}
