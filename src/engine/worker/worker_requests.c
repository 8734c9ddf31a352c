/* The worker's requests: raw requests of the public API, with the ids of the parent. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/worker/worker_internal.h"

/* The parent gets its end alone. */
static enum osp_status refuse(struct worker *w, uint64_t id, int n_prompt, enum osp_status status)
{
    struct wire_event event = {
        .id = id,
        .n_before = n_prompt,
        .end = SEQ_END_FAILED,
        .status = status,
        .n_message_bytes = (int32_t)strlen(fail_message()),
    };

    return worker_send_event(w, &event, NULL, fail_message());
}

static enum osp_status submit(struct worker *w, uint64_t id, const int32_t *prompt, int n_prompt,
                              const struct osp_request_options *opt)
{
    struct worker_request t = {.id = id};
    enum osp_status st;

    st = mem_try_grow(&w->worker_request, w->n_requests, &w->requests_capacity,
                      sizeof *w->worker_request, "requests");
    if (st == OSP_OK)
        st = osp_submit_tokens(&t.request, w->engine, prompt, (size_t)n_prompt, opt);
    if (st != OSP_OK)
        return refuse(w, id, n_prompt, st);
    t.is_accepted = request_is_accepted(t.request);
    w->worker_request[w->n_requests++] = t;
    return OSP_OK;
}

/* Copies a list of the frame, aligned; the caller frees it. *out stays NULL when n is 0. */
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

enum osp_status worker_submit(struct worker *w, struct frame *f)
{
    struct osp_request_options opt;
    struct wire_submit s;
    struct osp_logit_bias *biases = NULL;
    int32_t *prompt = NULL, *allowed = NULL, *prediction = NULL;
    enum osp_status st, listed;

    frame_take(f, &s, sizeof s);
    wire_take_request_options(f, &opt);
    opt.raw = true;
    opt.timeout_ms = s.timeout_ms;
    opt.no_wait = true; /* this thread sends pulses: it must not wait for a compilation */
    listed = take_list(&prompt, f, s.n_prompt, sizeof *prompt);
    if (listed == OSP_OK)
        listed = take_list(&biases, f, s.n_biases, sizeof *biases);
    if (listed == OSP_OK)
        listed = take_list(&allowed, f, s.n_allowed, sizeof *allowed);
    if (listed == OSP_OK)
        listed = take_list(&prediction, f, s.n_prediction, sizeof *prediction);
    if (listed == OSP_ENOMEM) {
        st = refuse(w, s.id, s.n_prompt, listed);
        goto out;
    }
    TRY(frame_end(f));
    if (w->engine == NULL) {
        st = fail(OSP_EFORMAT, "worker protocol: FRAME_SUBMIT before the engine is open");
        goto out;
    }
    opt.biases = biases;
    opt.n_biases = s.n_biases;
    opt.allowed_tokens = allowed;
    opt.n_allowed_tokens = s.n_allowed;
    opt.prediction = prediction;
    opt.n_prediction = s.n_prediction;
    st = submit(w, s.id, prompt, s.n_prompt, &opt);
out:
    free(biases);
    free(allowed);
    free(prediction);
    free(prompt);
    return st;
}

/* A request that has ended meanwhile is not found. */
enum osp_status worker_cancel(struct worker *w, struct frame *f)
{
    struct wire_cancel c;

    frame_take(f, &c, sizeof c);
    for (size_t i = 0; i < w->n_requests; i++) {
        if (w->worker_request[i].id != c.id)
            continue;
        atomic_store(&w->worker_request[i].request->is_answered, c.is_answered);
        osp_cancel(w->worker_request[i].request);
    }
    return OSP_OK;
}

void worker_close_requests(struct worker *w)
{
    for (size_t i = 0; i < w->n_requests; i++)
        osp_request_close(w->worker_request[i].request);
    w->n_requests = 0;
}
