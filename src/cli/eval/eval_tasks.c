/* Reads eval.jsonl: one prompt with its expected answer per line. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/eval/eval.h"

enum { FILE_BYTES_MAX = 256 * 1024 * 1024, TASKS_MAX = 1000000 };

const struct ability_row ABILITIES[N_ABILITIES] = {
#define ABILITY_ROW(name, text, target) {#name, text, target},
    ABILITY_LIST(ABILITY_ROW)
#undef ABILITY_ROW
};

static enum osp_status ability_of(enum ability *out, const char *name)
{
    for (int i = 0; i < N_ABILITIES; i++) {
        *out = (enum ability)i;
        if (name != NULL && strcmp(ABILITIES[i].name, name) == 0)
            return OSP_OK;
    }
    return fail(OSP_EFORMAT, "\"ability\" is %s, which is not an ability",
                name != NULL ? name : "missing");
}

static void task_release(struct eval_task *t)
{
    free(t->id);
    free(t->effort);
    osp_chat_free(t->chat);
    json_decref(t->expect);
}

static void set_or_skip(json_t *body, const char *key, json_t *value)
{
    if (value != NULL)
        json_object_set(body, key, value);
}

/* The fields of a line that form an OpenAI request. */
static enum osp_status read_chat(struct osp_chat **out, const json_t *line)
{
    json_t *body = json_object();
    char *text;
    enum osp_status st;

    set_or_skip(body, "messages", json_object_get(line, "messages"));
    set_or_skip(body, "tools", json_object_get(line, "tools"));
    set_or_skip(body, "reasoning_effort", json_object_get(line, "effort"));
    text = json_dumps(body, JSON_COMPACT);
    st = osp_chat_from_json(out, text, strlen(text));
    free(text);
    json_decref(body);
    return st;
}

static enum osp_status read_task(struct eval_task *t, const json_t *line)
{
    const char *effort = json_string_value(json_object_get(line, "effort"));
    const char *id = json_string_value(json_object_get(line, "id"));
    json_t *expect = json_object_get(line, "expect");
    enum osp_status st;

    TRY(ability_of(&t->ability, json_string_value(json_object_get(line, "ability"))));
    if (!json_is_object(expect))
        return fail(OSP_EFORMAT, "\"expect\" is not an object");
    t->id = mem_strdup(id != NULL ? id : "?");
    t->effort = mem_strdup(effort != NULL ? effort : "medium");
    t->tokens_max = (int)json_integer_value(json_object_get(line, "max_tokens"));
    t->expect = json_incref(expect);
    TRY(read_chat(&t->chat, line));
    TRY(osp_chat_set_date(t->chat, json_string_value(json_object_get(line, "date"))));
out:
    return st;
}

static bool matches_filter(const struct eval_tasks *tasks, const struct eval_task *t,
                           const struct eval_filter *filter)
{
    int n = 0;

    if (filter->ability != NULL && strcmp(filter->ability, ABILITIES[t->ability].name) != 0)
        return false;
    for (size_t i = 0; i < tasks->n; i++)
        n += tasks->tasks[i].ability == t->ability;
    return filter->n_max == 0 || n < filter->n_max;
}

static enum osp_status add_task(struct eval_tasks *out, const struct eval_task *t)
{
    enum osp_status st;

    if (out->n == TASKS_MAX)
        return fail(OSP_ELIMIT, "more than the limit of %d prompts", TASKS_MAX);
    TRY(mem_try_grow(&out->tasks, out->n, &out->n_max, sizeof *out->tasks, "prompts"));
    out->tasks[out->n++] = *t;
out:
    return st;
}

static enum osp_status read_line(struct eval_tasks *out, const char *text, size_t n_bytes,
                                 const struct eval_filter *filter)
{
    struct eval_task t = {.id = NULL};
    json_error_t error;
    json_t *line = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    bool taken = false;
    enum osp_status st;

    if (line == NULL)
        return fail(OSP_EFORMAT, "%s", error.text);
    TRY(read_task(&t, line));
    taken = matches_filter(out, &t, filter);
    if (taken)
        TRY(add_task(out, &t));
out:
    if (st != OSP_OK || !taken)
        task_release(&t);
    json_decref(line);
    return st;
}

static enum osp_status read_lines(struct eval_tasks *out, const char *text, const char *path,
                                  const struct eval_filter *filter)
{
    int n_line = 1;

    for (const char *s = text; *s != '\0'; n_line++) {
        size_t n_bytes = strcspn(s, "\n");
        enum osp_status st = n_bytes > 0 ? read_line(out, s, n_bytes, filter) : OSP_OK;

        if (st != OSP_OK)
            return fail_prefix(st, "%s, line %d", path, n_line);
        s += n_bytes + (s[n_bytes] == '\n');
    }
    return OSP_OK;
}

enum osp_status eval_tasks_read(struct eval_tasks *out, const char *path,
                                const struct eval_filter *filter)
{
    enum ability unused;
    char *text = NULL;
    size_t n_bytes;
    enum osp_status st;

    memset(out, 0, sizeof *out);
    if (filter->ability != NULL)
        TRY(ability_of(&unused, filter->ability));
    TRY(file_read(&text, &n_bytes, path, FILE_BYTES_MAX));
    TRY(read_lines(out, text, path, filter));
    if (out->n == 0)
        st = fail(OSP_EFORMAT, "%s: no prompt matches the options", path);
out:
    free(text);
    if (st != OSP_OK)
        eval_tasks_release(out);
    return st;
}

void eval_tasks_release(struct eval_tasks *t)
{
    for (size_t i = 0; i < t->n; i++)
        task_release(&t->tasks[i]);
    free(t->tasks);
    memset(t, 0, sizeof *t);
}
