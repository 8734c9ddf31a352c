/* Requests to the hub: its answers to errors, redirects, retries, and small documents whole. */
#ifndef STORE_HUB_HUB_FETCH_H
#define STORE_HUB_HUB_FETCH_H

#include "base/buf.h"
#include "store/hub/hub_http.h"
#include "store/hub/hub_settings.h"

enum {
    HUB_REDIRECTS_MAX = 8,
    HUB_BAD_ANSWERS_MAX = 3,   /* answers in a row that do not fit the request */
    HUB_TRIES_MAX = 6,         /* in a row without a byte */
    HUB_CONNECT_TRIES_MAX = 4, /* of the listing, while no answer comes at all */
    HUB_BACKOFF_MS = 500,      /* before the second try; doubles */
    HUB_BACKOFF_MS_MAX = 30000,
    HUB_RETRY_AFTER_MAX_S =
        600 /* a hub that wants a longer pause ends the download; it can be resumed */
};

/* What a status means for a request to the hub itself. */
enum hub_verdict { HUB_DONE, HUB_REDIRECT, HUB_RETRY, HUB_FATAL };
enum hub_verdict hub_verdict_of(const struct hub_response *r);

/* The error of an answer that is HUB_RETRY or HUB_FATAL; says what to do about it. `what` is a
 * model or a file; has_token: the request had one. */
enum osp_status hub_status_error(const struct hub_response *r, const struct hub_settings *s,
                                 const char *what, bool has_token);

/* Milliseconds before try number n_failed + 1; the answer's own time, or a growing one. -1: the hub
 * wants more than HUB_RETRY_AFTER_MAX_S. */
int64_t hub_retry_ms(const struct hub_response *r, int n_failed);

/* Whether a request to this URL may carry the token: only to the hub's own origin. Fails for
 * redirects that are refused: from https to http, or to something else than http. from NULL: not a
 * redirect. */
CHECKED enum osp_status hub_check_url(bool *sends_token, const struct hub_settings *s,
                                      const char *from, const char *url);

/* Notes for the user about retries; called by the thread of the request. */
struct hub_watch {
    bool (*is_stopped)(void *ctx);
    void (*note)(void *ctx, const char *text);
    void *ctx;
};
/* Waits, or returns OSP_ECANCELED. */
CHECKED enum osp_status hub_pause(const struct hub_watch *watch, int64_t ms);

/* The body of a document of the hub, which may have limit_bytes; *next receives the URL of its
 * next page, a string to free(), or NULL. */
CHECKED enum osp_status hub_fetch_text(struct buf *out, char **next, struct hub_http *http,
                                       const struct hub_settings *s, const struct hub_watch *watch,
                                       const char *url, const char *what);

#endif
