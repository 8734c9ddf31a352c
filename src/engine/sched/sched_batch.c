/* Writes the planned step as the contiguous batch that the device gets. */
#include "engine/sched/sched_budget.h"

int64_t sched_batch_bytes_max(const struct sched_limits *l)
{
    int n_window = sched_window_pages(l->window_tokens) + sched_chunk_pages(l->n_batch_tokens_max);
    int n_pages_seq = pages_of_tokens(l->context_tokens_max) + n_window;

    return batch_bytes((struct batch_counts){
        .n_rows = l->n_batch_tokens_max,
        .n_seqs = l->n_seqs_max,
        .n_samples = l->n_seqs_max + l->n_draft_rows_max,
        .n_pages = l->n_seqs_max * n_pages_seq,
        .n_seen = l->lists.n_seen,
        .n_biases = l->lists.n_biases,
        .n_mask_words = l->lists.n_mask_words,
        .has_trees = l->n_draft_rows_max > 0,
    });
}

/* Added to the logit of the known next token of a prompt: greedy sampling then takes that token and
 * reports its log-probability, which is computed before biases. Far above any logit, and far from
 * overflow. */
static const float KNOWN_BIAS = 1e30F;

/* Writable views of a block that is being filled, and how far it is filled. */
struct filling {
    struct batch *batch;
    struct batch_counts lists;
    int32_t *tokens, *positions, *row_seq, *phases, *pages;
    uint32_t *tree_masks; /* NULL: there are no trees */
    struct batch_seq *seqs;
    struct batch_sample *samples;
    int n_rows, n_seqs, n_samples, n_pages;
    bool has_decode_prompts;
};

static void *writable(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

static struct filling filling_of(struct batch *b)
{
    return (struct filling){
        .batch = b,
        .tokens = writable(b, b->offset_tokens),
        .positions = writable(b, b->offset_positions),
        .row_seq = writable(b, b->offset_row_seq),
        .phases = writable(b, b->offset_phases),
        .pages = writable(b, b->offset_pages),
        .tree_masks = b->n_tree_masks > 0 ? writable(b, b->offset_tree_masks) : NULL,
        .seqs = writable(b, b->offset_seqs),
        .samples = writable(b, b->offset_samples),
    };
}

/* The draft of the chunk's row i; -1: it is another row. */
static int draft_of(const struct step_chunk *chunk, int i)
{
    const int draft = i - (chunk->n_rows - chunk->n_drafts);

    return draft >= 0 ? draft : -1;
}

/* The token of the chunk's row i: known, a draft, or sampled by the step in flight. */
static int32_t token_at(const struct step_chunk *chunk, int i)
{
    const struct seq *q = chunk->seq;

    if (draft_of(chunk, i) >= 0)
        return q->drafts[draft_of(chunk, i)];
    return chunk->first + i < q->n_tokens ? q->tokens[chunk->first + i]
                                          : batch_token_sampled(q->pending_sample);
}

static int position_at(const struct step_chunk *chunk, int i)
{
    const int draft = draft_of(chunk, i);

    if (draft < 0)
        return chunk->first + i;
    return chunk->seq->n_tokens - 1 + draft_depth(chunk->seq->draft_parents, draft);
}

static void fill_rows(struct filling *f, const struct step_chunk *chunk)
{
    for (int i = 0; i < chunk->n_rows; i++) {
        const int position = position_at(chunk, i), row = f->n_rows++;

        f->tokens[row] = token_at(chunk, i);
        f->positions[row] = position;
        f->row_seq[row] = f->n_seqs;
        f->phases[row] = position < chunk->seq->n_prompt && !f->has_decode_prompts ? PHASE_PREFILL
                                                                                   : PHASE_DECODE;
        if (f->tree_masks != NULL)
            f->tree_masks[row] = draft_mask(chunk->seq->draft_parents, draft_of(chunk, i));
    }
}

static void count_lists(const struct step_chunk *chunk, struct batch_counts *counts)
{
    const struct seq *q = chunk->seq;
    const int n_generated = seq_n_known(q) - q->n_prompt;

    sampling_state_count(&q->lists, n_generated, counts);
    for (int i = 0; i < chunk->n_drafts; i++)
        sampling_state_count_after(&q->lists, n_generated, draft_depth(q->draft_parents, i),
                                   counts);
}

/* The sample after the chunk's draft `draft`, whose path counts as tokens of the answer; -1: after
 * the last token. */
static void fill_sample(struct filling *f, const struct step_chunk *chunk, int draft)
{
    const struct seq *q = chunk->seq;
    const int n_generated = seq_n_known(q) - q->n_prompt;
    struct batch_sample *out = &f->samples[f->n_samples++];
    int32_t path[DRAFTS_MAX];
    const int n = draft_path(path, q->drafts, q->draft_parents, draft);

    *out = q->sampling_params;
    out->row = f->n_rows - chunk->n_drafts + draft;
    out->position = (uint32_t)(seq_n_known(q) + n);
    if (n == 0)
        sampling_state_fill(&q->lists, n_generated, f->batch, out, &f->lists);
    else
        sampling_state_fill_after(&q->lists, n_generated,
                                  (struct draft_list){path, n, out[-1].first_mask_word}, f->batch,
                                  out, &f->lists);
}

/* Samples at a prompt position, for the log-probability of the next prompt token. */
static void fill_prompt_logprobs(struct filling *f, const struct seq *q, int position, int row)
{
    struct batch_bias *biases = writable(f->batch, f->batch->offset_biases);

    biases[f->lists.n_biases] = (struct batch_bias){q->tokens[position + 1], KNOWN_BIAS};
    f->samples[f->n_samples++] = (struct batch_sample){.row = row,
                                                       .top_p = 1,
                                                       .position = (uint32_t)position + 1,
                                                       .n_top = q->n_top_prompt_logprobs,
                                                       .n_biases = 1,
                                                       .first_seen = f->lists.n_seen,
                                                       .first_bias = f->lists.n_biases,
                                                       .first_mask_word = f->lists.n_mask_words};
    f->lists.n_biases++;
}

static void fill_chunk(struct filling *f, const struct step_chunk *chunk)
{
    const int first_logprob = chunk_first_logprob(chunk);
    struct batch_seq *seq = &f->seqs[f->n_seqs];

    seq->first_row = f->n_rows;
    seq->n_rows = chunk->n_rows;
    fill_rows(f, chunk);
    page_lists_write(chunk->seq->pages, seq, f->pages, &f->n_pages);
    for (int i = 0; i < chunk->n_prompt_logprobs; i++)
        fill_prompt_logprobs(f, chunk->seq, first_logprob + i,
                             seq->first_row + first_logprob + i - chunk->first);
    for (int i = 0; i <= chunk->n_drafts && chunk->is_sampled; i++)
        fill_sample(f, chunk, i - 1);
    f->n_seqs++;
}

static struct batch *lay_out(const struct step_plan *plan, void *memory)
{
    struct batch_counts counts = {.n_rows = plan->n_rows,
                                  .n_seqs = plan->n_chunks,
                                  .n_samples = plan->n_prompt_logprobs + plan->n_sampled,
                                  .n_pages = plan->n_pages,
                                  .n_biases = plan->n_prompt_logprobs};
    struct batch *b;
    struct filling f;

    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *chunk = &plan->chunks[i];

        if (chunk->is_sampled)
            count_lists(chunk, &counts);
        counts.has_trees =
            counts.has_trees || !draft_is_chain(chunk->seq->draft_parents, chunk->n_drafts);
    }
    b = batch_init(memory, counts);
    f = filling_of(b);
    f.has_decode_prompts = plan->has_decode_prompts;

    for (int i = 0; i < plan->n_chunks; i++)
        fill_chunk(&f, &plan->chunks[i]);
    return b;
}

/* True when more than a token's own place in the batch depends on a token that is not known yet. */
static bool has_open_lists(const struct step_plan *plan)
{
    for (int i = 0; i < plan->n_chunks; i++) {
        const struct seq *q = plan->chunks[i].seq;

        if (q->is_token_pending && (q->lists.seen != NULL || q->is_constrained))
            return true;
    }
    return false;
}

/* Fills in tokens that were sampled since the batch was laid out: each is its sequence's last. */
static void fill_unknown(const struct step_plan *plan)
{
    const struct batch_seq *seqs = BATCH_SEQS(plan->batch);
    int32_t *tokens = writable(plan->batch, plan->batch->offset_tokens);

    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *chunk = &plan->chunks[i];
        int row = seqs[i].first_row + seqs[i].n_rows - 1;

        if (tokens[row] < 0)
            tokens[row] = chunk->seq->tokens[chunk->first + chunk->n_rows - 1];
    }
}

struct batch *sched_batch(struct sched *s, void *memory)
{
    struct step_plan *plan = s->plan;

    if (s->in_flight != NULL && has_open_lists(plan))
        return NULL;
    if (plan->batch == NULL)
        plan->batch = lay_out(plan, memory);
    else if (s->in_flight == NULL && !plan->is_sent)
        fill_unknown(plan);
    return plan->batch;
}
