#include "serve/stored/response_events.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/http/http.h"
#include "serve/reply/reply.h"
#include "serve/stored/response_store.h"

static const char SSE_TYPE[] = "text/event-stream; charset=utf-8", SSE_PING[] = ": ping\n\n";

/* A client that follows the events. */
struct reader {
    struct reader *next;
    struct http_exchange *x; /* NULL: disconnected, or its stream has ended */
    size_t at;               /* bytes of all events, dropped ones included, that it got */
};

struct background {
    struct backgrounds *all;
    struct background *next; /* the next older one */
    char id[RESPONSE_ID_BYTES];
    char *owner;
    void *job;
    bool keeps_events;
    struct buf events; /* that are kept */
    size_t n_dropped_bytes;
    int64_t n_dropped; /* events in front of those that are kept */
    struct reader *readers;
    uint64_t end_ns; /* when it finished */
};

struct backgrounds {
    struct background *newest;
    size_t n_bytes; /* of all kept events */
    atomic_int n_running;
};

struct backgrounds *backgrounds_new(void)
{
    return mem_new(sizeof(struct backgrounds));
}

void backgrounds_free(struct backgrounds *all)
{
    while (all && all->newest)
        background_remove(all->newest);
    free(all);
}

bool backgrounds_reserve(struct backgrounds *all)
{
    if (atomic_fetch_add(&all->n_running, 1) < BACKGROUND_RUNNING_MAX)
        return true;
    backgrounds_unreserve(all);
    return false;
}

void backgrounds_unreserve(struct backgrounds *all)
{
    atomic_fetch_sub(&all->n_running, 1);
}

int backgrounds_running(const struct backgrounds *all)
{
    return atomic_load(&all->n_running);
}

/* ---- readers ---- */

static void reader_on_close(void *ctx)
{
    ((struct reader *)ctx)->x = NULL;
}

static size_t end_of(const struct background *b)
{
    return b->n_dropped_bytes + b->events.size_bytes;
}

static void reader_end(struct reader *r)
{
    struct http_exchange *x = r->x;

    if (x)
        http_stream_end(x);
    r->x = NULL;
}

/* Writes as much as the client's connection takes. A reader whose next event was dropped cannot
 * continue: its stream ends, and it may ask again from its last event on. */
static void reader_feed(struct background *b, struct reader *r)
{
    if (r->at < b->n_dropped_bytes)
        reader_end(r);
    while (r->x && r->at < end_of(b) && http_stream_unread(r->x) < BACKGROUND_WRITE_BYTES) {
        size_t n = end_of(b) - r->at;
        const char *from = buf_text(&b->events) + (r->at - b->n_dropped_bytes);

        n = n < BACKGROUND_WRITE_BYTES ? n : BACKGROUND_WRITE_BYTES;
        r->at += n;
        http_stream_write(r->x, from, n);
    }
    if (r->x && !b->job && r->at == end_of(b))
        reader_end(r);
}

static void feed_all(struct background *b)
{
    for (struct reader **at = &b->readers; *at;) {
        struct reader *r = *at;

        reader_feed(b, r);
        if (r->x) {
            at = &r->next;
        } else {
            *at = r->next;
            free(r);
        }
    }
}

bool background_has_reader(const struct background *b)
{
    for (const struct reader *r = b->readers; r; r = r->next)
        if (r->x)
            return true;
    return false;
}

/* ---- kept events ---- */

/* Drops the oldest events until at most n bytes remain. */
static void drop_events(struct background *b, size_t n_bytes)
{
    const char *text = buf_text(&b->events), *end = text;
    size_t n;

    while (b->events.size_bytes - (size_t)(end - text) > n_bytes) {
        const char *stop = strstr(end, "\n\n");

        if (!stop)
            break;
        end = stop + 2;
        b->n_dropped++;
    }
    n = (size_t)(end - text);
    if (n == 0)
        return;
    memmove(b->events.data, end, b->events.size_bytes - n);
    buf_truncate(&b->events, b->events.size_bytes - n);
    b->n_dropped_bytes += n;
    b->all->n_bytes -= n;
}

static struct background *oldest_finished(const struct backgrounds *all)
{
    struct background *oldest = NULL;

    for (struct background *b = all->newest; b; b = b->next)
        oldest = b->job ? oldest : b;
    return oldest;
}

/* `b` gets new events; the last n_new bytes of them stay. */
static void enforce_limits(struct background *b, size_t n_new)
{
    struct backgrounds *all = b->all;
    struct background *oldest;

    if (b->events.size_bytes > BACKGROUND_EVENTS_BYTES_MAX)
        drop_events(b, n_new > BACKGROUND_EVENTS_BYTES_MAX / 2 ? n_new
                                                               : BACKGROUND_EVENTS_BYTES_MAX / 2);
    while (all->n_bytes > BACKGROUND_ALL_EVENTS_BYTES_MAX &&
           (oldest = oldest_finished(all)) != NULL)
        background_remove(oldest);
    if (all->n_bytes > BACKGROUND_ALL_EVENTS_BYTES_MAX)
        drop_events(b, n_new);
}

void background_write(struct background *b, const struct buf *events)
{
    const size_t n = events->size_bytes;

    if (!b->keeps_events || n == 0)
        return;
    if (!buf_append(&b->events, events->data, n)) {
        drop_events(b, 0); /* out of memory: readers cannot continue */
        b->keeps_events = false;
        feed_all(b);
        return;
    }
    b->all->n_bytes += n;
    feed_all(b);
    enforce_limits(b, n);
}

/* ---- one response ---- */

struct background *background_begin(struct backgrounds *all, const struct background_entry *e)
{
    struct background *b = mem_new(sizeof *b);

    b->all = all;
    strncpy(b->id, e->id, sizeof b->id - 1);
    b->owner = mem_strdup(e->owner);
    b->job = e->job;
    b->keeps_events = e->keeps_events;
    buf_init(&b->events, (size_t)REPLY_BYTES_MAX * 2);
    b->next = all->newest;
    all->newest = b;
    return b;
}

void background_remove(struct background *b)
{
    struct background **at = &b->all->newest;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    for (struct reader *r = b->readers, *next; r; r = next) {
        next = r->next;
        reader_end(r);
        free(r);
    }
    b->all->n_bytes -= b->events.size_bytes;
    buf_release(&b->events);
    free(b->owner);
    free(b);
}

void background_end(struct background *b, uint64_t now_ns)
{
    b->job = NULL;
    b->end_ns = now_ns;
    feed_all(b);
    if (!b->keeps_events)
        background_remove(b);
}

struct background *background_find(struct backgrounds *all, const char *owner, const char *id)
{
    for (struct background *b = all->newest; b; b = b->next)
        if (strcmp(b->id, id) == 0 && response_same_owner(owner, b->owner))
            return b;
    return NULL;
}

void *background_job(const struct background *b)
{
    return b->job;
}

/* The place behind the first n kept events. */
static size_t skip_events(const struct background *b, int64_t n)
{
    const char *text = buf_text(&b->events), *at = text;

    for (; n > 0; n--) {
        const char *stop = strstr(at, "\n\n");

        if (!stop)
            return b->events.size_bytes;
        at = stop + 2;
    }
    return (size_t)(at - text);
}

enum background_read background_follow(struct background *b, struct http_exchange *x, int64_t after,
                                       int64_t *oldest)
{
    struct reader *r;

    *oldest = b->n_dropped;
    if (!b->keeps_events)
        return BACKGROUND_NO_EVENTS;
    if (after + 1 < b->n_dropped)
        return BACKGROUND_TOO_OLD;
    r = mem_new(sizeof *r);
    r->at = b->n_dropped_bytes + skip_events(b, after + 1 - b->n_dropped);
    r->x = x;
    r->next = b->readers;
    b->readers = r;
    http_exchange_on_close(x, reader_on_close, r);
    http_stream_begin(x, 200, SSE_TYPE);
    if (r->x)
        http_stream_set_ping(x, SSE_PING);
    feed_all(b);
    return BACKGROUND_READS;
}

/* ---- all responses ---- */

static bool is_expired(const struct background *b, uint64_t now_ns)
{
    return !b->job && now_ns > b->end_ns &&
           now_ns - b->end_ns > BACKGROUND_EVENTS_AGE_S_MAX * UINT64_C(1000000000);
}

void backgrounds_tick(struct backgrounds *all, uint64_t now_ns)
{
    for (struct background *b = all->newest, *next; b; b = next) {
        next = b->next;
        feed_all(b);
        if (is_expired(b, now_ns))
            background_remove(b);
    }
}

void backgrounds_each_unread(struct backgrounds *all, void (*visit)(void *job))
{
    for (struct background *b = all->newest; b;) {
        const bool is_visited = b->job && !background_has_reader(b);

        if (is_visited)
            visit(b->job);
        b = is_visited ? all->newest : b->next; /* the visit may have removed others, too */
    }
}
