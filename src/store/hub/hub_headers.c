#include "store/hub/hub_headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    LINE_BYTES_MAX = HUB_URL_BYTES_MAX + 64,
    SIZE_DIGITS_MAX = 15 /* a petabyte */
};

void hub_headers_init(struct hub_headers *h)
{
    *h = (struct hub_headers){.content_length = -1,
                              .linked_size = -1,
                              .range_total = -1,
                              .retry_after_s = -1,
                              .rate_limit_s = -1};
}

/* The digits at *at, and moves it behind them. -1: none, or too many. */
static int64_t read_digits(const char **at)
{
    const size_t n = strspn(*at, "0123456789");
    const int64_t value = n > 0 && n <= SIZE_DIGITS_MAX ? strtoll(*at, NULL, 10) : -1;

    *at += n;
    return value;
}

/* A value of digits alone; -1: another form. */
static int64_t read_size(const char *text)
{
    const int64_t value = read_digits(&text);

    return *text == '\0' ? value : -1;
}

static void read_content_length(struct hub_headers *h, const char *value, int64_t now_s)
{
    (void)now_s;
    h->content_length = read_size(value);
}

static void read_linked_size(struct hub_headers *h, const char *value, int64_t now_s)
{
    (void)now_s;
    h->linked_size = read_size(value);
}

/* "bytes 0-99/1000" or "bytes 0-99" followed by "/" and "*" */
static void read_range(struct hub_headers *h, const char *value, int64_t now_s)
{
    const char *at = value;

    (void)now_s;
    h->has_range = true;
    h->bad_range = true;
    if (strncasecmp(at, "bytes ", 6) != 0)
        return;
    at += 6;
    h->range_first = read_digits(&at);
    if (*at++ != '-')
        return;
    h->range_last = read_digits(&at);
    if (*at++ != '/')
        return;
    h->range_total = strcmp(at, "*") == 0 ? -1 : read_size(at);
    h->bad_range = h->range_first < 0 || h->range_last < h->range_first ||
                   (h->range_total < 0 && *at != '*') ||
                   (h->range_total >= 0 && h->range_last >= h->range_total);
}

static void read_encoding(struct hub_headers *h, const char *value, int64_t now_s)
{
    (void)now_s;
    h->is_encoded = *value != '\0' && strcasecmp(value, "identity") != 0;
}

static int64_t bounded_wait(int64_t seconds)
{
    return seconds < 0 ? 0 : seconds > HUB_WAIT_S_MAX ? HUB_WAIT_S_MAX : seconds;
}

/* Seconds, or a date. */
static void read_retry_after(struct hub_headers *h, const char *value, int64_t now_s)
{
    struct tm date = {0};
    const char *end;

    if (*value >= '0' && *value <= '9') {
        const int64_t seconds = read_size(value);

        h->retry_after_s = seconds < 0 ? -1 : bounded_wait(seconds);
        return;
    }
    end = strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &date);
    if (end != NULL && *end == '\0')
        h->retry_after_s = bounded_wait((int64_t)timegm(&date) - now_s);
}

/* "api";r=0;t=55: nothing remains, and the window ends in 55 s */
static void read_rate_limit(struct hub_headers *h, const char *value, int64_t now_s)
{
    const char *at = strstr(value, ";t=");
    int64_t seconds;

    (void)now_s;
    if (at == NULL)
        return;
    at += 3;
    seconds = read_digits(&at);
    if (seconds >= 0)
        h->rate_limit_s = bounded_wait(seconds);
}

static void read_linked_etag(struct hub_headers *h, const char *value, int64_t now_s)
{
    size_t n;

    (void)now_s;
    if (strncmp(value, "W/", 2) == 0)
        value += 2;
    value += *value == '"';
    n = strcspn(value, "\"");
    if (n > HUB_ETAG_BYTES_MAX)
        return;
    memcpy(h->linked_etag, value, n);
    h->linked_etag[n] = '\0';
    if (!hub_etag_is(h->linked_etag))
        h->linked_etag[0] = '\0';
}

static void read_commit(struct hub_headers *h, const char *value, int64_t now_s)
{
    (void)now_s;
    if (hub_commit_is(value))
        memcpy(h->commit, value, HUB_COMMIT_BYTES + 1);
}

static void read_error_code(struct hub_headers *h, const char *value, int64_t now_s)
{
    (void)now_s;
    snprintf(h->error_code, sizeof h->error_code, "%s", value);
}

static void read_error_message(struct hub_headers *h, const char *value, int64_t now_s)
{
    (void)now_s;
    snprintf(h->error_message, sizeof h->error_message, "%s", value);
}

/* <https://...>; rel="next", <https://...>; rel="last" */
static void read_link(struct hub_headers *h, const char *value, int64_t now_s)
{
    const char *open = strchr(value, '<');

    (void)now_s;
    while (open != NULL) {
        const char *close = strchr(open, '>');
        const char *end = close ? close + strcspn(close, ",") : NULL;
        const char *rel = close ? strstr(close, "rel=\"next\"") : NULL;

        if (close == NULL)
            return;
        if (rel != NULL && rel < end && close - open - 1 < HUB_URL_BYTES_MAX) {
            memcpy(h->next, open + 1, (size_t)(close - open - 1));
            h->next[close - open - 1] = '\0';
            return;
        }
        open = strchr(close, '<');
    }
}

/* X(name, reader) */
#define HEADER_LIST(X)                                                                             \
    X("Content-Length", read_content_length)                                                       \
    X("Content-Range", read_range)                                                                 \
    X("Content-Encoding", read_encoding)                                                           \
    X("X-Linked-Size", read_linked_size)                                                           \
    X("X-Linked-Etag", read_linked_etag)                                                           \
    X("X-Repo-Commit", read_commit)                                                                \
    X("X-Error-Code", read_error_code)                                                             \
    X("X-Error-Message", read_error_message)                                                       \
    X("Retry-After", read_retry_after)                                                             \
    X("RateLimit", read_rate_limit)                                                                \
    X("Link", read_link)

static const struct {
    const char *name;
    void (*read)(struct hub_headers *h, const char *value, int64_t now_s);
} HEADERS[] = {
#define HEADER_ROW(name, reader) {name, reader},
    HEADER_LIST(HEADER_ROW)
#undef HEADER_ROW
};

void hub_headers_add(struct hub_headers *h, const char *line, size_t n_bytes, int64_t now_s)
{
    char text[LINE_BYTES_MAX], *value;

    while (n_bytes > 0 && strchr("\r\n \t", line[n_bytes - 1]) != NULL && line[n_bytes - 1])
        n_bytes--;
    if (n_bytes >= sizeof text || memchr(line, '\0', n_bytes) != NULL)
        return;
    memcpy(text, line, n_bytes);
    text[n_bytes] = '\0';
    value = strchr(text, ':');
    if (value == NULL)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    for (size_t i = 0; i < sizeof HEADERS / sizeof HEADERS[0]; i++)
        if (strcasecmp(text, HEADERS[i].name) == 0)
            HEADERS[i].read(h, value, now_s);
}
