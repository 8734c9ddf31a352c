/* A step that is planned while the one before it runs: what the plan assumes, and what happens when
 * the assumption fails. */
#include "unit.h"

#include <stdlib.h>

#include "engine/sched/sched_internal.h"

enum { STOP_ID = 9, CONTEXT = 1024, SEQS_MAX = 4, N_IDS = 64 };

struct fixture {
    struct sched *sched;
    struct sched_limits limits;
    struct seq seqs[SEQS_MAX];
    void *memory;
    uint64_t now_ns;
};

static void fixture_open(struct fixture *f, int n_seqs_max, int n_full_pages)
{
    struct sched_limits l = {
        .n_seqs_max = n_seqs_max,
        .n_batch_tokens_max = 64,
        .context_tokens_max = CONTEXT,
        .window_tokens = 128,
        .bypass_max = 3,
        .lists = sampling_state_max(n_seqs_max, CONTEXT, N_IDS),
        .stop_ids = {STOP_ID},
        .n_stop_ids = 1,
        .no_prefix_cache = true,
    };

    memset(f, 0, sizeof *f);
    l.n_pages[GROUP_FULL] = n_full_pages;
    l.n_pages[GROUP_WINDOW] = n_seqs_max * sched_window_pages(128) + sched_chunk_pages(64);
    assert_int_equal(sched_new(&f->sched, &l), OSP_OK);
    f->limits = l;
    f->memory = malloc((size_t)sched_batch_bytes_max(&l));
}

static void fixture_close(struct fixture *f)
{
    struct seq *q;

    if (sched_in_flight(f->sched) != NULL)
        sched_abandon(f->sched);
    while ((q = sched_any(f->sched)) != NULL)
        assert_true(sched_remove(f->sched, q, SEQ_END_CANCELED));
    for (int i = 0; i < SEQS_MAX; i++)
        seq_release(&f->seqs[i]);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        assert_int_equal(sched_stats(f->sched).pages_used[g], 0);
    sched_free(f->sched);
    free(f->memory);
}

static struct seq *add(struct fixture *f, int i, int n_prompt, int n_answer)
{
    static const int32_t prompt[CONTEXT] = {5, 6, 7};

    assert_int_equal(seq_init(&f->seqs[i], &f->limits, prompt, n_prompt, n_prompt + n_answer),
                     OSP_OK);
    assert_int_equal(sched_add(f->sched, &f->seqs[i]), OSP_OK);
    return &f->seqs[i];
}

static const struct step_plan *plan(struct fixture *f)
{
    return sched_plan(f->sched, ++f->now_ns);
}

static void begin(struct fixture *f)
{
    assert_true(plan(f)->n_chunks > 0);
    sched_begin(f->sched);
}

static void commit(struct fixture *f, int32_t a, int32_t b)
{
    sched_commit(f->sched, (int32_t[]){a, b, b, b}, 1, ++f->now_ns);
}

/* A prompt whose last rows are in flight, and a decoding sequence, both go on with tokens that are
 * not known yet. */
static void test_all_go_on(void **state)
{
    struct fixture f;
    const struct step_plan *ahead;
    const struct batch *b;

    (void)state;
    fixture_open(&f, 2, 64);
    add(&f, 0, 5, 10);
    begin(&f);
    commit(&f, 20, 0);
    add(&f, 1, 3, 10);
    begin(&f);
    ahead = plan(&f);
    assert_int_equal(ahead->n_chunks, 2);
    assert_int_equal(ahead->n_sampled, 2);
    assert_int_equal(ahead->chunks[0].first, 6);
    assert_int_equal(ahead->chunks[1].first, 3);
    b = sched_batch(f.sched, f.memory);
    assert_int_equal(BATCH_POSITIONS(b)[0], 6);
    assert_int_equal(BATCH_SAMPLES(b)[0].position, 7);
    assert_int_equal(BATCH_TOKENS(b)[0], batch_token_sampled(0));
    assert_int_equal(BATCH_TOKENS(b)[1], batch_token_sampled(1));
    commit(&f, 21, 22);
    assert_ptr_equal(plan(&f), ahead);
    assert_ptr_equal(sched_batch(f.sched, f.memory), b);
    assert_int_equal(BATCH_TOKENS(b)[0], 21);
    assert_int_equal(BATCH_TOKENS(b)[1], 22);
    sched_begin(f.sched);
    assert_int_equal(sched_stats(f.sched).n_planned_ahead, 1);
    fixture_close(&f);
}

/* A sequence that ends loses its row; a waiting one takes its place in the same step. */
static void test_an_end_makes_room(void **state)
{
    struct fixture f;
    const struct batch *b;

    (void)state;
    fixture_open(&f, 2, 64);
    add(&f, 0, 5, 10);
    add(&f, 1, 5, 10);
    add(&f, 2, 4, 10);
    begin(&f);
    assert_int_equal(plan(&f)->n_rows, 2);
    (void)sched_batch(f.sched, f.memory);
    commit(&f, STOP_ID, 30);
    assert_int_equal(f.seqs[0].end, SEQ_END_STOP);
    assert_int_equal(plan(&f)->n_rows, 1 + 4);
    b = sched_batch(f.sched, f.memory);
    assert_int_equal(BATCH_TOKENS(b)[0], 30);
    assert_int_equal(BATCH_TOKENS(b)[1], 5);
    assert_ptr_equal(sched_next(f.sched)->chunks[1].seq, &f.seqs[2]);
    begin(&f);
    assert_int_equal(sched_stats(f.sched).n_planned_ahead, 0);
    fixture_close(&f);
}

/* A failed sample ends its sequence, though it had a row in the next step. */
static void test_a_failed_draw(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 64);
    add(&f, 0, 5, 10);
    add(&f, 1, 5, 10);
    begin(&f);
    plan(&f);
    commit(&f, SAMPLE_NOT_FINITE, 30);
    assert_int_equal(f.seqs[0].end, SEQ_END_FAILED);
    assert_int_equal(f.seqs[0].n_stored, 5);
    assert_int_equal(plan(&f)->n_rows, 1);
    fixture_close(&f);
}

/* A sequence whose last token is in flight gets no further row. */
static void test_the_length_is_foreseen(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 64);
    add(&f, 0, 5, 1);
    add(&f, 1, 5, 2);
    begin(&f);
    assert_int_equal(plan(&f)->n_rows, 1);
    assert_ptr_equal(sched_next(f.sched)->chunks[0].seq, &f.seqs[1]);
    commit(&f, 20, 21);
    assert_int_equal(f.seqs[0].end, SEQ_END_LENGTH);
    begin(&f);
    assert_int_equal(plan(&f)->n_chunks, 0);
    commit(&f, 22, 0);
    assert_int_equal(f.seqs[1].end, SEQ_END_LENGTH);
    assert_null(sched_any(f.sched));
    fixture_close(&f);
}

/* A leaving sequence keeps its pages until its rows have run, gets no more rows, and its sampled
 * token still counts. */
static void test_leaving(void **state)
{
    struct fixture f;
    struct seq *a, *b, *c;

    (void)state;
    fixture_open(&f, 3, 64);
    a = add(&f, 0, 100, 10); /* in two chunks */
    b = add(&f, 1, 5, 10);
    begin(&f);
    c = add(&f, 2, 5, 10);
    assert_true(plan(&f)->n_chunks >= 2);
    a->deadline_ns = 1;
    assert_ptr_equal(sched_expired(f.sched, 2), a);
    assert_false(sched_remove(f.sched, a, SEQ_END_TIMEOUT));
    assert_null(sched_expired(f.sched, 2)); /* once */
    assert_true(sched_remove(f.sched, c, SEQ_END_CANCELED));
    assert_int_equal(a->state, SEQ_RUNNING);
    assert_true(a->pages[GROUP_FULL].n > 0);
    for (int i = 0; i < plan(&f)->n_chunks; i++)
        assert_ptr_equal(sched_next(f.sched)->chunks[i].seq, b);
    commit(&f, 20, 20);
    assert_int_equal(a->end, SEQ_END_TIMEOUT);
    assert_int_equal(a->pages[GROUP_FULL].n, 0);
    assert_int_equal(a->n_tokens, 100);
    if (b->n_tokens == 5) { /* its prompt was not in the first step */
        begin(&f);
        plan(&f);
        commit(&f, 20, 0);
    }
    assert_int_equal(b->n_tokens, 6);
    begin(&f);
    assert_false(sched_remove(f.sched, b, SEQ_END_CANCELED));
    assert_int_equal(plan(&f)->n_chunks, 0);
    commit(&f, 21, 0);
    assert_int_equal(b->end, SEQ_END_CANCELED);
    assert_int_equal(b->n_tokens, 7);
    fixture_close(&f);
}

/* The sequence's own end comes before a cancel. */
static void test_its_own_end_comes_first(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 1, 64);
    add(&f, 0, 5, 10);
    begin(&f);
    assert_false(sched_remove(f.sched, &f.seqs[0], SEQ_END_CANCELED));
    commit(&f, STOP_ID, 0);
    assert_int_equal(f.seqs[0].end, SEQ_END_STOP);
    assert_int_equal(sched_stats(f.sched).n_ended, 1);
    fixture_close(&f);
}

/* A request that arrives while a step runs has its prompt in the next one. */
static void test_arrivals_are_planned_for(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 64);
    add(&f, 0, 5, 10);
    begin(&f);
    assert_int_equal(plan(&f)->n_rows, 1);
    add(&f, 1, 6, 10);
    commit(&f, 20, 0);
    assert_int_equal(plan(&f)->n_rows, 1 + 6);
    fixture_close(&f);
}

/* Where a preemption may be needed, the tokens are awaited first. */
static void test_nobody_gives_way_ahead(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 2, 5);
    add(&f, 0, 60, 200);
    add(&f, 1, 60, 200);
    for (int i = 0; i < 200 && sched_stats(f.sched).n_preemptions == 0; i++) {
        begin(&f);
        plan(&f);
        assert_int_equal(sched_stats(f.sched).n_running + sched_stats(f.sched).n_waiting, 2);
        assert_int_equal(sched_stats(f.sched).n_preemptions, 0);
        commit(&f, 20, 20);
        plan(&f); /* now it may preempt */
    }
    assert_int_equal(sched_stats(f.sched).n_preemptions, 1);
    fixture_close(&f);
}

/* A mask depends on the last token: without it the others go on, and its sequence follows later. */
static void test_one_waits_for_its_mask(void **state)
{
    struct fixture f;
    struct seq *held, *free_one;

    (void)state;
    fixture_open(&f, 2, 64);
    held = add(&f, 0, 5, 10);
    held->is_constrained = true;
    free_one = add(&f, 1, 5, 10);
    begin(&f);
    assert_int_equal(plan(&f)->n_rows, 2);
    assert_null(sched_batch(f.sched, f.memory)); /* the batch needs its mask */
    commit(&f, 20, 21);
    sched_mask_ready(f.sched, held);
    assert_int_equal(plan(&f)->n_rows, 2); /* the mask was ready in time */
    assert_non_null(sched_batch(f.sched, f.memory));
    begin(&f);
    assert_int_equal(plan(&f)->n_rows, 2);
    commit(&f, 22, 23);
    assert_int_equal(plan(&f)->n_rows, 1); /* this time not */
    assert_ptr_equal(sched_next(f.sched)->chunks[0].seq, free_one);
    begin(&f);
    sched_mask_ready(f.sched, held);
    assert_int_equal(plan(&f)->n_rows, 2);
    commit(&f, 24, 0);
    assert_int_equal(held->n_tokens, 7);
    assert_int_equal(free_one->n_tokens, 8);
    assert_int_equal(plan(&f)->n_rows, 2);
    fixture_close(&f);
}

/* A sampled token counts in the penalties of the very next sample. */
static void test_counts_have_the_last_token(void **state)
{
    static const int32_t prompt[] = {1, 2, 3};
    struct osp_request_options opt = {.sampling.frequency_penalty = 1};
    struct sampling_state_config config = {
        .n_ids = N_IDS, .options = &opt, .prompt = prompt, .n_prompt = 3, .n_tokens_max = 13};
    struct fixture f;
    const struct batch *b;

    (void)state;
    fixture_open(&f, 1, 64);
    add(&f, 0, 3, 10);
    assert_int_equal(sampling_state_init(&f.seqs[0].lists, &config), OSP_OK);
    for (int32_t token = 20; token < 24; token++) {
        begin(&f);
        plan(&f);
        assert_null(sched_batch(f.sched, f.memory));
        commit(&f, token, 0);
        plan(&f);
        b = sched_batch(f.sched, f.memory);
        assert_int_equal(BATCH_TOKENS(b)[0], token);
        assert_int_equal(b->n_seen, token - 19);
        assert_int_equal(BATCH_SEEN(b)[b->n_seen - 1].id, token);
    }
    fixture_close(&f);
}

/* ---- steps that are sent before the step in flight ends ---- */

static void send(struct fixture *f)
{
    assert_true(plan(f)->n_chunks > 0);
    assert_non_null(sched_batch(f->sched, f->memory));
    assert_true(sched_can_send(f->sched));
    sched_mark_sent(f->sched);
}

/* A sent step begins as it is: the rows of an ended sequence are dropped, and a new request
 * waits. */
static void test_a_sent_step_begins_as_it_is(void **state)
{
    struct fixture f;
    const struct step_plan *sent;

    (void)state;
    fixture_open(&f, 3, 64);
    add(&f, 0, 5, 10);
    add(&f, 1, 5, 10);
    begin(&f);
    send(&f);
    sent = sched_next(f.sched);
    add(&f, 2, 4, 10);
    commit(&f, STOP_ID, 30);
    assert_int_equal(f.seqs[0].end, SEQ_END_STOP);
    assert_int_equal(f.seqs[0].pages[GROUP_FULL].n, 0);
    assert_ptr_equal(plan(&f), sent);
    assert_int_equal(sent->n_rows, 2);
    assert_null(sent->chunks[0].seq);
    assert_ptr_equal(sent->chunks[1].seq, &f.seqs[1]);
    assert_int_equal(BATCH_TOKENS(sent->batch)[0], batch_token_sampled(0));
    begin(&f);
    assert_int_equal(sched_stats(f.sched).n_wasted_rows, 1);
    assert_int_equal(f.seqs[1].pending_sample, 1);
    assert_int_equal(plan(&f)->n_rows, 1 + 4);
    assert_int_equal(BATCH_TOKENS(sched_batch(f.sched, f.memory))[0], batch_token_sampled(1));
    commit(&f, 77, 31); /* 77 is dropped */
    assert_int_equal(f.seqs[0].n_tokens, 6);
    assert_int_equal(f.seqs[1].tokens[6], 31);
    assert_int_equal(sched_stats(f.sched).n_generated_tokens, 3);
    fixture_close(&f);
}

/* Every way of leaving: in flight, in the sent step alone, or by a failed sample. */
static void test_all_leave_a_sent_step(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 3, 64);
    add(&f, 0, 5, 10);
    add(&f, 1, 5, 10);
    begin(&f);
    add(&f, 2, 4, 10);
    send(&f);
    assert_int_equal(sched_next(f.sched)->n_chunks, 3);
    assert_true(sched_remove(f.sched, &f.seqs[2], SEQ_END_CANCELED));
    assert_false(sched_remove(f.sched, &f.seqs[0], SEQ_END_TIMEOUT));
    commit(&f, 20, SAMPLE_NOT_FINITE);
    assert_int_equal(f.seqs[0].end, SEQ_END_TIMEOUT);
    assert_int_equal(f.seqs[1].end, SEQ_END_FAILED);
    assert_null(sched_any(f.sched));
    begin(&f);
    assert_int_equal(sched_stats(f.sched).n_wasted_rows, 1 + 1 + 4);
    commit(&f, 1, 2);
    assert_int_equal(plan(&f)->n_chunks, 0);
    assert_int_equal(sched_stats(f.sched).n_ended, 3);
    fixture_close(&f);
}

/* Penalties and masks need the tokens: such a step is not sent before they are known. */
static void test_what_cannot_be_sent(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 2, 64);
    q = add(&f, 0, 5, 10);
    assert_false(sched_can_send(f.sched)); /* no step is in flight */
    q->is_constrained = true;
    begin(&f);
    assert_true(plan(&f)->n_chunks > 0);
    assert_null(sched_batch(f.sched, f.memory));
    assert_false(sched_can_send(f.sched));
    fixture_close(&f);
}

/* Two of three drafts are right: three tokens, and the positions of two drafts are stored. Nothing
 * is planned while the drafts are in flight. */
static void test_drafts(void **state)
{
    struct fixture f;
    const struct step_plan *step;
    struct seq *q;

    (void)state;
    fixture_open(&f, 2, 64);
    f.sched->limits.n_draft_rows_max = 8;
    q = add(&f, 0, 62, 20);
    assert_int_equal(sched_drafts_max(f.sched, q), 0); /* its prompt is not computed */
    begin(&f);
    commit(&f, 20, 0);
    assert_int_equal(sched_drafts_max(f.sched, q), 8);
    sched_set_drafts(f.sched, q, (int32_t[]){21, 22, 29}, 3);
    step = plan(&f);
    assert_int_equal(step->n_rows, 4);
    assert_int_equal(step->n_draft_rows, 3);
    assert_int_equal(step->n_sampled, 4);
    sched_begin(f.sched);
    assert_int_equal(q->n_stored, 63);
    assert_int_equal(page_list_end(&q->pages[GROUP_FULL]), 2 * PAGE_TOKENS);
    assert_int_equal(plan(&f)->n_chunks, 0);
    assert_false(sched_can_send(f.sched));
    sched_commit(f.sched, (int32_t[]){21, 22, 23, 24}, 1, ++f.now_ns);
    assert_int_equal(q->n_tokens, 66);
    assert_memory_equal(q->tokens + 63, ((int32_t[]){21, 22, 23}), 3 * sizeof(int32_t));
    assert_int_equal(q->n_stored, 65);
    assert_int_equal(page_list_end(&q->pages[GROUP_FULL]), 2 * PAGE_TOKENS);
    assert_int_equal(sched_stats(f.sched).n_draft_rows, 3);
    assert_int_equal(sched_stats(f.sched).n_accepted, 2);
    fixture_close(&f);
}

/* The first draft is wrong: the page that only drafts needed is released. */
static void test_rejected_drafts(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 2, 64);
    f.sched->limits.n_draft_rows_max = 8;
    q = add(&f, 0, 62, 20);
    begin(&f);
    commit(&f, 20, 0);
    sched_set_drafts(f.sched, q, (int32_t[]){21, 22, 29}, 3);
    begin(&f);
    sched_commit(f.sched, (int32_t[]){30, 22, 29, 24}, 1, ++f.now_ns);
    assert_int_equal(q->n_tokens, 64);
    assert_int_equal(q->tokens[63], 30);
    assert_int_equal(q->n_stored, 63);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        assert_int_equal(page_list_end(&q->pages[g]), PAGE_TOKENS);
    fixture_close(&f);
}

/* A stop token, the length, and a sample that fails, behind accepted drafts. */
static void test_ends_behind_drafts(void **state)
{
    static const struct {
        int32_t tokens[4];
        enum seq_end end;
        int n_tokens;
    } cases[] = {{{21, STOP_ID, 23, 24}, SEQ_END_STOP, 8},
                 {{21, 22, 23, 24}, SEQ_END_LENGTH, 10},
                 {{21, SAMPLE_NOT_FINITE, 23, 24}, SEQ_END_FAILED, 7},
                 {{STOP_ID, STOP_ID, 23, 24}, SEQ_END_STOP, 7}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        struct seq *q;

        fixture_open(&f, 2, 64);
        f.sched->limits.n_draft_rows_max = 8;
        q = add(&f, 0, 5, 5);
        begin(&f);
        commit(&f, 20, 0);
        assert_int_equal(sched_drafts_max(f.sched, q), 3);
        sched_set_drafts(f.sched, q, (int32_t[]){21, 22, 23}, 3);
        begin(&f);
        sched_commit(f.sched, cases[i].tokens, 1, ++f.now_ns);
        assert_int_equal(q->end, cases[i].end);
        assert_int_equal(q->n_tokens, cases[i].n_tokens);
        fixture_close(&f);
    }
}

/* Drafts leave every sequence its row, and a prompt half of what is left. */
static void test_drafts_take_what_is_left(void **state)
{
    struct fixture f;
    const struct step_plan *step;
    int32_t drafts[DRAFTS_MAX] = {0};
    struct seq *q;

    (void)state;
    fixture_open(&f, 2, 64);
    f.sched->limits.n_draft_rows_max = DRAFTS_MAX;
    f.sched->limits.n_batch_tokens_max = 10;
    q = add(&f, 0, 5, 40);
    begin(&f);
    commit(&f, 20, 0);
    add(&f, 1, 30, 10);
    sched_set_drafts(f.sched, q, drafts, DRAFTS_MAX);
    step = plan(&f);
    assert_int_equal(step->n_chunks, 2);
    assert_int_equal(step->n_draft_rows, 4);
    assert_int_equal(step->n_prefill_rows, 5);
    fixture_close(&f);
}

UNIT_MAIN(cmocka_unit_test(test_drafts), cmocka_unit_test(test_rejected_drafts),
          cmocka_unit_test(test_ends_behind_drafts),
          cmocka_unit_test(test_drafts_take_what_is_left),
          cmocka_unit_test(test_a_sent_step_begins_as_it_is),
          cmocka_unit_test(test_all_leave_a_sent_step), cmocka_unit_test(test_what_cannot_be_sent),
          cmocka_unit_test(test_all_go_on), cmocka_unit_test(test_an_end_makes_room),
          cmocka_unit_test(test_a_failed_draw), cmocka_unit_test(test_the_length_is_foreseen),
          cmocka_unit_test(test_leaving), cmocka_unit_test(test_its_own_end_comes_first),
          cmocka_unit_test(test_arrivals_are_planned_for),
          cmocka_unit_test(test_nobody_gives_way_ahead),
          cmocka_unit_test(test_one_waits_for_its_mask),
          cmocka_unit_test(test_counts_have_the_last_token))
