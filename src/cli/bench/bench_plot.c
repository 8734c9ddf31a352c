/* Speed over context and over concurrency as SVG: four small charts with one line per result. The
 * SVG is written directly, so that plots need no other program. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/bench/bench.h"

enum {
    CHART_WIDTH = 420,
    CHART_HEIGHT = 260,
    MARGIN_LEFT = 62,
    MARGIN_TOP = 40,
    MARGIN_RIGHT = 16,
    MARGIN_BOTTOM = 44,
    LEGEND_HEIGHT = 20,
    N_TICKS = 4,
    SVG_BYTES_MAX = 4 << 20
};

static const char *const COLOURS[] = {"#1f6feb", "#d1242f", "#1a7f37", "#9a6700",
                                      "#8250df", "#0a7ea4", "#bf3989", "#57606a"};
enum { N_COLOURS = sizeof COLOURS / sizeof COLOURS[0] };

struct point {
    double x, y;
};

/* The point of a row in a chart; false: the row is not in the chart. */
typedef bool point_fn(struct point *out, const struct saved_row *row);

static bool pp_over_context(struct point *out, const struct saved_row *r)
{
    *out = (struct point){r->c.depth_tokens + r->c.pp_tokens, r->pp};
    return r->c.concurrency == 1 && r->pp > 0;
}

static bool tg_over_context(struct point *out, const struct saved_row *r)
{
    *out = (struct point){r->c.depth_tokens + r->c.pp_tokens, r->tg};
    return r->c.concurrency == 1 && r->tg > 0;
}

static bool pp_over_concurrency(struct point *out, const struct saved_row *r)
{
    *out = (struct point){r->c.concurrency, r->pp};
    return r->pp > 0;
}

static bool tg_over_concurrency(struct point *out, const struct saved_row *r)
{
    *out = (struct point){r->c.concurrency, r->tg};
    return r->tg > 0;
}

static const struct chart {
    const char *title, *x;
    point_fn *point;
} CHARTS[] = {
    {"prefill, tokens/s", "context, tokens", pp_over_context},
    {"decode, tokens/s", "context, tokens", tg_over_context},
    {"prefill, tokens/s, total", "concurrent requests", pp_over_concurrency},
    {"decode, tokens/s, total", "concurrent requests", tg_over_concurrency},
};

/* ---- text ---- */

static void put_text(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            buf_puts(b, "&lt;");
        else if (*text == '&')
            buf_puts(b, "&amp;");
        else
            buf_putc(b, *text);
    }
}

/* The next of 1, 2, 5 times a power of ten. */
static double round_up(double value)
{
    double power = value > 0 ? pow(10, floor(log10(value))) : 1;

    if (value <= power)
        return power;
    if (value <= 2 * power)
        return 2 * power;
    return value <= 5 * power ? 5 * power : 10 * power;
}

/* ---- a chart ---- */

/* Position of the chart and range of its axes, which begin at 0. */
struct frame {
    double left, top, x_max, y_max;
};

static double place_x(const struct frame *f, double x)
{
    return f->left + MARGIN_LEFT + x / f->x_max * (CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT);
}

static double place_y(const struct frame *f, double y)
{
    return f->top + CHART_HEIGHT - MARGIN_BOTTOM -
           y / f->y_max * (CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM);
}

static void put_ticks(struct buf *b, const struct frame *f)
{
    for (int i = 0; i <= N_TICKS; i++) {
        double x = f->x_max * i / N_TICKS, y = f->y_max * i / N_TICKS;

        buf_printf(b,
                   "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#d0d7de'/>"
                   "<text x='%.1f' y='%.1f' text-anchor='end'>%.4g</text>"
                   "<text x='%.1f' y='%.1f' text-anchor='middle'>%.4g</text>\n",
                   place_x(f, 0), place_x(f, f->x_max), place_y(f, y), place_y(f, y),
                   place_x(f, 0) - 6, place_y(f, y) + 4, y, place_x(f, x), place_y(f, 0) + 16, x);
    }
}

static void put_titles(struct buf *b, const struct frame *f, const struct chart *c)
{
    buf_printf(b, "<text x='%.1f' y='%.1f' font-weight='bold'>%s</text>", f->left + MARGIN_LEFT,
               f->top + MARGIN_TOP - 14, c->title);
    buf_printf(b, "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n",
               place_x(f, f->x_max / 2), place_y(f, 0) + 34, c->x);
}

static int by_x(const void *a, const void *b)
{
    double x = ((const struct point *)a)->x, y = ((const struct point *)b)->x;

    return (x > y) - (x < y);
}

/* Points of a series in order of x; if several have the same x, the first row's. */
static int series_points(struct point out[BENCH_CASES_MAX], const struct saved_bench *s,
                         point_fn *point)
{
    int n = 0, n_kept = 0;

    for (int i = 0; i < s->n_rows; i++)
        n += point(&out[n], &s->rows[i]);
    qsort(out, (size_t)n, sizeof *out, by_x);
    for (int i = 0; i < n; i++)
        if (n_kept == 0 || out[i].x > out[n_kept - 1].x)
            out[n_kept++] = out[i];
    return n_kept;
}

static void put_series(struct buf *b, const struct frame *f, const struct point *points, int n,
                       const char *colour)
{
    buf_puts(b, "<polyline fill='none' stroke-width='2' points='");
    for (int i = 0; i < n; i++)
        buf_printf(b, "%.1f,%.1f ", place_x(f, points[i].x), place_y(f, points[i].y));
    buf_printf(b, "' stroke='%s'/>\n", colour);
    for (int i = 0; i < n; i++)
        buf_printf(
            b, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%g: %.2f</title></circle>\n",
            place_x(f, points[i].x), place_y(f, points[i].y), colour, points[i].x, points[i].y);
}

static void put_chart(struct buf *b, const struct chart *c, int index,
                      const struct saved_bench *const *series, int n_series)
{
    struct frame f = {.left = index % 2 * CHART_WIDTH, .top = index / 2 * CHART_HEIGHT};
    struct point points[BENCH_CASES_MAX];

    for (int s = 0; s < n_series; s++)
        for (int i = 0, n = series_points(points, series[s], c->point); i < n; i++) {
            f.x_max = fmax(f.x_max, points[i].x);
            f.y_max = fmax(f.y_max, points[i].y);
        }
    f.x_max = f.x_max > 0 ? f.x_max : 1;
    f.y_max = round_up(f.y_max);
    put_ticks(b, &f);
    put_titles(b, &f, c);
    for (int s = 0; s < n_series; s++) {
        int n = series_points(points, series[s], c->point);

        put_series(b, &f, points, n, COLOURS[s % N_COLOURS]);
    }
}

static void put_legend(struct buf *b, int index, const struct saved_bench *s)
{
    int y = 2 * CHART_HEIGHT + index * LEGEND_HEIGHT;

    buf_printf(b, "<rect x='%d' y='%d' width='12' height='12' fill='%s'/><text x='%d' y='%d'>",
               MARGIN_LEFT, y, COLOURS[index % N_COLOURS], MARGIN_LEFT + 18, y + 11);
    put_text(b, s->label);
    if (s->model[0] != '\0' && strcmp(s->model, s->label) != 0) {
        buf_puts(b, ": ");
        put_text(b, s->model);
    }
    buf_puts(b, "</text>\n");
}

static enum osp_status write_file(const char *path, const struct buf *b)
{
    FILE *f = fopen(path, "we");

    if (f == NULL)
        return fail(OSP_EIO, "%s: cannot be written: %s", path, strerror(errno));
    fputs(buf_text(b), f);
    return fclose(f) == 0 ? OSP_OK : fail(OSP_EIO, "%s: cannot be written", path);
}

enum osp_status bench_plot(const char *path, const struct saved_bench *const *series, int n_series)
{
    const int width = 2 * CHART_WIDTH, height = 2 * CHART_HEIGHT + (n_series + 1) * LEGEND_HEIGHT;
    struct buf b;
    enum osp_status st;

    buf_init(&b, SVG_BYTES_MAX);
    buf_printf(&b,
               "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
               "font-family='sans-serif' font-size='11'>\n"
               "<rect width='100%%' height='100%%' fill='white'/>\n",
               width, height, width, height);
    for (int i = 0; i < (int)(sizeof CHARTS / sizeof CHARTS[0]); i++)
        put_chart(&b, &CHARTS[i], i, series, n_series);
    for (int i = 0; i < n_series; i++)
        put_legend(&b, i, series[i]);
    buf_puts(&b, "</svg>\n");
    st = b.overflow ? fail(OSP_ELIMIT, "%s: the drawing is too large", path) : write_file(path, &b);
    buf_release(&b);
    return st;
}
