/* A step: upload of its batch, its launches, and download of its results. */
#include <string.h>

#include "base/rng.h"
#include "cuda/program/plan.h"

/* ---- slots ---- */

static enum osp_status results_reserve(struct gpu *gpu, struct step_slot *slot)
{
    const size_t n =
        (size_t)gpu->limits.n_samples_max * (2 + 2 * TOP_LOGPROBS_MAX + DRAFT_CANDIDATES_MAX);
    enum osp_status st = OSP_OK;

    if (slot->results != NULL)
        return OSP_OK;
    TRY(gpu_check(
        cudaMallocHost((void **)&slot->results, sizeof(struct step_results) + n * sizeof(int32_t)),
        "allocating pinned memory for results"));
    memset(slot->results, 0, sizeof(*slot->results));
    TRY(gpu_check(cudaEventCreateWithFlags(&slot->done, cudaEventDisableTiming),
                  "creating an event"));
out:
    return st;
}

static enum osp_status slot_reserve(struct gpu *gpu, struct step_slot *slot, size_t size_bytes)
{
    enum osp_status st;

    TRY(results_reserve(gpu, slot));
    if (size_bytes <= slot->batch_bytes)
        return OSP_OK;
    (void)cudaFreeHost(slot->batch);
    slot->batch = NULL;
    slot->batch_bytes = 0;
    TRY(gpu_check(cudaMallocHost((void **)&slot->batch, size_bytes),
                  "allocating pinned memory for batches"));
    slot->batch_bytes = size_bytes;
out:
    return st;
}

enum osp_status gpu_slots_reserve(struct gpu *gpu, size_t size_bytes)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < STEPS_QUEUED_MAX; i++)
        TRY(slot_reserve(gpu, &gpu->step_slots[i], size_bytes));
out:
    return st;
}

void gpu_slots_release(struct gpu *gpu)
{
    for (struct step_slot *slot = gpu->step_slots; slot < gpu->step_slots + STEPS_QUEUED_MAX;
         slot++) {
        (void)cudaFreeHost(slot->batch);
        (void)cudaFreeHost(slot->results);
        if (slot->done != NULL)
            (void)cudaEventDestroy(slot->done);
        for (int i = 0; i < 2; i++)
            if (slot->span[i] != NULL)
                (void)cudaEventDestroy(slot->span[i]);
        gpu_stage_events_free(&slot->events);
    }
}

/* A free slot, or, after a wait, the slot of the oldest step. */
static enum osp_status next_slot(struct gpu *gpu, struct step_slot **out)
{
    *out = &gpu->step_slots[(gpu->ticket + 1) % STEPS_QUEUED_MAX];
    return gpu_step_finish(gpu, *out);
}

/* ---- upload ---- */

/* Of how many earlier steps, the one with tokens_ticket and those before it, samples may be tokens
 * of rows. */
static int n_steps_back(const struct batch *b)
{
    int n = 0;

    for (int row = 0; row < b->n_rows; row++) {
        const int32_t token = BATCH_TOKENS(b)[row];

        if (token < 0 && batch_sample_back(token) >= n)
            n = batch_sample_back(token) + 1;
    }
    return n;
}

static bool has_top(const struct batch *b)
{
    for (int i = 0; i < b->n_samples; i++)
        if (BATCH_SAMPLES(b)[i].n_top > 0)
            return true;
    return false;
}

/* Where the tokens of the step with this ticket are kept. */
static int32_t *sampled_of(const struct gpu *gpu, uint64_t ticket)
{
    return (int32_t *)gpu->workspaces.at[WORKSPACE_sampled].data +
           (int64_t)(ticket % STEPS_QUEUED_MAX) * gpu->limits.n_samples_max;
}

static enum osp_status check_sampled(const struct gpu *gpu, uint64_t ticket)
{
    if (ticket != 0 && gpu->sampled_by[ticket % STEPS_QUEUED_MAX] == ticket)
        return OSP_OK;
    return fail(OSP_EINTERNAL,
                "cuda: step %llu takes tokens of step %llu, which did not sample, or which a later "
                "step has replaced",
                (unsigned long long)gpu->ticket + 1, (unsigned long long)ticket);
}

/* Queued behind the upload of a batch that depends on accepted drafts. keys_bytes: before it. */
static enum osp_status follow(struct gpu *gpu, const struct batch *b, int64_t keys_bytes)
{
    char *keys = gpu->workspaces.at[WORKSPACE_batch].data;
    const struct follow_launch l = {.batch = (struct batch *)(void *)(keys + keys_bytes),
                                    .sampled = sampled_of(gpu, b->follows_ticket),
                                    .noise_keys = (uint64_t *)(void *)keys,
                                    .n_follows = b->n_follows};
    enum osp_status st;

    TRY(check_sampled(gpu, b->follows_ticket));
    launch_follow(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "launching the count of accepted drafts"));
out:
    return st;
}

/* The keys of the samples' noise, followed by the batch, always at the same address. *header is
 * the batch as it is laid out on the device. */
static enum osp_status upload(struct gpu *gpu, struct step_slot *slot, const struct batch *b,
                              const struct step_counts *counts, const struct batch **header)
{
    const int64_t before_bytes = noise_keys_bytes(gpu->limits.n_samples_max);
    const int64_t all_bytes = upload_bytes(gpu->limits.n_samples_max, step_batch_bytes(b, counts));
    const struct batch_sample *samples = BATCH_SAMPLES(b);
    const int n_back = n_steps_back(b);
    struct upload_launch l;
    enum osp_status st;

    TRY(slot_reserve(gpu, slot, (size_t)all_bytes));
    TRY(gpu_workspace_reserve(gpu, WORKSPACE_batch, all_bytes));
    *header = step_batch_copy(slot->batch + before_bytes, b, counts);
    for (int i = 0; i < b->n_samples; i++)
        ((uint64_t *)(void *)slot->batch)[i] = rng_key(samples[i].seed, samples[i].position);
    l = (struct upload_launch){.from = slot->batch,
                               .to = gpu->workspaces.at[WORKSPACE_batch].data,
                               .n_bytes = all_bytes,
                               .first_token =
                                   (before_bytes + b->offset_tokens) / (int64_t)sizeof(int32_t),
                               .n_tokens = b->n_rows,
                               .results = slot->results};
    if (gpu->window != NULL) {
        l.n_exchanges_to = gpu->peers.n_before;
        l.n_exchanges = gpu->n_exchanges;
    }
    if (n_back > BATCH_STEPS_BACK) {
        st = fail(OSP_EINTERNAL, "cuda: a batch has tokens of %d steps, at most %d are kept",
                  n_back, BATCH_STEPS_BACK);
        goto out;
    }
    for (int back = 0; back < n_back; back++) {
        TRY(check_sampled(gpu, b->tokens_ticket - (uint64_t)back));
        l.sampled[back] = sampled_of(gpu, b->tokens_ticket - (uint64_t)back);
    }
    launch_upload(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "launching the upload of a batch"));
    if (b->n_follows > 0)
        TRY(follow(gpu, b, before_bytes));
out:
    return st;
}

enum osp_status gpu_transfer_try(struct gpu *gpu)
{
    struct step_slot *slot = &gpu->step_slots[0];
    const struct upload_launch up = {.from = slot->batch,
                                     .to = gpu->workspaces.at[WORKSPACE_batch].data,
                                     .n_bytes = upload_bytes(0, 1),
                                     .results = slot->results};
    const struct download_launch down = {.n_experts_read = gpu->n_experts_read,
                                         .results = slot->results};
    enum osp_status st;

    launch_upload(gpu->stream, &up);
    launch_follow(gpu->stream, &(struct follow_launch){.n_follows = 0});
    launch_download(gpu->stream, &down);
    TRY(gpu_check(cudaGetLastError(), "trying the upload and download kernels"));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "trying the upload and download kernels"));
out:
    return st;
}

/* ---- download ---- */

static enum osp_status download(struct gpu *gpu, const struct compiled *c, struct step_slot *slot,
                                const struct batch *b)
{
    const uint64_t ticket = gpu->ticket + 1;
    const bool has_samples = c->sample.tokens.data != NULL;
    const struct download_launch l = {.args = c->sample,
                                      .n_samples = has_samples ? b->n_samples : 0,
                                      .n_samples_max = gpu->limits.n_samples_max,
                                      .sampled = sampled_of(gpu, ticket),
                                      .has_top = has_top(b),
                                      .has_candidates = has_samples && b->n_candidates > 0,
                                      .n_experts_read = gpu->n_experts_read,
                                      .results = slot->results};
    enum osp_status st;

    launch_download(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "launching the download of results"));
    TRY(gpu_check(cudaEventRecord(slot->done, gpu->stream), "recording an event"));
    if (has_samples)
        gpu->sampled_by[ticket % STEPS_QUEUED_MAX] = ticket;
out:
    return st;
}

/* ---- a step ---- */

enum osp_status gpu_run(struct backend *be, struct compiled *c, const struct batch *b,
                        uint64_t *ticket)
{
    struct gpu *gpu = gpu_select(be);
    const int n_padded_max = gpu->limits.n_rows_max < gpu->limits.n_samples_max
                                 ? gpu->limits.n_rows_max
                                 : gpu->limits.n_samples_max;
    struct step_counts counts;
    const struct batch *header;
    struct step_slot *slot;
    struct step_plan *plan;
    enum osp_status st;

    TRY(next_slot(gpu, &slot));
    TRY(gpu_pack_end(gpu));
    TRY(step_counts_of(&counts, b));
    step_work(slot->work, &c->rates, &counts, b);
    step_counts_pad(&counts, n_padded_max);
    TRY(upload(gpu, slot, b, &counts, &header));
    TRY(gpu_plan_of(gpu, c, &counts, header, &plan));
    TRY(gpu_plan_run(gpu, plan, slot));
    gpu->n_exchanges += (uint32_t)plan->list.n_exchanges;
    TRY(download(gpu, c, slot, b));
    slot->is_running = true;
    *ticket = slot->ticket = ++gpu->ticket;
out:
    return st;
}

enum osp_status gpu_step_wait(struct backend *be, uint64_t ticket)
{
    struct gpu *gpu = gpu_select(be);
    struct step_slot *slot = &gpu->step_slots[ticket % STEPS_QUEUED_MAX];

    gpu->completed = slot->ticket == ticket ? slot : NULL; /* NULL: a later step uses its slot */
    return gpu_step_finish(gpu, slot);
}

/* step_wait() reports failures. */
bool gpu_step_has_ended(struct backend *be, uint64_t ticket)
{
    const struct step_slot *slot = &gpu_select(be)->step_slots[ticket % STEPS_QUEUED_MAX];

    if (slot->ticket != ticket || !slot->is_running ||
        cudaEventQuery(slot->done) != cudaErrorNotReady)
        return true;
    (void)cudaGetLastError(); /* clears cudaErrorNotReady */
    return false;
}

enum osp_status gpu_sampled(struct backend *be, struct sampled *out)
{
    const struct gpu *gpu = gpu_select(be);
    const int64_t n = gpu->limits.n_samples_max;
    const int32_t *lists;

    if (gpu->completed == NULL)
        return fail(OSP_EINTERNAL, "cuda: the results of the step are lost: step_wait() was called "
                                   "after a later step had taken its slot");
    lists = gpu->completed->results->lists;
    *out = (struct sampled){.tokens = lists,
                            .logprobs = (const float *)(lists + n),
                            .top_tokens = lists + 2 * n,
                            .top_logprobs = (const float *)(lists + (2 + TOP_LOGPROBS_MAX) * n),
                            .candidates = lists + (2 + 2 * TOP_LOGPROBS_MAX) * n,
                            .begin_ns = gpu->completed->results->begin_ns,
                            .end_ns = gpu->completed->results->end_ns,
                            .is_graph = gpu->completed->is_graph};
    return OSP_OK;
}
