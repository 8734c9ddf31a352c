/* Arithmetic of the memory plan. */
#include "engine/memory/memory_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "engine/memory/memory_advice.h"
#include "engine/sched/sched.h"

enum {
    SEQS_DEFAULT = 8,
    DRAFT_ROWS_DEFAULT = 16, /* for requests with a prediction */
    SEQS_MAX = 16384, /* one row of every step each; the logits' rows are planned like all memory */
    BATCH_TOKENS_DEFAULT = 512,
    BATCH_TOKENS_GPU =
        2048, /* of 128 experts each has 64 rows, and a step still takes less than 0.1 s; */
    BATCH_TOKENS_SEQ = 32, /* or this for each request, if that is more */
    BATCH_TOKENS_MAX = 16384,
    CONTEXT_TOKENS_MAX = 1 << 24, /* keeps positions and page counts far from overflow */
    SNAPSHOT_PART = 8, /* full pages for each window page that the prefix cache may keep */
    ENDS_KEPT = 2,     /* and for each request as many times its own window pages */
    FREE_SHARE = 2,    /* the cache gets 1/2 of what weights and activations leave */
    /* Of a GPU's own memory it gets all of that but 1/16 of the free memory, for the driver, CUDA
     * graphs and other programs: nothing else can use it, and a cache that is too small for the
     * running requests preempts them. */
    GPU_RESERVE_PART = 16,
    TIGHT_SHARE = 8, /* and 1/8 of all when the weights, which the host maps, take everything */
    SWAP_PART = 8,   /* of the KV cache's bytes */
    ADVICE_BYTES_MAX = 512
};

static const int64_t SWAP_BYTES_MAX = (int64_t)4 << 30;

static enum osp_status check_range(const char *what, int value, int max)
{
    if (value < 0 || value > max)
        return fail(OSP_EINVAL, "%s is %d, must be in 0 (default) to %d", what, value, max);
    return OSP_OK;
}

static int context_allowed(const struct gptoss_config *c)
{
    return c->context_tokens_max < CONTEXT_TOKENS_MAX ? c->context_tokens_max : CONTEXT_TOKENS_MAX;
}

static enum osp_status check_request(const struct memory_request *w, const struct gptoss_config *c)
{
    enum osp_status st;

    TRY(check_range("n_seqs_max", w->n_seqs_max, SEQS_MAX));
    TRY(check_range("n_batch_tokens_max", w->n_batch_tokens_max, BATCH_TOKENS_MAX));
    if (w->n_draft_rows_max > BATCH_TOKENS_MAX)
        return fail(OSP_EINVAL, "n_draft_rows_max is %d, must be at most %d", w->n_draft_rows_max,
                    (int)BATCH_TOKENS_MAX);
    if (w->kv_cache_bytes < 0)
        return fail(OSP_EINVAL, "kv_cache_bytes is %lld, must not be negative",
                    (long long)w->kv_cache_bytes);
    if (w->n_batch_tokens_max > 0 && w->n_seqs_max > w->n_batch_tokens_max)
        return fail(OSP_EINVAL,
                    "--max-num-batched-tokens is %d; it must be at least --max-num-seqs, which is "
                    "%d: every sequence has a row in a step",
                    w->n_batch_tokens_max, w->n_seqs_max);
    if (w->context_tokens_max < 0 || w->context_tokens_max > context_allowed(c))
        return fail(OSP_EINVAL,
                    "--max-model-len is %d; this model's maximum context length is %d tokens",
                    w->context_tokens_max, context_allowed(c));
out:
    return st;
}

/* On a GPU with many requests prefill uses fewer, larger steps: a prefill chunk delays every decode
 * request by one step. */
int memory_batch_tokens(int n_seqs_max, bool is_gpu)
{
    const int n = n_seqs_max * BATCH_TOKENS_SEQ;

    if (!is_gpu)
        return BATCH_TOKENS_DEFAULT;
    return n < BATCH_TOKENS_GPU       ? BATCH_TOKENS_GPU
           : n < BATCH_TOKENS_MAX / 2 ? n
                                      : BATCH_TOKENS_MAX / 2;
}

static void choose_batch(struct memory_plan *p, const struct memory_request *w)
{
    p->n_seqs_max = w->n_seqs_max;
    p->n_batch_tokens_max = w->n_batch_tokens_max;
    if (p->n_seqs_max == 0)
        p->n_seqs_max = SEQS_DEFAULT;
    if (p->n_batch_tokens_max == 0)
        p->n_batch_tokens_max = memory_batch_tokens(p->n_seqs_max, w->is_gpu);
    if (p->n_seqs_max > p->n_batch_tokens_max && w->n_seqs_max == 0)
        p->n_seqs_max = p->n_batch_tokens_max;
    if (p->n_batch_tokens_max < p->n_seqs_max)
        p->n_batch_tokens_max = p->n_seqs_max;
}

/* A step has a row of logits for each sequence and each draft; no more drafts than the sequences
 * can have, or than there are rows beside one sequence's. */
static void choose_draft_rows(struct memory_plan *p, const struct memory_request *w)
{
    int n = w->n_draft_rows_max == 0 ? (int)DRAFT_ROWS_DEFAULT : w->n_draft_rows_max;

    if (n > p->n_seqs_max * (int)DRAFTS_MAX)
        n = p->n_seqs_max * (int)DRAFTS_MAX;
    if (n > p->n_batch_tokens_max - 1)
        n = p->n_batch_tokens_max - 1;
    p->n_draft_rows_max = n > 0 ? n : 0;
    p->n_samples_max = p->n_seqs_max + p->n_draft_rows_max;
}

/* n pages for each sequence, bounded against overflow. */
static int seq_product(const struct memory_plan *p, int n)
{
    int64_t all = (int64_t)p->n_seqs_max * n;

    return all < INT32_MAX ? (int)all : INT32_MAX;
}

/* Pages of the full group that fit beside the window group; 0 when not even those fit. */
static int full_pages_max(const struct memory_plan *p, const struct gptoss_config *c,
                          int64_t budget_bytes)
{
    int n_most = seq_product(p, pages_of_tokens(CONTEXT_TOKENS_MAX));
    int64_t page_bytes = model_page_bytes(c, GROUP_FULL, p->kv_dtype) +
                         model_page_bytes(c, GROUP_WINDOW, p->kv_dtype) / SNAPSHOT_PART;
    int64_t left =
        budget_bytes - p->n_pages[GROUP_WINDOW] * model_page_bytes(c, GROUP_WINDOW, p->kv_dtype);

    if (left < 0)
        return 0;
    if (page_bytes == 0 || left / page_bytes > n_most)
        return n_most;
    return (int)(left / page_bytes);
}

/* The longest context with which one request fits: how many fit at once follows from their lengths,
 * and the scheduler preempts when pages run out. At least one page, which may still not fit. */
static int context_that_fits(int n_full_max, int n_allowed)
{
    const int n_pages = n_full_max > 1 ? n_full_max : 1;

    return n_pages >= pages_of_tokens(n_allowed) ? n_allowed : n_pages * PAGE_TOKENS;
}

struct budget {
    int64_t share_bytes, most_bytes; /* what the cache should use, and could use */
};

/* The part of a GPU's own memory that the cache leaves; what a limit on the share of memory leaves
 * counts. */
static int64_t gpu_reserve_bytes(const struct memory_request *w, int64_t available)
{
    const int64_t free = w->info.free_bytes > available ? w->info.free_bytes : available;
    const int64_t reserve = free / GPU_RESERVE_PART - (free - available);

    return reserve > 0 ? reserve : 0;
}

static struct budget budget_of(const struct memory_plan *p, const struct memory_request *w,
                               int64_t available)
{
    const int64_t rest = available - p->weight_bytes - p->activation_bytes;
    const int64_t left = rest > 0 || !w->is_gpu ? rest : 0;
    int64_t share = left / FREE_SHARE;

    if (w->kv_cache_bytes > 0)
        return (struct budget){w->kv_cache_bytes, w->kv_cache_bytes};
    if (w->is_gpu && !w->info.gpu.is_unified && left - gpu_reserve_bytes(w, available) > share)
        share = left - gpu_reserve_bytes(w, available);
    if (share < available / TIGHT_SHARE && !w->is_gpu)
        share = available / TIGHT_SHARE;
    return (struct budget){share, left > share ? left : share};
}

/* The KV cache of one request of the context does not fit; its size becomes the plan's. */
static enum osp_status fail_too_small(struct memory_plan *p, const struct gptoss_config *c,
                                      int64_t has_bytes)
{
    const int64_t n_full = pages_of_tokens(p->context_tokens_max);
    const int64_t n_window = p->n_pages[GROUP_WINDOW] + n_full / SNAPSHOT_PART + 1;
    char need[16], has[16], weights[16], activations[16];

    p->kv_cache_bytes = n_full * model_page_bytes(c, GROUP_FULL, p->kv_dtype) +
                        n_window * model_page_bytes(c, GROUP_WINDOW, p->kv_dtype);
    return fail(
        OSP_ENOMEM,
        "one request of %d tokens needs %s of KV cache, but only %s may be used beside %s of "
        "weights and %s of activations",
        p->context_tokens_max, format_bytes(need, (double)p->kv_cache_bytes),
        format_bytes(has, (double)has_bytes), format_bytes(weights, (double)p->weight_bytes),
        format_bytes(activations, (double)p->activation_bytes));
}

/* Pages that a GPU does not have would fail at allocation; a host's pages are only address space
 * until they are written. The GPU share is for caches whose size was not requested. */
static enum osp_status check_requested(const struct memory_plan *p, const struct memory_request *w,
                                       int64_t available)
{
    const int64_t free = w->info.free_bytes > 0 ? w->info.free_bytes : available;
    const int64_t left = free - p->weight_bytes - p->activation_bytes;
    char asked[16], has[16], weights[16], activations[16];

    if (!w->is_gpu || w->kv_cache_bytes <= left)
        return OSP_OK;
    return fail(
        OSP_ENOMEM,
        "%s of KV cache are asked for, but beside %s of weights and %s of activations only %s "
        "are free on the device",
        format_bytes(asked, (double)w->kv_cache_bytes),
        format_bytes(weights, (double)p->weight_bytes),
        format_bytes(activations, (double)p->activation_bytes),
        format_bytes(has, left > 0 ? (double)left : 0));
}

static enum osp_status choose_pages(struct memory_plan *p, const struct gptoss_config *c,
                                    int n_context_requested, struct budget budget)
{
    int n_full_max = full_pages_max(p, c, budget.share_bytes);
    int n_context;

    p->context_tokens_max = n_context_requested;
    if (n_context_requested == 0)
        p->context_tokens_max = context_that_fits(n_full_max, context_allowed(c));
    n_context = pages_of_tokens(p->context_tokens_max);
    if (n_context > n_full_max)
        n_full_max = full_pages_max(p, c, budget.most_bytes);
    if (n_context > n_full_max)
        return fail_too_small(p, c, budget.most_bytes);
    p->n_pages[GROUP_FULL] = seq_product(p, n_context);
    if (p->n_pages[GROUP_FULL] > n_full_max)
        p->n_pages[GROUP_FULL] = n_full_max;
    p->n_snapshot_pages += p->n_pages[GROUP_FULL] / SNAPSHOT_PART;
    p->n_pages[GROUP_WINDOW] += p->n_pages[GROUP_FULL] / SNAPSHOT_PART;
    return OSP_OK;
}

int64_t device_share_bytes(const struct device_memory *m, double share, int64_t host_bytes)
{
    const int64_t n_free = m->is_unified && host_bytes > m->free_bytes ? host_bytes : m->free_bytes;
    const int64_t n_used = m->total_bytes - n_free;
    const int64_t n_allowed = (int64_t)(share * (double)m->total_bytes) - n_used;

    if (share <= 0 || n_allowed > n_free)
        return n_free;
    return n_allowed > 0 ? n_allowed : 0;
}

/* Pages in the tables of one sequence: at most as if no layer had a window. */
static int seq_pages_max(int n_context)
{
    return N_PAGE_GROUPS * pages_of_tokens(n_context);
}

/* The device's own memory for steps, with tables of the longest possible context: a shorter one
 * needs less. */
static int64_t step_bytes_of(const struct memory_plan *p, const struct gptoss_config *c,
                             const struct memory_request *w)
{
    const int n_context = w->context_tokens_max > 0 ? w->context_tokens_max : context_allowed(c);
    const struct batch_counts lists = sampling_state_max(p->n_seqs_max, n_context, c->vocab_size);
    const struct batch_counts counts = {.n_rows = p->n_batch_tokens_max,
                                        .n_seqs = p->n_samples_max,
                                        .n_samples = p->n_samples_max,
                                        .n_pages = seq_product(p, seq_pages_max(n_context)),
                                        .n_seen = lists.n_seen,
                                        .n_biases = lists.n_biases,
                                        .n_mask_words = lists.n_mask_words,
                                        .has_trees = w->draft != NULL};
    struct step_shape shape = model_step_shape(c, counts, p->kv_dtype, w->device_options);

    shape.n_seq_pages = seq_pages_max(n_context);
    shape.n_threads = w->n_threads;
    shape.n_ranks = w->n_ranks;
    return w->step_bytes == NULL ? 0 : w->step_bytes(&shape);
}

int memory_draft_states(int n_seqs_max)
{
    return n_seqs_max * DRAFT_KEPT_MAX;
}

int64_t memory_swap_bytes(int64_t kv_cache_bytes)
{
    const int64_t n = kv_cache_bytes / SWAP_PART;

    return n < SWAP_BYTES_MAX ? n : SWAP_BYTES_MAX;
}

enum osp_status memory_plan_try(struct memory_plan *out, const struct gptoss_config *c,
                                const struct memory_request *request, int64_t weight_bytes,
                                int64_t available_bytes)
{
    struct memory_plan *p = out;
    int n_own;
    enum osp_status st;

    *p = (struct memory_plan){.weight_bytes = weight_bytes,
                              .kv_dtype = request->kv_dtype,
                              .kv_requested_bytes = request->kv_cache_bytes};
    TRY(check_request(request, c));
    choose_batch(p, request);
    choose_draft_rows(p, request);
    p->step_bytes = step_bytes_of(p, c, request);
    p->activation_bytes =
        model_activation_bytes(c, p->n_batch_tokens_max, p->n_samples_max) + p->step_bytes;
    if (request->draft != NULL)
        p->activation_bytes +=
            draft_activation_bytes(request->draft, p->n_batch_tokens_max, p->n_samples_max,
                                   memory_draft_states(p->n_seqs_max));
    n_own = p->n_seqs_max * sched_window_pages(c->window_tokens);
    p->n_snapshot_pages = (ENDS_KEPT - 1) * n_own;
    p->n_pages[GROUP_WINDOW] = ENDS_KEPT * n_own + sched_chunk_pages(p->n_batch_tokens_max);
    TRY(check_requested(p, request, available_bytes));
    TRY(choose_pages(p, c, request->context_tokens_max, budget_of(p, request, available_bytes)));
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        p->kv_cache_bytes += p->n_pages[g] * model_page_bytes(c, (enum page_group)g, p->kv_dtype);
    p->n_seq_pages_max = seq_pages_max(p->context_tokens_max);
    p->lists = sampling_state_max(p->n_seqs_max, p->context_tokens_max, c->vocab_size);
    p->swap_bytes = memory_swap_bytes(p->kv_cache_bytes);
    p->total_bytes = p->weight_bytes + p->activation_bytes + p->kv_cache_bytes;
out:
    return st;
}

enum osp_status memory_plan_make(struct memory_plan *out, const struct gptoss_config *c,
                                 const struct memory_request *request, int64_t weight_bytes,
                                 int64_t available_bytes)
{
    const struct memory_query q = {c, request, weight_bytes, available_bytes, out};
    enum osp_status st = memory_plan_try(out, c, request, weight_bytes, available_bytes);
    char why[FAIL_MESSAGE_BYTES_MAX];
    struct buf advice;

    if (st != OSP_ENOMEM)
        return st;
    snprintf(why, sizeof why, "%s", fail_message());
    buf_init(&advice, ADVICE_BYTES_MAX);
    memory_advice_write(&advice, &q);
    if (advice.size_bytes > 0)
        st = fail(OSP_ENOMEM, "%s; ask for %s", why, buf_text(&advice));
    else
        st = fail(OSP_ENOMEM,
                  "%s; no limit on requests changes that: it needs a device with more free memory, "
                  "or a checkpoint with smaller weights",
                  why);
    buf_release(&advice);
    return st;
}
