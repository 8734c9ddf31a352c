/* Drafters, the index of n-grams, and the choice of how many drafts are verified: by cost models of
 * a CPU (a row costs nearly as much as a step) and a GPU (a few rows cost little), with drafts that
 * are right with any probability. */
#include "unit.h"

#include <math.h>

#include "base/rng.h"
#include "draft_server.h"
#include "engine/draft/draft_control.h"
#include "engine/draft/drafter.h"
#include "engine/draft/ngram.h"

/* ---- the index ---- */

/* The longest match by trying every end; of equally long ones the newest. */
static struct ngram_match find_slowly(const int32_t *text, int n, int least, int most)
{
    struct ngram_match best = {0, 0};

    for (int end = n - 1; end >= least; end--) {
        int k = 0;

        while (k < most && k < end && text[end - 1 - k] == text[n - 1 - k])
            k++;
        if (k >= least && k > best.n_tokens)
            best = (struct ngram_match){end, k};
    }
    return best;
}

/* Random texts of few letters. The index looks at NGRAM_CANDIDATES_MAX ends: what it finds occurs,
 * and where there are no more than that, it is the best. */
static void test_index_finds_the_longest_match(void **state)
{
    enum { N = 600, LEAST = 3, MOST = 7 };
    int n_found = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct ngram_index x;
        int32_t text[N];

        assert_int_equal(ngram_index_init(&x, N, LEAST), OSP_OK);
        for (int i = 0; i < N; i++)
            text[i] = (int32_t)(rng_bits(seed, (uint64_t)i, 0) % (4 + seed));
        for (int n = 1; n <= N; n++) {
            const struct ngram_match want = find_slowly(text, n, LEAST, MOST);
            struct ngram_match have;
            int n_ends = 0;

            ngram_index_grow(&x, text, n - 1);
            have = ngram_find(&x, text, text, n, MOST, n);
            for (int end = LEAST; end < n; end++)
                n_ends += memcmp(text + end - LEAST, text + n - LEAST, LEAST * sizeof *text) == 0;
            assert_int_equal(have.end > 0, want.end > 0);
            if (have.end > 0)
                assert_memory_equal(text + have.end - have.n_tokens, text + n - have.n_tokens,
                                    (size_t)have.n_tokens * sizeof *text);
            if (n_ends <= NGRAM_CANDIDATES_MAX / 2) { /* other hashes may share the chain */
                assert_int_equal(have.end, want.end);
                assert_int_equal(have.n_tokens, want.n_tokens);
            }
            n_found += have.end > 0;
        }
        ngram_index_release(&x);
    }
    assert_true(n_found > 1000);
}

/* A long prompt is indexed over several calls. */
static void test_index_grows_in_pieces(void **state)
{
    enum { N = 3 * NGRAM_GROWTH_MAX };
    static int32_t text[N];
    struct ngram_index x;

    (void)state;
    for (int i = 0; i < N; i++)
        text[i] = i;
    assert_int_equal(ngram_index_init(&x, N, 2), OSP_OK);
    ngram_index_grow(&x, text, N);
    assert_int_equal(x.n, 1 + NGRAM_GROWTH_MAX);
    ngram_index_grow(&x, text, N);
    ngram_index_grow(&x, text, N);
    assert_int_equal(x.n, N);
    assert_int_equal(ngram_find(&x, text, text, N / 2, 5, N).end, N / 2);
    ngram_index_release(&x);
}

/* ---- drafters ---- */

static int propose(struct drafter *d, const int32_t *tokens, int n, int32_t *out, int n_max)
{
    return d->ops->propose(d, tokens, n, out, n_max);
}

static void test_ngram_drafts_what_followed(void **state)
{
    static const int32_t text[] = {1, 2, 3, 4, 5, 6, 9, 2, 3, 4};
    struct drafter *d;
    int32_t out[8];

    (void)state;
    assert_int_equal(ngram_drafter_new(&d, 64, 2, 8), OSP_OK);
    assert_int_equal(d->ops->source, DRAFT_NGRAM);
    assert_int_equal(propose(d, text, 1, out, 8), 0);
    assert_int_equal(propose(d, text, 7, out, 8), 0);
    assert_int_equal(propose(d, text, 8, out, 8), 0); /* one token is below the minimum */
    assert_int_equal(propose(d, text, 10, out, 8), 6);
    assert_memory_equal(out, ((int32_t[]){5, 6, 9, 2, 3, 4}), 6 * sizeof *out);
    assert_int_equal(propose(d, text, 10, out, 2), 2);
    drafter_free(d);
}

static void test_prediction_follows_the_answer(void **state)
{
    static const int32_t prediction[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    /* the prompt, equal tokens, one replaced, two added, then the rest from 15 on */
    static const int32_t tokens[] = {1, 2, 10, 11, 12, 50, 14, 60, 61, 14, 15, 16, 17};
    struct drafter *d;
    int32_t out[4];

    (void)state;
    assert_int_equal(prediction_drafter_new(&d, prediction, 10, 2), OSP_OK);
    assert_int_equal(propose(d, tokens, 2, out, 4), 4);
    assert_int_equal(out[0], 10);
    assert_int_equal(propose(d, tokens, 5, out, 4), 4);
    assert_int_equal(out[0], 13);
    assert_int_equal(propose(d, tokens, 6, out, 4), 4); /* as if 13 had been replaced by 50 */
    assert_int_equal(out[0], 14);
    assert_int_equal(propose(d, tokens, 7, out, 4), 4);
    assert_int_equal(out[0], 15);
    assert_int_equal(propose(d, tokens, 13, out, 4), 2); /* 15 16 17: the place is found again */
    assert_int_equal(out[0], 18);
    drafter_free(d);
}

/* An answer that has nothing of the prediction, and one that comes to it late. */
static void test_prediction_waits_for_its_place(void **state)
{
    enum { N = 200 };
    int32_t prediction[40], tokens[N], out[4];
    struct drafter *d;

    (void)state;
    for (int i = 0; i < 40; i++)
        prediction[i] = 1000 + i;
    for (int i = 0; i < N; i++)
        tokens[i] = i < 150 ? i : 1000 + i - 150;
    assert_int_equal(prediction_drafter_new(&d, prediction, 40, 10), OSP_OK);
    assert_int_equal(propose(d, tokens, 11, out, 4), 4);
    assert_int_equal(propose(d, tokens, 60, out, 4), 0);
    assert_int_equal(propose(d, tokens, 152, out, 4), 0);
    assert_int_equal(propose(d, tokens, 153, out, 4), 4);
    assert_int_equal(out[0], 1003);
    drafter_free(d);
}

/* ---- the choice ---- */

/* Time of a step by its rows, and noise up to a tenth. */
struct device {
    double base_ns, row_ns;
    uint64_t n_steps;
    double noise;
    double pass_ns; /* of a draft head, for one draft; 0: drafts cost nothing */
};

static double step_ns(struct device *d, int n_rows)
{
    const double ns = d->base_ns + d->row_ns * n_rows;

    return ns * (1 + d->noise * (rng_uniform(77, d->n_steps++, 0) - 0.5));
}

struct outcome {
    double ns, n_tokens, n_drafts;
};

/* The head's pass that gives the draft of that depth. */
static void run_pass(struct draft_control *c, struct draft_step *done, const struct device *d,
                     const struct draft_candidate *list, int n_seqs, int depth)
{
    int n = 0;

    for (int i = 0; i < n_seqs; i++)
        n += list[i].n > depth;
    if (n == 0)
        return;
    done->guess_ns += d->pass_ns * n;
    done->fair_guess_ns += draft_control_pass(c, depth == 0, n, d->pass_ns * n);
}

/* n_seqs sequences for n_steps steps, each with n_max drafts that are right with probability p. The
 * controller knows p as its measured acceptance would. */
static struct outcome play(struct device *d, int n_seqs, double p, int n_max, int n_steps,
                           double believed)
{
    struct draft_control c = {.n_steps = 0};
    struct draft_candidate list[64];
    struct outcome out = {0, 0, 0};

    for (int step = 0; step < n_steps; step++) {
        struct draft_step done = {.n_seqs = n_seqs};

        for (int i = 0; i < n_seqs; i++)
            list[i] = d->pass_ns > 0
                          ? chain_of(believed, n_max)
                          : (struct draft_candidate){.acceptance = believed, .n_max = n_max};
        done.n_draft_rows = draft_control_choose(&c, list, n_seqs, n_seqs, 128);
        for (int i = 0, n = 0; i < n_seqs; i++) {
            n += list[i].n;
            assert_true(list[i].n >= 0 && list[i].n <= n_max);
            for (int k = 0; k < list[i].n; k++) {
                if (rng_uniform(5, (uint64_t)step, (uint32_t)(i * 16 + k)) >= p)
                    break;
                done.n_accepted++;
            }
            assert_true(i < n_seqs - 1 || n == done.n_draft_rows);
        }
        for (int depth = 0; d->pass_ns > 0 && depth < n_max; depth++)
            run_pass(&c, &done, d, list, n_seqs, depth);
        done.ns = step_ns(d, n_seqs + done.n_draft_rows) + done.guess_ns;
        draft_control_step(&c, &done);
        out.ns += done.ns;
        out.n_tokens += n_seqs + done.n_accepted;
        out.n_drafts += done.n_draft_rows;
    }
    return out;
}

/* Tokens a second in relation to no drafts at all. */
static double speedup(const struct outcome *o, struct device d, int n_seqs)
{
    return o->n_tokens / o->ns * (d.base_ns + d.row_ns * n_seqs) / n_seqs;
}

enum { N_DEVICES_PLAYED = 4 };
static const struct device GPU = {.base_ns = 8e5, .row_ns = 6e4, .noise = 0.1};
static const struct {
    const char *name;
    struct device device;
} DEVICES[N_DEVICES_PLAYED] = {
    {"CPU", {.base_ns = 1e5, .row_ns = 5e5, .noise = 0.1}},
    {"GPU", {.base_ns = 8e5, .row_ns = 6e4, .noise = 0.1}},
    {"CPU with a head", {.base_ns = 1e5, .row_ns = 5e5, .noise = 0.1, .pass_ns = 1e5}},
    {"GPU with a head", {.base_ns = 8e5, .row_ns = 6e4, .noise = 0.1, .pass_ns = 5e4}},
};

/* However sure the drafter is: drafts that are all rejected cost at most 2 %. */
static void test_rejected_drafts_cost_little(void **state)
{
    static const int seqs[] = {1, 8, 64};
    static const double believed[] = {0, 0.3, 0.8, 0.99};

    (void)state;
    for (size_t s = 0; s < 3; s++)
        for (size_t b = 0; b < 4; b++)
            for (int i = 0; i < N_DEVICES_PLAYED; i++) {
                struct device d = DEVICES[i].device;
                const struct outcome o = play(&d, seqs[s], 0, 8, 5000, believed[b]);
                const double relative = speedup(&o, d, seqs[s]);

                if (relative < 0.98)
                    fail_msg("%d streams, believed %g, %s: %g", seqs[s], believed[b],
                             DEVICES[i].name, relative);
            }
}

/* The best number of drafts for every sequence, if costs and acceptance are known. */
static double best_speedup(struct device d, int n_seqs, double p, int n_max)
{
    const double alone = d.base_ns + d.row_ns * n_seqs;
    double best = 1, tokens = 1;

    for (int k = 1; k <= n_max; k++) {
        const double ns = d.base_ns + d.row_ns * n_seqs * (1 + k) + d.pass_ns * n_seqs * k;

        tokens += pow(p, k);
        if (tokens * alone / ns > best)
            best = tokens * alone / ns;
    }
    return best;
}

static void test_drafts_that_pay_are_taken(void **state)
{
    static const int seqs[] = {1, 4, 16};
    static const double right[] = {0.5, 0.8, 0.95};

    (void)state;
    for (size_t s = 0; s < 3; s++)
        for (size_t r = 0; r < 3; r++)
            for (int i = 0; i < N_DEVICES_PLAYED; i++) {
                struct device d = DEVICES[i].device;
                const struct outcome o = play(&d, seqs[s], right[r], 8, 5000, right[r]);
                const double have = speedup(&o, d, seqs[s]);
                const double want = best_speedup(d, seqs[s], right[r], 8);

                if (have < 0.98 || have < 1 + 0.8 * (want - 1) - 0.03)
                    fail_msg("%d streams, %g right, %s: %g, the best is %g", seqs[s], right[r],
                             DEVICES[i].name, have, want);
            }
}

/* Drafts that stop being right stop being verified. */
static void test_drafts_that_turn_wrong_stop(void **state)
{
    struct draft_control c = {.n_steps = 0};
    struct draft_acceptance a = {.mean = 0.8};
    struct device d = GPU;
    double lost_ns = 0;
    int n_late = 0;

    (void)state;
    for (int step = 0; step < 4000; step++) {
        struct draft_candidate one = {.acceptance = a.mean, .n_max = 8};
        struct draft_step done = {.n_seqs = 1};

        done.n_draft_rows = draft_control_choose(&c, &one, 1, 1, 8);
        done.n_accepted = step < 2000 ? done.n_draft_rows : 0;
        done.ns = step_ns(&d, 1 + done.n_draft_rows);
        draft_control_step(&c, &done);
        for (int i = 0; i < (step < 2000 ? 4 : 1); i++)
            draft_acceptance_add(&a, step < 2000, 0.125);
        if (step >= 2000)
            lost_ns += d.row_ns * done.n_draft_rows;
        n_late += step >= 2100 && done.n_draft_rows > 0;
    }
    assert_int_equal(n_late, 0);
    assert_true(lost_ns < 20 * d.base_ns);
}

/* Without measured steps, without rows and without candidates nothing is chosen. */
static void test_nothing_to_choose(void **state)
{
    struct draft_control c = {.n_steps = 0};
    struct draft_candidate one = {.acceptance = 0.9, .n_max = 8};
    const struct draft_step plain = {.n_seqs = 1, .ns = 1e6};

    (void)state;
    assert_int_equal(draft_control_choose(&c, &one, 1, 1, 8), 0);
    for (int i = 0; i < 4; i++)
        draft_control_step(&c, &plain);
    assert_int_equal(draft_control_choose(&c, &one, 1, 1, 0), 0);
    assert_int_equal(draft_control_choose(&c, &one, 0, 1, 8), 0);
    assert_true(draft_control_choose(&c, &one, 1, 1, 8) > 0);
    assert_true(draft_control_cost_ns(&c, 1) > 0);
    assert_true(draft_control_cost_ns(&c, 9) == 0);
}

/* Requests of 100 steps, whose head takes a tenth of each step that it follows and never gives a
 * token: it follows a few of them, at the cost of its share, and the first one. */
static void test_following_costs_its_share(void **state)
{
    const double step_ns = 1e6, follow_ns = 1e5;
    struct draft_control c = {.n_steps = 0};
    double cost_ns = 0;
    int n_followed = 0;

    (void)state;
    for (int request = 0; request < 500; request++) {
        const bool is_followed = draft_control_begins_following(&c, 100, 100);

        n_followed += is_followed;
        for (int i = 0; i < 100; i++) {
            draft_control_follow(&c, 1, step_ns, is_followed ? follow_ns : 0);
            cost_ns += is_followed ? follow_ns : 0;
        }
    }
    assert_true(n_followed > 10 && n_followed < 60);
    assert_true(cost_ns <= DRAFT_FOLLOW_SHARE * 500 * 100 * step_ns + 100 * follow_ns);
}

/* Gains of the head's drafts pay for it: every request is followed. */
static void test_following_that_pays(void **state)
{
    const struct draft_step paying = {.n_seqs = 1,
                                      .n_draft_rows = 3,
                                      .n_accepted = 3,
                                      .ns = 1.5e6,
                                      .guess_ns = 1e5,
                                      .fair_guess_ns = 1e5};
    struct draft_control c = {.n_steps = 0};

    (void)state;
    for (int i = 0; i < 8; i++)
        draft_control_step(&c, &(struct draft_step){.n_seqs = 1, .ns = 1e6});
    for (int i = 0; i < 2000; i++) {
        draft_control_step(&c, &paying);
        draft_control_follow(&c, 1, paying.ns, 2e5);
        assert_true(i < 8 || c.head_ns >= 0);
    }
}

/* Bounds of costs: between and beyond the measured numbers of rows. */
static void test_bounds_of_costs(void **state)
{
    struct step_costs c = {.low = {0}};
    struct cost_bounds b = step_costs_bounds(&c, 5);

    (void)state;
    assert_true(b.least_ns == 0 && b.most_ns == 0);
    for (int i = 0; i < 2; i++)
        step_costs_add(&c, 8, 800, 0, i);
    b = step_costs_bounds(&c, 0);
    assert_true(b.least_ns == 0 && b.most_ns == 0);
    b = step_costs_bounds(&c, 2); /* fewer rows: from in proportion to as much */
    assert_true(b.least_ns == 200 && b.most_ns == 800);
    b = step_costs_bounds(&c, 16); /* more: from as much to in proportion */
    assert_true(b.least_ns == 800 && b.most_ns == 1600);
    for (int i = 0; i < 2; i++)
        step_costs_add(&c, 16, 1000, 0, i);
    b = step_costs_bounds(&c, 12);
    assert_true(b.least_ns == 900 && b.most_ns == 900);
    b = step_costs_bounds(&c, 32); /* by the mean of the rows from 8 on */
    assert_true(b.least_ns == 1400 && b.most_ns == 1400);
    b = step_costs_bounds(&c, 40); /* too far away */
    assert_true(b.least_ns == 1000 && b.most_ns == 1600);
}

/* Each number of rows may build a graph: such steps do not become the time of a class of several
 * numbers, and longer ones do. */
static void test_graphs_are_no_costs(void **state)
{
    struct step_costs c = {.low = {0}};

    (void)state;
    for (int i = 0; i < 5; i++)
        step_costs_add(&c, 65 + i, 30e6, 12e6, i);
    for (int i = 0; i < 2; i++)
        step_costs_add(&c, 65, 13e6, 12e6, i);
    assert_true(step_costs_measured_ns(&c, 80) == 13e6);
    assert_true(step_costs_measured_ns(&c, 64) == 0 && step_costs_measured_ns(&c, 81) == 0);
    for (int i = 0; i < 40; i++)
        step_costs_add(&c, 97, 30e6, 12e6, i);
    assert_true(step_costs_measured_ns(&c, 112) == 30e6);
}

/* A server with 64 streams that has seen one request guess at a time, and a step with drafts. */
static void test_a_pass_guesses_for_all(void **state)
{
    struct draft_control c = {.n_steps = 0};
    const struct draft_step plain = {.n_seqs = 64, .ns = 12e6};
    struct draft_candidate list[64];
    int n, n_again;

    (void)state;
    for (int i = 0; i < 4; i++) {
        draft_control_step(&c, &plain);
        (void)draft_control_pass(&c, true, 1, 2e5);
        (void)draft_control_pass(&c, false, 1, 2e5);
    }
    for (int i = 0; i < 8; i++) { /* each number of rows up to 128 is measured */
        draft_control_step(&c, &(struct draft_step){.n_seqs = 64,
                                                    .n_draft_rows = 8 * (1 + i),
                                                    .n_accepted = 8 * (1 + i),
                                                    .ns = 12e6 + 0.2e6 * (1 + i)});
        draft_control_step(&c, &(struct draft_step){.n_seqs = 64,
                                                    .n_draft_rows = 8 * (1 + i),
                                                    .n_accepted = 8 * (1 + i),
                                                    .ns = 12e6 + 0.2e6 * (1 + i)});
    }
    for (int i = 0; i < 4; i++)
        draft_control_step(&c, &plain);
    for (int i = 0; i < 64; i++)
        list[i] = chain_of(0.9, 1);
    n = draft_control_choose(&c, list, 64, 64, 64);
    assert_true(n > 0);
    for (int i = 0; i < 2; i++)
        (void)draft_control_pass(&c, true, n, 2.2e5);
    n = draft_control_choose(&c, list, 64, 64, 64);
    n_again = draft_control_choose(&c, list, 64, 64, 64);
    assert_int_equal(n, n_again);
    for (int i = 0; i < 2; i++)
        (void)draft_control_pass(&c, true, n, 2.2e5);
    assert_int_equal(draft_control_choose(&c, list, 64, 64, 64), 64);
}

/* ---- a server with a draft head ---- */

enum { N_SERVERS = 3, N_SEEDS = 32 };
static const struct server SERVERS[N_SERVERS] = {
    {.name = "H200",
     .steps = {{1, 1290},
               {2, 2010},
               {3, 2570},
               {4, 3025},
               {5, 3755},
               {8, 5040},
               {64, 17000},
               {192, 30000}},
     .first_us = 178,
     .later_us = 155,
     .wait_us = 50,
     .taps_us = 10,
     .copy_us = 4,
     .graph_us = 20000,
     .noise = 0.06,
     .prompt_us = 5000,
     .follow_us = 500},
    {.name = "H100",
     .steps = {{1, 1520},
               {2, 2450},
               {3, 3250},
               {4, 3950},
               {5, 4500},
               {8, 6000},
               {64, 20500},
               {192, 36000}},
     .first_us = 215,
     .later_us = 190,
     .wait_us = 60,
     .taps_us = 10,
     .copy_us = 4,
     .hidden_us = 12,
     .graph_us = 20000,
     .noise = 0.06,
     .prompt_us = 5000,
     .follow_us = 500},
    {.name = "CPU",
     .steps = {{1, 600}, {2, 1100}, {64, 32100}, {192, 96100}},
     .first_us = 100,
     .later_us = 100,
     .taps_us = 2,
     .copy_us = 2,
     .noise = 0.06,
     .prompt_us = 5000,
     .follow_us = 500},
};

/* P for every draft. */
static double best_constant(const struct server *s, double p)
{
    double right[DRAFTS_OF_SERVER];

    for (int i = 0; i < DRAFTS_OF_SERVER; i++)
        right[i] = p;
    return best_fixed(s, right);
}

static double serve_constant(struct served *v, int n_seqs, int n_tokens, double p)
{
    return serve(v, n_seqs, n_tokens, &(struct profile){.p = p});
}

/* The first request of a new server: after 256 tokens, drafts that pay are taken, about as many as
 * are best; the next requests have them from their start. */
static void test_a_head_that_is_right_is_used_soon(void **state)
{
    static const double right[] = {0.9, 0.95, 0.8, 0.7};

    (void)state;
    for (int i = 0; i < N_SERVERS; i++)
        for (size_t r = 0; r < 4; r++) {
            const double best = best_constant(&SERVERS[i], right[r]);
            double first = 0, later = 0;

            for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
                struct served v = new_server(&SERVERS[i], seed);

                begin_requests(&v, 1, PROMPT_ROWS);
                (void)serve_constant(&v, 1, 256, right[r]);
                first += serve_constant(&v, 1, 256, right[r]) / N_SEEDS;
                begin_requests(&v, 1, PROMPT_ROWS);
                later += serve_constant(&v, 1, 512, right[r]) / N_SEEDS;
            }
            if (first < 0.95 * best || later < 0.95 * best)
                fail_msg("%s, %g right: the best is %g; after 256 tokens %g, next request %g",
                         SERVERS[i].name, right[r], best, first, later);
        }
}

/* Drafts that are never right, from the first request on, whose prompts are counted. */
static void test_a_head_that_is_wrong_costs_little(void **state)
{
    static const int seqs[] = {1, 8, 64};

    (void)state;
    for (int i = 0; i < N_SERVERS; i++)
        for (size_t s = 0; s < 3; s++) {
            double speed[4] = {0};

            for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
                struct served v = new_server(&SERVERS[i], seed);

                for (int request = 0; request < 4; request++) {
                    begin_requests(&v, seqs[s], PROMPT_ROWS);
                    speed[request] += serve_constant(&v, seqs[s], 256, 0) / N_SEEDS;
                }
            }
            for (int request = 0; request < 4; request++)
                if (speed[request] < 0.98)
                    fail_msg("%s, %d streams, request %d: %g", SERVERS[i].name, seqs[s], request,
                             speed[request]);
        }
}

/* Within an answer. A head that becomes right late is seen by single guesses only. */
static void test_acceptance_changes(void **state)
{
    (void)state;
    for (int i = 0; i < N_SERVERS; i++) {
        const double best = best_constant(&SERVERS[i], 0.9);
        double wrong = 0, right = 0, again = 0;

        for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
            struct served v = new_server(&SERVERS[i], seed);

            begin_requests(&v, 1, PROMPT_ROWS);
            (void)serve_constant(&v, 1, 512, 0.9);
            wrong += serve_constant(&v, 1, 512, 0) / N_SEEDS;
            begin_requests(&v, 1, PROMPT_ROWS);
            (void)serve_constant(&v, 1, 96, 0);
            (void)serve_constant(&v, 1, 192, 0.9);
            right += serve_constant(&v, 1, 256, 0.9) / N_SEEDS;
            again += serve_constant(&v, 1, 512, 0) / N_SEEDS;
        }
        if (wrong < 0.95 || again < 0.95 || right < 0.85 * best)
            fail_msg("%s: wrong %g, right %g of %g, wrong again %g", SERVERS[i].name, wrong, right,
                     best, again);
    }
}

/* osprey-nano and its head on two threads of a CPU: a followed prompt takes a fifth longer, the
 * first step behind it half as long again, and other processes run on both CPUs. */
static const struct server NANO = {.name = "nano",
                                   .steps = {{1, 720}, {2, 1250}, {4, 1950}, {64, 30000}},
                                   .first_us = 230,
                                   .later_us = 225,
                                   .taps_us = 1,
                                   .copy_us = 1,
                                   .noise = 0.1,
                                   .cold = 0.6,
                                   .prompt_row_us = 400,
                                   .follow_row_us = 80};

/* Prompts of seven kinds, as in its held-out prompts, of which the longest would never pay. */
static double serve_prompts(struct served *v, int n_rounds, double p)
{
    static const struct {
        int n_rows, n_tokens;
    } kinds[] = {{70, 38}, {70, 64}, {220, 44}, {1200, 59}, {170, 81}, {280, 45}, {75, 38}};

    for (int i = 0; i < n_rounds * 7; i++) {
        begin_requests(v, 1, kinds[i % 7].n_rows);
        (void)serve_constant(v, 1, kinds[i % 7].n_tokens, p);
    }
    return v->plain_us / (v->us - v->graphs_us);
}

static void test_a_small_head_on_a_cpu(void **state)
{
    static const double right[] = {0, 0.7, 0.95};
    static const double late_every_us[] = {0, 8000};

    (void)state;
    for (size_t late = 0; late < 2; late++)
        for (size_t r = 0; r < 3; r++) {
            struct server s = NANO;
            double speed = 0;

            s.late_us = 3000;
            s.late_every_us = late_every_us[late];
            s.drift = late > 0 ? 0.8 : 0;
            s.drift_every_us = 3e5;
            for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
                struct served v = new_server(&s, seed);

                speed += serve_prompts(&v, 12, right[r]) / N_SEEDS;
            }
            if (speed < 0.98)
                fail_msg("nano, %g right, late every %g us: %g", right[r], late_every_us[late],
                         speed);
        }
}

UNIT_MAIN(cmocka_unit_test(test_index_finds_the_longest_match),
          cmocka_unit_test(test_index_grows_in_pieces),
          cmocka_unit_test(test_ngram_drafts_what_followed),
          cmocka_unit_test(test_prediction_follows_the_answer),
          cmocka_unit_test(test_prediction_waits_for_its_place),
          cmocka_unit_test(test_rejected_drafts_cost_little),
          cmocka_unit_test(test_drafts_that_pay_are_taken),
          cmocka_unit_test(test_drafts_that_turn_wrong_stop),
          cmocka_unit_test(test_nothing_to_choose),
          cmocka_unit_test(test_following_costs_its_share),
          cmocka_unit_test(test_following_that_pays), cmocka_unit_test(test_bounds_of_costs),
          cmocka_unit_test(test_graphs_are_no_costs), cmocka_unit_test(test_a_pass_guesses_for_all),
          cmocka_unit_test(test_a_head_that_is_right_is_used_soon),
          cmocka_unit_test(test_a_head_that_is_wrong_costs_little),
          cmocka_unit_test(test_acceptance_changes), cmocka_unit_test(test_a_small_head_on_a_cpu))
