/* The queue: the client served least; among its requests by priority, then the user served least,
 * then arrival; and the bounds on bypasses. */
#include "engine/sched/sched_queue.h"

#include <assert.h>

int64_t sched_bypass_bound(const struct sched_limits *l, const struct bypass *p)
{
    /* Those due before it each go first once. Between two of them, at most one other does. */
    return p->due == 0 ? l->bypass_max : l->bypass_max + 2 * ((int64_t)p->n_due_before + 1);
}

/* ---- insert and remove ---- */

void queue_insert(struct sched *s, struct seq *q)
{
    struct seq *before = s->last_waiting;

    while (before != NULL && before->arrival > q->arrival)
        before = before->before;
    q->before = before;
    q->after = before != NULL ? before->after : s->first_waiting;
    if (q->after != NULL)
        q->after->before = q;
    else
        s->last_waiting = q;
    if (before != NULL)
        before->after = q;
    else
        s->first_waiting = q;
    s->n_waiting++;
    q->bypass = (struct bypass){0};
    client_request_queued(q->user, q->n_preempted == 0);
}

static void stop_counting(struct fair_queue *fair_queue, struct bypass *p)
{
    fair_queue->n_due -= p->due > 0;
    *p = (struct bypass){0};
}

void queue_unlink(struct sched *s, struct seq *q)
{
    if (q->before != NULL)
        q->before->after = q->after;
    else
        s->first_waiting = q->after;
    if (q->after != NULL)
        q->after->before = q->before;
    else
        s->last_waiting = q->before;
    q->before = q->after = NULL;
    s->n_waiting--;
    stop_counting(&q->client->fair_queue, &q->bypass);
    client_request_dequeued(q->user, q->n_preempted == 0);
    if (q->client->n_waiting == 0)
        stop_counting(&s->clients.root.fair_queue, &q->client->bypass);
}

/* ---- selection ---- */

static bool is_for_due(const struct fair_queue *l)
{
    return l->n_due > 0 && l->n_admissions % 2 == 0;
}

/* True when the client has its share of the slots: the free ones are for clients with fewer. */
static bool has_its_share(const struct sched *s, const struct client *client)
{
    const int64_t n_left = s->limits.n_seqs_max - s->n_running;

    return s->limits.slot_share > 0 && client->n_running >= s->limits.slot_share * n_left;
}

/* The client whose turn it is because it is due; NULL: the turn is not theirs. The turns of due
 * clients cannot follow a count of all admissions: in every turn of theirs a client might just have
 * its share of the slots. */
static const struct client *first_due_client(const struct sched *s)
{
    const struct client *first = NULL;
    bool is_owed = false;

    for (const struct client *i = s->clients.root.live.first; i != NULL; i = i->after)
        if (i->bypass.due > 0 && !has_its_share(s, i)) {
            is_owed = is_owed || i->bypass.is_owed;
            if (first == NULL || i->bypass.due < first->bypass.due)
                first = i;
        }
    return is_owed ? first : NULL;
}

/* The client served least, among equals the one with the oldest request; NULL: every waiting client
 * has its share of the slots. */
static const struct client *next_client(const struct sched *s)
{
    const struct client *best = first_due_client(s);

    if (best != NULL)
        return best;
    for (const struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (!has_its_share(s, q->client) && (best == NULL || q->client->served < best->served))
            best = q->client;
    return best;
}

/* a and b are of one client. */
static bool goes_before(const struct seq *a, const struct seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if ((a->n_preempted > 0) != (b->n_preempted > 0))
        return a->n_preempted > 0; /* a preempted request resumes first */
    if (a->user->served != b->user->served)
        return a->user->served < b->user->served;
    return a->arrival < b->arrival;
}

static bool is_due_before(const struct seq *a, const struct seq *b)
{
    return a->bypass.due > 0 && (b->bypass.due == 0 || a->bypass.due < b->bypass.due);
}

struct seq *queue_next(const struct sched *s)
{
    const struct client *client;
    struct seq *best = NULL;
    bool by_due;

    if (s->first_waiting == NULL)
        return NULL;
    client = next_client(s);
    if (client == NULL)
        return NULL;
    by_due = is_for_due(&client->fair_queue);
    for (struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (q->client == client &&
            (best == NULL || (by_due ? is_due_before(q, best) : goes_before(q, best))))
            best = q;
    return best;
}

/* ---- admission ---- */

static void count_bypass(struct fair_queue *fair_queue, struct bypass *p, int n_max)
{
    if (++p->n != n_max)
        return;
    p->due = ++fair_queue->n_due_total;
    p->n_due_before = fair_queue->n_due++;
}

/* The client is bypassed by another one, once an admission, and not while it has its share of the
 * slots. */
static void bypass_client(struct sched *s, struct client *client, const struct client *by)
{
    if (client->bypassed_at == s->n_admissions || has_its_share(s, client) || client->bypass.n == 2)
        return;
    client->bypassed_at = s->n_admissions;
    client->bypass.is_owed =
        client->bypass.due == 0 || by->bypass.due == 0 || by->bypass.due > client->bypass.due;
    count_bypass(&s->clients.root.fair_queue, &client->bypass, s->limits.bypass_max);
}

/* Counts a bypass for older requests of q's client, and for the other waiting clients. */
static void bypass_others(struct sched *s, const struct seq *q)
{
    for (struct seq *i = s->first_waiting; i != NULL; i = i->after)
        if (i->client != q->client)
            bypass_client(s, i->client, q->client);
        else if (i->arrival < q->arrival)
            count_bypass(&q->client->fair_queue, &i->bypass, s->limits.bypass_max);
}

void queue_admit(struct sched *s, struct seq *q)
{
    struct client *client = q->client;

    assert(q->bypass.n <= sched_bypass_bound(&s->limits, &q->bypass));
    assert(client->bypass.n <= sched_bypass_bound(&s->limits, &client->bypass));
    assert(!has_its_share(s, client));
    q->admission = ++s->n_admissions;
    bypass_others(s, q);
    stop_counting(&s->clients.root.fair_queue, &client->bypass);
    client_admitted(q->user);
    queue_unlink(s, q);
    client->fair_queue.n_admissions++;
}
