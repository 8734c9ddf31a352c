/* Rows of the table; every number is the plan's own, so that the rows add up to its total. */
#include "engine/memory/memory_table.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "engine/memory/kv_dtype.h"
#include "engine/sched/pages.h"

enum { TABLE_BYTES_MAX = 8192 };

/* Begins a row: "  weights              13.5 MB  "; the caller completes it. */
static void row(struct buf *out, const char *what, int64_t n_bytes)
{
    char bytes[16];

    buf_printf(out, "  %-18s %10s  ", what, format_bytes(bytes, (double)n_bytes));
}

static void part(struct buf *out, const char *what, int64_t n_bytes, bool is_first)
{
    char bytes[16];

    if (n_bytes > 0)
        buf_printf(out, "%s%s %s", is_first ? "" : ", ", what,
                   format_bytes(bytes, (double)n_bytes));
}

static void write_weights(struct buf *out, const struct memory_plan *p,
                          const struct weights_report *r)
{
    int64_t n_known;

    row(out, "weights", p->weight_bytes);
    if (r == NULL) {
        buf_puts(out, "generated\n");
        return;
    }
    n_known = r->embed_bytes + r->attn_bytes + r->router_bytes + r->experts_bytes + r->norm_bytes +
              r->head_bytes;
    part(out, "experts", r->experts_bytes, true);
    part(out, "attention", r->attn_bytes, false);
    part(out, "embedding", r->embed_bytes, false);
    part(out, "output head", r->head_bytes, false);
    part(out, "routers", r->router_bytes, false);
    part(out, "norms", r->norm_bytes, false);
    part(out, "less as MXFP4:", n_known - p->weight_bytes, false); /* saved by conversion */
    buf_putc(out, '\n');
}

static void write_activations(struct buf *out, const struct memory_plan *p)
{
    row(out, "activations", p->activation_bytes - p->step_bytes);
    buf_printf(out,
               "steps of %d tokens (--max-num-batched-tokens), %d requests at once "
               "(--max-num-seqs)\n",
               p->n_batch_tokens_max, p->n_seqs_max);
    row(out, "device's own", p->step_bytes);
    buf_puts(out, "lists and sums of the largest step\n");
}

static void write_pages(struct buf *out, const struct memory_plan *p, const struct gptoss_config *c)
{
    const int64_t full_bytes = model_page_bytes(c, GROUP_FULL, p->kv_dtype);
    const int64_t window_bytes = model_page_bytes(c, GROUP_WINDOW, p->kv_dtype);
    const int n_window = p->n_pages[GROUP_WINDOW] - p->n_snapshot_pages;

    row(out, "KV, full layers", p->n_pages[GROUP_FULL] * full_bytes);
    buf_printf(out,
               "%d pages of %d tokens, %s (--kv-cache-dtype): %.1f requests of %d tokens "
               "(--max-model-len)\n",
               p->n_pages[GROUP_FULL], PAGE_TOKENS, kv_dtype_text(p->kv_dtype),
               (double)p->n_pages[GROUP_FULL] / pages_of_tokens(p->context_tokens_max),
               p->context_tokens_max);
    row(out, "KV, window layers", n_window * window_bytes);
    buf_printf(out, "%d pages: what %d requests see of their windows, and one step\n", n_window,
               p->n_seqs_max);
    row(out, "prefix snapshots", p->n_snapshot_pages * window_bytes);
    buf_printf(out, "%d window pages that the prefix cache keeps beside full ones\n",
               p->n_snapshot_pages);
}

/* The limits of the plan. */
static void write_limits(struct buf *out, const struct memory_plan *p,
                         const struct device_memory_info *info)
{
    if (p->kv_requested_bytes > 0) {
        row(out, "KV allowed", p->kv_requested_bytes);
        buf_puts(out, "by --kv-cache-memory\n");
    } else if (info->share > 0 && info->gpu.total_bytes > 0) {
        row(out, "allowed", info->allowed_bytes);
        buf_printf(out, "by --gpu-memory-utilization %.2f\n", info->share);
    }
}

static void write_total(struct buf *out, const struct memory_plan *p,
                        const struct device_memory_info *info)
{
    char free[16];

    row(out, "total", p->total_bytes);
    buf_printf(out, "of %s that are free on the device\n",
               format_bytes(free, (double)info->free_bytes));
    write_limits(out, p, info);
    row(out, "reserve", info->free_bytes > p->total_bytes ? info->free_bytes - p->total_bytes : 0);
    buf_puts(out, "stays free\n");
    row(out, "swap", p->swap_bytes);
    buf_puts(out, "of the host's memory at most, for preempted requests\n");
}

void memory_table_write(struct buf *out, const struct memory_plan *p, const struct gptoss_config *c,
                        const struct device_memory_info *info, const struct weights_report *parts)
{
    write_weights(out, p, parts);
    write_activations(out, p);
    write_pages(out, p, c);
    write_total(out, p, info);
}

void memory_table_log(const struct memory_plan *p, const struct gptoss_config *c,
                      const struct device_memory_info *info, const struct weights_report *parts)
{
    struct buf table;
    const char *line;

    buf_init(&table, TABLE_BYTES_MAX);
    memory_table_write(&table, p, c, info, parts);
    log_info("memory plan:");
    for (line = buf_text(&table); *line != '\0'; line += strcspn(line, "\n") + 1)
        log_info("%.*s", (int)strcspn(line, "\n"), line);
    buf_release(&table);
}
