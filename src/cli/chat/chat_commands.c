#include "cli/chat/chat_commands.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"
#include "base/str.h"
#include "cli/chat/conversation_json.h"

enum { TEMPERATURE_MAX = 2 };

static void print_name(const char *before, const char *name)
{
    char *shown = printable_new(name); /* it may be a server's */

    printf("%s%s\n", before, shown);
    free(shown);
}

/* ---- the conversation ---- */

static enum osp_status slash_help(struct chat_session *s, const char *argument);

static enum osp_status slash_clear(struct chat_session *s, const char *argument)
{
    (void)argument;
    conversation_restart(&s->conversation);
    puts("New conversation.");
    return OSP_OK;
}

static enum osp_status slash_system(struct chat_session *s, const char *argument)
{
    conversation_set_system(&s->conversation, *argument ? argument : NULL);
    puts(*argument ? "New conversation with this system prompt."
                   : "New conversation without a system prompt.");
    return OSP_OK;
}

/* ---- files ---- */

/* "~/x" is in the home folder. A string to free(). */
static char *path_of(const char *argument)
{
    const char *home = getenv("HOME");

    return strncmp(argument, "~/", 2) == 0 && home ? mem_printf("%s%s", home, argument + 1)
                                                   : mem_strdup(argument);
}

static enum osp_status save(struct chat_session *s, const char *name, const char *argument,
                            bool replace)
{
    char *path = path_of(argument);
    const bool is_same = s->file != NULL && strcmp(s->file, path) == 0;
    enum osp_status st = OSP_OK;

    if (*argument == '\0')
        st = fail(OSP_EINVAL, "/%s: needs a file: /%s FILE", name, name);
    else
        st = conversation_save(&s->conversation, s->source.model(s->source.self), path,
                               replace || is_same);
    if (st != OSP_OK) {
        free(path);
        return st;
    }
    printf("%s %zu messages to ", is_same ? "Saved again:" : "Saved", s->conversation.n);
    print_name("", path);
    free(s->file);
    s->file = path;
    return OSP_OK;
}

static enum osp_status slash_save(struct chat_session *s, const char *argument)
{
    return save(s, "save", argument, false);
}

static enum osp_status slash_save_over(struct chat_session *s, const char *argument)
{
    return save(s, "save!", argument, true);
}

static enum osp_status slash_load(struct chat_session *s, const char *argument)
{
    char *path = path_of(argument);
    struct conversation loaded = {0};
    enum osp_status st;

    if (*argument == '\0')
        TRY(fail(OSP_EINVAL, "/load: needs a file: /load FILE"));
    TRY(conversation_load(&loaded, path));
    if (loaded.effort == NULL && s->conversation.effort != NULL)
        loaded.effort = mem_strdup(s->conversation.effort);
    conversation_release(&s->conversation);
    s->conversation = loaded;
    printf("Loaded %zu messages from ", loaded.n);
    print_name("", path);
    free(s->file);
    s->file = path;
    return OSP_OK;
out:
    free(path);
    return st;
}

/* ---- the answers ---- */

static enum osp_status slash_model(struct chat_session *s, const char *argument)
{
    enum osp_status st;

    if (*argument == '\0') {
        s->source.describe(s->source.self);
        return OSP_OK;
    }
    st = s->source.set_model(s->source.self, argument);
    if (st == OSP_OK)
        print_name("Model: ", argument);
    return st;
}

static enum osp_status slash_effort(struct chat_session *s, const char *argument)
{
    if (*argument != '\0') {
        const enum osp_status st = conversation_set_effort(&s->conversation, argument);

        if (st != OSP_OK)
            return st;
    }
    printf("Reasoning effort: %s\n",
           s->conversation.effort ? s->conversation.effort : "the model's default");
    return OSP_OK;
}

static enum osp_status slash_temperature(struct chat_session *s, const char *argument)
{
    struct osp_sampling *sampling = &s->request.sampling;
    char *end;
    const double value = strtod(argument, &end);

    if (*argument == '\0' && !sampling->has_temperature) {
        puts("Temperature: the model's default");
        return OSP_OK;
    }
    if (*argument != '\0') {
        if (end == argument || *end != '\0' || !(value >= 0 && value <= TEMPERATURE_MAX))
            return fail(OSP_EINVAL, "/temperature %s: must be a number from 0 to %d", argument,
                        TEMPERATURE_MAX);
        sampling->has_temperature = true;
        sampling->temperature = (float)value;
    }
    printf("Temperature: %g\n", (double)sampling->temperature);
    return OSP_OK;
}

static enum osp_status slash_stats(struct chat_session *s, const char *argument)
{
    (void)argument;
    s->source.describe(s->source.self);
    printf("%d answers, %lld prompt tokens, %lld generated at %.1f tokens/s\n", s->n_answers,
           (long long)s->n_prompt_tokens, (long long)s->n_tokens,
           s->generation_seconds > 0 ? (double)s->n_tokens / s->generation_seconds : 0.0);
    return OSP_OK;
}

static enum osp_status slash_exit(struct chat_session *s, const char *argument)
{
    (void)argument;
    s->is_done = true;
    return OSP_OK;
}

/* ---- the table ---- */

#define FILE_ARGUMENT " FILE"

static const struct slash {
    const char *name, *argument, *text;
    enum osp_status (*run)(struct chat_session *s, const char *argument);
} SLASHES[] = {
    {"help", "", "list the commands", slash_help},
    {"clear", "", "start a new conversation with the same system prompt", slash_clear},
    {"system", " TEXT", "start a new conversation with this system prompt", slash_system},
    {"model", " NAME", "print the model; with --url, switch to another one", slash_model},
    {"effort", " low|medium|high", "set the reasoning effort", slash_effort},
    {"temperature", " NUMBER", "set the sampling temperature; 0 is greedy decoding",
     slash_temperature},
    {"save", FILE_ARGUMENT, "write the conversation to a new file, as JSON", slash_save},
    {"save!", FILE_ARGUMENT, "the same, and replace an existing file", slash_save_over},
    {"load", FILE_ARGUMENT, "continue the conversation of a file", slash_load},
    {"stats", "", "print token counts and speed", slash_stats},
    {"exit", "", "exit, like Ctrl-D", slash_exit},
    {"quit", "", "the same", slash_exit},
    {"bye", "", "the same", slash_exit},
};
enum { N_SLASHES = sizeof SLASHES / sizeof SLASHES[0] };

static enum osp_status slash_help(struct chat_session *s, const char *argument)
{
    (void)s, (void)argument;
    for (int i = 0; i < N_SLASHES; i++)
        printf("/%s%-*s %s\n", SLASHES[i].name, 24 - (int)strlen(SLASHES[i].name),
               SLASHES[i].argument, SLASHES[i].text);
    puts("A paste of several lines is one message; so is a text between two \"\"\". Tab completes "
         "commands.\nCtrl-C stops an answer.");
    return OSP_OK;
}

static const struct slash *find_slash(const char *name, size_t n_bytes)
{
    for (int i = 0; i < N_SLASHES; i++)
        if (strlen(SLASHES[i].name) == n_bytes && strncmp(SLASHES[i].name, name, n_bytes) == 0)
            return &SLASHES[i];
    return NULL;
}

enum osp_status chat_command_run(struct chat_session *s, const char *line)
{
    const size_t n = strcspn(line, " \n");
    const struct slash *slash = find_slash(line, n);

    if (slash == NULL)
        return fail(OSP_EINVAL, "/%.*s: unknown command; /help lists all commands", (int)n, line);
    return slash->run(s, line + n + strspn(line + n, " \n"));
}

/* ---- completion ---- */

/* Those of "low|medium|high" that begin with `word`. */
static void add_values(struct completions *out, const char *values, const char *word)
{
    while (*values) {
        const size_t n = strcspn(values, "|");
        char *value = mem_strndup(values, n);

        if (strncmp(value, word, strlen(word)) == 0)
            completions_add(out, value);
        free(value);
        values += n + (values[n] == '|');
    }
}

/* The word as a pattern that matches what begins with it. A string to free(). */
static char *pattern_of(const char *word)
{
    char *path = path_of(word), *pattern = mem_new(2 * strlen(path) + 2), *to = pattern;

    for (const char *c = path; *c; c++) {
        if (strchr("*?[\\", *c))
            *to++ = '\\';
        *to++ = *c;
    }
    *to = '*';
    free(path);
    return pattern;
}

static void add_files(struct completions *out, const char *word)
{
    char *pattern = pattern_of(word), *path = path_of(word);
    const size_t n_path = strlen(path);
    glob_t found;

    if (glob(pattern, GLOB_MARK, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) { /* with ~ again, as it was typed */
            char *shown = mem_printf("%s%s", word, found.gl_pathv[i] + n_path);

            completions_add(out, shown);
            free(shown);
        }
        globfree(&found);
    }
    free(pattern);
    free(path);
}

static void add_names(struct completions *out, const char *word)
{
    for (int i = 0; i < N_SLASHES; i++) {
        char *name = mem_printf("/%s%s", SLASHES[i].name, *SLASHES[i].argument ? " " : "");

        if (strncmp(name, word, strlen(word)) == 0)
            completions_add(out, name);
        free(name);
    }
}

void chat_command_complete(struct completions *out, const char *line)
{
    const size_t n = strcspn(line, " ");
    const struct slash *slash = n > 0 ? find_slash(line + 1, n - 1) : NULL;
    const char *word = line + n + strspn(line + n, " ");

    out->n_typed = strlen(line[n] == '\0' ? line : word);
    if (line[n] == '\0')
        add_names(out, line);
    else if (slash && strchr(slash->argument, '|'))
        add_values(out, slash->argument + 1, word);
    else if (slash && strcmp(slash->argument, FILE_ARGUMENT) == 0)
        add_files(out, word);
}
