/* The worker process: one loop that reads its parent's frames and sends what the engine's thread
 * has done. It ends when the socket is closed, or when the device has failed. */
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
#include "engine/worker/rank_process.h"
#include "engine/worker/worker_internal.h"

/* Frames are handled for this long before results are sent. While more frames are queued, a pulse
 * is sent at this interval, wherever the ping for it is among them. */
static const uint64_t FRAMES_NS_MAX = 2000000, PULSE_EVERY_NS = 100000000;

/* A full pipe wakes the loop as well. */
void worker_wake(void *ctx)
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

static enum osp_status on_wake(struct worker *w)
{
    drain_wakes(w);
    if (w->is_loading)
        return worker_publish_loading(w);
    return w->engine != NULL ? worker_publish_engine(w) : OSP_OK;
}

/* ---- frames of the parent ---- */

static enum osp_status on_engine(struct worker *w, struct frame *f)
{
    struct wire_outcome outcome;
    struct osp_engine_options opt;
    enum osp_status st;

    memset(&outcome, 0, sizeof outcome);
    wire_take_engine_options(f, &opt);
    if (w->model == NULL || w->is_loading || w->engine != NULL)
        return fail(OSP_EFORMAT,
                    "worker protocol: FRAME_ENGINE before the model is open, or a second one");
    opt.notify = worker_wake;
    opt.notify_ctx = w;
    outcome.status = osp_engine_open(&w->engine, w->model, &opt);
    if (outcome.status != OSP_OK)
        snprintf(outcome.message, sizeof outcome.message, "%s", fail_message());
    else
        TRY(worker_send_metrics(w)); /* metrics come first */
    st = worker_send(w, FRAME_ENGINE_OPENED, &outcome, sizeof outcome);
out:
    return st;
}

static void close_engine(struct worker *w)
{
    worker_close_requests(w);
    osp_engine_close(w->engine);
    w->engine = NULL;
}

static enum osp_status handle_frame(struct worker *w, struct frame *f)
{
    switch (f->kind) {
    case FRAME_OPEN:
        return worker_open(w, f);
    case FRAME_ENGINE:
        return on_engine(w, f);
    case FRAME_SUBMIT:
        return worker_submit(w, f);
    case FRAME_CANCEL:
        return worker_cancel(w, f);
    case FRAME_PING:
        return worker_send_metrics(w);
    case FRAME_ENGINE_CLOSE:
        close_engine(w);
        return OSP_OK;
    case FRAME_QUIT:
        w->is_over = true;
        return OSP_OK;
    default:
        return fail(OSP_EFORMAT,
                    "worker protocol: the parent sent %s, a frame that only a worker sends",
                    frame_name(f->kind));
    }
}

/* Handles frames that were read, or that can be read, within FRAMES_NS_MAX. */
static enum osp_status receive(struct worker *w)
{
    const uint64_t end_ns = clock_ns() + FRAMES_NS_MAX;
    struct frame f;
    enum osp_status st = OSP_OK;

    if (!w->has_frames)
        TRY(wire_fill(&w->wire));
    w->has_frames = false;
    while (!w->is_over && !w->has_frames && wire_next(&w->wire, &f, &st)) {
        TRY(handle_frame(w, &f));
        TRY(frame_end(&f));
        w->has_frames = clock_ns() >= end_ns;
    }
    if (st == OSP_OK && w->has_frames && end_ns - w->pulse_ns > PULSE_EVERY_NS)
        st = worker_send_metrics(w);
out:
    return st;
}

/* ---- main loop ---- */

static enum osp_status turn(struct worker *w)
{
    struct pollfd fds[] = {{.fd = w->wire.fd, .events = POLLIN},
                           {.fd = w->wake[0], .events = POLLIN}};
    enum osp_status st;

    if (poll(fds, 2, w->has_frames ? 0 : -1) < 0)
        return errno == EINTR ? OSP_OK : fail(OSP_EIO, "poll: %s", strerror(errno));
    if (fds[1].revents != 0)
        TRY(on_wake(w));
    if (fds[0].revents != 0 || w->has_frames)
        TRY(receive(w));
    TRY(wire_flush(&w->wire));
out:
    return st;
}

/* A parent that has exited is no error to report. */
static void give_up(enum osp_status st)
{
    if (st == OSP_EIO)
        _exit(EXIT_SUCCESS);
    log_error("the worker process exits: %s", fail_message());
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
    free(w->worker_request);
    free(w->options_bytes);
    free(w);
}

int osp_worker_main(int argc, char **argv)
{
    struct worker *w;
    enum osp_status st = OSP_OK;

    if (!process_is_child(argc, argv, WORKER_ARGUMENT))
        return rank_process_main(argc, argv);
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
