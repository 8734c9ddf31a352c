#include "cli/status/status_print.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/printable.h"

enum { MINUTE_S = 60, HOUR_S = 60 * MINUTE_S, DAY_S = 24 * HOUR_S };

/* ---- the table ---- */

static void put_text(struct buf *out, const char *before, const char *text)
{
    if (*text == '\0')
        return;
    buf_puts(out, before);
    printable_append(out, text, strlen(text));
}

static void put_uptime(struct buf *out, double seconds)
{
    const long long s = (long long)fmin(seconds, 1e15);

    if (seconds < 0)
        return;
    if (s >= DAY_S)
        buf_printf(out, ", up %lld d %lld h", s / DAY_S, s % DAY_S / HOUR_S);
    else if (s >= HOUR_S)
        buf_printf(out, ", up %lld h %lld min", s / HOUR_S, s % HOUR_S / MINUTE_S);
    else if (s >= MINUTE_S)
        buf_printf(out, ", up %lld min %lld s", s / MINUTE_S, s % MINUTE_S);
    else
        buf_printf(out, ", up %lld s", s);
}

/* A row of values, of which those that are not known are left out, and the row, too, if it has no
 * value. */
struct row {
    struct buf *out;
    const char *name;
    bool has_value;
};

static void begin_value(struct row *r)
{
    if (r->has_value)
        buf_puts(r->out, ", ");
    else
        buf_printf(r->out, "%-14s", r->name);
    r->has_value = true;
}

static void put_value(struct row *r, const char *before, double value, int n_digits,
                      const char *after)
{
    if (value < 0)
        return;
    begin_value(r);
    buf_printf(r->out, "%s%.*f%s", before, n_digits, value, after);
}

/* "3 of 8 running"; without the 8 if it is not known. */
static void put_share(struct row *r, double value, double whole, const char *after)
{
    if (value < 0)
        return;
    put_value(r, "", value, 0, "");
    if (whole >= 0)
        buf_printf(r->out, " of %.0f", whole);
    buf_puts(r->out, after);
}

static void put_bytes(struct row *r, const char *before, double value)
{
    char text[16];

    if (value < 0)
        return;
    begin_value(r);
    buf_printf(r->out, "%s%s", before, format_bytes(text, value));
}

static void end_row(struct row *r)
{
    if (r->has_value)
        buf_putc(r->out, '\n');
}

static void put_head(struct buf *out, const struct status_pair *p)
{
    const struct server_status *now = p->now;

    printable_append(out, p->server->root, strlen(p->server->root));
    put_text(out, ": ", now->is_reachable ? now->state : "not reachable");
    put_text(out, ": ", now->reason);
    put_text(out, ", version ", now->version);
    put_uptime(out, now->uptime_s);
    buf_putc(out, '\n');
    if (p->with_error && now->error[0] != '\0') {
        put_text(out, "error         ", now->error);
        buf_putc(out, '\n');
    }
    if (now->model[0] == '\0')
        return;
    put_text(out, "model         ", now->model);
    if (now->context_tokens_max >= 0)
        buf_printf(out, ", context length %.0f tokens", now->context_tokens_max);
    if (now->n_models > 1)
        buf_printf(out, ", and %d other names", now->n_models - 1);
    buf_putc(out, '\n');
}

static void put_requests(struct buf *out, const struct server_status *now)
{
    struct row r = {.out = out, .name = "requests"};

    put_share(&r, status_value(now, STATUS_RUNNING), status_value(now, STATUS_SEQS_MAX),
              " running");
    put_value(&r, "", status_value(now, STATUS_WAITING), 0, " waiting");
    if (status_value(now, STATUS_BACKLOG) > 0)
        put_value(&r, "backlog ", status_value(now, STATUS_BACKLOG), 1, " s");
    put_value(&r, "", status_requests_done(now), 0, " done");
    put_value(&r, "", status_value(now, STATUS_FAILED), 0, " failed");
    put_value(&r, "", status_value(now, STATUS_REFUSED), 0, " refused");
    end_row(&r);
}

static void put_tokens(struct buf *out, const struct status_pair *p)
{
    static const struct {
        const char *name;
        enum status_metric id;
    } rows[] = {{"prompt", STATUS_PROMPT_TOKENS}, {"generation", STATUS_GENERATED_TOKENS}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct row r = {.out = out, .name = rows[i].name};

        put_value(&r, "", status_rate(p->now, p->before, rows[i].id), 1, " tokens/s");
        put_value(&r, "", status_value(p->now, rows[i].id), 0, " tokens in total");
        end_row(&r);
    }
}

static void put_caches(struct buf *out, const struct server_status *now)
{
    struct row kv = {.out = out, .name = "KV cache"}, prefix = {.out = out, .name = "prefix cache"};
    const double usage = status_kv_usage(now), hits = status_hit_rate(now);

    put_value(&kv, "", usage < 0 ? -1 : 100 * usage, 1, " % used");
    put_share(&kv, status_value(now, STATUS_KV_PAGES_USED), status_value(now, STATUS_KV_PAGES),
              " pages");
    put_value(&kv, "", status_value(now, STATUS_KV_PAGES_CACHED), 0, " only in the prefix cache");
    put_value(&kv, "", status_value(now, STATUS_PREEMPTIONS), 0, " preemptions");
    end_row(&kv);
    put_value(&prefix, "", hits < 0 ? -1 : 100 * hits, 1, " % of the prompt tokens found");
    end_row(&prefix);
}

static void put_memory(struct buf *out, const struct server_status *now)
{
    struct row r = {.out = out, .name = "memory"};

    put_bytes(&r, "weights ", status_value(now, STATUS_WEIGHT_BYTES));
    put_bytes(&r, "KV cache ", status_value(now, STATUS_KV_CACHE_BYTES));
    put_bytes(&r, "resident ", status_value(now, STATUS_RESIDENT_BYTES));
    end_row(&r);
}

void status_put_table(struct buf *out, const struct status_pair *p)
{
    put_head(out, p);
    put_requests(out, p->now);
    put_tokens(out, p);
    put_caches(out, p->now);
    put_memory(out, p->now);
}

/* ---- JSON ---- */

static void put_string(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    if (*text)
        buf_json_string(out, text, strlen(text));
    else
        buf_puts(out, "null");
}

static void put_number(struct buf *out, const char *name, double value)
{
    if (value >= 0)
        buf_printf(out, ",\"%s\":%.15g", name, value);
    else
        buf_printf(out, ",\"%s\":null", name);
}

static void put_metrics(struct buf *out, const struct status_pair *p)
{
    static const struct {
        const char *name;
        enum status_metric id;
    } members[] = {
        {"requests_running", STATUS_RUNNING},
        {"requests_waiting", STATUS_WAITING},
        {"max_num_seqs", STATUS_SEQS_MAX},
        {"backlog_seconds", STATUS_BACKLOG},
        {"requests_failed", STATUS_FAILED},
        {"requests_refused", STATUS_REFUSED},
        {"preemptions", STATUS_PREEMPTIONS},
        {"prompt_tokens", STATUS_PROMPT_TOKENS},
        {"generation_tokens", STATUS_GENERATED_TOKENS},
        {"kv_pages", STATUS_KV_PAGES},
        {"kv_pages_used", STATUS_KV_PAGES_USED},
        {"kv_pages_cached", STATUS_KV_PAGES_CACHED},
        {"weight_bytes", STATUS_WEIGHT_BYTES},
        {"kv_cache_bytes", STATUS_KV_CACHE_BYTES},
        {"resident_bytes", STATUS_RESIDENT_BYTES},
    };

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        put_number(out, members[i].name, status_value(p->now, members[i].id));
    put_number(out, "requests_done", status_requests_done(p->now));
    put_number(out, "prompt_tokens_per_second",
               status_rate(p->now, p->before, STATUS_PROMPT_TOKENS));
    put_number(out, "generation_tokens_per_second",
               status_rate(p->now, p->before, STATUS_GENERATED_TOKENS));
    put_number(out, "kv_cache_usage", status_kv_usage(p->now));
    put_number(out, "prefix_cache_hit_rate", status_hit_rate(p->now));
}

void status_put_json(struct buf *out, const struct status_pair *p)
{
    const struct server_status *now = p->now;

    buf_puts(out, "{\"url\":");
    buf_json_string(out, p->server->root, strlen(p->server->root));
    buf_printf(out, ",\"reachable\":%s,\"healthy\":%s", now->is_reachable ? "true" : "false",
               now->is_healthy ? "true" : "false");
    put_string(out, "state", now->state);
    put_string(out, "reason", now->reason);
    put_string(out, "error", now->error);
    put_string(out, "version", now->version);
    put_number(out, "uptime_seconds", now->uptime_s);
    put_string(out, "model", now->model);
    put_number(out, "max_model_len", now->context_tokens_max);
    put_metrics(out, p);
    buf_puts(out, "}\n");
}
