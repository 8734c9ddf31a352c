/* What the tests of the engine share: a tiny model, and a request heard to its end. */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

#include "tiny_checkpoint.h"

#include "osprey.h"

/* All that a request said. */
struct heard {
    struct buf reasoning, text, args;
    struct buf tokens,
        scored; /* ids of all events, and what their log-probabilities say, as bytes */
    char name[64], call_id[64];
    int n_calls;
    struct osp_event last; /* DONE or ERROR; its strings are gone */
    char error[256];
};

static inline struct osp_model *fixture_model(struct osp_model_options opt)
{
    char folder[] = "/tmp/osprey-engine-XXXXXX";
    struct osp_model *model;

    tiny_checkpoint_write(folder);
    opt.path = folder;
    opt.tokenizer = TINY_TOKENIZER;
    opt.n_threads = 1;
    if (osp_model_open(&model, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    tiny_checkpoint_remove(folder);
    return model;
}

static inline struct osp_engine *fixture_engine(struct osp_model *model)
{
    struct osp_engine *engine;

    if (osp_engine_open(&engine, model, NULL) != OSP_OK)
        fail_msg("%s", osp_error());
    return engine;
}

static inline void heard_init(struct heard *h)
{
    memset(h, 0, sizeof *h);
    buf_init(&h->reasoning, 1 << 20);
    buf_init(&h->text, 1 << 20);
    buf_init(&h->args, 1 << 20);
    buf_init(&h->tokens, 1 << 20);
    buf_init(&h->scored, 1 << 20);
}

static inline void heard_release(struct heard *h)
{
    buf_release(&h->reasoning);
    buf_release(&h->text);
    buf_release(&h->args);
    buf_release(&h->tokens);
    buf_release(&h->scored);
}

static inline void hear_score(struct heard *h, const struct osp_logprob *l)
{
    const size_t n_top = (size_t)l->n_top;

    buf_append(&h->scored, &l->token, sizeof l->token);
    buf_append(&h->scored, &l->logprob, sizeof l->logprob);
    if (n_top > 0) {
        buf_append(&h->scored, l->top_tokens, n_top * sizeof *l->top_tokens);
        buf_append(&h->scored, l->top_logprobs, n_top * sizeof *l->top_logprobs);
    }
}

static inline void hear_event(struct heard *h, const struct osp_event *e)
{
    if (e->n_tokens > 0)
        buf_append(&h->tokens, e->tokens, (size_t)e->n_tokens * sizeof *e->tokens);
    for (int i = 0; i < e->n_logprobs; i++)
        hear_score(h, &e->logprobs[i]);
    assert_int_equal(e->text[e->n_bytes], 0); /* a NUL ends it, and may lie in it */
    if (e->kind == OSP_EVENT_REASONING)
        buf_append(&h->reasoning, e->text, e->n_bytes);
    if (e->kind == OSP_EVENT_TEXT)
        buf_append(&h->text, e->text, e->n_bytes);
    if (e->kind == OSP_EVENT_TOOL_ARGS)
        buf_append(&h->args, e->text, e->n_bytes);
    if (e->kind == OSP_EVENT_ERROR)
        snprintf(h->error, sizeof h->error, "%s", e->text);
    if (e->kind == OSP_EVENT_TOOL_CALL) {
        assert_int_equal(e->call_index, h->n_calls);
        h->n_calls++;
        snprintf(h->name, sizeof h->name, "%s", e->name);
        snprintf(h->call_id, sizeof h->call_id, "%s", e->call_id);
    }
    h->last = *e;
}

/* Hears the request to its end and closes it. */
static inline void hear_all(struct heard *h, struct osp_request *r)
{
    struct osp_event e;

    heard_init(h);
    do {
        if (osp_next_event(r, -1, &e) != OSP_OK)
            fail_msg("%s", osp_error());
        hear_event(h, &e);
    } while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR);
    assert_int_equal(osp_next_event(r, -1, &e), OSP_EINVAL);
    osp_request_close(r);
}

#endif
