/* The background responses that clients can poll, stop or follow: those that are being generated,
 * and for some time the events of finished ones. The events of a response that was created with
 * "stream": true are kept, so that any number of readers can follow it from any event on. A
 * finished response itself is in the response store.
 *
 * Except for the two functions that count, all are called on the loop. */
#ifndef SERVE_STORED_RESPONSE_EVENTS_H
#define SERVE_STORED_RESPONSE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct http_exchange;

enum {
    /* Far above the default queue and batch, whose limits hold for each API key. */
    BACKGROUND_RUNNING_MAX = 1024,
    /* Kept events of one response; the oldest are dropped. 20,000 tokens take about 4 MiB. */
    BACKGROUND_EVENTS_BYTES_MAX = 4 << 20,
    /* Of all responses; the oldest finished ones lose theirs. */
    BACKGROUND_ALL_EVENTS_BYTES_MAX = 128 << 20,
    BACKGROUND_EVENTS_AGE_S_MAX = 600, /* after the response has finished */
    /* Written to a reader that has less than this unread; the rest waits in the kept events. */
    BACKGROUND_WRITE_BYTES = 64 << 10
};

struct backgrounds;
struct background; /* one response */

struct background_entry {
    const char *id, *owner; /* copied */
    void *job;              /* borrowed until background_end() */
    bool keeps_events;
};

struct backgrounds *backgrounds_new(void);
void backgrounds_free(struct backgrounds *all); /* accepts NULL; connections must be closed */

/* Counts a response that is submitted or generated, on any thread. False: there are
 * BACKGROUND_RUNNING_MAX. */
bool backgrounds_reserve(struct backgrounds *all);
void backgrounds_unreserve(struct backgrounds *all);
int backgrounds_running(const struct backgrounds *all);

/* Borrowed until background_end() or background_remove(). */
struct background *background_begin(struct backgrounds *all, const struct background_entry *e);
/* Appends whole events and sends them to the readers. Does nothing if no events are kept. */
void background_write(struct background *b, const struct buf *events);
/* The response has finished: readers get the rest. */
void background_end(struct background *b, uint64_t now_ns);
/* Forgets the response; its readers' streams end. */
void background_remove(struct background *b);

/* NULL: this owner has no such response. */
struct background *background_find(struct backgrounds *all, const char *owner, const char *id);
void *background_job(const struct background *b); /* NULL: the response has finished */
bool background_has_reader(const struct background *b);

enum background_read { BACKGROUND_READS, BACKGROUND_NO_EVENTS, BACKGROUND_TOO_OLD };
/* Answers with the stream of events whose sequence_number is above `after`; -1: all. If it does
 * not read, the exchange is not answered. *oldest: the first event that is kept. */
enum background_read background_follow(struct background *b, struct http_exchange *x, int64_t after,
                                       int64_t *oldest);

/* Continues streams whose readers were slow, and drops events that are too old. */
void backgrounds_tick(struct backgrounds *all, uint64_t now_ns);
/* Calls visit(job) for each response that is being generated and has no reader. The visit must end
 * or remove the response; it may remove others, too. */
void backgrounds_each_unread(struct backgrounds *all, void (*visit)(void *job));

#endif
