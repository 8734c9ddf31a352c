/* How many rows of the next step each sequence has: one of who generates, and of prompts what the rest of the step has
 * room and time for. */
#include "engine/sched/sched_rows.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Whether the lists of q's draw fit beside those that `counts` has; then they are counted. Lists are longer than a
 * step's room only where there are very many of them: then those who were admitted last wait for a later step. */
static bool lists_fit(const struct sched *s, const struct seq *q, struct batch_counts *counts)
{
    const struct batch_counts *max = &s->limits.lists;
    struct batch_counts with = *counts;

    draw_lists_count(&q->lists, seq_n_known(q) - q->n_prompt, &with);
    with.n_seen += q->is_awaited && q->lists.seen != NULL; /* it may be a new one */
    if (with.n_seen > max->n_seen || with.n_biases > max->n_biases ||
        with.n_mask_words > max->n_mask_words)
        return false;
    *counts = with;
    return true;
}

static int prompt_rows_left(const struct seq *q)
{
    return q->leaving != SEQ_END_NONE ? 0 : q->n_prompt - q->n_stored - q->n_rows;
}

/* Rows of prompts that a step gives: n_rows in all; and n_spare rows of logits, beyond the one that every sequence
 * has for its draw, for prompts that are scored. */
struct giving {
    int n_rows, n_spare;
};

/* Rows that q can have on top of those that it has. A prompt that is scored needs a row of logits for each. */
static int rows_open(const struct giving *g, const struct seq *q)
{
    const int n = min_int(prompt_rows_left(q), g->n_rows);

    if (!q->is_scored)
        return n;
    if (q->n_rows < seq_n_untold(q))
        return min_int(n, seq_n_untold(q) - q->n_rows);
    return min_int(n, g->n_spare + (q->n_rows == 0));
}

static void give(struct giving *g, struct seq *q, int n)
{
    if (q->is_scored && q->n_rows >= seq_n_untold(q))
        g->n_spare -= n - (q->n_rows == 0);
    q->n_rows += n;
    g->n_rows -= n;
}

/* Whether it can have a row behind the last token that it has or will have. */
static bool goes_on(const struct seq *q)
{
    return q->leaving == SEQ_END_NONE && !q->needs_mask && seq_n_known(q) < q->n_tokens_max;
}

/* Rows of prompts that the step can take beside n_generated others. */
static int prompt_rows_max(const struct sched *s, int n_generated)
{
    int n_free = s->limits.n_batch_tokens_max - n_generated, n;
    double limit_ns = STEP_PROTECTED_NS, alone_ns;

    if (n_generated == 0)
        return n_free;
    alone_ns = step_cost_predict(&s->cost, n_generated, 0);
    if (alone_ns == 0)
        return n_free; /* no step without prompts has run: what a step costs at least is not known */
    if (alone_ns * STEP_PROTECTED_FACTOR > limit_ns)
        limit_ns = alone_ns * STEP_PROTECTED_FACTOR;
    n = step_cost_prompt_rows(&s->cost, n_generated, n_free, limit_ns);
    return n < PROMPT_ROWS_MIN ? min_int(PROMPT_ROWS_MIN, n_free) : n;
}

/* Of two of one client. */
static bool own_prompt_goes_before(const struct seq *a, const struct seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->user->served != b->user->served)
        return a->user->served < b->user->served;
    return a->arrival < b->arrival;
}

/* The client whose prompt comes first: of those with rows left the one that was served least, of
 * equals the one with the oldest of them; NULL: none has. */
static const struct client *next_client(const struct sched *s, const struct giving *g)
{
    const struct seq *best = NULL;

    for (int i = 0; i < s->n_running; i++) {
        const struct seq *q = s->running[i];

        if (rows_open(g, q) > 0 &&
            (best == NULL || q->client->served < best->client->served ||
             (q->client->served == best->client->served && q->arrival < best->arrival)))
            best = q;
    }
    return best != NULL ? best->client : NULL;
}

static struct seq *next_prompt(const struct sched *s, const struct giving *g)
{
    const struct client *client = next_client(s, g);
    struct seq *best = NULL;

    for (int i = 0; i < s->n_running && client != NULL; i++) {
        struct seq *q = s->running[i];

        if (q->client == client && rows_open(g, q) > 0 &&
            (best == NULL || own_prompt_goes_before(q, best)))
            best = q;
    }
    return best;
}

/* The first in the list with rows of a prompt left has its part of n_part whatever comes. */
static void give_first(struct giving *g, struct seq *const *list, int n, int n_part)
{
    for (int i = 0; i < n; i++) {
        int n_open = rows_open(g, list[i]);

        if (n_open <= 0)
            continue;
        give(g, list[i], min_int(n_part, n_open));
        return;
    }
}

static void give_prompts(struct sched *s, int n_rows)
{
    int n_part = n_rows / OLDEST_PROMPT_PART > 0 ? n_rows / OLDEST_PROMPT_PART : 1;
    struct giving g = {.n_rows = n_rows, .n_spare = s->limits.n_seqs_max - s->n_order};
    struct seq *q;

    give_first(&g, s->order, s->n_order, n_part);     /* who stays last: see pages_cover */
    give_first(&g, s->running, s->n_running, n_part); /* who was admitted first */
    while ((q = next_prompt(s, &g)) != NULL)
        give(&g, q, rows_open(&g, q));
}

/* Each row that is told of has a list of one bias: see sched_batch.c. */
static void check_told_lists(const struct sched *s, struct seq *q, struct batch_counts *lists)
{
    const int n_told = seq_n_told(q), n_room = s->limits.lists.n_biases - lists->n_biases;

    if (n_told > n_room)
        q->n_rows -= n_told - n_room + (prompt_rows_left(q) == 0);
    lists->n_biases += min_int(n_told, n_room);
}

/* A prompt whose end is in this step draws, too. */
static void check_prompt_lists(struct sched *s, struct batch_counts *lists)
{
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];

        if (seq_is_generating(q) || q->n_rows == 0)
            continue;
        check_told_lists(s, q, lists);
        if (q->n_rows > 0 && prompt_rows_left(q) == 0 && !lists_fit(s, q, lists))
            q->n_rows--;
    }
}

void rows_give(struct sched *s)
{
    struct batch_counts lists = {0};
    int n_generated = 0;

    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];

        q->n_rows = seq_is_generating(q) && goes_on(q) && lists_fit(s, q, &lists);
        n_generated += q->n_rows;
    }
    give_prompts(s, prompt_rows_max(s, n_generated));
    check_prompt_lists(s, &lists);
}
