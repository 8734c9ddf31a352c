/* Passes of a draft head behind a step whose accepted drafts only the device knows: they give what
 * the same passes give when the host counts the drafts, and a step gets its drafts from passes that
 * nobody has read. For every number of accepted drafts, greedy and sampled, one sequence and four.
 *
 *     check_behind [DEVICE]     default: queued, the CPU as a device that queues steps
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: each number of accepted drafts in one
 * of the four sequences, not in each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/accept.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "engine/core/model_api.h"
#include "model/model.h"
#include "osprey.h"
#include "queued_device.h"
#include "steps.h"

enum { SEQS_MAX = 4, DRAFTS = 8, PASSES = 3, PAGES = 4, LEAST = 70, SAMPLES = 64 };

/* What a step or a pass sampled. */
struct results {
    uint64_t ticket;
    int32_t tokens[SAMPLES];
    float logprobs[SAMPLES];
};

struct check {
    struct model *model;
    int n_seqs, n_drafts;
    int n_accepted[SEQS_MAX];
    int n_compared, n_failed;
};

static void *at(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

/* The position of the last known token of a sequence: rows are in two pages in some of them. */
static int base_of(int seq)
{
    return LEAST + seq * 37;
}

static int32_t token_at(int seq, int position)
{
    return (int32_t)(40 + rng_bits(9, (uint64_t)seq, (uint32_t)position) % 300);
}

/* ---- batches ---- */

/* n_each rows of each sequence from position first(seq) on. */
static struct batch *rows_of(const struct check *c, int n_each, int (*first)(int), int n_samples,
                             bool has_follows)
{
    const struct batch_counts counts = {.n_rows = c->n_seqs * n_each,
                                        .n_seqs = c->n_seqs,
                                        .n_samples = n_samples,
                                        .n_pages = c->n_seqs * PAGES,
                                        .n_follows = has_follows ? c->n_seqs : 0};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    for (int i = 0; i < counts.n_rows; i++) {
        const int seq = i / n_each, position = first(seq) + i % n_each;

        ((int32_t *)at(b, b->offset_tokens))[i] = token_at(seq, position);
        ((int32_t *)at(b, b->offset_positions))[i] = position;
        ((int32_t *)at(b, b->offset_row_seq))[i] = seq;
        ((int32_t *)at(b, b->offset_phases))[i] = PHASE_DECODE;
    }
    for (int i = 0; i < c->n_seqs; i++) {
        struct batch_seq *s = (struct batch_seq *)at(b, b->offset_seqs) + i;

        *s = (struct batch_seq){.first_row = i * n_each, .n_rows = n_each};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            s->table[g] = i * PAGES;
            s->n_pages[g] = PAGES;
        }
        for (int k = 0; k < PAGES; k++)
            ((int32_t *)at(b, b->offset_pages))[i * PAGES + k] = i * PAGES + k;
    }
    return b;
}

static void set_sample(struct batch *b, int i, int row, int position)
{
    const int seq = BATCH_ROW_SEQ(b)[row];

    ((struct batch_sample *)at(b, b->offset_samples))[i] =
        (struct batch_sample){.row = row,
                              .top_p = 1,
                              .temperature = seq % 2 == 0 ? 0 : 1,
                              .position = (uint32_t)position,
                              .seed = (uint64_t)seq + 5};
}

/* The target's step: each sequence's last token and its drafts, all sampled. */
static struct batch *step_batch(const struct check *c)
{
    const int n_each = 1 + c->n_drafts;
    struct batch *b = rows_of(c, n_each, base_of, c->n_seqs * n_each, false);

    for (int i = 0; i < b->n_samples; i++)
        set_sample(b, i, i, BATCH_POSITIONS(b)[i] + 1);
    return b;
}

/* The drafts of the sequence, of which n_accepted are what the step samples. */
static void set_follow(const struct check *c, struct batch *b, int seq, bool is_first,
                       const int32_t *sampled)
{
    struct batch_follow *f = (struct batch_follow *)at(b, b->offset_follows) + seq;

    *f = (struct batch_follow){.first_sample = seq * (1 + c->n_drafts),
                               .n_drafts = c->n_drafts,
                               .sample = seq,
                               .lowers_row = is_first};
    for (int i = 0; i < c->n_drafts; i++)
        f->drafts[i] = sampled[f->first_sample + i] + (i == c->n_accepted[seq]);
}

/* Pass number `depth` behind the step with that ticket, as if all drafts were accepted. */
static struct batch *pass_batch(const struct check *c, int depth, const struct results *step,
                                uint64_t tokens_ticket)
{
    const int n_each = depth == 0 ? 1 + c->n_drafts : 1;
    struct batch *b = rows_of(c, n_each, base_of, c->n_seqs, true);
    int32_t *positions = at(b, b->offset_positions), *tokens = at(b, b->offset_tokens);

    for (int i = 0; i < b->n_rows; i++) {
        positions[i] += depth == 0 ? 0 : c->n_drafts + depth;
        tokens[i] = batch_token_sampled(i);
    }
    for (int i = 0; i < c->n_seqs; i++) {
        set_sample(b, i, (i + 1) * n_each - 1, base_of(i) + c->n_drafts + depth + 2);
        set_follow(c, b, i, depth == 0, step->tokens);
    }
    b->follows_ticket = step->ticket;
    b->tokens_ticket = tokens_ticket;
    return b;
}

/* The same batch, counted by the host. */
static void count_here(struct batch *b, const struct results *step, const struct results *before)
{
    int32_t *tokens = at(b, b->offset_tokens);

    for (int i = 0; i < b->n_rows; i++)
        tokens[i] = before->tokens[batch_sample_index(tokens[i])];
    for (int i = 0; i < b->n_follows; i++)
        batch_follow_accepted(b, i, step->tokens, NULL);
    b->n_follows = 0;
}

/* ---- runs ---- */

static void wait_for(const struct check *c, int n, struct results *out)
{
    struct sampled s;

    must(model_wait(c->model, out->ticket));
    must(model_sampled(c->model, &s));
    memcpy(out->tokens, s.tokens, (size_t)n * sizeof *s.tokens);
    memcpy(out->logprobs, s.logprobs, (size_t)n * sizeof *s.logprobs);
}

static uint64_t run_step(const struct check *c, const struct batch *b)
{
    uint64_t ticket;

    must(model_step_tapped(c->model, b, &ticket));
    return ticket;
}

static void run_pass(const struct check *c, struct batch *b, int depth, struct results *out)
{
    must(depth == 0 ? model_draft_behind(c->model, b, &out->ticket)
                    : model_draft_again(c->model, b, &out->ticket));
    free(b);
}

static void prefill(const struct check *c)
{
    struct batch *b;

    for (int row = 0; row < base_of(SEQS_MAX); row += 16) {
        uint64_t ticket;

        b = rows_of(c, 16, base_of, 0, false);
        for (int i = 0; i < b->n_rows; i++) {
            ((int32_t *)at(b, b->offset_positions))[i] = row + i % 16;
            ((int32_t *)at(b, b->offset_tokens))[i] = token_at(i / 16, row + i % 16);
            ((int32_t *)at(b, b->offset_phases))[i] = PHASE_PREFILL;
        }
        must(model_step_tapped(c->model, b, &ticket));
        must(model_draft_behind(c->model, b, &ticket));
        must(model_wait(c->model, ticket));
        free(b);
    }
}

static void compare(struct check *c, const char *what, const struct results *have,
                    const struct results *want, int n)
{
    for (int i = 0; i < n; i++) {
        const bool same = have->tokens[i] == want->tokens[i] &&
                          memcmp(&have->logprobs[i], &want->logprobs[i], sizeof(float)) == 0;

        c->n_compared++;
        c->n_failed += !same;
        if (!same && c->n_failed <= 10)
            printf("%s, %d sequences, %d drafts, sample %d, %d accepted: token %d (%g), expected "
                   "%d (%g)\n",
                   what, c->n_seqs, c->n_drafts, i, c->n_accepted[i % c->n_seqs], have->tokens[i],
                   (double)have->logprobs[i], want->tokens[i], (double)want->logprobs[i]);
    }
}

/* A step that takes its drafts from the passes: by their tickets, or known. */
static void step_after(const struct check *c, const struct results *passes, bool is_known,
                       struct results *out)
{
    const struct check next = {.model = c->model, .n_seqs = c->n_seqs, .n_drafts = PASSES};
    struct batch *b = step_batch(&next);
    int32_t *tokens = at(b, b->offset_tokens);

    for (int i = 0; i < c->n_seqs; i++)
        for (int k = 0; k < PASSES; k++)
            tokens[i * (1 + PASSES) + 1 + k] =
                is_known ? passes[k].tokens[i] : batch_token_sampled_before(PASSES - 1 - k, i);
    b->tokens_ticket = passes[PASSES - 1].ticket;
    out->ticket = run_step(c, b);
    free(b);
}

/* Everything is queued before anything is read. */
static void run_behind(const struct check *c, const struct batch *step_of, struct results *step,
                       struct results passes[PASSES], struct results *after)
{
    step->ticket = run_step(c, step_of);
    for (int depth = 0; depth < PASSES; depth++)
        run_pass(c,
                 pass_batch(c, depth, step, depth == 0 ? step->ticket : passes[depth - 1].ticket),
                 depth, &passes[depth]);
    wait_for(c, step_of->n_samples, step);
    step_after(c, passes, false, after);
    for (int depth = 0; depth < PASSES; depth++)
        wait_for(c, c->n_seqs, &passes[depth]);
    wait_for(c, c->n_seqs * (1 + PASSES), after);
}

static void run_counted(const struct check *c, const struct batch *step_of, struct results *step,
                        struct results passes[PASSES], struct results *after)
{
    step->ticket = run_step(c, step_of);
    wait_for(c, step_of->n_samples, step);
    for (int depth = 0; depth < PASSES; depth++) {
        struct batch *b = pass_batch(c, depth, step, 0);

        count_here(b, step, depth == 0 ? step : &passes[depth - 1]);
        run_pass(c, b, depth, &passes[depth]);
        wait_for(c, c->n_seqs, &passes[depth]);
    }
    step_after(c, passes, true, after);
    wait_for(c, c->n_seqs * (1 + PASSES), after);
}

static void check_counts(struct check *c)
{
    static struct results step[2], passes[2][PASSES], after[2];
    struct batch *b = step_batch(c);

    step[0].ticket = run_step(c, b);
    wait_for(c, b->n_samples, &step[0]); /* what the drafts are compared with */
    run_behind(c, b, &step[0], passes[0], &after[0]);
    run_counted(c, b, &step[1], passes[1], &after[1]);
    compare(c, "step", &step[0], &step[1], b->n_samples);
    for (int depth = 0; depth < PASSES; depth++)
        compare(c, "pass", &passes[0][depth], &passes[1][depth], c->n_seqs);
    compare(c, "step after", &after[0], &after[1], c->n_seqs * (1 + PASSES));
    free(b);
}

static void check_all_counts(struct check *c)
{
    const int step = getenv("CHECK_QUICK") != NULL ? c->n_seqs : 1;

    for (int n = 0; n <= c->n_drafts; n += step) {
        for (int i = 0; i < c->n_seqs; i++)
            c->n_accepted[i] = (n + i) % (c->n_drafts + 1);
        check_counts(c);
    }
}

int main(int argc, char **argv)
{
    static const int n_drafts[] = {0, 1, 3, DRAFTS};
    const bool is_queued = argc < 2 || strcmp(argv[1], "queued") == 0;
    const struct osp_model_options options = {.device = is_queued ? "cpu" : argv[1],
                                              .context_tokens_max = PAGES * PAGE_TOKENS,
                                              .draft_model = "bundled",
                                              .n_seqs_max = SEQS_MAX,
                                              .n_draft_rows_max = SEQS_MAX * DRAFTS};
    struct osp_model *model;
    struct check c = {.n_seqs = SEQS_MAX};

    log_set_level(LOG_WARN);
    must(osp_model_open(&model, &options));
    if (is_queued)
        queued_device_use(model);
    c.model = model->model;
    steps_poison(c.model);
    steps_poison_mem(c.model, &c.model->draft.pages);
    prefill(&c);
    for (int n_seqs = 1; n_seqs <= SEQS_MAX; n_seqs += SEQS_MAX - 1)
        for (size_t i = 0; i < sizeof n_drafts / sizeof n_drafts[0]; i++) {
            c.n_seqs = n_seqs;
            c.n_drafts = n_drafts[i];
            check_all_counts(&c);
        }
    osp_model_close(model);
    printf("check_behind: %d samples compared, %d differ\n", c.n_compared, c.n_failed);
    return c.n_failed > 0;
}
