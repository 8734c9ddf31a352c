#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_style(FILE *f)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

    return isatty(fileno(f)) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

void terminal_dim(FILE *f, bool on)
{
    if (has_style(f))
        fputs(on ? "\033[2m" : "\033[0m", f);
}

/* Bytes of a control character at s (C0 but newline and tab, DEL, C1 as UTF-8), or 0. */
static size_t control_bytes(const unsigned char *s, size_t n_bytes)
{
    if ((s[0] < ' ' && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7f)
        return 1;
    return n_bytes >= 2 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f ? 2 : 0;
}

static void put_safely(FILE *f, const unsigned char *s, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes;) {
        size_t n_control = control_bytes(s + i, n_bytes - i);

        if (n_control)
            fputs("\xef\xbf\xbd", f); /* U+FFFD */
        else
            fputc(s[i], f);
        i += n_control ? n_control : 1;
    }
}

void terminal_put(FILE *f, const char *text, size_t n_bytes)
{
    if (isatty(fileno(f)))
        put_safely(f, (const unsigned char *)text, n_bytes);
    else
        fwrite(text, 1, n_bytes, f);
    fflush(f);
}
