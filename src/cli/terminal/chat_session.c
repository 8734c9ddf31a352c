#include "cli/terminal/chat_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/terminal/chat_line.h"
#include "cli/terminal/terminal.h"

enum { MESSAGE_BYTES_MAX = 16 << 20, TEMPERATURE_MAX = 2 };

struct session {
    const struct chat_setup *setup;
    struct osp_chat *chat;
    struct osp_request_options request;
    char *system, *effort; /* NULL: no instruction, effort medium */
    struct answer last;
    int n_answers;
    int64_t n_prompt_tokens, n_tokens;
    double generation_seconds;
    bool is_done;
};

enum osp_status chat_start(struct osp_chat **out, const char *system, const char *effort)
{
    struct osp_chat *chat = osp_chat_new();
    enum osp_status st = OSP_OK;

    if (effort)
        TRY(osp_chat_set_effort(chat, effort));
    if (system)
        TRY(osp_chat_add(chat, "system", system));
    *out = chat;
    return OSP_OK;
out:
    osp_chat_free(chat);
    return st;
}

static enum osp_status restart_chat(struct session *s)
{
    osp_chat_free(s->chat);
    s->chat = NULL;
    return chat_start(&s->chat, s->system, s->effort);
}

/* ---- slash commands ---- */

static enum osp_status slash_help(struct session *s, const char *positional);

static enum osp_status slash_clear(struct session *s, const char *positional)
{
    (void)positional;
    puts("New conversation.");
    return restart_chat(s);
}

static enum osp_status slash_effort(struct session *s, const char *positional)
{
    enum osp_status st = osp_chat_set_effort(s->chat, positional);

    if (st != OSP_OK)
        return st;
    free(s->effort);
    s->effort = mem_strdup(positional);
    printf("Reasoning effort: %s\n", positional);
    return OSP_OK;
}

static enum osp_status slash_system(struct session *s, const char *positional)
{
    free(s->system);
    s->system = *positional ? mem_strdup(positional) : NULL;
    puts(*positional ? "New conversation with this system prompt."
                     : "New conversation without a system prompt.");
    return restart_chat(s);
}

static enum osp_status slash_stats(struct session *s, const char *positional)
{
    struct osp_model_info info;

    (void)positional;
    osp_model_get_info(s->setup->model, &info);
    printf("%s on %s; context length %d tokens\n", info.name, info.device, info.context_tokens_max);
    printf("%d answers, %lld prompt tokens, %lld generated at %.1f tokens/s\n", s->n_answers,
           (long long)s->n_prompt_tokens, (long long)s->n_tokens,
           s->generation_seconds > 0 ? (double)s->n_tokens / s->generation_seconds : 0.0);
    return OSP_OK;
}

static enum osp_status slash_temperature(struct session *s, const char *positional)
{
    char *end;
    const double value = strtod(positional, &end);

    if (end == positional || *end != '\0' || !(value >= 0 && value <= TEMPERATURE_MAX))
        return fail(OSP_EINVAL, "/temperature %s: must be a number from 0 to %d", positional,
                    TEMPERATURE_MAX);
    s->request.sampling.has_temperature = true;
    s->request.sampling.temperature = (float)value;
    printf("Temperature: %g\n", value);
    return OSP_OK;
}

static enum osp_status slash_exit(struct session *s, const char *positional)
{
    (void)positional;
    s->is_done = true;
    return OSP_OK;
}

static enum osp_status slash_quit(struct session *s, const char *positional)
{
    return slash_exit(s, positional);
}

static enum osp_status slash_bye(struct session *s, const char *positional)
{
    return slash_exit(s, positional);
}

/* X(name, argument, text) */
#define SLASH_LIST(X)                                                                              \
    X(help, "", "list the commands")                                                               \
    X(clear, "", "start a new conversation")                                                       \
    X(effort, " low|medium|high", "set the reasoning effort")                                      \
    X(system, " TEXT", "start a new conversation with this system prompt")                         \
    X(temperature, " NUMBER", "set the sampling temperature; 0 is greedy decoding")                \
    X(stats, "", "print token counts and speed")                                                   \
    X(exit, "", "exit, like Ctrl-D")                                                               \
    X(quit, "", "the same")                                                                        \
    X(bye, "", "the same")

static const struct {
    const char *name, *argument, *text;
    enum osp_status (*run)(struct session *s, const char *positional);
} SLASHES[] = {
#define SLASH_ROW(name, argument, text) {#name, argument, text, slash_##name},
    SLASH_LIST(SLASH_ROW)
#undef SLASH_ROW
};
enum { N_SLASHES = sizeof SLASHES / sizeof SLASHES[0] };

static enum osp_status slash_help(struct session *s, const char *positional)
{
    (void)s, (void)positional;
    for (int i = 0; i < N_SLASHES; i++)
        printf("/%s%-*s %s\n", SLASHES[i].name, 24 - (int)strlen(SLASHES[i].name),
               SLASHES[i].argument, SLASHES[i].text);
    puts("Put \"\"\" before and after a message of several lines. Ctrl-C stops an answer.");
    return OSP_OK;
}

static enum osp_status run_slash(struct session *s, const char *line)
{
    size_t n = strcspn(line, " ");

    for (int i = 0; i < N_SLASHES; i++)
        if (strlen(SLASHES[i].name) == n && strncmp(SLASHES[i].name, line, n) == 0)
            return SLASHES[i].run(s, line + n + strspn(line + n, " "));
    return fail(OSP_EINVAL, "/%.*s: unknown command; /help lists all commands", (int)n, line);
}

/* ---- answers ---- */

static void count(struct session *s)
{
    s->n_answers++;
    s->n_prompt_tokens += s->last.usage.n_prompt_tokens;
    s->n_tokens += s->last.usage.n_generated_tokens;
    s->generation_seconds += s->last.usage.generation_seconds;
    if (!s->setup->quiet)
        answer_print_rate(stderr, &s->last);
}

static enum osp_status answer(struct session *s, const char *message)
{
    struct answer *a = &s->last;
    enum osp_status st;

    answer_release(a);
    answer_init(a);
    TRY(osp_chat_add(s->chat, "user", message));
    TRY(answer_run(a, s->setup->engine, s->chat, &s->request, &s->setup->style));
    count(s);
    if (a->content.size_bytes > 0)
        st = osp_chat_add_assistant(s->chat, buf_text(&a->reasoning), buf_text(&a->content));
out:
    return st;
}

static void respond(struct session *s, const char *line)
{
    enum osp_status st = line[0] == '/' ? run_slash(s, line + 1) : answer(s, line);

    if (st != OSP_OK)
        fprintf(stderr, "%s\n", osp_error());
}

static void converse(struct session *s, struct chat_line *lines)
{
    struct buf line;
    enum line_result result = LINE_READ;

    buf_init(&line, MESSAGE_BYTES_MAX);
    while (!s->is_done && result != LINE_END) {
        result = chat_line_read(lines, &line);
        if (result == LINE_READ && line.size_bytes > 0)
            respond(s, line.data);
    }
    if (result == LINE_END)
        putchar('\n');
    buf_release(&line);
}

enum osp_status chat_session_run(const struct chat_setup *setup)
{
    struct session s = {.setup = setup,
                        .request = setup->request,
                        .system = setup->system ? mem_strdup(setup->system) : NULL,
                        .effort = setup->effort ? mem_strdup(setup->effort) : NULL};
    struct chat_line *lines;
    enum osp_status st;

    answer_init(&s.last);
    TRY(restart_chat(&s));
    interrupt_catch();
    lines = chat_line_open();
    converse(&s, lines);
    chat_line_close(lines);
out:
    answer_release(&s.last);
    osp_chat_free(s.chat);
    free(s.system);
    free(s.effort);
    return st;
}
