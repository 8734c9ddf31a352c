#include "engine/kv_events/kv_publisher.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/kv_events/kv_pack.h"
#include "engine/kv_events/zmq_library.h"

enum {
    BUFFER_STEPS_DEFAULT = 10000,
    BUFFER_STEPS_MAX = 1000000,
    HWM_DEFAULT = 100000,
    HWM_MAX = 10000000,
    QUEUE_DEFAULT = 100000,
    QUEUE_MAX = 10000000,
    QUEUE_BYTES_MAX = 64 << 20,   /* of changes that wait to be packed */
    BUFFER_BYTES_MAX = 256 << 20, /* of packed batches that can be sent again */
    BATCH_BYTES_MAX = 256 << 20,  /* of one: the pages of a step, with their tokens */
    SEQUENCE_BYTES = 8,
    IDENTITY_BYTES_MAX = 256, /* of a client, as it says or libzmq assigns it */
    REQUEST_BYTES_MAX = 64,   /* of a frame of a replay request: more is not valid */
    BAD_LOG_S = 10,           /* between two lines of the log about invalid requests */
    GREETING_BYTES_MAX = 512, /* of a client: its kind, an identity, what it says of itself */
    TOPIC_BYTES_MAX = 1024,
    SUBSCRIPTION_BYTES_MAX = TOPIC_BYTES_MAX + GREETING_BYTES_MAX,
    SUBSCRIPTION_BYTES = 64,           /* of one, beside its topic */
    SUBSCRIPTIONS_BYTES_MAX = 1 << 20, /* of all that differ: libzmq keeps 35 times as much */
    READ_AT_ONCE = 1000,               /* changes of subscriptions, then batches are sent */
    REOPEN_MS = 100                    /* between two attempts to open the socket again */
};
static const char NO_SEQUENCE[SEQUENCE_BYTES] = {-1, -1, -1, -1, -1, -1, -1, -1};

/* Changes of one step. */
struct step {
    struct step *next;
    struct prefix_log log;
    bool is_cleared;
    double unix_seconds;
};

/* A batch that was sent. */
struct kept {
    uint64_t sequence;
    size_t n_bytes;
    zmq_msg_t payload;
};

struct kv_publisher {
    const struct zmq_library *zmq;
    int buffer_steps, hwm, queue_max;
    char *endpoint, *replay_endpoint, *topic;
    int rank;
    void *context, *replay;
    void *pub_context, *pub; /* a context of its own: it ends when all of the socket is closed */
    pthread_t thread;
    int wake[2]; /* a pipe */

    pthread_mutex_t lock; /* of what follows */
    struct step *first, **last;
    int n_steps;
    size_t n_bytes;
    bool is_cleared; /* changes were dropped, or there were none yet */
    bool is_closing;
    _Atomic int64_t n_batches, n_dropped;

    /* used by the thread alone */
    uint64_t sequence;
    bool has_gap;      /* a batch could not be sent: AllBlocksCleared comes next */
    struct kept *kept; /* (buffer_steps) a ring */
    size_t kept_first, n_kept, kept_bytes;
    int64_t subscribed_bytes; /* of subscriptions that differ */
    int64_t n_bad;            /* invalid replay requests since the last line of the log about one */
    uint64_t bad_logged_ns;
};

/* ---- endpoints ---- */

/* Digits behind the last colon, with the rank added. */
static enum osp_status next_port(char **out, const char *endpoint, int rank)
{
    const char *colon = strrchr(endpoint, ':');
    char *end = NULL;
    long port;

    errno = 0;
    port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
    if (colon == NULL || end == colon + 1 || *end != '\0' || errno != 0 || port < 1 ||
        port > 65535 - rank)
        return fail(OSP_EINVAL,
                    "kv events: endpoint \"%s\": replica %d needs the port that is %d higher; end "
                    "it with a port from 1 to %d",
                    endpoint, rank, rank, 65535 - rank);
    *out = mem_printf("%.*s:%ld", (int)(colon - endpoint), endpoint, port + rank);
    return OSP_OK;
}

enum osp_status kv_endpoint_of(char **out, const char *endpoint, int rank)
{
    *out = NULL;
    if (endpoint == NULL)
        return OSP_OK;
    if (rank == 0) {
        *out = mem_strdup(endpoint);
        return OSP_OK;
    }
    if (strstr(endpoint, "inproc") != NULL) {
        *out = mem_printf("%s_dp%d", endpoint, rank);
        return OSP_OK;
    }
    if (strncmp(endpoint, "tcp://", strlen("tcp://")) == 0)
        return next_port(out, endpoint, rank);
    return fail(OSP_EINVAL,
                "kv events: endpoint \"%s\": several replicas need one that begins with tcp://",
                endpoint);
}

/* vLLM's rule: wildcard and local endpoints are bound; any other is a router's, to connect to. */
static bool is_bound(const char *endpoint)
{
    return strchr(endpoint, '*') != NULL || strstr(endpoint, "::") != NULL ||
           strncmp(endpoint, "ipc://", strlen("ipc://")) == 0 ||
           strncmp(endpoint, "inproc://", strlen("inproc://")) == 0;
}

/* ---- sockets ---- */

static enum osp_status zmq_failed(const struct kv_publisher *p, const char *what,
                                  const char *endpoint)
{
    return fail(OSP_EUNAVAILABLE, "kv events: cannot %s %s: %s", what, endpoint,
                p->zmq->zmq_strerror(p->zmq->zmq_errno()));
}

static void set_int(const struct kv_publisher *p, void *socket, int option, int value)
{
    (void)p->zmq->zmq_setsockopt(socket, option, &value, sizeof value);
}

/* libzmq keeps all of a message until its end has come: it drops clients that send more than
 * received_bytes_max. */
static void *new_socket(const struct kv_publisher *p, void *context, int type, int hwm,
                        int64_t received_bytes_max)
{
    void *socket = context != NULL ? p->zmq->zmq_socket(context, type) : NULL;

    if (socket == NULL)
        return NULL;
    set_int(p, socket, ZMQ_SNDHWM, hwm);
    set_int(p, socket, ZMQ_LINGER, 0);
    set_int(p, socket, ZMQ_IPV6, 1);
    (void)p->zmq->zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &received_bytes_max,
                                 sizeof received_bytes_max);
    return socket;
}

static void close_pub(struct kv_publisher *p)
{
    if (p->pub != NULL)
        (void)p->zmq->zmq_close(p->pub);
    if (p->pub_context != NULL)
        (void)p->zmq->zmq_ctx_term(p->pub_context);
    p->pub = p->pub_context = NULL;
    p->subscribed_bytes = 0;
}

/* An XPUB socket is a PUB socket that also gives the subscriptions to this program. */
static enum osp_status open_pub(struct kv_publisher *p)
{
    const bool binds = is_bound(p->endpoint);
    enum osp_status st;

    p->pub_context = p->zmq->zmq_ctx_new();
    p->pub = new_socket(p, p->pub_context, ZMQ_XPUB, p->hwm, SUBSCRIPTION_BYTES_MAX);
    if (p->pub != NULL)
        set_int(p, p->pub, ZMQ_RCVHWM, 1); /* libzmq reads all that waits before it returns */
    if (p->pub == NULL)
        st = zmq_failed(p, "open a socket for", p->endpoint);
    else if ((binds ? p->zmq->zmq_bind(p->pub, p->endpoint)
                    : p->zmq->zmq_connect(p->pub, p->endpoint)) != 0)
        st = zmq_failed(p, binds ? "bind" : "connect to", p->endpoint);
    else
        return OSP_OK;
    close_pub(p);
    return st;
}

/* The queue to a client that does not read is limited to the kept batches; more are dropped. */
static enum osp_status open_replay(struct kv_publisher *p)
{
    if (p->replay_endpoint == NULL)
        return OSP_OK;
    p->replay = new_socket(p, p->context, ZMQ_ROUTER, p->buffer_steps + 2, GREETING_BYTES_MAX);
    if (p->replay == NULL)
        return zmq_failed(p, "open a socket for", p->replay_endpoint);
    set_int(p, p->replay, ZMQ_ROUTER_MANDATORY, 1);
    if (p->zmq->zmq_bind(p->replay, p->replay_endpoint) != 0)
        return zmq_failed(p, "bind", p->replay_endpoint);
    return OSP_OK;
}

/* ---- batches ---- */

static void drop_oldest(struct kv_publisher *p)
{
    struct kept *k = &p->kept[p->kept_first];

    (void)p->zmq->zmq_msg_close(&k->payload);
    p->kept_bytes -= k->n_bytes;
    p->kept_first = (p->kept_first + 1) % (size_t)p->buffer_steps;
    p->n_kept--;
}

/* Takes the message. */
static void keep(struct kv_publisher *p, zmq_msg_t *payload, size_t n_bytes)
{
    struct kept *k;

    if (p->replay == NULL) {
        (void)p->zmq->zmq_msg_close(payload);
        return;
    }
    while (p->n_kept > 0 &&
           (p->n_kept == (size_t)p->buffer_steps || p->kept_bytes + n_bytes > BUFFER_BYTES_MAX))
        drop_oldest(p);
    k = &p->kept[(p->kept_first + p->n_kept++) % (size_t)p->buffer_steps];
    k->sequence = p->sequence;
    k->n_bytes = n_bytes;
    (void)p->zmq->zmq_msg_init(&k->payload);
    (void)p->zmq->zmq_msg_move(&k->payload, payload);
    p->kept_bytes += n_bytes;
}

static void put_sequence(unsigned char out[SEQUENCE_BYTES], uint64_t sequence)
{
    for (int i = 0; i < SEQUENCE_BYTES; i++)
        out[i] = (unsigned char)(sequence >> (8 * (SEQUENCE_BYTES - 1 - i)));
}

/* False: the receiver is gone, or has too much unread. */
static bool send_copy(struct kv_publisher *p, void *socket, zmq_msg_t *payload)
{
    zmq_msg_t copy;

    (void)p->zmq->zmq_msg_init(&copy);
    if (p->zmq->zmq_msg_copy(&copy, payload) == 0 &&
        p->zmq->zmq_msg_send(&copy, socket, ZMQ_DONTWAIT) >= 0)
        return true;
    (void)p->zmq->zmq_msg_close(&copy);
    return false;
}

/* False: no memory, or too many bytes. */
static bool pack(const struct kv_publisher *p, const struct step *s, zmq_msg_t *payload,
                 size_t *n_bytes)
{
    const struct kv_batch batch = {.unix_seconds = s->unix_seconds,
                                   .data_parallel_rank = p->rank,
                                   .is_cleared = s->is_cleared || p->has_gap,
                                   .changes = s->log.changes,
                                   .n_changes = s->log.n};
    struct buf packed;
    bool is_packed;

    buf_init(&packed, BATCH_BYTES_MAX);
    kv_pack(&packed, &batch);
    is_packed = !packed.overflow && p->zmq->zmq_msg_init_size(payload, packed.size_bytes) == 0;
    if (is_packed)
        memcpy(p->zmq->zmq_msg_data(payload), buf_text(&packed), packed.size_bytes);
    *n_bytes = packed.size_bytes;
    buf_release(&packed);
    return is_packed;
}

static void drop_batch(struct kv_publisher *p, const struct step *s, size_t n_bytes)
{
    p->has_gap = true;
    if (atomic_fetch_add(&p->n_dropped, (int64_t)s->log.n) == 0)
        log_warn("kv events: a batch of %zu changes (%zu bytes packed, limit is %d) could not be "
                 "packed; its changes are dropped, and the next batch says that no block is known",
                 s->log.n, n_bytes, BATCH_BYTES_MAX);
}

static void publish(struct kv_publisher *p, const struct step *s)
{
    unsigned char sequence[SEQUENCE_BYTES];
    zmq_msg_t payload;
    size_t n_bytes;

    if (!pack(p, s, &payload, &n_bytes)) {
        drop_batch(p, s, n_bytes);
        return;
    }
    p->has_gap = false;
    put_sequence(sequence, p->sequence);
    if (p->pub != NULL && p->zmq->zmq_send(p->pub, p->topic, strlen(p->topic), ZMQ_SNDMORE) >= 0 &&
        p->zmq->zmq_send(p->pub, sequence, sizeof sequence, ZMQ_SNDMORE) >= 0)
        (void)send_copy(p, p->pub, &payload);
    keep(p, &payload, n_bytes);
    p->sequence++;
    atomic_fetch_add(&p->n_batches, 1);
}

/* ---- subscriptions ---- */

/* The next change of the table of subscriptions: a byte, 1 for a new topic and 0 for one without
 * subscribers, and the topic. Other messages of subscribers are ignored. False: there is none. */
static bool read_subscription(struct kv_publisher *p)
{
    char kind;
    const int n_bytes = p->zmq->zmq_recv(p->pub, &kind, sizeof kind, ZMQ_DONTWAIT);

    if (n_bytes > 0 && kind == 1)
        p->subscribed_bytes += n_bytes + SUBSCRIPTION_BYTES;
    else if (n_bytes > 0 && kind == 0)
        p->subscribed_bytes -= n_bytes + SUBSCRIPTION_BYTES;
    return n_bytes >= 0;
}

/* libzmq keeps any number of subscriptions, and cannot disconnect one subscriber. Above the limit
 * the socket is opened again: all subscribers are disconnected, and connect again by themselves. */
static void limit_subscriptions(struct kv_publisher *p)
{
    if (p->pub == NULL) {
        if (open_pub(p) != OSP_OK)
            log_debug("%s", fail_message());
        return;
    }
    for (int i = 0; i < READ_AT_ONCE && p->subscribed_bytes <= SUBSCRIPTIONS_BYTES_MAX; i++)
        if (!read_subscription(p))
            break;
    if (p->subscribed_bytes <= SUBSCRIPTIONS_BYTES_MAX)
        return;
    log_warn("kv events: subscribers of %s have subscribed to more than %d kB of different topics; "
             "all are disconnected and may connect again",
             p->endpoint, SUBSCRIPTIONS_BYTES_MAX >> 10);
    close_pub(p);
    if (open_pub(p) != OSP_OK)
        log_warn("%s; it is tried again every %d ms", fail_message(), REOPEN_MS);
}

/* ---- replay ---- */

static bool has_more(const struct kv_publisher *p)
{
    int more = 0;
    size_t n_bytes = sizeof more;

    return p->zmq->zmq_getsockopt(p->replay, ZMQ_RCVMORE, &more, &n_bytes) == 0 && more != 0;
}

/* Reads one frame, of which at most n_max bytes are kept. Returns its length; -1: there is none. */
static int read_frame(struct kv_publisher *p, void *out, size_t n_max)
{
    return p->zmq->zmq_recv(p->replay, out, n_max, ZMQ_DONTWAIT);
}

struct replay_request {
    char identity[IDENTITY_BYTES_MAX];
    int n_identity;
    uint64_t sequence;
};

/* Anyone can send them at any rate. */
static void log_bad_request(struct kv_publisher *p, int n_frames, const int n_bytes[3])
{
    const uint64_t now_ns = clock_ns();
    char found[64];

    p->n_bad++;
    if (p->bad_logged_ns != 0 && now_ns - p->bad_logged_ns < (uint64_t)BAD_LOG_S * 1000000000u)
        return;
    snprintf(found, sizeof found, "%d frames", n_frames);
    if (n_frames == 2)
        snprintf(found, sizeof found, "frames of %d and %d bytes", n_bytes[1], n_bytes[2]);
    log_warn("kv events: %lld invalid replay requests, the last one with %s, expected an empty "
             "frame and a sequence number of 8 bytes",
             (long long)p->n_bad, found);
    p->n_bad = 0;
    p->bad_logged_ns = now_ns;
}

/* Frames: who, nothing, 8 bytes. False: no request, or not a valid one. */
static bool read_request(struct kv_publisher *p, struct replay_request *out)
{
    unsigned char bytes[REQUEST_BYTES_MAX];
    int n[3] = {-1, -1, -1}, n_frames = 0;

    n[0] = out->n_identity = read_frame(p, out->identity, sizeof out->identity);
    if (n[0] < 0)
        return false;
    while (has_more(p)) {
        const int n_bytes = read_frame(p, bytes, sizeof bytes);

        if (++n_frames < 3)
            n[n_frames] = n_bytes;
    }
    if (n_frames != 2 || n[0] > IDENTITY_BYTES_MAX || n[1] != 0 || n[2] != SEQUENCE_BYTES) {
        log_bad_request(p, n_frames, n);
        return false;
    }
    out->sequence = 0;
    for (int i = 0; i < SEQUENCE_BYTES; i++)
        out->sequence = out->sequence << 8 | bytes[i];
    return true;
}

static bool send_head(struct kv_publisher *p, const struct replay_request *r, const void *sequence)
{
    const int flags = ZMQ_SNDMORE | ZMQ_DONTWAIT;

    return p->zmq->zmq_send(p->replay, r->identity, (size_t)r->n_identity, flags) >= 0 &&
           p->zmq->zmq_send(p->replay, "", 0, flags) >= 0 &&
           p->zmq->zmq_send(p->replay, sequence, SEQUENCE_BYTES, flags) >= 0;
}

static void answer(struct kv_publisher *p, const struct replay_request *r)
{
    unsigned char sequence[SEQUENCE_BYTES];

    for (size_t i = 0; i < p->n_kept; i++) {
        struct kept *k = &p->kept[(p->kept_first + i) % (size_t)p->buffer_steps];

        if (k->sequence < r->sequence)
            continue;
        put_sequence(sequence, k->sequence);
        if (!send_head(p, r, sequence) || !send_copy(p, p->replay, &k->payload))
            return;
    }
    if (send_head(p, r, NO_SEQUENCE))
        (void)p->zmq->zmq_send(p->replay, "", 0, ZMQ_DONTWAIT);
}

/* ---- the thread ---- */

static struct step *next_step(struct kv_publisher *p, bool *is_closing)
{
    struct step *s;

    pthread_mutex_lock(&p->lock);
    s = p->first;
    *is_closing = p->is_closing;
    if (s != NULL) {
        p->first = s->next;
        if (p->first == NULL)
            p->last = &p->first;
        p->n_steps--;
        p->n_bytes -= s->log.capacity * sizeof *s->log.changes;
    }
    pthread_mutex_unlock(&p->lock);
    return s;
}

static void free_step(struct step *s)
{
    prefix_log_release(&s->log);
    free(s);
}

/* Waits until a batch is queued, subscriptions change or a replay is requested. */
static void wait_for_work(struct kv_publisher *p)
{
    zmq_pollitem_t items[3] = {{.fd = p->wake[0], .events = ZMQ_POLLIN}};
    char block[64];
    int n = 1;

    if (p->pub != NULL)
        items[n++] = (zmq_pollitem_t){.socket = p->pub, .events = ZMQ_POLLIN};
    if (p->replay != NULL)
        items[n++] = (zmq_pollitem_t){.socket = p->replay, .events = ZMQ_POLLIN};
    (void)p->zmq->zmq_poll(items, n, p->pub != NULL ? -1 : REOPEN_MS);
    while (read(p->wake[0], block, sizeof block) > 0)
        continue;
}

static void *run(void *arg)
{
    struct kv_publisher *p = arg;
    struct replay_request request;
    bool is_closing = false;
    struct step *s;

    while (!is_closing) {
        wait_for_work(p);
        limit_subscriptions(p);
        while ((s = next_step(p, &is_closing)) != NULL) {
            publish(p, s);
            free_step(s);
        }
        if (p->replay != NULL && !is_closing && read_request(p, &request))
            answer(p, &request);
    }
    return NULL;
}

/* ---- the engine's side ---- */

static void wake(struct kv_publisher *p)
{
    (void)!write(p->wake[1], "", 1); /* a full pipe wakes as well */
}

/* Under the lock. False: the queue is full. */
static bool enqueue(struct kv_publisher *p, struct step *s)
{
    const size_t n_bytes = s->log.capacity * sizeof *s->log.changes;

    if (p->n_steps >= p->queue_max || p->n_bytes + n_bytes > QUEUE_BYTES_MAX)
        return false;
    s->is_cleared = p->is_cleared;
    p->is_cleared = false;
    *p->last = s;
    p->last = &s->next;
    p->n_steps++;
    p->n_bytes += n_bytes;
    return true;
}

static void queue_step(struct kv_publisher *p, struct step *s)
{
    bool is_queued;

    s->unix_seconds = clock_unix_seconds();
    pthread_mutex_lock(&p->lock);
    is_queued = !s->log.is_incomplete && enqueue(p, s);
    p->is_cleared |= !is_queued;
    pthread_mutex_unlock(&p->lock);
    if (is_queued) {
        wake(p);
        return;
    }
    if (atomic_fetch_add(&p->n_dropped, (int64_t)s->log.n) == 0)
        log_warn("kv events: the queue is full (%d steps or %d MB); changes are dropped, and the "
                 "next batch says that no block is known",
                 p->queue_max, QUEUE_BYTES_MAX >> 20);
    free_step(s);
}

void kv_publisher_take(struct kv_publisher *p, struct prefix_log *log)
{
    struct step *s;

    if (log->n == 0 && !log->is_incomplete)
        return;
    s = mem_new(sizeof *s);
    s->log = *log;
    memset(log, 0, sizeof *log);
    queue_step(p, s);
}

void kv_publisher_count(const struct kv_publisher *p, int64_t *n_batches, int64_t *n_dropped)
{
    *n_batches = p != NULL ? atomic_load(&p->n_batches) : 0;
    *n_dropped = p != NULL ? atomic_load(&p->n_dropped) : 0;
}

/* ---- open and close ---- */

/* 0: the default. */
static enum osp_status read_int(int *out, const char *name, int given, int value_default, int most)
{
    *out = given != 0 ? given : value_default;
    return *out >= 1 && *out <= most
               ? OSP_OK
               : fail(OSP_EINVAL, "kv events: %s is %d, must be in 1 to %d", name, given, most);
}

static enum osp_status read_options(struct kv_publisher *p, const struct osp_engine_options *opt)
{
    enum osp_status st;

    TRY(read_int(&p->buffer_steps, "buffer_steps", opt->kv_events_buffer_steps,
                 BUFFER_STEPS_DEFAULT, BUFFER_STEPS_MAX));
    TRY(read_int(&p->hwm, "hwm", opt->kv_events_hwm, HWM_DEFAULT, HWM_MAX));
    TRY(read_int(&p->queue_max, "max_queue_size", opt->kv_events_queue_max, QUEUE_DEFAULT,
                 QUEUE_MAX));
    TRY(kv_endpoint_of(&p->endpoint, opt->kv_events_endpoint, p->rank));
    TRY(kv_endpoint_of(&p->replay_endpoint, opt->kv_events_replay_endpoint, p->rank));
    p->topic = mem_strdup(opt->kv_events_topic != NULL ? opt->kv_events_topic : "");
    if (strlen(p->topic) > TOPIC_BYTES_MAX)
        st = fail(OSP_EINVAL, "kv events: topic has %zu bytes, at most %d are allowed",
                  strlen(p->topic), TOPIC_BYTES_MAX);
out:
    return st;
}

static enum osp_status open_sockets(struct kv_publisher *p)
{
    enum osp_status st;

    TRY(zmq_library_find(&p->zmq));
    p->context = p->zmq->zmq_ctx_new();
    if (p->context == NULL)
        return zmq_failed(p, "start libzmq for", p->endpoint);
    TRY(open_pub(p));
    TRY(open_replay(p));
    TRY(mem_try_array(&p->kept, (size_t)p->buffer_steps, sizeof *p->kept,
                      "kv events: batches for replays"));
    if (pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        st = fail(OSP_ENOMEM, "kv events: cannot make a pipe: %s", strerror(errno));
out:
    return st;
}

/* Signals belong to the program: this thread, and those of libzmq, block all. */
static enum osp_status start(struct kv_publisher *p)
{
    sigset_t all, before;
    enum osp_status st;
    int error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    st = open_sockets(p);
    if (st == OSP_OK)
        error = pthread_create(&p->thread, NULL, run, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return fail(OSP_ENOMEM, "kv events: a thread cannot be started: %s", strerror(error));
    return st;
}

static void release(struct kv_publisher *p)
{
    while (p->n_kept > 0)
        drop_oldest(p);
    if (p->replay != NULL)
        (void)p->zmq->zmq_close(p->replay);
    if (p->zmq != NULL)
        close_pub(p);
    if (p->context != NULL)
        (void)p->zmq->zmq_ctx_term(p->context);
    for (int i = 0; i < 2; i++)
        if (p->wake[i] >= 0)
            close(p->wake[i]);
    for (struct step *s = p->first, *next; s != NULL; s = next) {
        next = s->next;
        free_step(s);
    }
    pthread_mutex_destroy(&p->lock);
    free(p->kept);
    free(p->endpoint);
    free(p->replay_endpoint);
    free(p->topic);
    free(p);
}

enum osp_status kv_publisher_open(struct kv_publisher **out, const struct osp_engine_options *opt,
                                  int rank)
{
    struct kv_publisher *p;
    enum osp_status st;

    *out = NULL;
    if (opt->kv_events_endpoint == NULL)
        return OSP_OK;
    p = mem_new(sizeof *p);
    p->rank = rank;
    p->wake[0] = p->wake[1] = -1;
    p->last = &p->first;
    p->is_cleared = true; /* the blocks of an earlier process of this engine are gone */
    pthread_mutex_init(&p->lock, NULL);
    TRY(read_options(p, opt));
    TRY(start(p));
    queue_step(p, mem_new(sizeof(struct step))); /* AllBlocksCleared */
    log_info("kv events: published at %s%s%s", p->endpoint,
             p->replay_endpoint != NULL ? ", replayed at " : "",
             p->replay_endpoint != NULL ? p->replay_endpoint : "");
    *out = p;
out:
    if (st != OSP_OK)
        release(p);
    return st;
}

void kv_publisher_close(struct kv_publisher *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_closing = true;
    pthread_mutex_unlock(&p->lock);
    wake(p);
    pthread_join(p->thread, NULL);
    release(p);
}
