/* The worker thread's half of a chat completion: parsing, rendering and tokenising take long enough to
 * hold up other clients' tokens if the loop did them. */
#include "serve/chat_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/json_budget.h"

static void take_failure(struct chat_job *job, enum osp_status st)
{
    job->status = st;
    if (st != OSP_OK)
        api_error_from_status(&job->error, st, osp_error());
}

static enum osp_status check_model(const struct chat_job *job)
{
    const struct server *s = job->server;

    if (!job->params.model || server_has_model(s, job->params.model))
        return OSP_OK;
    return fail(OSP_ENOTFOUND, "model: there is no model '%.200s' here; this server has '%s'",
                job->params.model, s->names[0]);
}

static enum osp_status read_params(struct chat_job *job)
{
    enum osp_status st;

    job->params.options = job->server->opt.defaults;
    TRY(chat_params_read(&job->params, job->body, job->n_body_bytes));
    TRY(check_model(job));
out:
    return st;
}

static enum osp_status read_chat(struct osp_chat **out, const struct chat_job *job)
{
    char *without = NULL;
    enum osp_status st;

    if (!job->params.no_tools)
        return osp_chat_from_json(out, job->body, job->n_body_bytes);
    st = chat_body_without_tools(&without, job->body, job->n_body_bytes);
    if (st == OSP_OK)
        st = osp_chat_from_json(out, without, strlen(without));
    free(without);
    return st;
}

/* The first choice has the seed that was given, the others those that follow. */
static enum osp_status submit_choice(struct chat_job *job, const struct osp_chat *chat, int i)
{
    struct osp_request_options opt = job->params.options;

    opt.sampling.seed += (uint64_t)i;
    return osp_submit_chat(&job->choices[i].request, job->server->engine, chat, &opt);
}

static enum osp_status submit_all(struct chat_job *job, const struct osp_chat *chat)
{
    enum osp_status st = OSP_OK;

    job->n_choices = job->params.n_choices > 0 ? job->params.n_choices : 1;
    job->choices = mem_new((size_t)job->n_choices * sizeof *job->choices);
    for (int i = 0; i < job->n_choices; i++)
        TRY(submit_choice(job, chat, i));
out:
    return st;
}

static void read_and_submit(struct chat_job *job)
{
    struct osp_chat *chat = NULL;

    take_failure(job, read_params(job));
    if (job->status == OSP_OK)
        take_failure(job, read_chat(&chat, job));
    if (job->status == OSP_ELIMIT)
        job->error.code = "invalid_value"; /* of the conversation, not of the context */
    if (job->status == OSP_OK)
        take_failure(job, submit_all(job, chat));
    osp_chat_free(chat);
}

void chat_job_submit(void *ctx)
{
    struct chat_job *job = ctx;
    enum osp_status memory;

    json_budget_begin(json_budget_for(job->n_body_bytes));
    read_and_submit(job);
    memory = json_budget_end();
    if (memory == OSP_ENOMEM) /* what was read, and perhaps submitted, may lack something */
        take_failure(job, fail(OSP_ENOMEM, "no memory for the JSON of a request"));
    else if (memory == OSP_ELIMIT && job->status != OSP_OK)
        api_error_set(&job->error, 400, "invalid_value",
                      "the body is too intricate: its JSON needs more than %zu MiB of memory",
                      json_budget_for(job->n_body_bytes) >> 20);
    free(job->body);
    job->body = NULL;
}
