/* The table of stages: time of a prefill and of a decode step, and how near each stage comes to the
 * roofline of the machine. */
#include "cli/bench/bench.h"

/* The minimum time for bytes and operations by the probe. Operations count against the probe's
 * fastest data type, so that no stage looks better than it is. */
static double roof_seconds(const struct probe *p, double bytes, double flops)
{
    double ops = probe_ops_per_s(p);
    double read = p->read_bytes_per_s > 0 ? bytes / p->read_bytes_per_s : 0;
    double compute = ops > 0 ? flops / ops : 0;

    return read > compute ? read : compute;
}

static struct stage_line line_of(const struct osp_stage_cost *cost, double n, double seconds,
                                 const struct probe *probe)
{
    double time = (double)cost->time_ns * 1e-9 / n;
    struct stage_line line = {
        .stage = cost->stage,
        .ms = time * 1e3,
        .percent = seconds > 0 ? 100 * time / seconds : 0,
        .bytes = cost->bytes / n,
        .flops = cost->flops / n,
    };

    if (time > 0) {
        line.gb_per_s = line.bytes / time * 1e-9;
        line.roof_percent =
            probe != NULL ? 100 * roof_seconds(probe, line.bytes, line.flops) / time : 0;
    }
    return line;
}

int bench_stage_lines(struct stage_line out[STAGE_LINES_MAX], const struct bench_row *row,
                      bool decode, const struct probe *probe)
{
    const struct stage_split *s = &row->split;
    double n = decode ? (double)s->n_decode_steps : (double)row->n_split_runs;
    double seconds = decode ? s->decode_seconds : s->prefill_seconds, positional;
    struct stage_line other = {.stage = "other"};

    if (!row->has_split || n <= 0)
        return 0;
    positional = seconds /= n;
    for (int i = 0; i < s->n_stages; i++) {
        out[i] = line_of(decode ? &s->decode[i] : &s->prefill[i], n, seconds, probe);
        positional -= out[i].ms * 1e-3;
    }
    other.ms = positional * 1e3;
    other.percent = seconds > 0 ? 100 * positional / seconds : 0;
    out[s->n_stages] = other;
    return s->n_stages + 1;
}

/* The roofline needs a probe. */
static void print_table(FILE *out, const struct stage_line *lines, int n, bool has_probe)
{
    struct stage_line sum = {.stage = "sum"};

    fprintf(out, "| component | ms | %% | MB | GB/s | Mflop | %% of roofline |\n"
                 "|:---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < n; i++) {
        const struct stage_line *l = &lines[i];

        fprintf(out, "| %s | %.3f | %.1f | %.3f | %.2f | %.2f |", l->stage, l->ms, l->percent,
                l->bytes * 1e-6, l->gb_per_s, l->flops * 1e-6);
        if (has_probe)
            fprintf(out, " %.1f", l->roof_percent);
        fprintf(out, " |\n");
        sum.ms += l->ms;
        sum.percent += l->percent;
        sum.bytes += l->bytes;
        sum.flops += l->flops;
    }
    fprintf(out, "| %s | %.3f | %.1f | %.3f | %.2f | %.2f | |\n", sum.stage, sum.ms, sum.percent,
            sum.bytes * 1e-6, sum.ms > 0 ? sum.bytes / sum.ms * 1e-6 : 0, sum.flops * 1e-6);
}

double bench_read_share(const struct bench_row *row, const struct probe *probe)
{
    const struct stage_split *s = &row->split;
    double n_bytes = 0;

    if (probe == NULL || probe->read_mean_bytes_per_s <= 0 || s->decode_seconds <= 0)
        return 0;
    for (int i = 0; i < s->n_stages; i++)
        n_bytes += s->decode[i].bytes;
    return n_bytes / s->decode_seconds / probe->read_mean_bytes_per_s;
}

void bench_print_stages(FILE *out, const struct bench_row *row, const struct probe *probe)
{
    struct stage_line lines[STAGE_LINES_MAX];
    const struct bench_case *c = &row->c;
    int n = bench_stage_lines(lines, row, false, probe);

    if (n > 0) {
        fprintf(out, "\nPrefill of %d tokens, mean of %d run%s:\n\n",
                c->depth_tokens + c->pp_tokens, row->n_split_runs,
                row->n_split_runs == 1 ? "" : "s");
        print_table(out, lines, n, probe != NULL);
    }
    n = bench_stage_lines(lines, row, true, probe);
    if (n > 0) {
        fprintf(out, "\nDecode step after %d tokens, mean of %lld steps:\n\n",
                c->depth_tokens + c->pp_tokens, (long long)row->split.n_decode_steps);
        print_table(out, lines, n, probe != NULL);
        if (bench_read_share(row, probe) > 0)
            fprintf(out,
                    "\nbandwidth of decode steps / bandwidth of the memory probe between them: "
                    "%.1f %%\n",
                    100 * bench_read_share(row, probe));
    }
}
