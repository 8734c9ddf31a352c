/* The CPU as a device that queues steps, as a GPU does (backend.h: runs_pipelined): for tests of what
 * an engine sends ahead. A step computes when it is run, so that steps and copies take effect in
 * their order; its results are seen when it is waited for. As on a GPU, a step takes the slot of the
 * one that was run STEPS_QUEUED_MAX steps before it, whose results are lost then. One model at a
 * time. */
#ifndef QUEUED_DEVICE_H
#define QUEUED_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/accept.h"
#include "backend/backend.h"
#include "backend/batch_check.h"
#include "engine/core/model_api.h"
#include "model/model.h"

enum { QUEUED_SAMPLES_MAX = 512 };

static struct {
    const struct backend_ops *real;
    struct backend_ops ops;
    struct model *model;
    struct queued_step {
        uint64_t ticket;
        int32_t tokens[QUEUED_SAMPLES_MAX], top_tokens[QUEUED_SAMPLES_MAX * TOP_LOGPROBS_MAX];
        int32_t candidates[QUEUED_SAMPLES_MAX * DRAFT_CANDIDATES_MAX];
        float logprobs[QUEUED_SAMPLES_MAX], top_logprobs[QUEUED_SAMPLES_MAX * TOP_LOGPROBS_MAX];
    } steps[STEPS_QUEUED_MAX], *completed;
    void *batch;
    size_t batch_bytes;
    uint64_t ticket, waited; /* of the last run and the last wait */
    int64_t n_ahead,
        n_unknown; /* steps run before an earlier one was waited for; tokens filled in */
    int64_t
        n_idle; /* steps run when all before had been waited for: the device had nothing to do */
    int64_t n_behind; /* passes of a draft head that got the number of accepted drafts here */
} queued;

static void queued_fail(const char *what)
{
    fprintf(stderr, "the queued device: %s\n", what);
    abort();
}

static struct queued_step *queued_slot(uint64_t ticket)
{
    return &queued.steps[ticket % STEPS_QUEUED_MAX];
}

static const struct queued_step *queued_earlier(uint64_t ticket)
{
    if (ticket == 0 || queued_slot(ticket)->ticket != ticket)
        queued_fail("tokens of a step that did not sample, or was replaced");
    return queued_slot(ticket);
}

/* A copy of the batch with the tokens that earlier steps sampled, and lowered by the drafts that
 * they rejected. */
static const struct batch *queued_resolved(const struct batch *b)
{
    int32_t *tokens;

    batch_check(b, b->n_rows, QUEUED_SAMPLES_MAX);
    if (queued.batch_bytes < (size_t)b->size_bytes) {
        free(queued.batch);
        queued.batch_bytes = (size_t)b->size_bytes;
        queued.batch = malloc(queued.batch_bytes);
    }
    if (queued.batch == NULL)
        queued_fail("no memory");
    memcpy(queued.batch, b, (size_t)b->size_bytes);
    tokens = (int32_t *)(uintptr_t)BATCH_TOKENS((const struct batch *)queued.batch);
    for (int i = 0; i < b->n_rows; i++) {
        const uint64_t back = tokens[i] < 0 ? (uint64_t)batch_sample_back(tokens[i]) : 0;

        if (tokens[i] >= 0)
            continue;
        tokens[i] = queued_earlier(b->tokens_ticket - back)->tokens[batch_sample_index(tokens[i])];
        tokens[i] = tokens[i] < 0 ? 0 : tokens[i];
        queued.n_unknown++;
    }
    for (int i = 0; i < b->n_follows; i++)
        batch_follow_accepted(queued.batch, i, queued_earlier(b->follows_ticket)->tokens, NULL);
    queued.n_behind += b->n_follows > 0;
    ((struct batch *)queued.batch)->n_follows = 0; /* nothing is left to be lowered */
    return queued.batch;
}

static void queued_keep(struct queued_step *s, const struct sample_args *a, int n)
{
    const size_t n_top = (size_t)n * TOP_LOGPROBS_MAX;

    if (n > QUEUED_SAMPLES_MAX)
        queued_fail("too many samples");
    memcpy(s->tokens, a->tokens.data, (size_t)n * sizeof *s->tokens);
    memcpy(s->logprobs, a->logprobs.data, (size_t)n * sizeof *s->logprobs);
    if (a->candidates.data != NULL)
        memcpy(s->candidates, a->candidates.data,
               (size_t)n * DRAFT_CANDIDATES_MAX * sizeof *s->candidates);
    if (a->top_tokens.data == NULL)
        return;
    memcpy(s->top_tokens, a->top_tokens.data, n_top * sizeof *s->top_tokens);
    memcpy(s->top_logprobs, a->top_logprobs.data, n_top * sizeof *s->top_logprobs);
}

static enum osp_status queued_run(struct backend *be, struct compiled *c, const struct batch *b,
                                  uint64_t *ticket)
{
    const struct draft *d = &queued.model->draft;
    bool is_head = false;
    struct queued_step *slot = queued_slot(queued.ticket + 1);
    uint64_t unused;
    enum osp_status st;

    for (int i = 0; i < N_DRAFT_PASSES; i++)
        is_head = is_head || (c != NULL && c == d->run_passes[i]);
    queued.n_ahead += queued.ticket > queued.waited;
    queued.n_idle += queued.ticket == queued.waited;
    TRY(queued.real->run(be, c, queued_resolved(b), &unused));
    TRY(queued.real->step_wait(be, unused));
    queued_keep(slot, is_head ? &d->stages.sample : &queued.model->sample, b->n_samples);
    *ticket = slot->ticket = ++queued.ticket;
out:
    return st;
}

static enum osp_status queued_wait(struct backend *be, uint64_t ticket)
{
    (void)be;
    if (ticket == 0 || ticket > queued.ticket || ticket < queued.waited)
        queued_fail("a step is waited for that was not run, or out of order");
    queued.waited = ticket;
    queued.completed = queued_slot(ticket)->ticket == ticket ? queued_slot(ticket) : NULL;
    return OSP_OK;
}

static bool queued_has_ended(struct backend *be, uint64_t ticket)
{
    (void)be;
    return ticket < queued.ticket;
}

static enum osp_status queued_sampled(struct backend *be, struct sampled *out)
{
    (void)be;
    if (queued.completed == NULL)
        queued_fail("the results are lost: later steps have taken the slot");
    *out = (struct sampled){.tokens = queued.completed->tokens,
                            .logprobs = queued.completed->logprobs,
                            .top_tokens = queued.completed->top_tokens,
                            .top_logprobs = queued.completed->top_logprobs,
                            .candidates = queued.completed->candidates,
                            .begin_ns = 1000000 * queued.completed->ticket + 1,
                            .end_ns = 1000000 * queued.completed->ticket + 900000};
    return OSP_OK;
}

static void queued_info(const struct backend *be, struct device_info *out)
{
    queued.real->info(be, out);
    out->runs_async = out->runs_pipelined = true;
}

/* From now on the model's device queues steps. Before an engine is opened with it. */
static inline void queued_device_use(struct osp_model *model)
{
    queued.model = model->model;
    queued.real = model->model->ops;
    queued.ops = *queued.real;
    queued.ops.info = queued_info;
    queued.ops.run = queued_run;
    queued.ops.step_wait = queued_wait;
    queued.ops.step_has_ended = queued_has_ended;
    queued.ops.sampled = queued_sampled;
    model->model->ops = &queued.ops;
}

#endif
