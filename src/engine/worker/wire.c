#include "engine/worker/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

enum { READ_BYTES = 64 << 10, USUAL_BYTES = 2 * READ_BYTES };

struct frame_head {
    uint32_t kind, n_bytes;
};

const char *frame_name(enum frame_kind kind)
{
    static const char *const names[] = {
#define FRAME_NAME(member, text) #member,
        FRAME_LIST(FRAME_NAME)
#undef FRAME_NAME
    };

    return (unsigned)kind < N_FRAME_KINDS ? names[kind] : "unknown frame";
}

/* ---- hello ---- */

struct wire_hello wire_hello_make(void)
{
#define WIRE_SIZE(type) .type = (int32_t)sizeof(struct type),
    return (struct wire_hello){.version = WIRE_VERSION,
                               .log_level = (int32_t)log_get_level(),
                               .log_format = (int32_t)log_get_format(),
                               .sizes = {WIRE_STRUCT_LIST(WIRE_SIZE)}};
#undef WIRE_SIZE
}

enum osp_status wire_hello_check(const struct wire_hello *h)
{
    const struct wire_hello own = wire_hello_make();

    if (h->version != own.version)
        return fail(OSP_EFORMAT, "worker protocol: the worker has version %d, its parent %d",
                    (int)own.version, (int)h->version);
    if (memcmp(&h->sizes, &own.sizes, sizeof own.sizes) != 0)
        return fail(OSP_EFORMAT,
                    "worker protocol: the worker and its parent are different builds of osprey");
    return OSP_OK;
}

/* ---- sending ---- */

void wire_init(struct wire *w, int fd)
{
    *w = (struct wire){.fd = fd};
    buf_init(&w->in, FRAME_BYTES_MAX + sizeof(struct frame_head) + READ_BYTES);
    buf_init(&w->out, WIRE_QUEUE_BYTES_MAX);
    (void)buf_reserve(
        &w->in,
        USUAL_BYTES); /* allocated now, so that memory pressure later does not end the connection */
    (void)buf_reserve(&w->out, USUAL_BYTES);
}

void wire_release(struct wire *w)
{
    if (w->fd >= 0)
        close(w->fd);
    buf_release(&w->in);
    buf_release(&w->out);
    w->fd = -1;
}

void wire_begin(struct wire *w, enum frame_kind kind)
{
    struct frame_head head = {.kind = kind};

    w->frame_from = w->out.size_bytes;
    wire_put(w, &head, sizeof head);
}

void wire_put(struct wire *w, const void *data, size_t n_bytes)
{
    buf_append(&w->out, data, n_bytes);
}

enum osp_status wire_end(struct wire *w)
{
    size_t n_bytes = w->out.size_bytes - w->frame_from - sizeof(struct frame_head);
    uint32_t n = (uint32_t)n_bytes;

    if (w->out.overflow || n_bytes > FRAME_BYTES_MAX) {
        w->out.size_bytes = w->frame_from;
        w->out.overflow = false;
        return fail(OSP_ENOMEM, "worker protocol: the queue of frames to send is full");
    }
    memcpy(w->out.data + w->frame_from + offsetof(struct frame_head, n_bytes), &n, sizeof n);
    return OSP_OK;
}

bool wire_has_output(const struct wire *w)
{
    return w->n_sent < w->out.size_bytes;
}

/* A queue that is never empty must still drop what was sent. */
static void forget_sent(struct wire *w)
{
    if (w->n_sent < READ_BYTES || w->n_sent < w->out.size_bytes / 2)
        return;
    w->out.size_bytes -= w->n_sent;
    memmove(w->out.data, w->out.data + w->n_sent, w->out.size_bytes);
    w->n_sent = 0;
}

enum osp_status wire_flush(struct wire *w)
{
    forget_sent(w);
    while (wire_has_output(w)) {
        ssize_t n =
            send(w->fd, w->out.data + w->n_sent, w->out.size_bytes - w->n_sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return OSP_OK;
        if (n < 0)
            return fail(OSP_EIO, "the worker's socket: %s", strerror(errno));
        w->n_sent += (size_t)n;
    }
    buf_clear(&w->out);
    w->n_sent = 0;
    return OSP_OK;
}

/* ---- receiving ---- */

/* Drops the bytes that were taken. */
static void forget_taken(struct wire *w)
{
    if (w->n_taken == 0)
        return;
    memmove(w->in.data, w->in.data + w->n_taken, w->in.size_bytes - w->n_taken);
    w->in.size_bytes -= w->n_taken;
    w->n_taken = 0;
}

enum osp_status wire_fill(struct wire *w)
{
    char block[READ_BYTES];
    ssize_t n;

    forget_taken(w);
    do
        n = recv(w->fd, block, sizeof block, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return OSP_OK;
    if (n < 0)
        return fail(OSP_EIO, "the worker's socket: %s", strerror(errno));
    if (n == 0)
        return fail(OSP_EIO, "the worker's socket was closed");
    if (!buf_append(&w->in, block, (size_t)n))
        return fail(OSP_ENOMEM, "worker protocol: no memory for a received frame");
    return OSP_OK;
}

bool wire_next(struct wire *w, struct frame *out, enum osp_status *st)
{
    size_t n_left = w->in.size_bytes - w->n_taken;
    struct frame_head head;

    *st = OSP_OK;
    if (n_left < sizeof head)
        return false;
    memcpy(&head, w->in.data + w->n_taken, sizeof head);
    if (head.kind >= N_FRAME_KINDS || head.n_bytes > FRAME_BYTES_MAX) {
        *st = fail(OSP_EFORMAT, "worker protocol: invalid frame of kind %u with %u bytes",
                   head.kind, head.n_bytes);
        return false;
    }
    if (n_left - sizeof head < head.n_bytes)
        return false;
    *out = (struct frame){.kind = (enum frame_kind)head.kind,
                          .at = w->in.data + w->n_taken + sizeof head,
                          .n_left = head.n_bytes};
    w->n_taken += sizeof head + head.n_bytes;
    return true;
}

const void *frame_view(struct frame *f, size_t n_bytes)
{
    const char *at = f->at;

    if (f->is_bad || n_bytes > f->n_left) {
        f->is_bad = true;
        return NULL;
    }
    f->at += n_bytes;
    f->n_left -= n_bytes;
    return at;
}

void frame_take(struct frame *f, void *out, size_t n_bytes)
{
    const void *at = frame_view(f, n_bytes);

    if (at != NULL)
        memcpy(out, at, n_bytes);
    else
        memset(out, 0, n_bytes);
}

enum osp_status frame_end(const struct frame *f)
{
    if (f->is_bad)
        return fail(OSP_EFORMAT, "worker protocol: %s is too short", frame_name(f->kind));
    if (f->n_left > 0)
        return fail(OSP_EFORMAT, "worker protocol: %s is %zu bytes too long", frame_name(f->kind),
                    f->n_left);
    return OSP_OK;
}
