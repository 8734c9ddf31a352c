/* Admission, planning and commit. */
#include "engine/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sched_queue.h"

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int sched_window_pages(int window_tokens)
{
    /* The window of the next row reaches back window_tokens - 1 positions, which may begin anywhere
     * in a page; the rows of the step, beyond whole pages, may begin one more. */
    return pages_of_tokens(window_tokens > 2 ? window_tokens - 2 : 0) + 2;
}

int sched_chunk_pages(int n_batch_tokens_max)
{
    return n_batch_tokens_max / PAGE_TOKENS;
}

/* Pages promised to a sequence of n_tokens_max in its worst case. */
static void pages_needed(int out[N_PAGE_GROUPS], const struct sched_limits *l, int n_tokens_max)
{
    int n_all = pages_of_tokens(n_tokens_max);

    out[GROUP_FULL] = n_all;
    out[GROUP_WINDOW] = min_int(n_all, sched_window_pages(l->window_tokens));
}

/* Pages of a group that can be promised. */
static int pages_promisable(const struct sched_limits *l, enum page_group g)
{
    if (g == GROUP_FULL)
        return l->n_pages[g];
    return l->n_pages[g] - sched_chunk_pages(l->n_batch_tokens_max);
}

bool sched_can_fit(const struct sched_limits *l, int n_tokens_max)
{
    int need[N_PAGE_GROUPS];

    pages_needed(need, l, n_tokens_max);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (need[g] > pages_promisable(l, (enum page_group)g))
            return false;
    return true;
}

enum osp_status seq_init(struct seq *q, const struct sched_limits *l, const int32_t *prompt,
                         int n_prompt, int n_tokens_max)
{
    int n_all = pages_of_tokens(n_tokens_max);
    int n_window = sched_window_pages(l->window_tokens) + sched_chunk_pages(l->n_batch_tokens_max);
    enum osp_status st;

    assert(n_prompt > 0);
    assert(n_prompt < n_tokens_max);
    memset(q, 0, sizeof *q);
    TRY(mem_try_aligned(&q->tokens, (size_t)n_tokens_max, sizeof *q->tokens,
                        "tokens of a request"));
    TRY(page_list_init(&q->pages[GROUP_FULL], n_all));
    TRY(page_list_init(&q->pages[GROUP_WINDOW], min_int(n_all, n_window)));
    memcpy(q->tokens, prompt, (size_t)n_prompt * sizeof *prompt);
    q->n_prompt = n_prompt;
    q->n_tokens = n_prompt;
    q->n_tokens_max = n_tokens_max;
out:
    if (st != OSP_OK)
        seq_release(q);
    return st;
}

void seq_release(struct seq *q)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_release(&q->pages[g]);
    draw_lists_release(&q->lists);
    free(q->tokens);
    memset(q, 0, sizeof *q);
}

enum osp_status sched_init(struct sched *s, const struct sched_limits *l)
{
    enum osp_status st;

    assert(l->n_seqs_max > 0);
    assert(l->n_batch_tokens_max >= l->n_seqs_max);
    assert(l->passes_max > 0);
    memset(s, 0, sizeof *s);
    s->limits = *l;
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        TRY(pages_init(&s->pages[g], l->n_pages[g]));
    TRY(mem_try_array(&s->running, (size_t)l->n_seqs_max, sizeof(struct seq *), "running list"));
    TRY(mem_try_array(&s->plan.parts, (size_t)l->n_seqs_max, sizeof *s->plan.parts, "step plan"));
out:
    if (st != OSP_OK)
        sched_release(s);
    return st;
}

void sched_release(struct sched *s)
{
    assert(s->n_running == 0);
    assert(s->n_waiting == 0);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        pages_release(&s->pages[g]);
    clients_release(&s->clients);
    free(s->running);
    free(s->plan.parts);
    memset(s, 0, sizeof *s);
}

void sched_add(struct sched *s, struct seq *q)
{
    assert(q->state == SEQ_WAITING);
    assert(sched_can_fit(&s->limits, q->n_tokens_max));
    q->client = clients_join(&s->clients, q->client_key);
    q->arrival = ++s->n_arrivals;
    queue_insert(s, q);
}

static void running_unlink(struct sched *s, struct seq *q)
{
    int i = 0;

    while (i < s->n_running && s->running[i] != q)
        i++;
    assert(i < s->n_running);
    s->n_running--;
    memmove(s->running + i, s->running + i + 1, (size_t)(s->n_running - i) * sizeof(struct seq *));
}

static void promise(struct sched *s, const struct seq *q, int sign)
{
    int need[N_PAGE_GROUPS];

    pages_needed(need, &s->limits, q->n_tokens_max);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        s->n_promised[g] += sign * need[g];
}

static void seq_end(struct sched *s, struct seq *q, enum seq_end end)
{
    if (q->state == SEQ_RUNNING) {
        running_unlink(s, q);
        promise(s, q, -1);
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            page_list_drop(&q->pages[g], &s->pages[g]);
    } else {
        queue_unlink(s, q);
    }
    clients_leave(&s->clients, q->client);
    q->client = NULL;
    q->state = SEQ_ENDED;
    q->end = end;
    s->n_ended++;
}

void sched_remove(struct sched *s, struct seq *q, enum seq_end end)
{
    assert(q->state != SEQ_ENDED);
    seq_end(s, q, end);
}

struct seq *sched_any(const struct sched *s)
{
    return s->n_running > 0 ? s->running[0] : s->first_waiting;
}

static bool can_admit(const struct sched *s, const struct seq *q)
{
    int need[N_PAGE_GROUPS];

    if (s->n_running == s->limits.n_seqs_max)
        return false;
    pages_needed(need, &s->limits, q->n_tokens_max);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        if (s->n_promised[g] + need[g] > pages_promisable(&s->limits, (enum page_group)g))
            return false;
    return true;
}

static void admit(struct sched *s, uint64_t now_ns)
{
    struct seq *q;

    while ((q = queue_next(s)) != NULL && can_admit(s, q)) {
        queue_admit(s, q);
        promise(s, q, 1);
        q->state = SEQ_RUNNING;
        q->times.admit_ns = now_ns;
        s->running[s->n_running++] = q;
    }
}

struct seq *sched_expired(const struct sched *s, uint64_t now_ns)
{
    for (int i = 0; i < s->n_running; i++)
        if (s->running[i]->deadline_ns != 0 && s->running[i]->deadline_ns <= now_ns)
            return s->running[i];
    for (struct seq *q = s->first_waiting; q != NULL; q = q->after)
        if (q->deadline_ns != 0 && q->deadline_ns <= now_ns)
            return q;
    return NULL;
}

/* ---- the rows of a step ---- */

/* Whether the lists of q's draw fit beside those that `counts` has; then they are counted. Lists are longer than a
 * step's room only where there are very many of them: then those who were admitted last wait for a later step. */
static bool lists_fit(const struct sched *s, const struct seq *q, struct batch_counts *counts)
{
    const struct batch_counts *max = &s->limits.lists;
    struct batch_counts with = *counts;

    draw_lists_count(&q->lists, q->n_tokens - q->n_prompt, &with);
    if (with.n_seen > max->n_seen || with.n_biases > max->n_biases ||
        with.n_mask_words > max->n_mask_words)
        return false;
    *counts = with;
    return true;
}

static bool is_generating(const struct seq *q)
{
    return q->n_stored >= q->n_prompt;
}

static int prompt_rows_left(const struct seq *q)
{
    return q->n_prompt - q->n_stored - q->n_rows;
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

static bool prompt_goes_before(const struct seq *a, const struct seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->client->served != b->client->served)
        return a->client->served < b->client->served;
    return a->arrival < b->arrival;
}

/* Who of those with rows left comes first; NULL: none has. */
static struct seq *next_prompt(const struct sched *s)
{
    struct seq *best = NULL;

    for (int i = 0; i < s->n_running; i++) {
        struct seq *q = s->running[i];

        if (prompt_rows_left(q) > 0 && (best == NULL || prompt_goes_before(q, best)))
            best = q;
    }
    return best;
}

/* The prompt that was admitted first has its part of the rows whatever comes. */
static int give_oldest_prompt(struct sched *s, int n_rows)
{
    int n_part = n_rows / OLDEST_PROMPT_PART > 0 ? n_rows / OLDEST_PROMPT_PART : 1;

    for (int i = 0; i < s->n_running && n_rows > 0; i++) {
        struct seq *q = s->running[i];

        if (prompt_rows_left(q) <= 0)
            continue;
        q->n_rows = min_int(n_part, prompt_rows_left(q));
        return n_rows - q->n_rows;
    }
    return n_rows;
}

static void give_prompts(struct sched *s, int n_rows)
{
    struct seq *q;

    n_rows = give_oldest_prompt(s, n_rows);
    while (n_rows > 0 && (q = next_prompt(s)) != NULL) {
        int n = min_int(n_rows, prompt_rows_left(q));

        q->n_rows += n;
        n_rows -= n;
    }
}

/* A prompt whose end is in this step draws, too. */
static void check_prompt_lists(struct sched *s, struct batch_counts *lists)
{
    for (int i = 0; i < s->n_running; i++) {
        struct seq *q = s->running[i];

        if (!is_generating(q) && q->n_rows > 0 && prompt_rows_left(q) == 0 &&
            !lists_fit(s, q, lists))
            q->n_rows--;
    }
}

static void give_rows(struct sched *s)
{
    struct batch_counts lists = {0};
    int n_generated = 0;

    for (int i = 0; i < s->n_running; i++) {
        struct seq *q = s->running[i];

        q->n_rows = is_generating(q) && lists_fit(s, q, &lists);
        n_generated += q->n_rows;
    }
    give_prompts(s, prompt_rows_max(s, n_generated));
    check_prompt_lists(s, &lists);
}

static void plan_part(struct sched *s, struct seq *q)
{
    struct step_plan *plan = &s->plan;
    bool draws = q->n_stored + q->n_rows == q->n_tokens;

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        page_list_cover(&q->pages[g], &s->pages[g], q->n_stored + q->n_rows - 1);
        plan->n_pages += q->pages[g].n;
    }
    plan->parts[plan->n_parts++] =
        (struct step_part){.seq = q, .first = q->n_stored, .n_rows = q->n_rows, .draws = draws};
    plan->n_rows += q->n_rows;
    plan->n_prompt_rows += is_generating(q) ? 0 : q->n_rows;
    plan->n_draws += draws;
}

const struct step_plan *sched_plan(struct sched *s, uint64_t now_ns)
{
    struct step_plan *plan = &s->plan;

    admit(s, now_ns);
    give_rows(s);
    *plan = (struct step_plan){.parts = plan->parts, .begin_ns = now_ns};
    for (int i = 0; i < s->n_running; i++)
        if (is_generating(s->running[i]) && s->running[i]->n_rows > 0)
            plan_part(s, s->running[i]);
    for (int i = 0; i < s->n_running; i++)
        if (!is_generating(s->running[i]) && s->running[i]->n_rows > 0)
            plan_part(s, s->running[i]);
    return plan;
}

static bool is_among(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_stop(const struct sched_limits *l, const struct seq *q, int32_t token)
{
    return is_among(q->stop_ids, q->n_stop_ids, token) ||
           (!q->ignore_stop && is_among(l->stop_ids, l->n_stop_ids, token));
}

static void commit_token(struct sched *s, struct seq *q, int32_t token, uint64_t now_ns)
{
    if (token < 0) {
        q->failure = (enum draw_failure)token;
        seq_end(s, q, SEQ_END_FAILED);
        return;
    }
    q->tokens[q->n_tokens++] = token;
    draw_lists_note(&q->lists, token);
    if (q->times.first_token_ns == 0)
        q->times.first_token_ns = now_ns;
    q->times.last_token_ns = now_ns;
    s->n_generated_tokens++;
    if (is_stop(&s->limits, q, token))
        seq_end(s, q, SEQ_END_STOP);
    else if (q->n_tokens == q->n_tokens_max)
        seq_end(s, q, SEQ_END_LENGTH);
}

/* The window of the next row decides which pages of the sliding group are still needed. */
static void slide_window(struct sched *s, struct seq *q)
{
    page_list_slide(&q->pages[GROUP_WINDOW], &s->pages[GROUP_WINDOW],
                    q->n_stored - s->limits.window_tokens + 1);
}

void sched_commit(struct sched *s, const int32_t *tokens, uint64_t now_ns)
{
    const struct step_plan *plan = &s->plan;
    int n_drawn = 0;

    step_cost_learn(&s->cost, plan->n_rows - plan->n_prompt_rows, plan->n_prompt_rows,
                    (double)now_ns - (double)plan->begin_ns);
    for (int i = 0; i < s->plan.n_parts; i++) {
        const struct step_part *part = &s->plan.parts[i];
        struct seq *q = part->seq;

        if (part->first < q->n_prompt)
            s->n_prompt_tokens += part->n_rows;
        q->client->served +=
            part->n_rows * (part->first < q->n_prompt ? SERVED_PROMPT : SERVED_GENERATED);
        q->n_stored += part->n_rows;
        slide_window(s, q);
        if (part->draws)
            commit_token(s, q, tokens[n_drawn++], now_ns);
    }
    assert(n_drawn == s->plan.n_draws);
    s->n_steps++;
}
