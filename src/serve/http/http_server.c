/* The event loop, the listener, signals and shutdown. */
#include "serve/http/http_conn.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/memory.h"

enum {
    BACKLOG = 4096,
    FDS_RESERVED = 64 /* file descriptors for everything except connections */
};

/* Work on a thread of libuv's pool. */
struct http_work {
    uv_work_t uv;
    struct http_server *server;
    struct http_work *prev, *next;
    void (*work)(void *ctx);
    void (*done)(void *ctx);
    void *ctx;
};

/* ---- opening ---- */

static void raise_file_limit(struct http_server *s)
{
    struct rlimit limit;

    s->n_connections_max = HTTP_CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur < limit.rlim_max && limit.rlim_cur < HTTP_CONNECTIONS_MAX + FDS_RESERVED) {
        rlim_t wanted = HTTP_CONNECTIONS_MAX + FDS_RESERVED;

        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < HTTP_CONNECTIONS_MAX + FDS_RESERVED)
        s->n_connections_max =
            limit.rlim_cur > FDS_RESERVED ? (int)limit.rlim_cur - FDS_RESERVED : 1;
}

static enum osp_status resolve(struct http_server *s, struct sockaddr_storage *out)
{
    const char *host = strcmp(s->opt.host, "localhost") == 0 ? "127.0.0.1" : s->opt.host;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    uv_getaddrinfo_t request;
    int error;

    if (uv_ip4_addr(host, s->opt.port, (struct sockaddr_in *)out) == 0 ||
        uv_ip6_addr(host, s->opt.port, (struct sockaddr_in6 *)out) == 0)
        return OSP_OK;
    error = uv_getaddrinfo(&s->loop, &request, NULL, host, NULL, &hints);
    if (error)
        return fail(OSP_EINVAL, "--host %s: %s", host, uv_strerror(error));
    memcpy(out, request.addrinfo->ai_addr, request.addrinfo->ai_addrlen);
    if (out->ss_family == AF_INET)
        ((struct sockaddr_in *)out)->sin_port = htons((uint16_t)s->opt.port);
    else
        ((struct sockaddr_in6 *)out)->sin6_port = htons((uint16_t)s->opt.port);
    uv_freeaddrinfo(request.addrinfo);
    return OSP_OK;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    const struct in6_addr *ip6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(ip6) || (IN6_IS_ADDR_V4MAPPED(ip6) && ip6->s6_addr[12] == 127);
}

/* Asks the kernel for the bound address: --host may be a name, and an address has many
 * spellings. */
static enum osp_status find_address(struct http_server *s)
{
    struct sockaddr_storage address = {0};
    int size = sizeof address;
    int error = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&address, &size);

    if (error)
        return fail(OSP_EIO, "cannot listen on %s port %d: %s", s->opt.host, s->opt.port,
                    uv_strerror(error));
    s->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                  : ((struct sockaddr_in *)&address)->sin_port);
    s->is_loopback = is_loopback(&address);
    return OSP_OK;
}

static enum osp_status bind_listener(struct http_server *s)
{
    struct sockaddr_storage address = {0};
    enum osp_status st = resolve(s, &address);
    int error;

    if (st != OSP_OK)
        return st;
    error = uv_tcp_bind(&s->listener, (struct sockaddr *)&address, 0);
    if (error)
        return fail(OSP_EIO, "cannot listen on %s port %d: %s", s->opt.host, s->opt.port,
                    uv_strerror(error));
    return find_address(s);
}

static void on_async(uv_async_t *async)
{
    struct http_server *s = async->data;

    s->opt.on_wake(s->opt.ctx);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    http_stop(handle->data);
}

/* nohup starts a program with SIGHUP ignored, which must stay so. */
static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void open_handles(struct http_server *s)
{
    static const int NUMBERS[] = {SIGINT, SIGTERM, SIGHUP};

    uv_tcp_init(&s->loop, &s->listener);
    uv_async_init(&s->loop, &s->async, on_async);
    uv_mutex_init(&s->async_mutex);
    s->async_open = true;
    uv_timer_init(&s->loop, &s->shutdown_timer);
    uv_timer_init(&s->loop, &s->tick_timer);
    s->listener.data = s->async.data = s->shutdown_timer.data = s->tick_timer.data = s;
    for (int i = 0; i < (int)(sizeof NUMBERS / sizeof NUMBERS[0]); i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        if (NUMBERS[i] != SIGHUP || !is_ignored(SIGHUP))
            uv_signal_start(&s->signals[i], on_signal, NUMBERS[i]);
    }
}

enum osp_status http_open(struct http_server **out, const struct http_options *opt)
{
    struct http_server *s = mem_new(sizeof *s);
    enum osp_status st;

    s->opt = *opt;
    s->bodies.bytes_max = opt->bodies_bytes_max;
    uv_loop_init(&s->loop);
    open_handles(s);
    raise_file_limit(s);
    st = http_tls_open_server(s);
    if (st == OSP_OK)
        st = bind_listener(s);
    if (st != OSP_OK) {
        http_close(s);
        http_free(s);
        return st;
    }
    *out = s;
    return OSP_OK;
}

int http_port(const struct http_server *s)
{
    return s->port;
}

bool http_is_loopback(const struct http_server *s)
{
    return s->is_loopback;
}

/* ---- shutdown ---- */

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_handles(struct http_server *s)
{
    uv_mutex_lock(&s->async_mutex);
    s->async_open = false;
    uv_mutex_unlock(&s->async_mutex);
    uv_walk(&s->loop, close_handle, NULL);
}

static void close_idle(struct http_server *s)
{
    for (struct http_conn *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (c->state == CONN_IDLE || c->state == CONN_READING)
            http_conn_finish(c);
    }
}

/* While a draining server still answers requests, idle connections stay open, so that a load
 * balancer can read "draining" from /health on its keep-alive connection. */
void http_server_settle(struct http_server *s)
{
    if (!s->draining || s->finished || s->n_busy > 0)
        return;
    close_idle(s);
    if (s->n_connections > 0 || s->n_refs > 0)
        return;
    s->finished = true;
    close_handles(s);
}

/* A connection is freed when its handles have closed. */
static void close_connections(struct http_server *s)
{
    for (struct http_conn *c = s->connections, *next; c; c = next) {
        next = c->next;
        http_conn_close(c);
    }
}

static void cancel_works(struct http_server *s)
{
    for (struct http_work *w = s->works; w; w = w->next)
        http_work_cancel(w);
}

/* The process must end within the time-out, so work that still runs is abandoned. */
static void on_abort_time(uv_timer_t *timer)
{
    struct http_server *s = timer->data;

    close_connections(s);
    http_server_settle(s);
    if (s->n_refs == 0)
        return;
    log_warn(
        "shutdown: %d requests have not ended %d ms after --shutdown-timeout; exiting without them",
        s->n_refs, HTTP_ABORT_MS);
    s->is_forced = true;
    uv_stop(&s->loop);
}

static void on_shutdown_time(uv_timer_t *timer)
{
    struct http_server *s = timer->data;

    cancel_works(s);
    s->opt.on_stop(s->opt.ctx, HTTP_STOP_ABORT);
    if (!s->finished)
        uv_timer_start(timer, on_abort_time, HTTP_ABORT_MS, 0);
}

void http_stop(struct http_server *s)
{
    if (++s->n_stops > 1) {
        uv_stop(&s->loop);
        return;
    }
    s->draining = true;
    uv_close((uv_handle_t *)&s->listener, NULL);
    uv_timer_start(&s->shutdown_timer, on_shutdown_time, (uint64_t)s->opt.shutdown_timeout_ms, 0);
    s->opt.on_stop(s->opt.ctx, HTTP_STOP_DRAIN);
    http_server_settle(s);
}

bool http_draining(const struct http_server *s)
{
    return s->draining;
}

uint64_t http_drain_left_ms(const struct http_server *s)
{
    return s->draining && !s->finished ? uv_timer_get_due_in(&s->shutdown_timer) : 0;
}

void http_close(struct http_server *s)
{
    if (!s)
        return;
    s->finished = true;
    close_connections(s);
    cancel_works(s);
    close_handles(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    tls_server_close(s->tls);
    s->tls = NULL;
}

void http_free(struct http_server *s)
{
    if (!s)
        return;
    uv_mutex_destroy(&s->async_mutex);
    free(s);
}

void http_get_counts(const struct http_server *s, struct http_counts *out)
{
    *out = s->counts;
    out->n_open = s->n_connections;
    out->n_busy = s->n_busy;
    out->n_body_bytes = (int64_t)atomic_load(&s->bodies.used_bytes);
    out->n_queue_bytes = (int64_t)s->n_queue_bytes;
}

/* ---- running ---- */

static void on_tick(uv_timer_t *timer)
{
    struct http_server *s = timer->data;

    (void)http_queue_make_space(s, 0);
    http_tls_tick(s);
    s->opt.on_tick(s->opt.ctx);
}

static void on_connection(uv_stream_t *listener, int status)
{
    if (status == 0)
        http_conn_accept(listener->data);
}

enum osp_status http_run(struct http_server *s, void (*on_ready)(void *ctx), bool *forced_out)
{
    int error = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);

    if (error)
        return fail(OSP_EIO, "cannot listen on %s port %d: %s", s->opt.host, s->opt.port,
                    uv_strerror(error));
    signal(SIGPIPE, SIG_IGN);
    uv_timer_start(&s->tick_timer, on_tick, HTTP_TICK_MS, HTTP_TICK_MS);
    on_ready(s->opt.ctx);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    *forced_out = s->n_stops > 1 || s->is_forced;
    return OSP_OK;
}

void http_wake(struct http_server *s)
{
    uv_mutex_lock(&s->async_mutex);
    if (s->async_open)
        uv_async_send(&s->async);
    uv_mutex_unlock(&s->async_mutex);
}

void http_ref(struct http_server *s)
{
    s->n_refs++;
}

void http_unref(struct http_server *s)
{
    s->n_refs--;
    http_server_settle(s);
}

/* ---- work on other threads ---- */

static void link_work(struct http_work *w)
{
    struct http_server *s = w->server;

    w->next = s->works;
    if (w->next)
        w->next->prev = w;
    s->works = w;
}

static void unlink_work(struct http_work *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        w->server->works = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

static void on_work(uv_work_t *request)
{
    struct http_work *w = request->data;

    w->work(w->ctx);
}

static void on_work_done(uv_work_t *request, int status)
{
    struct http_work *w = request->data;
    struct http_server *s = w->server;

    (void)status;
    unlink_work(w);
    w->done(w->ctx);
    free(w);
    http_unref(s);
}

struct http_work *http_work(struct http_server *s, void (*work)(void *ctx), void (*done)(void *ctx),
                            void *ctx)
{
    struct http_work *w = mem_new(sizeof *w);

    *w = (struct http_work){.server = s, .work = work, .done = done, .ctx = ctx};
    w->uv.data = w;
    link_work(w);
    http_ref(s);
    uv_queue_work(&s->loop, &w->uv, on_work, on_work_done);
    return w;
}

/* libuv refuses to cancel work that runs or has ended; the refusal has no effect. */
void http_work_cancel(struct http_work *w)
{
    (void)uv_cancel((uv_req_t *)&w->uv);
}
