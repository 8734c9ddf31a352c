/* Sorted lists of ids, and their copies in a batch. */
#include "engine/sched/sampling_state.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/logits_process.h"
#include "base/memory.h"

enum {
    /* Limits of a step, all sequences together, unless one alone needs more: 8, 2 and 16 MiB. */
    STEP_SEEN_MAX = 1 << 20,
    STEP_BIASES_MAX = 1 << 18,
    STEP_MASK_WORDS_MAX = 1 << 22
};
static_assert((int)SAMPLING_BIASES_MAX < (int)STEP_BIASES_MAX, "one sequence's fit into a step");

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static int mask_words(int n_ids)
{
    return (n_ids + MASK_WORD_IDS - 1) / MASK_WORD_IDS;
}

static enum osp_status check_id(const char *field, int i, int32_t id, int n_ids)
{
    if (id < 0 || id >= n_ids)
        return fail(OSP_EINVAL, "%s: token %d (entry %d) is not in the vocabulary, ids are 0 to %d",
                    field, (int)id, i, n_ids - 1);
    return OSP_OK;
}

/* ---- ids of prompt and answer ---- */

/* Index of the first of n entries with at least this id. */
static int find_seen(const struct batch_seen *seen, int n, int32_t id)
{
    int from = 0;

    while (from < n) {
        int middle = from + (n - from) / 2;

        if (seen[middle].id < id)
            from = middle + 1;
        else
            n = middle;
    }
    return from;
}

static int by_id(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;

    return (left > right) - (left < right);
}

static enum osp_status init_seen(struct sampling_state *d, const struct sampling_state_config *w)
{
    const struct osp_sampling *s = &w->options->sampling;
    const bool has_repetition = s->repetition_penalty > 0 && s->repetition_penalty != 1;
    int32_t *ids = NULL;
    enum osp_status st = OSP_OK;

    if (!has_repetition && s->presence_penalty == 0 && s->frequency_penalty == 0)
        return OSP_OK;
    TRY(mem_try_aligned(&d->seen, (size_t)min_int(w->n_tokens_max, w->n_ids), sizeof(*d->seen),
                        "ids that a request has seen"));
    if (!has_repetition)
        goto out; /* the other two penalties count the answer alone */
    TRY(mem_try_array(&ids, (size_t)w->n_prompt, sizeof(*ids), "ids of a prompt"));
    memcpy(ids, w->prompt, (size_t)w->n_prompt * sizeof(*ids));
    qsort(ids, (size_t)w->n_prompt, sizeof(*ids), by_id);
    for (int i = 0; i < w->n_prompt; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            d->seen[d->n_seen++] = (struct batch_seen){.id = ids[i]};
out:
    free(ids);
    return st;
}

/* Counts a token in a list with place for one more id. */
static void add_seen(struct batch_seen *seen, int *n, int32_t token)
{
    const int at = find_seen(seen, *n, token);

    if (at == *n || seen[at].id != token) {
        memmove(seen + at + 1, seen + at, (size_t)(*n - at) * sizeof(*seen));
        seen[at] = (struct batch_seen){.id = token};
        ++*n;
    }
    seen[at].n_generated++;
}

void sampling_state_add_token(struct sampling_state *d, int32_t token)
{
    if (d->seen != NULL)
        add_seen(d->seen, &d->n_seen, token);
}

/* ---- biases ---- */

static enum osp_status copy_biases(struct sampling_state *d, const struct sampling_state_config *w)
{
    const struct osp_request_options *s = w->options;
    enum osp_status st;

    if (s->n_biases < 0 || s->n_biases > OSP_LOGIT_BIASES_MAX)
        return fail(OSP_EINVAL, "logit_bias: %d entries, the limit is %d", s->n_biases,
                    OSP_LOGIT_BIASES_MAX);
    TRY(mem_try_array(&d->biases, (size_t)s->n_biases, sizeof(*d->biases), "biases"));
    for (int i = 0; i < s->n_biases; i++) {
        TRY(check_id("logit_bias", i, s->biases[i].token, w->n_ids));
        if (!(fabsf(s->biases[i].bias) <= OSP_LOGIT_BIAS_MAX))
            return fail(OSP_EINVAL, "logit_bias: %g for token %d, must be from %d to %d",
                        (double)s->biases[i].bias, (int)s->biases[i].token, -OSP_LOGIT_BIAS_MAX,
                        OSP_LOGIT_BIAS_MAX);
        d->biases[d->n_biases++] = (struct batch_bias){s->biases[i].token, s->biases[i].bias};
    }
    if (d->n_biases > 0)
        qsort(d->biases, (size_t)d->n_biases, sizeof(*d->biases), by_id);
    for (int i = 1; i < d->n_biases; i++)
        if (d->biases[i].id == d->biases[i - 1].id)
            return fail(OSP_EINVAL, "logit_bias: token %d comes twice", (int)d->biases[i].id);
out:
    return st;
}

/* Stop tokens first: of two entries of an id, the stop token's stays. */
static int by_id_and_bias(const void *a, const void *b)
{
    const struct batch_bias *left = a, *right = b;

    if (left->id != right->id)
        return left->id < right->id ? -1 : 1;
    return (left->bias > right->bias) - (left->bias < right->bias);
}

static enum osp_status init_min_biases(struct sampling_state *d,
                                       const struct sampling_state_config *w)
{
    int n = 0, n_all = d->n_biases + w->n_stop_ids;
    enum osp_status st = OSP_OK;

    d->tokens_min = w->options->tokens_min;
    if (d->tokens_min == 0)
        return OSP_OK;
    assert(n_all <= SAMPLING_BIASES_MAX);
    TRY(mem_try_array(&d->min_biases, (size_t)n_all, sizeof(*d->min_biases), "biases"));
    for (int i = 0; i < w->n_stop_ids; i++)
        d->min_biases[i] = (struct batch_bias){w->stop_ids[i], -INFINITY};
    for (int i = 0; i < d->n_biases; i++)
        d->min_biases[w->n_stop_ids + i] = d->biases[i];
    qsort(d->min_biases, (size_t)n_all, sizeof(*d->min_biases), by_id_and_bias);
    for (int i = 0; i < n_all; i++)
        if (n == 0 || d->min_biases[i].id != d->min_biases[n - 1].id)
            d->min_biases[n++] = d->min_biases[i];
    d->n_min_biases = n;
out:
    return st;
}

/* ---- the mask ---- */

static enum osp_status init_mask(struct sampling_state *d, const struct sampling_state_config *w)
{
    const struct osp_request_options *s = w->options;
    enum osp_status st = OSP_OK;

    if (s->n_allowed_tokens == 0)
        return OSP_OK;
    if (s->n_allowed_tokens < 0)
        return fail(OSP_EINVAL, "allowed_token_ids: %d entries", s->n_allowed_tokens);
    d->n_mask_words = mask_words(w->n_ids);
    TRY(mem_try_array(&d->mask, (size_t)d->n_mask_words, sizeof(*d->mask), "a mask"));
    for (int i = 0; i < s->n_allowed_tokens; i++) {
        TRY(check_id("allowed_token_ids", i, s->allowed_tokens[i], w->n_ids));
        d->mask[s->allowed_tokens[i] / MASK_WORD_IDS] |= 1u
                                                         << (s->allowed_tokens[i] % MASK_WORD_IDS);
    }
out:
    return st;
}

enum osp_status sampling_state_need_mask(struct sampling_state *d, int n_ids)
{
    enum osp_status st = OSP_OK;

    d->has_grammar = true;
    if (d->mask != NULL)
        return OSP_OK;
    TRY(mem_try_array(&d->mask, (size_t)mask_words(n_ids), sizeof(*d->mask), "a mask"));
    d->n_mask_words = mask_words(n_ids);
out:
    return st;
}

/* ---- together ---- */

enum osp_status sampling_state_init(struct sampling_state *d,
                                    const struct sampling_state_config *config)
{
    enum osp_status st;

    *d = (struct sampling_state){0};
    TRY(init_seen(d, config));
    TRY(copy_biases(d, config));
    TRY(init_min_biases(d, config));
    TRY(init_mask(d, config));
out:
    if (st != OSP_OK)
        sampling_state_release(d);
    return st;
}

void sampling_state_release(struct sampling_state *d)
{
    free(d->seen);
    free(d->biases);
    free(d->min_biases);
    free(d->mask);
    *d = (struct sampling_state){0};
}

static bool is_below_tokens_min(const struct sampling_state *d, int n_generated)
{
    return n_generated < d->tokens_min;
}

/* True when the mask allows an id that `early` does not exclude. */
static bool can_continue(const struct sampling_state *d)
{
    int n_more = 0;

    for (int i = 0; i < d->n_min_biases; i++)
        n_more -= d->min_biases[i].bias == -INFINITY && mask_allows(d->mask, d->min_biases[i].id);
    for (int i = 0; i < d->n_mask_words && n_more <= 0; i++)
        n_more += __builtin_popcount(d->mask[i]);
    return n_more > 0;
}

/* A grammar that can only end here ends the answer, even before tokens_min. */
static bool is_stop_masked(const struct sampling_state *d, int n_generated)
{
    return is_below_tokens_min(d, n_generated) && (!d->has_grammar || can_continue(d));
}

void sampling_state_count(const struct sampling_state *d, int n_generated,
                          struct batch_counts *counts)
{
    counts->n_seen += d->n_seen;
    counts->n_biases += is_below_tokens_min(d, n_generated) ? d->n_min_biases : d->n_biases;
    counts->n_mask_words += d->n_mask_words;
}

/* A draft may be a new id. */
void sampling_state_count_after(const struct sampling_state *d, int n_generated, int n_drafts,
                                struct batch_counts *counts)
{
    counts->n_seen += d->seen != NULL ? d->n_seen + n_drafts : 0;
    counts->n_biases +=
        is_below_tokens_min(d, n_generated + n_drafts) ? d->n_min_biases : d->n_biases;
}

static void *at(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

static void fill_seen(const struct sampling_state *d, const struct draft_list *drafts,
                      struct batch *b, struct batch_sample *sample, int first)
{
    struct batch_seen *seen = (struct batch_seen *)at(b, b->offset_seen) + first;

    sample->first_seen = first;
    sample->n_seen = d->n_seen;
    if (d->n_seen > 0)
        memcpy(seen, d->seen, (size_t)d->n_seen * sizeof(*d->seen));
    for (int i = 0; i < drafts->n && d->seen != NULL; i++)
        add_seen(seen, &sample->n_seen, drafts->tokens[i]);
}

static void fill_biases(const struct sampling_state *d, int n_generated, struct batch *b,
                        struct batch_sample *sample, int first)
{
    const bool min_biases = is_stop_masked(d, n_generated);

    sample->first_bias = first;
    sample->n_biases = min_biases ? d->n_min_biases : d->n_biases;
    if (sample->n_biases > 0)
        memcpy((struct batch_bias *)at(b, b->offset_biases) + first,
               min_biases ? d->min_biases : d->biases,
               (size_t)sample->n_biases * sizeof(*d->biases));
}

void sampling_state_fill(const struct sampling_state *d, int n_generated, struct batch *b,
                         struct batch_sample *sample, struct batch_counts *filled)
{
    fill_seen(d, &(struct draft_list){.n = 0}, b, sample, filled->n_seen);
    fill_biases(d, n_generated, b, sample, filled->n_biases);
    sample->n_mask_words = d->n_mask_words;
    sample->first_mask_word = filled->n_mask_words;
    if (sample->n_mask_words > 0)
        memcpy((uint32_t *)at(b, b->offset_masks) + filled->n_mask_words, d->mask,
               (size_t)d->n_mask_words * sizeof(*d->mask));
    sampling_state_count(d, n_generated, filled);
}

void sampling_state_fill_after(const struct sampling_state *d, int n_generated,
                               struct draft_list drafts, struct batch *b,
                               struct batch_sample *sample, struct batch_counts *filled)
{
    fill_seen(d, &drafts, b, sample, filled->n_seen);
    fill_biases(d, n_generated + drafts.n, b, sample, filled->n_biases);
    sample->n_mask_words = d->n_mask_words;
    sample->first_mask_word = drafts.first_mask_word;
    sampling_state_count_after(d, n_generated, drafts.n, filled);
}

/* What all sequences need, at most `most`, unless one sequence needs more. */
static int step_max(int n_seqs_max, int n_each, int most)
{
    const int64_t all = (int64_t)n_seqs_max * n_each;

    if (n_each > most)
        most = n_each;
    return all < most ? (int)all : most;
}

struct batch_counts sampling_state_max(int n_seqs_max, int context_tokens_max, int n_ids)
{
    return (struct batch_counts){
        .n_seen = step_max(n_seqs_max, min_int(context_tokens_max, n_ids), STEP_SEEN_MAX),
        .n_biases = step_max(n_seqs_max, min_int(SAMPLING_BIASES_MAX, n_ids), STEP_BIASES_MAX),
        .n_mask_words = step_max(n_seqs_max, mask_words(n_ids), STEP_MASK_WORDS_MAX)};
}
