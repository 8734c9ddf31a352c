/* What must hold after every iteration, computed without the engine's own counts. */
#include "sim.h"

static struct {
    int64_t served[KEYS_MAX], user_served[KEYS_MAX][USERS_MAX], n_steps;
    bool was_under_way;
} before;

/* The same when the next requests are admitted: with the drafts that were accepted since. */
static struct {
    int64_t served[KEYS_MAX], user_served[KEYS_MAX][USERS_MAX];
} in_order;

static struct sched *sched(void)
{
    return world.engine->sched;
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

static int key_named(const struct client *client)
{
    return client->key[0] == '\0' ? 0 : client->key[0] == 'a' ? 1 : 2;
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

/* The hash of positions computed by the prefill arithmetic alone. */
static uint64_t clean_hash(int position)
{
    static uint64_t hashes[CONTEXT_MAX];
    static int n;

    for (; n <= position; n++)
        hashes[n] = next_kind_hash(n > 0 ? hashes[n - 1] : 0, false, n);
    return hashes[position];
}

/* The pages of a node hold its tokens, after its parent's, and are as clean as it claims. */
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
            if (!i->is_bad &&
                (n_nodes + world.n_turns) % 8 == 0) /* all of them, over several checks */
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

/* Drafts do not take the row of another sequence: whoever can have a row has one, unless there is no
 * page for it. */
void check_draft_rows(const struct step_plan *plan)
{
    if (plan->n_draft_rows == 0)
        return;
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        const struct seq *q = runs(c) ? &c->request->seq : NULL;
        bool has_row = q == NULL || q->n_stored < q->n_prompt || seq_is_leaving(q);

        for (int i = 0; i < plan->n_chunks; i++)
            has_row = has_row || plan->chunks[i].seq == q;
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            has_row = has_row || page_list_end(&q->pages[g]) <= q->n_stored;
        CHECK(has_row);
    }
}

/* A page that is not fully written has one owner. */
static void check_unwritten(const struct caller *c)
{
    const struct seq *q = &c->request->seq;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        for (int i = 0; i < q->pages[g].n; i++)
            if ((q->pages[g].first + i + 1) * PAGE_TOKENS > q->n_stored)
                CHECK(sched()->pages[g].page[q->pages[g].numbers[i]].n_refs == 1);
}

/* ---- sequences ---- */

/* A sequence that decodes holds no page behind its next row: those of rejected drafts are gone. */
static void check_rolled_back(const struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        CHECK(q->pages[g].n == 0 || page_list_end(&q->pages[g]) - PAGE_TOKENS <= q->n_stored);
}

static void check_caller(struct caller *c)
{
    const struct seq *q = &c->request->seq;

    CHECK(q->n_tokens >= c->n_due_now || q->state == SEQ_ENDED); /* no right draft is rejected */
    c->n_due_now = 0;
    if (q->state == SEQ_RUNNING && !q->is_in_flight && q->n_tokens > c->n_prompt &&
        q->n_stored == q->n_tokens - 1)
        check_rolled_back(q);
    CHECK(q->n_tokens >= c->n_tokens);
    CHECK(q->n_tokens <= c->n_all);
    CHECK(memcmp(q->tokens + c->n_tokens, c->tokens + c->n_tokens,
                 (size_t)(q->n_tokens - c->n_tokens) * sizeof *q->tokens) == 0);
    CHECK(q->n_stored < q->n_tokens + q->is_token_pending ||
          (q->n_stored == q->n_tokens && q->end == SEQ_END_FAILED));
    CHECK(q->n_stored >= c->n_stored || q->n_preempted > c->n_preempted ||
          q->state == SEQ_ENDED); /* only a preempted sequence goes back */
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

/* A key alone is admitted as long as it runs fewer sequences than its share of the free slots;
 * beside others it is admitted to fewer slots. */
static void check_slots(void)
{
    const struct sched_limits *l = &sched()->limits;
    int n[KEYS_MAX] = {0};

    for (const struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (runs(c))
            n[c->key]++;
    for (int k = 0; k < KEYS_MAX && l->slot_share > 0; k++)
        CHECK(n[k] == 0 || n[k] - 1 < l->slot_share * (l->n_seqs_max - (n[k] - 1)));
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
    check_slots();
    CHECK(n_waiting == sched()->n_waiting && n_queue == n_waiting);
}

/* ---- admission: the rule of docs/engine.md, written a second time ---- */

/* The requests that wait, by arrival. */
struct queue_list {
    struct caller *at[LIVE_MAX];
    int n;
};

static bool key_waits(const struct queue_list *l, int key)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i]->key == key)
            return true;
    return false;
}

/* The key served least, among equals the one with the oldest request; after each of these that
 * passed a key that is due, the first key that is due. */
static int next_key(const struct queue_list *l)
{
    int best = l->at[0]->key, due = -1;
    bool is_owed = false;

    for (int i = 0; i < l->n; i++)
        if (in_order.served[l->at[i]->key] < in_order.served[best])
            best = l->at[i]->key;
    for (int k = 0; k < KEYS_MAX; k++)
        if (world.key_turn[k].due > 0) {
            is_owed = is_owed || world.key_turn[k].is_owed;
            if (due < 0 || world.key_turn[k].due < world.key_turn[due].due)
                due = k;
        }
    return is_owed ? due : best;
}

/* a and b are of one key. */
static bool goes_before(const struct caller *a, const struct caller *b)
{
    const struct seq *p = &a->request->seq, *q = &b->request->seq;

    if (p->priority != q->priority)
        return p->priority < q->priority;
    if ((a->n_preempted > 0) != (b->n_preempted > 0))
        return a->n_preempted > 0;
    if (in_order.user_served[a->key][a->user] != in_order.user_served[b->key][b->user])
        return in_order.user_served[a->key][a->user] < in_order.user_served[b->key][b->user];
    return p->arrival < q->arrival;
}

static struct caller *next_of(const struct queue_list *l)
{
    struct caller *best = NULL, *due = NULL;
    int key;

    if (l->n == 0)
        return NULL;
    key = next_key(l);
    for (int i = 0; i < l->n; i++) {
        struct caller *c = l->at[i];

        if (c->key != key)
            continue;
        if (best == NULL || goes_before(c, best))
            best = c;
        if (c->turn.due > 0 && (due == NULL || c->turn.due < due->turn.due))
            due = c;
    }
    return due != NULL && world.key_admissions[key] % 2 == 0 ? due : best;
}

static int n_due(const struct queue_list *l, int key)
{
    int n_found = 0;

    for (int i = 0; i < l->n; i++)
        n_found += l->at[i]->key == key && l->at[i]->turn.due > 0;
    return n_found;
}

static int n_due_keys(void)
{
    int n_found = 0;

    for (int k = 0; k < KEYS_MAX; k++)
        n_found += world.key_turn[k].due > 0;
    return n_found;
}

static void count_bypass(struct turn *t, int n_others_due, int64_t *dues, int64_t *total)
{
    if (++t->n_passed != sched()->limits.bypass_max)
        return;
    t->n_due_before = n_others_due;
    t->due = ++*dues;
    ++*total;
}

/* x is admitted: counts the older requests of its key, and the other keys, that it bypasses. */
static void pass_by(const struct queue_list *l, const struct caller *x)
{
    for (int i = 0; i < l->n; i++) {
        struct caller *c = l->at[i];

        if (c->key == x->key && c->request->seq.arrival < x->request->seq.arrival)
            count_bypass(&c->turn, n_due(l, x->key), &world.key_dues[x->key], &totals.n_due_total);
    }
}

/* In the order of their oldest requests. */
static void pass_keys_by(const struct queue_list *l, const struct caller *x)
{
    bool is_passed[KEYS_MAX] = {false};

    for (int i = 0; i < l->n; i++) {
        const int k = l->at[i]->key;

        if (k == x->key || is_passed[k])
            continue;
        world.key_turn[k].is_owed = !(world.key_turn[x->key].due > 0 && world.key_turn[k].due > 0 &&
                                      world.key_turn[x->key].due < world.key_turn[k].due);
        count_bypass(&world.key_turn[k], n_due_keys(), &world.dues, &totals.n_key_dues);
        is_passed[k] = true;
    }
}

static void check_bound(const struct turn *t)
{
    CHECK(t->n_passed <= sched()->limits.bypass_max + 2 * (t->n_due_before + 1));
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

/* Waited since the last iteration or this check, and did not leave in between. */
static bool has_waited(const struct caller *c)
{
    const struct seq *q = &c->request->seq;

    return !c->ran && !c->is_admitted && q->arrival > 0 &&
           (q->state != SEQ_ENDED || q->admission > world.admissions);
}

/* A key without a waiting request is not bypassed. */
static void forget_passes(const struct queue_list *l)
{
    for (int k = 0; k < KEYS_MAX; k++)
        if (!key_waits(l, k))
            world.key_turn[k] = (struct turn){0};
}

static struct caller *admitted_as(const struct queue_list *l, int64_t admission)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i]->request->seq.admission == admission)
            return l->at[i];
    return NULL;
}

/* Where a client's share of the slots is limited, the next one depends on which sequences ended
 * before: the scheduler asserts that no client is admitted beyond its share, and here the counts
 * are checked. */
static void note_admissions(const struct queue_list *l)
{
    while (world.admissions < sched()->n_admissions) {
        struct caller *x = admitted_as(l, ++world.admissions);

        CHECK(x != NULL && !x->is_admitted);
        x->is_admitted = true;
        totals.n_admissions++;
    }
    for (const struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && c->request->seq.client != NULL)
            world.key_dues[c->key] = c->request->seq.client->fair_queue.n_due_total;
}

/* The requests that the step admitted must be the first in the order of the rule. */
static void check_admissions(int64_t n_before)
{
    struct queue_list l = {.n = 0};

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && has_waited(c))
            l.at[l.n++] = c;
    if (sched()->limits.slot_share > 0) {
        note_admissions(&l);
        return;
    }
    sort_by_arrival(l.at, l.n);
    forget_passes(&l);
    for (int64_t k = n_before + 1; k <= sched()->n_admissions; k++) {
        struct caller *x = next_of(&l);
        int at = 0;

        CHECK(x != NULL && x->request->seq.admission == k);
        check_bound(&x->turn);
        check_bound(&world.key_turn[x->key]);
        pass_by(&l, x);
        pass_keys_by(&l, x);
        world.admissions++;
        world.key_admissions[x->key]++;
        totals.n_admissions++;
        while (l.at[at] != x)
            at++;
        memmove(l.at + at, l.at + at + 1, (size_t)(--l.n - at) * sizeof *l.at);
        x->turn = world.key_turn[x->key] = (struct turn){0};
        x->is_admitted = true;
    }
    forget_passes(&l);
}

/* ---- preemption ---- */

static bool is_kept(const struct caller *c)
{
    return c->n_preempted >= PREEMPTIONS_MAX;
}

/* a and b are of one key. */
static bool has_lower_priority(const struct caller *a, const struct caller *b)
{
    const struct seq *p = &a->request->seq, *q = &b->request->seq;

    if (is_kept(a) != is_kept(b))
        return is_kept(a);
    if (p->priority != q->priority && !is_kept(a))
        return p->priority < q->priority;
    return p->arrival < q->arrival;
}

/* How many sequences of its key were preempted after c, when a preemption happened: those that ran
 * before the turn and run after it, or were preempted. Those that began or ended in the turn may
 * have run then or not. */
static void find_rank(const struct caller *c, int *least, int *most)
{
    *least = *most = 0;
    for (const struct caller *i = world.caller; i < world.caller + LIVE_MAX; i++) {
        bool runs_still;

        if (i == c || i->request == NULL || !i->is_mine || i->key != c->key ||
            !(i->ran || i->is_admitted) || !has_lower_priority(i, c))
            continue;
        runs_still = i->request->seq.state != SEQ_ENDED && !i->is_admitted;
        *least += runs_still;
        ++*most;
    }
}

/* A key's second sequence is preempted before any key's first, whatever their priorities. */
static bool may_stay_before(const struct caller *a, const struct caller *b)
{
    int least, most, unused;

    if (a->key == b->key || is_kept(a) || is_kept(b))
        return has_lower_priority(a, b);
    find_rank(a, &least, &unused);
    find_rank(b, &unused, &most);
    return least < most || (least == most && a->request->seq.arrival < b->request->seq.arrival);
}

/* Sequences that kept their pages are before a preempted one in the preemption order. */
static void check_preempted(const struct caller *gone)
{
    for (const struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && c->ran && c->n_stored > 0 &&
            c->request->seq.n_preempted == c->n_preempted && sched()->limits.window_tokens > 1)
            CHECK(may_stay_before(c, gone));
}

static void check_giving_way(void)
{
    for (const struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine && c->request->seq.n_preempted > c->n_preempted)
            check_preempted(c);
}

/* ---- fairness ---- */

typedef int64_t user_counts[KEYS_MAX][USERS_MAX];

static void note_users(int64_t *served, const struct client_list *l)
{
    for (const struct client *i = l->first; i != NULL; i = i->after)
        served[i->key[0] == '\0' ? 0 : i->key[1] - '0'] = i->served;
}

static void note_list(int64_t *served, user_counts users, const struct client_list *l)
{
    for (const struct client *i = l->first; i != NULL; i = i->after) {
        served[key_named(i)] = i->served;
        note_users(users[key_named(i)], &i->live);
        note_users(users[key_named(i)], &i->idle);
    }
}

static void note_served(int64_t *served, user_counts users)
{
    note_list(served, users, &sched()->clients.root.live);
    note_list(served, users, &sched()->clients.root.idle);
}

static int64_t charge_of(struct caller *c)
{
    const struct seq *q = &c->request->seq;
    const int from = c->n_charged > q->n_cached ? c->n_charged : q->n_cached;
    const int end = c->n_stored_due > q->n_stored ? c->n_stored_due : q->n_stored;
    int64_t charge = 0;

    if (q->times.admit_ns == 0)
        return 0;
    for (int i = from; i < end; i++)
        charge += i < c->n_prompt ? SERVED_PREFILL : SERVED_DECODE;
    if (end > from)
        c->n_charged = end;
    return charge;
}

static void charge(int64_t *sum, int64_t units, bool is_known)
{
    *sum = is_known ? *sum + units : INT64_MIN / 2;
}

/* Every key and every user was charged for what it was given, once. Positions that a request
 * found in the cache after its preemption are not charged either. */
static void check_served(void)
{
    int64_t now[KEYS_MAX], least[KEYS_MAX] = {0};
    user_counts users, least_users = {{0}};

    memcpy(now, before.served, sizeof now);
    memcpy(users, before.user_served, sizeof users);
    note_served(now, users);
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        int was = c->n_charged;
        int64_t units;
        bool is_known;

        if (c->request == NULL || !c->is_mine)
            continue;
        units = charge_of(c);
        is_known = c->request->seq.n_preempted == 0 || c->n_charged <= was;
        charge(&least[c->key], units, is_known);
        charge(&least_users[c->key][c->user], units, is_known);
    }
    for (int k = 0; k < KEYS_MAX; k++) {
        CHECK(least[k] < 0 || now[k] - before.served[k] == least[k]);
        for (int u = 0; u < USERS_MAX; u++)
            CHECK(least_users[k][u] < 0 ||
                  users[k][u] - before.user_served[k][u] == least_users[k][u]);
    }
}

struct spread {
    int64_t most, least;
};

static void spread_over(struct spread *s, int64_t served)
{
    s->most = s->least == INT64_MAX || served > s->most ? served : s->most;
    s->least = served < s->least ? served : s->least;
}

/* The bound of docs/engine.md: between keys that wait, however many users they have and whatever
 * the priorities; and between the users of a key, where only fairness decides. Preempted
 * sequences do not count. */
static void check_fair(void)
{
    const struct sched_limits *l = &sched()->limits;
    const int64_t bound = (int64_t)l->n_seqs_max * SERVED_DECODE * l->context_tokens_max;
    struct spread keys = {0, INT64_MAX}, users[KEYS_MAX];

    for (int k = 0; k < KEYS_MAX; k++)
        users[k] = keys;
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (waits(c) && c->request->seq.n_preempted == 0) {
            spread_over(&keys, c->request->seq.client->served);
            spread_over(&users[c->key], c->request->seq.user->served);
        }
    CHECK(world.dues > 0 || keys.most - keys.least <= bound || keys.least == INT64_MAX ||
          l->slot_share > 0); /* a key that has its share of the slots may fall behind */
    for (int k = 0; k < KEYS_MAX && world.odds.same_priority; k++)
        CHECK(world.key_dues[k] > 0 || users[k].most - users[k].least <= bound ||
              users[k].least == INT64_MAX);
}

/* Guesses that are not read yet are of requests that are in the engine. */
static void check_open_guesses(void)
{
    const struct engine_drafts *d = &world.engine->drafts;

    if (world.is_broken || d->model == NULL || draft_model_open_ticket(d->model) == 0)
        return;
    for (int i = 0; i < d->n_requests; i++) {
        bool is_here = d->requests[i].q == NULL;

        for (struct caller *c = world.caller; c < world.caller + LIVE_MAX && !is_here; c++)
            is_here = c->request != NULL && c->is_mine && d->requests[i].q == &c->request->seq;
        CHECK(is_here);
    }
}

/* ---- the three checks ---- */

/* A canceled or late request has left, or leaves when the step in flight ends: within one step, in
 * any state. */
static void check_leaves(const struct caller *c)
{
    const bool is_late = c->deadline_ns != 0 && sim_now_ns >= c->deadline_ns;
    const struct seq *q = &c->request->seq;

    if (!c->is_mine || (!c->is_canceled && !is_late))
        return;
    CHECK(q->is_in_flight && q->end_pending != SEQ_END_NONE);
    CHECK(world.odds.is_async);
    totals.n_left++;
}

/* After the inbox, before the step: a request that was just removed is not the engine's any
 * more. */
void check_before_step(void)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->request->drafts.is_decided && !c->request->drafts.is_followed)
            world.has_unfollowed = true;
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine) {
            check_caller(c);
            check_leaves(c);
        }
    check_open_guesses();
    check_counts();
    check_fair();
    memset(before.served, 0, sizeof before.served);
    memset(before.user_served, 0, sizeof before.user_served);
    note_served(before.served, before.user_served);
    memcpy(in_order.served, before.served, sizeof in_order.served);
    memcpy(in_order.user_served, before.user_served, sizeof in_order.user_served);
    before.n_steps = sched()->n_steps;
    before.was_under_way = world.is_in_flight;
}

/* One step ends in every iteration with work; where no step was in flight and steps may overlap,
 * one begins instead. */
static void check_progress(bool had_work)
{
    const int64_t n = sched()->n_steps - before.n_steps;

    CHECK(world.is_in_flight == (sched()->in_flight != NULL));
    if (world.is_broken || !had_work)
        return;
    if (world.odds.is_async && !before.was_under_way)
        CHECK(n == 0 && world.is_in_flight);
    else
        CHECK(n == 1);
    CHECK(!world.is_in_flight || world.odds.is_async);
    CHECK(world.is_in_flight || !world.odds.is_async || sched_any(sched()) == NULL);
}

void check_accepted(const struct caller *c, int n)
{
    in_order.served[c->key] += (int64_t)SERVED_DECODE * n;
    in_order.user_served[c->key][c->user] += (int64_t)SERVED_DECODE * n;
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
    check_open_guesses();
    check_counts();
    check_pages();
}

void check_at_end(void)
{
    const struct sched *s = sched();

    CHECK(s->n_running == 0 && s->n_waiting == 0);
    CHECK(s->clients.root.live.n == 0 && s->clients.root.n_waiting == 0);
    check_pages();
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        CHECK(s->pages[g].n_free + s->pages[g].n_idle == s->pages[g].n_pages);
        CHECK(s->host[g].n_free == s->host[g].n_pages);
    }
    totals.n_preemptions += s->n_preemptions;
    totals.n_swapped += s->n_swapped_pages;
    totals.n_again += s->n_recomputed;
    totals.n_cached += s->n_cached_tokens;
    totals.n_ahead += s->n_planned_ahead;
    totals.n_sent += s->n_sent;
    totals.n_wasted_rows += s->n_wasted_rows;
    totals.n_drafts += s->n_draft_rows;
    totals.n_accepted += s->n_accepted;
}
