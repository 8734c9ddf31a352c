/* The draft head of the simulated device. Its state at position p, and what it stores there, is the
 * hash of the tokens up to p + 1: the target's state is the hash up to p, and the row's token is the
 * next one. So what it has is compared with what the client's tokens give. */
#include "sim.h"

#include "backend/kv_page.h"
#include "backend/tree_mask.h"
#include "model/model.h"

enum {
    ROW_FLOATS = 2, /* a hash */
    ROWS_MAX = 512,
    KEPT_MAX = LIVE_MAX * DRAFT_KEPT_MAX
};

static uint64_t step_taps[ROWS_MAX], taps[ROWS_MAX], states[ROWS_MAX], kept[KEPT_MAX];
static int32_t tokens[STEPS_QUEUED_MAX][SAMPLES_MAX]; /* of pass n in n % STEPS_QUEUED_MAX */
static int32_t candidates[SAMPLES_MAX][DRAFT_CANDIDATES_MAX];
static uint64_t n_passes;
static const uint64_t FIRST_TICKET = (uint64_t)1 << 40; /* those of the target's steps are lower */
static char memory[PAGES_MAX * 64 * 16 * 8];
static char programs[N_DRAFT_PASSES]; /* names of the head's programs */

static struct tensor rows_of(uint64_t *data, int n)
{
    return (struct tensor){.dtype = DTYPE_F32, .n_dims = 2, .dim = {n, ROW_FLOATS}, .data = data};
}

void head_init(struct model *m)
{
    struct draft *d = &m->draft;

    d->act.step_taps = rows_of(step_taps, ROWS_MAX);
    d->act.taps = rows_of(taps, ROWS_MAX);
    d->act.f = rows_of(states, ROWS_MAX);
    d->act.kept = rows_of(kept, KEPT_MAX);
    d->act.tokens.data = tokens[0]; /* of a device that is not ahead */
    d->act.candidates = (struct tensor){.dtype = DTYPE_I32,
                                        .n_dims = 2,
                                        .dim = {SAMPLES_MAX, DRAFT_CANDIDATES_MAX},
                                        .data = candidates};
    d->source.weights.fc.data = programs; /* the head reads taps */
    for (int i = 0; i < N_DRAFT_PASSES; i++)
        d->run_passes[i] = (struct compiled *)(void *)&programs[i];
    d->kv = (struct tensor){
        .dtype = DTYPE_F32, .n_dims = 5, .dim = {PAGES_MAX, 2, 1, PAGE_TOKENS, 1}, .data = memory};
    memset(memory, 0, sizeof memory);
    memset(kept, 0, sizeof kept);
}

void head_see(int row, uint64_t token_hash)
{
    CHECK(row < ROWS_MAX);
    step_taps[row] = token_hash;
}

const int32_t *head_candidates(void)
{
    return candidates[0];
}

bool head_ran(uint64_t ticket)
{
    return ticket >= FIRST_TICKET;
}

const int32_t *head_tokens(uint64_t ticket)
{
    CHECK(ticket - FIRST_TICKET < n_passes && ticket - FIRST_TICKET + STEPS_QUEUED_MAX > n_passes);
    return tokens[(ticket - FIRST_TICKET) % STEPS_QUEUED_MAX];
}

/* Where the pass that runs puts its guesses. */
static int32_t *next_tokens(void)
{
    return tokens[world.odds.is_ahead ? n_passes % STEPS_QUEUED_MAX : 0];
}

static int32_t page_of(const struct batch *b, const struct batch_seq *s, int position)
{
    const int entry = position / PAGE_TOKENS - s->first_page[GROUP_FULL];
    int32_t page;

    CHECK(entry >= 0 && entry < s->n_pages[GROUP_FULL]);
    page = BATCH_PAGES(b)[s->table[GROUP_FULL] + entry];
    CHECK(page >= 0 && page < world.engine->limits.n_pages[GROUP_FULL]);
    return page;
}

static uint64_t *slot(const struct batch *b, const struct batch_seq *s, int position)
{
    char *page = memory + page_of(b, s, position) * kv_page_bytes(DTYPE_F32, 1, 1);

    return (uint64_t *)(void *)page + position % PAGE_TOKENS;
}

/* Whether the position is the last one of its page. Its key has the first token of the next page, so
 * where several requests share the page, it is that of one of them. */
static bool is_page_end(int position)
{
    return (position + 1) % PAGE_TOKENS == 0;
}

/* Each sequence that has the page has the same tokens, as far as they are known. */
static void write_slot(const struct batch *b, const struct batch_seq *s, int position,
                       uint64_t value)
{
    const int32_t page = page_of(b, s, position);

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        const struct seq *q = c->request != NULL ? &c->request->seq : NULL;

        if (q == NULL || q->state != SEQ_RUNNING || position + 1 >= q->n_tokens ||
            page_list_at(&q->pages[GROUP_FULL], position / PAGE_TOKENS) != page)
            continue;
        CHECK(value == c->token_hash[position + 1] || is_page_end(position));
    }
    *slot(b, s, position) = value;
}

/* Whose state and next token these are. */
static void check_is_known(uint64_t state, int position, int32_t token)
{
    bool is_known = false;

    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        is_known =
            is_known || (c->request != NULL && position + 1 < c->n_all &&
                         c->token_hash[position] == state && c->tokens[position + 1] == token);
    CHECK(is_known);
}

static struct caller *caller_with(uint64_t id)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++)
        if (c->request != NULL && c->id == id)
            return c;
    CHECK(false); /* a guess for nobody */
    return NULL;
}

/* Where no request was preempted or left beside a step, and the head has followed all, it has every
 * position. */
static void check_read(const struct batch *b, const struct batch_seq *s, int last,
                       const struct caller *c)
{
    if (sched_stats(world.engine->sched).n_preemptions > 0 || world.has_unfollowed ||
        world.engine->drafts.n_unstored > 0)
        return;
    for (int i = 0; i < 6; i++) {
        const int position = i == 0 ? 0 : i == 1 ? last : pick(last + 1);

        if (!is_page_end(position))
            CHECK(*slot(b, s, position) == c->token_hash[position + 1]);
    }
}

/* Right in most cases, if the state is that of the answer. */
static int32_t guess(const struct caller *c, uint64_t state, int position)
{
    const uint64_t bits = mix(state, 5);
    const bool can_be_right = position < c->n_all && state == c->token_hash[position - 1];

    if (bits % 61 == 7)
        return SAMPLE_NOT_FINITE;
    return can_be_right && bits % 5 > 0 ? c->tokens[position] : sim_letter[bits / 64 % 4];
}

static bool is_among(const int32_t *list, int n, int32_t token)
{
    for (int i = 0; i < n; i++)
        if (list[i] == token)
            return true;
    return false;
}

/* The best guesses: different tokens, with that of the answer at some rank, and sometimes fewer. */
static void guess_more(int32_t out[DRAFT_CANDIDATES_MAX], int n_max, const struct caller *c,
                       uint64_t state, int position)
{
    const uint64_t bits = mix(state, 9);
    const bool can_be_right = position < c->n_all && state == c->token_hash[position - 1];
    int n = 0;

    memset(out, -1, DRAFT_CANDIDATES_MAX * sizeof *out);
    out[n] = guess(c, state, position);
    if (out[n++] < 0)
        return;
    for (int i = 0; n < n_max && i < LETTERS; i++) {
        const int letter = (int)((bits / 64 + (uint64_t)i * 5) % LETTERS); /* each of them once */
        const bool is_common = i < 4 && bits / 8 % 4 > 0;
        const int32_t other = can_be_right && i == (int)(bits % 3)
                                  ? c->tokens[position]
                                  : sim_letter[is_common ? letter % 4 : letter];

        if (bits % 7 == 3 && n == 2)
            return;
        if (i == 0 && bits / 32 % 4 == 1 &&
            out[0] != sim_letter[LETTERS - 1]) /* one that ends the answer, before the right one */
            out[n++] = sim_letter[LETTERS - 1];
        else if (!is_among(out, n, other))
            out[n++] = other;
    }
}

/* ---- a pass ---- */

/* The pass that runs: its batch without what depends on the step in flight. */
struct pass {
    const struct batch *b;
    enum draft_pass kind;
    int32_t tokens[ROWS_MAX], positions[ROWS_MAX];
    int n_valid[LIVE_MAX]; /* rows of each sequence before the first one behind a rejected draft */
    int n_lowered[LIVE_MAX];
};

/* The step in flight ends the caller's answer, or the pass does not depend on it. */
static bool is_over(const struct pass *p, const struct caller *c)
{
    return p->b->n_follows > 0 && c->n_due[p->b->follows_ticket % 2] >= c->n_all;
}

/* How many drafts of a sequence the step rejected, by what it sampled. */
static int n_rejected(const struct batch *b, const struct batch_follow *f)
{
    const int32_t *have = step_tokens(b->follows_ticket) + f->first_sample;

    CHECK(f->n_drafts >= 0 && f->n_drafts <= BATCH_DRAFTS_MAX && f->first_sample >= 0);
    CHECK(f->first_sample + f->n_drafts < SAMPLES_MAX);
    for (int n = 0; n < f->n_drafts; n++)
        if (have[n] != f->drafts[n])
            return f->n_drafts - n;
    return 0;
}

static int32_t token_of(const struct pass *p, int row)
{
    const struct batch *b = p->b;
    const int32_t token = BATCH_TOKENS(b)[row];
    const int32_t *from;

    if (token >= 0)
        return token;
    CHECK(world.odds.is_ahead && p->kind != DRAFT_FIRST);
    if (p->kind == DRAFT_BEHIND)
        CHECK(b->tokens_ticket == b->follows_ticket);
    from = p->kind == DRAFT_BEHIND
               ? step_tokens(b->tokens_ticket)
               : head_tokens(b->tokens_ticket - (uint64_t)batch_sample_back(token));
    return from[batch_sample_index(token)] < 0 ? 0 : from[batch_sample_index(token)];
}

static void resolve(struct pass *p)
{
    const struct batch *b = p->b;

    for (int i = 0; i < b->n_seqs; i++) {
        const struct batch_seq *s = &BATCH_SEQS(b)[i];
        const struct batch_follow *f = b->n_follows > 0 ? &BATCH_FOLLOWS(b)[i] : NULL;

        p->n_lowered[i] = f != NULL ? n_rejected(b, f) : 0;
        p->n_valid[i] = s->n_rows - (f != NULL && f->lowers_row ? p->n_lowered[i] : 0);
        for (int row = s->first_row; row < s->first_row + s->n_rows; row++) {
            p->tokens[row] = token_of(p, row);
            p->positions[row] =
                BATCH_POSITIONS(b)[row] - (f != NULL && !f->lowers_row ? p->n_lowered[i] : 0);
        }
    }
}

/* Whoever the rows are of holds the page, though the step in flight may end its answer. */
static void check_is_held(int32_t page)
{
    CHECK(world.engine->sched->pages[GROUP_FULL].page[page].n_refs > 0);
}

/* Where the row's key lives, as if it were a position. */
static int place_of(const struct pass *p, int row)
{
    return p->positions[row] + tree_slot(p->b, row) - BATCH_POSITIONS(p->b)[row];
}

static void run_row(const struct pass *p, int row)
{
    const struct batch *b = p->b;
    const int seq = BATCH_ROW_SEQ(b)[row], position = p->positions[row];
    const struct batch_seq *s = &BATCH_SEQS(b)[seq];
    const uint64_t state = p->kind == DRAFT_AGAIN    ? states[row]
                           : p->kind == DRAFT_BEHIND ? step_taps[row]
                                                     : taps[row];
    const bool is_valid = row < s->first_row + p->n_valid[seq];

    if (b->n_follows > 0)
        check_is_held(page_of(b, s, BATCH_POSITIONS(b)[row]));
    if (p->kind == DRAFT_AGAIN)
        CHECK(*slot(b, s, slot_seen(b, row, position - 1)) == state);
    else if (p->kind == DRAFT_FIRST)
        check_is_known(state, position, p->tokens[row]);
    CHECK(p->kind == DRAFT_AGAIN || place_of(p, row) == position);
    if (is_valid)
        write_slot(b, s, place_of(p, row), next_token_hash(state, p->tokens[row]));
    else
        *slot(b, s, place_of(p, row)) = mix(state, 9); /* nobody may read it */
}

/* Where the guesses begin is known from the caller's tokens, unless the answer ends before. */
static void check_behind(const struct pass *p, const struct caller *c, uint64_t state, int position)
{
    const int n_due = c->n_due[p->b->follows_ticket % 2];

    if (is_over(p, c))
        return;
    if (p->kind == DRAFT_AGAIN) {
        CHECK(position > n_due);
        return;
    }
    CHECK(position == n_due);
    CHECK(state == c->token_hash[position - 1]);
}

static void run_sample(const struct pass *p, int i, uint64_t *out)
{
    const struct batch *b = p->b;
    const struct batch_sample *r = &BATCH_SAMPLES(b)[i];
    const int seq = BATCH_ROW_SEQ(b)[r->row];
    const struct batch_seq *s = &BATCH_SEQS(b)[seq];
    const bool is_tree = b->n_tree_masks > 0;
    const int row = is_tree ? r->row : s->first_row + p->n_valid[seq] - 1;
    const int position = p->positions[row];
    const struct caller *c = caller_with(r->seed);

    CHECK((int)r->position - p->n_lowered[seq] == position + 2);
    CHECK(r->row == s->first_row + s->n_rows - 1 || is_tree);
    CHECK(b->n_follows == 0 || BATCH_FOLLOWS(b)[seq].sample == i);
    CHECK(c->request->seq.state == SEQ_RUNNING);
    *out = *slot(b, s, place_of(p, row));
    if (p->kind == DRAFT_FIRST)
        CHECK(position == c->request->seq.n_tokens - 2);
    if (b->n_follows > 0)
        check_behind(p, c, *out, position + 2);
    if (p->kind != DRAFT_AGAIN && !is_over(p, c))
        check_read(b, s, position, c);
    next_tokens()[i] = guess(c, *out, position + 2);
    if (b->n_candidates > 0)
        guess_more(candidates[i], b->n_candidates, c, *out, position + 2);
    totals.n_guesses++;
}

/* While a step is in flight the head only stores positions, and guesses nothing; or its passes run
 * behind that step. */
static void check_pass(const struct pass *p)
{
    const struct batch *b = p->b;
    const bool is_tree = b->n_tree_masks > 0;

    CHECK(world.odds.eagle3);
    if (p->kind == DRAFT_BEHIND)
        CHECK(b->n_follows > 0);
    if (b->n_follows > 0)
        CHECK(world.odds.is_ahead && world.is_in_flight && p->kind != DRAFT_FIRST &&
              b->n_follows == b->n_seqs && b->follows_ticket + 1 == world.n_begun);
    else
        CHECK(!world.is_in_flight ||
              (world.odds.is_ahead && p->kind == DRAFT_FIRST && b->n_samples == 0));
    CHECK(b->n_rows > 0 && b->n_rows <= world.engine->limits.n_batch_tokens_max);
    CHECK(b->n_seqs <= world.engine->limits.n_seqs_max && b->n_samples <= SAMPLES_MAX);
    CHECK(b->n_samples <= b->n_seqs || is_tree);
    CHECK(p->kind != DRAFT_AGAIN ||
          (b->n_rows == b->n_samples && (b->n_rows == b->n_seqs || is_tree)));
    CHECK(!is_tree || (p->kind == DRAFT_AGAIN && b->n_follows == 0));
}

enum osp_status head_run(const struct batch *b, const struct compiled *program, uint64_t *ticket)
{
    struct pass p = {.b = b, .kind = (enum draft_pass)((const char *)program - programs)};
    uint64_t next[SAMPLES_MAX];

    check_pass(&p);
    resolve(&p);
    for (int row = 0; row < b->n_rows; row++)
        run_row(&p, row);
    for (int i = 0; i < b->n_samples; i++)
        run_sample(&p, i, &next[i]);
    memcpy(states, next, (size_t)b->n_samples * sizeof *next);
    totals.n_head_rows += b->n_rows;
    totals.n_behind += b->n_follows > 0;
    *ticket = FIRST_TICKET + n_passes++;
    if (!chance(4 * world.odds.device))
        return OSP_OK;
    return fail(OSP_EDEVICE, "the made-up device has failed in the draft head");
}
