/* How many rows of the next step each sequence has: one for each decoding sequence, and for prompts
 * what the step's row and time budget leave; or, where steps do not mix both, either of them. */
#include "engine/sched/sched_budget.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* True, and counted, when the sampling lists of q fit into the batch beside those in `counts`. Only
 * very many long lists do not fit; then the sequences admitted last wait for a later step. */
static bool lists_fit(const struct sched *s, const struct seq *q, struct batch_counts *counts)
{
    const struct batch_counts *max = &s->limits.lists;
    struct batch_counts with = *counts;

    sampling_state_count(&q->lists, seq_n_known(q) - q->n_prompt, &with);
    with.n_seen += q->is_token_pending && q->lists.seen != NULL; /* its id may be new */
    if (with.n_seen > max->n_seen || with.n_biases > max->n_biases ||
        with.n_mask_words > max->n_mask_words)
        return false;
    *counts = with;
    return true;
}

static int prefill_rows_left(const struct seq *q)
{
    return q->end_pending != SEQ_END_NONE ? 0 : q->n_prompt - q->n_stored - q->n_rows;
}

/* Prefill rows left in the step: n_rows; and n_spare rows of logits for prompt_logprobs, beyond the
 * one that every sequence has for its sample. */
struct row_budget {
    int n_rows, n_spare;
};

/* Rows that q can have in addition. With prompt_logprobs each row needs a row of logits. */
static int prefill_rows_allowed(const struct row_budget *g, const struct seq *q)
{
    const int n = min_int(prefill_rows_left(q), g->n_rows);

    if (!q->has_prompt_logprobs)
        return n;
    if (q->n_rows < seq_n_logprobs_done(q))
        return min_int(n, seq_n_logprobs_done(q) - q->n_rows);
    return min_int(n, g->n_spare + (q->n_rows == 0));
}

static void assign_rows(struct row_budget *g, struct seq *q, int n)
{
    if (q->has_prompt_logprobs && q->n_rows >= seq_n_logprobs_done(q))
        g->n_spare -= n - (q->n_rows == 0);
    q->n_rows += n;
    g->n_rows -= n;
}

/* True when q can have a decode row for its last token, known or pending. */
static bool can_continue(const struct seq *q)
{
    return q->end_pending == SEQ_END_NONE && !q->needs_mask && seq_n_known(q) < q->n_tokens_max;
}

/* Prefill rows of a step without decode rows. */
static int prefill_rows_alone(const struct sched *s, int n_free)
{
    const int n = step_time_prefill_rows(&s->step_time, 0, n_free, STEP_ALONE_TARGET_NS);
    const int n_least = n_free / PREFILL_ALONE_PART > PREFILL_ROWS_MIN
                            ? n_free / PREFILL_ALONE_PART
                            : min_int(PREFILL_ROWS_MIN, n_free);

    return n < n_least ? n_least : n;
}

/* The longest time between two tokens, if the decode rows alone take that. */
static double target_ns(const struct sched *s, double alone_ns)
{
    if (s->limits.target_itl_ns > 0)
        return s->limits.target_itl_ns;
    return alone_ns * STEP_TARGET_FACTOR > STEP_TARGET_NS ? alone_ns * STEP_TARGET_FACTOR
                                                          : STEP_TARGET_NS;
}

/* target_ns() while n_prompts wait: it grows by the ratio of these to the decode rows. A burst of
 * prompts gets larger steps, whose requests decode together sooner. */
static double burst_target_ns(const struct sched *s, double alone_ns, int n_decode_rows,
                              int n_prompts)
{
    const double ns = target_ns(s, alone_ns);
    const double burst_ns = ns * (1 + n_prompts / (double)n_decode_rows);

    if (!s->limits.has_prefill_bursts || s->limits.target_itl_ns > 0 || ns > STEP_BURST_TARGET_NS)
        return ns;
    return burst_ns < STEP_BURST_TARGET_NS ? burst_ns : STEP_BURST_TARGET_NS;
}

/* Running sequences whose prompts are not computed yet, and the rows that are left of them. */
struct prefill_backlog {
    int n_prompts;
    int64_t n_rows;
};

static struct prefill_backlog prefill_backlog(const struct sched *s)
{
    struct prefill_backlog waiting = {0};

    for (int i = 0; i < s->n_preempt_order; i++) {
        const struct seq *q = s->preempt_order[i];

        if (seq_is_decoding(q) || prefill_rows_left(q) == 0)
            continue;
        waiting.n_prompts++;
        waiting.n_rows += prefill_rows_left(q);
    }
    return waiting;
}

/* Prompts wait for others to fill a step with them. */
static bool are_prompts_held(const struct sched *s)
{
    return s->limits.has_prefill_bursts && s->limits.n_held_seqs > 0 &&
           s->limits.n_seqs_max >= s->limits.n_held_seqs && s->n_running == s->limits.n_seqs_max &&
           s->n_held < PREFILL_HELD_STEPS;
}

/* Prefill rows of a step that also has the n_decode_rows, if there are any; 0 if prompts are
 * held. */
static int prefill_rows_max(struct sched *s, int n_decode_rows)
{
    const struct prefill_backlog waiting = prefill_backlog(s);
    const int n_free = s->limits.n_batch_tokens_max - n_decode_rows;
    double alone_ns;
    int n;

    if (n_decode_rows == 0)
        return prefill_rows_alone(s, n_free);
    alone_ns = step_time_predict_ns(&s->step_time, n_decode_rows, 0);
    if (alone_ns == 0)
        return n_free; /* no step without prefill rows has run: what it takes is unknown */
    n = step_time_prefill_rows(&s->step_time, n_decode_rows, n_free,
                               burst_target_ns(s, alone_ns, n_decode_rows, waiting.n_prompts));
    n = n < PREFILL_ROWS_MIN ? min_int(PREFILL_ROWS_MIN, n_free) : n;
    s->plan->has_held = waiting.n_rows > 0 && n > waiting.n_rows && are_prompts_held(s);
    return s->plan->has_held ? 0 : n;
}

/* Prefill rows of a step before the n_decode_rows that wait: with the prefill steps since the last
 * decode rows it takes what a step of both could take. A second one must hold all prefill rows that
 * wait: parts of prompts in small steps would take longer. 0: the decode rows are next. */
static int prefill_rows_before(const struct sched *s, int n_decode_rows,
                               const struct prefill_backlog *waiting)
{
    const int n_free = s->limits.n_batch_tokens_max;
    const double alone_ns = step_time_predict_ns(&s->step_time, n_decode_rows, 0);
    const double left_ns =
        burst_target_ns(s, alone_ns, n_decode_rows, waiting->n_prompts) - alone_ns - s->prefill_ns;
    int n;

    if (alone_ns == 0 || (s->prefill_ns > 0 && left_ns <= 0))
        return 0;
    n = step_time_prefill_rows(&s->step_time, 0, n_free, left_ns);
    if (s->prefill_ns > 0)
        return n < waiting->n_rows ? 0 : n;
    return n < PREFILL_ROWS_MIN ? min_int(PREFILL_ROWS_MIN, n_free) : n;
}

/* a and b are of one client. Of one user's prompts the one with the fewest rows left goes first: a
 * short prompt does not wait for a long one. The long one has the part of the prompt admitted first
 * meanwhile. */
static bool prompt_comes_before(const struct seq *a, const struct seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->user != b->user && a->user->served != b->user->served)
        return a->user->served < b->user->served;
    if (prefill_rows_left(a) != prefill_rows_left(b))
        return prefill_rows_left(a) < prefill_rows_left(b);
    return a->arrival < b->arrival;
}

/* The client whose prompt is next: among clients with prefill rows left the one served least, among
 * equals the one with the oldest such request; NULL: no client has any left. */
static const struct client *next_client(const struct sched *s, const struct row_budget *g)
{
    const struct seq *best = NULL;

    for (int i = 0; i < s->n_running; i++) {
        const struct seq *q = s->running[i];

        if (prefill_rows_allowed(g, q) > 0 &&
            (best == NULL || q->client->served < best->client->served ||
             (q->client->served == best->client->served && q->arrival < best->arrival)))
            best = q;
    }
    return best != NULL ? best->client : NULL;
}

static struct seq *next_prompt(const struct sched *s, const struct row_budget *g)
{
    const struct client *client = next_client(s, g);
    struct seq *best = NULL;

    for (int i = 0; i < s->n_running && client != NULL; i++) {
        struct seq *q = s->running[i];

        if (q->client == client && prefill_rows_allowed(g, q) > 0 &&
            (best == NULL || prompt_comes_before(q, best)))
            best = q;
    }
    return best;
}

/* The first sequence in the list with prefill rows left gets up to n_part rows. */
static void assign_first(struct row_budget *g, struct seq *const *list, int n, int n_part)
{
    for (int i = 0; i < n; i++) {
        int n_open = prefill_rows_allowed(g, list[i]);

        if (n_open <= 0)
            continue;
        assign_rows(g, list[i], min_int(n_part, n_open));
        return;
    }
}

static void assign_prefill(struct sched *s, int n_rows)
{
    int n_part = n_rows / OLDEST_PREFILL_PART > 0 ? n_rows / OLDEST_PREFILL_PART : 1;
    struct row_budget g = {.n_rows = n_rows, .n_spare = s->limits.n_seqs_max - s->n_preempt_order};
    struct seq *q;

    assign_first(&g, s->preempt_order, s->n_preempt_order,
                 n_part);                               /* preempted last: see pages_alloc_rows */
    assign_first(&g, s->running, s->n_running, n_part); /* admitted first */
    while ((q = next_prompt(s, &g)) != NULL)
        assign_rows(&g, q, prefill_rows_allowed(&g, q));
}

/* Each row with prompt_logprobs has a list of one bias: see sched_batch.c. */
static void check_logprobs_fit(const struct sched *s, struct seq *q, struct batch_counts *lists)
{
    const int n_prompt_logprobs = seq_n_logprobs(q),
              n_room = s->limits.lists.n_biases - lists->n_biases;

    if (n_prompt_logprobs > n_room)
        q->n_rows -= n_prompt_logprobs - n_room + (prefill_rows_left(q) == 0);
    lists->n_biases += min_int(n_prompt_logprobs, n_room);
}

/* A prompt that ends in this step is sampled, too, and its lists must fit. */
static void check_prompt_lists(struct sched *s, struct batch_counts *lists)
{
    for (int i = 0; i < s->n_preempt_order; i++) {
        struct seq *q = s->preempt_order[i];

        if (seq_is_decoding(q) || q->n_rows == 0)
            continue;
        check_logprobs_fit(s, q, lists);
        if (q->n_rows > 0 && prefill_rows_left(q) == 0 && !lists_fit(s, q, lists))
            q->n_rows--;
    }
}

/* ---- drafts ---- */

/* True, and counted, when the lists of one more draft of q fit. */
static bool draft_lists_fit(const struct sched *s, const struct seq *q, int n_drafts,
                            struct batch_counts *counts)
{
    const struct batch_counts *max = &s->limits.lists;
    struct batch_counts with = *counts;

    sampling_state_count_after(&q->lists, q->n_tokens - q->n_prompt,
                               draft_depth(q->draft_parents, n_drafts - 1), &with);
    if (with.n_seen > max->n_seen || with.n_biases > max->n_biases)
        return false;
    *counts = with;
    return true;
}

/* Rows that drafts can have beside the decode rows: every running sequence keeps a row, and prompts
 * keep half of what is left. */
static int draft_rows_max(const struct sched *s, int n_decode_rows)
{
    const int n_free = s->limits.n_batch_tokens_max - s->n_preempt_order;
    const bool has_prompts = n_decode_rows < s->n_preempt_order;

    return min_int(s->limits.n_draft_rows_max, has_prompts ? n_free / 2 : n_free);
}

/* Drafts are verified only in a step that is planned when all tokens are known. */
static int assign_drafts(struct sched *s, int n_decode_rows, struct batch_counts *lists)
{
    int n_left = s->in_flight == NULL ? draft_rows_max(s, n_decode_rows) : 0, n_all = 0;

    for (int i = 0; i < s->n_preempt_order; i++) {
        struct seq *q = s->preempt_order[i];
        const int n_most = min_int(q->n_drafts, n_left);

        q->n_draft_rows = 0;
        if (!seq_is_decoding(q) || q->n_rows == 0)
            continue;
        while (q->n_draft_rows < n_most && draft_lists_fit(s, q, q->n_draft_rows + 1, lists))
            q->n_draft_rows++;
        n_left -= q->n_draft_rows;
        n_all += q->n_draft_rows;
    }
    return n_all;
}

/* Returns the number of decode rows. */
static int assign_decode(struct sched *s, struct batch_counts *lists)
{
    int n = 0;

    for (int i = 0; i < s->n_preempt_order; i++) {
        struct seq *q = s->preempt_order[i];

        q->n_rows = seq_is_decoding(q) && can_continue(q) && lists_fit(s, q, lists);
        n += q->n_rows;
    }
    return n;
}

/* Prefill rows of a step without the n_decode_rows that wait, whose sequences then get none; 0: the
 * step has them. */
static int assign_apart(struct sched *s, int n_decode_rows)
{
    const struct prefill_backlog waiting = prefill_backlog(s);
    int n;

    if (n_decode_rows == 0 || !s->limits.has_steps_apart || waiting.n_rows == 0)
        return 0;
    n = prefill_rows_before(s, n_decode_rows, &waiting);
    s->plan->has_held = n > waiting.n_rows && are_prompts_held(s);
    if (s->plan->has_held)
        return 0;
    for (int i = 0; i < s->n_preempt_order && n > 0; i++)
        s->preempt_order[i]->n_rows = s->preempt_order[i]->n_draft_rows = 0;
    return n;
}

void budget_assign_decode(struct sched *s)
{
    struct batch_counts lists = {0};

    (void)assign_drafts(s, assign_decode(s, &lists), &lists);
}

void budget_assign(struct sched *s)
{
    struct batch_counts lists = {0};
    const int n_decode_rows = assign_decode(s, &lists), n_apart = assign_apart(s, n_decode_rows);
    int n_draft_rows;

    if (n_apart > 0) {
        lists = (struct batch_counts){0};
        assign_prefill(s, n_apart);
    } else {
        n_draft_rows = assign_drafts(s, n_decode_rows, &lists);
        if (n_decode_rows == 0 || !s->limits.has_steps_apart)
            assign_prefill(s, prefill_rows_max(s, n_decode_rows + n_draft_rows));
    }
    check_prompt_lists(s, &lists);
}
