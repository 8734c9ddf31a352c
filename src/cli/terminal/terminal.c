#include "cli/terminal/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/utf8.h"

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

/* Newlines, tabs and right-to-left marks belong to a text. Other hidden characters could move the
 * cursor or show the text in a different order. */
static bool is_shown(uint32_t code_point)
{
    return code_point == '\n' || code_point == '\t' || code_point == 0x061C ||
           code_point == 0x200E || code_point == 0x200F || !printable_is_hidden(code_point);
}

static void put_safely(FILE *f, const char *s, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes;) {
        uint32_t code_point;
        bool valid;
        const size_t n = utf8_read(s + i, n_bytes - i, &code_point, &valid);

        if (valid && is_shown(code_point))
            fwrite(s + i, 1, n, f);
        else
            fputs("\xef\xbf\xbd", f); /* U+FFFD */
        i += n;
    }
}

void terminal_write(FILE *f, const char *text, size_t n_bytes)
{
    if (isatty(fileno(f)))
        put_safely(f, text, n_bytes);
    else
        fwrite(text, 1, n_bytes, f);
}

void terminal_put(FILE *f, const char *text, size_t n_bytes)
{
    terminal_write(f, text, n_bytes);
    fflush(f);
}
