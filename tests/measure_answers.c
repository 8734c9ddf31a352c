/* Measures what a draft head costs and gains in real answers: held-out prompts of osprey-nano, one
 * at a time, greedy, each with every way of drafting in turn. Each way has a model and an engine of
 * its own, which live as long as the program, as a server does; the first request that one gets is
 * measured, too. Not part of make test.
 *
 * Prints the speed of each way in relation to no drafts, by the CPU time of the process (which
 * other load on the machine changes less) and by the clock, of all answers and of the second half
 * of the rounds. No drafts are the first and the last way of a turn, and the mean of both is
 * compared with: what they differ in is the error of the measurement.
 *
 *     measure_answers [PROMPTS [ROUNDS [THREADS [MODEL [HEAD [ABILITY]]]]]]
 *         default: 6 prompts of each ability, 4 rounds, 2 threads, osprey-nano and its head
 *
 * MEASURE_DEVICE=cuda: on a GPU; the times by the clock are those that count there.
 * callgrind counts the instructions of a way alone, named in MEASURE_WAY (none, head, always):
 *     MEASURE_WAY=head valgrind --tool=callgrind measure_answers 2 1 1 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/eval/eval.h"
#include "measure.h"

enum {
    N_WAYS = 4,
    LAST_WAY = N_WAYS - 1,
    ROUNDS_MAX = 99,
    KV_BYTES = 256 << 20 /* on a GPU, which the models share */
};

/* A way of drafting. */
struct way {
    const char *name, *what;
    bool has_head, always;
    struct osp_model *model;
    struct osp_engine *engine;
};

static struct way ways[N_WAYS] = {
    {.name = "none", .what = "no drafts"},
    {.name = "head", .what = "as many as pay", .has_head = true},
    {.name = "always", .what = "every draft", .has_head = true, .always = true},
    {.name = "again", .what = "no drafts, again"}};

/* Of the answers of a way. */
struct speed {
    double seconds, cpu_seconds;
    int64_t n_tokens, n_drafts, n_accepted;
};

static struct osp_draft_stats drafts_of(const struct way *w)
{
    struct osp_engine_stats stats;

    osp_engine_get_stats(w->engine, &stats);
    return stats.drafts;
}

/* The answer's tokens are counted, not read: check_drafts compares them. */
static int64_t answer(const struct way *w, const struct eval_task *task)
{
    const struct osp_request_options options = {.tokens_max = task->tokens_max,
                                                .sampling = {.has_temperature = true},
                                                .no_prefix_cache = true};
    struct osp_event e = {.kind = OSP_EVENT_NONE};
    struct osp_request *r;
    int64_t n_tokens;

    must(osp_submit_chat(&r, w->engine, task->chat, &options));
    while (e.kind != OSP_EVENT_DONE) {
        must(osp_next_event(r, -1, &e));
        if (e.kind == OSP_EVENT_ERROR) {
            fprintf(stderr, "measure_answers: %s: %s\n", task->id, e.text);
            exit(2);
        }
    }
    n_tokens = e.usage.n_generated_tokens;
    osp_request_close(r);
    return n_tokens;
}

static __attribute__((noinline)) void run(struct speed *sum, const struct way *w,
                                          const struct eval_task *task)
{
    const uint64_t start_ns = clock_ns();
    const double start_cpu = cpu_seconds();
    const struct osp_draft_stats start = drafts_of(w);
    struct osp_draft_stats end;

    sum->n_tokens += answer(w, task);
    end = drafts_of(w);
    sum->seconds += (double)(clock_ns() - start_ns) * 1e-9;
    sum->cpu_seconds += cpu_seconds() - start_cpu;
    sum->n_drafts += end.n_draft_tokens - start.n_draft_tokens;
    sum->n_accepted += end.n_accepted_tokens - start.n_accepted_tokens;
}

static bool is_wanted(const struct way *w)
{
    const char *name = getenv("MEASURE_WAY");

    return name == NULL || strcmp(name, w->name) == 0;
}

static void open_way(struct way *w, const char *model, const char *head, int n_threads)
{
    const struct osp_model_options options = {.path = model,
                                              .device = getenv("MEASURE_DEVICE"),
                                              .kv_cache_bytes =
                                                  getenv("MEASURE_DEVICE") != NULL ? KV_BYTES : 0,
                                              .n_threads = n_threads,
                                              .draft_model = w->has_head ? head : NULL,
                                              .n_draft_rows_max = w->has_head ? 64 : 0};
    struct osp_engine_options engine = {.no_prefix_cache = true};

    if (w->has_head)
        engine.speculative =
            (struct osp_speculative){.method = OSP_DRAFTS_EAGLE3, .always = w->always};
    must(osp_model_open(&w->model, &options));
    must(osp_engine_open(&w->engine, w->model, &engine));
}

/* The prompts come by ability; the abilities are taken in turn. */
static void measure_round(struct speed *of_ways, const struct eval_tasks *tasks, int n_each)
{
    const size_t n_abilities = tasks->n / (size_t)n_each;

    for (size_t i = 0; i < tasks->n; i++)
        for (int way = 0; way < N_WAYS; way++)
            if (ways[way].engine != NULL)
                run(&of_ways[way], &ways[way],
                    &tasks->tasks[i % n_abilities * (size_t)n_each + i / n_abilities]);
}

static struct speed sum_of(struct speed (*rounds)[N_WAYS], int way, int first, int end)
{
    struct speed sum = {0};

    for (int i = first; i < end; i++) {
        const struct speed *s = &rounds[i][way];

        sum.seconds += s->seconds;
        sum.cpu_seconds += s->cpu_seconds;
        sum.n_tokens += s->n_tokens;
        sum.n_drafts += s->n_drafts;
        sum.n_accepted += s->n_accepted;
    }
    return sum;
}

static void print_rounds(struct speed (*rounds)[N_WAYS], int way, int first, int end)
{
    const struct speed none = sum_of(rounds, 0, first, end);
    const struct speed again = sum_of(rounds, LAST_WAY, first, end);
    const struct speed s = sum_of(rounds, way, first, end);

    printf("  rounds %2d to %2d: %.1f tokens a CPU second", first + 1, end,
           (double)s.n_tokens / s.cpu_seconds);
    if (none.n_tokens > 0)
        printf(", %.3f by CPU time, %.3f by the clock",
               (none.cpu_seconds + again.cpu_seconds) / 2 / s.cpu_seconds,
               (none.seconds + again.seconds) / 2 / s.seconds);
    printf("; for 100 tokens %.1f drafts verified, %.1f accepted\n",
           (double)s.n_drafts * 100 / (double)s.n_tokens,
           (double)s.n_accepted * 100 / (double)s.n_tokens);
}

static void print_ways(struct speed (*rounds)[N_WAYS], int n_rounds)
{
    for (int way = 0; way < N_WAYS; way++) {
        if (ways[way].engine == NULL)
            continue;
        printf("%s\n", ways[way].what);
        print_rounds(rounds, way, 0, n_rounds);
        if (n_rounds > 1)
            print_rounds(rounds, way, n_rounds / 2, n_rounds);
    }
}

static void read_tasks(struct eval_tasks *tasks, const char *model,
                       const struct eval_filter *filter)
{
    char *path = path_join(model, "eval.jsonl");

    must(eval_tasks_read(tasks, path, filter));
    if (tasks->n == 0 || tasks->n % (size_t)filter->n_max != 0)
        must(fail(OSP_EFORMAT, "%s: %zu prompts, wanted %d of each ability", path, tasks->n,
                  filter->n_max));
    free(path);
}

int main(int argc, char **argv)
{
    static struct speed rounds[ROUNDS_MAX][N_WAYS];
    const struct eval_filter filter = {.n_max = argc > 1 ? atoi(argv[1]) : 6,
                                       .ability = argc > 6 ? argv[6] : NULL};
    const int n_rounds = argc > 2 ? atoi(argv[2]) : 4, n_threads = argc > 3 ? atoi(argv[3]) : 2;
    const char *model = argc > 4 ? argv[4] : "models/osprey-nano";
    const char *head = argc > 5 ? argv[5] : "models/osprey-nano-eagle3";
    struct eval_tasks tasks = {.n = 0};

    if (filter.n_max < 1 || n_rounds < 1 || n_rounds > ROUNDS_MAX || n_threads < 1) {
        fprintf(stderr,
                "measure_answers [PROMPTS [ROUNDS [THREADS [MODEL [HEAD [ABILITY]]]]]]: at least 1 "
                "prompt of each ability, 1 to %d rounds, at least 1 thread\n",
                ROUNDS_MAX);
        return 2;
    }
    log_set_level(LOG_WARN);
    read_tasks(&tasks, model, &filter);
    for (int way = 0; way < N_WAYS; way++)
        if (is_wanted(&ways[way]))
            open_way(&ways[way], model, head, n_threads);
    for (int i = 0; i < n_rounds; i++)
        measure_round(rounds[i], &tasks, filter.n_max);
    printf("%zu prompts, %d rounds, %d threads\n", tasks.n, n_rounds, n_threads);
    print_ways(rounds, n_rounds);
    for (int way = 0; way < N_WAYS; way++) {
        osp_engine_close(ways[way].engine);
        osp_model_close(ways[way].model);
    }
    eval_tasks_release(&tasks);
    return 0;
}
