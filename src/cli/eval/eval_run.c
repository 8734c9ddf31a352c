/* Runs prompts through the engine: a window of requests is in flight, answers are read in order. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/eval/eval.h"

enum {
    WINDOW = 24, /* concurrent requests: keeps the engine's default batch of 8 full */
    ANSWER_BYTES_MAX = 1 << 20
};

struct run {
    const struct eval_tasks *tasks;
    const struct eval_run_options *opt;
    struct osp_engine *engine;
    int32_t return_id, call_id;
    struct osp_request *requests[WINDOW]; /* of task i at i % WINDOW; NULL: free */
    size_t n_submitted, n_read;
    int n_right, n_wrong_shown;
    uint64_t begin_ns, shown_ns;
};

static enum osp_status control_token(int32_t *out, const struct osp_model *model, const char *text)
{
    int32_t *ids;
    size_t n;
    enum osp_status st;

    TRY(osp_tokenize(osp_model_tokenizer(model), text, strlen(text), true, &ids, &n));
    *out = n == 1 ? ids[0] : -1;
    osp_free(ids);
out:
    return st;
}

static enum osp_status submit_next(struct run *r)
{
    const struct eval_task *t = &r->tasks->tasks[r->n_submitted];
    struct osp_request_options opt = {
        .tokens_max = t->tokens_max,
        .sampling = {.temperature = 0, .has_temperature = true},
    };
    enum osp_status st;

    TRY(osp_submit_chat(&r->requests[r->n_submitted % WINDOW], r->engine, t->chat, &opt));
    r->n_submitted++;
out:
    return st == OSP_OK ? OSP_OK : fail_prefix(st, "%s", t->id);
}

static void answer_init(struct eval_answer *a)
{
    memset(a, 0, sizeof *a);
    buf_init(&a->text, ANSWER_BYTES_MAX);
    buf_init(&a->args, ANSWER_BYTES_MAX);
}

static void answer_release(struct eval_answer *a)
{
    buf_release(&a->text);
    buf_release(&a->args);
}

static void on_event(struct eval_answer *a, const struct osp_event *e)
{
    if (e->kind == OSP_EVENT_TEXT)
        buf_append(&a->text, e->text, e->n_bytes);
    if (e->kind == OSP_EVENT_TOOL_ARGS && e->call_index == 0)
        buf_append(&a->args, e->text, e->n_bytes);
    if (e->kind == OSP_EVENT_TOOL_CALL && a->n_calls++ == 0)
        snprintf(a->name, sizeof a->name, "%s", e->name);
    if (e->kind == OSP_EVENT_DONE) {
        a->n_reasoning_tokens = e->usage.n_reasoning_tokens;
        a->stop_token = e->stop_token;
    }
}

static enum osp_status read_answer(struct eval_answer *a, struct osp_request *request)
{
    struct osp_event e = {.kind = OSP_EVENT_NONE};
    enum osp_status st = OSP_OK;

    while (e.kind != OSP_EVENT_DONE) {
        TRY(osp_next_event(request, -1, &e));
        if (e.kind == OSP_EVENT_ERROR)
            return fail(e.status, "%s", e.text);
        on_event(a, &e);
    }
out:
    return st;
}

static void put_shown(const char *before, const char *text, const char *behind)
{
    char *shown = printable_new(text);

    fprintf(stderr, "%s%s%s", before, shown, behind);
    free(shown);
}

static void show_wrong(struct run *r, const struct eval_task *t, const struct eval_answer *a)
{
    char *expect;

    if (r->n_wrong_shown++ >= r->opt->n_wrong_shown)
        return;
    expect = json_dumps(t->expect, JSON_COMPACT);
    put_shown(r->opt->progress ? "\r\033[K" : "", t->id, "");
    put_shown(": expected ", expect, "\n");
    if (a->n_calls > 0) {
        put_shown("    called ", a->name, "");
        put_shown(" ", buf_text(&a->args), "\n");
    } else {
        put_shown("    answered \"", buf_text(&a->text), "\"\n");
    }
    free(expect);
}

static void show_progress(struct run *r)
{
    uint64_t now_ns = clock_ns();
    bool all = r->n_read == r->tasks->n;

    if (!r->opt->progress || (!all && now_ns - r->shown_ns < 200 * 1000 * 1000))
        return;
    r->shown_ns = now_ns;
    fprintf(stderr, "\r%s: %zu of %zu, %.1f %% right, %.0f s\033[K%s", r->opt->what, r->n_read,
            r->tasks->n, 100.0 * r->n_right / (double)r->n_read,
            (double)(now_ns - r->begin_ns) * 1e-9, all ? "\n" : "");
}

static enum osp_status read_next(struct run *r, struct eval_result *results)
{
    const struct eval_task *t = &r->tasks->tasks[r->n_read];
    struct eval_result *result = &results[r->n_read];
    struct osp_request **request = &r->requests[r->n_read % WINDOW];
    struct eval_answer a;
    enum osp_status st;

    answer_init(&a);
    TRY(read_answer(&a, *request));
    osp_request_close(*request);
    *request = NULL;
    result->right = eval_judge(t, &a);
    result->ended_right = a.stop_token == (a.n_calls > 0 ? r->call_id : r->return_id);
    result->n_reasoning_tokens = a.n_reasoning_tokens;
    r->n_right += result->right;
    r->n_read++;
    if (!result->right)
        show_wrong(r, t, &a);
    show_progress(r);
out:
    answer_release(&a);
    return st == OSP_OK ? OSP_OK : fail_prefix(st, "%s", t->id);
}

static enum osp_status run_all(struct run *r, struct eval_result *results)
{
    enum osp_status st = OSP_OK;

    while (r->n_read < r->tasks->n) {
        while (r->n_submitted < r->tasks->n && r->n_submitted < r->n_read + WINDOW)
            TRY(submit_next(r));
        TRY(read_next(r, results));
    }
out:
    return st;
}

enum osp_status eval_run(struct eval_result *results, const struct eval_tasks *tasks,
                         struct osp_model *model, const struct eval_run_options *opt)
{
    struct run r = {.tasks = tasks, .opt = opt, .begin_ns = clock_ns()};
    enum osp_status st;

    TRY(control_token(&r.return_id, model, "<|return|>"));
    TRY(control_token(&r.call_id, model, "<|call|>"));
    TRY(osp_engine_open(&r.engine, model, opt->engine));
    TRY(run_all(&r, results));
    if (opt->drafts != NULL) {
        struct osp_engine_stats stats;

        osp_engine_get_stats(r.engine, &stats);
        *opt->drafts = stats.drafts;
    }
out:
    for (int i = 0; i < WINDOW; i++)
        osp_request_close(r.requests[i]);
    osp_engine_close(r.engine);
    return st;
}
