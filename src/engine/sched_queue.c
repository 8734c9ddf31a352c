/* The waiting line: priority, then the client that was served least, then arrival; and the bound. */
#include "engine/sched_queue.h"

#include <assert.h>

int64_t sched_passes_bound(const struct sched_limits *l, const struct seq *q)
{
    /* Every second place is for those who are due, in their order; both kinds may be later ones. */
    return q->due == 0 ? l->passes_max : l->passes_max + 2 * ((int64_t)q->n_due_before + 1);
}

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
    q->n_passed = 0;
    q->due = 0;
    q->client->n_waiting++;
    q->client->n_fresh += q->n_preempted == 0;
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
    s->n_due -= q->due > 0;
    assert(q->client->n_waiting > 0);
    q->client->n_waiting--;
    q->client->n_fresh -= q->n_preempted == 0;
}

static bool goes_before(const struct seq *a, const struct seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if ((a->n_preempted > 0) != (b->n_preempted > 0))
        return a->n_preempted > 0; /* what was begun is finished first */
    if (a->client->served != b->client->served)
        return a->client->served < b->client->served;
    return a->arrival < b->arrival;
}

static struct seq *first_due(const struct sched *s)
{
    struct seq *first = NULL;

    for (struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (q->due > 0 && (first == NULL || q->due < first->due))
            first = q;
    return first;
}

struct seq *queue_next(const struct sched *s)
{
    struct seq *best = s->first_waiting;

    if (s->n_due > 0 && s->n_admissions % 2 == 0)
        return first_due(s);
    for (struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (goes_before(q, best))
            best = q;
    return best;
}

static void pass(struct sched *s, struct seq *q)
{
    if (++q->n_passed != s->limits.passes_max)
        return;
    q->due = ++s->n_dues;
    q->n_due_before = s->n_due++;
}

void queue_admit(struct sched *s, struct seq *q)
{
    assert(q->n_passed <= sched_passes_bound(&s->limits, q));
    for (struct seq *i = s->first_waiting; i != q; i = i->after)
        pass(s, i);
    if (q->client->served > s->clients.last_served)
        s->clients.last_served = q->client->served;
    queue_unlink(s, q);
    q->admission = ++s->n_admissions;
}
