/* One range of a blob over one connection: from the hub or from the storage that it redirects to,
 * with retries that continue where the last try ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/hub/hub_job.h"
#include "store/hub/hub_url.h"

/* The state of a range. */
struct range_run {
    struct hub_job *job;
    struct hub_http *http;
    const struct hub_range *range;
    struct hub_blob *blob;
    int64_t offset, end;      /* bytes of the file: next one, and behind the last one */
    struct hub_digest digest; /* of the block at offset, so far */
    int n_failed;             /* tries in a row without a byte */
    bool is_checked;          /* the answer's head was checked; its bytes can be written */
    bool has_bytes;           /* this answer brought some */
    bool lacks_ranges;        /* the server sends the whole file */
    bool asks;                /* the others wait for the hub's answer to this request */
    bool is_location;         /* the request goes to a URL that the hub gave */
    bool is_disk;             /* `st` is an error of the disk */
    enum osp_status st;       /* of a callback; its message is this thread's */
    struct hub_response response;
};

static const char *path_of(const struct range_run *run)
{
    return run->blob->file->path;
}

/* ---- where to ask ---- */

static char *hub_url_of(const struct range_run *run)
{
    const struct hub_download_options *opt = run->job->options;
    struct buf url;

    buf_init(&url, HUB_URL_BYTES_MAX);
    buf_printf(&url, "%s/", opt->settings->endpoint);
    hub_url_add(&url, opt->repo);
    buf_printf(&url, "/resolve/%s/", opt->commit);
    hub_url_add(&url, path_of(run));
    return buf_take(&url);
}

/* The URL of the bytes, to free(). One connection asks the hub where they are, the others wait for
 * its answer. NULL: the download stops. */
static char *take_url(struct range_run *run)
{
    struct hub_job *job = run->job;
    struct hub_blob *blob = run->blob;
    char *url = NULL;

    pthread_mutex_lock(&job->mutex);
    while (blob->location == NULL && !blob->is_direct && blob->is_resolving &&
           !hub_job_is_stopped(job))
        pthread_cond_wait(&job->changed, &job->mutex);
    run->is_location = blob->location != NULL;
    run->asks = !run->is_location && !blob->is_direct && !hub_job_is_stopped(job);
    blob->is_resolving = blob->is_resolving || run->asks;
    if (!hub_job_is_stopped(job))
        url = run->is_location ? mem_strdup(blob->location) : hub_url_of(run);
    pthread_mutex_unlock(&job->mutex);
    return url;
}

/* The answer of the hub: where the bytes are, NULL if not known; is_direct: the hub sends them. */
static void put_location(struct range_run *run, const char *location, bool is_direct)
{
    run->asks = false;
    pthread_mutex_lock(&run->job->mutex);
    free(run->blob->location);
    run->blob->location = location ? mem_strdup(location) : NULL;
    run->blob->is_direct = is_direct;
    run->blob->is_resolving = false;
    pthread_cond_broadcast(&run->job->changed);
    pthread_mutex_unlock(&run->job->mutex);
}

/* ---- the bytes of an answer ---- */

static bool refuse(struct range_run *run, enum osp_status st)
{
    run->st = st;
    return false;
}

/* The bytes may be of another file, or of another version of it. */
static bool check_identity(struct range_run *run)
{
    const struct hub_headers *h = &run->response.headers;
    const struct hub_download_options *opt = run->job->options;

    if (h->commit[0] != '\0' && strcmp(h->commit, opt->commit) != 0)
        return refuse(run, fail(OSP_EFORMAT, "%s: %s: the hub sends commit %s, expected %s",
                                opt->repo, path_of(run), h->commit, opt->commit));
    if (h->linked_etag[0] != '\0' && strcmp(h->linked_etag, run->blob->file->etag) != 0)
        return refuse(run, fail(OSP_EFORMAT,
                                "%s: %s: the hub sends the file with digest %s, and its listing "
                                "has %s",
                                opt->repo, path_of(run), h->linked_etag, run->blob->file->etag));
    if (h->linked_size >= 0 && h->linked_size != run->blob->file->size)
        return refuse(run, fail(OSP_EFORMAT,
                                "%s: %s: the hub sends %" PRId64 " bytes, and its listing has "
                                "%" PRId64,
                                opt->repo, path_of(run), h->linked_size, run->blob->file->size));
    return true;
}

static bool is_whole_file(const struct range_run *run)
{
    return run->offset == 0 && run->end == run->blob->file->size;
}

static bool check_range(struct range_run *run)
{
    const struct hub_headers *h = &run->response.headers;
    const int64_t size = run->blob->file->size;

    if (!h->has_range || h->bad_range || h->range_first != run->offset ||
        h->range_last >= run->end || (h->range_total >= 0 && h->range_total != size))
        return refuse(run,
                      fail(OSP_EIO,
                           "%s: %s: bytes %" PRId64 "-%" PRId64 " of %" PRId64
                           " were asked for, and the server sends other ones",
                           run->job->options->repo, path_of(run), run->offset, run->end - 1, size));
    return true;
}

static bool check_head(struct range_run *run)
{
    const struct hub_headers *h = &run->response.headers;
    const bool is_partial = run->response.status == 206;

    if (!check_identity(run))
        return false;
    if (h->is_encoded)
        return refuse(run, fail(OSP_EIO,
                                "%s: %s: the server sends compressed bytes, although "
                                "none were asked for",
                                run->job->options->repo, path_of(run)));
    if (!is_partial && !is_whole_file(run)) {
        run->lacks_ranges = true;
        return false;
    }
    if (is_partial)
        return check_range(run);
    if (h->content_length >= 0 && h->content_length != run->blob->file->size)
        return refuse(run,
                      fail(OSP_EIO, "%s: %s: the server sends %" PRId64 " bytes, expected %" PRId64,
                           run->job->options->repo, path_of(run), h->content_length,
                           run->blob->file->size));
    return true;
}

static int block_at(int64_t offset)
{
    return (int)(offset / PART_BLOCK_BYTES);
}

static bool is_mine(const struct range_run *run, int block)
{
    return run->blob->part.states[block] == PART_TAKEN; /* of a whole file, others are done */
}

static enum osp_status end_block(struct range_run *run, int block)
{
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    enum osp_status st = OSP_OK;

    hub_digest_finish(&run->digest, digest);
    pthread_mutex_lock(&run->job->mutex);
    if (is_mine(run, block)) {
        st = part_file_mark(&run->blob->part, block, digest);
        pthread_cond_broadcast(&run->job->changed);
    }
    pthread_mutex_unlock(&run->job->mutex);
    return st;
}

/* Writes bytes of one block. */
static enum osp_status add_to_block(struct range_run *run, const char *bytes, size_t n_bytes)
{
    const int block = block_at(run->offset);
    const int64_t block_end =
        (int64_t)block * PART_BLOCK_BYTES + part_file_block_bytes(&run->blob->part, block);
    bool mine;
    enum osp_status st = OSP_OK;

    pthread_mutex_lock(&run->job->mutex);
    mine = is_mine(run, block);
    run->job->progress.received_bytes += (int64_t)n_bytes;
    run->job->progress.done_bytes += mine ? (int64_t)n_bytes : 0;
    pthread_mutex_unlock(&run->job->mutex);
    if (run->digest.context == NULL)
        TRY(hub_digest_start_sha256(&run->digest));
    if (mine)
        TRY(part_file_write(&run->blob->part, run->offset, bytes, n_bytes));
    hub_digest_add(&run->digest, bytes, n_bytes);
    run->offset += (int64_t)n_bytes;
    if (run->offset == block_end)
        TRY(end_block(run, block));
out:
    return st;
}

static bool on_body(void *ctx, const struct hub_response *r, const char *bytes, size_t n_bytes)
{
    struct range_run *run = ctx;

    (void)r; /* run->response */
    if (!run->is_checked && !check_head(run))
        return false;
    run->is_checked = true;
    if (run->asks)
        put_location(run, NULL, true);
    if ((int64_t)n_bytes > run->end - run->offset)
        return refuse(run, fail(OSP_EIO, "%s: %s: the server sends more bytes than announced",
                                run->job->options->repo, path_of(run)));
    while (n_bytes > 0 && run->st == OSP_OK) {
        const int64_t block_end = ((int64_t)block_at(run->offset) + 1) * PART_BLOCK_BYTES;
        const int64_t left = block_end - run->offset;
        const size_t n = (int64_t)n_bytes < left ? n_bytes : (size_t)left;

        run->st = add_to_block(run, bytes, n);
        run->is_disk = run->st != OSP_OK;
        run->has_bytes = true;
        bytes += n;
        n_bytes -= n;
    }
    return run->st == OSP_OK;
}

static bool is_stopped(void *ctx)
{
    const struct range_run *run = ctx;

    return hub_job_is_stopped(run->job);
}

/* ---- tries ---- */

static void note(void *ctx, const char *text)
{
    hub_job_note(ctx, text);
}

/* Waits until the pause is over that the hub asked all connections to make. */
static enum osp_status wait_for_pause(struct range_run *run, int64_t ms)
{
    const struct hub_watch watch = {.is_stopped = hub_job_is_stopped, .ctx = run->job};
    const uint64_t now_ns = clock_ns();
    uint64_t until_ns;

    pthread_mutex_lock(&run->job->mutex);
    if (run->response.status == 429 && now_ns + (uint64_t)ms * 1000000 > run->job->pause_until_ns)
        run->job->pause_until_ns = now_ns + (uint64_t)ms * 1000000;
    until_ns = run->job->pause_until_ns;
    pthread_mutex_unlock(&run->job->mutex);
    if (until_ns > now_ns && (int64_t)((until_ns - now_ns) / 1000000) > ms)
        ms = (int64_t)((until_ns - now_ns) / 1000000);
    return hub_pause(&watch, ms);
}

/* After a failure that another try may mend. A try that brought bytes starts the count anew. */
static enum osp_status try_again(struct range_run *run, enum osp_status st)
{
    const int n_max = run->st != OSP_OK ? HUB_BAD_ANSWERS_MAX : HUB_TRIES_MAX;
    char *text;
    int64_t ms;

    run->n_failed = run->has_bytes ? 1 : run->n_failed + 1;
    ms = hub_retry_ms(&run->response, run->n_failed);
    if (run->n_failed >= n_max)
        return fail_prefix(st, "after %d tries", run->n_failed);
    if (ms < 0)
        return fail_prefix(st,
                           "the hub asks for a pause of %lld s; the same command then "
                           "continues the download",
                           (long long)run->response.headers.retry_after_s);
    text = mem_printf("%s; trying again in %.1f s", fail_message(), (double)ms / 1000);
    note(run->job, text);
    free(text);
    return wait_for_pause(run, ms);
}

/* The server has no ranges: the range is given back, and one connection takes the whole file. */
static void set_no_ranges(struct range_run *run)
{
    pthread_mutex_lock(&run->job->mutex);
    run->blob->no_ranges = true;
    pthread_mutex_unlock(&run->job->mutex);
}

/* The URL that the hub gave is not used again; the hub gives another. */
static void drop_location(struct range_run *run, const char *url)
{
    struct hub_blob *blob = run->blob;

    pthread_mutex_lock(&run->job->mutex);
    if (blob->location != NULL && strcmp(blob->location, url) == 0) {
        free(blob->location);
        blob->location = NULL;
        blob->n_refused++;
    }
    pthread_mutex_unlock(&run->job->mutex);
}

/* A signed URL has expired, or its storage has lost the file. */
static enum osp_status renew_location(struct range_run *run, const char *url)
{
    char *shown = hub_url_shown(url);
    bool is_last;
    enum osp_status st = OSP_OK;

    drop_location(run, url);
    pthread_mutex_lock(&run->job->mutex);
    is_last = run->blob->n_refused > HUB_TRIES_MAX;
    pthread_mutex_unlock(&run->job->mutex);
    (void)fail(OSP_EIO, "%s: %s: the storage answers %ld to %s", run->job->options->repo,
               path_of(run), run->response.status, shown);
    if (is_last)
        st = fail_prefix(OSP_EIO, "after %d URLs that the hub gave", (int)HUB_TRIES_MAX);
    else
        note(run->job, fail_message());
    free(shown);
    return st;
}

static void forget_refusals(struct range_run *run)
{
    pthread_mutex_lock(&run->job->mutex);
    run->blob->n_refused = 0;
    pthread_mutex_unlock(&run->job->mutex);
}

static enum osp_status follow_redirect(struct range_run *run, const char *url, int *n_redirects)
{
    bool sends_token;
    enum osp_status st;

    if (!check_identity(run))
        return run->st;
    if (++*n_redirects > HUB_REDIRECTS_MAX)
        return fail(OSP_EUNAVAILABLE, "%s: %s: more than %d redirects", run->job->options->repo,
                    path_of(run), (int)HUB_REDIRECTS_MAX);
    st = hub_check_url(&sends_token, run->job->options->settings, url, run->response.redirect);
    if (st == OSP_OK)
        put_location(run, run->response.redirect, false);
    return st;
}

/* A status that is neither bytes nor a redirect. */
static enum osp_status other_status(struct range_run *run, const char *url, bool sent_token)
{
    const struct hub_download_options *opt = run->job->options;
    const enum hub_verdict verdict = hub_verdict_of(&run->response);
    char *what;
    enum osp_status st;

    if (run->is_location && verdict == HUB_FATAL && run->response.status != 416)
        return renew_location(run, url);
    what = mem_printf("%s: %s", opt->repo, path_of(run));
    if (run->is_location && verdict == HUB_RETRY)
        st = fail(OSP_EIO, "%s: the storage answers %ld", what, run->response.status);
    else
        st = hub_status_error(&run->response, opt->settings, what, sent_token);
    free(what);
    return verdict == HUB_RETRY ? try_again(run, st) : st;
}

/* What the end of a request means for the range. st: of the request; run->st: of the bytes. */
static enum osp_status judge(struct range_run *run, enum osp_status st, const char *url,
                             bool sent_token)
{
    if (run->has_bytes)
        forget_refusals(run);
    if (run->is_disk || run->lacks_ranges)
        return run->st;
    st = run->st != OSP_OK ? run->st : st;
    if (st == OSP_OK && hub_verdict_of(&run->response) != HUB_DONE)
        return other_status(run, url, sent_token);
    if (st == OSP_OK && run->offset < run->end)
        st = fail(OSP_EIO, "%s: %s: the connection ended early", run->job->options->repo,
                  path_of(run));
    if (st != OSP_EIO)
        return st;
    if (run->is_location && !run->has_bytes)
        drop_location(run, url);
    return try_again(run, st);
}

/* One request. */
static enum osp_status try_once(struct range_run *run, int *n_redirects)
{
    const struct hub_settings *s = run->job->options->settings;
    char *url = take_url(run);
    struct hub_request request = {.url = url,
                                  .first = is_whole_file(run) ? -1 : run->offset,
                                  .last = run->end - 1,
                                  .stall_s = s->stall_s,
                                  .is_stopped = is_stopped,
                                  .on_body = on_body,
                                  .ctx = run};
    bool sends_token = false;
    enum osp_status st;

    if (url == NULL)
        return fail(OSP_ECANCELED, "stopped");
    run->is_checked = run->has_bytes = run->is_disk = false;
    run->st = OSP_OK;
    TRY(hub_check_url(&sends_token, s, NULL, url));
    request.token = sends_token ? s->token : NULL;
    st = hub_http_get(run->http, &request, &run->response);
    if (st == OSP_OK && hub_verdict_of(&run->response) == HUB_REDIRECT) {
        TRY(follow_redirect(run, url, n_redirects));
        goto out;
    }
    if (run->asks)
        put_location(run, NULL, false); /* the others need not wait for the next try */
    st = judge(run, st, url, request.token != NULL);
out:
    if (run->asks)
        put_location(run, NULL, false);
    free(url);
    return st;
}

/* Blocks that were not completed can be taken again. */
static void give_back_blocks(struct range_run *run)
{
    struct hub_blob *blob = run->blob;
    const int last = run->range->first + run->range->n;

    pthread_mutex_lock(&run->job->mutex);
    for (int i = last - 1; i >= run->range->first; i--)
        if (blob->part.states[i] == PART_TAKEN) {
            blob->part.states[i] = PART_MISSING;
            if (i < blob->first_missing)
                blob->first_missing = i;
        }
    pthread_mutex_unlock(&run->job->mutex);
}

/* Bytes of a block that did not become complete do not count as done. */
static void forget_partial(struct range_run *run)
{
    const int64_t n_bytes = run->offset % PART_BLOCK_BYTES;

    if (n_bytes == 0 || run->offset >= run->end)
        return;
    pthread_mutex_lock(&run->job->mutex);
    if (is_mine(run, block_at(run->offset)))
        run->job->progress.done_bytes -= n_bytes;
    pthread_mutex_unlock(&run->job->mutex);
}

/* A server without ranges starts at the first byte again. */
static void restart_whole(struct range_run *run)
{
    forget_partial(run);
    hub_digest_release(&run->digest);
    run->offset = 0;
}

enum osp_status hub_range_run(struct hub_job *job, struct hub_http *http,
                              const struct hub_range *range)
{
    struct range_run *run = mem_new(sizeof *run);
    const int64_t size = range->blob->file->size;
    int n_redirects = 0;
    enum osp_status st = OSP_OK;

    *run = (struct range_run){.job = job, .http = http, .range = range, .blob = range->blob};
    run->offset = (int64_t)range->first * PART_BLOCK_BYTES;
    run->end = ((int64_t)range->first + range->n) * PART_BLOCK_BYTES;
    run->end = run->end < size ? run->end : size;
    while (st == OSP_OK && run->offset < run->end && !run->lacks_ranges) {
        if (range->is_whole && run->offset > 0)
            restart_whole(run);
        st = try_once(run, &n_redirects);
        if (run->has_bytes)
            n_redirects = 0;
    }
    if (run->lacks_ranges)
        set_no_ranges(run);
    forget_partial(run);
    give_back_blocks(run);
    hub_digest_release(&run->digest);
    free(run);
    return st;
}
