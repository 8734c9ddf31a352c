/* Clients: what they ask, how they read, and what they must receive. */
#include "sim.h"

#define STOP_LETTER sim_letter[LETTERS - 1]

static const char *const KEYS[KEYS_MAX] = {NULL, "ann", "bob"};
static const char *const USERS[USERS_MAX] = {NULL, "u1", "u2", "u3", "u4"};
static const char *const SALTS[] = {NULL, "salt"};

struct caller *caller_of(const struct seq *q)
{
    struct caller *found = NULL;

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request == q->owner)
            found = c;
    CHECK(found != NULL);
    return found;
}

/* A prefix that others have, too, and new tokens. */
static int make_prompt(int32_t *out, int n_max)
{
    int n = 0, n_new = 1 + pick(pick(3) == 0 ? n_max : 40), n_old = 0;

    if (pick(4) > 0) {
        const int32_t *old = world.base[pick(N_BASES)];

        n_old = 1 + pick(n_max);
        if (world.n_last > 0 && pick(2) == 0) {
            old = world.last;
            n_old = pick(3) == 0 ? 1 + pick(world.n_last) : world.n_last;
        }
        for (; n < n_old && n < n_max; n++)
            out[n] = old[n];
    }
    if (n > 0 && pick(6) == 0)
        return n; /* nothing new at all */
    for (int i = 0; i < n_new && n < n_max; i++)
        out[n++] = sim_letter[pick(30) == 0 ? LETTERS - 2 : pick(4)];
    return n;
}

static void hash_at(struct caller *c, int i, const char *salt)
{
    c->token_hash[i] =
        next_token_hash(i > 0 ? c->token_hash[i - 1] : salt_hash(salt), c->tokens[i]);
    c->kind_hash[i] = next_kind_hash(i > 0 ? c->kind_hash[i - 1] : 0, i >= c->n_prompt, i);
}

/* The answer that the request must get, computed without the engine. */
static void foresee(struct caller *c, const char *salt)
{
    for (int i = 0; i < c->n_prompt; i++)
        hash_at(c, i, salt);
    c->n_all = c->n_prompt;
    while (c->n_all < c->n_tokens_max) {
        int32_t token = draw_at(c);

        if (token < 0) {
            c->is_drawn_nan = true;
            return;
        }
        c->tokens[c->n_all] = token;
        hash_at(c, c->n_all++, salt);
        if (token == STOP_LETTER)
            return;
    }
}

static char letter_of(int32_t id)
{
    for (int i = 0; i < LETTERS; i++)
        if (sim_letter[i] == id)
            return (char)('a' + i);
    return '?';
}

/* How much of the answer is text: a stop string of two letters cuts it, and the stop string is left
 * out unless stop_in_text is set. */
static void foresee_text(struct caller *c, const struct osp_request_options *opt)
{
    const char *stop = opt->n_stop > 0 ? opt->stop[0] : NULL;
    const bool ends_itself = c->n_all > c->n_prompt && c->tokens[c->n_all - 1] == STOP_LETTER;

    c->n_text = c->n_all - c->n_prompt - (ends_itself && !opt->stop_in_text);
    for (int i = c->n_prompt; stop != NULL && i + 1 < c->n_all; i++)
        if (letter_of(c->tokens[i]) == stop[0] && letter_of(c->tokens[i + 1]) == stop[1]) {
            c->n_text = i - c->n_prompt + (opt->stop_in_text ? 2 : 0);
            c->is_cut = true;
            return;
        }
}

/* What the client expects: its answer, with no, some or only wrong tokens. Made here, since the
 * answer is known only when the request is. */
static void predict(struct caller *c)
{
    int32_t tokens[CONTEXT_MAX];
    const int n = c->n_all - c->n_prompt;

    if (!world.odds.predictions || world.engine->limits.n_draft_rows_max == 0 || c->id % 4 == 3)
        return;
    for (int i = 0; i < n; i++) {
        const bool is_wrong =
            c->id % 4 == 2 || (c->id % 4 == 1 && mix(c->id, (uint64_t)i) % 5 == 0);

        tokens[i] = is_wrong ? sim_letter[4 + i % 9] : c->tokens[c->n_prompt + i];
    }
    CHECK(prediction_drafter_new(&c->request->drafts.drafters[DRAFT_PREDICTION], tokens, n,
                                 c->n_prompt) == OSP_OK);
}

static void submit(struct caller *c, struct osp_request_options *opt)
{
    enum osp_status status;
    struct seq *q;

    status = osp_submit_tokens(&c->request, world.engine, c->tokens, (size_t)c->n_prompt, opt);
    if (status != OSP_OK) {
        CHECK(status == (world.is_broken ? OSP_EUNAVAILABLE : OSP_EBUSY));
        CHECK(c->request == NULL);
        return;
    }
    CHECK(!world.is_broken);
    totals.n_requests++;
    q = &c->request->seq;
    q->sampling_params.seed =
        c->id; /* a seed from an entropy source would not be known in advance */
    c->is_exact = q->is_exact;
    CHECK(c->is_exact == (opt->sampling.has_seed && !opt->reuse_generated));
    c->n_tokens_max = q->n_tokens_max;
    c->n_tokens = c->n_prompt;
    c->is_mine = true;
    c->deadline_ns = opt->timeout_ms > 0 ? sim_now_ns + (uint64_t)opt->timeout_ms * 1000000u : 0;
    foresee(c, opt->cache_salt);
    foresee_text(c, opt);
    predict(c);
}

/* Of the prompt, in worlds of short or long answers. */
static int prompt_max(int n_context)
{
    int n = world.odds.short_answers ? 12 : world.odds.long_answers ? n_context / 4 : n_context;

    return n < 1 || n >= n_context ? n_context - 1 : n;
}

static void arrive(struct caller *c)
{
    struct osp_request_options opt = {.raw = true};
    int n_answer = 1 + pick(world.odds.short_answers ? 6 : world.odds.long_answers ? 400 : 120);

    *c = (struct caller){.id = ++world.n_born};
    c->n_prompt = make_prompt(c->tokens, prompt_max(world.engine->limits.context_tokens_max));
    opt.tokens_max = pick(10) == 0 ? 0 : n_answer;
    opt.priority = world.odds.same_priority ? 0 : pick(3) - 1;
    c->key = pick(KEYS_MAX);
    opt.client = KEYS[c->key];
    /* Not picked at random: a schedule's number must keep its meaning. */
    if (world.odds.many_users)
        c->user = c->key == 0 ? (int)(c->id % USERS_MAX) : 0;
    else
        c->user = (int)(c->id % 2);
    opt.user = USERS[c->user];
    opt.cache_salt = SALTS[pick(5) == 0];
    opt.no_prefix_cache = pick(12) == 0;
    opt.sampling.has_seed = pick(2) == 0;
    opt.sampling.seed = c->id;
    opt.reuse_generated = pick(6) == 0;
    if (chance(world.odds.limit))
        opt.timeout_ms = 1 + pick(400);
    if (pick(8) == 0) {
        opt.stop[0] = pick(2) == 0 ? "ab" : "cd";
        opt.n_stop = 1;
    }
    c->is_lazy = pick(6) == 0;
    opt.prompt_logprobs = c->has_prompt_logprobs = c->id % 5 == 2; /* likewise */
    opt.stop_in_text = c->id % 4 == 0; /* not picked at random, as above */
    submit(c, &opt);
}

void callers_arrive(void)
{
    if (!chance(world.odds.arrive))
        return;
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request == NULL) {
            arrive(c);
            return;
        }
}

/* ---- reading ---- */

static void hear_text(struct caller *c, const struct osp_event *e)
{
    for (size_t i = 0; i < e->n_bytes; i++) {
        CHECK(c->n_heard <
              c->n_text + c->is_cut); /* an earlier end may leave the beginning of a stop string */
        CHECK(e->text[i] == letter_of(c->tokens[c->n_prompt + c->n_heard]));
        c->n_heard++;
    }
}

/* Computed by the prefill arithmetic alone, whether cached, preempted or recomputed. */
static void check_scores(const struct caller *c)
{
    for (int i = 0; i < c->n_prompt; i++) {
        struct osp_logprob score;

        CHECK(osp_request_prompt_logprob(c->request, (size_t)i, &score) ==
              (c->has_prompt_logprobs && i > 0));
        if (!c->has_prompt_logprobs || i == 0)
            continue;
        CHECK(score.token == c->tokens[i]);
        CHECK(score.logprob == score_of(stamp_of(c->token_hash[i - 1], c->kind_hash[i - 1])));
        totals.n_logprobs_done++;
    }
}

static void check_done(const struct caller *c, const struct osp_event *e)
{
    const struct seq *q = &c->request->seq;
    bool is_whole = c->n_heard == c->n_text;

    CHECK(!c->is_mine || c->is_cut); /* it has left the engine, or does so next */
    CHECK(e->usage.n_prompt_tokens == c->n_prompt);
    CHECK(e->usage.n_cached_tokens == q->n_cached);
    CHECK(e->usage.n_cached_tokens < c->n_prompt);
    if (e->finish == OSP_FINISH_CANCELED) {
        CHECK(c->is_canceled || world.engine->closing);
        CHECK(c->n_heard <= e->usage.n_generated_tokens);
        CHECK(e->usage.n_generated_tokens == c->n_tokens - c->n_prompt); /* sent = produced */
        return;
    }
    CHECK(is_whole);
    check_scores(c);
    if (c->is_cut) {
        totals.n_cuts++;
        CHECK(e->finish == OSP_FINISH_STOP);
        return;
    }
    CHECK(!c->is_drawn_nan);
    CHECK(e->usage.n_generated_tokens == c->n_all - c->n_prompt);
    CHECK(e->finish == (q->end == SEQ_END_LENGTH ? OSP_FINISH_LENGTH : OSP_FINISH_STOP));
    CHECK(q->end == SEQ_END_LENGTH || c->tokens[c->n_all - 1] == STOP_LETTER);
}

static void check_error(const struct caller *c, const struct osp_event *e)
{
    CHECK(!c->is_mine);
    CHECK(e->n_bytes == strlen(e->text) && e->n_bytes > 0);
    if (e->status == OSP_ETIMEOUT) {
        totals.n_timeouts++;
        CHECK(c->deadline_ns > 0 && sim_now_ns >= c->deadline_ns);
        return;
    }
    CHECK(e->status == OSP_EDEVICE);
    if (world.is_broken) {
        totals.n_device++;
        return;
    }
    totals.n_nan++;
    CHECK(c->is_drawn_nan && c->n_heard == c->n_text);
}

static void leave(struct caller *c)
{
    const struct seq *q = &c->request->seq;

    if (q->n_tokens > 0 && q->n_tokens < CONTEXT_MAX) {
        memcpy(world.last, c->tokens, (size_t)c->n_tokens * sizeof *c->tokens);
        world.n_last = c->n_tokens;
    }
    osp_request_close(c->request);
    c->request = NULL;
}

/* Returns whether there was an event. */
static bool hear(struct caller *c)
{
    struct osp_event e;

    if (osp_next_event(c->request, 0, &e) != OSP_OK)
        return false;
    if (e.kind == OSP_EVENT_TEXT) {
        hear_text(c, &e);
        return true;
    }
    CHECK(e.kind == OSP_EVENT_DONE || e.kind == OSP_EVENT_ERROR);
    if (e.kind == OSP_EVENT_DONE)
        check_done(c, &e);
    else
        check_error(c, &e);
    CHECK(++c->n_ends == 1);
    CHECK(osp_next_event(c->request, 0, &e) == OSP_EINVAL); /* it ends once */
    return false;
}

void callers_read(void)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        if (c->request == NULL || (c->is_lazy && c->is_mine))
            continue;
        for (int n = pick(4); n > 0 && hear(c); n--)
            continue;
        if (c->n_ends > 0 && !c->is_mine)
            leave(c);
    }
}

/* A preempted request is the likelier to leave; now and then all leave at once. */
void callers_cancel(void)
{
    const bool all = chance(4 * world.odds.cancel);

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        bool is_out;

        if (c->request == NULL || c->is_canceled)
            continue;
        is_out = c->is_mine && c->request->seq.host[GROUP_FULL].n > 0;
        if (all || chance(is_out ? world.odds.cancel / 8 : world.odds.cancel)) {
            c->is_canceled = true;
            osp_cancel(c->request);
        }
    }
}

void callers_hear_out(void)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        if (c->request == NULL)
            continue;
        CHECK(!c->is_mine);
        while (hear(c))
            continue;
        CHECK(c->n_ends == 1);
        leave(c);
    }
}
