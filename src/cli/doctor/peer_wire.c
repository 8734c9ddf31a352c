#include "cli/doctor/peer_wire.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "osprey.h"

static_assert(sizeof(struct peer_hello) == 56, "no padding");
static_assert(sizeof PEER_MAGIC == 16, "the magic fills its field");

void peer_hello_fill(struct peer_hello *out, enum peer_mode mode)
{
    memset(out, 0, sizeof *out);
    memcpy(out->magic, PEER_MAGIC, sizeof out->magic);
    out->mode = (char)mode;
    snprintf(out->version, sizeof out->version, "%s", OSP_VERSION);
}

enum osp_status peer_hello_check(struct peer_hello *hello)
{
    hello->version[sizeof hello->version - 1] = '\0';
    if (memcmp(hello->magic, PEER_MAGIC, sizeof hello->magic) != 0)
        return fail(OSP_EFORMAT, "the other end is no `osprey doctor` of this version");
    if (strchr("esr", hello->mode) == NULL || hello->mode == '\0')
        return fail(OSP_EFORMAT, "measurement '%c' is unknown, expected e, s or r", hello->mode);
    return OSP_OK;
}

void peer_set_limits(int fd)
{
    const struct timeval limit = {.tv_sec = PEER_TIMEOUT_MS / 1000};
    const int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static enum osp_status fail_transfer(ssize_t n)
{
    if (n == 0 || errno == ECONNRESET || errno == EPIPE)
        return fail(OSP_EUNAVAILABLE, "the other end has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return fail(OSP_ETIMEOUT, "nothing came for %d s", PEER_TIMEOUT_MS / 1000);
    return fail(OSP_EIO, "%s", strerror(errno));
}

/* After one send() or recv(): whether to go on. */
static enum osp_status advance(const struct peer *p, ssize_t n, size_t *done)
{
    if (n < 0 && errno == EINTR)
        return OSP_OK;
    if (n <= 0)
        return fail_transfer(n);
    *done += (size_t)n;
    return clock_ns() < p->deadline_ns ? OSP_OK
                                       : fail(OSP_ETIMEOUT, "the measurement takes too long");
}

enum osp_status peer_send(const struct peer *p, const void *data, size_t n_bytes)
{
    enum osp_status st = OSP_OK;

    for (size_t done = 0; done < n_bytes && st == OSP_OK;)
        st =
            advance(p, send(p->fd, (const char *)data + done, n_bytes - done, MSG_NOSIGNAL), &done);
    return st;
}

enum osp_status peer_receive(const struct peer *p, void *data, size_t n_bytes)
{
    enum osp_status st = OSP_OK;

    for (size_t done = 0; done < n_bytes && st == OSP_OK;)
        st = advance(p, recv(p->fd, (char *)data + done, n_bytes - done, 0), &done);
    return st;
}
