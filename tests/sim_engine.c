/* Simulates the engine (tests/sim/sim.h) in many small worlds, and checks after every iteration
 * what must hold. A violation prints its schedule and the command that repeats it.
 *
 *     sim_engine [schedules [first seed]]
 *
 * The default is 8,000: of the planted bugs (tests/sim_bugs) the last was found after 4,862. `make
 * sim` runs a million. CHECK_QUICK in the environment, for builds with sanitizers: a tenth of it. */
#include "sim/sim.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"

enum { SCHEDULES_DEFAULT = 8000, TURNS_MAX = 40 * CONTEXT_MAX };

struct world world;
struct totals totals;
uint64_t sim_now_ns;
int32_t sim_letter[LETTERS];

/* ---- the clock of all code that is linked here ---- */

uint64_t clock_ns(void)
{
    return sim_now_ns;
}

double clock_lap_s(uint64_t *since_ns)
{
    const uint64_t before_ns = *since_ns;

    *since_ns = sim_now_ns;
    return (double)(sim_now_ns - before_ns) * 1e-9;
}

double clock_unix_seconds(void)
{
    return (double)sim_now_ns * 1e-9;
}

int64_t clock_unix_s(void)
{
    return (int64_t)(sim_now_ns / 1000000000u);
}

void clock_date_utc(char out[11])
{
    memcpy(out, "2026-01-31", 11);
}

/* ---- a world ---- */

static struct sched_limits random_limits(void)
{
    static const int windows[] = {1, 2, 63, 64, 65, 127, 128, 129, 200};
    const bool is_tight =
        world.odds.few_pages && world.odds.long_answers; /* requests are preempted */
    struct sched_limits l = {.n_seqs_max = (is_tight ? 3 : 1) + pick(is_tight ? 4 : 6)};
    int n_context, n_window, n_chunk, n_more;

    l.n_batch_tokens_max = l.n_seqs_max + pick(pick(2) ? 16 : 200);
    l.context_tokens_max = is_tight ? CONTEXT_MAX - pick(160) : 2 + pick(CONTEXT_MAX - 2);
    l.window_tokens = windows[pick((int)(sizeof windows / sizeof windows[0]))];
    n_context = pages_of_tokens(l.context_tokens_max);
    n_window = sched_window_pages(l.window_tokens);
    n_chunk = sched_chunk_pages(l.n_batch_tokens_max);
    n_more = world.odds.few_pages ? 3 : n_context * l.n_seqs_max * 2;
    l.n_pages[GROUP_FULL] = n_context + pick(n_more);
    n_more = world.odds.few_pages ? 3 : n_window * l.n_seqs_max + n_context;
    l.n_pages[GROUP_WINDOW] = n_chunk + n_window + pick(n_more);
    return l;
}

static struct odds random_odds(void)
{
    struct odds o = {.arrive = 1 + pick(4),
                     .cancel = pick(3) == 0 ? 40 : 0,
                     .nan = pick(4) == 0,
                     .device = pick(12) == 0 ? 60 : 0,
                     .jump = pick(5) == 0 ? 30 : 0,
                     .limit = pick(3) == 0 ? 4 : 0,
                     .same_priority = pick(2) == 0,
                     .short_answers = pick(4) == 0,
                     .few_pages = pick(2) == 0,
                     .is_behind = pick(4) > 0,
                     .is_async = pick(10) > 0};

    o.is_async = o.is_async && o.is_behind; /* else steps do not overlap */
    o.is_ahead = o.is_behind && world.seed % 3 != 0;
    o.many_users = world.seed % 4 == 1;
    o.has_bursts = mix(world.seed, 505) % 4 != 0;
    o.is_apart = mix(world.seed, 503) % 2 == 0; /* not picked: as in choose_drafts() */
    o.long_answers = !o.short_answers && pick(o.few_pages ? 4 : 2) > 0;
    return o;
}

/* A tree of any form. */
static void choose_tree(struct osp_speculative *s)
{
    const uint64_t bits = mix(world.seed, 507);
    int parent = -1;

    s->n_tree = 1 + (int)(bits % OSP_DRAFTS_MAX);
    s->tokens_max = 0;
    if (s->tokens_min > s->n_tree)
        s->tokens_min = 0;
    for (int i = 0; i < s->n_tree; i++) {
        const int step = (int)(mix(bits, (uint64_t)i) % (bits % 3 == 0 ? 2 : 3));

        parent = parent + step < i ? parent + step : i - 1;
        s->tree_parents[i] = (signed char)parent;
    }
}

/* Not picked at random: a schedule's number must keep its meaning. */
static void choose_drafts(struct osp_speculative *s, struct sched_limits *l)
{
    const uint64_t bits = mix(world.seed, 501);

    world.odds.eagle3 = mix(world.seed, 502) % 3 == 0;

    world.odds.ngram = bits % 4 == 1 || bits % 4 == 3;
    world.odds.predictions = bits % 4 >= 2;
    if (bits % 4 == 0 && !world.odds.eagle3)
        return;
    l->n_draft_rows_max = 1 + (int)(bits / 4 % DRAFT_ROWS_MAX);
    if (l->n_draft_rows_max > l->n_batch_tokens_max - 1)
        l->n_draft_rows_max = l->n_batch_tokens_max - 1;
    s->method = world.odds.ngram ? OSP_DRAFTS_NGRAM : OSP_DRAFTS_OFF;
    s->tokens_max = 1 + (int)(bits / 128 % OSP_DRAFTS_MAX);
    s->tokens_min = bits / 4096 % 4 == 0 && s->tokens_max > 1 ? 2 : 0;
    s->lookup_min = 1 + (int)(bits / 16384 % 3);
    s->always = bits / 65536 % 4 > 0;
    if (!world.odds.eagle3)
        return;
    world.odds.ngram = false;
    world.odds.is_ahead = world.odds.is_behind = mix(world.seed, 504) % 2 == 0;
    world.odds.is_async = world.odds.is_ahead && mix(world.seed, 505) % 4 > 0;
    s->method = OSP_DRAFTS_EAGLE3;
    if (mix(world.seed, 506) % 4 > (world.odds.is_ahead ? 2 : 0))
        choose_tree(s);
}

static void world_open(struct osp_model *model, uint64_t seed)
{
    struct osp_engine_options options = {.queue_requests_max = 1 + (int)(seed % 20)};
    struct sched_limits l;

    memset(&world, 0, sizeof world);
    world.seed = seed;
    sim_now_ns = 1000000000;
    world.odds = random_odds();
    l = random_limits();
    for (int i = 0; i < N_BASES; i++)
        for (int k = 0; k < CONTEXT_MAX; k++)
            world.base[i][k] = sim_letter[pick(40) == 0 ? LETTERS - 2 : pick(4)];
    options.swap_bytes = pick(3) == 0 ? -1 : 1 + pick(400000);
    options.no_prefix_cache = pick(12) == 0;
    choose_drafts(&options.speculative, &l);
    options.no_async_scheduling = world.odds.is_behind && !world.odds.is_async;
    sim_model_limits(&l);
    sim_model_head(world.odds.eagle3);
    CHECK(engine_make(&world.engine, model, &options) == OSP_OK);
    world.engine->sched->limits.slot_share = pick(3) == 0 ? 1 + pick(4) : 0;
    world.engine->sched->limits.n_held_seqs = (int)(mix(seed, 504) % 4); /* there are few */
    world.engine->sched->limits.bypass_max = pick(2) == 0 ? 1 + pick(4) : BYPASS_MAX_DEFAULT;
}

static bool has_live(void)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine)
            return true;
    return false;
}

static void turn(bool arrivals)
{
    if (arrivals)
        callers_arrive();
    callers_cancel();
    if (chance(world.odds.jump))
        sim_now_ns += 50000000;
    engine_poll(world.engine);
    check_before_step();
    engine_advance(world.engine);
    check_after_step();
    callers_read();
    totals.n_turns++;
    world.n_turns++;
}

static void world_close(void)
{
    engine_finish(world.engine);
    CHECK(!world.is_in_flight);
    atomic_store(&world.engine->closing, true);
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->is_mine) {
            CHECK(c->request->seq.state == SEQ_ENDED);
            c->n_tokens = c->request->seq.n_tokens;
            c->is_mine = false;
        }
    callers_hear_out();
    check_at_end();
    engine_free(world.engine);
}

static void live_once(struct osp_model *model, uint64_t seed)
{
    int n_turns, n_left = TURNS_MAX;

    world_open(model, seed);
    n_turns = 20 + pick(world.odds.short_answers ? 200 : 100);
    for (int i = 0; i < n_turns && !world.is_broken; i++)
        turn(true);
    if (pick(4) > 0)
        while (has_live()) {
            CHECK(n_left-- > 0); /* everything comes to an end */
            turn(false);
        }
    world_close();
}

/* ---- log lines of planned failures and of asserts; and how a crash ends ---- */

static int words_fd;

/* A crash may have left the heap in any state: nothing here takes memory. */
static void report_words(int signal_number)
{
    char words[400], told[600];
    off_t size = lseek(words_fd, 0, SEEK_END), at = size > 399 ? size - 399 : 0;
    ssize_t n = pread(words_fd, words, sizeof words - 1, at);

    words[n > 0 ? n : 0] = '\0';
    n = snprintf(told, sizeof told,
                 "sim_engine: violation in schedule %" PRIu64 ": %s%s\nagain: sim_engine 1 %" PRIu64
                 "\n",
                 world.seed, signal_number == SIGABRT ? "" : "memory that is not there; ", words,
                 world.seed);
    n = write(STDOUT_FILENO, told, (size_t)n);
    _exit(1);
}

static void catch_words(void)
{
    FILE *words = tmpfile();

    CHECK(words != NULL);
    words_fd = fileno(words);
    CHECK(dup2(words_fd, STDERR_FILENO) == STDERR_FILENO);
    CHECK(signal(SIGABRT, report_words) != SIG_ERR);
    CHECK(signal(SIGSEGV, report_words) != SIG_ERR && signal(SIGBUS, report_words) != SIG_ERR);
}

static void forget_words(void)
{
    CHECK(ftruncate(words_fd, 0) == 0 && lseek(words_fd, 0, SEEK_SET) == 0);
}

static struct osp_tokenizer *open_tokenizer(void)
{
    struct osp_tokenizer *t;

    CHECK(osp_tokenizer_open(&t, NULL) == OSP_OK);
    for (int i = 0; i < LETTERS; i++) {
        char letter = (char)('a' + i);
        int32_t *ids;
        size_t n;

        CHECK(osp_tokenize(t, &letter, 1, false, &ids, &n) == OSP_OK && n == 1);
        sim_letter[i] = ids[0];
        osp_free(ids);
    }
    return t;
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? atoll(argv[1]) : SCHEDULES_DEFAULT;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct osp_tokenizer *tokenizer = open_tokenizer();
    struct osp_model *model = sim_model(tokenizer);

    if (argc == 1 && getenv("CHECK_QUICK") != NULL)
        n /= 10;
    catch_words();
    for (int64_t i = 0; i < n; i++) {
        live_once(model, seed + (uint64_t)i);
        forget_words();
    }
    osp_tokenizer_close(tokenizer);
    printf("admissions %" PRId64 ", preempted %" PRId64 ", pages swapped %" PRId64
           ", rows again %" PRId64 ", cached tokens %" PRId64 ", pages shared %" PRId64
           ", due %" PRId64 " and keys %" PRId64 ", tokens of prompts scored %" PRId64 "\n",
           totals.n_admissions, totals.n_preemptions, totals.n_swapped, totals.n_again,
           totals.n_cached, totals.n_shared, totals.n_due_total, totals.n_key_dues,
           totals.n_logprobs_done);
    printf("planned ahead and taken %" PRId64 ", of these sent %" PRId64 " with %" PRId64
           " rows for nobody, left while a step was under way %" PRId64 "\n",
           totals.n_ahead, totals.n_sent, totals.n_wasted_rows, totals.n_left);
    printf("drafts verified %" PRId64 ", of these accepted %" PRId64 "\n", totals.n_drafts,
           totals.n_accepted);
    printf("rows of the draft head %" PRId64 ", its guesses %" PRId64
           ", passes behind a step in flight %" PRId64 ", rows of trees %" PRId64
           ", accepted ones moved %" PRId64 "\n",
           totals.n_head_rows, totals.n_guesses, totals.n_behind, totals.n_tree_rows,
           totals.n_slots_moved);
    printf("prompts short of rows beside longer ones %" PRId64 "\n", totals.n_short);
    printf("ends: device %" PRId64 ", NaN %" PRId64 ", time limit %" PRId64 ", stop string %" PRId64
           "\n",
           totals.n_device, totals.n_nan, totals.n_timeouts, totals.n_cuts);
    printf("sim_engine: %" PRId64 " schedules from seed %" PRIu64 ", %" PRId64 " turns, %" PRId64
           " requests, %" PRId64 " rows: 0 violations\n",
           n, seed, totals.n_turns, totals.n_requests, totals.n_rows);
    return 0;
}
