/* What must hold after every turn, worked out without the engine's own counts. */
#include "sim.h"

static struct {
    int64_t served[KEYS_MAX], n_steps;
    bool was_under_way;
} before;

static struct sched *sched(void)
{
    return &world.engine->sched;
}

static bool runs(const struct caller *c)
{
    return c->request != NULL && c->is_mine && c->request->seq.state == SEQ_RUNNING;
}

static bool waits(const struct caller *c)
{
    return c->request != NULL && c->is_mine && c->request->seq.state == SEQ_WAITING &&
           c->request->seq.client != NULL;
}

static int key_of(const struct seq *q)
{
    return q->client_key == NULL ? 0 : q->client_key[0] == 'a' ? 1 : 2;
}

/* ---- pages ---- */

static void count_lists(int *refs, int g, bool host)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        const struct page_list *l;

        if (c->request == NULL || !c->is_mine)
            continue;
        l = host ? &c->request->seq.host[g] : &c->request->seq.pages[g];
        for (int i = 0; i < l->n; i++) {
            CHECK(l->numbers[i] >= 0 && l->numbers[i] < PAGES_MAX);
            refs[l->numbers[i]]++;
        }
    }
}

static int depth_of(const struct prefix_node *node)
{
    int n = 0;

    for (; node->parent->parent != NULL; node = node->parent)
        n++;
    return n;
}

/* What is computed by the prompt's arithmetic alone, up to a position. */
static uint64_t clean_hash(int position)
{
    static uint64_t hashes[CONTEXT_MAX];
    static int n;

    for (; n <= position; n++)
        hashes[n] = next_kind_hash(n > 0 ? hashes[n - 1] : 0, false, n);
    return hashes[position];
}

/* The pages of a node hold its tokens, behind its parent's, and are as clean as it says. */
static void check_node(const struct prefix_node *node, int g)
{
    int first = depth_of(node) * PAGE_TOKENS;
    uint64_t hash =
        node->parent->parent == NULL
            ? salt_hash(node->parent->salt)
            : stamp_in(GROUP_FULL, node->parent->page[GROUP_FULL], PAGE_TOKENS - 1) >> 24;

    for (int i = 0; i < node->n_tokens; i++) {
        hash = next_token_hash(hash, node->tokens[i]);
        CHECK(stamp_in(g, node->page[g], i) >> 24 == hash);
    }
    if (node->n_clean > 0)
        CHECK((stamp_in(g, node->page[g], node->n_clean - 1) & 0xFFFFFF) ==
              clean_hash(first + node->n_clean - 1));
}

/* A node's tokens and place are those of its page's hash chain; its parent is there. */
static void count_nodes(int *refs, int g)
{
    const struct prefix *p = &sched()->prefix;
    int64_t n_nodes = 0;

    for (size_t b = 0; b < p->n_buckets; b++)
        for (const struct prefix_node *i = p->buckets[b]; i != NULL; i = i->next_in_bucket) {
            n_nodes++;
            CHECK((i->parent == NULL) == (i->salt != NULL));
            CHECK(i->is_idle == (i->parent != NULL && i->n_users == 0 && i->first_child == NULL));
            CHECK(i->parent == NULL || i->parent->parent == NULL ||
                  i->parent->n_tokens == PAGE_TOKENS);
            if (i->page[g] < 0)
                continue;
            CHECK(sched()->pages[g].page[i->page[g]].is_cached);
            CHECK(refs[i->page[g]] < 1000); /* one node a page */
            refs[i->page[g]] += 1000;
            if (!i->is_bad && (n_nodes + world.n_turns) % 8 == 0) /* all of them, in turn */
                check_node(i, g);
        }
    CHECK(n_nodes == p->n_nodes);
}

static void check_pool(const struct pages *p, const int *refs)
{
    int n_free = 0, n_idle = 0;
    bool seen[PAGES_MAX] = {false};

    for (int i = 0; i < p->n_pages; i++) {
        int n = refs[i] / 1000 + refs[i] % 1000;

        CHECK(p->page[i].n_refs == n);
        CHECK(p->page[i].is_cached == (refs[i] >= 1000));
        n_free += n == 0;
        n_idle += refs[i] == 1000;
        totals.n_shared += refs[i] % 1000 > 1;
    }
    CHECK(p->n_free == n_free && p->n_idle == n_idle);
    for (int i = 0; i < p->n_free; i++) {
        CHECK(!seen[p->free[i]] && p->page[p->free[i]].n_refs == 0);
        seen[p->free[i]] = true;
    }
}

static void check_pages(void)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int refs[PAGES_MAX] = {0}, host[PAGES_MAX] = {0};

        count_lists(refs, g, false);
        count_nodes(refs, g);
        check_pool(&sched()->pages[g], refs);
        count_lists(host, g, true);
        check_pool(&sched()->host[g], host);
    }
}

/* What is not written yet belongs to one alone. */
static void check_unwritten(const struct caller *c)
{
    const struct seq *q = &c->request->seq;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        for (int i = 0; i < q->pages[g].n; i++)
            if ((q->pages[g].first + i + 1) * PAGE_TOKENS > q->n_stored)
                CHECK(sched()->pages[g].page[q->pages[g].numbers[i]].n_refs == 1);
}

/* ---- sequences ---- */

static void check_caller(struct caller *c)
{
    const struct seq *q = &c->request->seq;

    CHECK(q->n_tokens >= c->n_tokens);
    CHECK(q->n_tokens <= c->n_all);
    CHECK(memcmp(q->tokens + c->n_tokens, c->tokens + c->n_tokens,
                 (size_t)(q->n_tokens - c->n_tokens) * sizeof *q->tokens) == 0);
    CHECK(q->n_stored < q->n_tokens + q->is_awaited ||
          (q->n_stored == q->n_tokens && q->end == SEQ_END_FAILED));
    CHECK(q->n_stored >= c->n_stored || q->n_preempted > c->n_preempted ||
          q->state == SEQ_ENDED); /* only who gave way goes back */
    c->n_tokens = q->n_tokens;
    c->n_stored = q->n_stored;
    c->n_preempted = q->n_preempted;
    c->ran = q->state == SEQ_RUNNING;
    c->is_admitted = false;
    if (q->state == SEQ_RUNNING)
        check_unwritten(c);
    if (q->state == SEQ_WAITING)
        CHECK(q->pages[GROUP_FULL].n == 0 && q->pages[GROUP_WINDOW].n == 0 && q->node == NULL);
    if (q->state == SEQ_ENDED) {
        CHECK(q->pages[GROUP_FULL].n + q->pages[GROUP_WINDOW].n + q->host[GROUP_FULL].n == 0);
        c->is_mine = false;
    }
}

static void check_counts(void)
{
    int n_running = 0, n_waiting = 0, n_queue = 0;

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        n_running += runs(c);
        n_waiting += waits(c);
    }
    for (const struct seq *q = sched()->first_waiting; q != NULL; q = q->after) {
        CHECK(q->after == NULL || q->after->arrival > q->arrival);
        n_queue++;
    }
    CHECK(n_running == sched()->n_running && n_running <= sched()->limits.n_seqs_max);
    CHECK(n_waiting == sched()->n_waiting && n_queue == n_waiting);
}

/* ---- admission: the rule of docs/engine.md over again ---- */

static bool goes_before(const struct caller *a, const struct caller *b)
{
    const struct seq *p = &a->request->seq, *q = &b->request->seq;

    if (p->priority != q->priority)
        return p->priority < q->priority;
    if ((a->n_preempted > 0) != (b->n_preempted > 0))
        return a->n_preempted > 0;
    if (before.served[key_of(p)] != before.served[key_of(q)])
        return before.served[key_of(p)] < before.served[key_of(q)];
    return p->arrival < q->arrival;
}

static struct caller *next_of(struct caller **list, int n)
{
    struct caller *best = NULL, *due = NULL;

    for (int i = 0; i < n; i++) {
        if (best == NULL || goes_before(list[i], best))
            best = list[i];
        if (list[i]->due > 0 && (due == NULL || list[i]->due < due->due))
            due = list[i];
    }
    return due != NULL && world.admissions % 2 == 0 ? due : best;
}

static int n_due(struct caller **list, int n)
{
    int n_found = 0;

    for (int i = 0; i < n; i++)
        n_found += list[i]->due > 0;
    return n_found;
}

/* x is admitted: whom it passes. */
static void pass_by(struct caller **list, int n, const struct caller *x)
{
    for (int arrival_order = 0; arrival_order < n; arrival_order++) {
        struct caller *c = list[arrival_order];

        if (c == x || c->request->seq.arrival > x->request->seq.arrival)
            continue;
        if (++c->n_passed != sched()->limits.passes_max)
            continue;
        c->n_due_before = n_due(list, n);
        c->due = ++world.dues;
        totals.n_dues++;
    }
}

static void sort_by_arrival(struct caller **list, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && list[k]->request->seq.arrival < list[k - 1]->request->seq.arrival;
             k--) {
            struct caller *c = list[k];

            list[k] = list[k - 1];
            list[k - 1] = c;
        }
}

/* Who waited since the last turn or this check, and did not leave in between. */
static bool has_waited(const struct caller *c)
{
    const struct seq *q = &c->request->seq;

    return !c->ran && !c->is_admitted && q->arrival > 0 &&
           (q->state != SEQ_ENDED || q->admission > world.admissions);
}

/* Those whom the step admitted must be the first in the order that the rule gives. */
static void check_admissions(int64_t n_before)
{
    struct caller *list[LIVE_MAX];
    int n = 0;

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && has_waited(c))
            list[n++] = c;
    sort_by_arrival(list, n);
    for (int64_t k = n_before + 1; k <= sched()->n_admissions; k++) {
        struct caller *x = next_of(list, n);
        int at = 0;

        CHECK(x != NULL && x->request->seq.admission == k);
        CHECK(x->n_passed <= sched()->limits.passes_max + 2 * (x->n_due_before + 1));
        pass_by(list, n, x);
        world.admissions++;
        totals.n_admissions++;
        while (list[at] != x)
            at++;
        memmove(list + at, list + at + 1, (size_t)(--n - at) * sizeof *list);
        x->n_passed = x->n_due_before = 0;
        x->due = 0;
        x->is_admitted = true;
    }
}

/* ---- giving way ---- */

static bool stays_before(const struct caller *a, const struct caller *b)
{
    const struct seq *p = &a->request->seq, *q = &b->request->seq;
    bool a_is_kept = a->n_preempted >= PREEMPTIONS_MAX,
         b_is_kept = b->n_preempted >= PREEMPTIONS_MAX;

    if (a_is_kept != b_is_kept)
        return a_is_kept;
    if (p->priority != q->priority && !a_is_kept)
        return p->priority < q->priority;
    return p->arrival < q->arrival;
}

/* Those who had pages and kept them come before who gave way. */
static void check_gave_way(const struct caller *gone)
{
    for (const struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && c->ran && c->n_stored > 0 &&
            c->request->seq.n_preempted == c->n_preempted && sched()->limits.window_tokens > 1)
            CHECK(stays_before(c, gone));
}

static void check_giving_way(void)
{
    for (const struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && c->request->seq.n_preempted > c->n_preempted)
            check_gave_way(c);
}

/* ---- fairness ---- */

static void note_list(int64_t *served, const struct client_list *l)
{
    for (const struct client *i = l->first; i != NULL; i = i->after)
        served[i->key[0] == '\0' ? 0 : i->key[0] == 'a' ? 1 : 2] = i->served;
}

static void note_served(int64_t *served)
{
    note_list(served, &sched()->clients.live);
    note_list(served, &sched()->clients.idle);
}

static int64_t charge_of(struct caller *c)
{
    const struct seq *q = &c->request->seq;
    int from = c->n_charged > q->n_cached ? c->n_charged : q->n_cached;
    int64_t charge = 0;

    if (q->times.admit_ns == 0)
        return 0;
    for (int i = from; i < q->n_stored; i++)
        charge += i < c->n_prompt ? SERVED_PROMPT : SERVED_GENERATED;
    if (q->n_stored > from)
        c->n_charged = q->n_stored;
    return charge;
}

/* Every client was charged for what it was given, once. Positions that a request found in the cache after
 * it gave way are no charge either. */
static void check_served(void)
{
    int64_t now[KEYS_MAX], least[KEYS_MAX] = {0};

    memcpy(now, before.served, sizeof now);
    note_served(now);
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        int was = c->n_charged;

        if (c->request == NULL || !c->is_mine)
            continue;
        least[key_of(&c->request->seq)] += charge_of(c);
        if (c->request->seq.n_preempted > 0 && c->n_charged > was)
            least[key_of(&c->request->seq)] = INT64_MIN / 2; /* some of it may have been found */
    }
    for (int k = 0; k < KEYS_MAX; k++)
        CHECK(least[k] < 0 || now[k] - before.served[k] == least[k]);
}

/* The bound of docs/engine.md: between clients that wait, where nothing but fairness decides. Who gave way is next
 * whatever its client was served. */
static void check_fair(void)
{
    const struct sched_limits *l = &sched()->limits;
    int64_t most = -1, least = INT64_MAX;

    if (!world.odds.same_priority || world.dues > 0)
        return;
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (waits(c) && c->request->seq.n_preempted == 0) {
            int64_t served = c->request->seq.client->served;

            most = served > most ? served : most;
            least = served < least ? served : least;
        }
    CHECK(most - least <= (int64_t)l->n_seqs_max * SERVED_GENERATED * l->context_tokens_max);
}

/* ---- the three times ---- */

/* Who was canceled or is late has gone, or does so when the step under way ends: within one step, wherever it was. */
static void check_leaves(const struct caller *c)
{
    const bool is_late = c->deadline_ns != 0 && sim_now_ns >= c->deadline_ns;
    const struct seq *q = &c->request->seq;

    if (!c->is_mine || (!c->is_canceled && !is_late))
        return;
    CHECK(q->is_under_way && q->leaving != SEQ_END_NONE);
    CHECK(world.odds.is_async);
    totals.n_left++;
}

/* After the inbox, before the step: who has just been taken out is not the engine's any more. */
void check_before_step(void)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine) {
            check_caller(c);
            check_leaves(c);
        }
    check_counts();
    check_fair();
    memset(before.served, 0, sizeof before.served);
    note_served(before.served);
    before.n_steps = sched()->n_steps;
    before.was_under_way = world.is_under_way;
}

/* One step ends in every turn with work; where none was under way, and others may be, one begins. */
static void check_progress(bool had_work)
{
    const int64_t n = sched()->n_steps - before.n_steps;

    CHECK(world.is_under_way == (sched()->under_way != NULL));
    if (world.is_broken || !had_work)
        return;
    if (world.odds.is_async && !before.was_under_way)
        CHECK(n == 0 && world.is_under_way);
    else
        CHECK(n == 1);
    CHECK(!world.is_under_way || world.odds.is_async);
    CHECK(world.is_under_way || !world.odds.is_async || sched_any(sched()) == NULL);
}

void check_in_step(void)
{
    check_admissions(world.admissions);
}

void check_after_step(void)
{
    bool had_work = false;

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        had_work = had_work || (c->request != NULL && c->is_mine);
    check_progress(had_work);
    if (!world.is_broken) {
        check_admissions(world.admissions);
        check_giving_way();
        check_served();
    }
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine)
            check_caller(c);
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        CHECK(c->request == NULL || !c->is_mine || !c->is_canceled);
    check_counts();
    check_pages();
}

void check_at_end(void)
{
    const struct sched *s = sched();

    CHECK(s->n_running == 0 && s->n_waiting == 0);
    CHECK(s->clients.live.n == 0);
    check_pages();
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        CHECK(s->pages[g].n_free + s->pages[g].n_idle == s->pages[g].n_pages);
        CHECK(s->host[g].n_free == s->host[g].n_pages);
    }
    totals.n_preemptions += s->n_preemptions;
    totals.n_swapped += s->n_swapped_pages;
    totals.n_again += s->n_computed_again;
    totals.n_cached += s->n_cached_tokens;
    totals.n_ahead += s->n_planned_ahead;
    totals.n_sent += s->n_sent;
    totals.n_void_rows += s->n_void_rows;
}
