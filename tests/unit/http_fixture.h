/* A server over real sockets with a stand-in for the engine, and a client that sends what it is
 * told. */
#ifndef HTTP_FIXTURE_H
#define HTTP_FIXTURE_H

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "serve/core/serve.h"

#include "fake_osprey.c"

enum { ANSWER_BYTES_MAX = 8 << 20, PATIENCE_MS = 30000 };

/* ---- the server under test ---- */

static struct osp_model fake_model;

struct fixture {
    struct server *server;
    struct serve_options opt;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ready;
    int port;
    bool forced, running;
    enum osp_status st;
};

/* At the latest when requests are answered; earlier with opt.on_listening set to it. */
static inline void note_port(void *ctx, const char *url)
{
    struct fixture *f = ctx;

    pthread_mutex_lock(&f->mutex);
    if (f->port == 0) /* the test reads it without the mutex from then on */
        f->port = atoi(strrchr(url, ':') + 1);
    pthread_cond_signal(&f->ready);
    pthread_mutex_unlock(&f->mutex);
}

static inline void *run_server(void *ctx)
{
    struct fixture *f = ctx;

    f->st = serve_run(f->server, &f->forced);
    return NULL;
}

static inline enum osp_status load_fake(void *ctx, struct serve_model *out)
{
    (void)ctx;
    out->model = &fake_model;
    return OSP_OK;
}

static inline struct serve_options usual_options(void)
{
    return (struct serve_options){.load = load_fake,
                                  .body_bytes_max = 1 << 20,
                                  .request_timeout_ms = 400,
                                  .idle_timeout_ms = 2000,
                                  .stall_timeout_ms = 3000,
                                  .shutdown_timeout_ms = 300};
}

static inline void start(struct fixture *f, struct serve_options opt)
{
    *f = (struct fixture){.opt = opt, .running = true};
    f->opt.on_ready = note_port;
    f->opt.ctx = f;
    log_set_level(LOG_ERROR);
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->ready, NULL);
    assert_int_equal(serve_open(&f->server, &f->opt), OSP_OK);
    pthread_create(&f->thread, NULL, run_server, f);
    pthread_mutex_lock(&f->mutex);
    while (!f->port)
        pthread_cond_wait(&f->ready, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static inline void finish(struct fixture *f)
{
    if (f->running)
        kill(getpid(), SIGTERM);
    pthread_join(f->thread, NULL);
    assert_int_equal(f->st, OSP_OK);
    serve_close(f->server);
    pthread_mutex_destroy(&f->mutex);
    pthread_cond_destroy(&f->ready);
}

/* ---- a client that sends what it is told ---- */

static inline int dial(const struct fixture *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline void say(int fd, const char *bytes)
{
    size_t n = strlen(bytes);

    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* Reads until `until` has come (NULL: until the end); false when the end or the time comes
 * first. */
static inline bool read_until(int fd, struct buf *out, const char *until)
{
    char block[16384];

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (until && strstr(buf_text(out), until))
            return true;
        if (poll(&p, 1, PATIENCE_MS) != 1)
            return false;
        n = recv(fd, block, sizeof block, 0);
        if (n <= 0)
            return !until && n == 0;
        buf_append(out, block, (size_t)n);
    }
}

/* Sends everything, hears everything. Gives a string to free(). */
static inline char *ask(const struct fixture *f, const char *bytes)
{
    struct buf out;
    int fd = dial(f);

    buf_init(&out, ANSWER_BYTES_MAX);
    say(fd, bytes);
    if (!read_until(fd, &out, NULL))
        fail_msg("the connection was not closed after\n%s", buf_text(&out));
    close(fd);
    return buf_take(&out);
}

static inline char *request_text(const char *method, const char *path, const char *fields,
                                 const char *body)
{
    return mem_printf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s"
                      "Content-Length: %zu\r\n\r\n%s",
                      method, path, fields, strlen(body), body);
}

static inline char *chat_text(const char *body)
{
    return request_text("POST", "/v1/chat/completions", "Content-Type: application/json\r\n", body);
}

static inline void expect_in(const char *answer, const char *part)
{
    if (!strstr(answer, part))
        fail_msg("'%s' is not in\n%s", part, answer);
}

static inline void expect(const struct fixture *f, char *bytes, const char *part,
                          const char *part_2)
{
    char *answer = ask(f, bytes);

    expect_in(answer, part);
    if (part_2)
        expect_in(answer, part_2);
    free(answer);
    free(bytes);
}

static inline void expect_idle(const struct fixture *f)
{
    uint64_t start_ns = clock_ns();
    bool idle = false;

    while (!idle && clock_ns() - start_ns < (uint64_t)PATIENCE_MS * 1000000) {
        char *bytes = request_text("GET", "/health", "", ""), *answer = ask(f, bytes);

        idle = strstr(answer, "\"running\":0") != NULL;
        free(answer);
        free(bytes);
    }
    assert_true(idle);
}

#endif
