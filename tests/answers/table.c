/* The rows of docs/harmony.md between its two marks: "| name | `the model writes` | the client
 * gets |". In what the model writes \| is a bar, \n a line feed and [#N] token N; what the
 * client gets is "nothing" or a list of "reasoning `...`", "content `...`", "call NAME
 * `ARGUMENTS`", with "; " between them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "base/file.h"

enum { FILE_BYTES_MAX = 1 << 22, NAME_BYTES_MAX = 64, CELL_BYTES_MAX = 4096 };

static const char begin_mark[] = "<!-- malformed: begin -->",
                  end_mark[] = "<!-- malformed: end -->";

struct row {
    char name[NAME_BYTES_MAX], writes[CELL_BYTES_MAX], gets[CELL_BYTES_MAX];
};

/* Copies up to the next bar that is not part of the text. Returns the position after it, or NULL
 * if there is no such bar. */
static const char *take_cell(const char *at, char *out, size_t size)
{
    size_t n = 0;

    while (*at != '\0' && *at != '\n' && *at != '|' && n + 1 < size) {
        if (at[0] == '\\' && at[1] == '|')
            at++;
        else if (at[0] == '\\' && at[1] == 'n') {
            out[n++] = '\n';
            at += 2;
            continue;
        }
        out[n++] = *at++;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
    return *at == '|' ? at + 1 : NULL;
}

static bool read_row(const char *line, struct row *row)
{
    if (strncmp(line, "| ", 2) != 0 || strncmp(line, "| name ", 7) == 0)
        return false;
    line = take_cell(line + 2, row->name, sizeof row->name);
    if (line != NULL && *line == ' ')
        line = take_cell(line + 1, row->writes, sizeof row->writes);
    if (line != NULL && *line == ' ')
        line = take_cell(line + 1, row->gets, sizeof row->gets);
    return line != NULL;
}

/* Takes the text between backticks at *at, and moves behind it. */
static void take_code(const struct answer *a, const char **at, struct buf *out)
{
    const char *end = **at == '`' ? strchr(*at + 1, '`') : NULL;

    if (end == NULL)
        answer_die(a, "no text between backticks: %s", *at);
    buf_append(out, *at + 1, (size_t)(end - *at - 1));
    *at = end + 1;
}

static void encode(struct answer *a, const char *text, size_t n)
{
    CHECK(a, tokenizer_encode_with_specials(a->t, text, n, &a->ids) == OSP_OK);
}

static void read_writes(struct answer *a, const char *cell)
{
    struct buf text;
    const char *at, *mark;

    buf_init(&text, CELL_BYTES_MAX);
    take_code(a, &cell, &text);
    CHECK(a, *cell == '\0');
    ids_clear(&a->ids);
    for (at = buf_text(&text); (mark = strstr(at, "[#")) != NULL; at = strchr(mark, ']') + 1) {
        encode(a, at, (size_t)(mark - at));
        CHECK(a, strchr(mark, ']') != NULL && ids_push(&a->ids, (int32_t)atoi(mark + 2)));
    }
    encode(a, at, strlen(at));
    buf_release(&text);
}

static void read_call(struct answer *a, const char **at, struct says *want)
{
    char name[NAME_BYTES_MAX];
    int n = 0;

    CHECK(a, sscanf(*at, "%63[^ ;]%n", name, &n) == 1);
    says_add_call(want, name);
    *at += n;
    if (**at == ' ') {
        (*at)++;
        take_code(a, at, &want->calls);
    }
}

static void read_gets(struct answer *a, const char *at, struct says *want)
{
    says_clear(want);
    if (strcmp(at, "nothing") == 0)
        return;
    for (;;) {
        static const char reasoning[] = "reasoning ", content[] = "content ", call[] = "call ";

        if (strncmp(at, reasoning, strlen(reasoning)) == 0)
            take_code(a, (at += strlen(reasoning), &at), &want->reasoning);
        else if (strncmp(at, content, strlen(content)) == 0)
            take_code(a, (at += strlen(content), &at), &want->content);
        else if (strncmp(at, call, strlen(call)) == 0)
            read_call(a, (at += strlen(call), &at), want);
        else
            answer_die(a, "not understood: %s", at);
        if (strncmp(at, "; ", 2) != 0)
            break;
        at += 2;
    }
    CHECK(a, *at == '\0');
}

/* As an engine would: the last token may end the answer; one that would end it before is passed
 * over. */
static void decide_end(struct answer *a, struct says *want)
{
    a->ignores_stop_tokens = false;
    for (size_t i = 0; i + 1 < a->ids.n; i++)
        a->ignores_stop_tokens = a->ignores_stop_tokens || ends_answer(a, a->ids.data[i]);
    if (a->ignores_stop_tokens || !ends_answer(a, a->ids.data[a->ids.n - 1]))
        want->finish = OSP_FINISH_LENGTH;
    else
        want->finish = want->calls.size_bytes > 0 ? OSP_FINISH_TOOL_CALLS : OSP_FINISH_STOP;
}

/* The same cut off behind every token, which no row needs to say: the ways agree. */
static void check_beginnings(struct answer *a)
{
    struct says unused;

    says_init(&unused);
    for (size_t n = a->ids.n; n > 0; n--) {
        a->ids.n = n;
        decide_end(a, &unused);
        answer_check(a);
    }
    says_release(&unused);
}

static void check_row(struct answer *a, const struct row *row)
{
    struct says want;

    a->name = row->name;
    a->n_stops = 0;
    says_init(&want);
    read_writes(a, row->writes);
    CHECK(a, a->ids.n > 0);
    read_gets(a, row->gets, &want);
    decide_end(a, &want);
    answer_check(a);
    answer_compare(a, "the document", &a->oracle, &want);
    check_beginnings(a);
    says_release(&want);
    a->name = NULL;
}

int table_check(struct answer *a, const char *path)
{
    struct row row;
    char *text, *at, *end;
    size_t n_bytes;
    int n = 0;

    a->name = path;
    if (file_read(&text, &n_bytes, path, FILE_BYTES_MAX) != OSP_OK)
        answer_die(a, "%s", fail_message());
    at = strstr(text, begin_mark);
    end = strstr(text, end_mark);
    if (at == NULL || end == NULL || end < at)
        answer_die(a, "there is no table between %s and %s", begin_mark, end_mark);
    for (*end = '\0'; at != NULL; at = strchr(at + 1, '\n'))
        if (read_row(at + (*at == '\n'), &row)) {
            check_row(a, &row);
            n++;
        }
    free(text);
    a->name = NULL;
    return n;
}
