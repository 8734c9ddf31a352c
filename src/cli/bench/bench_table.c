/* Results as Markdown: llama-benchy's table, percentiles, start, memory and probe; and the same
 * rows as CSV. */
#include <string.h>

#include "base/file.h"
#include "cli/bench/bench.h"
#include "cli/options/build_id.h"

/* ---- names of tests, as llama-benchy writes them ---- */

enum { NAME_BYTES = 64 };

static void test_name(char out[NAME_BYTES], const char *kind, int n_tokens,
                      const struct bench_case *c)
{
    int at = snprintf(out, NAME_BYTES, "%s%d", kind, n_tokens);

    if (c->depth_tokens > 0)
        at += snprintf(out + at, (size_t)(NAME_BYTES - at), " @ d%d", c->depth_tokens);
    if (c->concurrency > 1)
        snprintf(out + at, (size_t)(NAME_BYTES - at), " (c%d)", c->concurrency);
}

/* "12.34 ± 0.56", or "-" without values. */
static const char *cell(char out[64], const struct samples *s, double factor)
{
    if (s->n == 0)
        snprintf(out, 64, "-");
    else
        snprintf(out, 64, "%.2f ± %.2f", samples_mean(s) * factor, samples_deviation(s) * factor);
    return out;
}

static bool any_concurrent(const struct bench_report *r)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].c.concurrency > 1)
            return true;
    return false;
}

/* ---- speeds ---- */

static void print_head(FILE *out, bool concurrent)
{
    if (concurrent)
        fputs("| model | test | t/s (total) | t/s (req) | peak t/s | peak t/s (req) | ttfr (ms) | "
              "est_ppt (ms) | e2e_ttft (ms) |\n"
              "|:---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
              out);
    else
        fputs("| model | test | t/s | peak t/s | ttfr (ms) | est_ppt (ms) | e2e_ttft (ms) |\n"
              "|:---|---:|---:|---:|---:|---:|---:|\n",
              out);
}

static void print_pp(FILE *out, const struct bench_report *r, const struct bench_row *row,
                     bool concurrent)
{
    char name[NAME_BYTES], a[64], b[64], c[64], d[64], e[64];

    test_name(name, "pp", row->c.pp_tokens, &row->c);
    fprintf(out, "| %s | %s | %s | ", r->model, name, cell(a, &row->pp_throughput, 1));
    if (concurrent)
        fprintf(out, "%s | ", cell(b, &row->pp_req_throughput, 1));
    fprintf(out, "%s| %s | %s | %s |\n", concurrent ? "| " : "", cell(c, &row->ttfr, 1e3),
            cell(d, &row->est_ppt, 1e3), cell(e, &row->e2e_ttft, 1e3));
}

static void print_tg(FILE *out, const struct bench_report *r, const struct bench_row *row,
                     bool concurrent)
{
    char name[NAME_BYTES], a[64], b[64], c[64], d[64];

    test_name(name, "tg", row->c.tg_tokens, &row->c);
    fprintf(out, "| %s | %s | %s | ", r->model, name, cell(a, &row->tg_throughput, 1));
    if (concurrent)
        fprintf(out, "%s | ", cell(b, &row->tg_req_throughput, 1));
    fprintf(out, "%s | ", cell(c, &row->peak_throughput, 1));
    if (concurrent)
        fprintf(out, "%s | ", cell(d, &row->peak_req_throughput, 1));
    fputs("| | |\n", out);
}

static void print_speeds(FILE *out, const struct bench_report *r)
{
    bool concurrent = any_concurrent(r);

    print_head(out, concurrent);
    for (size_t i = 0; i < r->n_rows; i++) {
        print_pp(out, r, &r->rows[i], concurrent);
        if (r->rows[i].c.tg_tokens > 1)
            print_tg(out, r, &r->rows[i], concurrent);
    }
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct bench_row *row = &r->rows[i];

        if (row->n_failed > 0)
            fprintf(out, "\n%d of %d requests failed: %s\n", row->n_failed, row->n_requests,
                    row->error);
        if (row->n_short > 0)
            fprintf(
                out,
                "\n%d of %d outputs are shorter than %d tokens (the last one has %d); their speed "
                "counts the received tokens.\n",
                row->n_short, row->n_requests, row->c.tg_tokens, row->n_tokens);
    }
}

static void print_latencies(FILE *out, const struct bench_report *r)
{
    fputs(
        "\n| test | TTFT p50 (ms) | p99 | TPOT p50 (ms) | p99 | ITL p50 (ms) | p99 | E2E p50 (ms) "
        "| p99 | outside the backend (%) |\n|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        out);
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct bench_row *row = &r->rows[i];
        const struct samples *const lists[] = {&row->ttft, &row->tpot, &row->itl, &row->e2el};
        char name[NAME_BYTES], both[16], outside[64];

        snprintf(both, sizeof both, "pp%d+tg", row->c.pp_tokens);
        test_name(name, both, row->c.tg_tokens, &row->c);
        fprintf(out, "| %s |", name);
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
            fprintf(out, " %.2f | %.2f |", samples_percentile(lists[k], 50) * 1e3,
                    samples_percentile(lists[k], 99) * 1e3);
        fprintf(out, " %s |\n", cell(outside, &row->outside_share, 100));
    }
}

/* ---- the rest ---- */

static void print_probe(FILE *out, const struct probe *p)
{
    fprintf(out, "probe, %d thread%s: %.2f GB/s read", p->n_threads, p->n_threads == 1 ? "" : "s",
            p->read_bytes_per_s * 1e-9);
    if (p->read_mean_bytes_per_s > 0) /* a GPU's probe does not measure it */
        fprintf(out, " at best, %.2f between the runs", p->read_mean_bytes_per_s * 1e-9);
    fprintf(out, " (%s)", p->read_name);
    for (int i = 0; i < p->n_peaks; i++)
        fprintf(out, ", %.1f Gop/s %s (%s)", p->peaks[i].ops_per_s * 1e-9,
                probe_kind_name(p->peaks[i].kind), p->peaks[i].name);
    fputc('\n', out);
}

static void print_process(FILE *out, const struct bench_report *r)
{
    char peak[16], own[16];

    fputc('\n', out);
    if (r->ready_seconds > 0)
        fprintf(
            out,
            "start: ready %.2f s after process start (loading %.2f s), first token %.3f s later\n",
            r->ready_seconds, r->load_seconds, r->first_token_seconds);
    if (r->has_process)
        fprintf(
            out,
            "memory: peak %s (VmHWM), %s anonymous at the end; CPU: %.2f CPUs busy on average\n",
            format_bytes(peak, (double)r->process.peak_bytes),
            format_bytes(own, (double)r->process.anonymous_bytes), r->cpus_busy);
    if (r->has_probe)
        print_probe(out, &r->probe);
    if (r->quality.measured)
        fprintf(out,
                "quality: perplexity %.4f (reference %.4f), KL mean %.3g, p99 %.3g, same top "
                "%.3f %%, over %lld tokens\n",
                r->quality.perplexity, r->quality.reference_perplexity, r->quality.kl_mean,
                r->quality.kl_p99, 100 * r->quality.same_top, (long long)r->quality.n_tokens);
}

static void print_foot(FILE *out, const struct bench_report *r)
{
    const struct bench_machine *m = &r->machine;
    char memory[16], weights[16];

    fprintf(out, "\nosprey bench (%s, build %s) | %s\n", OSP_VERSION, build_id(), r->command);
    fprintf(out, "date: %s | latency mode: %s", r->date, r->latency_mode);
    if (r->latency_seconds > 0)
        fprintf(out, " (%.2f ms)", r->latency_seconds * 1e3);
    fprintf(out, " | runs: %d | seed: %llu\n", r->n_runs, (unsigned long long)r->seed);
    if (r->url != NULL)
        fprintf(out, "server: %s | client on: ", r->url);
    else
        fprintf(out, "model: %s, %s, hash %s | %s, KV cache %s\nmachine: ", r->path,
                format_bytes(weights, (double)r->weight_bytes), r->model_hash, r->device,
                r->kv_cache_dtype != NULL ? r->kv_cache_dtype : "unknown");
    fprintf(out, "%s, %d CPUs (%d usable), %.0f-%.0f MHz, %s, %s %s\n", m->cpu, m->n_cpus,
            m->n_usable_cpus, m->clock_mhz_min, m->clock_mhz_max,
            format_bytes(memory, (double)m->memory_bytes), m->kernel, m->host);
    fprintf(out, "instructions: %s\n", m->flags);
}

void bench_print_md(FILE *out, const struct bench_report *r)
{
    print_speeds(out, r);
    print_latencies(out, r);
    for (size_t i = 0; i < r->n_rows; i++)
        bench_print_stages(out, &r->rows[i], r->has_probe ? &r->probe : NULL);
    for (size_t i = 0; i < r->n_rows; i++)
        bench_engine_print(out, &r->rows[i]);
    bench_print_kernels(out, r);
    bench_print_routing(out, r);
    print_process(out, r);
    print_foot(out, r);
}

/* ---- CSV ---- */

/* RFC 4180: quotes the text if necessary. */
static void put_field(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_samples(FILE *out, const struct samples *s)
{
    if (s->n == 0) {
        fputs(",,", out); /* not measured */
        return;
    }
    fprintf(out, ",%.6g,%.6g", samples_mean(s), samples_deviation(s));
}

static void put_percentiles(FILE *out, const struct samples *s)
{
    fprintf(out, ",%.6g,%.6g", samples_percentile(s, 50), samples_percentile(s, 99));
}

void bench_print_csv(FILE *out, const struct bench_report *r)
{
    fputs("model,concurrency,context_size,prompt_size,response_size,failed", out);
#define HEAD_RUN(name) fputs("," #name "_mean," #name "_std", out);
    BENCH_RUN_LIST(HEAD_RUN)
#define HEAD_REQUEST(name) fputs("," #name "_p50," #name "_p99", out);
    BENCH_REQUEST_LIST(HEAD_REQUEST)
    fputs("\r\n", out);
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct bench_row *row = &r->rows[i];

        put_field(out, r->model);
        fprintf(out, ",%d,%d,%d,%d,%d", row->c.concurrency, row->c.depth_tokens, row->c.pp_tokens,
                row->c.tg_tokens, row->n_failed);
#define CELL_RUN(name) put_samples(out, &row->name);
        BENCH_RUN_LIST(CELL_RUN)
#define CELL_REQUEST(name) put_percentiles(out, &row->name);
        BENCH_REQUEST_LIST(CELL_REQUEST)
        fputs("\r\n", out);
    }
}
