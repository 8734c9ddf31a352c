#include "dist/rank_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tcp.h"

enum {
    BACKLOG = 64,        /* connections of all ranks at once */
    RETRY_MS = 50,       /* between two tries to connect */
    CONNECT_S_MAX = 5,   /* for one try */
    HOST_BYTES_MAX = 256 /* a name of DNS has at most 253 */
};

static enum osp_status unix_address(struct sockaddr_un *out, socklen_t *n_bytes,
                                    const char *address)
{
    const size_t n = strlen(address); /* with the @, in whose place is a NUL */

    if (n > sizeof out->sun_path)
        return fail(OSP_EINVAL, "rank address \"%s\": has %zu bytes, expected at most %zu", address,
                    n, sizeof out->sun_path);
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, address + 1, n - 1);
    *n_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return OSP_OK;
}

/* The addresses of HOST:PORT, to freeaddrinfo(). An IPv6 address may have brackets. */
static enum osp_status resolve(struct addrinfo **out, const char *address, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    const char *colon = strrchr(address, ':');
    const bool has_brackets = address[0] == '[' && colon != NULL && colon[-1] == ']';
    char host[HOST_BYTES_MAX];
    int error;

    if (colon == NULL || (size_t)(colon - address) >= sizeof host || colon == address)
        return fail(OSP_EINVAL, "rank address \"%s\": expected HOST:PORT", address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * has_brackets,
             address + has_brackets);
    error = getaddrinfo(host, colon + 1, &hints, out);
    return error == 0
               ? OSP_OK
               : fail(OSP_EUNAVAILABLE, "rank address \"%s\": %s", address, gai_strerror(error));
}

/* A step's messages are short and are waited for. */
static void set_no_delay(int fd)
{
    const int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static enum osp_status listen_at(int *out, const struct sockaddr *a, socklen_t n, const char *text)
{
    const int fd = tcp_listen(a, n, BACKLOG);

    if (fd < 0)
        return fail(OSP_EUNAVAILABLE, "a rank cannot listen at %s: %s", text, strerror(errno));
    *out = fd;
    return OSP_OK;
}

enum osp_status rank_listen(int *out, const char *address, char actual[RANK_ADDRESS_BYTES])
{
    struct addrinfo *found = NULL;
    struct sockaddr_un local;
    enum osp_status st;

    snprintf(actual, RANK_ADDRESS_BYTES, "%s", address);
    if (address[0] == '@') {
        socklen_t n;

        TRY(unix_address(&local, &n, address));
        return listen_at(out, (const struct sockaddr *)&local, n, address);
    }
    TRY(resolve(&found, address, AI_PASSIVE));
    st = listen_at(out, found->ai_addr, found->ai_addrlen, address);
    freeaddrinfo(found);
    if (st == OSP_OK)
        snprintf(actual, RANK_ADDRESS_BYTES, "%.*s:%d", (int)(strrchr(address, ':') - address),
                 address, tcp_port(*out));
out:
    return st;
}

enum osp_status rank_listen_beside(int *out, int *port, int connection)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    enum osp_status st;

    if (getsockname(connection, (struct sockaddr *)&a, &n) != 0)
        return fail(OSP_EUNAVAILABLE, "the address of a rank's connection: %s", strerror(errno));
    if (a.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&a)->sin_port = 0;
    TRY(listen_at(out, (struct sockaddr *)&a, n, "the address of its connection to rank 0"));
    *port = tcp_port(*out);
out:
    return st;
}

bool rank_is_local(int listener)
{
    enum { LOOPBACK_NET = 127 };
    struct sockaddr_storage a;
    socklen_t n = sizeof a;

    if (getsockname(listener, (struct sockaddr *)&a, &n) != 0)
        return false;
    if (a.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&a)->sin6_addr);
    return a.ss_family == AF_UNIX ||
           ntohl(((struct sockaddr_in *)&a)->sin_addr.s_addr) >> 24 == LOOPBACK_NET;
}

static int connect_to(const struct sockaddr *a, socklen_t n)
{
    const struct timeval limit = {.tv_sec = CONNECT_S_MAX};
    int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
        connect(fd, a, n) == 0) {
        if (a->sa_family != AF_UNIX)
            set_no_delay(fd);
        return fd;
    }
    if (errno == EINPROGRESS || errno == EAGAIN) /* of connect() by TCP and by a Unix socket */
        errno = ETIMEDOUT;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Gives a connected socket, -1 included, and closes one whose other end is another user's. */
static enum osp_status take_own(int *out, int fd)
{
    struct sockaddr_storage a;
    socklen_t n_address = sizeof a, n = sizeof(struct ucred);
    struct ucred peer;

    *out = -1;
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&a, &n_address) == 0 &&
        a.ss_family == AF_UNIX &&
        (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 || peer.uid != geteuid())) {
        close(fd);
        return fail(OSP_EUNAVAILABLE,
                    "the other end of a rank's Unix socket belongs to another user, expected user "
                    "%u",
                    (unsigned)geteuid());
    }
    *out = fd;
    return OSP_OK;
}

static enum osp_status try_connect(int *out, const char *address)
{
    struct addrinfo *found = NULL;
    struct sockaddr_un local;
    enum osp_status st;

    *out = -1;
    if (address[0] == '@') {
        socklen_t n;

        TRY(unix_address(&local, &n, address));
        return take_own(out, connect_to((const struct sockaddr *)&local, n));
    }
    TRY(resolve(&found, address, 0));
    for (const struct addrinfo *a = found; a != NULL && *out < 0; a = a->ai_next)
        *out = connect_to(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
out:
    return st;
}

enum osp_status rank_connect(int *out, const char *address, int timeout_ms)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)timeout_ms * 1000000u;
    enum osp_status st;

    for (;;) {
        st = try_connect(out, address);
        if (st == OSP_EINVAL || (st == OSP_OK && *out >= 0))
            return st;
        if (clock_ns() >= end_ns)
            break;
        (void)poll(NULL, 0, RETRY_MS);
    }
    return st != OSP_OK ? st
                        : fail(OSP_EUNAVAILABLE, "rank 0 does not answer at %s within %d s: %s",
                               address, timeout_ms / 1000, strerror(errno));
}

enum osp_status rank_accept(int *out, int listener, int timeout_ms)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};

    if (poll(&p, 1, timeout_ms) <= 0)
        return fail(OSP_ETIMEOUT, "no rank has connected");
    *out = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*out < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR))
        return fail(OSP_ETIMEOUT, "no rank has connected");
    if (*out < 0)
        return fail(OSP_EUNAVAILABLE, "a rank's connection: %s", strerror(errno));
    set_no_delay(*out); /* has no effect on a Unix socket */
    return take_own(out, *out);
}

void rank_peer_host(int fd, char out[64])
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;

    out[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&a, &n) != 0 || a.ss_family == AF_UNIX ||
        getnameinfo((struct sockaddr *)&a, n, out, 64, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}
