#include "serve/responses/response_background.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/stored/response_events.h"
#include "serve/responses/response_request.h"

enum { RESPONSE_BYTES_MAX = 2 * REPLY_BYTES_MAX };

static void respond(struct http_exchange *x, const struct response_writer *w)
{
    struct buf json;

    buf_init(&json, RESPONSE_BYTES_MAX);
    response_put(w, &json);
    buf_putc(&json, '\n');
    http_respond_buf(x, 200, "application/json", &json);
    buf_release(&json);
}

/* ---- the job ---- */

bool response_detach(struct job *job, struct buf *out)
{
    struct response_state *s = job->state;
    int64_t oldest;

    if (!s->is_background)
        return false;
    s->background = background_begin(
        job->server->backgrounds,
        &(struct background_entry){
            .id = s->writer.id, .owner = s->owner, .job = job, .keeps_events = s->writer.streams});
    background_write(s->background, out);
    if (s->writer.streams)
        (void)background_follow(s->background, job->x, -1, &oldest); /* all events are there */
    else
        respond(job->x, &s->writer);
    return true;
}

void response_detached(struct job *job, const struct buf *out, bool is_over)
{
    struct response_state *s = job->state;
    struct background *b = s->background;

    if (!b)
        return;
    background_write(b, out);
    if (!is_over)
        return;
    s->background = NULL;
    background_end(b, clock_ns());
    log_info("responses id=%s background finish=%s", s->writer.id, response_status(&s->writer));
}

/* Cancels the job; the response, as far as it is, is stored. */
static void cancel(struct job *job)
{
    struct response_state *s = job->state;
    struct buf out;

    buf_init(&out, RESPONSE_BYTES_MAX);
    response_cancel(&s->writer, &out);
    response_keep(job);
    job_stop(job);
    response_detached(job, &out, true);
    buf_release(&out);
}

/* ---- requests about it ---- */

static struct background *find(struct server *s, const struct http_exchange *x, const char *id)
{
    return background_find(s->backgrounds, response_owner(s, http_exchange_request(x)), id);
}

/* The job that generates the response; NULL: there is none. */
static struct job *find_job(struct server *s, const struct http_exchange *x, const char *id)
{
    struct background *b = find(s, x, id);

    return b ? background_job(b) : NULL;
}

bool response_background_get(struct server *s, struct http_exchange *x, const char *id)
{
    struct job *job = find_job(s, x, id);

    if (job)
        respond(x, &((struct response_state *)job->state)->writer);
    return job != NULL;
}

bool response_background_cancel(struct server *s, struct http_exchange *x, const char *id)
{
    struct job *job = find_job(s, x, id);

    if (!job)
        return false;
    cancel(job);
    respond(x, &((struct response_state *)job->state)->writer);
    return true;
}

bool response_background_delete(struct server *s, const struct http_exchange *x, const char *id)
{
    struct background *b = find(s, x, id);
    struct job *job = b ? background_job(b) : NULL;

    if (job) {
        ((struct response_state *)job->state)->background = NULL;
        job_stop(job);
    }
    if (b)
        background_remove(b);
    return job != NULL;
}

bool response_background_follow(struct server *s, struct http_exchange *x, const char *id,
                                int64_t after)
{
    struct background *b = find(s, x, id);
    enum background_read result;
    struct api_error e;
    int64_t oldest;

    result = b ? background_follow(b, x, after, &oldest) : BACKGROUND_NO_EVENTS;
    if (result == BACKGROUND_READS)
        return true;
    if (!b)
        return false;
    if (result == BACKGROUND_TOO_OLD)
        api_error_set(&e, 400, "invalid_value",
                      "starting_after: is %lld; events before %lld are not kept any more (the "
                      "limit is %d MiB); get the response without stream",
                      (long long)after, (long long)oldest, BACKGROUND_EVENTS_BYTES_MAX >> 20);
    else
        api_error_set(&e, 400, "invalid_value",
                      "stream: the response was created without \"stream\": true, so its events "
                      "are not kept; poll it without stream");
    snprintf(e.param, sizeof e.param, "%s",
             result == BACKGROUND_TOO_OLD ? "starting_after" : "stream");
    api_error_respond(x, &e);
    return true;
}

/* ---- ticks ---- */

static void cancel_visited(void *job)
{
    cancel(job);
}

void response_background_tick(struct server *s)
{
    backgrounds_tick(s->backgrounds, clock_ns());
    if (http_draining(s->http))
        backgrounds_each_unread(s->backgrounds, cancel_visited);
}
