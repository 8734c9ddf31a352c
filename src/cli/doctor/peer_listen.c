/* `osprey doctor --listen`: a thread for each connection, of which there are few. A connection is
 * ended after PEER_CONNECTION_MS, whatever the other end does. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/tcp.h"
#include "cli/doctor/peer_wire.h"

enum { CONNECTIONS_MAX = 16, BACKLOG = 32 };

static atomic_int n_connections;

static void echo(const struct peer *p)
{
    char message[PEER_MESSAGE_BYTES];

    while (peer_receive(p, message, sizeof message) == OSP_OK &&
           peer_send(p, message, sizeof message) == OSP_OK)
        continue;
}

static void sink(const struct peer *p, char *block)
{
    uint64_t n_bytes = 0;
    unsigned char count[8];
    ssize_t n;

    while (clock_ns() < p->deadline_ns && (n = recv(p->fd, block, PEER_BLOCK_BYTES, 0)) > 0)
        n_bytes += (uint64_t)n;
    for (int i = 0; i < 8; i++)
        count[i] = (unsigned char)(n_bytes >> (56 - 8 * i));
    (void)!peer_send(p, count, sizeof count);
}

static void source(const struct peer *p, char *block)
{
    while (peer_send(p, block, PEER_BLOCK_BYTES) == OSP_OK)
        continue;
}

static void serve(int fd)
{
    const struct peer p = {fd, clock_ns() + (uint64_t)PEER_CONNECTION_MS * 1000000};
    struct peer_hello hello, answer;
    char *block;

    peer_set_limits(fd);
    if (peer_receive(&p, &hello, sizeof hello) != OSP_OK || peer_hello_check(&hello) != OSP_OK)
        return; /* a port scanner, or a doctor of another version */
    peer_hello_fill(&answer, (enum peer_mode)hello.mode);
    if (peer_send(&p, &answer, sizeof answer) != OSP_OK)
        return;
    block = mem_new(PEER_BLOCK_BYTES);
    if (hello.mode == PEER_ECHO)
        echo(&p);
    else if (hello.mode == PEER_SINK)
        sink(&p, block);
    else
        source(&p, block);
    free(block);
}

static void *connection_main(void *arg)
{
    const int fd = (int)(intptr_t)arg;

    serve(fd);
    close(fd);
    atomic_fetch_sub(&n_connections, 1);
    return NULL;
}

/* A connection above the limit is closed at once. */
static void begin_connection(int fd)
{
    pthread_t thread;

    if (atomic_fetch_add(&n_connections, 1) >= CONNECTIONS_MAX ||
        pthread_create(&thread, NULL, connection_main, (void *)(intptr_t)fd) != 0) {
        atomic_fetch_sub(&n_connections, 1);
        close(fd);
        return;
    }
    (void)pthread_detach(thread);
}

/* Prefers IPv6 where no host is given, because that listener takes both. */
static int listen_at(const struct addrinfo *found)
{
    int fd = -1;

    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
        if (a->ai_family == AF_INET6)
            fd = tcp_listen(a->ai_addr, a->ai_addrlen, BACKLOG);
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
        fd = tcp_listen(a->ai_addr, a->ai_addrlen, BACKLOG);
    return fd;
}

static void accept_until(int listener, int stop)
{
    struct pollfd fds[2] = {{.fd = listener, .events = POLLIN}, {.fd = stop, .events = POLLIN}};

    for (;;) {
        int fd;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        if (fds[1].revents != 0)
            return;
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            begin_connection(fd);
    }
}

enum osp_status peer_listen(const char *host, int port, int stop)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    char text[16];
    int listener, error;

    snprintf(text, sizeof text, "%d", port);
    error = getaddrinfo(host, text, &hints, &found);
    if (error != 0)
        return fail(OSP_EINVAL, "--host %s: %s", host, gai_strerror(error));
    listener = listen_at(found);
    error = errno;
    freeaddrinfo(found);
    if (listener < 0)
        return fail(OSP_EUNAVAILABLE, "port %d of %s: %s", port, host ? host : "all addresses",
                    strerror(error));
    printf("listening on port %d of %s until Ctrl-C; on the other host: osprey doctor --peer "
           "THIS-HOST:%d\n",
           tcp_port(listener), host ? host : "all addresses", tcp_port(listener));
    fflush(stdout);
    accept_until(listener, stop);
    close(listener);
    return OSP_OK;
}
