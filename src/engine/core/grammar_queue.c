/* The queue of grammars and its two threads. */
#include "engine/core/grammar_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/str.h"
#include "base/thread.h"

enum lane_kind { LANE_NEW, LANE_KNOWN, N_LANES };

/* Hashes of the grammars compiled last. Fewer than grammar_cache.h keeps, so that these grammars
 * are mostly still cached. */
enum { KNOWN_MAX = CACHED_GRAMMARS_MAX / 2 };

/* A waiting request; owns its texts. */
struct entry {
    struct osp_request *request; /* holds a reference */
    struct grammar_source source;
    size_t n_bytes;
    uint64_t hash;  /* of the source */
    uint64_t round; /* see round_of() */
    bool is_repeat; /* the same grammar is queued before it */
};

struct lane {
    struct grammar_queue *queue;
    pthread_t thread;
    bool has_thread, is_busy;
    uint64_t busy_hash;    /* of the grammar that is being compiled */
    struct entry *entries; /* (n) by arrival */
    size_t n, capacity;
    uint64_t round; /* of the last entry that was taken */
    pthread_cond_t changed;
};

struct grammar_queue {
    struct osp_engine *engine;
    pthread_mutex_t lock; /* of everything below */
    struct lane lanes[N_LANES];
    size_t n_bytes; /* of the texts of all entries */
    uint64_t known[KNOWN_MAX];
    uint32_t n_known; /* hashes ever noted */
    bool ends;
};

/* ---- entries ---- */

static uint64_t hash_of(const struct grammar_source *s)
{
    uint64_t hash = hash_bytes(HASH_INIT, &s->form, sizeof s->form);

    if (s->form_text != NULL)
        hash = hash_bytes(hash, s->form_text, strlen(s->form_text) + 1);
    if (s->calls != NULL)
        hash = hash_bytes(hash, s->calls, strlen(s->calls) + 1);
    return hash;
}

static void entry_release(struct entry *e)
{
    free((char *)e->source.form_text);
    free((char *)e->source.calls);
    request_drop(e->request);
}

static enum osp_status copy_text(const char **out, const char *text, size_t *n_bytes)
{
    char *copy = NULL;
    enum osp_status st;

    *out = NULL;
    if (text == NULL)
        return OSP_OK;
    TRY(str_copy(&copy, text, "a grammar's text"));
    *out = copy;
    *n_bytes += strlen(copy) + 1;
out:
    return st;
}

static enum osp_status entry_init(struct entry *e, struct osp_request *r,
                                  const struct grammar_source *source)
{
    enum osp_status st;

    *e = (struct entry){.request = r, .source.form = source->form, .hash = hash_of(source)};
    request_retain(r);
    TRY(copy_text(&e->source.form_text, source->form_text, &e->n_bytes));
    TRY(copy_text(&e->source.calls, source->calls, &e->n_bytes));
out:
    if (st != OSP_OK)
        entry_release(e);
    return st;
}

static bool is_same_client(const struct osp_request *a, const struct osp_request *b)
{
    if (a->client == NULL || b->client == NULL)
        return a->client == b->client;
    return strcmp(a->client, b->client) == 0;
}

/* ---- limits; under the lock ---- */

static bool is_known(const struct grammar_queue *q, uint64_t hash)
{
    const uint32_t n = q->n_known < KNOWN_MAX ? q->n_known : KNOWN_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (q->known[i] == hash)
            return true;
    return false;
}

static void note_known(struct grammar_queue *q, uint64_t hash)
{
    if (!is_known(q, hash))
        q->known[q->n_known++ % KNOWN_MAX] = hash;
}

static bool is_repeat(const struct lane *l, uint64_t hash)
{
    if (l->is_busy && l->busy_hash == hash)
        return true;
    for (size_t i = 0; i < l->n; i++)
        if (l->entries[i].hash == hash)
            return true;
    return false;
}

/* Round-robin between clients, one grammar a round: no client waits behind all of another's. */
static uint64_t round_of(const struct lane *l, const struct osp_request *r)
{
    uint64_t last = l->round;

    for (size_t i = 0; i < l->n; i++)
        if (l->entries[i].round > last && is_same_client(l->entries[i].request, r))
            last = l->entries[i].round;
    return last + 1;
}

static enum osp_status check_new(const struct lane *l, const struct entry *e)
{
    int n = 0, n_of_client = 0;

    if (e->is_repeat)
        return OSP_OK;
    for (size_t i = 0; i < l->n; i++) {
        n += !l->entries[i].is_repeat;
        n_of_client +=
            !l->entries[i].is_repeat && is_same_client(l->entries[i].request, e->request);
    }
    if (n >= GRAMMARS_WAITING_MAX)
        return fail(OSP_EBUSY,
                    "%d new grammars (schemas, expressions, strict tools) wait to be "
                    "compiled, limit is %d: try again later",
                    n, (int)GRAMMARS_WAITING_MAX);
    if (n_of_client >= GRAMMARS_WAITING_MAX_PER_CLIENT)
        return fail(OSP_EBUSY,
                    "%d new grammars (schemas, expressions, strict tools) of this client "
                    "wait to be compiled, limit is %d: try again later",
                    n_of_client, (int)GRAMMARS_WAITING_MAX_PER_CLIENT);
    return OSP_OK;
}

static enum osp_status check_queue_limit(const struct grammar_queue *q, const struct entry *e,
                                         enum lane_kind kind)
{
    const size_t n = q->lanes[LANE_NEW].n + q->lanes[LANE_KNOWN].n;

    if (q->ends)
        return fail(OSP_EUNAVAILABLE, "the engine is closing");
    if (n >= (size_t)q->engine->options.queue_requests_max)
        return fail(OSP_EBUSY, "%zu requests wait for their grammars, limit is %d", n,
                    q->engine->options.queue_requests_max);
    if (e->n_bytes > GRAMMARS_WAITING_BYTES_MAX - q->n_bytes)
        return fail(OSP_EBUSY,
                    "grammars of %zu bytes wait to be compiled, limit is %d bytes: try "
                    "again later",
                    q->n_bytes, (int)GRAMMARS_WAITING_BYTES_MAX);
    return kind == LANE_NEW ? check_new(&q->lanes[LANE_NEW], e) : OSP_OK;
}

/* ---- the threads ---- */

/* Ends a request that the engine never had. */
static void end_request(struct osp_request *r, enum seq_end end, enum osp_status status,
                        const char *message)
{
    r->seq.state = SEQ_ENDED;
    r->seq.end = end;
    if (status == OSP_OK)
        request_publish(r);
    else
        request_publish_failure(r, status, message);
}

static bool is_late(const struct osp_request *r)
{
    return r->seq.deadline_ns != 0 && clock_ns() >= r->seq.deadline_ns;
}

static bool is_gone(const struct osp_request *r)
{
    return atomic_load(&r->cancel) || is_late(r);
}

static enum osp_status compile(struct osp_engine *e, const struct entry *entry)
{
    static const struct osp_request_options none;
    enum osp_status st;

    if (!atomic_load(&e->alive)) /* the grammar is not needed then */
        return fail(OSP_EUNAVAILABLE, "the device has failed; the engine must be opened again");
    TRY(request_grammar_make(entry->request, e, &entry->source));
    st = engine_submit(e, entry->request, &none);
out:
    return st;
}

static void notify(const struct osp_engine *e)
{
    if (e->options.notify != NULL)
        e->options.notify(e->options.notify_ctx);
}

static void end_late(struct osp_request *r)
{
    char message[96];

    snprintf(message, sizeof message, "the request took longer than its time limit of %.3f s",
             (double)(r->seq.deadline_ns - r->seq.times.submit_ns) * 1e-9);
    end_request(r, SEQ_END_TIMEOUT, OSP_ETIMEOUT, message);
}

/* The grammar is marked as known before its request is accepted: a client that then sends the same
 * grammar again does not wait behind new ones. */
static void accept_request(struct grammar_queue *q, const struct entry *entry)
{
    pthread_mutex_lock(&q->lock);
    note_known(q, entry->hash);
    pthread_mutex_unlock(&q->lock);
    request_accept(entry->request);
}

static void serve(struct grammar_queue *q, const struct entry *entry)
{
    struct osp_request *r = entry->request;
    enum osp_status st;

    if (atomic_load(&r->cancel)) {
        end_request(r, SEQ_END_CANCELED, OSP_OK, NULL);
    } else if (is_late(r)) {
        end_late(r);
    } else {
        st = compile(q->engine, entry);
        if (st == OSP_OK)
            accept_request(q, entry);
        else
            end_request(r, SEQ_END_FAILED, st, fail_message());
    }
    notify(q->engine);
}

/* Canceled requests first, which cost nothing; then by rounds, then by arrival. */
static size_t next_index(const struct lane *l)
{
    size_t next = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (is_gone(l->entries[i].request))
            return i;
        if (l->entries[i].round < l->entries[next].round)
            next = i;
    }
    return next;
}

static struct entry take(struct lane *l)
{
    const size_t i = next_index(l);
    const struct entry e = l->entries[i];

    l->n--;
    memmove(l->entries + i, l->entries + i + 1, (l->n - i) * sizeof *l->entries);
    l->round = e.round > l->round && !is_gone(e.request) ? e.round : l->round;
    l->queue->n_bytes -= e.n_bytes;
    return e;
}

static void *run_lane(void *arg)
{
    struct lane *l = arg;
    struct grammar_queue *q = l->queue;

    pthread_mutex_lock(&q->lock);
    while (!q->ends) {
        struct entry e;

        if (l->n == 0) {
            (void)condition_wait(&l->changed, &q->lock, UINT64_MAX);
            continue;
        }
        e = take(l);
        l->is_busy = true;
        l->busy_hash = e.hash;
        pthread_mutex_unlock(&q->lock);
        serve(q, &e);
        entry_release(&e);
        pthread_mutex_lock(&q->lock);
        l->is_busy = false;
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- public ---- */

static enum osp_status start(struct lane *l)
{
    enum osp_status st = OSP_OK;

    if (!l->has_thread)
        TRY(thread_start_low_prio(&l->thread, run_lane, l, "compiling grammars"));
    l->has_thread = true;
out:
    return st;
}

static enum osp_status add(struct grammar_queue *q, struct entry *e)
{
    const enum lane_kind kind = is_known(q, e->hash) ? LANE_KNOWN : LANE_NEW;
    struct lane *l = &q->lanes[kind];
    enum osp_status st;

    e->is_repeat = is_repeat(l, e->hash);
    TRY(check_queue_limit(q, e, kind));
    TRY(start(l));
    TRY(mem_try_grow(&l->entries, l->n, &l->capacity, sizeof *l->entries, "requests"));
    e->round = round_of(l, e->request);
    l->entries[l->n++] = *e;
    q->n_bytes += e->n_bytes;
    pthread_cond_signal(&l->changed);
out:
    return st;
}

enum osp_status grammar_queue_submit(struct grammar_queue *q, struct osp_request *r,
                                     const struct grammar_source *source)
{
    struct entry e;
    enum osp_status st;

    TRY(entry_init(&e, r, source));
    pthread_mutex_lock(&q->lock);
    st = add(q, &e);
    pthread_mutex_unlock(&q->lock);
    if (st != OSP_OK)
        entry_release(&e);
out:
    if (st == OSP_EBUSY)
        engine_count_refusal(q->engine);
    return st;
}

int grammar_queue_count(struct grammar_queue *q)
{
    int n = 0;

    pthread_mutex_lock(&q->lock);
    for (int i = 0; i < N_LANES; i++)
        n += (int)q->lanes[i].n + q->lanes[i].is_busy;
    pthread_mutex_unlock(&q->lock);
    return n;
}

struct grammar_queue *grammar_queue_new(struct osp_engine *engine)
{
    struct grammar_queue *q = mem_new(sizeof *q);

    q->engine = engine;
    pthread_mutex_init(&q->lock, NULL);
    for (int i = 0; i < N_LANES; i++) {
        q->lanes[i].queue = q;
        condition_init(&q->lanes[i].changed);
    }
    return q;
}

void grammar_queue_end(struct grammar_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->ends = true;
    for (int i = 0; i < N_LANES; i++)
        pthread_cond_broadcast(&q->lanes[i].changed);
    pthread_mutex_unlock(&q->lock);
}

static void lane_release(struct lane *l)
{
    if (l->has_thread)
        pthread_join(l->thread, NULL);
    for (size_t i = 0; i < l->n; i++) {
        end_request(l->entries[i].request, SEQ_END_CANCELED, OSP_OK, NULL);
        entry_release(&l->entries[i]);
    }
    free(l->entries);
    pthread_cond_destroy(&l->changed);
}

void grammar_queue_free(struct grammar_queue *q)
{
    if (q == NULL)
        return;
    grammar_queue_end(q);
    for (int i = 0; i < N_LANES; i++)
        lane_release(&q->lanes[i]);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
