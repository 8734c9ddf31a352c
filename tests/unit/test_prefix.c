/* The prefix cache through the scheduler: what is found again, what is not, and how much. */
#include "unit.h"

#include <stdlib.h>

#include "base/rng.h"
#include "engine/sched/sched.h"

enum { CONTEXT = 16384, SEQS_MAX = 4, TURN_ID = 7, STOP_ID = 9 };

struct fixture {
    struct sched *sched;
    struct sched_limits limits;
    struct seq seqs[SEQS_MAX];
    int32_t text[CONTEXT]; /* a conversation */
    uint64_t now_ns;
};

static void fixture_open(struct fixture *f, int n_full_pages, int n_window_pages)
{
    struct sched_limits l = {.n_seqs_max = SEQS_MAX,
                             .n_batch_tokens_max = 512,
                             .context_tokens_max = CONTEXT,
                             .window_tokens = 128,
                             .bypass_max = 100,
                             .stop_ids = {STOP_ID},
                             .n_stop_ids = 1,
                             .message_end_ids = {TURN_ID},
                             .n_message_end_ids = 1};

    memset(f, 0, sizeof *f);
    l.n_pages[GROUP_FULL] = n_full_pages;
    l.n_pages[GROUP_WINDOW] =
        SEQS_MAX * sched_window_pages(128) + sched_chunk_pages(512) + n_window_pages;
    assert_int_equal(sched_new(&f->sched, &l), OSP_OK);
    f->limits = l;
    for (int i = 0; i < CONTEXT; i++)
        f->text[i] = 100 + (int32_t)(rng_bits(1, (uint64_t)i, 0) % 1000);
}

static void fixture_close(struct fixture *f)
{
    struct seq *q;

    while ((q = sched_any(f->sched)) != NULL)
        sched_remove(f->sched, q, SEQ_END_CANCELED);
    for (int i = 0; i < SEQS_MAX; i++)
        seq_release(&f->seqs[i]);
    sched_free(f->sched);
}

/* The text's first n tokens as a prompt. */
static struct seq *prompt(struct fixture *f, int i, int n, int n_answer)
{
    struct seq *q = &f->seqs[i];

    seq_release(q);
    assert_int_equal(seq_init(q, &f->limits, f->text, n, n + n_answer), OSP_OK);
    return q;
}

/* Steps until q ends; what it draws goes on with the text. */
static void run(struct fixture *f, struct seq *q)
{
    for (int i = 0; i < 10000 && q->state != SEQ_ENDED; i++) {
        const struct step_plan *plan = sched_plan(f->sched, ++f->now_ns);
        int32_t tokens[SEQS_MAX];
        int n = 0;

        for (int k = 0; k < plan->n_chunks; k++)
            if (plan->chunks[k].is_sampled)
                tokens[n++] = f->text[plan->chunks[k].seq->n_tokens];
        sched_begin(f->sched);
        sched_commit(f->sched, tokens, 0, f->now_ns);
    }
    assert_int_equal(q->state, SEQ_ENDED);
}

/* Gives the tokens that a prompt of n finds. */
static int ask(struct fixture *f, int n, int n_answer)
{
    struct seq *q = prompt(f, 0, n, n_answer);

    assert_int_equal(sched_add(f->sched, q), OSP_OK);
    run(f, q);
    return q->n_cached;
}

static void test_the_same_again(void **state)
{
    static const int lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 130, 191, 192, 193, 640, 1000};
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        fixture_open(&f, 300, 100);
        assert_int_equal(ask(&f, lengths[i], 5), 0);
        assert_int_equal(ask(&f, lengths[i], 5), lengths[i] - 1);
        assert_int_equal(ask(&f, lengths[i] + 3, 5), lengths[i] + 2); /* into the answer */
        assert_int_equal(sched_stats(f.sched).n_cached_tokens, 2 * lengths[i] + 1);
        fixture_close(&f);
    }
}

/* With a seed only what the prompt itself computed is taken; generated tokens are, when that is
 * asked for. */
static void test_generated_tokens_are_tagged(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 300, 100);
    assert_int_equal(ask(&f, 300, 200), 0);
    q = prompt(&f, 0, 600, 5);
    q->is_exact = true;
    assert_int_equal(sched_add(f.sched, q), OSP_OK);
    run(&f, q);
    assert_int_equal(q->n_cached, 300);
    q = prompt(&f, 0, 600, 5);
    q->is_exact = true; /* now all of it is a prompt's */
    assert_int_equal(sched_add(f.sched, q), OSP_OK);
    run(&f, q);
    assert_int_equal(q->n_cached, 599);
    fixture_close(&f);
}

static void test_salts_share_nothing(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 300, 100);
    assert_int_equal(ask(&f, 300, 5), 0);
    for (int i = 0; i < 2; i++) {
        q = prompt(&f, 0, 300, 5);
        q->salt = "tenant";
        assert_int_equal(sched_add(f.sched, q), OSP_OK);
        run(&f, q);
        assert_int_equal(q->n_cached, i == 0 ? 0 : 299);
    }
    q = prompt(&f, 0, 300, 5);
    q->is_uncached = true;
    assert_int_equal(sched_add(f.sched, q), OSP_OK);
    run(&f, q);
    assert_int_equal(q->n_cached, 0);
    fixture_close(&f);
}

/* What failed to give finite numbers is not found again, nor is what it was built on. */
static void test_failed_is_forgotten(void **state)
{
    struct fixture f;
    struct seq *q;

    (void)state;
    fixture_open(&f, 300, 100);
    assert_int_equal(ask(&f, 300, 5), 0);
    q = prompt(&f, 0, 400, 5);
    assert_int_equal(sched_add(f.sched, q), OSP_OK);
    sched_plan(f.sched, 1);
    sched_begin(f.sched);
    sched_commit(f.sched, (int32_t[]){-1}, 1, 2);
    assert_int_equal(q->end, SEQ_END_FAILED);
    assert_int_equal(q->n_cached, 304);
    assert_int_equal(ask(&f, 400, 5), 0);
    assert_int_equal(ask(&f, 400, 5), 399);
    fixture_close(&f);
}

/* Several at once hold one page each once, and write none that another holds. */
static void test_running_ones_share(void **state)
{
    struct fixture f;
    int n_used;

    (void)state;
    fixture_open(&f, 300, 100);
    ask(&f, 640, 5);
    for (int i = 0; i < SEQS_MAX; i++)
        assert_int_equal(sched_add(f.sched, prompt(&f, i, 650, 100)), OSP_OK);
    sched_plan(f.sched, 1);
    n_used = sched_stats(f.sched).pages_used[GROUP_FULL];
    assert_int_equal(n_used, 10 + SEQS_MAX); /* ten shared ones, and the copied end of each */
    assert_int_equal(sched_next(f.sched)->n_moves, 2 * SEQS_MAX);
    sched_begin(f.sched);
    sched_commit(f.sched, (int32_t[]){1, 2, 3, 4}, 1, 2);
    fixture_close(&f);
}

/* The oldest goes first, from its end; what was used since stays. */
static void test_least_recently_used_goes(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 32, 100);
    ask(&f, 640, 1); /* 10 pages */
    f.text[0] = 1;
    ask(&f, 640, 1); /* another 10 */
    f.text[0] = 2;
    ask(&f, 640, 1); /* a third */
    f.text[0] = 1;
    assert_int_equal(ask(&f, 640, 1), 639);
    f.text[0] = 3;
    ask(&f, 640, 1); /* takes the place of the first */
    f.text[0] = 1;
    assert_int_equal(ask(&f, 640, 1), 639);
    fixture_close(&f);
}

/* An agent's loop of twenty turns: each prompt is the last one with its answer (reasoning and a
 * call) and the tool's result. Then the user speaks again: the reasoning of the answer is left
 * out of the next prompt. */
static void test_twenty_turns(void **state)
{
    struct fixture f;
    int n = 1200, n_longest = 0, n_wanted = 0, n_found = 0;

    (void)state;
    fixture_open(&f, 400, 60);
    for (int turn = 0; turn < 20; turn++) {
        int n_answer = 60 + 13 * turn % 90, n_result = 40 + 37 * turn % 300;
        int n_cached;

        f.text[n - 4] = TURN_ID;
        n_cached = ask(&f, n, n_answer);
        n_wanted += n_longest < n ? n_longest : n - 1;
        n_found += n_cached;
        n_longest = n + n_answer - 1; /* the last token drawn is not computed */
        if (turn % 5 == 4) {          /* a new message instead of the reasoning */
            for (int i = n; i < CONTEXT; i++)
                f.text[i] = 100 + (int32_t)(rng_bits(2 + (uint64_t)turn, (uint64_t)i, 0) % 1000);
            n_longest = n;
        }
        n += n_answer + n_result;
    }
    assert_true(n < CONTEXT);
    print_message("%d of %d tokens re-used\n", n_found, n_wanted);
    assert_true(n_found >= 0.95 * n_wanted);
    fixture_close(&f);
}

UNIT_MAIN(cmocka_unit_test(test_the_same_again), cmocka_unit_test(test_generated_tokens_are_tagged),
          cmocka_unit_test(test_salts_share_nothing), cmocka_unit_test(test_failed_is_forgotten),
          cmocka_unit_test(test_running_ones_share),
          cmocka_unit_test(test_least_recently_used_goes), cmocka_unit_test(test_twenty_turns))
