#include "cli/terminal/pull_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define SECOND_NS ((uint64_t)1000000000)

enum { DRAW_MS = 200, PLAIN_S = 10, SAMPLE_MS = 500 };

void pull_line_init(struct pull_line *l, bool quiet)
{
    *l = (struct pull_line){
        .quiet = quiet, .is_terminal = isatty(STDERR_FILENO), .start_ns = clock_ns()};
    l->shown_ns = l->start_ns;
}

char *pull_format_time(char out[PULL_TIME_BYTES_MAX], double seconds)
{
    const long s = seconds < 360000 ? (long)(seconds + 0.5) : 360000;

    if (s < 60)
        snprintf(out, PULL_TIME_BYTES_MAX, "%ld s", s);
    else if (s < 3600)
        snprintf(out, PULL_TIME_BYTES_MAX, "%ld min %02ld s", s / 60, s % 60);
    else
        snprintf(out, PULL_TIME_BYTES_MAX, "%ld h %02ld min", s / 3600, s % 3600 / 60);
    return out;
}

void pull_format_line(char out[PULL_LINE_BYTES_MAX], const struct osp_pull_progress *p,
                      double bytes_per_s)
{
    char done[16], total[16], rate[16], left[PULL_TIME_BYTES_MAX], speed[64] = "";
    const double share = p->total_bytes > 0 ? (double)p->done_bytes / (double)p->total_bytes : 1;
    int n;

    if (bytes_per_s > 0)
        snprintf(speed, sizeof speed, ", %s/s, %s left", format_bytes(rate, bytes_per_s),
                 pull_format_time(left, (double)(p->total_bytes - p->done_bytes) / bytes_per_s));
    n = snprintf(out, PULL_LINE_BYTES_MAX, "%s: %s of %s, %d %%%s, %d of %d files", p->repo,
                 format_bytes(done, (double)p->done_bytes),
                 format_bytes(total, (double)p->total_bytes), (int)(100 * share), speed,
                 p->n_files_done, p->n_files);
    if (p->n_waiting > 0 && n > 0 && n < PULL_LINE_BYTES_MAX)
        snprintf(out + n, (size_t)(PULL_LINE_BYTES_MAX - n), " (%d by another process)",
                 p->n_waiting);
}

/* Bytes per second over the samples; takes one if it is time. */
static double measure(struct pull_line *l, const struct osp_pull_progress *p, uint64_t now_ns)
{
    const int last = l->n_samples - 1;

    if (last < 0 || now_ns - l->samples[last].time_ns >= (uint64_t)SAMPLE_MS * (SECOND_NS / 1000)) {
        if (l->n_samples == PULL_SAMPLES)
            memmove(l->samples, l->samples + 1, sizeof l->samples[0] * (size_t)--l->n_samples);
        l->samples[l->n_samples].time_ns = now_ns;
        l->samples[l->n_samples++].received_bytes = p->received_bytes;
    }
    if (now_ns == l->samples[0].time_ns)
        return 0;
    return (double)(p->received_bytes - l->samples[0].received_bytes) /
           ((double)(now_ns - l->samples[0].time_ns) * 1e-9);
}

void pull_line_clear(struct pull_line *l)
{
    if (l->has_line)
        fputs("\r\033[K", stderr);
    l->has_line = false;
}

void pull_line_show(struct pull_line *l, const struct osp_pull_progress *p)
{
    const uint64_t now_ns = clock_ns();
    const uint64_t interval_ns =
        l->is_terminal ? (uint64_t)DRAW_MS * (SECOND_NS / 1000) : PLAIN_S * SECOND_NS;
    char line[PULL_LINE_BYTES_MAX];
    double rate;

    if (l->quiet)
        return;
    if (p->note != NULL) {
        pull_line_clear(l);
        fprintf(stderr, "osprey: %s\n", p->note);
    }
    rate = measure(l, p, now_ns);
    if (now_ns - l->shown_ns < interval_ns)
        return;
    l->shown_ns = now_ns;
    pull_format_line(line, p, rate);
    fprintf(stderr, l->is_terminal ? "\r%s\033[K" : "%s\n", line);
    fflush(stderr);
    l->has_line = l->is_terminal;
}
