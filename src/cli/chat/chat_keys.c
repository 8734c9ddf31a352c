#include "cli/chat/chat_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/memory.h"

/* ---- pastes ---- */

static const wchar_t PASTE_END[] = L"\033[201~";
enum { N_PASTE_END = sizeof PASTE_END / sizeof PASTE_END[0] - 1 };

/* The characters of `paste`, as long as there is no byte half of one. */
static wchar_t *characters(const struct buf *paste)
{
    return (wchar_t *)(void *)paste->data; /* from malloc(), so aligned */
}

static size_t count(const struct buf *paste)
{
    return paste->size_bytes / sizeof(wchar_t);
}

static bool ends_paste(const struct buf *paste)
{
    return count(paste) >= N_PASTE_END &&
           wmemcmp(characters(paste) + count(paste) - N_PASTE_END, PASTE_END, N_PASTE_END) == 0;
}

/* Reads up to the mark at the end and removes it. Beyond the limit only the last characters are
 * kept, to find the mark. False: the input ended, or Ctrl-C came first. */
static bool read_paste(EditLine *el, struct buf *paste, bool *too_long)
{
    wchar_t c;

    *too_long = false;
    while (!ends_paste(paste)) {
        if (el_wgetc(el, &c) != 1)
            return false;
        if (buf_append(paste, &c, sizeof c))
            continue;
        *too_long = true;
        memmove(paste->data, paste->data + paste->size_bytes - N_PASTE_END * sizeof c,
                N_PASTE_END * sizeof c);
        buf_truncate(paste, N_PASTE_END * sizeof c);
        (void)buf_append(paste, &c, sizeof c);
    }
    buf_truncate(paste, paste->size_bytes - N_PASTE_END * sizeof c);
    return true;
}

/* Terminals send the end of a line as carriage return, line feed, or both, and the line editor's
 * settings exchange the two. At the end of the text they are left out, so that the cursor stays on
 * the last line. */
static void normalize_newlines(struct buf *paste)
{
    const size_t n = count(paste);
    wchar_t *text = characters(paste), last = L'\0';
    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++) {
        const wchar_t c = text[i];
        const bool is_newline = c == L'\r' || c == L'\n';

        if (is_newline && (last == L'\r' || last == L'\n') && c != last) {
            last = L'\0'; /* the second half of a pair */
            continue;
        }
        text[n_kept++] = is_newline ? L'\n' : c;
        last = c;
    }
    while (n_kept > 0 && text[n_kept - 1] == L'\n')
        n_kept--;
    buf_truncate(paste, n_kept * sizeof *text);
}

static unsigned char insert(EditLine *el, struct buf *paste)
{
    const wchar_t end = L'\0';

    if (count(paste) == 0)
        return CC_NORM;
    if (!buf_append(paste, &end, sizeof end) || el_winsertstr(el, characters(paste)) != 0)
        return CC_ERROR;
    return CC_REFRESH;
}

static unsigned char on_paste(EditLine *el, int key)
{
    unsigned char code = CC_EOF; /* ends the line; the caller finds out why */
    struct buf paste;
    bool too_long;

    (void)key;
    buf_init(&paste, (PASTE_CHARACTERS_MAX + N_PASTE_END + 1) * sizeof(wchar_t));
    if (!read_paste(el, &paste, &too_long)) {
        buf_release(&paste);
        return code;
    }
    if (too_long) {
        fprintf(stderr, "\nthe pasted text is left out: it is longer than %d characters\n",
                (int)PASTE_CHARACTERS_MAX);
        code = CC_REDISPLAY;
    } else {
        normalize_newlines(&paste);
        code = insert(el, &paste);
    }
    buf_release(&paste);
    return code;
}

void chat_keys_mark_pastes(const struct chat_keys *keys, bool on)
{
    if (!keys->has_paste)
        return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

/* ---- Tab ---- */

void completions_add(struct completions *c, const char *word)
{
    if (c->n < COMPLETIONS_MAX)
        c->words[c->n++] = mem_strdup(word);
}

static void completions_release(struct completions *c)
{
    while (c->n > 0)
        free(c->words[--c->n]);
}

/* Length in bytes of what all words begin with. */
static size_t common_bytes(const struct completions *c)
{
    size_t n = strlen(c->words[0]);

    for (int i = 1; i < c->n; i++)
        while (strncmp(c->words[0], c->words[i], n) != 0)
            n--;
    return n;
}

static void list_words(EditLine *el, const struct completions *c)
{
    for (int i = 0; i < c->n; i++)
        printf("%s%s", i == 0 ? "\n" : "  ", c->words[i]);
    putchar('\n');
    fflush(stdout);
    el_set(el, EL_REFRESH);
}

static unsigned char complete(EditLine *el, const struct completions *c)
{
    const size_t n_common = c->n > 0 ? common_bytes(c) : 0;
    char *more;

    if (c->n == 0)
        return CC_ERROR;
    if (c->n > 1 && n_common <= c->n_typed) {
        list_words(el, c);
        return CC_NORM;
    }
    more = mem_printf("%.*s", (int)(n_common - c->n_typed), c->words[0] + c->n_typed);
    el_insertstr(el, more);
    free(more);
    return CC_REFRESH;
}

static unsigned char on_tab(EditLine *el, int key)
{
    const LineInfo *line = el_line(el);
    const struct chat_keys *keys = NULL;
    struct completions words = {0};
    unsigned char code;
    char *before;

    (void)key;
    el_get(el, EL_CLIENTDATA, &keys);
    before = mem_strndup(line->buffer, (size_t)(line->cursor - line->buffer));
    if (before[0] != '/' || keys->complete == NULL) {
        free(before);
        return el_insertstr(el, "\t") == 0 ? CC_REFRESH : CC_ERROR;
    }
    keys->complete(&words, before);
    code = complete(el, &words);
    completions_release(&words);
    free(before);
    return code;
}

/* ---- bindings ---- */

void chat_keys_bind(EditLine *el, struct chat_keys *keys)
{
    const char *editor = NULL, *term = getenv("TERM");

    el_set(el, EL_CLIENTDATA, keys);
    /* el_set() would copy the names and never free them */
    el_wset(el, EL_ADDFN, L"osprey-paste", L"Insert a marked paste", on_paste);
    el_wset(el, EL_ADDFN, L"osprey-complete", L"Complete a command", on_tab);
    el_set(el, EL_BIND, "^I", "osprey-complete", NULL);
    if (el_get(el, EL_EDITOR, &editor) != 0 || editor == NULL || strcmp(editor, "emacs") != 0)
        return;
    el_set(el, EL_BIND, "\\e[200~", "osprey-paste", NULL);
    keys->has_paste = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}
