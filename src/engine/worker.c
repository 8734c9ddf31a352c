/* The worker's own process: one loop that reads its parent's frames and tells what the engine's thread
 * has done. It ends when the socket does, or when the device has failed. */
#include "engine/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "engine/engine.h"
#include "engine/wire_fields.h"

enum { PROGRESS_EVERY_NS = 50 * 1000 * 1000 };

/* A request as the parent numbers it. */
struct told {
    uint64_t id;
    struct osp_request *request;
    int n_before;  /* tokens that the parent has, */
    bool has_news; /* and there is more to tell it: as look_at_requests() found */
};

struct worker {
    struct wire wire;
    int wake[2];       /* a pipe: the loader and the engine's thread write to it */
    struct told *told; /* (n_told) in no order */
    size_t n_told, told_capacity;
    int64_t n_done_told; /* requests, by the last pulse */
    struct osp_model *model;
    struct osp_engine *engine;
    bool is_over;

    /* the loader's thread */
    pthread_t loader;
    bool is_loading;
    char *options_bytes; /* of FRAME_OPEN: the strings of the options lie there */
    struct osp_model_options options;
    struct model_text text;
    struct wire_outcome outcome;
    uint64_t told_progress_ns;
    atomic_bool is_loaded;
    _Atomic int64_t done_bytes, total_bytes;
};

/* Wakes the loop; from any thread. A full pipe wakes it as well. */
static void wake(void *ctx)
{
    struct worker *w = ctx;

    (void)!write(w->wake[1], "", 1);
}

static void drain_wakes(struct worker *w)
{
    char block[64];

    while (read(w->wake[0], block, sizeof block) > 0)
        continue;
}

/* ---- what the parent hears ---- */

static enum osp_status send_frame(struct worker *w, enum frame_kind kind, const void *data,
                                  size_t n_bytes)
{
    wire_begin(&w->wire, kind);
    wire_put(&w->wire, data, n_bytes);
    return wire_end(&w->wire);
}

static enum osp_status send_pulse(struct worker *w)
{
    struct wire_pulse pulse = {.health = {.state = OSP_ENGINE_OK}};

    if (w->engine != NULL) {
        osp_engine_get_stats(w->engine, &pulse.stats);
        w->n_done_told = pulse.stats.n_requests_done;
        osp_engine_get_health(w->engine, &pulse.health);
    }
    return send_frame(w, FRAME_PULSE, &pulse, sizeof pulse);
}

static enum osp_status send_metrics(struct worker *w)
{
    struct osp_engine_metrics metrics;

    if (w->engine == NULL)
        return OSP_OK;
    osp_engine_get_metrics(w->engine, &metrics);
    return send_frame(w, FRAME_METRICS, &metrics, sizeof metrics);
}

/* r: whose they are; NULL: of one that does not exist here, without tokens. */
static enum osp_status send_news(struct worker *w, const struct wire_news *news,
                                 const struct osp_request *r, const char *message)
{
    size_t n = (size_t)news->n_new, n_entries = n * (size_t)news->n_top, at;

    wire_begin(&w->wire, FRAME_NEWS);
    wire_put(&w->wire, news, sizeof *news);
    if (n > 0)
        wire_put(&w->wire, r->seq.tokens + news->n_before, n * sizeof *r->seq.tokens);
    if (n > 0 && news->has_scores) {
        at = (size_t)(news->n_before - r->seq.n_prompt);
        wire_put(&w->wire, r->scores.logprobs + at, n * sizeof(float));
        at *= (size_t)news->n_top;
        wire_put(&w->wire, r->scores.top_tokens + at, n_entries * sizeof(int32_t));
        wire_put(&w->wire, r->scores.top_logprobs + at, n_entries * sizeof(float));
    }
    wire_put(&w->wire, message, (size_t)news->n_message_bytes);
    return wire_end(&w->wire);
}

/* n_before: tokens that the parent has. */
static enum osp_status tell_request(struct worker *w, const struct told *t, int n_before)
{
    const struct osp_request *r = t->request;
    const struct outbox *seen = &r->seen;
    const char *message = seen->ended && seen->status != OSP_OK ? request_message(r) : "";
    struct wire_news news = {
        .id = t->id,
        .n_cached = seen->n_cached,
        .n_before = n_before,
        .n_new = seen->n_tokens - n_before,
        .has_scores = r->scores.logprobs != NULL,
        .n_top = r->scores.n_top,
        .end = seen->ended ? seen->end : SEQ_END_NONE,
        .status = seen->status,
        .n_message_bytes = (int32_t)strnlen(message, FAIL_MESSAGE_BYTES_MAX),
        .times = seen->times,
    };

    return send_news(w, &news, r, message);
}

static void look_at_requests(struct worker *w)
{
    for (size_t i = 0; i < w->n_told; i++) {
        struct told *t = &w->told[i];

        t->n_before = t->request->seen.n_tokens;
        t->has_news = request_wait(t->request, 0);
    }
}

static enum osp_status tell_requests(struct worker *w)
{
    enum osp_status st = OSP_OK;

    for (size_t i = w->n_told; st == OSP_OK && i-- > 0;) {
        struct told *t = &w->told[i];

        if (!t->has_news)
            continue;
        st = tell_request(w, t, t->n_before);
        if (!t->request->seen.ended)
            continue;
        osp_request_close(t->request);
        *t = w->told[--w->n_told];
    }
    return st;
}

static bool has_ended_one(const struct worker *w)
{
    int64_t n_done = w->n_done_told;
    struct osp_engine_stats stats;

    osp_engine_get_stats(w->engine, &stats);
    return stats.n_requests_done != n_done;
}

/* Figures come before events, here too, and are younger: no end is told that they do not count. The longer
 * ones when there is an end among those. */
static enum osp_status tell_engine(struct worker *w)
{
    enum osp_status st;

    look_at_requests(w);
    if (has_ended_one(w))
        TRY(send_metrics(w));
    TRY(send_pulse(w));
    TRY(tell_requests(w));
    if (osp_engine_alive(w->engine) || w->n_told > 0)
        return OSP_OK;
    TRY(send_pulse(w)); /* it has died since, perhaps: its reason */
    TRY(wire_flush(&w->wire));
    _exit(WORKER_EXIT_DEVICE);
out:
    return st;
}

/* ---- the model ---- */

static void on_progress(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct worker *w = ctx;
    uint64_t now_ns = clock_ns();

    atomic_store(&w->done_bytes, done_bytes);
    atomic_store(&w->total_bytes, total_bytes);
    if (now_ns - w->told_progress_ns < PROGRESS_EVERY_NS)
        return;
    w->told_progress_ns = now_ns;
    wake(w);
}

static void *load(void *ctx)
{
    struct worker *w = ctx;

    w->options.progress = on_progress;
    w->options.progress_ctx = w;
    w->outcome.status = model_open_tokens(&w->model, &w->options, &w->text);
    if (w->outcome.status != OSP_OK)
        snprintf(w->outcome.message, sizeof w->outcome.message, "%s", fail_message());
    atomic_store(&w->is_loaded, true);
    wake(w);
    return NULL;
}

static enum osp_status tell_opened(struct worker *w)
{
    struct wire_model made;

    memset(&made, 0, sizeof made);
    pthread_join(w->loader, NULL);
    w->is_loading = false;
    if (w->model != NULL) {
        form_kit_warm(w->model->forms, w->text.path);
        made.load_seconds = w->model->load_seconds;
        made.plan = w->model->plan;
        made.facts = w->model->facts;
    }
    wire_begin(&w->wire, FRAME_OPENED);
    wire_put(&w->wire, &w->outcome, sizeof w->outcome);
    wire_put(&w->wire, &made, sizeof made);
    return wire_end(&w->wire);
}

static enum osp_status tell_loading(struct worker *w)
{
    struct wire_progress p = {atomic_load(&w->done_bytes), atomic_load(&w->total_bytes)};

    if (atomic_load(&w->is_loaded))
        return tell_opened(w);
    return send_frame(w, FRAME_PROGRESS, &p, sizeof p);
}

static enum osp_status on_wake(struct worker *w)
{
    drain_wakes(w);
    if (w->is_loading)
        return tell_loading(w);
    return w->engine != NULL ? tell_engine(w) : OSP_OK;
}

/* ---- what the parent says ---- */

/* The frame's bytes are kept: the loader's thread reads the strings in them. */
static enum osp_status on_open(struct worker *w, struct frame *f)
{
    struct wire_hello hello;
    enum osp_status st;

    if (w->model != NULL || w->is_loading)
        return fail(OSP_EFORMAT, "a second model");
    frame_take(f, &hello, sizeof hello);
    TRY(wire_hello_check(&hello));
    log_set_level((enum log_level)hello.log_level);
    TRY(mem_try_array(&w->options_bytes, f->n_left, 1, "the model's options"));
    memcpy(w->options_bytes, f->at, f->n_left);
    f->at = w->options_bytes;
    wire_take_model_options(f, &w->options);
    w->text = hello.text;
    TRY(frame_end(f));
    w->is_loading = true;
    if (pthread_create(&w->loader, NULL, load, w) != 0)
        st = fail(OSP_ENOMEM, "the loading thread cannot be started");
out:
    return st;
}

static enum osp_status on_ping(struct worker *w)
{
    enum osp_status st;

    TRY(send_metrics(w));
    TRY(send_pulse(w));
out:
    return st;
}

static enum osp_status on_engine(struct worker *w, struct frame *f)
{
    struct wire_outcome outcome;
    struct osp_engine_options opt;
    enum osp_status st;

    memset(&outcome, 0, sizeof outcome);
    wire_take_engine_options(f, &opt);
    if (w->model == NULL || w->is_loading || w->engine != NULL)
        return fail(OSP_EFORMAT, "an engine without a model, or a second one");
    opt.notify = wake;
    opt.notify_ctx = w;
    outcome.status = osp_engine_open(&w->engine, w->model, &opt);
    if (outcome.status != OSP_OK)
        snprintf(outcome.message, sizeof outcome.message, "%s", fail_message());
    else
        TRY(on_ping(w)); /* its figures come first */
    st = send_frame(w, FRAME_ENGINE_OPENED, &outcome, sizeof outcome);
out:
    return st;
}

/* Its end is all that the parent hears of it. */
static enum osp_status refuse(struct worker *w, uint64_t id, int n_prompt, enum osp_status status)
{
    struct wire_news news = {
        .id = id,
        .n_before = n_prompt,
        .end = SEQ_END_FAILED,
        .status = status,
        .n_message_bytes = (int32_t)strlen(fail_message()),
    };

    return send_news(w, &news, NULL, fail_message());
}

static enum osp_status submit(struct worker *w, uint64_t id, const int32_t *prompt, int n_prompt,
                              const struct osp_request_options *opt)
{
    struct told t = {.id = id};
    enum osp_status st;

    st = mem_try_grow(&w->told, w->n_told, &w->told_capacity, sizeof *w->told, "requests");
    if (st == OSP_OK)
        st = osp_submit_tokens(&t.request, w->engine, prompt, (size_t)n_prompt, opt);
    if (st != OSP_OK)
        return refuse(w, id, n_prompt, st);
    w->told[w->n_told++] = t;
    return OSP_OK;
}

/* A list of the frame, aligned, to free(); *out stays NULL when there is none. */
static enum osp_status take_list(void *out, struct frame *f, int32_t n, size_t item_bytes)
{
    const void *bytes = frame_view(f, (size_t)(uint32_t)n * item_bytes);
    void *list = NULL;
    enum osp_status st = OSP_OK;

    if (bytes == NULL || n == 0)
        return OSP_OK;
    TRY(mem_try_array(&list, (size_t)n, item_bytes, "a request's lists"));
    memcpy(list, bytes, (size_t)n * item_bytes);
    *(void **)out = list;
out:
    return st;
}

static enum osp_status on_submit(struct worker *w, struct frame *f)
{
    struct osp_request_options opt;
    struct wire_submit s;
    struct osp_logit_bias *biases = NULL;
    int32_t *prompt = NULL, *allowed = NULL;
    enum osp_status st, listed;

    frame_take(f, &s, sizeof s);
    wire_take_request_options(f, &opt);
    opt.raw = true;
    listed = take_list(&prompt, f, s.n_prompt, sizeof *prompt);
    if (listed == OSP_OK)
        listed = take_list(&biases, f, s.n_biases, sizeof *biases);
    if (listed == OSP_OK)
        listed = take_list(&allowed, f, s.n_allowed, sizeof *allowed);
    if (listed == OSP_ENOMEM) {
        st = refuse(w, s.id, s.n_prompt, listed);
        goto out;
    }
    TRY(frame_end(f));
    if (w->engine == NULL) {
        st = fail(OSP_EFORMAT, "a request without an engine");
        goto out;
    }
    opt.biases = biases;
    opt.n_biases = s.n_biases;
    opt.allowed_tokens = allowed;
    opt.n_allowed_tokens = s.n_allowed;
    st = submit(w, s.id, prompt, s.n_prompt, &opt);
out:
    free(biases);
    free(allowed);
    free(prompt);
    return st;
}

/* One that has ended meanwhile is no more. */
static enum osp_status on_cancel(struct worker *w, struct frame *f)
{
    struct wire_cancel c;

    frame_take(f, &c, sizeof c);
    for (size_t i = 0; i < w->n_told; i++) {
        if (w->told[i].id != c.id)
            continue;
        atomic_store(&w->told[i].request->is_answered, c.is_answered);
        osp_cancel(w->told[i].request);
    }
    return OSP_OK;
}

static void close_engine(struct worker *w)
{
    for (size_t i = 0; i < w->n_told; i++)
        osp_request_close(w->told[i].request);
    w->n_told = 0;
    osp_engine_close(w->engine);
    w->engine = NULL;
}

static enum osp_status obey(struct worker *w, struct frame *f)
{
    switch (f->kind) {
    case FRAME_OPEN:
        return on_open(w, f);
    case FRAME_ENGINE:
        return on_engine(w, f);
    case FRAME_SUBMIT:
        return on_submit(w, f);
    case FRAME_CANCEL:
        return on_cancel(w, f);
    case FRAME_PING:
        return on_ping(w);
    case FRAME_ENGINE_CLOSE:
        close_engine(w);
        return OSP_OK;
    case FRAME_QUIT:
        w->is_over = true;
        return OSP_OK;
    default:
        return fail(OSP_EFORMAT, "%s is no frame for a worker", frame_name(f->kind));
    }
}

static enum osp_status hear(struct worker *w)
{
    struct frame f;
    enum osp_status st;

    TRY(wire_fill(&w->wire));
    while (!w->is_over && wire_next(&w->wire, &f, &st)) {
        TRY(obey(w, &f));
        TRY(frame_end(&f));
    }
out:
    return st;
}

/* ---- life ---- */

static enum osp_status turn(struct worker *w)
{
    struct pollfd fds[] = {{.fd = w->wire.fd, .events = POLLIN},
                           {.fd = w->wake[0], .events = POLLIN}};
    enum osp_status st;

    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? OSP_OK : fail(OSP_EIO, "poll: %s", strerror(errno));
    if (fds[1].revents != 0)
        TRY(on_wake(w));
    if (fds[0].revents != 0)
        TRY(hear(w));
    TRY(wire_flush(&w->wire));
out:
    return st;
}

/* A parent that has gone is no news: nobody is left to tell. */
static void give_up(enum osp_status st)
{
    if (st == OSP_EIO)
        _exit(EXIT_SUCCESS);
    log_error("the worker process ends: %s", fail_message());
    _exit(WORKER_EXIT_PROTOCOL);
}

static void worker_release(struct worker *w)
{
    if (w->is_loading)
        _exit(EXIT_SUCCESS); /* loading cannot be interrupted */
    close_engine(w);
    osp_model_close(w->model);
    wire_release(&w->wire);
    close(w->wake[0]);
    close(w->wake[1]);
    free(w->told);
    free(w->options_bytes);
    free(w);
}

int osp_worker_main(int argc, char **argv)
{
    struct worker *w;
    enum osp_status st = OSP_OK;

    if (!process_is_child(argc, argv, WORKER_WORD))
        return -1;
    w = mem_new(sizeof *w);
    wire_init(&w->wire, process_socket());
    if (pipe2(w->wake, O_NONBLOCK | O_CLOEXEC) != 0)
        st = fail(OSP_ENOMEM, "the worker's pipe: %s", strerror(errno));
    while (st == OSP_OK && !w->is_over)
        st = turn(w);
    if (st != OSP_OK)
        give_up(st);
    worker_release(w);
    return EXIT_SUCCESS;
}
