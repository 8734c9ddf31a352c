/* What the engine counted during the runs of a case: from its statistics in this process, or from
 * /metrics of a server, which are the same numbers. */
#include <string.h>

#include "base/buf.h"
#include "cli/bench/bench.h"
#include "cli/client/prometheus.h"

static const char *const NAMES[] = {
#define NAME_ROW(name, metric) #name,
    BENCH_ENGINE_LIST(NAME_ROW)
#undef NAME_ROW
};

static const char *const STEP_KINDS[OSP_N_STEP_KINDS] = {
#define KIND_ROW(member, name, text) [member] = (name),
    OSP_STEP_KIND_LIST(KIND_ROW)
#undef KIND_ROW
};

bool bench_engine_parse(struct bench_engine *out, const char *metrics, size_t n_bytes)
{
    struct metric found[BENCH_N_ENGINE] = {
#define METRIC_ROW(member, metric_name) {.name = metric_name},
        BENCH_ENGINE_LIST(METRIC_ROW)
#undef METRIC_ROW
    };

    prometheus_read(found, BENCH_N_ENGINE, metrics, n_bytes);
    for (int i = 0; i < BENCH_N_ENGINE; i++) {
        out->at[i] = found[i].sum;
        if (found[i].n == 0)
            return false;
    }
    return true;
}

static double count_of(const struct osp_histogram *h)
{
    double n = 0;

    for (int i = 0; i < OSP_BUCKETS_MAX; i++)
        n += (double)h->counts[i];
    return n;
}

void bench_engine_read(struct bench_engine *out, const struct osp_engine *engine)
{
    struct osp_engine_metrics m;
    struct osp_engine_stats s;
    const struct osp_histogram *first = &m.histograms[OSP_HISTOGRAM_FIRST_TOKEN],
                               *queue = &m.histograms[OSP_HISTOGRAM_QUEUE];

    osp_engine_get_stats(engine, &s);
    osp_engine_get_metrics(engine, &m);
    for (int i = 0; i < OSP_N_STEP_KINDS; i++) {
        double *to = &out->at[i * (BENCH_prefill_steps - BENCH_decode_steps)];

        to[BENCH_decode_steps] = (double)s.steps[i].n;
        to[BENCH_decode_graphs] = (double)s.steps[i].n_graphs;
        to[BENCH_decode_rows] = (double)s.steps[i].n_rows;
        to[BENCH_decode_seconds] = s.steps[i].seconds;
    }
    out->at[BENCH_idle_seconds] = s.device_idle_seconds;
    out->at[BENCH_preemptions] = (double)s.n_preemptions;
    out->at[BENCH_first_tokens] = count_of(first);
    out->at[BENCH_first_token_seconds] = first->sum;
    out->at[BENCH_admissions] = count_of(queue);
    out->at[BENCH_queue_seconds] = queue->sum;
}

void bench_engine_add(struct bench_row *row, const struct bench_engine *before,
                      const struct bench_engine *after)
{
    row->has_engine = true;
    for (int i = 0; i < BENCH_N_ENGINE; i++)
        row->engine.at[i] += after->at[i] - before->at[i];
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void bench_engine_json(struct buf *b, const struct bench_row *row)
{
    const double *at = row->engine.at;

    if (!row->has_engine)
        return;
    buf_puts(b, ",\n      \"engine\": {");
    for (int i = 0; i < BENCH_N_ENGINE; i++)
        buf_printf(b, "\"%s\": %.9g, ", NAMES[i], at[i]);
    buf_printf(b, "\"ttft_ms\": %.9g, \"queue_ms\": %.9g}",
               ratio(at[BENCH_first_token_seconds], at[BENCH_first_tokens]) * 1e3,
               ratio(at[BENCH_queue_seconds], at[BENCH_admissions]) * 1e3);
}

void bench_engine_print(FILE *out, const struct bench_row *row)
{
    const double *at = row->engine.at;
    const struct bench_case *c = &row->c;
    double seconds = at[BENCH_idle_seconds];
    const char *separator = "";

    if (!row->has_engine)
        return;
    fprintf(out, "\nsteps of pp%d, tg%d, concurrency %d: ", c->pp_tokens, c->tg_tokens,
            c->concurrency);
    for (int i = 0; i < OSP_N_STEP_KINDS; i++) {
        const double *s = &at[i * (BENCH_prefill_steps - BENCH_decode_steps)];

        seconds += s[BENCH_decode_seconds];
        if (s[BENCH_decode_steps] == 0)
            continue;
        fprintf(out, "%s%.0f %s (%.0f rows, %.2f ms, %.1f %% graphs)", separator,
                s[BENCH_decode_steps], STEP_KINDS[i], s[BENCH_decode_rows] / s[BENCH_decode_steps],
                s[BENCH_decode_seconds] / s[BENCH_decode_steps] * 1e3,
                100 * s[BENCH_decode_graphs] / s[BENCH_decode_steps]);
        separator = ", ";
    }
    fprintf(out, "; device idle %.2f %%; %.0f preemptions; first token %.1f ms after arrival\n",
            100 * ratio(at[BENCH_idle_seconds], seconds), at[BENCH_preemptions],
            ratio(at[BENCH_first_token_seconds], at[BENCH_first_tokens]) * 1e3);
}
