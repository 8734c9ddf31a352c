/* Limits of answers that are buffered until they are complete: of each answer, and of all
 * together. */
#include "serve/job/job.h"

enum {
    /* Of all buffered answers: sixteen of the largest, or thousands of usual size. */
    ALL_ANSWERS_BYTES_MAX = 1 << 30,
    /* Smaller answers continue when that limit is reached. */
    SMALL_ANSWER_BYTES = 1 << 20,
    BUDGET_BYTES = REPLY_BYTES_MAX - REPLY_OVERHEAD_BYTES,
    /* Lower bounds of the JSON of one prompt token: its entry in prompt_logprobs, its entry in
     * the lists of echo with logprobs, and its id. */
    PROMPT_LOGPROB_BYTES = 48,
    ECHO_LOGPROB_BYTES = 8,
    TOKEN_ID_BYTES = 2
};

void job_budget_init(struct job *job)
{
    job->budget = (struct answer_budget){.free_bytes = BUDGET_BYTES};
}

static const char *largest_field(const struct job *job)
{
    const struct request_params *p = &job->params;

    if (p->wants_prompt_logprobs)
        return "prompt_logprobs";
    if (p->options.logprobs)
        return "logprobs";
    return p->return_token_ids ? "return_token_ids" : "n";
}

static enum osp_status too_large(const struct job *job)
{
    return fail(OSP_EINVAL,
                "%s: the answer would be larger than %d MiB, the limit of an answer that is not "
                "streamed; request fewer logprobs, token ids or choices",
                largest_field(job), REPLY_BYTES_MAX >> 20);
}

void job_set_too_large(struct job *job)
{
    api_error_from_status(&job->error, too_large(job), osp_error());
}

enum osp_status job_check_prompt(struct job *job, const struct osp_request *request)
{
    const struct request_params *p = &job->params;
    const size_t n_top = (size_t)p->options.top_prompt_logprobs;
    const size_t logprob_bytes =
        p->wants_prompt_logprobs ? PROMPT_LOGPROB_BYTES : ECHO_LOGPROB_BYTES;
    const int32_t *ids;
    size_t n, token_bytes = 0;

    if (p->stream)
        return OSP_OK;
    osp_request_prompt(request, &ids, &n);
    if (p->options.prompt_logprobs)
        token_bytes += (n_top > 1 ? n_top : 1) * logprob_bytes;
    if (p->return_token_ids)
        token_bytes += TOKEN_ID_BYTES;
    job->prompt_bytes += n * token_bytes;
    return job->prompt_bytes <= BUDGET_BYTES ? OSP_OK : too_large(job);
}

static size_t buffered_bytes(const struct job *job)
{
    return job->params.stream && !job->is_detached ? 0 : BUDGET_BYTES - job->budget.free_bytes;
}

bool job_count_buffered(struct job *job)
{
    struct server *s = job->server;
    const size_t now = buffered_bytes(job);

    s->n_buffered_bytes += now - job->n_buffered_bytes;
    job->n_buffered_bytes = now;
    if (s->n_buffered_bytes <= ALL_ANSWERS_BYTES_MAX || now <= SMALL_ANSWER_BYTES)
        return true;
    api_error_set(&job->error, 503, "overloaded",
                  "answers that are not streamed use more than %d MiB of memory together, the "
                  "limit; try again later, or use \"stream\": true",
                  ALL_ANSWERS_BYTES_MAX >> 20);
    return false;
}

void job_uncount_buffered(struct job *job)
{
    job->server->n_buffered_bytes -= job->n_buffered_bytes;
    job->n_buffered_bytes = 0;
}
