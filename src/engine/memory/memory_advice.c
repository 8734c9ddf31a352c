/* Plans again with one option changed at a time. More memory or a smaller value never turns a plan
 * that fits into one that does not, so that the largest value that fits is found by bisection. */
#include "engine/memory/memory_advice.h"

#include <math.h>
#include <stdio.h>

#include "engine/sched/pages.h"

enum { MIB = 1 << 20, PERCENT = 100 };

static bool fits(const struct memory_query *q, const struct memory_request *w, int64_t available)
{
    struct memory_plan unused;

    return memory_plan_try(&unused, q->config, w, q->weight_bytes, available) == OSP_OK;
}

typedef void change_fn(struct memory_request *w, int value);

static void change_context(struct memory_request *w, int n_pages)
{
    w->context_tokens_max = n_pages * PAGE_TOKENS;
}

static void change_seqs(struct memory_request *w, int n_seqs)
{
    w->n_seqs_max = n_seqs;
}

static void change_rows(struct memory_request *w, int n_rows)
{
    w->n_batch_tokens_max = n_rows;
}

/* The largest value in [least, end) that fits; 0: not even the least fits. */
static int largest_that_fits(const struct memory_query *q, change_fn *change, int least, int end)
{
    int best = 0;

    while (least < end) {
        const int value = best == 0 ? least : least + (end - least) / 2;
        struct memory_request w = *q->request;

        change(&w, value);
        if (!fits(q, &w, q->available_bytes)) {
            end = value;
            continue;
        }
        best = value;
        least = value + 1;
    }
    return best;
}

static void say(struct buf *out, const char *option, const char *value, const char *bound)
{
    buf_printf(out, "%s--%s %s%s", out->size_bytes > 0 ? ", or " : "", option, value, bound);
}

static void say_number(struct buf *out, const char *option, int value, const char *bound)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    say(out, option, text, bound);
}

static bool cache_fits(const struct memory_query *q, int64_t n_mib)
{
    struct memory_request w = *q->request;

    w.kv_cache_bytes = n_mib * MIB;
    return n_mib > 0 && fits(q, &w, q->available_bytes);
}

static void say_cache(struct buf *out, int64_t n_mib, const char *bound)
{
    char text[32];

    snprintf(text, sizeof text, "%lldM", (long long)n_mib);
    say(out, "kv-cache-memory", text, bound);
}

/* The requested cache is too small for one request, or larger than the free memory. */
static void advise_cache(struct buf *out, const struct memory_query *q)
{
    const struct memory_plan *p = q->plan;
    int64_t need_mib = (p->kv_cache_bytes + MIB - 1) / MIB; /* rounded up to whole pages */
    const int64_t left_mib =
        (q->request->info.free_bytes - p->weight_bytes - p->activation_bytes) / MIB;

    if (q->request->kv_cache_bytes == 0)
        return;
    while (cache_fits(q, need_mib - 1))
        need_mib--;
    if (cache_fits(q, need_mib))
        say_cache(out, need_mib, " or more");
    else if (left_mib < q->request->kv_cache_bytes / MIB && cache_fits(q, left_mib))
        say_cache(out, left_mib, " or less");
}

/* The least share of the GPU in percent with which the plan fits, if that much is free. */
static void advise_share(struct buf *out, const struct memory_query *q)
{
    const struct device_memory_info *info = &q->request->info;

    if (info->share <= 0 || q->request->kv_cache_bytes > 0)
        return;
    for (int percent = (int)ceil(info->share * PERCENT); percent <= PERCENT; percent++) {
        const double share = percent / (double)PERCENT;
        char text[8];

        if (!fits(q, q->request, device_share_bytes(&info->gpu, share, info->host_bytes)))
            continue;
        snprintf(text, sizeof text, "%.2f", share);
        say(out, "gpu-memory-utilization", text, " or more");
        return;
    }
}

void memory_advice_write(struct buf *out, const struct memory_query *q)
{
    const struct memory_plan *p = q->plan;
    int n;

    n = largest_that_fits(q, change_context, 1, pages_of_tokens(p->context_tokens_max));
    if (n > 0)
        say_number(out, "max-model-len", n * PAGE_TOKENS, " or less");
    n = largest_that_fits(q, change_seqs, 1, p->n_seqs_max);
    if (n > 0)
        say_number(out, "max-num-seqs", n, " or less");
    n = largest_that_fits(q, change_rows, p->n_seqs_max, p->n_batch_tokens_max);
    if (n > 0)
        say_number(out, "max-num-batched-tokens", n, " or less");
    advise_cache(out, q);
    advise_share(out, q);
}
