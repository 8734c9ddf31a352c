/* Stage sample: one token for each row of logits, with its log-probability under the plain softmax
 * over all V logits, and top_logprobs if requested.
 *
 * A token is sampled from the unmodified row, or from a copy with penalties, biases and mask
 * (sample_logits.c). Greedy (temperature 0): the lowest id among the largest valid logits.
 * Otherwise, in this order:
 * 1. weights exp((z - max z) / temperature) over the valid ids;
 * 2. top_k keeps the k largest;
 * 3. top_p keeps the shortest prefix, by falling weight, with at least top_p of what is left;
 * 4. min_p drops weights below min_p times the largest;
 * 5. of the rest, the token with the largest score: ln of its weight plus Gumbel noise of (seed,
 *    position, token id) (backend/gumbel.h).
 * Ties go to the lower id. If a row's largest logit is not finite, or if one is NaN, the token is
 * SAMPLE_NOT_FINITE and its log-probability NaN. If penalties, biases and mask allow no token, it
 * is SAMPLE_NONE_ALLOWED. Such a token fails its sequence, and not the device. */
#include <math.h>
#include <string.h>

#include "backend/gumbel.h"
#include "cpu/common/cpu.h"
#include "cpu/kernels/exp4.h"
#include "cpu/stages/sample.h"

enum {
    PART_LOGITS = 4096
}; /* 16 KB: half an L1 cache; the parts of a row are distributed over the threads */

/* Reductions over one part of a row. */
struct part {
    double sum;    /* of exp(z - shift); NaN if a logit is NaN */
    float shift;   /* the largest of its logits, or 0 if that is not finite */
    float largest; /* of its valid logits; -INFINITY if it has none */
    int32_t best;  /* the lowest id with that logit */
};

struct sample_run {
    struct cpu *cpu;
    const struct sample_args *a;
    struct part *parts; /* (rows, n_parts) */
    int n_parts;
};

/* The ids that can still be sampled, and their weights. */
struct candidates {
    float *weight;
    int32_t *id;
    int n;
};

/* A row of logits without NaN, after penalties, biases and mask. */
struct sampled_row {
    const float *z; /* (n) */
    int n;
    int32_t best; /* the lowest id among the largest logits */
    const struct batch_sample *params;
    const int32_t *noise_ids; /* (n), or NULL: noise of the ids themselves */
};

/* The candidate with the largest score so far. */
struct pick {
    float score;
    int32_t id;
};

/* The lowest id among the largest of n > 0 logits. */
static int32_t largest_of(const float *z, int n, float largest)
{
    for (int i = 0; i < n; i++)
        if (z[i] == largest)
            return i;
    return 0; /* one of them is NaN, and then so is the sum */
}

static void reduce_part(void *ctx, int index, int worker)
{
    const struct sample_run *run = ctx;
    const struct kernels *k = run->cpu->kernels;
    const int n_all = (int)run->a->logits.dim[1], first = index % run->n_parts * PART_LOGITS;
    const int n = n_all - first < PART_LOGITS ? n_all - first : PART_LOGITS;
    const int n_left = run->a->n_valid - first, n_valid = n_left < n ? n_left : n;
    const float *z =
        (const float *)run->a->logits.data + (int64_t)(index / run->n_parts) * n_all + first;
    struct part *part = &run->parts[index];
    float copy[PART_LOGITS], shift;

    (void)worker;
    memcpy(copy, z, (size_t)n * sizeof(float));
    part->largest = -INFINITY;
    part->best = -1;
    if (n_valid > 0) {
        part->largest = k->scale(copy, n_valid, 1.0f, -INFINITY);
        part->best = first + largest_of(z, n_valid, part->largest);
    }
    shift = k->scale(copy, n, 1.0f, part->largest);
    part->shift = isfinite(shift) ? shift : 0;
    part->sum = (double)k->exp_sum(copy, n, part->shift);
}

/* The lowest id among the largest valid logits, and the log of the sum of exp(z - the largest), in
 * double. Returns false if a logit is NaN, or if the largest is not finite. */
static bool largest_and_sum(const struct sample_run *run, int row, int32_t *best, double *log_sum)
{
    const struct part *parts = run->parts + (int64_t)row * run->n_parts;
    const struct part *most = parts;
    double sum = 0;

    for (int i = 1; i < run->n_parts; i++)
        if (parts[i].largest > most->largest)
            most = &parts[i];
    for (int i = 0; i < run->n_parts; i++)
        if (parts[i].sum != 0) /* else 0 times infinity */
            sum += parts[i].sum * exp((double)parts[i].shift - (double)most->largest);
    *best = most->best;
    *log_sum = log(sum);
    return !isnan(sum) && isfinite(most->largest);
}

/* ---- sorting: a heap whose root is the next candidate ---- */

static bool comes_before(const struct candidates *c, int i, int j)
{
    return c->weight[i] > c->weight[j] || (c->weight[i] == c->weight[j] && c->id[i] < c->id[j]);
}

static void swap(struct candidates *c, int i, int j)
{
    const float weight = c->weight[i];
    const int32_t id = c->id[i];

    c->weight[i] = c->weight[j];
    c->id[i] = c->id[j];
    c->weight[j] = weight;
    c->id[j] = id;
}

/* Restores the heap property of [0, n) below i. */
static void sift(struct candidates *c, int i, int n)
{
    for (;;) {
        int child = 2 * i + 1;

        if (child >= n)
            return;
        if (child + 1 < n && comes_before(c, child + 1, child))
            child++;
        if (!comes_before(c, child, i))
            return;
        swap(c, i, child);
        i = child;
    }
}

/* Pops candidates from the heap [0, *n_heap) and stores them after it, the last popped one first: n
 * of them, or fewer if their weight reaches `enough`. */
static void take(struct candidates *c, int *n_heap, int n, double enough)
{
    double sum = 0;

    for (; n > 0 && sum < enough; n--) {
        sum += (double)c->weight[0];
        swap(c, 0, --*n_heap);
        sift(c, 0, *n_heap);
    }
}

static void reverse(struct candidates *c, int n)
{
    for (int i = 0, j = n - 1; i < j; i++, j--)
        swap(c, i, j);
}

static double weight_of(const struct candidates *c)
{
    double sum = 0;

    for (int i = 0; i < c->n; i++)
        sum += (double)c->weight[i];
    return sum;
}

/* Keeps the shortest prefix with this share of the weight. */
static void apply_top_p(struct candidates *c, double share)
{
    const double enough = share * weight_of(c);
    double sum = 0;
    int n = 0;

    while (n < c->n && (n == 0 || sum < enough))
        sum += (double)c->weight[n++];
    c->n = n;
}

/* Keeps the top_k candidates (0 = all), then the top_p share of those, sorted by falling weight. */
static void apply_top_k_p(struct candidates *c, const struct batch_sample *s)
{
    const bool by_count = s->top_k > 0 && s->top_k < c->n;
    const double share = (double)s->top_p;
    int n_heap = c->n;

    for (int i = c->n / 2 - 1; i >= 0; i--)
        sift(c, i, c->n);
    if (by_count)
        take(c, &n_heap, s->top_k, INFINITY);
    else
        take(c, &n_heap, c->n, share < 1 ? share * weight_of(c) : INFINITY);
    reverse(c, c->n);
    c->n -= n_heap;
    if (by_count && share < 1)
        apply_top_p(c, share);
}

static void apply_min_p(struct candidates *c, float weight_min)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        if (c->weight[i] >= weight_min) {
            c->weight[n] = c->weight[i];
            c->id[n++] = c->id[i];
        }
    c->n = n;
}

static float ln_weight(const struct sampled_row *r, int32_t id)
{
    return gumbel_ln_weight(r->z[id], r->z[r->best], r->params->temperature);
}

static void compare(struct pick *most, const struct sampled_row *r, uint64_t key, int32_t id)
{
    const int32_t noise_id = r->noise_ids != NULL ? r->noise_ids[id] : id;
    const float score = gumbel_score(ln_weight(r, id), key, noise_id, most->score);

    if (score > most->score || (score == most->score && id < most->id))
        *most = (struct pick){score, id};
}

/* The token with the largest score: of the candidates, or NULL: of the row. */
static int32_t pick_token(const struct sampled_row *r, const struct candidates *c)
{
    const uint64_t key = rng_key(r->params->seed, r->params->position);
    struct pick most = {-INFINITY, 0};

    compare(&most, r, key, c != NULL ? c->id[0] : r->best);
    for (int i = 0; i < (c != NULL ? c->n : r->n); i++)
        compare(&most, r, key, c != NULL ? c->id[i] : i);
    return most.id;
}

static int32_t sample_filtered(struct candidates *c, const struct sampled_row *r)
{
    const struct batch_sample *s = r->params;

    for (int i = 0; i < c->n; i++) {
        c->weight[i] = exp1(ln_weight(r, i));
        c->id[i] = i;
    }
    if (sample_is_ranked(s))
        apply_top_k_p(c, s);
    if (s->min_p > 0.0f)
        apply_min_p(c, s->min_p); /* the largest weight is 1 */
    return pick_token(r, c);
}

static bool is_filtered(const struct batch_sample *s)
{
    return s->temperature > 0.0f && (sample_is_ranked(s) || s->min_p > 0.0f);
}

static int32_t sample_row(struct candidates *c, const struct sampled_row *r)
{
    if (!isfinite(r->z[r->best]))
        return SAMPLE_NONE_ALLOWED;
    if (!(r->params->temperature > 0.0f))
        return r->best;
    return is_filtered(r->params) ? sample_filtered(c, r) : pick_token(r, NULL);
}

/* ---- candidates of a draft head ---- */

/* Puts a candidate into the list of the n_max largest scores; ids come in any order. */
static void insert(struct pick *list, int *n, int n_max, struct pick p)
{
    int at = *n < n_max ? (*n)++ : n_max;

    for (; at > 0 && (p.score > list[at - 1].score ||
                      (p.score == list[at - 1].score && p.id < list[at - 1].id));
         at--)
        if (at < n_max)
            list[at] = list[at - 1];
    if (at < n_max)
        list[at] = p;
}

/* c: the candidates that were left, if the sample is filtered. */
static int best_scores(struct pick *list, int n_max, const struct sampled_row *r,
                       const struct candidates *c)
{
    const uint64_t key = rng_key(r->params->seed, r->params->position);
    const bool has_noise = r->params->temperature > 0.0f, is_part = is_filtered(r->params);
    int n = 0;

    for (int i = 0; i < (is_part ? c->n : r->n); i++) {
        const int32_t id = is_part ? c->id[i] : i;
        const int32_t noise_id = r->noise_ids != NULL ? r->noise_ids[id] : id;
        const float least = n == n_max ? list[n - 1].score : -INFINITY;
        const float score =
            has_noise ? gumbel_score(ln_weight(r, id), key, noise_id, least) : r->z[id];

        if (score > -INFINITY && score >= least)
            insert(list, &n, n_max, (struct pick){score, id});
    }
    return n;
}

static void write_candidates(const struct sample_run *run, int row, const struct sampled_row *r,
                             const struct candidates *c)
{
    int32_t *out = (int32_t *)run->a->candidates.data + (int64_t)row * DRAFT_CANDIDATES_MAX;
    struct pick list[DRAFT_CANDIDATES_MAX];
    const int n = best_scores(list, run->cpu->batch->n_candidates, r, c);

    for (int i = 0; i < n; i++)
        out[i] = r->noise_ids != NULL ? r->noise_ids[list[i].id] : list[i].id;
}

/* ---- a row ---- */

static void write_top_logprobs(const struct sample_run *run, int row, int32_t best, double log_sum)
{
    const int n_all = (int)run->a->logits.dim[1];
    const struct sample_row r = {.z = (const float *)run->a->logits.data + (int64_t)row * n_all,
                                 .n = run->a->n_valid,
                                 .best = best,
                                 .log_sum = log_sum};

    sample_top_logprobs(&r, BATCH_SAMPLES(run->cpu->batch)[row].n_top,
                        (int32_t *)run->a->top_tokens.data + (int64_t)row * TOP_LOGPROBS_MAX,
                        (float *)run->a->top_logprobs.data + (int64_t)row * TOP_LOGPROBS_MAX);
}

/* What is sampled from: the row, or a copy of it with penalties, biases and mask. */
static struct sampled_row processed_row(const struct sample_run *run, int row, int32_t best,
                                        float *copy)
{
    const struct batch_sample *s = &BATCH_SAMPLES(run->cpu->batch)[row];
    struct sampled_row r = {.z = (const float *)run->a->logits.data +
                                 (int64_t)row * run->a->logits.dim[1],
                            .n = run->a->n_valid,
                            .best = best,
                            .params = s,
                            .noise_ids = run->a->ids.data};

    if (!sample_is_processed(s))
        return r;
    memcpy(copy, r.z, (size_t)r.n * sizeof(float));
    process_logits(copy, r.n, run->cpu->batch, s);
    r.z = copy;
    r.best = logits_argmax(copy, r.n);
    return r;
}

static void sample_one(void *ctx, int row, int worker)
{
    const struct sample_run *run = ctx;
    const float *z = (const float *)run->a->logits.data + (int64_t)row * run->a->logits.dim[1];
    struct candidates c = {.weight = run->cpu->workers[worker].data, .n = run->a->n_valid};
    float *copy = c.weight + c.n, *logprob = (float *)run->a->logprobs.data + row;
    int32_t *token = (int32_t *)run->a->tokens.data + row, best;
    struct sampled_row r;
    double log_sum;

    *token = SAMPLE_NOT_FINITE;
    *logprob = NAN;
    for (int i = 0; i < DRAFT_CANDIDATES_MAX && run->cpu->batch->n_candidates > 0; i++)
        ((int32_t *)run->a->candidates.data)[(int64_t)row * DRAFT_CANDIDATES_MAX + i] = -1;
    if (!largest_and_sum(run, row, &best, &log_sum))
        return;
    if (BATCH_SAMPLES(run->cpu->batch)[row].n_top > 0)
        write_top_logprobs(run, row, best, log_sum);
    c.id = (int32_t *)(copy + c.n);
    r = processed_row(run, row, best, copy);
    *token = sample_row(&c, &r);
    if (*token < 0)
        return;
    if (run->cpu->batch->n_candidates > 0)
        write_candidates(run, row, &r, &c);
    *logprob = (float)((double)(z[*token] - z[best]) - log_sum);
    if (r.noise_ids != NULL)
        *token = r.noise_ids[*token];
}

static size_t parts_of(size_t n_logits)
{
    return (n_logits + PART_LOGITS - 1) / PART_LOGITS;
}

size_t sample_scratch_bytes(size_t n_samples, size_t n_logits)
{
    return n_samples * parts_of(n_logits) * sizeof(struct part);
}

enum osp_status cpu_sample(struct cpu *cpu, const struct sample_args *a, struct work *work)
{
    struct sample_run run = {
        .cpu = cpu, .a = a, .n_parts = (int)parts_of((size_t)a->logits.dim[1])};
    const double n = (double)cpu->batch->n_samples * (double)a->logits.dim[1];
    enum osp_status st;

    TRY(cpu_reserve_workers(cpu, (size_t)a->n_valid, CANDIDATE_BYTES, "candidates"));
    TRY(workspace_reserve(
        &cpu->scratch,
        sample_scratch_bytes((size_t)cpu->limits.n_samples_max, (size_t)a->logits.dim[1]), 1,
        "partial results of the logits"));
    run.parts = cpu->scratch.data;
    pool_run(cpu->pool, reduce_part, &run, cpu->batch->n_samples * run.n_parts);
    pool_run(cpu->pool, sample_one, &run, cpu->batch->n_samples);
    work->bytes = 4 * n;
    work->flops = 2 * n;
out:
    return st;
}
