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

/* The lists behind a request's options, in the order of the frame. */
struct lists {
    int32_t *prompt;
    struct osp_logit_bias *biases;
    int32_t *allowed, *prediction;
};

static void lists_release(struct lists *l)
{
    free(l->biases);
    free(l->allowed);
    free(l->prediction);
    free(l->prompt);
}

/* Copies a list of the frame, aligned; the caller frees it. *out stays NULL when n is 0, and when
 * *st is or becomes OSP_ENOMEM: the list is taken from the frame all the same. */
static void take_list(void *out, struct frame *f, int32_t n, size_t item_bytes, enum osp_status *st)
{
    const void *bytes = frame_view(f, (size_t)(uint32_t)n * item_bytes);
    void *list = NULL;

    if (bytes == NULL || n == 0 || *st != OSP_OK)
        return;
    *st = mem_try_array(&list, (size_t)n, item_bytes, "a request's lists");
    if (*st != OSP_OK)
        return;
    memcpy(list, bytes, (size_t)n * item_bytes);
    *(void **)out = list;
}

static enum osp_status take_lists(struct lists *l, struct frame *f, const struct wire_submit *s)
{
    enum osp_status st = OSP_OK;

    take_list(&l->prompt, f, s->n_prompt, sizeof *l->prompt, &st);
    take_list(&l->biases, f, s->n_biases, sizeof *l->biases, &st);
    take_list(&l->allowed, f, s->n_allowed, sizeof *l->allowed, &st);
    take_list(&l->prediction, f, s->n_prediction, sizeof *l->prediction, &st);
    return st;
}

enum osp_status worker_submit(struct worker *w, struct frame *f)
{
    struct osp_request_options opt;
    struct wire_submit s;
    struct lists lists = {.prompt = NULL};
    enum osp_status st, taken;

    frame_take(f, &s, sizeof s);
    wire_take_request_options(f, &opt);
    taken = take_lists(&lists, f, &s);
    if (taken != OSP_OK) { /* refuse() sends the message, so before frame_end() can replace it */
        st = refuse(w, s.id, s.n_prompt, taken);
        goto out;
    }
    TRY(frame_end(f));
    if (w->engine == NULL) {
        st = fail(OSP_EFORMAT, "worker protocol: FRAME_SUBMIT before the engine is open");
        goto out;
    }
    opt.raw = true;
    opt.timeout_ms = s.timeout_ms;
    opt.no_wait = true; /* this thread sends pulses: it must not wait for a compilation */
    opt.biases = lists.biases;
    opt.n_biases = s.n_biases;
    opt.allowed_tokens = lists.allowed;
    opt.n_allowed_tokens = s.n_allowed;
    opt.prediction = lists.prediction;
    opt.n_prediction = s.n_prediction;
    st = submit(w, s.id, lists.prompt, s.n_prompt, &opt);
out:
    lists_release(&lists);
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
