#include "engine/core/draft_model_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/* What a device that queues steps does for the head beside a step is waited for by nobody, so its
 * time is not measured while serving. COPY_NS, for the kernel that copies the states of all
 * requests, is an estimate; with TAPS_NS, for the copies in the step, a step of one H200 took 9 us
 * longer (measure_head). */
static const double COPY_NS = 5e3, TAPS_NS = 10e3;

static_assert((int)BATCH_DRAFTS_MAX == (int)DRAFTS_MAX, "a batch has the drafts of any step");

/* ---- life cycle ---- */

enum osp_status draft_model_new(struct draft_model **out, struct model *model,
                                const struct sched_limits *limits)
{
    struct draft_model *d = mem_new(sizeof *d);
    const size_t n = (size_t)limits->n_seqs_max;
    const int n_pages = (limits->context_tokens_max + PAGE_TOKENS - 1) / PAGE_TOKENS + 1;
    const struct batch_counts counts = {.n_rows = limits->n_batch_tokens_max,
                                        .n_seqs = limits->n_seqs_max,
                                        .n_samples = limits->n_seqs_max + limits->n_draft_rows_max,
                                        .n_pages = limits->n_seqs_max * n_pages,
                                        .has_trees = true,
                                        .n_follows = limits->n_seqs_max};
    enum osp_status st;

    d->model = model;
    d->is_pipelined = model_draft_is_pipelined(model);
    d->n_seqs_max = limits->n_seqs_max;
    d->n_decode_max = limits->n_seqs_max + limits->n_draft_rows_max;
    d->n_rows_max = limits->n_batch_tokens_max;
    d->n_kept_max = d->n_rows_max < DRAFT_KEPT_MAX ? d->n_rows_max : (int)DRAFT_KEPT_MAX;
    TRY(mem_try_array(&d->places, n, sizeof *d->places, "states for a draft head"));
    TRY(mem_try_array(&d->segments, n, sizeof *d->segments, "rows of a draft head"));
    TRY(mem_try_array(&d->tokens, n, sizeof *d->tokens, "guesses of a draft head"));
    d->n_samples_max = counts.n_samples;
    TRY(mem_try_array(&d->candidates, (size_t)counts.n_samples,
                      DRAFT_CANDIDATES_MAX * sizeof *d->candidates, "guesses of a draft head"));
    TRY(mem_try_array(&d->kept, n, sizeof *d->kept, "states for a draft head"));
    TRY(mem_try_array(&d->chain.at, n, sizeof(struct draft_request *), "guesses of a draft head"));
    TRY(mem_try_array(&d->passes, n * (DRAFTS_MAX + 1), sizeof *d->passes,
                      "guesses of a draft head"));
    TRY(mem_try_aligned(&d->batch_memory, (size_t)batch_bytes(counts), 1, "a draft head's batch"));
    *out = d;
out:
    if (st != OSP_OK)
        draft_model_free(d);
    return st;
}

void draft_model_free(struct draft_model *d)
{
    if (d == NULL)
        return;
    free(d->places);
    free(d->segments);
    free(d->tokens);
    free(d->candidates);
    free(d->kept);
    free(d->chain.at);
    free(d->passes);
    free(d->batch_memory);
    free(d);
}

/* ---- a batch of the head ---- */

static void *writable(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

/* A few rows with guesses are decode rows, whose kernels are faster. Bits do not matter. */
static enum phase phase_of(const struct draft_model *d, const struct draft_segment *s)
{
    const bool has_guesses = s->sampled != NULL || d->chain.follows_ticket != 0;

    return has_guesses && d->n_rows <= d->n_decode_max ? PHASE_DECODE : PHASE_PREFILL;
}

static void fill_rows(struct batch *b, const struct draft_segment *s, int seq, int row,
                      enum phase phase)
{
    int32_t *tokens = writable(b, b->offset_tokens), *positions = writable(b, b->offset_positions);
    int32_t *seqs = writable(b, b->offset_row_seq), *phases = writable(b, b->offset_phases);

    for (int i = 0; i < s->n_rows; i++) {
        tokens[row + i] = s->tokens != NULL ? s->tokens[s->first + i + 1] : s->token - i;
        positions[row + i] = s->first + i;
        seqs[row + i] = seq;
        phases[row + i] = (int32_t)phase;
    }
}

/* The head has no layer of the window group, whose table is the same one here. */
void draft_fill_seq(struct batch *b, const struct draft_segment *s, int seq, int row, int page)
{
    struct batch_seq *out = (struct batch_seq *)writable(b, b->offset_seqs) + seq;

    *out = (struct batch_seq){.first_row = row, .n_rows = s->n_rows};
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        out->first_page[g] = s->first_page;
        out->table[g] = page;
        out->n_pages[g] = s->n_pages;
    }
    memcpy((int32_t *)writable(b, b->offset_pages) + page, s->pages,
           (size_t)s->n_pages * sizeof *s->pages);
}

/* The random number of a position is the target's, so that a guess of the same distribution is the
 * target's token. Penalties, biases and masks stay with the target. */
struct batch_sample draft_sample_of(const struct seq *q, int row, int position)
{
    const struct batch_sample *p = &q->sampling_params;

    return (struct batch_sample){.row = row,
                                 .temperature = p->temperature,
                                 .top_k = p->top_k,
                                 .top_p = p->top_p,
                                 .min_p = p->min_p,
                                 .position = (uint32_t)position,
                                 .seed = p->seed};
}

static void fill_sample(struct batch *b, const struct draft_segment *s, int row)
{
    struct batch_sample *out = writable(b, b->offset_samples);

    out[s->sample] = draft_sample_of(s->sampled, row + s->n_rows - 1, s->sampled_position);
}

static void fill_follow(struct batch *b, const struct draft_segment *s, int seq)
{
    struct batch_follow *out = (struct batch_follow *)writable(b, b->offset_follows) + seq;

    *out = s->follow != NULL ? *s->follow : (struct batch_follow){.n_drafts = 0};
    out->sample = s->sampled != NULL ? s->sample : -1;
    out->lowers_row = out->n_drafts > 0 && s->n_rows > 1;
}

static struct batch *lay_out(struct draft_model *d)
{
    struct batch_counts counts = {
        .n_rows = d->n_rows, .n_seqs = d->n_segments, .n_pages = d->n_pages};
    struct batch *b;
    int row = 0, page = 0;

    for (int i = 0; i < d->n_segments; i++)
        counts.n_samples += d->segments[i].sampled != NULL;
    counts.n_follows = d->chain.follows_ticket != 0 ? d->n_segments : 0;
    b = batch_init(d->batch_memory, counts);
    b->follows_ticket = d->chain.follows_ticket;
    for (int i = 0; i < d->n_segments; i++) {
        const struct draft_segment *s = &d->segments[i];

        fill_rows(b, s, i, row, phase_of(d, s));
        draft_fill_seq(b, s, i, row, page);
        if (s->sampled != NULL)
            fill_sample(b, s, row);
        if (counts.n_follows > 0)
            fill_follow(b, s, i);
        row += s->n_rows;
        page += s->n_pages;
    }
    b->n_candidates = counts.n_samples > 0 ? d->n_candidates : 0;
    return b;
}

static void clear(struct draft_model *d)
{
    d->n_segments = d->n_rows = d->n_pages = 0;
}

/* Runs what was collected, from states of the target. */
static enum osp_status run_collected(struct draft_model *d)
{
    uint64_t ticket;
    enum osp_status st = OSP_OK;

    if (d->n_rows > 0)
        TRY(model_draft_run(d->model, lay_out(d), &ticket));
    if (d->n_rows > 0 && !d->is_queued)
        TRY(model_draft_tokens(d->model, ticket, 0, NULL));
    clear(d);
out:
    return st;
}

/* Adds a segment's rows to the batch. The caller has made place for them. */
static void collect(struct draft_model *d, const struct draft_segment *s)
{
    assert(d->n_segments < d->n_seqs_max && d->n_rows + s->n_rows <= d->n_rows_max);
    d->segments[d->n_segments++] = *s;
    d->n_rows += s->n_rows;
    d->n_pages += s->n_pages;
}

/* ---- places of states ---- */

static int first_place(const struct draft_progress *p)
{
    return (p->place - 1) * DRAFT_KEPT_MAX;
}

void draft_model_touch(struct draft_model *d, const struct draft_progress *p)
{
    if (p->place > 0 && d->places[p->place - 1].owner == p)
        d->places[p->place - 1].used = d->n_steps + 1;
}

/* The request that has not run for the longest time loses its places: at most n_seqs_max run. */
static void find_places(struct draft_model *d, struct draft_progress *p)
{
    int oldest = 0;

    draft_model_touch(d, p);
    if (p->place > 0 && d->places[p->place - 1].owner == p)
        return;
    for (int i = 1; i < d->n_seqs_max; i++)
        if (d->places[i].used < d->places[oldest].used)
            oldest = i;
    d->places[oldest] = (struct draft_places){.owner = p, .used = d->n_steps + 1};
    p->place = oldest + 1;
    p->first_kept += p->n_kept; /* those that waited are lost: the head has gaps there */
    p->n_kept = 0;
}

/* ---- following the target ---- */

/* The target's rows of a chunk: row i of those whose next token is known. With drafts these are the
 * row of the last token and those of accepted drafts, which need not be adjacent in a tree. */
struct step_rows {
    int first;
    const int8_t *path; /* NULL: they are adjacent */
};

static struct step_rows step_rows_of(const struct step_chunk *chunk, const struct batch_seq *seq)
{
    return (struct step_rows){seq->first_row, chunk->n_drafts > 0 ? chunk->path : NULL};
}

static int step_row(const struct step_rows *r, int i)
{
    return r->first + (r->path != NULL ? r->path[i] : i);
}

/* Rows from i on, of n in all, that are adjacent. */
static int n_adjacent(const struct step_rows *r, int i, int n)
{
    int k = 1;

    while (i + k < n && step_row(r, i + k) == step_row(r, i) + k)
        k++;
    return k;
}

/* Rows [i, end) become rows of the head's batch, from `row` on. */
static enum osp_status take_rows(struct draft_model *d, const struct step_rows *r, int i, int end,
                                 int row)
{
    enum osp_status st = OSP_OK;

    for (int k; i < end; i += k, row += k) {
        k = n_adjacent(r, i, end);
        TRY(model_draft_take_step(d->model, step_row(r, i), k, row));
    }
out:
    return st;
}

/* The target's rows of a chunk whose next token is known. */
static int n_known(const struct step_chunk *chunk)
{
    const int n = chunk->seq->n_tokens - 1 - chunk->first;

    return n < chunk->n_rows ? n : chunk->n_rows;
}

/* Positions before `first` that the head has not seen were found in the prefix cache, with the
 * head's keys and values; what it has from `first` on is computed again. */
static void begin_at(struct draft_progress *p, int first)
{
    if (first < p->first_kept || first > p->first_kept + p->n_kept) {
        p->n_kept = 0;
        p->first_kept = first;
    }
    p->n_kept = first - p->first_kept;
    if (p->n_stored > first || p->n_kept == 0)
        p->n_stored = first;
}

/* States that wait, as rows of the batch, from position `first` on. */
static enum osp_status collect_kept(struct draft_model *d, const struct draft_progress *p,
                                    struct draft_segment s, int first)
{
    const int at = first > p->first_kept ? first - p->first_kept : 0, n = p->n_kept - at;
    enum osp_status st = OSP_OK;

    if (n <= 0)
        return OSP_OK;
    if (d->n_segments == d->n_seqs_max || d->n_rows + n > d->n_rows_max)
        TRY(run_collected(d));
    TRY(model_draft_take_kept(d->model, first_place(p) + at, n, d->n_rows));
    s.first = p->first_kept + at;
    s.n_rows = n;
    collect(d, &s);
out:
    return st;
}

/* Rows of the target's step, in as many batches as they need. */
static enum osp_status collect_step(struct draft_model *d, struct draft_segment s,
                                    const struct step_rows *rows, int n)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i += s.n_rows, s.first += s.n_rows) {
        if (d->n_segments == d->n_seqs_max || d->n_rows == d->n_rows_max)
            TRY(run_collected(d));
        s.n_rows = n - i < d->n_rows_max - d->n_rows ? n - i : d->n_rows_max - d->n_rows;
        TRY(take_rows(d, rows, i, i + s.n_rows, d->n_rows));
        collect(d, &s);
    }
out:
    return st;
}

static enum osp_status copy_kept(struct draft_model *d)
{
    enum osp_status st = OSP_OK;

    if (d->n_kept > 0)
        TRY(model_draft_keep(d->model, d->kept, d->n_kept));
out:
    d->n_kept = 0;
    return st;
}

/* Rows of the step go to places, before the next step replaces them: copy_kept(). */
static enum osp_status keep(struct draft_model *d, int step_row, int n_rows, int place)
{
    enum osp_status st = OSP_OK;

    if (d->n_kept == d->n_seqs_max)
        TRY(copy_kept(d));
    d->kept[d->n_kept++] = (struct row_copy){.to = place, .from = step_row, .n = n_rows};
out:
    return st;
}

static enum osp_status keep_rows(struct draft_model *d, const struct step_rows *r, int n, int place)
{
    enum osp_status st = OSP_OK;

    for (int i = 0, k; i < n; i += k) {
        k = n_adjacent(r, i, n);
        TRY(keep(d, step_row(r, i), k, place + i));
    }
out:
    return st;
}

/* The head gets all states; the last one waits, too, for the next guess. Two segments of a sequence
 * cannot be in one batch, so the first is run before. */
static enum osp_status store(struct draft_model *d, struct draft_progress *p,
                             const struct draft_segment *s, const struct step_rows *rows, int n)
{
    const int end = s->first + n;
    enum osp_status st;

    if (p->first_kept + p->n_kept > p->n_stored) {
        TRY(collect_kept(d, p, *s, p->n_stored));
        TRY(run_collected(d));
    }
    TRY(collect_step(d, *s, rows, n));
    TRY(keep(d, step_row(rows, n - 1), 1, first_place(p)));
    p->n_stored = end;
    p->first_kept = end - 1;
    p->n_kept = 1;
out:
    return st;
}

/* Keeps only the last state of what waited, which is stored now. */
static enum osp_status keep_last(struct draft_model *d, struct draft_progress *p)
{
    const int last = p->n_kept - 1;
    enum osp_status st = OSP_OK;

    p->n_stored = p->first_kept + p->n_kept;
    if (last > 0)
        TRY(model_draft_keep_move(d->model, first_place(p) + last, first_place(p)));
    p->first_kept += last;
    p->n_kept = 1;
out:
    return st;
}

/* Whether the states before `end` are stored now: no place is left, or the prefix cache may share
 * their page. */
static bool is_store_due(const struct draft_model *d, const struct draft_progress *p,
                         const struct seq *q, int n_kept, int end)
{
    return n_kept > d->n_kept_max || end / PAGE_TOKENS > p->n_stored / PAGE_TOKENS ||
           q->state == SEQ_ENDED;
}

/* The state of the chunk's row waits already, and its next token is known now. */
static enum osp_status follow_kept(struct draft_model *d, const struct step_chunk *chunk,
                                   const struct draft_segment *s, struct draft_progress *p)
{
    enum osp_status st = OSP_OK;

    p->n_kept++;
    if (!is_store_due(d, p, chunk->seq, p->n_kept + 1, chunk->first + 1))
        return OSP_OK;
    TRY(collect_kept(d, p, *s, p->n_stored));
    TRY(keep_last(d, p));
out:
    return st;
}

/* A pass behind the step has stored its positions, of which those before `end` count. */
static enum osp_status follow_behind(struct draft_progress *p, int end)
{
    p->n_stored = p->first_kept = end;
    p->n_kept = 0;
    return OSP_OK;
}

static enum osp_status follow(struct draft_model *d, const struct step_chunk *chunk,
                              const struct batch *b, const struct batch_seq *seq,
                              struct draft_progress *p)
{
    const int n = n_known(chunk), end = chunk->first + n;
    const bool is_kept_ahead = p->is_kept_ahead, is_guessed_behind = p->is_guessed_behind;
    const struct step_rows rows = step_rows_of(chunk, seq);
    const struct draft_segment s = {.tokens = chunk->seq->tokens,
                                    .first = chunk->first,
                                    .pages = BATCH_PAGES(b) + seq->table[GROUP_FULL],
                                    .first_page = seq->first_page[GROUP_FULL],
                                    .n_pages = seq->n_pages[GROUP_FULL]};
    enum osp_status st;

    p->is_kept_ahead = p->is_guessed_behind = false;
    if (is_guessed_behind)
        return follow_behind(p, chunk->first + n);
    if (n <= 0)
        return OSP_OK;
    if (is_kept_ahead)
        return follow_kept(d, chunk, &s, p);
    find_places(d, p);
    begin_at(p, chunk->first);
    if (is_store_due(d, p, chunk->seq, p->n_kept + n, end))
        return store(d, p, &s, &rows, n);
    TRY(keep_rows(d, &rows, n, first_place(p) + p->n_kept));
    p->n_kept += n;
out:
    return st;
}

/* None of them loses its places to another one. */
static void touch_all(struct draft_model *d, const struct step_plan *plan,
                      struct draft_progress *const *progress)
{
    for (int i = 0; i < plan->n_chunks; i++)
        if (progress[i] != NULL)
            draft_model_touch(d, progress[i]);
}

enum osp_status draft_model_follow(struct draft_model *d, const struct step_plan *plan,
                                   struct draft_progress *const *progress, bool is_sent,
                                   double *copies_ns, int *n_queued_rows)
{
    const struct batch *b = plan->batch;
    enum osp_status st = OSP_OK;

    d->is_queued = is_sent;
    touch_all(d, plan, progress);
    for (int i = 0; i < plan->n_chunks; i++) {
        assert(!is_sent || progress[i] == NULL || progress[i]->is_kept_ahead);
        if (progress[i] != NULL)
            TRY(follow(d, &plan->chunks[i], b, &BATCH_SEQS(b)[i], progress[i]));
    }
    *n_queued_rows = is_sent ? d->n_rows : 0;
    *copies_ns = d->is_pipelined ? TAPS_NS + COPY_NS : 0;
    TRY(copy_kept(d));
    TRY(run_collected(d));
out:
    d->n_kept = 0;
    d->n_steps++;
    d->is_queued = false;
    if (st != OSP_OK)
        clear(d);
    return st;
}

/* All states that wait fit into one pass, whatever ends with the step. */
bool draft_model_can_keep_ahead(const struct draft_model *d, const struct step_plan *plan,
                                struct draft_progress *const *progress)
{
    int n_rows = 0;

    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *c = &plan->chunks[i];

        if (progress[i] == NULL)
            continue;
        if (!d->is_pipelined || c->n_rows != 1 || !c->is_sampled || c->first < c->seq->n_prompt ||
            progress[i]->n_kept >= DRAFT_KEPT_MAX)
            return false;
        n_rows += progress[i]->n_kept + 1;
    }
    return n_rows <= d->n_rows_max;
}

enum osp_status draft_model_keep_ahead(struct draft_model *d, const struct step_plan *plan,
                                       struct draft_progress *const *progress)
{
    enum osp_status st = OSP_OK;

    touch_all(d, plan, progress);
    for (int i = 0; i < plan->n_chunks; i++) {
        struct draft_progress *p = progress[i];

        if (p == NULL)
            continue;
        find_places(d, p);
        begin_at(p, plan->chunks[i].first);
        TRY(keep(d, BATCH_SEQS(plan->batch)[i].first_row, 1, first_place(p) + p->n_kept));
        p->is_kept_ahead = true;
    }
    TRY(copy_kept(d));
out:
    d->n_kept = 0;
    return st;
}

enum osp_status draft_model_leave(struct draft_model *d, struct draft_progress *p,
                                  const struct seq *q)
{
    const struct page_list *full = &q->pages[GROUP_FULL];
    const struct draft_segment s = {
        .tokens = q->tokens, .pages = full->numbers, .first_page = full->first, .n_pages = full->n};
    const int end = p->first_kept + p->n_kept;
    enum osp_status st = OSP_OK;

    if (q->state != SEQ_RUNNING || p->place == 0 || d->places[p->place - 1].owner != p ||
        end <= p->n_stored || end != q->n_stored)
        return OSP_OK;
    TRY(collect_kept(d, p, s, p->n_stored));
    TRY(run_collected(d));
    p->n_stored = end;
out:
    if (st != OSP_OK)
        clear(d);
    return st;
}

/* ---- guesses ---- */

bool draft_model_can_guess(const struct draft_progress *p, const struct seq *q)
{
    return p->place > 0 && p->n_kept > 0 && p->first_kept + p->n_kept == q->n_tokens - 1;
}

/* The pass behind `depth` guesses: its sample i is the request's. */
static struct draft_segment segment_of(const struct draft_request *w, int i, int depth)
{
    const struct page_list *full = &w->q->pages[GROUP_FULL];

    return (struct draft_segment){.pages = full->numbers,
                                  .first_page = full->first,
                                  .n_pages = full->n,
                                  .sampled = w->q,
                                  .sample = i,
                                  .sampled_position = w->n_tokens + depth,
                                  .follow = &w->follow};
}

/* The first position whose state goes to the head with the next guess. */
static int first_to_store(const struct draft_progress *p)
{
    const int last = p->first_kept + p->n_kept - 1, first = p->n_stored < last ? p->n_stored : last;

    return first > p->first_kept ? first : p->first_kept;
}

int draft_model_first_rows(const struct draft_progress *p)
{
    return p->first_kept + p->n_kept - first_to_store(p);
}

/* A pass over n_rows rows has ended at end_ns. */
static void add_pass_time(struct draft_model *d, int depth, int n_rows, uint64_t end_ns)
{
    const uint64_t ns = end_ns > d->chain_end_ns ? end_ns - d->chain_end_ns : 0;

    d->passes[d->n_passes++] =
        (struct pass_time){.is_first = depth == 0, .n_rows = n_rows, .ns = ns};
    d->chain_end_ns = end_ns;
}

/* A pass with samples of the first n requests of the chain has been started. */
static void add_pass(struct chain *c, int n, uint64_t ticket)
{
    c->n[c->n_passes] = n;
    c->tickets[c->n_passes++] = ticket;
}

/* Starts the pass that gives the first guess of each request. The copies that keep the last states
 * are ordered behind those that this pass reads. */
enum osp_status draft_start_first(struct draft_model *d, struct draft_request *const *at, int n,
                                  uint64_t *ticket)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i++) {
        struct draft_segment s = segment_of(at[i], i, 0);

        s.tokens = at[i]->q->tokens;
        TRY(collect_kept(d, at[i]->progress, s, first_to_store(at[i]->progress)));
        TRY(keep_last(d, at[i]->progress));
    }
    assert(d->n_segments == n);
    d->n_first_rows = d->n_rows;
    TRY(model_draft_run(d->model, lay_out(d), ticket));
out:
    clear(d);
    return st;
}

/* Requests with more guesses than `depth`: the first ones. */
static int n_deeper(const struct chain *c, int depth)
{
    int n = depth > 0 ? c->n[depth - 1] : c->n_seqs;

    while (n > 0 && c->at[n - 1]->n_wanted <= depth)
        n--;
    return n;
}

/* Starts the next pass, of the first n requests. A device that is pipelined takes the last guess
 * from the pass before. */
static enum osp_status start_again(struct draft_model *d, int n)
{
    struct chain *c = &d->chain;
    const int depth = c->n_passes;
    uint64_t ticket;
    struct batch *b;
    enum osp_status st;

    for (int i = 0; i < n; i++) {
        struct draft_segment s = segment_of(c->at[i], i, depth);

        s.token = d->is_pipelined ? batch_token_sampled(i) : d->tokens[i] < 0 ? 0 : d->tokens[i];
        s.first = c->at[i]->n_tokens - 2 + depth;
        s.n_rows = 1;
        collect(d, &s);
    }
    b = lay_out(d);
    b->tokens_ticket = c->tickets[depth - 1];
    TRY(model_draft_again(d->model, b, &ticket));
    add_pass(c, n, ticket);
out:
    clear(d);
    return st;
}

/* Adds the time of a pass that has ended; `depth` passes of its chain or tree were before it. */
static enum osp_status count_pass(struct draft_model *d, int depth, int n_rows)
{
    struct sampled s;
    enum osp_status st;

    if (!d->is_pipelined) {
        add_pass_time(d, depth, n_rows, clock_ns());
        return OSP_OK;
    }
    TRY(model_sampled(d->model, &s));
    d->chain_end_ns = depth == 0 ? s.begin_ns : d->chain_end_ns;
    add_pass_time(d, depth, n_rows, s.end_ns);
    d->device_ns += s.end_ns - s.begin_ns;
out:
    return st;
}

enum osp_status draft_read_candidates(struct draft_model *d, uint64_t ticket, int n, int depth)
{
    enum osp_status st;

    assert(n <= d->n_samples_max);
    TRY(model_draft_tokens(d->model, ticket, 0, NULL));
    TRY(model_draft_candidates(d->model, n, d->candidates));
    TRY(count_pass(d, depth, depth == 0 ? d->n_first_rows : n));
out:
    return st;
}

/* Waits for a pass, and gets its first n guesses. */
static enum osp_status read_pass(struct draft_model *d, int n, int depth, uint64_t ticket)
{
    enum osp_status st;

    TRY(model_draft_tokens(d->model, ticket, n, d->tokens));
    TRY(count_pass(d, depth, depth == 0 ? d->n_first_rows : n));
out:
    return st;
}

/* Reads the first pass that has not been read. The guess replaces the token that stands for it,
 * with id 0 where there is none; or it is added, unless it could not be sampled: the list ends. */
static enum osp_status read_next(struct draft_model *d)
{
    struct chain *c = &d->chain;
    const int depth = c->n_read++;
    enum osp_status st;

    TRY(read_pass(d, c->n[depth], depth, c->tickets[depth]));
    for (int i = 0; i < c->n[depth]; i++) {
        struct draft_request *w = c->at[i];

        if (w->n > depth)
            w->tokens[depth] = d->tokens[i] < 0 ? 0 : d->tokens[i];
        else if (w->n == depth && d->tokens[i] >= 0)
            w->tokens[w->n++] = d->tokens[i];
    }
out:
    return st;
}

/* The passes left. On a device that is pipelined each one starts before the guesses of the one
 * before are read, so that the device does not wait for the host. */
static enum osp_status start_more(struct draft_model *d, int n_passes_max)
{
    struct chain *c = &d->chain;
    const int n_unread_max = d->is_pipelined ? (int)BATCH_STEPS_BACK : 1;
    enum osp_status st = OSP_OK;

    while (c->n_passes < n_passes_max && n_deeper(c, c->n_passes) > 0) {
        if (c->n_passes - c->n_read == n_unread_max)
            TRY(read_next(d));
        TRY(start_again(d, n_deeper(c, c->n_passes)));
    }
out:
    return st;
}

static enum osp_status read_all(struct draft_model *d)
{
    enum osp_status st = OSP_OK;

    while (d->chain.n_read < d->chain.n_passes)
        TRY(read_next(d));
out:
    return st;
}

/* The guesses of the passes that have not been read are known to the device alone. */
static void leave_open(struct chain *c)
{
    for (int depth = c->n_read; depth < c->n_passes; depth++)
        for (int i = 0; i < c->n[depth]; i++)
            if (c->at[i]->n == depth)
                c->at[i]->tokens[c->at[i]->n++] = batch_token_sampled_before(
                    (int)(c->tickets[c->n_passes - 1] - c->tickets[depth]), i);
}

/* Guesses that a request can have: the position of each but the first is in a page of its own. */
static int n_guesses(const struct draft_request *w)
{
    const int n_more = page_list_end(&w->q->pages[GROUP_FULL]) - (w->q->n_tokens - 1);

    return n_more < 0 ? 1 : n_more + 1 < w->n_max ? n_more + 1 : w->n_max;
}

/* A new chain. Those with more guesses come first, so that each pass has the first rows of the one
 * before. */
static void begin_chain(struct chain *c, struct draft_request *list, int n)
{
    struct draft_request **at = c->at;

    assert(c->n_read == c->n_passes);
    *c = (struct chain){.at = at};
    for (int depth = DRAFTS_MAX; depth > 0; depth--)
        for (int k = 0; k < n; k++)
            if (list[k].n_wanted == depth)
                at[c->n_seqs++] = &list[k];
    assert(c->n_seqs == n);
}

/* Trees of all requests, or chains. */
static enum osp_status guess_some_trees(struct draft_model *d, struct draft_request *list, int n)
{
    struct draft_request **at = mem_new((size_t)n * sizeof(struct draft_request *));
    enum osp_status st;

    assert(d->chain.n_read == d->chain.n_passes);
    for (int i = 0; i < n; i++) {
        at[i] = &list[i];
        at[i]->n_tokens = at[i]->q->n_tokens;
    }
    d->chain_end_ns = clock_ns();
    TRY(draft_guess_trees(d, at, n));
out:
    free(at);
    clear(d);
    return st;
}

static enum osp_status guess_some(struct draft_model *d, struct draft_request *list, int n,
                                  bool stays_open)
{
    uint64_t ticket;
    enum osp_status st;

    for (int i = 0; i < n; i++) {
        list[i].n = 0;
        list[i].n_wanted = n_guesses(&list[i]);
        list[i].n_tokens = list[i].q->n_tokens;
    }
    begin_chain(&d->chain, list, n);
    d->chain_end_ns = clock_ns(); /* a device that is pipelined has its own clock */
    TRY(draft_start_first(d, d->chain.at, n, &ticket));
    add_pass(&d->chain, n, ticket);
    TRY(start_more(d, DRAFTS_MAX));
    if (stays_open) {
        leave_open(&d->chain);
        return OSP_OK;
    }
    TRY(read_all(d));
out:
    clear(d);
    return st;
}

/* As many requests as fit into the batch with all their states that wait. */
static int n_at_once(const struct draft_model *d, const struct draft_request *list, int n)
{
    const int n_nodes_max = d->n_rows_max < d->n_samples_max ? d->n_rows_max : d->n_samples_max;
    int n_rows = 0, n_nodes = 0, i = 0;

    while (i < n && i < d->n_seqs_max && n_rows + list[i].progress->n_kept <= d->n_rows_max &&
           n_nodes + list[i].n_max <= n_nodes_max) {
        n_nodes += list[i].shape != NULL ? list[i].n_max : 0;
        n_rows += list[i++].progress->n_kept;
    }
    return i;
}

enum osp_status draft_model_guess(struct draft_model *d, struct draft_request *list, int n,
                                  bool may_stay_open)
{
    enum osp_status st = OSP_OK;

    d->n_passes = 0; /* those of a call that failed */
    for (int done = 0, now; done < n; done += now) {
        now = n_at_once(d, list + done, n - done);
        if (list[done].shape != NULL)
            TRY(guess_some_trees(d, list + done, now));
        else
            TRY(guess_some(d, list + done, now, may_stay_open && d->is_pipelined && now == n));
    }
out:
    return st;
}

/* ---- guesses behind a step whose accepted drafts are not known ---- */

/* All earlier states have been stored. What is stored of a request that is not followed is never
 * read. */
bool draft_model_can_guess_behind(const struct draft_model *d, const struct step_chunk *chunk,
                                  const struct draft_progress *p)
{
    return d->is_pipelined && chunk->is_sampled && chunk->n_rows == 1 + chunk->n_drafts &&
           chunk->first >= chunk->seq->n_prompt &&
           (p == NULL || p->n_kept == 0 || p->first_kept + p->n_kept <= p->n_stored);
}

int draft_model_guesses_behind_max(const struct step_chunk *chunk)
{
    const int last = chunk->first + chunk->n_drafts;

    return page_list_end(&chunk->seq->pages[GROUP_FULL]) - last;
}

/* The request of the chunk, and what it knows of the chunk's drafts; NULL: it has no guesses. */
static struct draft_request *request_behind(const struct step_chunk *chunk,
                                            struct draft_request *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].q == chunk->seq)
            return &list[i];
    return NULL;
}

static void expect_drafts(struct draft_request *w, const struct step_chunk *chunk)
{
    const struct seq *q = chunk->seq;

    assert(w->shape == NULL && draft_is_chain(q->draft_parents, chunk->n_drafts));
    w->n = 0;
    w->n_wanted = w->n_max;
    w->n_tokens = q->n_tokens + 1 + chunk->n_drafts;
    w->follow =
        (struct batch_follow){.first_sample = q->pending_sample, .n_drafts = chunk->n_drafts};
    memcpy(w->follow.drafts, q->drafts, (size_t)chunk->n_drafts * sizeof *q->drafts);
}

/* The index of the request's sample in each pass. */
static int sample_of(const struct chain *c, const struct draft_request *w)
{
    int i = 0;

    while (c->at[i] != w)
        i++;
    return i;
}

/* The first pass: the rows of the step, each with the token that it samples. */
static enum osp_status start_behind(struct draft_model *d, const struct step_plan *plan,
                                    struct draft_request *list, int n, uint64_t step_ticket)
{
    struct chain *c = &d->chain;
    uint64_t ticket;
    struct batch *b;
    enum osp_status st;

    for (int i = 0; i < plan->n_chunks; i++) {
        const struct step_chunk *chunk = &plan->chunks[i];
        const struct draft_request *w = request_behind(chunk, list, n);
        const struct page_list *full = &chunk->seq->pages[GROUP_FULL];
        struct draft_segment s = {
            .pages = full->numbers, .first_page = full->first, .n_pages = full->n};

        if (w != NULL)
            s = segment_of(w, sample_of(c, w), 0);
        s.token = batch_token_sampled(chunk->seq->pending_sample);
        s.first = chunk->first;
        s.n_rows = chunk->n_rows;
        collect(d, &s);
    }
    b = lay_out(d);
    b->tokens_ticket = step_ticket;
    d->n_first_rows = d->n_rows;
    TRY(model_draft_behind(d->model, b, &ticket));
    add_pass(c, c->n_seqs, ticket);
out:
    clear(d);
    return st;
}

enum osp_status draft_model_guess_behind(struct draft_model *d, const struct step_plan *plan,
                                         struct draft_progress *const *progress,
                                         struct draft_request *list, int n, uint64_t step_ticket)
{
    enum osp_status st;

    touch_all(d, plan, progress);
    for (int i = 0; i < plan->n_chunks; i++) {
        struct draft_request *w = request_behind(&plan->chunks[i], list, n);

        if (w != NULL)
            expect_drafts(w, &plan->chunks[i]);
    }
    begin_chain(&d->chain, list, n);
    d->chain.follows_ticket = step_ticket;
    TRY(start_behind(d, plan, list, n, step_ticket));
    TRY(start_more(d, BATCH_STEPS_BACK));
    for (int i = 0; i < plan->n_chunks; i++)
        if (progress[i] != NULL)
            progress[i]->is_guessed_behind = true;
out:
    d->chain.follows_ticket = 0;
    return st;
}

enum osp_status draft_model_guess_on(struct draft_model *d)
{
    struct chain *c = &d->chain;
    int n_passes_max = DRAFTS_MAX;
    enum osp_status st;

    for (int i = 0; i < c->n_seqs; i++) {
        struct draft_request *w = c->at[i];
        const int n = w->q != NULL ? n_guesses(w) : 0; /* pages of rejected drafts are gone */

        w->n_tokens = w->q != NULL ? w->q->n_tokens : 0;
        if (w->n_wanted > c->n_passes && n < n_passes_max) /* it is in the passes that follow */
            n_passes_max = n;
    }
    TRY(start_more(d, n_passes_max));
    leave_open(c);
out:
    return st;
}

/* ---- guesses that have not been read ---- */

uint64_t draft_model_open_ticket(const struct draft_model *d)
{
    const struct chain *c = &d->chain;

    return c->n_read < c->n_passes ? c->tickets[c->n_passes - 1] : 0;
}

enum osp_status draft_model_receive(struct draft_model *d)
{
    enum osp_status st;

    TRY(read_all(d));
out:
    return st;
}

uint64_t draft_model_take_device_ns(struct draft_model *d)
{
    const uint64_t ns = d->device_ns;

    d->device_ns = 0;
    return ns;
}

const struct pass_time *draft_model_take_passes(struct draft_model *d, int *n)
{
    *n = d->n_passes;
    d->n_passes = 0;
    return d->passes;
}
