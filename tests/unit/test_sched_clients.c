/* Shares of clients and of their users: in the queue, for prefill rows, for pages; and remembered
 * counts. */
#include "unit.h"

#include <stdio.h>

#include "engine/sched/sched_internal.h"

enum { TOKEN = 1, STOP_ID = 9, SEQS_MAX = 128, TEXT_BYTES = 32 };

struct fixture {
    struct sched *sched;
    struct sched_limits limits;
    struct seq seqs[SEQS_MAX];
    char users[SEQS_MAX][TEXT_BYTES];
    uint64_t now_ns;
};

static void fixture_open(struct fixture *f, int n_seqs_max, int n_full_pages)
{
    struct sched_limits l = {
        .n_seqs_max = n_seqs_max,
        .n_batch_tokens_max = 64,
        .context_tokens_max = 512,
        .window_tokens = 128,
        .bypass_max = BYPASS_MAX_DEFAULT,
        .stop_ids = {STOP_ID},
        .n_stop_ids = 1,
    };

    memset(f, 0, sizeof *f);
    l.n_pages[GROUP_FULL] = n_full_pages;
    l.n_pages[GROUP_WINDOW] = n_seqs_max * sched_window_pages(128) + sched_chunk_pages(64);
    assert_int_equal(sched_new(&f->sched, &l), OSP_OK);
    f->limits = l;
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

struct wanted {
    int n_prompt, n_answer, priority;
    const char *client, *user;
};

static struct seq *add(struct fixture *f, int i, struct wanted w)
{
    static const int32_t prompt[512];
    struct seq *q = &f->seqs[i];

    seq_release(q);
    assert_int_equal(seq_init(q, &f->limits, prompt, w.n_prompt, w.n_prompt + w.n_answer), OSP_OK);
    q->is_uncached = true;
    q->priority = w.priority;
    q->client_key = w.client;
    if (w.user != NULL) {
        snprintf(f->users[i], sizeof f->users[i], "%s", w.user);
        q->user_key = f->users[i];
    }
    assert_int_equal(sched_add(f->sched, q), OSP_OK);
    return q;
}

/* Plans and runs a step in which every sample is `token`. */
static void run(struct fixture *f, int32_t token)
{
    int32_t tokens[SEQS_MAX];
    const struct step_plan *plan;

    for (int i = 0; i < SEQS_MAX; i++)
        tokens[i] = token;
    f->now_ns += 10;
    plan = sched_plan(f->sched, f->now_ns);
    if (plan->n_chunks == 0)
        return;
    sched_begin(f->sched);
    sched_commit(f->sched, tokens, 5, f->now_ns + 5);
}

/* Ends the running sequence, admits the next and returns it. */
static const struct seq *next(struct fixture *f)
{
    if (sched_stats(f->sched).n_running > 0)
        run(f, STOP_ID);
    run(f, TOKEN);
    assert_int_equal(sched_stats(f->sched).n_running, 1);
    return sched_running(f->sched, 0);
}

/* A hundred users of one client, each with a request of the best priority, wait beside one user of
 * another client, who asks again after each answer: both clients are served alike. */
static void test_users_divide_their_clients_share(void **state)
{
    struct fixture f;
    int n_served[2] = {0, 0};

    (void)state;
    fixture_open(&f, 1, 64);
    for (int i = 0; i < 100; i++) {
        char user[TEXT_BYTES];

        snprintf(user, sizeof user, "user %d", i);
        add(&f, i, (struct wanted){10, 4, INT32_MIN, "many", user});
    }
    add(&f, 100, (struct wanted){10, 4, 0, "one", NULL});
    for (int i = 0; i < 100; i++) {
        const struct seq *q = next(&f);
        const bool is_one = q == &f.seqs[100] || q == &f.seqs[101];

        n_served[is_one]++;
        if (is_one)
            add(&f, q == &f.seqs[100] ? 101 : 100, (struct wanted){10, 4, 0, "one", NULL});
        assert_in_range(n_served[0] - n_served[1] + 1, 0, 2);
    }
    fixture_close(&f);
}

/* The users of a client are served alike, too: one that asked ten times before the other came has
 * no advantage. */
static void test_users_of_a_client_are_served_alike(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 1, 64);
    for (int i = 0; i < 10; i++)
        add(&f, i, (struct wanted){10, 4, 0, "c", "much"});
    assert_ptr_equal(next(&f), &f.seqs[0]);
    add(&f, 10, (struct wanted){10, 4, 0, "c", "little"});
    add(&f, 11, (struct wanted){10, 4, 0, "c", "little"});
    assert_ptr_equal(next(&f), &f.seqs[10]);
    assert_ptr_equal(next(&f), &f.seqs[1]);
    assert_ptr_equal(next(&f), &f.seqs[11]);
    fixture_close(&f);
}

/* Two clients may use the same name for a user. */
static void test_users_of_one_name(void **state)
{
    struct fixture f;
    struct seq *a, *b;

    (void)state;
    fixture_open(&f, 2, 64);
    a = add(&f, 0, (struct wanted){10, 4, 0, "a", "bc"});
    b = add(&f, 1, (struct wanted){10, 4, 0, "b", "bc"});
    assert_ptr_not_equal(a->user, b->user);
    assert_ptr_not_equal(a->user, add(&f, 2, (struct wanted){10, 4, 0, "ab", "c"})->user);
    assert_ptr_equal(a->user, add(&f, 3, (struct wanted){10, 4, 0, "a", "bc"})->user);
    run(&f, TOKEN);
    assert_int_equal(a->user->served, 10);
    assert_int_equal(a->client->served, 10);
    fixture_close(&f);
}

/* Prefill rows: the client served least comes before one with better priorities. */
static void test_prompt_rows_go_by_client(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 3, 64);
    add(&f, 0, (struct wanted){400, 4, 0, "long", NULL});
    run(&f, TOKEN); /* 64 rows of its prompt */
    add(&f, 2, (struct wanted){32, 4, 7, "short", NULL});
    add(&f, 1, (struct wanted){400, 4, -5, "long", NULL});
    run(&f, TOKEN);
    assert_int_equal(f.seqs[0].n_stored, 64 + 16); /* admitted first: always a quarter */
    assert_int_equal(f.seqs[1].n_stored, 16);      /* preempted last: likewise */
    assert_int_equal(f.seqs[2].n_stored, 32);      /* all that is left */
    fixture_close(&f);
}

/* Pages run out: two sequences of a client with three are preempted, whatever their priorities,
 * before the only one of another client, which is younger. */
static void test_priority_puts_no_other_client_out(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 4, 12); /* which two of them need */
    for (int i = 0; i < 3; i++)
        add(&f, i, (struct wanted){50, 300, -100 - i, "many", NULL});
    add(&f, 3, (struct wanted){50, 300, 0, "one", NULL});
    run(&f, TOKEN);
    assert_int_equal(sched_stats(f.sched).n_running, 4);
    for (int i = 0; i < 400 && f.seqs[3].state == SEQ_RUNNING; i++)
        run(&f, TOKEN);
    assert_int_equal(f.seqs[3].state, SEQ_ENDED);
    assert_int_equal(f.seqs[3].n_preempted, 0);
    assert_int_equal(f.seqs[2].n_preempted, 0); /* the best priority of its client */
    assert_true(f.seqs[0].n_preempted > 0 && f.seqs[1].n_preempted > 0);
    fixture_close(&f);
}

/* One client's requests would fill all slots for long: with a share of four for each free slot it
 * leaves one of five, which another client gets at once, and a third client when the second has
 * ended. */
static void test_a_client_leaves_slots_to_others(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f, 5, 64);
    f.sched->limits.slot_share = 4;
    for (int i = 0; i < 8; i++)
        add(&f, i, (struct wanted){10, 100, -100, "many", NULL});
    run(&f, TOKEN);
    assert_int_equal(sched_stats(f.sched).n_running, 4);
    add(&f, 8, (struct wanted){10, 30, 0, "one", NULL});
    run(&f, TOKEN);
    assert_int_equal(sched_stats(f.sched).n_running, 5);
    assert_int_equal(f.seqs[8].state, SEQ_RUNNING);
    add(&f, 9, (struct wanted){10, 30, 0, "two", NULL});
    run(&f, TOKEN);
    assert_int_equal(f.seqs[9].state, SEQ_WAITING);
    while (f.seqs[8].state != SEQ_ENDED)
        run(&f, TOKEN);
    run(&f, TOKEN);
    assert_int_equal(f.seqs[9].state, SEQ_RUNNING);
    assert_int_equal(sched_stats(f.sched).n_running, 5); /* four of the first client beside it */
    fixture_close(&f);
}

/* Request 1 waits, of a client that was served more than the others, and one of another client. */
static void let_one_wait(struct fixture *f)
{
    add(f, 0, (struct wanted){300, 4, 0, "ahead", NULL});
    for (int i = 0; i < 5; i++)
        run(f, TOKEN);
    add(f, 100, (struct wanted){10, 4, 0, "first", NULL});
    add(f, 1, (struct wanted){10, 4, 0, "ahead", NULL});
}

/* New clients keep coming and begin with the least count of a waiting one: a client that was served
 * more is bypassed by no more of them than the limit. */
static void test_a_client_is_not_passed_for_ever(void **state)
{
    struct fixture f;
    int n_passed = 0;

    (void)state;
    fixture_open(&f, 1, 64);
    f.sched->limits.bypass_max = 5;
    let_one_wait(&f);
    for (int i = 2; f.seqs[1].state == SEQ_WAITING; i++) {
        char client[SEQS_MAX][TEXT_BYTES];

        assert_in_range(i, 2, 99);
        snprintf(client[i], sizeof client[i], "new %d", i);
        f.sched->clients.root.last_served = 0;
        add(&f, i, (struct wanted){10, 4, 0, client[i], NULL});
        (void)next(&f);
        n_passed += f.seqs[1].state == SEQ_WAITING;
    }
    assert_in_range(n_passed, 5, 7);
    fixture_close(&f);
}

/* A client that has its share of the slots at every second admission is bypassed no more often than
 * the bound, whichever admissions these are. */
static void share_at_every_second(int phase)
{
    struct fixture f;
    int n_passed = 0;

    fixture_open(&f, 1, 64);
    f.sched->limits.bypass_max = 5;
    f.sched->limits.slot_share = 1;
    let_one_wait(&f);
    for (int i = 2; f.seqs[1].state == SEQ_WAITING; i++) {
        const bool has_share = i % 2 == phase;
        char client[TEXT_BYTES];

        assert_in_range(i, 2, 99);
        snprintf(client, sizeof client, "new %d", i);
        f.sched->clients.root.last_served = 0;
        add(&f, i, (struct wanted){10, 4, 0, client, NULL});
        if (sched_stats(f.sched).n_running > 0)
            run(&f, STOP_ID);
        if (has_share)
            f.seqs[1].client->n_running++;
        run(&f, TOKEN);
        if (has_share)
            f.seqs[1].client->n_running--;
        n_passed += f.seqs[1].state == SEQ_WAITING && !has_share;
    }
    assert_in_range(n_passed, 5, 7);
    fixture_close(&f);
}

static void test_a_share_does_not_move_a_turn(void **state)
{
    (void)state;
    share_at_every_second(0);
    share_at_every_second(1);
}

/* Thousands of users of one client do not evict the count of another client, nor that of their own
 * client. */
static void test_what_is_remembered(void **state)
{
    static struct clients c;
    struct client *user, *other;

    (void)state;
    assert_int_equal(clients_add_request(&other, &c, "other", NULL), OSP_OK);
    client_charge(other, 1000);
    clients_remove_request(&c, other);
    for (int i = 0; i < 3 * CLIENTS_IDLE_MAX; i++) {
        char name[TEXT_BYTES];

        snprintf(name, sizeof name, "user %d", i);
        assert_int_equal(clients_add_request(&user, &c, "many", name), OSP_OK);
        client_charge(user, 1);
        clients_remove_request(&c, user);
        assert_true(user->parent->idle.n <= USERS_IDLE_MAX);
    }
    assert_int_equal(user->parent->served, 3 * CLIENTS_IDLE_MAX);
    assert_int_equal(c.root.idle.n, 2);
    assert_int_equal(clients_add_request(&user, &c, "other", NULL), OSP_OK);
    assert_int_equal(user->parent->served, 1000);
    clients_remove_request(&c, user);
    for (int i = 0; i < 2 * CLIENTS_IDLE_MAX; i++) {
        char name[TEXT_BYTES];

        snprintf(name, sizeof name, "client %d", i);
        assert_int_equal(clients_add_request(&user, &c, name, "u"), OSP_OK);
        clients_remove_request(&c, user);
        assert_true(c.root.idle.n <= CLIENTS_IDLE_MAX);
    }
    clients_release(&c);
}

UNIT_MAIN(cmocka_unit_test(test_users_divide_their_clients_share),
          cmocka_unit_test(test_users_of_a_client_are_served_alike),
          cmocka_unit_test(test_users_of_one_name), cmocka_unit_test(test_prompt_rows_go_by_client),
          cmocka_unit_test(test_priority_puts_no_other_client_out),
          cmocka_unit_test(test_a_client_leaves_slots_to_others),
          cmocka_unit_test(test_a_client_is_not_passed_for_ever),
          cmocka_unit_test(test_a_share_does_not_move_a_turn),
          cmocka_unit_test(test_what_is_remembered))
