/* The worker's model: opened by a thread of its own, so that the main loop can report progress. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/worker/worker_internal.h"

enum { PROGRESS_EVERY_NS = 50 * 1000 * 1000 };

static void on_progress(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct worker *w = ctx;
    uint64_t now_ns = clock_ns();

    atomic_store(&w->done_bytes, done_bytes);
    atomic_store(&w->total_bytes, total_bytes);
    if (now_ns - w->progress_sent_ns < PROGRESS_EVERY_NS)
        return;
    w->progress_sent_ns = now_ns;
    worker_wake(w);
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
    worker_wake(w);
    return NULL;
}

static enum osp_status publish_opened(struct worker *w)
{
    struct wire_model made;

    memset(&made, 0, sizeof made);
    pthread_join(w->loader, NULL);
    w->is_loading = false;
    if (w->model != NULL) {
        grammar_cache_warm(w->model->forms, w->text.path);
        made.load_seconds = w->model->load_seconds;
        made.plan = w->model->plan;
        made.facts = w->model->facts;
    }
    wire_begin(&w->wire, FRAME_OPENED);
    wire_put(&w->wire, &w->outcome, sizeof w->outcome);
    wire_put(&w->wire, &made, sizeof made);
    return wire_end(&w->wire);
}

enum osp_status worker_publish_loading(struct worker *w)
{
    struct wire_progress p = {atomic_load(&w->done_bytes), atomic_load(&w->total_bytes)};

    if (atomic_load(&w->is_loaded))
        return publish_opened(w);
    return worker_send(w, FRAME_PROGRESS, &p, sizeof p);
}

enum osp_status worker_open(struct worker *w, struct frame *f)
{
    struct wire_hello hello;
    enum osp_status st;

    if (w->model != NULL || w->is_loading)
        return fail(OSP_EFORMAT, "worker protocol: a second FRAME_OPEN");
    frame_take(f, &hello, sizeof hello);
    TRY(wire_hello_check(&hello));
    log_set_level((enum log_level)hello.log_level);
    log_set_format((enum log_format)hello.log_format);
    TRY(mem_try_array(&w->options_bytes, f->n_left, 1, "the model's options"));
    memcpy(w->options_bytes, f->at, f->n_left);
    f->at = w->options_bytes;
    wire_take_model_options(f, &w->options);
    wire_take_device_options(f, w->device_options, &w->options);
    w->text = hello.text;
    TRY(frame_end(f));
    w->is_loading = true;
    if (pthread_create(&w->loader, NULL, load, w) != 0)
        st = fail(OSP_ENOMEM, "the loading thread cannot be started");
out:
    return st;
}
