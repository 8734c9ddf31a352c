#include "store/hub/hub_fetch.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/hub/hub_url.h"

enum { POLL_MS = 100, MESSAGE_BYTES = 512 };

/* ---- statuses ---- */

enum hub_verdict hub_verdict_of(const struct hub_response *r)
{
    if (r->status == 200 || r->status == 206)
        return HUB_DONE;
    if (r->status >= 300 && r->status < 400)
        return r->redirect[0] != '\0' ? HUB_REDIRECT : HUB_FATAL;
    return r->status == 408 || r->status == 425 || r->status == 429 || r->status >= 500 ? HUB_RETRY
                                                                                        : HUB_FATAL;
}

/* The hub answers 401 also for a model that does not exist, so that private names stay secret. */
static const char *unauthorized_hint(bool has_token)
{
    return has_token ? "the hub does not accept this token, or the model does not exist; make a "
                       "token at /settings/tokens of the hub and set HF_TOKEN"
                     : "the model does not exist, or it is private or gated and needs a token: set "
                       "HF_TOKEN, or run hf auth login";
}

static const char *forbidden_hint(const struct hub_response *r, bool has_token)
{
    if (!has_token)
        return unauthorized_hint(false);
    return strcmp(r->headers.error_code, "GatedRepo") == 0
               ? "ask for access on the model's page of the hub, with the account of the token"
               : "this token may not read the model; check its permissions at /settings/tokens of "
                 "the hub";
}

static const char *missing_hint(const struct hub_response *r)
{
    const char *code = r->headers.error_code;

    if (strcmp(code, "RevisionNotFound") == 0)
        return "the model has no such branch, tag or commit";
    if (strcmp(code, "EntryNotFound") == 0)
        return "the model has no such file at this revision";
    return "there is no such model on the hub; check its name";
}

static const char *hint_of(const struct hub_response *r, bool has_token)
{
    const bool is_gated = strcmp(r->headers.error_code, "GatedRepo") == 0;

    switch (r->status) {
    case 401:
        return is_gated && has_token ? forbidden_hint(r, true) : unauthorized_hint(has_token);
    case 403:
        return forbidden_hint(r, has_token);
    case 404:
        return missing_hint(r);
    case 429:
        return "too many requests; try again later, a token (HF_TOKEN) raises the limit";
    case 416:
        return "the file is shorter than the listing says";
    default:
        return r->status >= 500 ? "the hub fails; the same command later continues"
                                : "an answer that osprey does not know";
    }
}

enum osp_status hub_status_error(const struct hub_response *r, const struct hub_settings *s,
                                 const char *what, bool has_token)
{
    const char *message = r->headers.error_message;
    const enum osp_status code = r->status == 404                       ? OSP_ENOTFOUND
                                 : r->status == 401 || r->status == 403 ? OSP_EUNAVAILABLE
                                                                        : OSP_EIO;

    return fail(code, "%s: %s answers %ld: %s%s%s%s", what, s->endpoint, r->status,
                hint_of(r, has_token), *message ? " (" : "", message, *message ? ")" : "");
}

int64_t hub_retry_ms(const struct hub_response *r, int n_failed)
{
    int64_t ms = HUB_BACKOFF_MS, asked_s = r->headers.retry_after_s;

    if (asked_s < 0 && r->status == 429)
        asked_s = r->headers.rate_limit_s;
    if (asked_s > HUB_RETRY_AFTER_MAX_S)
        return -1;
    for (int i = 1; i < n_failed && ms < HUB_BACKOFF_MS_MAX; i++)
        ms *= 2;
    ms = ms < HUB_BACKOFF_MS_MAX ? ms : HUB_BACKOFF_MS_MAX;
    return asked_s * 1000 > ms ? asked_s * 1000 : ms;
}

/* ---- redirects ---- */

enum osp_status hub_check_url(bool *sends_token, const struct hub_settings *s, const char *from,
                              const char *url)
{
    struct hub_origin endpoint, source, target;
    enum osp_status st;

    TRY(hub_origin_read(&endpoint, s->endpoint));
    TRY(hub_origin_read(&target, url));
    if (from != NULL) {
        TRY(hub_origin_read(&source, from));
        if (source.is_https && !target.is_https)
            return fail(OSP_EUNAVAILABLE,
                        "%s: refused, it redirects from https to the unencrypted %s", source.host,
                        target.text);
    }
    *sends_token = strcmp(endpoint.text, target.text) == 0;
out:
    return st;
}

/* ---- waiting ---- */

enum osp_status hub_pause(const struct hub_watch *watch, int64_t ms)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)ms * 1000000;

    while (clock_ns() < end_ns) {
        if (watch->is_stopped(watch->ctx))
            return fail(OSP_ECANCELED, "canceled");
        (void)poll(NULL, 0, ms < POLL_MS ? (int)ms : POLL_MS);
    }
    return OSP_OK;
}

/* ---- a document ---- */

struct document {
    struct buf *out;
    const struct hub_watch *watch;
};

static bool on_body(void *ctx, const struct hub_response *r, const char *bytes, size_t n_bytes)
{
    struct document *d = ctx;

    (void)r;
    return buf_append(d->out, bytes, n_bytes);
}

static bool is_stopped(void *ctx)
{
    const struct document *d = ctx;

    return d->watch->is_stopped(d->watch->ctx);
}

/* One GET with its redirects; *sent: whether the last request had the token. */
static enum osp_status follow(struct document *d, struct hub_response *r, bool *sent,
                              struct hub_http *http, const struct hub_settings *s, const char *url)
{
    char *at = mem_strdup(url);
    bool is_hub;
    enum osp_status st = OSP_OK;

    TRY(hub_check_url(&is_hub, s, NULL, at));
    for (int i = 0; i <= HUB_REDIRECTS_MAX; i++) {
        const struct hub_request request = {.url = at,
                                            .token = is_hub ? s->token : NULL,
                                            .first = -1,
                                            .stall_s = s->stall_s,
                                            .is_stopped = is_stopped,
                                            .on_body = on_body,
                                            .ctx = d};

        *sent = request.token != NULL;
        buf_clear(d->out);
        TRY(hub_http_get(http, &request, r));
        if (hub_verdict_of(r) != HUB_REDIRECT)
            goto out;
        TRY(hub_check_url(&is_hub, s, at, r->redirect));
        free(at);
        at = mem_strdup(r->redirect);
    }
    st = fail(OSP_EUNAVAILABLE, "more than %d redirects", (int)HUB_REDIRECTS_MAX);
out:
    free(at);
    return st;
}

/* A next page is at the hub itself. */
static enum osp_status take_next(char **next, const struct hub_response *r,
                                 const struct hub_settings *s, const char *what)
{
    bool is_hub = false;

    if (r->headers.next[0] == '\0')
        return OSP_OK;
    if (hub_check_url(&is_hub, s, NULL, r->headers.next) != OSP_OK || !is_hub)
        return fail(OSP_EFORMAT, "%s: the next page of the listing is not at %s", what,
                    s->endpoint);
    *next = mem_strdup(r->headers.next);
    return OSP_OK;
}

/* Tells the user and waits; the last message stays if the tries are used up. */
static enum osp_status retry(const struct hub_watch *watch, const struct hub_response *r,
                             enum osp_status st, int n_failed)
{
    const int64_t ms = hub_retry_ms(r, n_failed);
    char *note;

    if (n_failed >= (r->status == 0 ? HUB_CONNECT_TRIES_MAX : HUB_TRIES_MAX))
        return st;
    if (ms < 0)
        return fail_prefix(st, "the hub asks for a pause of %lld s; run the command again then",
                           (long long)r->headers.retry_after_s);
    note = mem_printf("%s; trying again in %.1f s", fail_message(), (double)ms / 1000);
    watch->note(watch->ctx, note);
    free(note);
    return hub_pause(watch, ms);
}

enum osp_status hub_fetch_text(struct buf *out, char **next, struct hub_http *http,
                               const struct hub_settings *s, const struct hub_watch *watch,
                               const char *url, const char *what)
{
    struct document d = {.out = out, .watch = watch};
    struct hub_response *r = mem_new(sizeof *r);
    bool sent = false;
    enum osp_status st;

    *next = NULL;
    for (int n_failed = 1;; n_failed++) {
        st = follow(&d, r, &sent, http, s, url);
        if (st == OSP_OK && hub_verdict_of(r) == HUB_DONE)
            break;
        if (st == OSP_OK)
            st = hub_status_error(r, s, what, sent);
        else if (st != OSP_ECANCELED)
            st = fail_prefix(st, "%s", what);
        if (st != OSP_EIO)
            goto out;
        TRY(retry(watch, r, st, n_failed));
    }
    if (out->overflow)
        st = fail(OSP_ELIMIT, "%s: the answer of %s is larger than %zu bytes", what, s->endpoint,
                  out->limit_bytes);
    else
        st = take_next(next, r, s, what);
out:
    free(r);
    return st;
}
