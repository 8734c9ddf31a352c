/* The time of a draft head's passes on a device that queues steps, by its own clock: the pass behind
 * the target's step for 1 to 8 rows, the later passes of a chain, the gap between two passes, and the
 * stages of a pass; beside the target's step of one row, without and with the states that the head
 * reads. Weights are generated: the head has the shape of NVIDIA's v3. Not part of make test.
 *
 *     measure_head [DEVICE [SHAPE [POSITION]]]     default: cuda, gpt-oss-120b, 512 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "engine/core/model_api.h"
#include "model/model.h"
#include "median.h"
#include "osprey.h"

enum { SEQS_MAX = 8, WARM_RUNS = 4, RUNS = 24, COSTS_MAX = 32 };

enum measured { STEP, STEP_TAPPED, FIRST, AGAIN };
static const char *const PROGRAM_NAMES[] = {"step of the target", "the same with taps",
                                            "first pass of the head", "later pass"};

static void must(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "measure_head: %s\n", osp_error());
    exit(2);
}

static void *at(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

/* n_seqs sequences of n_each decode rows, the last of each sampled. */
static struct batch *batch_of(int n_seqs, int n_each, int position)
{
    const int n_pages = (position + n_each) / PAGE_TOKENS + 1;
    const struct batch_counts counts = {.n_rows = n_seqs * n_each,
                                        .n_seqs = n_seqs,
                                        .n_samples = n_seqs,
                                        .n_pages = n_seqs * n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    for (int i = 0; i < counts.n_pages; i++)
        ((int32_t *)at(b, b->offset_pages))[i] = i;
    for (int i = 0; i < counts.n_rows; i++) {
        ((int32_t *)at(b, b->offset_tokens))[i] = 100 + i;
        ((int32_t *)at(b, b->offset_positions))[i] = position + i % n_each;
        ((int32_t *)at(b, b->offset_row_seq))[i] = i / n_each;
        ((int32_t *)at(b, b->offset_phases))[i] = PHASE_DECODE;
    }
    for (int i = 0; i < n_seqs; i++) {
        struct batch_seq *s = (struct batch_seq *)at(b, b->offset_seqs) + i;

        *s = (struct batch_seq){.first_row = i * n_each, .n_rows = n_each};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            s->table[g] = i * n_pages;
            s->n_pages[g] = n_pages;
        }
        ((struct batch_sample *)at(b, b->offset_samples))[i] = (struct batch_sample){
            .row = (i + 1) * n_each - 1, .top_p = 1, .position = (uint32_t)(position + n_each)};
    }
    return b;
}

static void run(struct model *m, enum measured p, const struct batch *b, uint64_t *ticket)
{
    must(p == STEP          ? model_step(m, b, ticket)
         : p == STEP_TAPPED ? model_step_tapped(m, b, ticket)
         : p == FIRST       ? model_draft_run(m, b, ticket)
                            : model_draft_again(m, b, ticket));
}

/* Runs are queued one behind the other: the next one starts before the one before is read. */
static void measure(struct model *m, enum measured p, const struct batch *b, double *us,
                    double *gap)
{
    double times[RUNS], gaps[RUNS];
    uint64_t ticket, next, end_ns = 0;

    run(m, p, b, &ticket);
    for (int i = 0; i < WARM_RUNS + RUNS; i++) {
        struct sampled s;

        run(m, p, b, &next);
        must(model_wait(m, ticket));
        must(model_sampled(m, &s));
        if (i >= WARM_RUNS) {
            times[i - WARM_RUNS] = (double)(s.end_ns - s.begin_ns) * 1e-3;
            gaps[i - WARM_RUNS] = (double)(s.begin_ns - end_ns) * 1e-3;
        }
        end_ns = s.end_ns;
        ticket = next;
    }
    must(model_wait(m, ticket));
    *us = median(times, RUNS);
    *gap = median(gaps, RUNS);
}

static void print_stages(const struct stage_cost *before, const struct stage_cost *after, int n)
{
    const int n_runs = WARM_RUNS + RUNS + 1;

    for (int i = 0; i < n; i++)
        if (after[i].time_ns > before[i].time_ns)
            printf(" %s %.1f", after[i].stage,
                   (double)(after[i].time_ns - before[i].time_ns) * 1e-3 / n_runs);
    printf("\n");
}

static void measure_rows(struct model *m, enum measured p, int n_seqs, int n_each, int position)
{
    struct stage_cost before[COSTS_MAX], after[COSTS_MAX];
    struct batch *b = batch_of(n_seqs, n_each, position);
    const int n = model_costs(m, before, COSTS_MAX);
    double us, gap;

    measure(m, p, b, &us, &gap);
    (void)model_costs(m, after, COSTS_MAX);
    printf("%-23s %d sequences of %d rows: %8.1f us, %.1f us to the next; stages, us:",
           PROGRAM_NAMES[p], n_seqs, n_each, us, gap);
    print_stages(before, after, n);
    free(b);
}

int main(int argc, char **argv)
{
    static const int rows[] = {1, 2, 3, 4, 8};
    const int position = argc > 3 ? atoi(argv[3]) : 512;
    const struct osp_model_options options = {.device = argc > 1 ? argv[1] : "cuda",
                                              .load_format = "dummy",
                                              .dummy_shape = argc > 2 ? argv[2] : "gpt-oss-120b",
                                              .mxfp4_layers = "all",
                                              .draft_model = "dummy",
                                              .context_tokens_max = position + 64,
                                              .n_seqs_max = SEQS_MAX,
                                              .n_draft_rows_max = 64};
    struct osp_model *model;
    struct device_info info;

    if (position < 1) {
        fprintf(stderr, "measure_head [DEVICE [SHAPE [POSITION]]]\n");
        return 2;
    }
    log_set_level(LOG_WARN);
    must(osp_model_open(&model, &options));
    model_device_info(model->model, &info);
    if (!info.runs_pipelined) {
        fprintf(stderr, "measure_head: %s does not queue steps\n", info.name);
        return 2;
    }
    for (int n_seqs = 1; n_seqs <= SEQS_MAX; n_seqs += SEQS_MAX - 1) {
        measure_rows(model->model, STEP, n_seqs, 1, position);
        measure_rows(model->model, STEP_TAPPED, n_seqs, 1, position);
        for (int i = 0; i < 5; i++)
            measure_rows(model->model, FIRST, n_seqs, rows[i], position);
        measure_rows(model->model, AGAIN, n_seqs, 1, position);
    }
    osp_model_close(model);
    return 0;
}
