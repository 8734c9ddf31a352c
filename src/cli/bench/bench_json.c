/* Results as JSON: llama-benchy's format with times in milliseconds, and further members for the
 * values that it does not have. */
#include <string.h>

#include "base/buf.h"
#include "cli/bench/bench.h"
#include "cli/options/build_id.h"

enum { REPORT_BYTES_MAX = 256 << 20 };

static void put_string(struct buf *b, const char *name, const char *text)
{
    buf_printf(b, "\"%s\": ", name);
    buf_json_string(b, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static void put_samples(struct buf *b, const char *name, const struct samples *s, double factor)
{
    buf_printf(b, ",\n      \"%s\": ", name);
    if (s->n == 0) {
        buf_puts(b, "null");
        return;
    }
    buf_printf(b, "{\"mean\": %.9g, \"std\": %.9g, \"values\": [", samples_mean(s) * factor,
               samples_deviation(s) * factor);
    for (size_t i = 0; i < s->n; i++)
        buf_printf(b, "%s%.9g", i > 0 ? ", " : "", s->values[i] * factor);
    buf_puts(b, "]}");
}

static void put_percentiles(struct buf *b, const char *name, const struct samples *s)
{
    buf_printf(b,
               ",\n      \"%s_ms\": {\"n\": %zu, \"mean\": %.9g, \"std\": %.9g, \"p50\": %.9g, "
               "\"p99\": %.9g}",
               name, s->n, samples_mean(s) * 1e3, samples_deviation(s) * 1e3,
               samples_percentile(s, 50) * 1e3, samples_percentile(s, 99) * 1e3);
}

static void put_stages(struct buf *b, const char *name, const struct bench_row *row, bool decode,
                       const struct probe *probe)
{
    struct stage_line lines[STAGE_LINES_MAX];
    int n = bench_stage_lines(lines, row, decode, probe);

    if (n == 0)
        return;
    buf_printf(b, ",\n      \"%s\": [", name);
    for (int i = 0; i < n; i++)
        buf_printf(b,
                   "%s\n        {\"stage\": \"%s\", \"ms\": %.6g, \"percent\": %.4g, \"bytes\": "
                   "%.9g, \"gb_per_s\": %.6g, \"flops\": %.9g, \"roof_percent\": %.4g}",
                   i > 0 ? "," : "", lines[i].stage, lines[i].ms, lines[i].percent, lines[i].bytes,
                   lines[i].gb_per_s, lines[i].flops, lines[i].roof_percent);
    buf_puts(b, "]");
}

static bool is_time(const char *name)
{
    return strstr(name, "throughput") == NULL && strstr(name, "share") == NULL;
}

static void put_row(struct buf *b, const struct bench_row *row, const struct probe *probe)
{
    const struct bench_case *c = &row->c;

    buf_printf(b,
               "{\n      \"concurrency\": %d, \"context_size\": %d, \"prompt_size\": %d, "
               "\"response_size\": %d, \"is_context_prefill_phase\": false",
               c->concurrency, c->depth_tokens, c->pp_tokens, c->tg_tokens);
#define PUT_RUN(name) put_samples(b, #name, &row->name, is_time(#name) ? 1e3 : 1);
    BENCH_RUN_LIST(PUT_RUN)
#define PUT_REQUEST(name) put_percentiles(b, #name, &row->name);
    BENCH_REQUEST_LIST(PUT_REQUEST)
    buf_printf(b,
               ",\n      \"requests\": %d, \"failed\": %d, \"short\": %d, \"prompt_tokens\": %d, "
               "\"completion_tokens\": %d",
               row->n_requests, row->n_failed, row->n_short, row->n_prompt_tokens, row->n_tokens);
    if (row->n_failed > 0) {
        buf_puts(b, ", ");
        put_string(b, "error", row->error);
    }
    put_stages(b, "prefill_stages", row, false, probe);
    put_stages(b, "decode_stages", row, true, probe);
    bench_engine_json(b, row);
    if (bench_read_share(row, probe) > 0)
        buf_printf(b, ",\n      \"decode_read_share\": %.5g", bench_read_share(row, probe));
    buf_puts(b, "\n    }");
}

static void put_machine(struct buf *b, const struct bench_machine *m)
{
    buf_puts(b, "  \"machine\": {");
    put_string(b, "cpu", m->cpu);
    buf_puts(b, ", ");
    put_string(b, "instructions", m->flags);
    buf_puts(b, ", ");
    put_string(b, "kernel", m->kernel);
    buf_puts(b, ", ");
    put_string(b, "architecture", m->host);
    buf_printf(b,
               ", \"cpus\": %d, \"usable_cpus\": %d, \"clock_mhz_min\": %.0f, \"clock_mhz_max\": "
               "%.0f, \"memory_bytes\": %lld, \"available_bytes\": %lld},\n",
               m->n_cpus, m->n_usable_cpus, m->clock_mhz_min, m->clock_mhz_max,
               (long long)m->memory_bytes, (long long)m->available_bytes);
}

static void put_model(struct buf *b, const struct bench_report *r)
{
    buf_puts(b, "  \"weights\": {");
    put_string(b, "path", r->path);
    buf_puts(b, ", ");
    put_string(b, "hash", r->model_hash);
    buf_printf(
        b,
        ", \"bytes\": %lld, \"parameters\": %lld, \"layers\": %d, \"kv_cache_bytes\": %lld},\n"
        "  ",
        (long long)r->weight_bytes, (long long)r->n_parameters, r->n_layers,
        (long long)r->kv_cache_bytes);
    put_string(b, "device", r->device);
    if (r->kv_cache_dtype != NULL) {
        buf_puts(b, ", ");
        put_string(b, "kv_cache_dtype", r->kv_cache_dtype);
    }
    buf_printf(b, ", \"threads\": %d,\n", r->n_threads);
}

/* The best peak of each kind, then all peaks. */
static void put_probe(struct buf *b, const struct probe *p)
{
    buf_printf(b, "  \"probe\": {\"threads\": %d, \"read_gb_per_s\": %.4f, \"read_kernel\": \"%s\"",
               p->n_threads, p->read_bytes_per_s * 1e-9, p->read_name);
    if (p->read_mean_bytes_per_s > 0) /* a GPU's probe does not measure it */
        buf_printf(b, ", \"read_mean_gb_per_s\": %.4f", p->read_mean_bytes_per_s * 1e-9);
    for (int kind = 0; kind < N_PROBE_KINDS; kind++) {
        const struct probe_peak *best = probe_best(p, (enum probe_kind)kind);
        const char *name = probe_kind_name((enum probe_kind)kind);

        buf_printf(b, ", \"%s_gop_per_s\": %.3f, \"%s_kernel\": \"%s\"", name,
                   best ? best->ops_per_s * 1e-9 : 0, name, best ? best->name : "none");
    }
    buf_puts(b, ", \"peaks\": {");
    for (int i = 0; i < p->n_peaks; i++)
        buf_printf(b, "%s\"%s\": %.3f", i > 0 ? ", " : "", p->peaks[i].name,
                   p->peaks[i].ops_per_s * 1e-9);
    buf_puts(b, "}},\n");
}

static void put_process(struct buf *b, const struct bench_report *r)
{
    const struct bench_quality *q = &r->quality;

    if (r->ready_seconds > 0)
        buf_printf(b,
                   "  \"start\": {\"ready_s\": %.4f, \"load_s\": %.4f, \"first_token_s\": %.4f},\n",
                   r->ready_seconds, r->load_seconds, r->first_token_seconds);
    if (r->has_process)
        buf_printf(b,
                   "  \"process\": {\"peak_bytes\": %lld, \"resident_bytes\": %lld, "
                   "\"anonymous_bytes\": %lld, \"cpus_busy\": %.3f},\n",
                   (long long)r->process.peak_bytes, (long long)r->process.resident_bytes,
                   (long long)r->process.anonymous_bytes, r->cpus_busy);
    if (r->has_probe)
        put_probe(b, &r->probe);
    if (q->measured)
        buf_printf(b,
                   "  \"quality\": {\"tokens\": %lld, \"perplexity\": %.9g, "
                   "\"reference_perplexity\": %.9g, \"kl_mean\": %.9g, \"kl_p99\": %.9g, "
                   "\"same_top\": %.9g},\n",
                   (long long)q->n_tokens, q->perplexity, q->reference_perplexity, q->kl_mean,
                   q->kl_p99, q->same_top);
}

static void put_kernel(struct buf *b, const struct osp_kernel_use *k)
{
    buf_puts(b, "{");
    put_string(b, "name", k->name);
    buf_printf(b,
               ", \"rows\": %d, \"prompt_rows\": %d, \"seqs\": %d, \"steps\": %lld, \"calls\": %d, "
               "\"grid\": [%d, %d, %d], \"block\": [%d, %d, %d], \"shared_bytes\": %d}",
               k->n_rows, k->n_prompt_rows, k->n_seqs, (long long)k->n_steps, k->n_calls,
               k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2],
               k->shared_bytes);
}

static void put_kernels(struct buf *b, const struct bench_report *r)
{
    if (r->n_kernels == 0)
        return;
    buf_puts(b, "  \"kernels\": [");
    for (int i = 0; i < r->n_kernels; i++) {
        buf_puts(b, i > 0 ? ",\n    " : "\n    ");
        put_kernel(b, &r->kernels[i]);
    }
    buf_puts(b, "\n  ],\n");
}

static void put_routing(struct buf *b, const struct bench_report *r)
{
    for (int i = 0; r->has_routing && i < BENCH_ROUTINGS; i++)
        buf_printf(b, "%s{\"tokens\": %d, \"experts\": %.4f, \"uniform\": %.4f}%s",
                   i == 0 ? "  \"routing\": [" : ", ", r->routing[i].n_tokens, r->routing[i].mean,
                   r->routing[i].uniform, i == BENCH_ROUTINGS - 1 ? "],\n" : "");
}

static int concurrency_max(const struct bench_report *r)
{
    int max = 0;

    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].c.concurrency > max)
            max = r->rows[i].c.concurrency;
    return max;
}

void bench_print_json(FILE *out, const struct bench_report *r)
{
    struct buf b;

    buf_init(&b, REPORT_BYTES_MAX);
    buf_puts(&b, "{\n  \"version\": \"osprey " OSP_VERSION "\", ");
    put_string(&b, "build", build_id());
    buf_puts(&b, ",\n  ");
    put_string(&b, "timestamp", r->date);
    buf_puts(&b, ",\n  ");
    put_string(&b, "latency_mode", r->latency_mode);
    buf_printf(&b, ", \"latency_ms\": %.6g,\n  ", r->latency_seconds * 1e3);
    put_string(&b, "model", r->model);
    buf_printf(&b, ",\n  \"prefix_caching_enabled\": false, \"max_concurrency\": %d,\n  ",
               concurrency_max(r));
    put_string(&b, "command", r->command);
    buf_printf(
        &b, ",\n  \"seed\": %llu, \"runs\": %d, \"request_rate\": %.9g, \"range_ratio\": %.9g,\n",
        (unsigned long long)r->seed, r->n_runs, r->request_rate, r->range_ratio);
    if (r->url != NULL) {
        buf_puts(&b, "  ");
        put_string(&b, "url", r->url);
        buf_puts(&b, ",\n");
    } else {
        put_model(&b, r);
    }
    put_machine(&b, &r->machine);
    put_process(&b, r);
    put_kernels(&b, r);
    put_routing(&b, r);
    buf_puts(&b, "  \"benchmarks\": [");
    for (size_t i = 0; i < r->n_rows; i++) {
        buf_puts(&b, i > 0 ? ",\n    " : "\n    ");
        put_row(&b, &r->rows[i], r->has_probe ? &r->probe : NULL);
    }
    buf_puts(&b, "\n  ]\n}\n");
    fputs(buf_text(&b), out);
    buf_release(&b);
}
