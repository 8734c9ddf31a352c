/* The scheduler's policy, step by step; tests/sim_engine.c has the random runs. */
#include "unit.h"

#include <stdlib.h>

#include "engine/sched/sched_internal.h"

enum { STOP_ID = 9, PROMPT_MAX = 4096, SEQS_MAX = 4 };

struct fixture {
    struct sched *sched;
    struct sched_limits limits;
    struct seq seqs[SEQS_MAX];
    uint64_t now_ns;
};

static void fixture_open_with(struct fixture *f, int n_seqs_max, int n_batch_tokens_max,
                              int n_full_pages, int n_host_pages)
{
    struct sched_limits l = {
        .n_seqs_max = n_seqs_max,
        .n_batch_tokens_max = n_batch_tokens_max,
        .context_tokens_max = PROMPT_MAX,
        .window_tokens = 128,
        .n_host_pages = {n_host_pages, n_host_pages},
        .bypass_max = 3,
        .stop_ids = {STOP_ID},
        .n_stop_ids = 1,
    };

    memset(f, 0, sizeof *f);
    l.n_pages[GROUP_FULL] = n_full_pages;
    l.n_pages[GROUP_WINDOW] =
        n_seqs_max * sched_window_pages(128) + sched_chunk_pages(n_batch_tokens_max);
    assert_int_equal(sched_new(&f->sched, &l), OSP_OK);
    f->limits = l;
}

static void fixture_open(struct fixture *f, int n_seqs_max, int n_batch_tokens_max,
                         int n_full_pages)
{
    fixture_open_with(f, n_seqs_max, n_batch_tokens_max, n_full_pages, 0);
}

static void fixture_close(struct fixture *f)
{
    struct seq *q;

    while ((q = sched_any(f->sched)) != NULL)
        sched_remove(f->sched, q, SEQ_END_CANCELED);
    for (int i = 0; i < SEQS_MAX; i++)
        seq_release(&f->seqs[i]);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        assert_int_equal(sched_stats(f->sched).pages_used[g], 0);
    sched_free(f->sched);
}

static struct seq *add(struct fixture *f, int i, int n_prompt, int n_answer)
{
    static const int32_t prompt[PROMPT_MAX];

    assert_int_equal(seq_init(&f->seqs[i], &f->limits, prompt, n_prompt, n_prompt + n_answer),
                     OSP_OK);
    assert_int_equal(sched_add(f->sched, &f->seqs[i]), OSP_OK);
    return &f->seqs[i];
}

/* Plans and runs a step in which every sample is `token`. */
static struct step_plan run(struct fixture *f, int32_t token)
{
    int32_t tokens[SEQS_MAX];
    struct step_plan plan;

    for (int i = 0; i < SEQS_MAX; i++)
        tokens[i] = token;
    f->now_ns += 10;
    plan = *sched_plan(f->sched, f->now_ns);
    if (plan.n_chunks == 0)
        return plan;
    sched_begin(f->sched);
    sched_commit(f->sched, tokens, 5, f->now_ns + 5);
    return plan;
}

static void test_prompt_in_chunks_then_decode(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 2, 64, 10);
    q = add(&f, 0, 150, 3);
    assert_int_equal(run(&f, 1).n_rows, 64);
    assert_int_equal(sched_stats(f.sched).n_prompt_left, 86);
    assert_int_equal(run(&f, 1).n_rows, 64);
    assert_int_equal(q->n_tokens, 150);
    assert_int_equal(run(&f, 1).n_rows, 22);
    assert_int_equal(q->n_tokens, 151);
    assert_int_equal(run(&f, 1).n_rows, 1);
    assert_int_equal(q->state, SEQ_RUNNING);
    assert_int_equal(run(&f, 1).n_rows, 1);
    assert_int_equal(q->state, SEQ_ENDED);
    assert_int_equal(q->end, SEQ_END_LENGTH);
    assert_int_equal(sched_stats(f.sched).n_prompt_tokens, 150);
    assert_int_equal(sched_stats(f.sched).n_generated_tokens, 3);
    assert_int_equal(run(&f, 1).n_chunks, 0);
    fixture_close(&f);
}

static void test_decodes_go_before_prompts(void **state)
{
    struct fixture f;
    struct step_plan plan;

    (void)state;
    fixture_open(&f, 3, 32, 30);
    add(&f, 0, 5, 20);
    run(&f, 1);
    add(&f, 1, 100, 20);
    add(&f, 2, 100, 20);
    plan = run(&f, 1);
    assert_int_equal(plan.n_chunks, 2);
    assert_ptr_equal(plan.chunks[0].seq, &f.seqs[0]);
    assert_int_equal(plan.chunks[0].n_rows, 1);
    assert_ptr_equal(plan.chunks[1].seq, &f.seqs[1]);
    assert_int_equal(plan.chunks[1].n_rows, 31);
    assert_false(plan.chunks[1].is_sampled);
    fixture_close(&f);
}

static void test_admits_what_fits_in_order(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 4, 64, 8);
    add(&f, 0, 200, 100); /* 4 pages, and one to grow */
    add(&f, 1, 250, 100); /* as many, which are not free */
    add(&f, 2, 10, 10);   /* would fit, but came later */
    run(&f, 1);
    assert_int_equal(sched_stats(f.sched).n_running, 1);
    assert_int_equal(sched_stats(f.sched).n_waiting, 2);
    for (int i = 0; i < 4; i++)
        run(&f, STOP_ID);
    assert_int_equal(f.seqs[0].end, SEQ_END_STOP);
    run(&f, 1);
    assert_int_equal(f.seqs[1].state, SEQ_RUNNING); /* the first one's pages are only cached */
    assert_int_not_equal(f.seqs[2].state, SEQ_WAITING);
    fixture_close(&f);
}

static int count_moves(const struct step_plan *plan, enum move_kind kind)
{
    int n = 0;

    for (int i = 0; i < plan->n_moves; i++)
        n += plan->moves[i].kind == kind;
    return n;
}

/* Two grow until their pages run out: the younger one is preempted, its pages are swapped to host
 * memory and come back when the older one is done. */
static void test_younger_one_gives_way_and_comes_back(void **state)
{
    struct fixture f;
    struct step_plan plan;
    int n_out = 0, n_in = 0, n_stored = 0;

    (void)state;
    fixture_open_with(&f, 2, 64, 6, 16);
    add(&f, 0, 100, 200);
    add(&f, 1, 50, 200);
    f.seqs[0].is_uncached = f.seqs[1].is_uncached = true;
    for (int i = 0; i < 400 && f.seqs[0].state != SEQ_ENDED; i++) {
        plan = run(&f, 1);
        if (count_moves(&plan, MOVE_SWAP_OUT) > 0)
            n_stored = f.seqs[1].n_stored;
        n_out += count_moves(&plan, MOVE_SWAP_OUT);
    }
    assert_int_equal(f.seqs[0].n_preempted, 0);
    assert_int_equal(f.seqs[1].n_preempted, 1);
    assert_int_equal(f.seqs[1].state, SEQ_WAITING);
    assert_int_equal(sched_stats(f.sched).n_swapped_pages, n_out);
    plan = run(&f, 1);
    n_in = count_moves(&plan, MOVE_SWAP_IN);
    assert_int_equal(n_in, n_out);
    assert_int_equal(f.seqs[1].n_stored, n_stored + 1); /* it resumes where it was */
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        assert_int_equal(sched_stats(f.sched).host_pages_used[g], 0);
    for (int i = 0; i < 400 && f.seqs[1].state != SEQ_ENDED; i++)
        run(&f, 1);
    assert_int_equal(f.seqs[1].n_tokens, 250);
    fixture_close(&f);
}

/* Without host pages it is recomputed: its prompt as prefill, then its generated tokens as decode
 * rows, and no token is sampled until that is done. */
static void test_computes_again_in_the_same_arithmetic(void **state)
{
    struct fixture f;
    const struct step_plan *plan;
    int32_t tokens[SEQS_MAX] = {1, 1, 1, 1};
    int n_tokens;

    (void)state;
    fixture_open(&f, 2, 64, 6);
    add(&f, 0, 100, 200);
    add(&f, 1, 50, 200);
    f.seqs[0].is_uncached = f.seqs[1].is_uncached = true;
    for (int i = 0; i < 400 && f.seqs[0].state != SEQ_ENDED; i++)
        run(&f, 1);
    n_tokens = f.seqs[1].n_tokens;
    assert_int_equal(f.seqs[1].n_preempted, 1);
    assert_int_equal(f.seqs[1].n_stored, 0);
    assert_true(n_tokens > 51);
    assert_int_equal(run(&f, 1).n_prefill_rows, 50);
    for (int i = 50; i < n_tokens - 1; i++) {
        plan = sched_plan(f.sched, f.now_ns);
        assert_int_equal(plan->n_rows, 1);
        assert_int_equal(plan->n_prefill_rows, 0);
        assert_int_equal(plan->n_sampled, 0);
        sched_begin(f.sched);
        sched_commit(f.sched, tokens, 0, f.now_ns);
    }
    assert_int_equal(sched_stats(f.sched).n_recomputed, n_tokens - 1);
    assert_int_equal(run(&f, 1).n_sampled, 1);
    assert_int_equal(f.seqs[1].n_tokens, n_tokens + 1);
    fixture_close(&f);
}

/* Priority decides on preemption before age; but no sequence is preempted more than PREEMPTIONS_MAX
 * times. */
static void test_who_gives_way(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 64, 6);
    add(&f, 0, 100, 200)->priority = 1;
    add(&f, 1, 100, 200);
    f.seqs[0].is_uncached = f.seqs[1].is_uncached = true; /* or they share their prompts' pages */
    for (int i = 0; i < 200 && sched_stats(f.sched).n_preemptions == 0; i++)
        run(&f, 1);
    assert_int_equal(f.seqs[0].n_preempted, 1);
    sched_remove(f.sched, &f.seqs[1], SEQ_END_CANCELED);
    seq_release(&f.seqs[1]);
    f.seqs[0].n_preempted = PREEMPTIONS_MAX;
    run(&f, 1);
    add(&f, 1, 10, 200)->priority = -7;
    f.seqs[1].is_uncached = true;
    for (int i = 0; i < 200 && sched_stats(f.sched).n_preemptions == 1; i++)
        run(&f, 1);
    assert_int_equal(f.seqs[1].n_preempted, 1);
    fixture_close(&f);
}

static void test_window_pages_stay_few(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    q = add(&f, 0, 2000, 1000);
    while (q->state != SEQ_ENDED) {
        run(&f, 1);
        assert_true(q->pages[GROUP_WINDOW].n <= sched_window_pages(128));
    }
    assert_int_equal(q->n_tokens, 3000);
    fixture_close(&f);
}

static void test_failed_draw_ends_one(void **state)
{
    static const int32_t tokens[] = {-1, 4};
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 64, 64);
    add(&f, 0, 10, 10);
    add(&f, 1, 10, 10);
    sched_plan(f.sched, 1);
    sched_begin(f.sched);
    sched_commit(f.sched, tokens, 1, 2);
    assert_int_equal(f.seqs[0].end, SEQ_END_FAILED);
    assert_int_equal(f.seqs[0].n_tokens, 10);
    assert_int_equal(f.seqs[1].state, SEQ_RUNNING);
    assert_int_equal(f.seqs[1].tokens[10], 4);
    fixture_close(&f);
}

static void test_remove_waiting_and_running(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    for (int i = 0; i < 4; i++)
        add(&f, i, 10, 10);
    run(&f, 1);
    sched_remove(f.sched, &f.seqs[3], SEQ_END_CANCELED); /* the queue's end */
    sched_remove(f.sched, &f.seqs[1], SEQ_END_CANCELED); /* its head */
    sched_remove(f.sched, &f.seqs[0], SEQ_END_CANCELED); /* running */
    assert_int_equal(sched_stats(f.sched).n_waiting, 1);
    run(&f, 1);
    assert_int_equal(f.seqs[2].state, SEQ_RUNNING);
    assert_int_equal(f.seqs[0].end, SEQ_END_CANCELED);
    fixture_close(&f);
}

static void test_ignore_stop(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    q = add(&f, 0, 10, 3);
    q->ignore_stop = true;
    run(&f, STOP_ID);
    run(&f, STOP_ID);
    assert_int_equal(q->state, SEQ_RUNNING);
    run(&f, STOP_ID);
    assert_int_equal(q->end, SEQ_END_LENGTH);
    fixture_close(&f);
}

static void test_times_are_those_given(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    q = add(&f, 0, 100, 2);
    run(&f, 1); /* at 10: a chunk */
    run(&f, 1); /* at 20: the rest, first token at 25 */
    run(&f, 1); /* at 30: second token at 35 */
    assert_int_equal(q->times.admit_ns, 10);
    assert_int_equal(q->times.first_token_ns, 25);
    assert_int_equal(q->times.last_token_ns, 35);
    fixture_close(&f);
}

static struct seq *add_for(struct fixture *f, int i, int priority, const char *client)
{
    static const int32_t prompt[PROMPT_MAX];
    struct seq *q = &f->seqs[i];

    assert_int_equal(seq_init(q, &f->limits, prompt, 10, 12), OSP_OK);
    q->priority = priority;
    q->client_key = client;
    assert_int_equal(sched_add(f->sched, q), OSP_OK);
    return q;
}

/* Returns the index of the only running sequence. */
static int runs_alone(struct fixture *f)
{
    assert_int_equal(sched_stats(f->sched).n_running, 1);
    return (int)(sched_running(f->sched, 0) - f->seqs);
}

static void test_priority_goes_first(void **state)
{
    static const int preempt_order[] = {0, 3, 1, 2};
    struct fixture f;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    add_for(&f, 0, 0, NULL);
    run(&f, 1);
    add_for(&f, 1, 0, NULL);
    add_for(&f, 2, 5, NULL);
    add_for(&f, 3, -5, NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(runs_alone(&f), preempt_order[i]);
        run(&f, STOP_ID);
        if (i < 3)
            run(&f, 1);
    }
    fixture_close(&f);
}

/* One client asked three times before the other came, which has been served less. */
static void test_clients_are_served_alike(void **state)
{
    static const int preempt_order[] = {0, 3, 1, 2};
    struct fixture f;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    for (int i = 0; i < 3; i++)
        add_for(&f, i, 0, "many");
    run(&f, 1);
    add_for(&f, 3, 0, "few");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(runs_alone(&f), preempt_order[i]);
        run(&f, STOP_ID);
        if (i < 3)
            run(&f, 1);
    }
    fixture_close(&f);
}

static struct seq *add_long(struct fixture *f, int i, int n_prompt, int n_answer,
                            const char *client)
{
    static const int32_t prompt[PROMPT_MAX];
    struct seq *q = &f->seqs[i];

    assert_int_equal(seq_init(q, &f->limits, prompt, n_prompt, n_prompt + n_answer), OSP_OK);
    q->is_uncached = true;
    q->client_key = client;
    assert_int_equal(sched_add(f->sched, q), OSP_OK);
    return q;
}

/* While one client's only request runs, the other is served alone; then the first is preempted and
 * waits. Its next request has accumulated no credit: it begins with the count that the other had
 * when it was admitted. */
static void test_a_long_request_saves_nothing_up(void **state)
{
    struct fixture f;
    struct seq *q;
    int64_t served;

    (void)state;
    fixture_open(&f, 3, 128, 8);
    add_long(&f, 2, 20, 250, "other"); /* the older one: it is not preempted */
    q = add_long(&f, 0, 20, 250, "one");
    run(&f, 1);
    for (int i = 0; i < 8; i++) {
        add_long(&f, 1, 100, 1, "other");
        run(&f, STOP_ID + 1);
        assert_int_equal(f.seqs[1].state, SEQ_ENDED);
        seq_release(&f.seqs[1]);
    }
    served = f.sched->clients.root.last_served;
    for (int i = 0; i < 400 && q->n_preempted == 0; i++)
        run(&f, STOP_ID + 1);
    assert_int_equal(q->n_preempted, 1);
    assert_int_equal(q->state, SEQ_WAITING);
    assert_true(q->client->served < served);
    assert_int_equal(add_long(&f, 1, 10, 2, "one")->client->served, served);
    fixture_close(&f);
}

/* Requests of better priority keep coming before one of low priority: after three bypasses it has
 * every second admission. */
static void test_nobody_is_passed_for_ever(void **state)
{
    struct fixture f;
    int n_passed = 0;

    (void)state;
    fixture_open(&f, 1, 64, 64);
    add_for(&f, 0, 0, NULL);
    run(&f, 1);
    add_for(&f, 1, 9, NULL);
    for (int i = 2; f.seqs[1].state == SEQ_WAITING; i = 5 - i) {
        add_for(&f, i, 0, NULL);
        run(&f, STOP_ID); /* ends the running one */
        run(&f, 1);
        if (f.seqs[1].state == SEQ_WAITING)
            n_passed++;
        for (int k = 0; k < SEQS_MAX; k++)
            if (f.seqs[k].state == SEQ_ENDED)
                seq_release(&f.seqs[k]);
        assert_true(n_passed <= f.limits.bypass_max + 2);
    }
    assert_true(n_passed >= f.limits.bypass_max);
    fixture_close(&f);
}

static int rows_of(const struct step_plan *plan, const struct seq *q)
{
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].seq == q)
            return plan->chunks[i].n_rows;
    return 0;
}

/* A prompt that came later is computed at once, while a long one keeps the part of the prompt
 * admitted first, also when short ones keep coming. */
static void test_a_short_prompt_does_not_wait_for_a_long_one(void **state)
{
    struct fixture f;
    struct step_plan plan;

    (void)state;
    fixture_open(&f, 3, 64, 100);
    add(&f, 0, 1500, 5);
    assert_int_equal(run(&f, 1).n_rows, 64);
    add(&f, 1, 20, 5)->is_uncached = true;
    plan = run(&f, STOP_ID);
    assert_int_equal(rows_of(&plan, &f.seqs[1]), 20);
    assert_int_equal(rows_of(&plan, &f.seqs[0]), 44);
    for (int i = 0; f.seqs[0].n_stored < 1000; i++) {
        assert_in_range(i, 0, 1000 / (64 / OLDEST_PREFILL_PART));
        if (f.seqs[1].state == SEQ_ENDED) {
            seq_release(&f.seqs[1]);
            add(&f, 1, 64, 5)->is_uncached = true;
        }
        plan = run(&f, STOP_ID);
        assert_in_range(rows_of(&plan, &f.seqs[0]), 64 / OLDEST_PREFILL_PART, 64);
    }
    fixture_close(&f);
}

/* Runs steps whose prompt rows take so long each, and returns the rows of the next. */
static int rows_when_slow(struct fixture *f, uint64_t row_ns, int n_steps)
{
    int32_t tokens[SEQS_MAX] = {1, 1, 1, 1};
    const struct step_plan *plan;

    for (int i = 0; i < n_steps; i++) {
        plan = sched_plan(f->sched, f->now_ns);
        assert_true(plan->n_prefill_rows > 0);
        f->now_ns += (uint64_t)plan->n_prefill_rows * row_ns;
        sched_begin(f->sched);
        sched_commit(f->sched, tokens, (uint64_t)plan->n_prefill_rows * row_ns, f->now_ns);
    }
    return sched_plan(f->sched, f->now_ns)->n_prefill_rows;
}

/* A request that comes waits for the end of the step: prompts alone get what 300 ms allow, but no
 * less than PREFILL_ALONE_PART of the largest step. */
static void test_a_step_of_prompts_is_short(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 1000, 300);
    add(&f, 0, 4000, 5);
    assert_in_range(rows_when_slow(&f, 1000000, 3), 290, 300);
    assert_int_equal(rows_when_slow(&f, 50000000, 3), 1000 / PREFILL_ALONE_PART);
    fixture_close(&f);
}

/* Steps with 64 prefill rows take 640 ms, those without 1 ms: beside a decode row a step gets what
 * 100 ms allow, and without decode rows what 300 ms allow. */
static void test_prompts_leave_time_to_generate(void **state)
{
    struct fixture f;
    int32_t tokens[SEQS_MAX] = {1, 1, 1, 1};
    const struct step_plan *plan;
    uint64_t step_ns;

    (void)state;
    fixture_open(&f, 2, 1000, 200);
    add(&f, 0, 64, 100);
    for (int i = 0; i < 3; i++) {
        plan = sched_plan(f.sched, f.now_ns);
        step_ns = plan->n_prefill_rows > 0 ? 640000000 : 1000000;
        sched_begin(f.sched);
        sched_commit(f.sched, tokens, step_ns, f.now_ns += step_ns);
    }
    add(&f, 1, 4000, 10);
    plan = sched_plan(f.sched, f.now_ns);
    assert_int_equal(plan->n_prefill_rows, PREFILL_ROWS_MIN); /* 9.9 would fit */
    assert_int_equal(plan->n_rows, PREFILL_ROWS_MIN + 1);
    sched_begin(f.sched);
    sched_commit(f.sched, tokens, 8000000, f.now_ns + 8000000); /* faster than expected */
    for (int i = 0; i < 12; i++) {
        plan = sched_plan(f.sched, f.now_ns);
        step_ns = (uint64_t)(1000000 + plan->n_prefill_rows * 500000);
        sched_begin(f.sched);
        sched_commit(f.sched, tokens, step_ns, f.now_ns += step_ns);
    }
    plan = sched_plan(f.sched, f.now_ns);
    assert_in_range(plan->n_prefill_rows, 190, 198); /* of 0.5 ms each, when all is learned */
    sched_remove(f.sched, &f.seqs[0], SEQ_END_CANCELED);
    plan = sched_plan(f.sched, f.now_ns);
    assert_in_range(plan->n_prefill_rows, 500, 1000);
    fixture_close(&f);
}

/* On a device that runs both kinds of rows apart: a prompt does not wait for decode rows. A step of
 * 100 decode rows takes 20 ms, so that prefill rows of 0.1 ms each have 80 ms between two of them. */
static void test_prefill_steps_of_their_own(void **state)
{
    struct fixture f;
    int32_t tokens[SEQS_MAX] = {1, 1, 1, 1};
    const struct step_plan *plan;
    int n_prefill = 0, n_between = 0;

    (void)state;
    fixture_open(&f, 3, 1000, 400);
    f.sched->limits.has_steps_apart = true;
    f.sched->limits.target_itl_ns = 100e6;
    add(&f, 0, 200, 400);
    for (int i = 0; i < 60; i++) {
        uint64_t step_ns;

        if (i == 20)
            add(&f, 1, 3000, 10)->is_uncached = true;
        if (i == 40 || i == 41) /* the second one while the first one's step runs */
            add(&f, i - 38, 200, 10)->is_uncached = true;
        plan = sched_plan(f.sched, f.now_ns);
        assert_true(plan->n_prefill_rows == 0 || plan->n_prefill_rows == plan->n_rows);
        if (i == 20 || i == 40 || i == 41)
            assert_true(plan->n_prefill_rows > 0); /* at once */
        n_between = plan->n_prefill_rows > 0 ? n_between + plan->n_rows : 0;
        n_prefill += plan->n_prefill_rows;
        if (i > 20)
            assert_in_range(n_between, 0, 800);
        step_ns = plan->n_prefill_rows > 0 ? (uint64_t)plan->n_rows * 100000 : 20000000;
        sched_begin(f.sched);
        sched_commit(f.sched, tokens, step_ns, f.now_ns += step_ns);
    }
    assert_int_equal(n_prefill, 200 + 3000 + 200 + 200);
    assert_int_equal(f.seqs[2].state, SEQ_ENDED);
    fixture_close(&f);
}

/* Prefill rows that n_prompts of 3,000 tokens get before or beside one decode row, which takes 20 ms
 * alone; a prefill row takes 0.1 ms. */
static int rows_of_burst(int n_prompts, double target_itl_ns, bool is_apart)
{
    struct fixture f;
    int32_t tokens[SEQS_MAX] = {1, 1, 1, 1};
    int n;

    fixture_open(&f, 4, 4000, 400);
    f.sched->limits.has_steps_apart = is_apart;
    f.sched->limits.has_prefill_bursts = true;
    f.sched->limits.target_itl_ns = target_itl_ns;
    add(&f, 0, 200, 400);
    for (int i = 0; i < 30; i++) {
        const struct step_plan *plan = sched_plan(f.sched, f.now_ns);
        const uint64_t decode_ns = plan->n_rows > plan->n_prefill_rows ? 20000000 : 0;
        const uint64_t step_ns = decode_ns + (uint64_t)plan->n_prefill_rows * 100000;

        sched_begin(f.sched);
        sched_commit(f.sched, tokens, step_ns, f.now_ns += step_ns);
    }
    for (int i = 1; i <= n_prompts; i++)
        add(&f, i, 3000, 10)->is_uncached = true;
    n = sched_plan(f.sched, f.now_ns)->n_prefill_rows;
    fixture_close(&f);
    return n;
}

/* One prompt for a decode row doubles the 100 ms that a step may take, three would bring it to 400,
 * of which STEP_BURST_TARGET_NS is left; a target between tokens holds for bursts, too. */
static void test_bursts_get_larger_prefill_steps(void **state)
{
    (void)state;
    assert_in_range(rows_of_burst(1, 0, true), 1750, 1800);
    assert_in_range(rows_of_burst(3, 0, true), 2250, 2300);
    assert_in_range(rows_of_burst(3, 120e6, true), 950, 1000);
    /* what a step of both kinds takes was not measured yet */
    assert_in_range(rows_of_burst(1, 0, false), 1750, 2000);
    assert_in_range(rows_of_burst(3, 0, false), 2250, 2500);
    assert_in_range(rows_of_burst(3, 120e6, false), 950, 1200);
}

/* With a target of 50 ms, 20 of which the decode rows take, a prefill step has 30 ms. */
static void test_target_between_tokens(void **state)
{
    struct fixture f;
    int32_t tokens[SEQS_MAX] = {1, 1, 1, 1};
    const struct step_plan *plan;

    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        fixture_open(&f, 2, 1000, 400);
        f.sched->limits.has_steps_apart = apart == 1;
        f.sched->limits.target_itl_ns = 50e6;
        add(&f, 0, 300, 400)->is_uncached = true;
        for (int i = 0; i < 20; i++) {
            uint64_t step_ns;

            if (i == 2)
                add(&f, 1, 4000, 10)->is_uncached = true;
            plan = sched_plan(f.sched, f.now_ns);
            if (i == 3)
                assert_int_equal(plan->n_prefill_rows > 0, apart == 0);
            if (i == 10) /* without the target it would be 800 */
                assert_in_range(plan->n_prefill_rows, 250, 400);
            step_ns = (uint64_t)plan->n_prefill_rows * 100000;
            step_ns += plan->n_rows > plan->n_prefill_rows ? 20000000 : 0;
            sched_begin(f.sched);
            sched_commit(f.sched, tokens, step_ns, f.now_ns += step_ns);
        }
        fixture_close(&f);
    }
}

/* While all sequences run, a prompt that would not fill a step waits for others, but for no more
 * than PREFILL_HELD_STEPS decode steps. */
static void check_held(bool is_apart)
{
    struct fixture f;

    fixture_open(&f, 3, 1000, 400);
    f.sched->limits.has_steps_apart = is_apart;
    f.sched->limits.has_prefill_bursts = true;
    f.sched->limits.n_held_seqs = 3;
    add(&f, 0, 100, 400)->is_uncached = true;
    assert_int_equal(run(&f, 1).n_prefill_rows, 100);
    assert_int_equal(run(&f, 1).n_prefill_rows, 0);
    add(&f, 1, 200, 400)->is_uncached = true; /* a place is free: at once */
    assert_int_equal(run(&f, 1).n_prefill_rows, 200);
    assert_int_equal(run(&f, 1).n_rows, 2);
    add(&f, 2, 300, 4)->is_uncached = true;
    for (int i = 0; i < PREFILL_HELD_STEPS; i++)
        assert_int_equal(run(&f, 1).n_prefill_rows, 0);
    assert_int_equal(run(&f, 1).n_prefill_rows, 300);
    while (f.seqs[2].state != SEQ_ENDED)
        run(&f, 1);
    add(&f, 3, 1000, 4)->is_uncached = true; /* fills a step */
    assert_int_equal(run(&f, 1).n_prefill_rows, is_apart ? 1000 : 998);
    fixture_close(&f);
}

static void test_prompts_are_held(void **state)
{
    (void)state;
    check_held(false);
    check_held(true);
}

/* The prompt admitted first has a quarter of the rows, the rest goes to one of better priority. */
static void test_oldest_prompt_has_its_part(void **state)
{
    const struct step_plan *plan;
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 100, 200);
    add(&f, 0, 1000, 10);
    assert_int_equal(run(&f, 1).n_rows, 100);
    f.seqs[1].priority = 0;
    add(&f, 1, 1000, 10)->priority = -1;
    plan = sched_plan(f.sched, f.now_ns);
    assert_int_equal(plan->n_chunks, 2);
    assert_int_equal(plan->chunks[0].n_rows, 25);
    assert_int_equal(plan->chunks[1].n_rows, 75);
    fixture_close(&f);
}

static void test_deadlines(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 1, 100, 200);
    add(&f, 0, 100, 10)->deadline_ns = 50;
    add(&f, 1, 100, 10)->deadline_ns = 40;
    add(&f, 2, 100, 10);
    run(&f, 1);
    assert_null(sched_expired(f.sched, 39));
    assert_ptr_equal(sched_expired(f.sched, 40), &f.seqs[1]);
    sched_remove(f.sched, &f.seqs[1], SEQ_END_TIMEOUT);
    assert_null(sched_expired(f.sched, 49));
    assert_ptr_equal(sched_expired(f.sched, 50), &f.seqs[0]);
    fixture_close(&f);
}

static void test_batch_holds_the_plan(void **state)
{
    struct fixture f;
    const struct batch *b;
    void *memory;

    (void)state;
    fixture_open(&f, 2, 64, 64);
    memory = malloc((size_t)sched_batch_bytes_max(&f.limits));
    add(&f, 0, 5, 10)->sampling_params =
        (struct batch_sample){.temperature = 0.5F, .top_p = 1, .seed = 42};
    run(&f, 77);
    add(&f, 1, 3, 10);
    sched_plan(f.sched, 1);
    b = sched_batch(f.sched, memory);
    assert_int_equal(b->n_rows, 4);
    assert_int_equal(b->n_seqs, 2);
    assert_int_equal(b->n_samples, 2);
    assert_int_equal(BATCH_TOKENS(b)[0], 77);
    assert_int_equal(BATCH_POSITIONS(b)[0], 5);
    assert_int_equal(BATCH_PHASES(b)[0], PHASE_DECODE);
    assert_int_equal(BATCH_PHASES(b)[1], PHASE_PREFILL);
    assert_int_equal(BATCH_ROW_SEQ(b)[3], 1);
    assert_int_equal(BATCH_SAMPLES(b)[0].row, 0);
    assert_int_equal(BATCH_SAMPLES(b)[0].position, 6);
    assert_int_equal(BATCH_SAMPLES(b)[0].seed, 42);
    assert_int_equal(BATCH_SAMPLES(b)[1].row, 3);
    free(memory);
    fixture_close(&f);
}

/* For tests of devices: the plan is the same, and the device gets decode rows alone. */
static void test_prompts_as_decode_rows(void **state)
{
    struct sched_limits limits;
    struct fixture f;
    const struct batch *b;
    void *memory;

    (void)state;
    fixture_open(&f, 2, 64, 64);
    limits = f.limits;
    limits.has_decode_prompts = true;
    sched_free(f.sched);
    assert_int_equal(sched_new(&f.sched, &limits), OSP_OK);
    memory = malloc((size_t)sched_batch_bytes_max(&limits));
    add(&f, 0, 5, 10);
    assert_int_equal(sched_plan(f.sched, 1)->n_prefill_rows, 5);
    b = sched_batch(f.sched, memory);
    assert_int_equal(b->n_rows, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(BATCH_PHASES(b)[i], PHASE_DECODE);
    free(memory);
    fixture_close(&f);
}

UNIT_MAIN(cmocka_unit_test(test_prompts_as_decode_rows),
          cmocka_unit_test(test_prompt_in_chunks_then_decode),
          cmocka_unit_test(test_decodes_go_before_prompts),
          cmocka_unit_test(test_admits_what_fits_in_order),
          cmocka_unit_test(test_younger_one_gives_way_and_comes_back),
          cmocka_unit_test(test_computes_again_in_the_same_arithmetic),
          cmocka_unit_test(test_who_gives_way), cmocka_unit_test(test_window_pages_stay_few),
          cmocka_unit_test(test_failed_draw_ends_one),
          cmocka_unit_test(test_remove_waiting_and_running), cmocka_unit_test(test_ignore_stop),
          cmocka_unit_test(test_times_are_those_given), cmocka_unit_test(test_priority_goes_first),
          cmocka_unit_test(test_clients_are_served_alike),
          cmocka_unit_test(test_a_long_request_saves_nothing_up),
          cmocka_unit_test(test_nobody_is_passed_for_ever),
          cmocka_unit_test(test_a_short_prompt_does_not_wait_for_a_long_one),
          cmocka_unit_test(test_a_step_of_prompts_is_short),
          cmocka_unit_test(test_prompts_leave_time_to_generate),
          cmocka_unit_test(test_prefill_steps_of_their_own),
          cmocka_unit_test(test_prompts_are_held), cmocka_unit_test(test_target_between_tokens),
          cmocka_unit_test(test_bursts_get_larger_prefill_steps),
          cmocka_unit_test(test_oldest_prompt_has_its_part), cmocka_unit_test(test_deadlines),
          cmocka_unit_test(test_batch_holds_the_plan))
