#include "cli/options/config_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define BLANKS " \t\r"

enum osp_status config_file_open(struct config_file *f, const char *path)
{
    size_t n_bytes;

    *f = (struct config_file){.path = path};
    return file_read(&f->text, &n_bytes, path, CONFIG_FILE_BYTES_MAX);
}

void config_file_close(struct config_file *f)
{
    free(f->text);
    *f = (struct config_file){0};
}

static enum osp_status bad_line(const struct config_file *f, const char *why)
{
    return fail(OSP_EFORMAT, "%s, line %d: %s", f->path, f->line, why);
}

/* The next line, NUL-terminated; NULL at the end. */
static char *next_line(struct config_file *f)
{
    char *line = f->line == 0 ? f->text : f->at;
    size_t n = line ? strcspn(line, "\n") : 0;

    if (line == NULL || *line == '\0')
        return NULL;
    f->at = line + n + (line[n] == '\n');
    line[n] = '\0';
    f->line++;
    return line;
}

static void trim_right(char *text)
{
    size_t n = strlen(text);

    while (n > 0 && strchr(BLANKS, text[n - 1]))
        text[--n] = '\0';
}

/* An empty line, a comment, or the "---" at the start of a YAML document. */
static bool is_empty(const char *line)
{
    line += strspn(line, BLANKS);
    return *line == '\0' || *line == '#' || strcmp(line, "---") == 0;
}

/* Unquotes 'it''s' and "a \"b\" \\ c" in place. Returns the text after the closing quote; NULL:
 * there is none. */
static char *unquote(char *text)
{
    const char quote = *text;
    char *to = text;

    for (char *from = text + 1; *from; from++) {
        const bool twice = quote == '\'' && from[0] == '\'' && from[1] == '\'';
        const bool escaped = quote == '"' && from[0] == '\\' && (from[1] == '"' || from[1] == '\\');

        if (*from == quote && !twice) {
            *to = '\0';
            return from + 1;
        }
        from += twice || escaped;
        *to++ = *from;
    }
    return NULL;
}

/* A comment begins with # after a blank. */
static void strip_comment(char *value)
{
    for (char *at = strchr(value, '#'); at; at = strchr(at + 1, '#'))
        if (at > value && strchr(BLANKS, at[-1])) {
            *at = '\0';
            break;
        }
    trim_right(value);
}

static enum osp_status read_value(struct config_file *f, char *value)
{
    if (*value == '\'' || *value == '"') {
        const char *behind = unquote(value);

        if (behind == NULL)
            return bad_line(f, "the closing quote is missing");
        return is_empty(behind) ? OSP_OK : bad_line(f, "unexpected text after the closing quote");
    }
    strip_comment(value);
    if (*value == '\0')
        return bad_line(f, "the value is missing; expected name: value");
    if (strcmp(value, "|") == 0 || strcmp(value, ">") == 0 || *value == '&' || *value == '*')
        return bad_line(f, "only values on one line are supported; expected name: value");
    return OSP_OK;
}

enum osp_status config_file_next(struct config_file *f, struct config_line *out, bool *found)
{
    char *line = next_line(f), *colon;

    while (line && is_empty(line))
        line = next_line(f);
    *found = line != NULL;
    if (line == NULL)
        return OSP_OK;
    if (strchr(BLANKS, *line) || *line == '-')
        return bad_line(f, "lists and nested values are not supported; expected name: value");
    colon = strchr(line, ':');
    if (colon == NULL || colon == line || (colon[1] != '\0' && !strchr(BLANKS, colon[1])))
        return bad_line(f, "expected name: value");
    *colon = '\0';
    trim_right(line);
    colon += 1 + strspn(colon + 1, BLANKS);
    *out = (struct config_line){.name = line, .value = colon};
    return read_value(f, colon);
}
