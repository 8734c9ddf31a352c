#include "cli/chat/chat_line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/terminal/interrupt.h"

enum { HISTORY_LINES_MAX = 1000, HISTORY_LINE_BYTES_MAX = 64 << 10 /* not whole pasted files */ };

static const char QUOTES[] = "\"\"\"";

struct chat_line {
    EditLine *el;
    History *history;
    char *history_path; /* NULL: the history is not saved */
    struct chat_keys keys;
};

/* ---- the history file ---- */

static char *make_folder(char *folder, const char *name)
{
    char *path = path_join(folder, name);

    free(folder);
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return path;
    free(path);
    return NULL;
}

/* $XDG_STATE_HOME/osprey, or ~/.local/state/osprey. */
static char *state_folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *folder;

    if (state && *state == '/')
        return make_folder(mem_strdup(state), "osprey");
    if (!home || *home != '/')
        return NULL;
    folder = make_folder(mem_strdup(home), ".local");
    folder = folder ? make_folder(folder, "state") : NULL;
    return folder ? make_folder(folder, "osprey") : NULL;
}

static void open_history(struct chat_line *l)
{
    HistEvent event;
    char *folder = state_folder();

    l->history = history_init();
    history(l->history, &event, H_SETSIZE, HISTORY_LINES_MAX);
    history(l->history, &event, H_SETUNIQUE, 1);
    if (!folder)
        return;
    l->history_path = path_join(folder, "chat_history");
    free(folder);
    history(l->history, &event, H_LOAD, l->history_path);
}

static void save_history(struct chat_line *l)
{
    HistEvent event;
    mode_t mask = umask(077); /* prompts are private to the user */

    if (l->history_path)
        history(l->history, &event, H_SAVE, l->history_path);
    umask(mask);
}

/* ---- characters ---- */

/* Waits for input; false: Ctrl-C came first. */
static bool wait_for_input(void)
{
    struct pollfd wait[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = interrupt_descriptor(), .events = POLLIN}};

    while (poll(wait, 2, -1) < 0)
        if (errno != EINTR)
            return true; /* the read reports the error */
    return wait[1].revents == 0;
}

/* Reads one UTF-8 character: returns 1, 0 at the end, -1 with EINTR after Ctrl-C. Skips invalid
 * bytes and NUL: a Ctrl-D that is typed before libedit has set up the terminal arrives as NUL,
 * which libedit reads as "insert the next key literally". */
static int read_character(EditLine *el, wchar_t *out)
{
    mbstate_t state = {0};

    (void)el;
    for (;;) {
        ssize_t n;
        size_t used;
        char byte;

        if (!wait_for_input()) {
            errno = EINTR;
            return -1;
        }
        n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0)
            return (int)n;
        used = mbrtowc(out, &byte, 1, &state);
        if (used == 1)
            return 1;
        if (used == (size_t)-1)
            state = (mbstate_t){0};
    }
}

/* ---- lines ---- */

static char *prompt(EditLine *el)
{
    static char ask[] = "> ", more[] = ". ";
    const struct chat_keys *keys = NULL;

    el_get(el, EL_CLIENTDATA, &keys);
    return keys->in_block ? more : ask;
}

struct chat_line *chat_line_open(chat_complete_fn *complete)
{
    struct chat_line *l = mem_new(sizeof *l);

    open_history(l);
    l->el = el_init("osprey", stdin, stdout, stderr);
    l->keys.complete = complete;
    el_set(l->el, EL_CLIENTDATA, &l->keys);
    el_set(l->el, EL_PROMPT, prompt);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_GETCFN, read_character);
    el_set(l->el, EL_HIST, history, l->history);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(l->el, NULL); /* ~/.editrc */
    chat_keys_bind(l->el, &l->keys);
    return l;
}

void chat_line_close(struct chat_line *l)
{
    save_history(l);
    el_end(l->el);
    history_end(l->history);
    free(l->history_path);
    free(l);
}

/* Removes the newline. */
static enum line_result read_line(struct chat_line *l, struct buf *out)
{
    HistEvent event;
    int n = 0;
    const char *line;

    /* Before the prompt, not at the first key as el_gets() does: a paste that is faster than that
     * would lose what does not fit into a line of the terminal's own buffer, 4096 bytes. */
    el_set(l->el, EL_PREP_TERM, 1);
    chat_keys_mark_pastes(&l->keys, true);
    line = el_gets(l->el, &n);
    chat_keys_mark_pastes(&l->keys, false);
    if (interrupt_consume()) {
        el_reset(l->el);
        fputc('\n', stdout);
        return LINE_INTERRUPTED;
    }
    if (!line || n <= 0)
        return LINE_END;
    if (strcmp(line, "\n") != 0 && n <= HISTORY_LINE_BYTES_MAX)
        history(l->history, &event, H_ENTER, line);
    buf_append(out, line, (size_t)n - (line[n - 1] == '\n'));
    return LINE_READ;
}

/* Removes the closing quotes; false: there are none. */
static bool strip_quotes(struct buf *b)
{
    size_t n = sizeof QUOTES - 1;

    if (b->size_bytes < n || memcmp(b->data + b->size_bytes - n, QUOTES, n) != 0)
        return false;
    b->size_bytes -= n;
    b->data[b->size_bytes] = '\0';
    return true;
}

static enum line_result read_block(struct chat_line *l, struct buf *out)
{
    enum line_result result = LINE_READ;
    struct buf first;

    buf_init(&first, out->limit_bytes);
    buf_puts(&first, buf_text(out) + sizeof QUOTES - 1);
    buf_clear(out);
    buf_puts(out, buf_text(&first));
    buf_release(&first);
    l->keys.in_block = true;
    while (result == LINE_READ && !strip_quotes(out)) {
        if (out->size_bytes > 0)
            buf_putc(out, '\n');
        result = read_line(l, out);
    }
    l->keys.in_block = false;
    return result;
}

enum line_result chat_line_read(struct chat_line *l, struct buf *out)
{
    enum line_result result;

    buf_clear(out);
    result = read_line(l, out);
    if (result == LINE_READ && strncmp(buf_text(out), QUOTES, sizeof QUOTES - 1) == 0)
        return read_block(l, out);
    return result;
}
