#include "dist/rank_message.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/memory.h"

enum { POLL_MS = 100 }; /* between two looks at is_stopped */

struct head {
    uint32_t magic;
    int32_t kind;
    uint64_t n_bytes;
};
static const uint32_t MAGIC = 0x4b4e524f; /* "ORNK" */

static const char *kind_name(int kind)
{
    static const char *const names[N_RANK_MESSAGES] = {
#define RANK_MESSAGE_NAME(kind, text) #kind,
        RANK_MESSAGE_LIST(RANK_MESSAGE_NAME)
#undef RANK_MESSAGE_NAME
    };

    return kind >= 0 && kind < N_RANK_MESSAGES ? names[kind] : "an unknown message";
}

/* Until the socket is ready; end_ns: UINT64_MAX is never. The limits are checked before every wait:
 * the end of a whole message also holds for a peer that moves a few bytes at a time. */
static enum osp_status wait_until(int fd, short events, uint64_t end_ns,
                                  const atomic_bool *is_stopped)
{
    struct pollfd p = {.fd = fd, .events = events};

    do {
        if (is_stopped != NULL && atomic_load(is_stopped))
            return fail(OSP_ETIMEOUT, "the connection to a rank was given up");
        if (clock_ns() >= end_ns)
            return fail(OSP_ETIMEOUT, "a rank did not answer in time");
    } while (poll(&p, 1, POLL_MS) <= 0);
    return OSP_OK;
}

static uint64_t end_of(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ms * 1000000u;
}

static bool is_retried(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

enum osp_status rank_send(int fd, enum rank_message_kind kind, const void *data, size_t n_bytes,
                          int timeout_ms, const atomic_bool *is_stopped)
{
    struct head head = {.magic = MAGIC, .kind = (int32_t)kind, .n_bytes = n_bytes};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)data, n_bytes}};
    const uint64_t end_ns = end_of(timeout_ms);
    enum osp_status st = OSP_OK;

    while (parts[0].iov_len + parts[1].iov_len > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (is_retried(n)) {
            TRY(wait_until(fd, POLLOUT, end_ns, is_stopped));
            continue;
        }
        if (n < 0)
            return fail(OSP_EIO, "the connection to a rank is closed: %s", strerror(errno));
        for (int i = 0; i < 2; i++) {
            const size_t part = (size_t)n < parts[i].iov_len ? (size_t)n : parts[i].iov_len;

            parts[i].iov_base = (char *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            n -= (ssize_t)part;
        }
    }
out:
    return st;
}

static enum osp_status receive_bytes(int fd, void *out, size_t n_bytes, uint64_t end_ns,
                                     const atomic_bool *is_stopped)
{
    char *to = out;
    enum osp_status st = OSP_OK;

    while (n_bytes > 0) {
        const ssize_t n = recv(fd, to, n_bytes, MSG_DONTWAIT);

        if (is_retried(n)) {
            TRY(wait_until(fd, POLLIN, end_ns, is_stopped));
            continue;
        }
        if (n <= 0)
            return fail(OSP_EIO, "the connection to a rank is closed");
        to += n;
        n_bytes -= (size_t)n;
    }
out:
    return st;
}

static enum osp_status reserve(struct rank_message *m, size_t n_bytes)
{
    enum osp_status st = OSP_OK;

    if (n_bytes <= m->capacity_bytes)
        return OSP_OK;
    free(m->data);
    m->data = NULL;
    m->capacity_bytes = 0;
    TRY(mem_try_aligned(&m->data, n_bytes, 1, "a message of a rank"));
    m->capacity_bytes = n_bytes;
out:
    return st;
}

/* What the sender says, before anything is allocated for it. */
static enum osp_status check_head(const struct head *head, size_t n_bytes_max)
{
    if (head->magic != MAGIC || head->kind < 0 || head->kind >= N_RANK_MESSAGES)
        return fail(OSP_EFORMAT, "a connection between ranks: the message header is not valid");
    if (head->n_bytes > n_bytes_max)
        return fail(OSP_EFORMAT, "a rank sent %s of %llu bytes, expected at most %zu",
                    kind_name(head->kind), (unsigned long long)head->n_bytes, n_bytes_max);
    return OSP_OK;
}

enum osp_status rank_receive(int fd, struct rank_message *m, size_t n_bytes_max, int timeout_ms,
                             const atomic_bool *is_stopped)
{
    const uint64_t end_ns = end_of(timeout_ms);
    struct head head;
    enum osp_status st;

    TRY(receive_bytes(fd, &head, sizeof head, end_ns, is_stopped));
    TRY(check_head(&head, n_bytes_max));
    TRY(reserve(m, head.n_bytes));
    TRY(receive_bytes(fd, m->data, head.n_bytes, end_ns, is_stopped));
    m->kind = (enum rank_message_kind)head.kind;
    m->n_bytes = head.n_bytes;
out:
    return st;
}

enum osp_status rank_expect(int fd, enum rank_message_kind kind, void *out, size_t n_bytes,
                            int timeout_ms)
{
    /* Before the join the peer may be any program, whose text is not to be believed. */
    const bool may_refuse = kind != RANK_JOIN;
    const size_t n_bytes_max =
        may_refuse && n_bytes < FAIL_MESSAGE_BYTES_MAX ? FAIL_MESSAGE_BYTES_MAX : n_bytes;
    struct rank_message m = {.data = NULL};
    enum osp_status st;

    TRY(rank_receive(fd, &m, n_bytes_max, timeout_ms, NULL));
    if (may_refuse && (m.kind == RANK_REFUSED || m.kind == RANK_FAILED))
        st = fail(OSP_EUNAVAILABLE, "%.*s", (int)m.n_bytes, (const char *)m.data);
    else if (m.kind != kind || m.n_bytes != n_bytes)
        st = fail(OSP_EFORMAT, "a rank sent %s of %zu bytes, expected %s of %zu",
                  kind_name((int)m.kind), m.n_bytes, kind_name((int)kind), n_bytes);
    else if (n_bytes > 0)
        memcpy(out, m.data, n_bytes);
out:
    rank_message_release(&m);
    return st;
}

bool rank_message_has_come(int fd, size_t n_bytes)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    int n_waiting = 0;

    return poll(&p, 1, 0) > 0 || ioctl(fd, FIONREAD, &n_waiting) != 0 ||
           (size_t)n_waiting >= sizeof(struct head) + n_bytes;
}

void rank_message_release(struct rank_message *m)
{
    free(m->data);
    *m = (struct rank_message){.data = NULL};
}
