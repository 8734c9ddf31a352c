#include "cli/terminal/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { BAR_CELLS = 30, EVERY_NS = 50 * 1000 * 1000 };

void progress_init(struct progress *p, const char *what, bool quiet)
{
    *p = (struct progress){
        .what = what, .on = !quiet && isatty(STDERR_FILENO), .start_ns = clock_ns()};
}

void progress_show(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    struct progress *p = ctx;
    uint64_t now_ns = clock_ns();
    char done[16], total[16], bar[BAR_CELLS + 1];
    double share = total_bytes > 0 ? (double)done_bytes / (double)total_bytes : 1;

    if (!p->on || (done_bytes < total_bytes && now_ns - p->shown_ns < EVERY_NS))
        return;
    p->shown_ns = now_ns;
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < (int)(share * BAR_CELLS) ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r%s [%s] %s of %s, %.1f s\033[K", p->what, bar,
            format_bytes(done, (double)done_bytes), format_bytes(total, (double)total_bytes),
            (double)(now_ns - p->start_ns) * 1e-9);
    fflush(stderr);
}

void progress_clear(struct progress *p)
{
    if (p->on && p->shown_ns)
        fputs("\r\033[K", stderr);
}
