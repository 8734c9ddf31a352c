/* Measures what drafts cost and gain: streams with random prompts and greedy answers, without drafts
 * and with predictions whose tokens are right with a given probability, round by round in turn. The
 * engine decides how many drafts are verified. Prints for each probability the tokens a second, by
 * the clock and by the CPU time of the process (which other load on the machine does not change),
 * in relation to no drafts, as medians over the rounds. Not part of make test.
 *
 *     measure_drafts STREAMS [TOKENS [ROUNDS [DEVICE [SHAPE [P...]]]]]
 *         default: 256 tokens, 5 rounds, cpu (one thread), bundled; another SHAPE has dummy weights
 *
 * With MEASURE_HEAD=HEAD in the environment (a folder, or dummy for generated weights) the same drafts
 * come at the cost of that draft head: it computes its guesses, which are then replaced. Each way has
 * an engine of its own, whose first answer is not measured; MEASURE_K is the most drafts in a step,
 * and with MEASURE_ALWAYS all of them are verified. With MEASURE_TREE=-1,-1,0,0 (the parent of each
 * draft) they are trees, of which only the best path can be right: what their rows cost. The ways are not in turn, so no drafts are
 * measured first and last. A GPU's idle time is by its own clock, without the passes of the head; that
 * of the CPU has them.
 *
 * Where no quiet machine is at hand, callgrind counts the instructions of each run:
 *     valgrind --tool=callgrind --dump-before=run measure_drafts 1 128 1 cpu bundled 0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "measure.h"
#include "median.h"

enum { STREAMS_MAX = 256, PROMPT_TOKENS = 32, ROUNDS_MAX = 99, DRAFT_ROWS = 128 };

enum { WAYS_MAX = 9 };
static double right[WAYS_MAX] = {-1, 0, 0.5, 0.8, 0.9, 1}; /* the first way has no predictions */
static int n_ways = 6;

struct measure {
    struct osp_engine *engine;
    int n_streams, n_tokens;
    int32_t *answers; /* (n_streams, n_tokens) without drafts */
    int32_t *prediction;
};

struct speed {
    double seconds, cpu_seconds, n_drafts;
    double idle_us; /* of the device, a step; of a GPU by its own clock */
};

static struct osp_request *submit(struct measure *m, int stream, double p)
{
    struct osp_request_options o = {.tokens_max = m->n_tokens,
                                    .sampling = {.has_temperature = true, .has_seed = true},
                                    .raw = true,
                                    .ignore_stop_tokens = true,
                                    .no_prefix_cache = true,
                                    .prediction = m->prediction};
    const int32_t *answer = m->answers + (size_t)stream * (size_t)m->n_tokens;
    int32_t prompt[PROMPT_TOKENS];
    struct osp_request *r;

    for (int i = 0; i < PROMPT_TOKENS; i++)
        prompt[i] = (int32_t)(rng_bits((uint64_t)stream, (uint64_t)i, 0) % 1000);
    for (int i = 0; i < m->n_tokens && p >= 0; i++)
        m->prediction[i] =
            rng_uniform((uint64_t)stream, (uint64_t)i, 1) < p ? answer[i] : answer[i] ^ 1;
    o.n_prediction = p >= 0 ? m->n_tokens : 0;
    must(osp_submit_tokens(&r, m->engine, prompt, PROMPT_TOKENS, &o));
    return r;
}

/* Keeps the answer if there is none yet, else compares it. */
static void receive(struct measure *m, struct osp_request *r, int stream, bool is_first)
{
    int32_t *answer = m->answers + (size_t)stream * (size_t)m->n_tokens;
    struct osp_event e;
    int n = 0;

    do {
        must(osp_next_event(r, -1, &e));
        for (int i = 0; i < e.n_tokens; i++, n++) {
            if (!is_first && answer[n] != e.tokens[i]) {
                fprintf(stderr, "measure_drafts: stream %d has another token %d\n", stream, n);
                exit(1);
            }
            answer[n] = e.tokens[i];
        }
    } while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR);
    if (n != m->n_tokens) {
        fprintf(stderr, "measure_drafts: stream %d ended after %d tokens\n", stream, n);
        exit(1);
    }
    osp_request_close(r);
}

static struct osp_engine_stats stats_of(const struct measure *m)
{
    struct osp_engine_stats stats;

    osp_engine_get_stats(m->engine, &stats);
    return stats;
}

static __attribute__((noinline)) struct speed run(struct measure *m, double p, bool is_first)
{
    struct osp_request *r[STREAMS_MAX];
    const uint64_t start_ns = clock_ns();
    const double start_cpu = cpu_seconds();
    const struct osp_engine_stats start = stats_of(m);
    struct osp_engine_stats end;

    for (int i = 0; i < m->n_streams; i++)
        r[i] = submit(m, i, p);
    for (int i = 0; i < m->n_streams; i++)
        receive(m, r[i], i, is_first);
    end = stats_of(m);
    return (struct speed){.seconds = (double)(clock_ns() - start_ns) * 1e-9,
                          .cpu_seconds = cpu_seconds() - start_cpu,
                          .n_drafts =
                              (double)(end.drafts.n_draft_tokens - start.drafts.n_draft_tokens),
                          .idle_us = (end.device_idle_seconds - start.device_idle_seconds) * 1e6 /
                                     (double)(end.n_steps - start.n_steps)};
}

static void measure(struct measure *m, int n_rounds)
{
    static double clock[WAYS_MAX][ROUNDS_MAX], cpu[WAYS_MAX][ROUNDS_MAX],
        drafts[WAYS_MAX][ROUNDS_MAX];
    double alone[ROUNDS_MAX];

    (void)run(m, -1, true);
    for (int way = 0; way < n_ways; way++)
        (void)run(m, right[way], false);
    for (int round = 0; round < n_rounds; round++) {
        struct speed none = {.seconds = 0};

        for (int way = 0; way < n_ways; way++) {
            const struct speed s = run(m, right[way], false);

            none = way == 0 ? s : none;
            clock[way][round] = none.seconds / s.seconds;
            cpu[way][round] = none.cpu_seconds / s.cpu_seconds;
            drafts[way][round] = s.n_drafts * 100 / (m->n_streams * m->n_tokens);
        }
        alone[round] = m->n_streams * m->n_tokens / none.seconds;
    }
    printf("%d streams of %d tokens, %d rounds: %.0f tok/s without drafts\n", m->n_streams,
           m->n_tokens, n_rounds, median(alone, n_rounds));
    for (int way = 1; way < n_ways; way++)
        printf("  drafts right with probability %.1f: %.3f times as fast by the clock, %.3f by CPU "
               "time; %.1f drafts verified for 100 tokens\n",
               right[way], median(clock[way], n_rounds), median(cpu[way], n_rounds),
               median(drafts[way], n_rounds));
}

/* ---- with a draft head ---- */

static void choose_tree(struct osp_speculative *s, const char *parents)
{
    for (char *end; parents != NULL && *parents != '\0' && s->n_tree < OSP_DRAFTS_MAX;
         parents = *end == ',' ? end + 1 : end)
        s->tree_parents[s->n_tree++] = (signed char)strtol(parents, &end, 10);
    s->tokens_max = s->n_tree > 0 ? 0 : s->tokens_max;
}

static void open_engine(struct measure *m, struct osp_model *model, bool has_drafts)
{
    const char *k = getenv("MEASURE_K");
    struct osp_engine_options options = {.queue_requests_max = STREAMS_MAX};

    if (has_drafts)
        options.speculative = (struct osp_speculative){.method = OSP_DRAFTS_EAGLE3,
                                                       .tokens_max = k != NULL ? atoi(k) : 0,
                                                       .replays = true,
                                                       .always = getenv("MEASURE_ALWAYS") != NULL};
    if (has_drafts)
        choose_tree(&options.speculative, getenv("MEASURE_TREE"));
    must(osp_engine_open(&m->engine, model, &options));
}

/* Tokens a second, in the median. */
static double measure_way(struct measure *m, struct osp_model *model, double p, int n_rounds,
                          bool is_first)
{
    double speed[ROUNDS_MAX], drafts = 0, idle_us = 0;

    open_engine(m, model, p >= 0);
    (void)run(m, p, is_first);
    for (int round = 0; round < n_rounds; round++) {
        const struct speed s = run(m, p, false);

        speed[round] = m->n_streams * m->n_tokens / s.seconds;
        drafts = s.n_drafts * 100 / (m->n_streams * m->n_tokens);
        idle_us = s.idle_us;
    }
    osp_engine_close(m->engine);
    if (p < 0)
        printf("no drafts: %.1f tok/s, device idle for %.1f us a step\n", median(speed, n_rounds),
               idle_us);
    else
        printf("  head's drafts right with probability %.2f: %.1f tok/s; %.1f verified for 100 "
               "tokens, device idle for %.1f us a step\n",
               p, median(speed, n_rounds), drafts, idle_us);
    return median(speed, n_rounds);
}

static void measure_head(struct measure *m, struct osp_model *model, int n_rounds)
{
    printf("%d streams of %d tokens, %d rounds, head %s\n", m->n_streams, m->n_tokens, n_rounds,
           getenv("MEASURE_HEAD"));
    for (int way = 0; way < n_ways; way++)
        (void)measure_way(m, model, right[way], n_rounds, way == 0);
    (void)measure_way(m, model, -1, n_rounds, false);
}

int main(int argc, char **argv)
{
    const int n_rounds = argc > 3 ? atoi(argv[3]) : 5;
    struct measure m = {.n_streams = argc > 1 ? atoi(argv[1]) : 0,
                        .n_tokens = argc > 2 ? atoi(argv[2]) : 256};
    const char *shape = argc > 5 && strcmp(argv[5], "bundled") != 0 ? argv[5] : NULL;
    const struct osp_model_options options = {.device = argc > 4 ? argv[4] : "cpu",
                                              .n_threads = 1,
                                              .load_format = shape != NULL ? "dummy" : NULL,
                                              .dummy_shape = shape,
                                              .mxfp4_layers = shape != NULL ? "all" : NULL,
                                              .draft_model = getenv("MEASURE_HEAD"),
                                              .context_tokens_max = PROMPT_TOKENS + m.n_tokens,
                                              .n_seqs_max = m.n_streams,
                                              .n_draft_rows_max = DRAFT_ROWS};
    const struct osp_engine_options engine_options = {.queue_requests_max = STREAMS_MAX};
    struct osp_model *model;

    if (m.n_streams < 1 || m.n_streams > STREAMS_MAX || m.n_tokens < 1 || n_rounds < 1 ||
        n_rounds > ROUNDS_MAX) {
        fprintf(stderr,
                "measure_drafts STREAMS [TOKENS [ROUNDS [DEVICE [SHAPE [P...]]]]]: 1 to %d "
                "streams, 1 to %d rounds\n",
                STREAMS_MAX, ROUNDS_MAX);
        return 2;
    }
    for (int i = 6; i < argc && i - 5 < WAYS_MAX; i++) {
        right[i - 5] = atof(argv[i]);
        n_ways = i - 4;
    }
    log_set_level(LOG_WARN);
    must(osp_model_open(&model, &options));
    m.answers = mem_new((size_t)m.n_streams * (size_t)m.n_tokens * sizeof *m.answers);
    m.prediction = mem_new((size_t)m.n_tokens * sizeof *m.prediction);
    if (options.draft_model != NULL) {
        measure_head(&m, model, n_rounds);
    } else {
        must(osp_engine_open(&m.engine, model, &engine_options));
        measure(&m, n_rounds);
        osp_engine_close(m.engine);
    }
    free(m.answers);
    free(m.prediction);
    osp_model_close(model);
    return 0;
}
