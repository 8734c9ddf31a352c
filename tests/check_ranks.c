/* Ranks of a divided model as processes, for devices that exchange numbers by themselves (GPUs), and
 * for the CPU: every rank is a child process, and all share one memory for the host's exchange.
 *
 *     check_ranks DEVICE SHAPE LAYERS RANKS [VARIANT]
 *         bits of a variant of the model (see VARIANTS): sequences whose prompts are fed as decode
 *         rows, then sampled step by step on the device, alone and several at once. Logits, tokens
 *         and logprobs must be those of one rank.
 *         With CHECK_PREFILL=1 the prompts are prefill rows: a measurement for GPUs, where it fails,
 *         since bits differ; it prints the largest difference of logprobs.
 *     check_ranks DEVICE SHAPE LAYERS RANKS prefill ROWS[xSEQUENCES]...
 *         bits of prompts of so many rows, of several sequences in one step: whole, and in steps of
 *         few rows, which have other kernels and exchanges. Both must be the same, on one rank and
 *         on RANKS; prints the largest difference of logprobs between these
 *     check_ranks DEVICE SHAPE LAYERS RANKS time ROUNDS CONTEXT ROWS...
 *         prints the time of a step of so many decode rows at CONTEXT, or, of +ROWS, of so many
 *         prefill rows in steps of 2,048 (+ROWS/STEP: of STEP), on one rank and on RANKS in
 *         alternating runs
 *     check_ranks DEVICE SHAPE LAYERS RANKS exchange ROWS...
 *         prints the time of a sum over ranks of so many rows of the model's width alone, by pushes
 *         and by NCCL; with CHECK_JSON=FILE also as JSON. A way that fails is left out, with its
 *         reason
 *     check_ranks DEVICE SHAPE LAYERS RANKS faults N
 *         N times a rank is killed or stopped, in turns during decode and prefill steps: the others
 *         fail within FAULT_MS_MAX
 *
 * Without arguments: the bits of osprey-nano on one and two CPU ranks. More ranks than GPUs share
 * them. SHAPE - is osprey-nano. In the environment: CHECK_QUICK for few sequences at once,
 * CHECK_RANK_EXCHANGE=nccl or peer as --rank-exchange, CHECK_EAGER for steps without CUDA graphs. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "cuda/common/rank_exchange.h"
#include "dist/host_exchange.h"
#include "rank_figures.h"
#include "steps.h"
#include "store/mxfp4_layers.h"

enum {
    PROMPT = 24,
    TOKENS = 48, /* of a sequence */
    SEQS_MAX = 192,
    WARMUP = 5,
    STEPS_TIMED = 30,
    ROWS_MAX = 2048, /* of a step that is timed, unless its argument says so */
    ROWS_ASKED_MAX = 1 << 20,
    SUMS_TIMED = 100,
    ROWS_MAX_CPU = 256, /* of a prefill step during faults */
    TIMES_MAX = 16,
    PROMPTS_MAX = 10,
    PROMPT_TOKENS = 8,  /* of a sequence, after its prompt */
    PROMPT_PIECE = 100, /* rows of a step: too few for ranks to share them out, with one sequence */
    LOGITS_NOTED = 256, /* of the first token after a prompt */
    START_S_MAX = 120,  /* until ranks make steps */
    FAULT_MS_MAX = 1500 /* until the others have failed: heartbeats are the parent's here */
};

/* Kernels change with the number of rows: 3 and 4, 5, 33, 161. */
static const int seq_counts[] = {1, 2, 3, 4, 5, 8, 33, 64, 96, 192};
enum {
    N_SEQ_COUNTS = sizeof(seq_counts) / sizeof(seq_counts[0]),
    N_SEQ_COUNTS_CPU = N_SEQ_COUNTS - 1, /* the last one is a matter of GPUs' kernels */
    N_SEQ_COUNTS_QUICK = 5
};

/* The weights of the layers besides the experts, and the KV cache, of a model. */
static const struct variant {
    const char *name;
    unsigned mxfp4_layers;
    enum dtype kv_dtype;
} VARIANTS[] = {{"mxfp4", MXFP4_ALL, DTYPE_NONE},
                {"bf16", MXFP4_NONE, DTYPE_NONE},
                {"mxfp4-fp8", MXFP4_ALL, DTYPE_F8},
                {"bf16-fp8", MXFP4_NONE, DTYPE_F8}};
enum { N_VARIANTS = sizeof(VARIANTS) / sizeof(VARIANTS[0]) };

/* A sampled row. */
struct outcome {
    uint64_t logits; /* hash */
    int32_t token;
    float logprob;
};

/* Memory of all processes. */
struct shared {
    struct rank_watch watch;
    struct outcome outcomes[2][N_SEQ_COUNTS][TOKENS][SEQS_MAX]; /* of one rank; of several */
    float logits[2][PROMPTS_MAX][2][LOGITS_NOTED]; /* likewise; of whole prompts, and of pieces */
    double times_us[2][TIMES_MAX];                 /* the least of all rounds */
    double sums_us[2][TIMES_MAX];                  /* of exchanges alone, by way_names */
    int n_columns;                                 /* of these */
    _Atomic int n_steps, n_prefills;               /* of rank 0 */
};

/* Of the same number of rows each. */
struct prompts {
    int n_rows, n_seqs;
};

struct options {
    const char *device, *shape;
    const struct variant *variant;
    const char *way; /* of the exchange; NULL: the device chooses */
    int n_layers, n_ranks, context, n_times;
    const char *times[TIMES_MAX];
    void *region;
    struct shared *shared;
};

/* Of seq_counts, those that are run: with CHECK_QUICK in the environment the first ones. */
static int n_seq_counts(const struct options *opt)
{
    if (getenv("CHECK_QUICK") != NULL)
        return N_SEQ_COUNTS_QUICK;
    return strcmp(opt->device, "cpu") == 0 ? N_SEQ_COUNTS_CPU : N_SEQ_COUNTS;
}

/* ---- a rank ---- */

struct rank {
    const struct options *opt;
    struct exchange *exchange;
    struct model *m;
    int rank, n_ranks, context, n_seqs;
    int prompt; /* tokens of the longest prompt of one sequence; 0: none exceeds the context */
    bool takes_tokens; /* of the step before, on the device */
};

static int pages_each(const struct rank *r)
{
    return steps_pages(r->context + 2 * TOKENS);
}

static void open_model(struct rank *r, int n_rows, int n_seqs)
{
    const bool is_nano = strcmp(r->opt->shape, "-") == 0;
    struct model_options o = {.path = "models/osprey-nano",
                              .dummy_shape = is_nano ? NULL : r->opt->shape,
                              .dummy_layers = is_nano ? 0 : r->opt->n_layers,
                              .device = r->opt->device,
                              .n_threads = 1,
                              .is_eager = getenv("CHECK_EAGER") != NULL,
                              .n_rows_max = n_rows,
                              .n_samples_max = n_seqs,
                              .mxfp4_layers = r->opt->variant->mxfp4_layers,
                              .kv_dtype = r->opt->variant->kv_dtype,
                              .exchange = r->exchange};
    const struct device_option option = {.name = "rank-exchange", .value = r->opt->way};
    struct device_info info;

    if (r->opt->way != NULL)
        o.device_options = (struct device_options){.n = 1, .list = &option};
    r->n_seqs = n_seqs;
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        o.n_pages[g] = n_seqs * pages_each(r) > steps_pages(r->prompt) ? n_seqs * pages_each(r)
                                                                       : steps_pages(r->prompt);
    must(model_open(&r->m, &o));
    model_device_info(r->m, &info);
    r->takes_tokens = info.runs_pipelined;
}

/* The next row of each of n sequences; `first` >= 0: the prefill rows from there on of one. */
static struct batch *batch_of(const struct rank *r, int n, int position, int first, uint64_t before)
{
    const int n_rows = first < 0 ? n : position - first;
    const int n_pages = first < 0 ? pages_each(r) : steps_pages(position);
    const struct batch_counts counts = {
        .n_rows = n_rows, .n_seqs = n, .n_samples = n, .n_pages = N_PAGE_GROUPS * n * n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    b->tokens_ticket = before;
    for (int s = 0; s < n; s++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + s;

        *seq = (struct batch_seq){.first_row = s, .n_rows = n_rows / n};
        ((struct batch_sample *)BATCH_SAMPLES(b))[s] =
            (struct batch_sample){.row = s + n_rows / n - 1,
                                  .top_p = 1,
                                  .temperature = s % 2 == 0 ? 0 : 1,
                                  .seed = (uint64_t)s,
                                  .position = (uint32_t)position};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            seq->table[g] = (g * n + s) * n_pages;
            seq->n_pages[g] = n_pages;
            for (int p = 0; p < n_pages; p++)
                ((int32_t *)BATCH_PAGES(b))[seq->table[g] + p] = first < 0 ? p * r->n_seqs + s : p;
        }
    }
    for (int row = 0; row < n_rows; row++) {
        const int at = first < 0 ? position : first + row, seq = first < 0 ? row : 0;

        ((int32_t *)BATCH_PHASES(b))[row] = first < 0 ? PHASE_DECODE : PHASE_PREFILL;
        ((int32_t *)BATCH_POSITIONS(b))[row] = at;
        ((int32_t *)BATCH_ROW_SEQ(b))[row] = seq;
        ((int32_t *)BATCH_TOKENS(b))[row] =
            before != 0 && r->takes_tokens
                ? batch_token_sampled(row)
                : (int32_t)(rng_bits(2, (uint64_t)(seq * 100000 + at), 0) % 1900);
    }
    return b;
}

static uint64_t run(struct rank *r, struct batch *b)
{
    uint64_t ticket;

    must(model_step(r->m, b, &ticket));
    free(b);
    return ticket;
}

/* ---- bits ---- */

static void note_outcomes(struct rank *r, struct outcome *out, int n, float *logits)
{
    const size_t vocab = (size_t)model_config(r->m)->vocab_size;
    int32_t tokens[SEQS_MAX];
    float logprobs[SEQS_MAX];

    if (r->rank > 0)
        return;
    must(model_logits(r->m, n, logits));
    must(model_tokens(r->m, n, tokens, logprobs));
    for (int s = 0; s < n; s++)
        out[s] = (struct outcome){
            hash_bytes(HASH_INIT, logits + (size_t)s * vocab, vocab * sizeof(*logits)), tokens[s],
            logprobs[s]};
}

static void play(struct rank *r, struct outcome out[TOKENS][SEQS_MAX], int n, float *logits)
{
    const bool has_prefill = getenv("CHECK_PREFILL") != NULL && n == 1;
    uint64_t ticket = 0;

    for (int t = has_prefill ? PROMPT - 1 : 0; t < TOKENS; t++) {
        struct batch *b = has_prefill && t < PROMPT
                              ? batch_of(r, 1, PROMPT, 0, 0)
                              : batch_of(r, n, t, -1, t < PROMPT ? 0 : ticket);

        ticket = run(r, b);
        must(model_wait(r->m, ticket));
        note_outcomes(r, out[t], n, logits);
    }
}

static void run_bits(struct rank *r)
{
    float *logits;

    open_model(r, SEQS_MAX, SEQS_MAX);
    logits = mem_new((size_t)SEQS_MAX * (size_t)model_config(r->m)->vocab_size * sizeof(float));
    for (int i = 0; i < n_seq_counts(r->opt); i++)
        play(r, r->opt->shared->outcomes[r->n_ranks > 1][i], seq_counts[i], logits);
    free(logits);
}

/* ---- prompts ---- */

/* Rows [first, end) of the prompts of n sequences, whose last rows are sampled. */
static struct batch *prompts_of(const struct rank *r, int n, int first, int end)
{
    const int n_each = end - first, n_pages = steps_pages(end);
    const struct batch_counts counts = {
        .n_rows = n * n_each, .n_seqs = n, .n_samples = n, .n_pages = N_PAGE_GROUPS * n * n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    for (int s = 0; s < n; s++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + s;

        *seq = (struct batch_seq){.first_row = s * n_each, .n_rows = n_each};
        ((struct batch_sample *)BATCH_SAMPLES(b))[s] = (struct batch_sample){
            .row = (s + 1) * n_each - 1, .top_p = 1, .position = (uint32_t)end};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            seq->table[g] = (g * n + s) * n_pages;
            seq->n_pages[g] = n_pages;
            for (int p = 0; p < n_pages; p++)
                ((int32_t *)BATCH_PAGES(b))[seq->table[g] + p] = p * r->n_seqs + s;
        }
    }
    for (int row = 0; row < n * n_each; row++) {
        const int seq = row / n_each, at = first + row % n_each;

        ((int32_t *)BATCH_PHASES(b))[row] = PHASE_PREFILL;
        ((int32_t *)BATCH_POSITIONS(b))[row] = at;
        ((int32_t *)BATCH_ROW_SEQ(b))[row] = seq;
        ((int32_t *)BATCH_TOKENS(b))[row] =
            (int32_t)(rng_bits(2, (uint64_t)(seq * 100000 + at), 0) % 1900);
    }
    return b;
}

/* A prompt in steps of n_each rows, and some tokens. */
static void play_prompts(struct rank *r, struct outcome out[][SEQS_MAX], const struct prompts *p,
                         int n_each, float *logits, float noted[LOGITS_NOTED])
{
    const float *last = logits + (size_t)(p->n_seqs - 1) * (size_t)model_config(r->m)->vocab_size;
    const int stride = (int)model_config(r->m)->vocab_size / LOGITS_NOTED;
    uint64_t ticket = 0;

    for (int first = 0; first < p->n_rows; first += n_each) {
        ticket = run(r, prompts_of(r, p->n_seqs, first,
                                   first + n_each < p->n_rows ? first + n_each : p->n_rows));
        must(model_wait(r->m, ticket));
    }
    note_outcomes(r, out[0], p->n_seqs, logits);
    for (int i = 0; i < LOGITS_NOTED && r->rank == 0; i++)
        noted[i] = last[i * stride];
    for (int t = 1; t < PROMPT_TOKENS; t++) {
        ticket = run(r, batch_of(r, p->n_seqs, p->n_rows + t - 1, -1, ticket));
        must(model_wait(r->m, ticket));
        note_outcomes(r, out[t], p->n_seqs, logits);
    }
}

static struct prompts prompts_at(const struct options *opt, int i)
{
    const char *text = opt->times[i], *seqs = strchr(text, 'x');

    return (struct prompts){atoi(text), seqs == NULL ? 1 : atoi(seqs + 1)};
}

static void run_prompts(struct rank *r)
{
    int n_rows = 0, n_seqs = 1;
    float *logits;

    for (int i = 0; i < r->opt->n_times; i++) {
        const struct prompts p = prompts_at(r->opt, i);

        n_rows = p.n_rows * p.n_seqs > n_rows ? p.n_rows * p.n_seqs : n_rows;
        n_seqs = p.n_seqs > n_seqs ? p.n_seqs : n_seqs;
        r->context = p.n_rows > r->context ? p.n_rows : r->context;
    }
    open_model(r, n_rows, n_seqs);
    logits = mem_new((size_t)n_seqs * (size_t)model_config(r->m)->vocab_size * sizeof(float));
    for (int i = 0; i < r->opt->n_times; i++) {
        struct outcome(*out)[SEQS_MAX] = r->opt->shared->outcomes[r->n_ranks > 1][i];
        float(*noted)[LOGITS_NOTED] = r->opt->shared->logits[r->n_ranks > 1][i];
        const struct prompts p = prompts_at(r->opt, i);

        play_prompts(r, out, &p, p.n_rows, logits, noted[0]);
        play_prompts(r, out + PROMPT_TOKENS, &p, PROMPT_PIECE, logits, noted[1]);
    }
    free(logits);
}

/* ---- times ---- */

/* Pages of small random numbers, BF16. */
static void fill_pages(struct rank *r)
{
    enum { FILL_BYTES = 1 << 24 };
    uint16_t *random = mem_new(FILL_BYTES);
    size_t n;

    for (size_t i = 0; i < FILL_BYTES / sizeof(*random); i++)
        random[i] = (uint16_t)((rng_bits(1, i, 0) & 0x807F) | 0x3E80);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        for (size_t i = 0; i < r->m->pages[g].size_bytes; i += n) {
            n = r->m->pages[g].size_bytes - i;
            n = n < FILL_BYTES ? n : FILL_BYTES;
            must(r->m->ops->write(r->m->be, (char *)r->m->pages[g].data + i, random, n));
        }
    free(random);
}

/* Of the steps since the last call, as the device measures them: without overlap of kernels. */
static void print_stages(struct rank *r, int n_steps)
{
    static struct stage_cost before[N_STAGES];
    struct stage_cost now[N_STAGES];
    const int n = model_costs(r->m, now, N_STAGES);

    for (int i = 0; i < n && r->rank == 0; i++)
        if (now[i].time_ns > before[i].time_ns)
            printf("    %s %.1f", now[i].stage,
                   (double)(now[i].time_ns - before[i].time_ns) * 1e-3 / n_steps);
    if (r->rank == 0)
        printf(" us a step\n");
    memcpy(before, now, sizeof before);
}

/* Steps are sent ahead: the next one is there while one runs. */
static double time_decode(struct rank *r, int n)
{
    uint64_t begin_ns = 0, ticket = run(r, batch_of(r, n, r->context, -1, 0));

    for (int i = 0; i < WARMUP + STEPS_TIMED; i++) {
        uint64_t next;

        if (!r->takes_tokens)
            must(model_wait(r->m, ticket));
        next = run(r, batch_of(r, n, r->context + 1 + i, -1, ticket));
        if (r->takes_tokens)
            must(model_wait(r->m, ticket));
        ticket = next;
        if (i == WARMUP)
            begin_ns = clock_ns();
        atomic_fetch_add(&r->opt->shared->n_steps, r->rank == 0);
    }
    must(model_wait(r->m, ticket));
    return (double)(clock_ns() - begin_ns) * 1e-3 / STEPS_TIMED;
}

/* A prompt of n rows in steps of up to n_step; the last of three. */
static double time_prefill(struct rank *r, int n, int n_step)
{
    uint64_t begin_ns = 0, ticket = 0;

    for (int i = 0; i < 3; i++) {
        begin_ns = clock_ns();
        atomic_fetch_add(&r->opt->shared->n_prefills, r->rank == 0);
        for (int first = 0; first < n; first += n_step) {
            const int end = first + n_step < n ? first + n_step : n;
            const uint64_t before = ticket;

            ticket = run(r, batch_of(r, 1, end, first, 0));
            if (before != 0 && first > 0)
                must(model_wait(r->m, before));
        }
        must(model_wait(r->m, ticket));
    }
    return (double)(clock_ns() - begin_ns) * 1e-3;
}

static struct rows_timed rows_at(const struct options *opt, int i)
{
    struct rows_timed rows;

    if (!rows_timed_parse(&rows, opt->times[i], ROWS_MAX, ROWS_ASKED_MAX))
        must(fail(OSP_EINVAL, "\"%s\": expected ROWS, +ROWS or +ROWS/STEP, from 1 to %d",
                  opt->times[i], ROWS_ASKED_MAX));
    return rows;
}

/* Opens the model for the largest of the steps. */
static void open_for_times(struct rank *r)
{
    int n_seqs = 1, n_rows = ROWS_MAX;

    r->context = r->opt->context;
    for (int i = 0; i < r->opt->n_times; i++) {
        const struct rows_timed rows = rows_at(r->opt, i);
        int *const most = rows.is_prefill ? &r->prompt : &n_seqs;

        *most = rows.n_rows > *most ? rows.n_rows : *most;
        n_rows = rows.n_step > n_rows ? rows.n_step : n_rows;
    }
    open_model(r, n_rows, n_seqs);
}

static void run_times(struct rank *r)
{
    double *out = r->opt->shared->times_us[r->n_ranks > 1];

    open_for_times(r);
    fill_pages(r);
    for (int i = 0; i < r->opt->n_times; i++) {
        const struct rows_timed rows = rows_at(r->opt, i);
        const double us = rows.is_prefill ? time_prefill(r, rows.n_rows, rows.n_step)
                                          : time_decode(r, rows.n_rows);

        print_stages(r, rows.is_prefill ? 3 : WARMUP + STEPS_TIMED + 1);
        if (r->rank == 0 && (out[i] == 0 || us < out[i]))
            out[i] = us;
        if (r->rank == 0)
            printf("  %d ranks, rows %s: %.1f us\n", r->n_ranks, r->opt->times[i], us);
        (void)fflush(stdout);
    }
}

/* ---- the exchange alone ---- */

static const char *const way_names[] = {"peer", "nccl"};
enum { N_WAYS = sizeof(way_names) / sizeof(way_names[0]) };

static void run_exchanges(struct rank *r)
{
    int way = 0, n_rows = 1;

    while (strcmp(way_names[way], r->opt->way) != 0)
        way++;
    for (int i = 0; i < r->opt->n_times; i++)
        n_rows = rows_at(r->opt, i).n_rows > n_rows ? rows_at(r->opt, i).n_rows : n_rows;
    open_model(r, n_rows, 1);
    r->opt->shared->n_columns = model_config(r->m)->width;
    for (int i = 0; i < r->opt->n_times; i++) {
        double us;

        must(r->m->ops->exchange_time(r->m->be, rows_at(r->opt, i).n_rows,
                                      model_config(r->m)->width, SUMS_TIMED, &us));
        if (r->rank == 0)
            r->opt->shared->sums_us[way][i] = us;
    }
}

/* ---- faults ---- */

static void run_forever(struct rank *r)
{
    const int n_rows = strcmp(r->opt->device, "cpu") == 0 ? ROWS_MAX_CPU : ROWS_MAX;

    r->context = n_rows;
    open_model(r, n_rows, 4);
    for (;;) {
        (void)time_decode(r, 1);
        (void)time_prefill(r, n_rows, ROWS_MAX);
    }
}

/* ---- processes ---- */

typedef void rank_fn(struct rank *r);

static void child(const struct options *opt, int rank, int n_ranks, rank_fn *fn)
{
    const struct shard shard = {.rank = rank, .n_ranks = n_ranks};
    struct rank r = {.opt = opt, .rank = rank, .n_ranks = n_ranks};

    if (n_ranks > 1)
        must(shm_exchange_open(&r.exchange, opt->region, shard, &opt->shared->watch));
    fn(&r);
    model_close(r.m);
    exchange_close(r.exchange);
    exit(0);
}

static void start(const struct options *opt, int n_ranks, rank_fn *fn, pid_t pids[RANKS_MAX])
{
    memset(opt->region, 0, shm_region_bytes(RANKS_MAX));
    memset(&opt->shared->watch, 0, sizeof opt->shared->watch);
    for (int r = 0; r < n_ranks; r++)
        (void)snprintf(opt->shared->watch.names[r], sizeof opt->shared->watch.names[r], "rank %d",
                       r);
    (void)fflush(stdout);
    for (int r = 0; r < n_ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            child(opt, r, n_ranks, fn);
        if (pids[r] < 0) { /* kill(-1) would reach every process */
            while (--r >= 0)
                (void)kill(pids[r], SIGKILL);
            must(fail(OSP_ENOMEM, "fork failed"));
        }
    }
}

static void declare_fault(const struct options *opt, int rank)
{
    struct rank_watch *w = &opt->shared->watch;

    if (atomic_load(&w->has_fault))
        return;
    (void)snprintf(w->fault, sizeof w->fault, "rank %d has ended unexpectedly", rank);
    atomic_store(&w->has_fault, true);
}

/* Waits for all; returns how many failed. */
static int wait_for_all(const struct options *opt, int n_ranks, const pid_t pids[RANKS_MAX])
{
    int n_failed = 0, status;

    for (int n = 0; n < n_ranks; n++) {
        const pid_t pid = wait(&status);

        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        n_failed++;
        for (int r = 0; r < n_ranks; r++)
            if (pids[r] == pid)
                declare_fault(opt, r);
    }
    return n_failed;
}

static int run_group(const struct options *opt, int n_ranks, rank_fn *fn)
{
    pid_t pids[RANKS_MAX];

    start(opt, n_ranks, fn, pids);
    return wait_for_all(opt, n_ranks, pids);
}

/* ---- the checks ---- */

static int compare(const struct options *opt, int i, double *largest)
{
    int n_bad = 0;

    for (int t = 0; t < TOKENS; t++)
        for (int s = 0; s < seq_counts[i]; s++) {
            const struct outcome *a = &opt->shared->outcomes[0][i][t][s];
            const struct outcome *b = &opt->shared->outcomes[1][i][t][s];
            const double difference = fabs((double)a->logprob - (double)b->logprob);

            n_bad += memcmp(a, b, sizeof *a) != 0;
            if (a->token == b->token && !(difference <= *largest))
                *largest = difference;
        }
    return n_bad;
}

static int check_bits(const struct options *opt)
{
    int n_bad = 0, n_all = 0;

    if (run_group(opt, 1, run_bits) > 0 || run_group(opt, opt->n_ranks, run_bits) > 0)
        return 1;
    for (int i = 0; i < n_seq_counts(opt); i++) {
        double largest = 0;
        const int n = compare(opt, i, &largest);

        printf("%d sequences: %d of %d rows have other bits; largest difference of a logprob %.3g, "
               "last token %d, logprob %.5f\n",
               seq_counts[i], n, seq_counts[i] * TOKENS, largest,
               opt->shared->outcomes[1][i][TOKENS - 1][0].token,
               (double)opt->shared->outcomes[1][i][TOKENS - 1][0].logprob);
        n_bad += n;
        n_all += seq_counts[i] * TOKENS;
    }
    printf("%d rows on 1 and %d ranks: %s\n", n_all, opt->n_ranks,
           n_bad == 0 ? "the same bits" : "FAILED");
    return n_bad;
}

static int differences(struct outcome (*a)[SEQS_MAX], struct outcome (*b)[SEQS_MAX], int n_seqs,
                       double *largest)
{
    int n_bad = 0;

    for (int t = 0; t < PROMPT_TOKENS; t++)
        for (int s = 0; s < n_seqs; s++) {
            const double difference = fabs((double)a[t][s].logprob - (double)b[t][s].logprob);

            n_bad += memcmp(&a[t][s], &b[t][s], sizeof a[t][s]) != 0;
            if (a[t][s].token == b[t][s].token && !(difference <= *largest))
                *largest = difference;
        }
    return n_bad;
}

/* The largest difference of noted logits; a logit that is not a number counts as infinite. */
static double logits_apart(const float *a, const float *b)
{
    double largest = 0;

    for (int i = 0; i < LOGITS_NOTED; i++) {
        const double difference = fabs((double)a[i] - (double)b[i]);

        largest = !isfinite(difference) ? INFINITY : difference > largest ? difference : largest;
    }
    return largest;
}

static void print_logits(const struct options *opt, int i, int n_seqs)
{
    float(*one)[LOGITS_NOTED] = opt->shared->logits[0][i];
    float(*several)[LOGITS_NOTED] = opt->shared->logits[1][i];

    printf("    first tokens of sequence %d: logits of the whole prompt on %d ranks differ by %.3g "
           "from those on 1 rank, by %.3g from those of pieces; pieces by %.3g from 1 rank\n",
           n_seqs - 1, opt->n_ranks, logits_apart(several[0], one[0]),
           logits_apart(several[0], several[1]), logits_apart(several[1], one[1]));
}

static int check_prompts(const struct options *opt)
{
    int n_bad = 0;

    if (run_group(opt, 1, run_prompts) > 0 || run_group(opt, opt->n_ranks, run_prompts) > 0)
        return 1;
    for (int i = 0; i < opt->n_times; i++) {
        struct outcome(*one)[SEQS_MAX] = opt->shared->outcomes[0][i];
        struct outcome(*several)[SEQS_MAX] = opt->shared->outcomes[1][i];
        const struct prompts p = prompts_at(opt, i);
        double largest = 0, unused = 0;
        const int n_one = differences(one, one + PROMPT_TOKENS, p.n_seqs, &unused);
        const int n = differences(several, several + PROMPT_TOKENS, p.n_seqs, &unused);
        const int n_other = differences(one, several, p.n_seqs, &largest);

        printf("%d prompts of %d rows, whole and in pieces: %d of %d rows have other bits on 1 "
               "rank, %d on %d ranks; between these %d, largest difference of a logprob %.3g\n",
               p.n_seqs, p.n_rows, n_one, PROMPT_TOKENS * p.n_seqs, n, opt->n_ranks, n_other,
               largest);
        print_logits(opt, i, p.n_seqs);
        n_bad += n_one + n;
    }
    printf("prompts on 1 and %d ranks: %s\n", opt->n_ranks,
           n_bad == 0 ? "the same bits" : "FAILED");
    return n_bad;
}

static int check_times(const struct options *opt, int n_rounds)
{
    for (int round = 0; round < n_rounds; round++)
        if (run_group(opt, 1, run_times) > 0 || run_group(opt, opt->n_ranks, run_times) > 0)
            return 1;
    for (int i = 0; i < opt->n_times; i++) {
        const double one = opt->shared->times_us[0][i], several = opt->shared->times_us[1][i];

        printf("rows %s: 1 rank %.1f us, %d ranks %.1f us: %.3f times as fast\n", opt->times[i],
               one, opt->n_ranks, several, one / several);
    }
    return 0;
}

/* The figures of all ways; returns their number. */
static int list_figures(struct exchange_figure list[N_WAYS * TIMES_MAX], const struct options *opt)
{
    int n = 0;

    for (int i = 0; i < opt->n_times; i++)
        for (int way = 0; way < N_WAYS; way++) {
            const int n_rows = rows_at(opt, i).n_rows;
            const int64_t n_words = (int64_t)n_rows * opt->shared->n_columns;
            const bool is_owned = rank_is_owned(n_words / RANK_WORDS, opt->n_ranks);
            const double us = opt->shared->sums_us[way][i];

            if (us > 0)
                list[n++] = (struct exchange_figure){
                    .by = way_names[way],
                    .n_rows = n_rows,
                    .bytes = n_words * 4,
                    .us = us,
                    .expected_us =
                        way == 0 ? exchange_expected_us(n_words * 4, opt->n_ranks, is_owned) : 0};
        }
    return n;
}

static void write_figures(const char *path, const struct options *opt,
                          const struct exchange_figure *list, int n)
{
    FILE *out = fopen(path, "we");

    if (out == NULL)
        must(fail(OSP_EIO, "%s cannot be written: %s", path, strerror(errno)));
    exchange_figures_print(out, opt->n_ranks, opt->shared->n_columns, list, n);
    if (fclose(out) != 0)
        must(fail(OSP_EIO, "%s cannot be written: %s", path, strerror(errno)));
}

static int check_exchanges(struct options *opt)
{
    struct exchange_figure list[N_WAYS * TIMES_MAX];
    int n;

    for (int way = 0; way < N_WAYS; way++) {
        opt->way = way_names[way];
        if (run_group(opt, opt->n_ranks, run_exchanges) > 0)
            printf("by %s: not measured\n", opt->way);
    }
    n = list_figures(list, opt);
    printf("%d ranks, sums of rows of %d floats\n", opt->n_ranks, opt->shared->n_columns);
    printf("  %6s %12s %-4s %10s %12s\n", "rows", "bytes", "by", "us", "expected, us");
    for (int i = 0; i < n; i++)
        printf("  %6d %12lld %-4s %10.2f %12.2f\n", list[i].n_rows, (long long)list[i].bytes,
               list[i].by, list[i].us, list[i].expected_us);
    if (getenv("CHECK_JSON") != NULL)
        write_figures(getenv("CHECK_JSON"), opt, list, n);
    return n == 0;
}

static bool ends_within(const pid_t pids[RANKS_MAX], int n_ranks, int but, int ms)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)ms * 1000000u;
    bool is_there[RANKS_MAX];
    int n_left = n_ranks - 1;

    for (int r = 0; r < n_ranks; r++)
        is_there[r] = r != but;
    while (n_left > 0 && clock_ns() < end_ns) {
        for (int r = 0; r < n_ranks; r++)
            if (is_there[r] && waitpid(pids[r], NULL, WNOHANG) == pids[r]) {
                is_there[r] = false;
                n_left--;
            }
        (void)poll(NULL, 0, 1);
    }
    for (int r = 0; r < n_ranks; r++)
        if (is_there[r]) {
            (void)kill(pids[r], SIGKILL);
            (void)waitpid(pids[r], NULL, 0);
        }
    return n_left == 0;
}

/* Whether the ranks are where fault i is to happen: in decode steps, or in a prefill. */
static bool is_there_yet(const struct options *opt, int i)
{
    return i / 2 % 2 == 0 ? atomic_load(&opt->shared->n_steps) >= 20 + i
                          : atomic_load(&opt->shared->n_prefills) >= 2;
}

/* Heartbeats find a stopped rank after half a second; here the parent knows at once. */
static int fault(const struct options *opt, int i)
{
    const int victim = (int)(rng_bits(5, (uint64_t)i, 0) % (uint64_t)opt->n_ranks);
    const int signal = i % 2 == 0 ? SIGKILL : SIGSTOP;
    const uint64_t end_ns = clock_ns() + START_S_MAX * (uint64_t)1000000000;
    pid_t pids[RANKS_MAX];
    uint64_t begin_ns;
    bool ended;

    atomic_store(&opt->shared->n_steps, 0);
    atomic_store(&opt->shared->n_prefills, 0);
    start(opt, opt->n_ranks, run_forever, pids);
    while (!is_there_yet(opt, i)) {
        (void)poll(NULL, 0, 1);
        if (clock_ns() > end_ns) {
            for (int r = 0; r < opt->n_ranks; r++)
                (void)kill(pids[r], SIGKILL);
            must(fail(OSP_EDEVICE, "fault %d: the ranks made no steps in %d s", i, START_S_MAX));
        }
    }
    (void)kill(pids[victim], signal);
    if (signal == SIGKILL)
        (void)waitpid(pids[victim], NULL, 0);
    declare_fault(opt, victim);
    begin_ns = clock_ns();
    ended = ends_within(pids, opt->n_ranks, victim, FAULT_MS_MAX);
    printf("fault %d: rank %d %s, others ended after %.0f ms\n", i, victim,
           signal == SIGKILL ? "killed" : "stopped", (double)(clock_ns() - begin_ns) * 1e-6);
    if (signal == SIGSTOP) {
        (void)kill(pids[victim], SIGKILL);
        (void)waitpid(pids[victim], NULL, 0);
    }
    return !ended;
}

static int check_faults(const struct options *opt, int n)
{
    int n_bad = 0;

    for (int i = 0; i < n; i++)
        n_bad += fault(opt, i);
    printf("%d faults of %d ranks: in %d of them others did not end\n", n, opt->n_ranks, n_bad);
    return n_bad;
}

static const struct variant *variant_of(const char *name)
{
    for (int i = 0; i < N_VARIANTS; i++)
        if (strcmp(name, VARIANTS[i].name) == 0)
            return &VARIANTS[i];
    must(fail(OSP_EINVAL, "variant \"%s\": expected mxfp4, bf16, mxfp4-fp8 or bf16-fp8", name));
    return NULL;
}

static void *share(size_t n_bytes)
{
    void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        must(fail(OSP_ENOMEM, "no shared memory"));
    return memory;
}

int main(int argc, char **argv)
{
    char *of_cpu[] = {argv[0], "cpu", "-", "0", "2", NULL}; /* among others, by tests/run_checks */
    struct options opt;

    if (argc < 5) {
        argc = 5;
        argv = of_cpu;
    }
    opt = (struct options){.device = argv[1],
                           .shape = argv[2],
                           .variant = &VARIANTS[0],
                           .way = getenv("CHECK_RANK_EXCHANGE"),
                           .n_layers = atoi(argv[3]),
                           .n_ranks = atoi(argv[4]),
                           .region = share(shm_region_bytes(RANKS_MAX)),
                           .shared = share(sizeof(struct shared))};
    if (argc > 8 && strcmp(argv[5], "time") == 0) {
        opt.context = atoi(argv[7]);
        for (int i = 8; i < argc && opt.n_times < TIMES_MAX; i++)
            opt.times[opt.n_times++] = argv[i];
        return check_times(&opt, atoi(argv[6])) > 0;
    }
    if (argc > 6 && strcmp(argv[5], "prefill") == 0) {
        for (int i = 6; i < argc && opt.n_times < PROMPTS_MAX; i++)
            opt.times[opt.n_times++] = argv[i];
        return check_prompts(&opt) > 0;
    }
    if (argc > 6 && strcmp(argv[5], "exchange") == 0) {
        for (int i = 6; i < argc && opt.n_times < TIMES_MAX; i++)
            opt.times[opt.n_times++] = argv[i];
        return check_exchanges(&opt) > 0;
    }
    if (argc > 6 && strcmp(argv[5], "faults") == 0)
        return check_faults(&opt, atoi(argv[6])) > 0;
    if (argc > 5)
        opt.variant = variant_of(argv[5]);
    return check_bits(&opt) > 0;
}
