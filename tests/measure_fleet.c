/* A fleet of replicas behind a router, on a simulated clock: throughput, time to first token, cache
 * hits, lost requests. A replica is the engine's scheduler with its prefix cache (engine/sched) and
 * steps that take as long as measured ones; the router is the engine's own rule (engine/route) or
 * one of four simpler ones. Users hold conversations, or are agents that call tools.
 *
 *     build/tests/measure_fleet [KEY=VALUE...]      prints one line of JSON; docs/fleet.md
 *
 * Not simulated: network, tokenization, the router's own time and delay, swapping. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "engine/memory/memory_plan.h"
#include "engine/route/router.h"
#include "engine/sched/sched.h"

enum {
    MESSAGES_MAX = 128, /* of a conversation */
    END_TOKEN = 200007, /* <|end|>: where the cache keeps the windows */
    VOCABULARY = 1 << 17,
    WINDOW_TOKENS = 128,
    SAMPLES_MAX = 4 << 20 /* times to first token */
};

static void check(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "measure_fleet: %s\n", fail_message());
    exit(1);
}

/* ---- options ---- */

/* X(name, default, text) */
#define OPTION_LIST(X)                                                                             \
    X(replicas, 10, "replicas")                                                                    \
    X(users, 300, "users that are active at once, in all")                                         \
    X(workload, 0, "0 chat, 1 agents that call tools, 2 the benchmark row served-120b")            \
    X(routing, 4, "0 round-robin, 1 least load, 2 session, 3 random, 4 by prefix and load")        \
    X(seconds, 120, "simulated time; the first third is not counted")                              \
    X(seed, 1, "")                                                                                 \
    X(lost, 0, "replicas that fail after half of the time")                                        \
    X(reload, 60, "seconds until a lost replica is back, with an empty cache")                     \
    X(slow, 0, "replicas whose steps take twice as long")                                          \
    X(seqs, 128, "sequences of a replica in a step")                                               \
    X(pages, 20000, "pages of full layers in a replica's cache, and a quarter for windows")        \
    X(apps, 20, "different system prompts")                                                        \
    X(resend, 1, "1: requests without a token are sent again when their replica is lost")

struct options {
#define OPTION_MEMBER(name, value, text) int name;
    OPTION_LIST(OPTION_MEMBER)
#undef OPTION_MEMBER
};

static struct options options = {
#define OPTION_DEFAULT(name, value, text) .name = (value),
    OPTION_LIST(OPTION_DEFAULT)
#undef OPTION_DEFAULT
};

static void read_option(const char *word)
{
    const char *value = strchr(word, '=');
    const size_t n = value != NULL ? (size_t)(value - word) : 0;

#define OPTION_READ(name, initial, text)                                                           \
    if (n == strlen(#name) && strncmp(word, #name, n) == 0) {                                      \
        options.name = (int)strtol(value + 1, NULL, 10);                                           \
        return;                                                                                    \
    }
    OPTION_LIST(OPTION_READ)
#undef OPTION_READ
    fprintf(stderr, "measure_fleet: \"%s\" is not KEY=VALUE with one of these keys:\n", word);
#define OPTION_PRINT(name, initial, text)                                                          \
    fprintf(stderr, "  %-10s %8d  %s\n", #name, initial, text);
    OPTION_LIST(OPTION_PRINT)
#undef OPTION_PRINT
    exit(2);
}

/* ---- workloads ---- */

/* Means; lengths are log-normal unless is_fixed, turns and pauses exponential. */
struct workload {
    int system_tokens, question_tokens, question_most, answer_tokens, answer_most, turns;
    double pause_s;
    bool is_fixed;
};

static const struct workload WORKLOADS[] = {
    /* people: a system prompt of the application, short questions, half a minute to read */
    {1000, 150, 2000, 400, 4000, 5, 30, false},
    /* agents: instructions and tools, results of tools as questions, no pause but the tool's */
    {6000, 1500, 8000, 250, 2000, 15, 3, false},
    {0, 1024, 1024, 1024, 1024, 1, 0, true},
};

static const struct workload *workload(void)
{
    return &WORKLOADS[options.workload];
}

/* ---- random numbers ---- */

static uint64_t n_drawn;

static double uniform(void)
{
    return rng_uniform((uint64_t)options.seed, n_drawn++, 0);
}

static double exponential(double mean)
{
    return -mean * log(1 - uniform());
}

/* With this mean; sigma 0.8 makes the largest of a hundred about five times as large. */
static int lengths(double mean, int least, int most)
{
    const double sigma = 0.8, normal = sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
    const double n = mean * exp(sigma * normal - sigma * sigma / 2);

    return n < least ? least : n > most ? most : (int)n;
}

/* ---- what steps cost: gpt-oss-120b, all MXFP4, on one H200 (docs/performance-gpu.md) ---- */

struct cost {
    double rows, us;
};

/* At position 1,000. */
static const struct cost DECODE[] = {{1, 1338},    {2, 2013},    {4, 3395},    {8, 4867},
                                     {16, 7695},   {32, 11799},  {64, 16277},  {128, 22849},
                                     {256, 30025}, {512, 42104}, {1024, 65295}};
static const struct cost PREFILL[] = {{1, 6843},    {32, 26900},   {128, 36100},
                                      {512, 41300}, {2048, 65200}, {8192, 222600}};
/* 36.9 KB of keys and values of the full layers, at the 4 TB/s that 32k of context show. */
static const double KEY_US = 0.0092, DECODE_POSITION = 1000;

static double interpolate(const struct cost *table, size_t n, double rows)
{
    size_t i = 1;

    while (i + 1 < n && table[i].rows < rows)
        i++;
    return table[i - 1].us + (table[i].us - table[i - 1].us) * (rows - table[i - 1].rows) /
                                 (table[i].rows - table[i - 1].rows);
}

static double step_us(const struct step_plan *plan)
{
    double n_prefill = plan->n_prefill_rows, n_decode = plan->n_rows - plan->n_prefill_rows;
    double keys = 0, us = 0;

    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].n_rows == 1)
            keys += plan->chunks[i].first - DECODE_POSITION;
    if (n_decode > 0)
        us += interpolate(DECODE, sizeof DECODE / sizeof DECODE[0], n_decode) + keys * KEY_US;
    if (n_prefill > 0)
        us += interpolate(PREFILL, sizeof PREFILL / sizeof PREFILL[0], n_prefill);
    return us > 500 ? us : 500;
}

/* ---- users ---- */

/* A conversation: tokens follow from its number and their position; the system prompt's from the
 * number of the application. */
struct user {
    uint64_t conversation;
    int app, n_system, n_tokens;    /* known so far: prompt of the next request */
    int ends[MESSAGES_MAX], n_ends; /* positions after messages */
    int n_turns_left;
    int replica;         /* that has its request; -1: none */
    uint64_t first_ns;   /* of its answer's first token */
    uint64_t arrival_ns; /* of its request, first sent */
    bool is_counted;
    int n_pending; /* of the replica's, until a token comes */
    struct seq seq;
};

static struct user *users;

/* Only whether two tokens are equal matters, so a cheap mixture of number and position will do. */
static int32_t token_of(const struct user *u, int position)
{
    const uint64_t of = position < u->n_system ? (uint64_t)u->app : u->conversation + (1u << 20);
    const uint64_t h = (of << 32 | (uint64_t)position) * 0x9E3779B97F4A7C15u;

    return (int32_t)((h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 32) & (VOCABULARY - 1);
}

static void end_message(struct user *u)
{
    if (u->n_ends < MESSAGES_MAX)
        u->ends[u->n_ends++] = u->n_tokens;
}

static void add_question(struct user *u)
{
    const struct workload *w = workload();

    u->n_tokens +=
        w->is_fixed ? w->question_tokens : lengths(w->question_tokens, 5, w->question_most);
    end_message(u);
}

static void begin_conversation(struct user *u)
{
    static uint64_t n_conversations;

    u->conversation = ++n_conversations;
    u->app = (int)(uniform() * options.apps);
    u->n_ends = 0;
    u->n_tokens = u->n_system = workload()->system_tokens;
    u->n_turns_left = 1 + (int)exponential(workload()->turns - 1);
    if (u->n_system > 0)
        end_message(u);
    add_question(u);
}

static int32_t token_at(const struct user *u, int position)
{
    for (int i = 0; i < u->n_ends; i++)
        if (position == u->ends[i] - 1)
            return END_TOKEN;
    return token_of(u, position);
}

/* The prompt, to free(). */
static int32_t *prompt_of(const struct user *u)
{
    int32_t *tokens = mem_new((size_t)u->n_tokens * sizeof *tokens);

    for (int i = 0; i < u->n_tokens; i++)
        tokens[i] = token_of(u, i);
    for (int i = 0; i < u->n_ends; i++)
        tokens[u->ends[i] - 1] = END_TOKEN;
    return tokens;
}

/* ---- events ---- */

enum event_kind { ARRIVAL, STEP_END, FAILURE, RETURN };

struct event {
    uint64_t at_ns;
    enum event_kind kind;
    int id;    /* a user or a replica */
    int epoch; /* STEP_END: of a process of the replica that may be gone */
};

static struct event *heap;
static size_t n_events, heap_capacity;

static void swap_events(size_t a, size_t b)
{
    const struct event e = heap[a];

    heap[a] = heap[b];
    heap[b] = e;
}

static void push(struct event e)
{
    size_t i = n_events;

    check(mem_try_grow(&heap, n_events, &heap_capacity, sizeof *heap, "events"));
    heap[n_events++] = e;
    for (; i > 0 && heap[(i - 1) / 2].at_ns > heap[i].at_ns; i = (i - 1) / 2)
        swap_events(i, (i - 1) / 2);
}

static struct event pop(void)
{
    const struct event first = heap[0];

    heap[0] = heap[--n_events];
    for (size_t i = 0, child; (child = 2 * i + 1) < n_events; i = child) {
        child += child + 1 < n_events && heap[child + 1].at_ns < heap[child].at_ns;
        if (heap[i].at_ns <= heap[child].at_ns)
            break;
        swap_events(i, child);
    }
    return first;
}

/* ---- replicas ---- */

struct replica {
    struct sched *sched; /* NULL: it is down */
    struct sched_limits limits;
    bool is_busy, is_slow;
    int epoch, n_unfinished;
    int64_t n_pending;
    uint64_t step_ns; /* of the step in flight */
    int *users;       /* (n_unfinished) whose requests it has */
};

static struct replica *replicas;
static struct replica_load *loads;
static struct router *router;
static uint64_t now_ns, counted_from_ns;

struct samples {
    float *ms;
    size_t n;
};

static struct {
    struct samples first, gaps; /* times to first token; mean times between tokens of a request */
    int64_t n_done, n_tokens, n_prompt, n_cached, n_lost, n_resent, n_refused, n_arrived;
    double busy_s;
} figures;

static struct sched_limits limits_of_replica(void)
{
    struct sched_limits l = {.n_seqs_max = options.seqs,
                             .n_batch_tokens_max = memory_batch_tokens(options.seqs, true),
                             .context_tokens_max = 131072,
                             .window_tokens = WINDOW_TOKENS,
                             .bypass_max = BYPASS_MAX_DEFAULT,
                             .message_end_ids = {END_TOKEN},
                             .n_message_end_ids = 1};

    l.n_pages[GROUP_FULL] = options.pages;
    l.n_pages[GROUP_WINDOW] = options.pages / 4;
    return l;
}

static void open_replica(struct replica *r)
{
    r->limits = limits_of_replica();
    check(sched_new(&r->sched, &r->limits));
    r->is_busy = false;
    r->n_unfinished = 0;
    r->n_pending = 0;
}

static void begin_step(int id)
{
    struct replica *r = &replicas[id];
    const struct step_plan *plan = sched_plan(r->sched, now_ns);

    sched_moves_done(r->sched);
    r->is_busy = plan->n_chunks > 0;
    if (!r->is_busy)
        return;
    r->step_ns = (uint64_t)(step_us(plan) * 1e3) << r->is_slow;
    sched_begin(r->sched);
    if (now_ns >= counted_from_ns)
        figures.busy_s += (double)r->step_ns * 1e-9;
    push((struct event){now_ns + r->step_ns, STEP_END, id, r->epoch});
}

/* ---- routing ---- */

enum routing { ROUND_ROBIN, LEAST_LOAD, SESSION, RANDOM, BY_PREFIX };

static void read_loads(void)
{
    for (int i = 0; i < options.replicas; i++)
        loads[i] =
            (struct replica_load){.state = replicas[i].sched != NULL ? REPLICA_OK : REPLICA_DOWN,
                                  .n_unfinished = replicas[i].n_unfinished,
                                  .n_seqs_max = options.seqs,
                                  .n_pending_tokens = replicas[i].n_pending};
}

/* The next replica from `first` on that is there; -1: none. */
static int first_up(int first)
{
    for (int k = 0; k < options.replicas; k++)
        if (replicas[(first + k) % options.replicas].sched != NULL)
            return (first + k) % options.replicas;
    return -1;
}

static int route(const struct user *u, const struct route_prefix *p, int *n_cached)
{
    static int next;

    *n_cached = 0;
    switch ((enum routing)options.routing) {
    case ROUND_ROBIN:
        next = first_up((next + 1) % options.replicas);
        return next < 0 ? next = 0, -1 : next;
    case SESSION:
        return first_up((int)(rng_bits(u->conversation, 0, 9) % (uint64_t)options.replicas));
    case RANDOM:
        return first_up((int)(uniform() * options.replicas));
    case LEAST_LOAD:
    case BY_PREFIX:
    default:
        read_loads();
        return router_choose(router, p, options.routing == LEAST_LOAD, loads, n_cached);
    }
}

/* ---- requests ---- */

static void submit(int id)
{
    struct user *u = &users[id];
    int32_t *tokens = prompt_of(u);
    const struct workload *w = workload();
    const int n_answer =
        w->is_fixed ? w->answer_tokens : lengths(w->answer_tokens, 10, w->answer_most);
    struct route_prefix p;
    struct replica *r;
    int n_cached;

    check(route_prefix_init(&p, NULL, tokens, u->n_tokens));
    u->replica = route(u, &p, &n_cached);
    if (u->replica < 0) { /* all are down: it tries again */
        figures.n_refused++;
        push((struct event){now_ns + 1000000000u, ARRIVAL, id, 0});
    } else {
        r = &replicas[u->replica];
        if (options.routing == BY_PREFIX)
            router_add(router, u->replica, &p);
        check(seq_init(&u->seq, &r->limits, tokens, u->n_tokens, u->n_tokens + n_answer));
        u->seq.owner = u;
        u->seq.times.submit_ns = now_ns;
        check(sched_add(r->sched, &u->seq));
        r->users[r->n_unfinished++] = id;
        r->n_pending += u->n_tokens - n_cached;
        u->n_pending = u->n_tokens - n_cached;
        if (!r->is_busy)
            begin_step(u->replica);
    }
    route_prefix_release(&p);
    free(tokens);
}

static void arrive(int id)
{
    struct user *u = &users[id];

    u->arrival_ns = now_ns;
    u->is_counted = now_ns >= counted_from_ns;
    figures.n_arrived += u->is_counted;
    submit(id);
}

static void add_sample(struct samples *s, uint64_t ns)
{
    if (s->n < SAMPLES_MAX)
        s->ms[s->n++] = (float)((double)ns * 1e-6);
}

static void forget_pending(struct replica *r, struct user *u)
{
    r->n_pending -= u->n_pending;
    u->n_pending = 0;
}

static void drop_user(struct replica *r, const struct user *u)
{
    for (int i = 0; i < r->n_unfinished; i++)
        if (&users[r->users[i]] == u) {
            r->users[i] = r->users[--r->n_unfinished];
            return;
        }
}

/* The answer becomes part of the conversation, and the user reads it, or the agent calls its
 * tool. */
static void finish(struct user *u)
{
    struct replica *r = &replicas[u->replica];
    const double pause_s = exponential(workload()->pause_s);
    struct route_prefix p;

    if (options.routing == BY_PREFIX) {
        check(route_prefix_init(&p, NULL, u->seq.tokens, u->seq.n_tokens));
        router_add(router, u->replica, &p);
        route_prefix_release(&p);
    }
    if (u->is_counted) {
        const int n_gaps = u->seq.n_tokens - u->seq.n_prompt - 1;

        figures.n_done++;
        if (n_gaps > 0)
            add_sample(&figures.gaps, (now_ns - u->first_ns) / (uint64_t)n_gaps);
        figures.n_prompt += u->seq.n_prompt;
        figures.n_cached += u->seq.n_cached;
    }
    u->n_tokens = u->seq.n_tokens;
    end_message(u);
    forget_pending(r, u);
    drop_user(r, u);
    seq_release(&u->seq);
    if (--u->n_turns_left <= 0 || u->n_ends + 2 > MESSAGES_MAX || u->n_tokens > 100000)
        begin_conversation(u);
    else
        add_question(u);
    push((struct event){now_ns + (uint64_t)(pause_s * 1e9), ARRIVAL, (int)(u - users), 0});
}

static void count_token(struct user *u)
{
    if (u->seq.n_tokens == u->seq.n_prompt + 1) {
        forget_pending(&replicas[u->replica], u);
        u->first_ns = now_ns;
        if (u->is_counted)
            add_sample(&figures.first, now_ns - u->arrival_ns);
    }
    figures.n_tokens += now_ns >= counted_from_ns;
}

static void end_step(int id)
{
    static struct user *done[16384];
    static int32_t tokens[16384];
    struct replica *r = &replicas[id];
    const struct step_plan *plan = sched_in_flight(r->sched);
    int n_done = 0, n = 0;

    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].is_sampled) {
            const struct seq *q = plan->chunks[i].seq;
            const bool is_last = q->n_tokens + 1 == q->n_tokens_max;

            tokens[n++] = is_last ? END_TOKEN : token_at(q->owner, q->n_tokens);
        }
    sched_commit(r->sched, tokens, r->step_ns, now_ns);
    for (int i = 0; i < plan->n_chunks; i++)
        if (plan->chunks[i].is_sampled) {
            struct user *u = plan->chunks[i].seq->owner;

            count_token(u);
            if (u->seq.state == SEQ_ENDED)
                done[n_done++] = u;
        }
    begin_step(id);
    for (int i = 0; i < n_done; i++)
        finish(done[i]);
}

/* ---- failures ---- */

/* A request that has no token yet is sent again; another one is lost, and its user asks again. */
static void lose_replica(int id)
{
    struct replica *r = &replicas[id];
    const int n = r->n_unfinished;
    int *asking = mem_new((size_t)(n + 1) * sizeof *asking);

    memcpy(asking, r->users, (size_t)n * sizeof *asking);
    if (sched_in_flight(r->sched) != NULL)
        sched_abandon(r->sched);
    for (int i = 0; i < n; i++) {
        struct user *u = &users[asking[i]];
        const bool is_untouched = u->seq.n_tokens == u->seq.n_prompt;

        figures.n_resent += is_untouched && options.resend;
        figures.n_lost += !(is_untouched && options.resend);
        (void)sched_remove(r->sched, &u->seq, SEQ_END_CANCELED);
        seq_release(&u->seq);
    }
    sched_free(r->sched);
    r->sched = NULL;
    r->epoch++;
    r->n_unfinished = 0;
    r->n_pending = 0;
    router_clear(router, id);
    push((struct event){now_ns + (uint64_t)options.reload * 1000000000u, RETURN, id, 0});
    for (int i = 0; i < n; i++)
        submit(asking[i]);
    free(asking);
}

/* ---- the run ---- */

static void handle(struct event e)
{
    now_ns = e.at_ns;
    if (e.kind == ARRIVAL)
        arrive(e.id);
    else if (e.kind == STEP_END && e.epoch == replicas[e.id].epoch)
        end_step(e.id);
    else if (e.kind == FAILURE)
        lose_replica(e.id);
    else if (e.kind == RETURN)
        open_replica(&replicas[e.id]);
}

static void start(void)
{
    users = mem_new((size_t)options.users * sizeof *users);
    replicas = mem_new((size_t)options.replicas * sizeof *replicas);
    loads = mem_new((size_t)options.replicas * sizeof *loads);
    figures.first.ms = mem_new(SAMPLES_MAX * sizeof *figures.first.ms);
    figures.gaps.ms = mem_new(SAMPLES_MAX * sizeof *figures.gaps.ms);
    check(router_new(&router, options.replicas, options.pages));
    for (int i = 0; i < options.replicas; i++) {
        open_replica(&replicas[i]);
        replicas[i].users = mem_new((size_t)options.users * sizeof(int));
        replicas[i].is_slow = i < options.slow;
    }
    for (int i = 0; i < options.users; i++) { /* they come over the first sixth of the time */
        begin_conversation(&users[i]);
        push((struct event){(uint64_t)(uniform() * options.seconds / 6 * 1e9), ARRIVAL, i, 0});
    }
    for (int i = 0; i < options.lost; i++)
        push((struct event){(uint64_t)options.seconds * 500000000u, FAILURE,
                            (options.replicas - 1 - i) % options.replicas, 0});
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s)
{
    static const int percents[] = {50, 90, 99};

    qsort(s->ms, s->n, sizeof *s->ms, compare);
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        const size_t at = s->n * (size_t)percents[i] / 100;

        printf(",\"%s_ms_p%d\":%.1f", name, percents[i], s->n > 0 ? (double)s->ms[at] : 0);
    }
}

static void print_figures(double seconds)
{
    const double n_tokens = (double)figures.n_tokens, n_prompt = (double)figures.n_prompt;
    const char *separator = "{";

#define OPTION_JSON(name, value, text)                                                             \
    printf("%s\"" #name "\":%d", separator, options.name);                                         \
    separator = ",";
    OPTION_LIST(OPTION_JSON)
#undef OPTION_JSON
    printf(",\"tokens_s\":%.0f,\"tokens_s_replica\":%.0f", n_tokens / seconds,
           n_tokens / seconds / options.replicas);
    print_samples("first_token", &figures.first);
    print_samples("token", &figures.gaps);
    printf(",\"cache_hit\":%.3f,\"busy\":%.3f",
           n_prompt > 0 ? (double)figures.n_cached / n_prompt : 0,
           figures.busy_s / seconds / options.replicas);
    printf(",\"requests\":%" PRId64 ",\"done\":%" PRId64 ",\"lost_requests\":%" PRId64
           ",\"resent\":%" PRId64 ",\"refused\":%" PRId64 "}\n",
           figures.n_arrived, figures.n_done, figures.n_lost, figures.n_resent, figures.n_refused);
}

int main(int argc, char **argv)
{
    const uint64_t second_ns = 1000000000u;
    uint64_t end_ns;

    for (int i = 1; i < argc; i++)
        read_option(argv[i]);
    if (options.replicas < 1 || options.users < 1 || options.seconds < 3 || options.seqs < 1 ||
        options.pages < 4096 || options.apps < 1 || options.workload < 0 || options.workload > 2 ||
        options.lost > options.replicas) {
        fputs("measure_fleet: replicas, users, seqs and apps must be at least 1, seconds 3, pages "
              "4096, lost at most replicas, and workload from 0 to 2\n",
              stderr);
        return 2;
    }
    end_ns = (uint64_t)options.seconds * second_ns;
    counted_from_ns = end_ns / 3;
    start();
    while (n_events > 0 && heap[0].at_ns < end_ns)
        handle(pop());
    print_figures((double)(end_ns - counted_from_ns) * 1e-9);
    return 0;
}
