#include "cli/client/prometheus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 64 };

/* After the labels "{a="x",b="}"}", if there are any; NULL: they do not end on this line. */
static const char *skip_labels(const char *at, const char *end)
{
    bool in_string = false;

    if (at == end || *at != '{')
        return at;
    for (at++; at < end; at++) {
        if (in_string && *at == '\\' && end - at > 1)
            at++;
        else if (*at == '"')
            in_string = !in_string;
        else if (*at == '}' && !in_string)
            return at + 1;
    }
    return NULL;
}

/* The number at the begin of [at, end); a time stamp can follow it. */
static bool read_number(double *out, const char *at, const char *end)
{
    char text[NUMBER_BYTES_MAX], *number_end;
    size_t n = 0;

    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (at + n < end && at[n] != ' ' && at[n] != '\t' && at[n] != '\r')
        n++;
    if (n == 0 || n >= sizeof text)
        return false;
    memcpy(text, at, n);
    text[n] = '\0';
    *out = strtod(text, &number_end);
    return *number_end == '\0' && isfinite(*out);
}

static void read_line(struct metric *m, const char *line, const char *end)
{
    const size_t n_name = strlen(m->name);
    const char *at;
    double value;

    if ((size_t)(end - line) <= n_name || memcmp(line, m->name, n_name) != 0 ||
        strchr("{ \t", line[n_name]) == NULL || line[n_name] == '\0')
        return;
    at = skip_labels(line + n_name, end);
    if (at == NULL || !read_number(&value, at, end))
        return;
    m->sum += value;
    m->n++;
}

void prometheus_read(struct metric *metrics, int n, const char *text, size_t n_bytes)
{
    const char *const text_end = text + n_bytes;

    while (text < text_end) {
        const char *newline = memchr(text, '\n', (size_t)(text_end - text));
        const char *end = newline ? newline : text_end;

        for (int i = 0; i < n; i++)
            read_line(&metrics[i], text, end);
        text = newline ? newline + 1 : text_end;
    }
}
