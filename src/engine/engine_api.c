/* The public functions of an engine, wherever it runs (struct engine_ops). */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "engine/core/engine.h"

enum {
    QUEUE_REQUESTS_DEFAULT = 256,
    DRAFTS_DEFAULT = 8,
    EAGLE3_DRAFTS_DEFAULT = 3, /* published heads are trained for about as many */
    LOOKUP_MIN_DEFAULT = 3,
    LOOKUP_MAX_DEFAULT = 16
};

static_assert((int)OSP_BLOCK_TOKENS == (int)PAGE_TOKENS, "osprey.h states the size of a page");

enum osp_status engine_submit(struct osp_engine *e, struct osp_request *r,
                              const struct osp_request_options *opt)
{
    return e->ops->submit(e, r, opt);
}

/* ---- opening and closing ---- */

static void add_stop_id(struct sched_limits *l, int32_t id)
{
    if (id >= 0 && l->n_stop_ids < SCHED_STOP_IDS_MAX)
        l->stop_ids[l->n_stop_ids++] = id;
}

/* Stop tokens of an answer: Harmony's by name, and the checkpoint's own; never <|end|>, which only
 * ends one message of an answer. */
static void add_stop_ids(struct sched_limits *l, const struct osp_model *m)
{
    const struct special_ids *special = &m->text.specials;

    add_stop_id(l, special->ret);
    add_stop_id(l, special->call);
    add_stop_id(l, special->endoftext);
    for (int i = 0; i < m->facts.n_stop_ids; i++)
        if (m->facts.stop_ids[i] != special->end)
            add_stop_id(l, m->facts.stop_ids[i]);
}

/* Tokens that end a message: after it a later prompt may go on differently. */
static void add_message_end_ids(struct sched_limits *l, const struct osp_model *m)
{
    const struct special_ids *special = &m->text.specials;
    const int32_t ids[] = {special->end, special->call, special->ret};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (ids[i] >= 0 && l->n_message_end_ids < SCHED_MESSAGE_END_IDS_MAX)
            l->message_end_ids[l->n_message_end_ids++] = ids[i];
}

static struct sched_limits limits_of(const struct osp_model *m)
{
    struct sched_limits l = {
        .n_seqs_max = m->plan.n_seqs_max,
        .n_batch_tokens_max = m->plan.n_batch_tokens_max,
        .n_draft_rows_max = m->plan.n_draft_rows_max,
        .context_tokens_max = m->plan.context_tokens_max,
        .window_tokens = m->facts.window_tokens,
        .bypass_max = BYPASS_MAX_DEFAULT,
        .lists = m->plan.lists,
    };

    memcpy(l.n_pages, m->plan.n_pages, sizeof l.n_pages);
    add_stop_ids(&l, m);
    add_message_end_ids(&l, m);
    return l;
}

static enum osp_status check_tree(struct osp_speculative *s)
{
    if (s->n_tree == 0)
        return OSP_OK;
    if (s->method != OSP_DRAFTS_EAGLE3)
        return fail(OSP_EINVAL, "speculative: a tree of drafts needs method eagle3");
    if (s->n_tree < 0 || s->n_tree > OSP_DRAFTS_MAX)
        return fail(OSP_EINVAL, "speculative: the tree has %d tokens, must be 1 to %d", s->n_tree,
                    OSP_DRAFTS_MAX);
    if (!draft_shape_is_valid(s->tree_parents, s->n_tree))
        return fail(OSP_EINVAL, "speculative: tree_parents must have the parent of each token "
                                "before it, in order of levels");
    if (s->tokens_max != 0 && s->tokens_max != s->n_tree)
        return fail(OSP_EINVAL,
                    "speculative: num_speculative_tokens is %d, but the tree has %d tokens; leave "
                    "num_speculative_tokens out",
                    s->tokens_max, s->n_tree);
    s->tokens_max = s->n_tree;
    return OSP_OK;
}

/* Sets what is 0 to its default. */
static enum osp_status check_speculative(struct osp_speculative *s)
{
    enum osp_status st;

    if (s->method != OSP_DRAFTS_OFF && s->method != OSP_DRAFTS_NGRAM &&
        s->method != OSP_DRAFTS_EAGLE3)
        return fail(OSP_EINVAL, "speculative: method %d does not exist", (int)s->method);
    if (s->tokens_max < 0 || s->tokens_max > OSP_DRAFTS_MAX)
        return fail(OSP_EINVAL,
                    "speculative: num_speculative_tokens is %d, must be in 0 (default) to %d",
                    s->tokens_max, OSP_DRAFTS_MAX);
    TRY(check_tree(s));
    if (s->tokens_max == 0)
        s->tokens_max = s->method == OSP_DRAFTS_EAGLE3 ? EAGLE3_DRAFTS_DEFAULT : DRAFTS_DEFAULT;
    if (s->tokens_min < 0 || s->tokens_min > s->tokens_max)
        return fail(OSP_EINVAL, "speculative: the fewest draft tokens are %d, must be in 0 to %d",
                    s->tokens_min, s->tokens_max);
    if (s->lookup_min == 0)
        s->lookup_min = s->lookup_max > 0 && s->lookup_max < LOOKUP_MIN_DEFAULT
                            ? s->lookup_max
                            : LOOKUP_MIN_DEFAULT;
    if (s->lookup_max == 0)
        s->lookup_max = s->lookup_min > LOOKUP_MAX_DEFAULT ? s->lookup_min : LOOKUP_MAX_DEFAULT;
    if (s->lookup_min < 1 || s->lookup_max < s->lookup_min || s->lookup_max > OSP_LOOKUP_MAX)
        return fail(OSP_EINVAL,
                    "speculative: prompt_lookup_min is %d and prompt_lookup_max is %d, must be in "
                    "1 to %d, min not above max",
                    s->lookup_min, s->lookup_max, OSP_LOOKUP_MAX);
out:
    return st;
}

static enum osp_status check_options(struct osp_engine_options *opt)
{
    enum osp_status st;

    if (opt->target_itl_ms < 0 || opt->target_itl_ms > OSP_TARGET_ITL_MS_MAX)
        return fail(OSP_EINVAL, "target_itl_ms is %d, must be in 0 (default) to %d",
                    opt->target_itl_ms, OSP_TARGET_ITL_MS_MAX);
    if (opt->client_slot_share < 0 || opt->client_slot_share > OSP_SLOT_SHARE_MAX)
        return fail(OSP_EINVAL, "client_slot_share is %d, must be in 0 (no limit) to %d",
                    opt->client_slot_share, OSP_SLOT_SHARE_MAX);
    if (opt->queue_requests_max < 0 || opt->queue_requests_max > QUEUE_REQUESTS_MAX)
        return fail(OSP_EINVAL, "queue_requests_max is %d, must be in 0 (default) to %d",
                    opt->queue_requests_max, QUEUE_REQUESTS_MAX);
    if (opt->queue_requests_max == 0)
        opt->queue_requests_max = QUEUE_REQUESTS_DEFAULT;
    TRY(check_speculative(&opt->speculative));
out:
    return st;
}

void engine_free(struct osp_engine *e)
{
    e->ops->release(e);
    pthread_mutex_destroy(&e->lock);
    atomic_store(&e->model->claimed, false);
    free(e);
}

enum osp_status engine_make(struct osp_engine **out, struct osp_model *model,
                            const struct osp_engine_options *opt)
{
    struct osp_engine *e;
    enum osp_status st;

    *out = NULL;
    if (atomic_exchange(&model->claimed, true))
        return fail(OSP_EINVAL, "%s already has an engine; a device has one owner", model->name);
    e = mem_new(sizeof *e);
    e->model = model;
    e->limits = limits_of(model);
    e->ops = model->engine_ops != NULL ? model->engine_ops : &local_engine_ops;
    if (opt != NULL)
        e->options = *opt;
    atomic_init(&e->closing, false);
    atomic_init(&e->alive, true);
    atomic_init(&e->step_begin_ns, 0);
    atomic_init(&e->step_limit_ns, 0);
    pthread_mutex_init(&e->lock, NULL);
    TRY(check_options(&e->options));
    st = e->ops->open(e);
out:
    if (st != OSP_OK)
        engine_free(e);
    else
        *out = e;
    return st;
}

enum osp_status osp_engine_open(struct osp_engine **out, struct osp_model *model,
                                const struct osp_engine_options *opt)
{
    enum osp_status st;

    TRY(engine_make(out, model, opt));
    st = (*out)->ops->start(*out);
    if (st != OSP_OK) {
        engine_free(*out);
        *out = NULL;
    }
out:
    return st;
}

void osp_engine_close(struct osp_engine *engine)
{
    if (engine == NULL)
        return;
    engine->ops->close(engine);
    engine_free(engine);
}

/* ---- requests and metrics ---- */

/* Only an engine's lock changes in the functions below. */
static struct osp_engine *unlocked(const struct osp_engine *engine)
{
    return (struct osp_engine *)engine;
}

void osp_engine_get_stats(const struct osp_engine *engine, struct osp_engine_stats *out)
{
    engine->ops->get_stats(unlocked(engine), out);
}

void osp_engine_get_metrics(const struct osp_engine *engine, struct osp_engine_metrics *out)
{
    engine->ops->get_metrics(unlocked(engine), out);
}

void osp_engine_get_health(const struct osp_engine *engine, struct osp_engine_health *out)
{
    engine->ops->get_health(unlocked(engine), out);
}

void osp_engine_get_replay(const struct osp_engine *engine, struct osp_replay_stats *out)
{
    completion_cache_get_stats(engine->model->completion_cache, out);
}

int osp_engine_n_replicas(const struct osp_engine *engine)
{
    return engine->ops->n_replicas != NULL ? engine->ops->n_replicas(unlocked(engine)) : 1;
}

void osp_engine_get_replica_stats(const struct osp_engine *engine, int replica,
                                  struct osp_engine_stats *out)
{
    assert(replica >= 0 && replica < osp_engine_n_replicas(engine));
    if (engine->ops->n_replicas == NULL)
        osp_engine_get_stats(engine, out);
    else
        engine->ops->get_replica_stats(unlocked(engine), replica, out);
}

void osp_engine_get_replica_metrics(const struct osp_engine *engine, int replica,
                                    struct osp_engine_metrics *out)
{
    assert(replica >= 0 && replica < osp_engine_n_replicas(engine));
    if (engine->ops->n_replicas == NULL)
        osp_engine_get_metrics(engine, out);
    else
        engine->ops->get_replica_metrics(unlocked(engine), replica, out);
}

void osp_engine_get_replica_health(const struct osp_engine *engine, int replica,
                                   struct osp_engine_health *out)
{
    assert(replica >= 0 && replica < osp_engine_n_replicas(engine));
    if (engine->ops->n_replicas == NULL)
        osp_engine_get_health(engine, out);
    else
        engine->ops->get_replica_health(unlocked(engine), replica, out);
}

bool osp_engine_alive(const struct osp_engine *engine)
{
    struct osp_engine_health health;

    osp_engine_get_health(engine, &health);
    return health.state == OSP_ENGINE_OK || health.state == OSP_ENGINE_DEGRADED ||
           health.state == OSP_ENGINE_WEDGED;
}

const char *osp_engine_state_text(enum osp_engine_state state)
{
    static const char *const texts[] = {
#define STATE_TEXT(member, word) word,
        OSP_ENGINE_STATE_LIST(STATE_TEXT)
#undef STATE_TEXT
    };

    return texts[state];
}
