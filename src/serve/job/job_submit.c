/* The part of a job that runs on a worker thread. Parsing, rendering and tokenizing a large body
 * take long enough to delay the streams of other clients if the loop did them. */
#include "serve/job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/memory.h"
#include "serve/job/bad_words.h"
#include "serve/fields/json_budget.h"
#include "serve/fields/json_response_format.h"

static enum osp_status check_model(const struct job *job)
{
    const struct server *s = job->server;

    if (!job->params.model || server_has_model_like(s, job->params.model, job->kind->model_prefix))
        return OSP_OK;
    return fail(OSP_ENOTFOUND, "model: '%.200s' does not exist; this server serves '%s'",
                job->params.model, s->names[0]);
}

/* Called between steps that may take long. */
static enum osp_status check_wanted(const struct job *job)
{
    return atomic_load(&job->is_client_gone) ? fail(OSP_ECANCELED, "the client has disconnected")
                                             : OSP_OK;
}

/* Allocates the choices of one more prompt. Returns the index of the first. */
static int add_choices(struct job *job)
{
    const int n = job->params.n_choices > 0 ? job->params.n_choices : 1, first = job->n_choices;
    struct job_choice *all = mem_new((size_t)(first + n) * sizeof *all);

    if (first > 0)
        memcpy(all, job->choices, (size_t)first * sizeof *all);
    free(job->choices);
    job->choices = all;
    job->n_choices = first + n;
    for (int i = first + 1; i < first + n; i++)
        all[i].same_prompt = true;
    return first;
}

/* The options of the i-th choice of a prompt. The choices do not depend on other prompts of the
 * request. */
static struct osp_request_options options_of(const struct job *job, int i)
{
    struct osp_request_options opt = job->params.options;

    opt.sampling.seed += (uint64_t)i;
    opt.no_wait =
        /* a few threads serve all clients, so they must not wait while a grammar is compiled */
        true;
    return opt;
}

enum osp_status job_add_chat(struct job *job, const struct osp_chat *chat)
{
    const int first = add_choices(job);
    enum osp_status st = OSP_OK;

    job->effort = osp_chat_effort(chat);
    for (int i = first; i < job->n_choices; i++) {
        struct osp_request_options opt = options_of(job, i - first);

        TRY(check_wanted(job));
        opt.prompt_logprobs = opt.prompt_logprobs && i == first; /* only once per prompt */
        TRY(osp_submit_chat(&job->choices[i].request, job->server->engine, chat, &opt));
        if (i == first) /* the answer has each prompt once */
            TRY(job_check_prompt(job, job->choices[i].request));
    }
out:
    return st;
}

enum osp_status job_add_tokens(struct job *job, const int32_t *ids, size_t n_ids)
{
    const int first = add_choices(job);
    enum osp_status st = OSP_OK;

    for (int i = first; i < job->n_choices; i++) {
        struct osp_request_options opt = options_of(job, i - first);

        TRY(check_wanted(job));
        TRY(osp_submit_tokens(&job->choices[i].request, job->server->engine, ids, n_ids, &opt));
        TRY(job_check_prompt(job, job->choices[i].request));
    }
out:
    return st;
}

enum osp_status job_refuse(struct job *job, enum osp_status st)
{
    if (st == OSP_OK)
        return st;
    api_error_from_status(&job->error, st, osp_error());
    if (st == OSP_ELIMIT)
        job->error.code = "invalid_value"; /* a limit of the request, not the context length */
    return st;
}

static void become(struct job *job, const struct job_kind *kind)
{
    free(job->state);
    job->kind = kind;
    job->state = kind->state_bytes > 0 ? mem_new(kind->state_bytes) : NULL;
    job->params.own = job->state;
}

static enum osp_status read_and_submit(struct job *job)
{
    enum osp_status st;

    job->params.options = job->server->opt.defaults;
    TRY(check_wanted(job));
    TRY(json_body_read(&job->json, job->body, job->n_body_bytes));
    TRY(check_wanted(job));
    if (job->kind->choose != NULL)
        become(job, job->kind->choose(job->json));
    TRY(fields_read(&job->params, job->kind->fields, job->json));
    caller_apply(&job->caller, &job->server->keys, &job->params);
    TRY(check_model(job));
    TRY(bad_words_apply(&job->params, osp_model_tokenizer(job->server->loading.result.model),
                        json_object_get(job->json, "bad_words")));
    st = json_form_explain(&job->params, job->kind->submit(job));
out:
    if (st != OSP_OK && job->error.http_status == 0)
        api_error_from_status(&job->error, st, osp_error());
    return st;
}

void job_work(void *ctx)
{
    struct job *job = ctx;
    enum osp_status memory;

    cancel_begin(&job->is_client_gone);
    json_budget_begin(json_budget_for(job->n_body_bytes));
    job->status = read_and_submit(job);
    json_decref(job->json);
    job->json = NULL;
    memory = json_budget_end();
    cancel_end();
    if (memory != OSP_OK)
        job->status = json_budget_failure(job->status, memory, job->n_body_bytes, &job->error);
    http_body_free(job->server->http, job->body, job->n_body_bytes);
    job->body = NULL;
}
