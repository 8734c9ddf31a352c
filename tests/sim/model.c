/* The simulated device: pages are stamps of what was computed there, read again and compared.
 * Tokens are sampled from the stamp that the last position really has. */
#include "sim.h"

#include "backend/kv_page.h"
#include "backend/tree_mask.h"
#include "model/model.h"

enum { VOCAB = 300000 };

static struct model model;
static struct layer layers[N_PAGE_GROUPS];
static struct osp_model shell;
static int32_t sampled[2][SAMPLES_MAX]; /* of step n in n % 2 */
static int32_t results[SAMPLES_MAX];    /* after a step's end */
static float scores[2][SAMPLES_MAX], logprobs[SAMPLES_MAX];
static uint64_t launched_ns, ended_ns; /* of the step that was last waited for */
static const int32_t *waited_tokens;   /* likewise; of a pass of the draft head, too */
static char memory[N_PAGE_GROUPS][PAGES_MAX * 64 * 16 * 8];

uint64_t stamp_of(uint64_t token_hash, uint64_t kind_hash)
{
    return token_hash << 24 | (kind_hash & 0xFFFFFF);
}

uint64_t salt_hash(const char *salt)
{
    uint64_t h = 7;

    for (const char *s = salt != NULL ? salt : ""; *s != '\0'; s++)
        h = mix(h, (uint64_t)*s);
    return h & 0xFFFFFFFFFF;
}

uint64_t next_token_hash(uint64_t before, int32_t token)
{
    return mix(before, (uint64_t)token) & 0xFFFFFFFFFF;
}

uint64_t next_kind_hash(uint64_t before, bool generated, int position)
{
    return mix(before, (uint64_t)position * 2 + generated) & 0xFFFFFF;
}

/* A request that is not exact may have had pages in the other arithmetic. */
static int32_t sampling_params(uint64_t id, int position, uint64_t stamp, bool is_exact)
{
    uint64_t bits = mix(mix(id, is_exact ? stamp : stamp >> 24), (uint64_t)position);

    if (bits % 997 == 1 && world.odds.nan > 0)
        return -1;
    if (bits % (world.odds.long_answers ? 500 : 37) == 0)
        return sim_letter[LETTERS - 1]; /* ends the answer */
    return sim_letter[bits / 1000 % 4];
}

int32_t draw_at(const struct caller *c)
{
    int last = c->n_all - 1;

    return sampling_params(c->id, c->n_all, stamp_of(c->token_hash[last], c->kind_hash[last]),
                           c->is_exact);
}

/* ---- pages ---- */

static uint64_t stamp_now(int g, int32_t page, int slot)
{
    return ((uint64_t *)(void *)(memory[g] + page * kv_page_bytes(DTYPE_F32, 1, 1)))[slot];
}

/* After the copies of accepted drafts that are planned. */
uint64_t stamp_in(int g, int32_t page, int slot)
{
    const struct step_plan *plan = sched_next(world.engine->sched);

    for (int i = 0; i < plan->n_moves; i++) {
        const struct page_move *m = &plan->moves[i];

        if (m->kind == MOVE_SLOT && (int)m->group == g && m->to == page && m->to_slot == slot)
            return stamp_now(g, m->from, m->from_slot);
    }
    return stamp_now(g, page, slot);
}

int slot_seen(const struct batch *b, int row, int position)
{
    uint32_t left = tree_mask(b, row);
    int at = tree_first(b, row);

    if (position < at)
        return position;
    for (; at < position; at++)
        left &= left - 1;
    CHECK(left != 0);
    return tree_first(b, row) + __builtin_ctz(left);
}

static uint64_t *slot(const struct batch *b, const struct batch_seq *s, int g, int position)
{
    int entry = position / PAGE_TOKENS - s->first_page[g];
    int32_t page;

    CHECK(entry >= 0 && entry < s->n_pages[g]);
    page = BATCH_PAGES(b)[s->table[g] + entry];
    CHECK(page >= 0 && page < world.engine->limits.n_pages[g]);
    return (uint64_t *)(void *)(memory[g] + page * kv_page_bytes(DTYPE_F32, 1, 1)) +
           position % PAGE_TOKENS;
}

/* A page that is written has one owner, in the scheduler's counts and in the batch. */
static void check_owner(const struct batch *b, const struct batch_seq *s, int g, int position,
                        int part)
{
    int32_t page = BATCH_PAGES(b)[s->table[g] + position / PAGE_TOKENS - s->first_page[g]];

    CHECK(world.engine->sched->pages[g].page[page].n_refs == 1);
    CHECK(world.writer[g][page] == 0 || world.writer[g][page] == part + 1);
    world.writer[g][page] = part + 1;
}

/* The row's token, also where the step before samples it; 0 where that failed. */
static int32_t token_of(const struct batch *b, int row)
{
    const int32_t token = BATCH_TOKENS(b)[row];

    if (token >= 0)
        return token;
    if (head_ran(b->tokens_ticket)) {
        const int32_t *from = head_tokens(b->tokens_ticket - (uint64_t)batch_sample_back(token));

        return from[batch_sample_index(token)] < 0 ? 0 : from[batch_sample_index(token)];
    }
    CHECK(world.is_in_flight);
    CHECK(batch_sample_back(token) == 0 && batch_sample_index(token) < SAMPLES_MAX);
    CHECK(b->tokens_ticket + 1 == world.n_begun);
    return sampled[b->tokens_ticket % 2][batch_sample_index(token)];
}

const int32_t *step_tokens(uint64_t ticket)
{
    CHECK(ticket < world.n_begun && ticket + 2 >= world.n_begun);
    return sampled[ticket % 2];
}

static void store_row(const struct batch *b, int row, int part, const struct seq *q)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[part];
    int position = BATCH_POSITIONS(b)[row];
    uint64_t before = position > 0 ? *slot(b, s, GROUP_FULL, slot_seen(b, row, position - 1)) : 0;
    uint64_t token_hash = position > 0 ? before >> 24 : salt_hash(q->salt);
    uint64_t stamp =
        stamp_of(next_token_hash(token_hash, token_of(b, row)),
                 next_kind_hash(before & 0xFFFFFF, BATCH_PHASES(b)[row] == PHASE_DECODE, position));

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        uint64_t *to = slot(b, s, g, tree_slot(b, row));

        if (tree_slot(b, row) % PAGE_TOKENS == 0 || row == s->first_row)
            check_owner(b, s, g, tree_slot(b, row), part);
        *to = stamp;
    }
    head_see(row, stamp >> 24);
}

static void check_slot(const struct batch *b, int row, int g, int position, const struct caller *c)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    uint64_t stamp = *slot(b, s, g, slot_seen(b, row, position));

    CHECK(stamp >> 24 == c->token_hash[position]);
    CHECK(!c->is_exact || (stamp & 0xFFFFFF) == c->kind_hash[position]);
}

static void read_row(const struct batch *b, int row, const struct caller *c)
{
    int last = BATCH_POSITIONS(b)[row];

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int n = g == GROUP_WINDOW ? world.engine->limits.window_tokens : last + 1;
        int first = last - n + 1 > 0 ? last - n + 1 : 0;

        check_slot(b, row, g, first, c);
        check_slot(b, row, g, last, c);
        if (last > first)
            check_slot(b, row, g, last - 1, c);
        for (int i = 0; i < 3; i++)
            check_slot(b, row, g, first + pick(last - first + 1), c);
    }
}

/* After an answer that ends in the step in flight: the row's results are dropped. */
static bool is_void(const struct caller *c, const struct batch *b, int row)
{
    return BATCH_TOKENS(b)[row] < 0 && !head_ran(b->tokens_ticket) &&
           BATCH_POSITIONS(b)[row] >= c->n_all;
}

/* Which of the chunk's rows have tokens of the answer alone before them. Such a row of a draft is
 * like any other; the others have results that must not be used. Returns the number of drafts among
 * them: the last rows are those of drafts. */
static int find_right(bool *is_right, const struct batch *b, const struct step_chunk *p,
                      const struct batch_seq *s, const struct caller *c)
{
    const int n_known = p->n_rows - p->n_drafts;
    int n = 0;

    for (int i = 0; i < p->n_rows; i++) {
        const int row = s->first_row + i, position = BATCH_POSITIONS(b)[row];
        int parent; /* in the chunk */

        is_right[i] = i < n_known;
        if (is_right[i])
            continue;
        parent = slot_seen(b, row, position - 1) - p->first;
        CHECK(parent >= n_known - 1 && parent < i);
        is_right[i] =
            is_right[parent] && position < c->n_all && token_of(b, row) == c->tokens[position];
        n += is_right[i];
    }
    return n;
}

/* Positions rise by one, but in a tree of drafts, whose rows live behind the last token's. */
static void check_place(const struct batch *b, const struct step_chunk *p, int i)
{
    const int row = BATCH_SEQS(b)[p - sched_next(world.engine->sched)->chunks].first_row + i;
    const bool is_tree = i >= p->n_rows - p->n_drafts && tree_mask(b, row) != 1;

    CHECK(tree_slot(b, row) == p->first + i);
    CHECK(is_tree || BATCH_POSITIONS(b)[row] == p->first + i);
    CHECK(!is_tree || tree_first(b, row) == p->first + p->n_rows - p->n_drafts - 1);
    totals.n_tree_rows += is_tree && !tree_mask_is_plain(tree_mask(b, row));
}

/* The caller's tokens after the step: one more than before, and one for each right draft. */
static void note_due(struct caller *c, const struct step_chunk *p, int n_accepted)
{
    const int n = p->first + p->n_rows - p->n_drafts + n_accepted + 1;

    const int n_left = c->n_all - (n - n_accepted) + c->is_drawn_nan;

    c->n_due[world.n_begun % 2] = p->is_sampled ? (n < c->n_all ? n : c->n_all) : 0;
    c->n_accepted[world.n_begun % 2] = n_accepted < n_left ? n_accepted : n_left;
}

static void run_part(const struct batch *b, int part, const struct step_chunk *p)
{
    struct caller *c = caller_of(p->seq);
    const struct batch_seq *s = &BATCH_SEQS(b)[part];
    bool is_right[SAMPLES_MAX + CONTEXT_MAX];
    const int n_accepted = find_right(is_right, b, p, s, c);
    int last = 0;

    CHECK(p->n_drafts == 0 || (p->is_sampled && !world.is_in_flight));
    CHECK(p->first + p->n_rows < c->n_tokens_max || p->n_drafts == 0);
    note_due(c, p, n_accepted);
    CHECK(s->n_rows == p->n_rows && p->n_rows > 0);
    CHECK(p->first == p->seq->n_stored);
    CHECK(p->seq->state == SEQ_RUNNING); /* no step begins for a sequence that has left */
    CHECK(!atomic_load(&c->request->cancel));
    CHECK(c->deadline_ns == 0 || sim_now_ns < c->deadline_ns);
    for (int i = 0; i < s->n_rows; i++) {
        int row = s->first_row + i, position = BATCH_POSITIONS(b)[row];

        CHECK(BATCH_ROW_SEQ(b)[row] == part);
        check_place(b, p, i);
        CHECK(token_of(b, row) == c->tokens[position] || is_void(c, b, row) || !is_right[i]);
        last = is_right[i] ? i : last;
        CHECK((BATCH_PHASES(b)[row] == PHASE_DECODE) == (position >= c->n_prompt));
        store_row(b, row, part, p->seq);
    }
    for (int i = 0; i < p->n_rows && !is_void(c, b, s->first_row + i); i++)
        if (is_right[i] && (i == 0 || i == last || pick(8) == 0))
            read_row(b, s->first_row + i, c);
}

float score_of(uint64_t stamp)
{
    return -(float)(mix(stamp, 77) % 9973);
}

/* Whether the row is a prefill row whose next token is known, and so is not sampled: that token
 * has this large a bias. */
static bool is_prompt_logprob(const struct batch *b, const struct batch_sample *d)
{
    return d->n_biases == 1 && BATCH_BIASES(b)[d->first_bias].bias > OSP_LOGIT_BIAS_MAX;
}

static void draw_all(const struct batch *b)
{
    for (int i = 0; i < b->n_samples; i++) {
        const struct batch_sample *d = &BATCH_SAMPLES(b)[i];
        int part = BATCH_ROW_SEQ(b)[d->row];
        const struct caller *c = caller_of(sched_next(world.engine->sched)->chunks[part].seq);
        uint64_t stamp = *slot(b, &BATCH_SEQS(b)[part], GROUP_WINDOW, tree_slot(b, d->row));

        CHECK((int)d->position == BATCH_POSITIONS(b)[d->row] + 1);
        if (is_prompt_logprob(b, d)) {
            CHECK(c->has_prompt_logprobs && (int)d->position < c->n_prompt);
            sampled[world.n_begun % 2][i] = BATCH_BIASES(b)[d->first_bias].id;
            scores[world.n_begun % 2][i] = score_of(stamp);
            continue;
        }
        CHECK(d->seed == c->id);
        sampled[world.n_begun % 2][i] =
            sampling_params(d->seed, (int)d->position, stamp, c->is_exact);
    }
}

static void mark_dead(void)
{
    world.is_broken = true;
    world.is_in_flight = false;
    world.n_waited = world.n_begun;
}

static enum osp_status sim_run(struct backend *be, struct compiled *c, const struct batch *b,
                               uint64_t *ticket)
{
    const struct step_plan *plan = sched_next(world.engine->sched);
    enum osp_status st;

    (void)be;
    if (c != NULL) {
        st = head_run(b, c, ticket);
        if (st != OSP_OK)
            mark_dead();
        return st;
    }
    CHECK(world.n_begun == world.n_waited + world.is_in_flight);
    CHECK(!world.is_in_flight || world.odds.is_ahead);
    CHECK(b->n_seqs == plan->n_chunks && b->n_rows == plan->n_rows && b->n_rows > 0);
    CHECK(b->n_rows <= world.engine->limits.n_batch_tokens_max);
    CHECK(b->size_bytes <= sched_batch_bytes_max(&world.engine->limits));
    CHECK(plan->n_draft_rows <= world.engine->limits.n_draft_rows_max);
    CHECK(b->n_samples <= world.engine->limits.n_seqs_max + world.engine->limits.n_draft_rows_max);
    check_draft_rows(plan);
    check_prompt_order(plan);
    memset(world.writer, 0, sizeof world.writer);
    for (int i = 0; i < plan->n_chunks; i++) {
        CHECK(i == 0 ||
              BATCH_PHASES(b)[BATCH_SEQS(b)[i].first_row] <=
                  BATCH_PHASES(b)[BATCH_SEQS(b)[i - 1].first_row] ||
              BATCH_PHASES(b)[BATCH_SEQS(b)[i].first_row] == PHASE_PREFILL); /* decode rows first */
        run_part(b, i, &plan->chunks[i]);
    }
    draw_all(b);
    totals.n_rows += b->n_rows;
    if (chance(2 * world.odds.device)) {
        mark_dead();
        return fail(OSP_EDEVICE, "the made-up device has failed");
    }
    *ticket = world.n_begun++;
    memset(results, 0x55, sizeof results);
    world.is_in_flight = true;
    return OSP_OK;
}

static void end_step(uint64_t ticket)
{
    for (struct caller *c = world.caller; c < world.caller + LIVE_MAX; c++) {
        c->n_due_now = c->n_due[ticket % 2];
        c->n_stored_due = c->n_due_now - 1;
        if (world.odds.is_async && c->n_accepted[ticket % 2] > 0) /* else admissions came before */
            check_accepted(c, c->n_accepted[ticket % 2]);
        c->n_due[ticket % 2] = c->n_accepted[ticket % 2] = 0;
    }
}

static enum osp_status sim_step_wait(struct backend *be, uint64_t ticket)
{
    (void)be;
    if (head_ran(ticket)) {
        waited_tokens = head_tokens(ticket);
        return OSP_OK;
    }
    waited_tokens = results;
    CHECK(world.is_in_flight);
    CHECK(ticket == world.n_waited);
    world.is_in_flight = ++world.n_waited < world.n_begun;
    launched_ns = sim_now_ns;
    sim_now_ns += 1 + (uint64_t)pick(20000000);
    if (chance(world.odds.jump))
        sim_now_ns += 3600000000000u;
    ended_ns = sim_now_ns;
    memcpy(results, sampled[ticket % 2], sizeof results);
    memcpy(logprobs, scores[ticket % 2], sizeof logprobs);
    if (world.odds.is_async) {
        check_in_step();
        callers_cancel(); /* others do not wait for the step's end */
    }
    if (!chance(2 * world.odds.device)) {
        end_step(ticket);
        return OSP_OK;
    }
    mark_dead();
    return fail(OSP_EDEVICE, "the made-up device has failed in a step");
}

static enum osp_status sim_sampled(struct backend *be, struct sampled *out)
{
    (void)be;
    *out = (struct sampled){.tokens = waited_tokens,
                            .logprobs = logprobs,
                            .candidates = head_candidates(),
                            .begin_ns = launched_ns,
                            .end_ns = ended_ns};
    return OSP_OK;
}

static enum osp_status sim_move(struct backend *be, void *to, const void *from, size_t size_bytes)
{
    (void)be;
    CHECK(!world.is_in_flight);
    memcpy(to, from, size_bytes);
    return OSP_OK;
}

/* A device that queues steps does copies between them. */
static enum osp_status sim_copy(struct backend *be, void *to, const void *from, size_t size_bytes)
{
    if (!world.odds.is_ahead)
        return sim_move(be, to, from, size_bytes);
    memcpy(to, from, size_bytes);
    return OSP_OK;
}

static enum osp_status sim_kv_move(struct backend *be, const struct kv_moves *moves)
{
    const int g = moves->kv[0]->data == memory[GROUP_WINDOW];

    (void)be;
    CHECK(!world.is_in_flight && moves->n_layers == 1);
    for (int i = 0; i < moves->n; i++) {
        const struct kv_move *m = &moves->list[i];

        ((uint64_t *)(void *)(memory[g] +
                              m->to_page * kv_page_bytes(DTYPE_F32, 1, 1)))[m->to_slot] =
            stamp_now(g, m->from_page, m->from_slot);
        totals.n_slots_moved++;
    }
    return OSP_OK;
}

static enum osp_status sim_copy_rows(struct backend *be, const struct row_copies *c)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < c->n; i++)
        TRY(sim_copy(be, (char *)c->to + c->rows[i].to * c->row_bytes,
                     (const char *)c->from + c->rows[i].from * c->row_bytes,
                     (size_t)(c->rows[i].n * c->row_bytes)));
out:
    return st;
}

static void sim_info(const struct backend *be, struct device_info *out)
{
    (void)be;
    *out = (struct device_info){.name = "made up",
                                .runs_async = world.odds.is_behind,
                                .runs_pipelined = world.odds.is_ahead,
                                .runs_phases_apart = world.odds.is_apart,
                                .has_slow_small_prefill = world.odds.has_bursts};
}

static int sim_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    (void)be;
    (void)out;
    (void)n_max;
    return 0;
}

static const struct backend_ops sim_ops = {.name = "sim",
                                           .info = sim_info,
                                           .write = sim_move,
                                           .read = sim_move,
                                           .copy = sim_copy,
                                           .kv_move = sim_kv_move,
                                           .copy_rows = sim_copy_rows,
                                           .run = sim_run,
                                           .step_wait = sim_step_wait,
                                           .sampled = sim_sampled,
                                           .costs = sim_costs};

struct osp_model *sim_model(struct osp_tokenizer *tokenizer)
{
    model.ops = &sim_ops;
    model.layers = layers;
    model.n_layers = N_PAGE_GROUPS;
    model.sample.tokens.data = results;
    model.sample.logprobs.data = logprobs;
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        layers[g].attn_qkv.group = (enum page_group)g;
        layers[g].attn_qkv.kv = (struct tensor){.dtype = DTYPE_F32,
                                                .n_dims = 5,
                                                .dim = {PAGES_MAX, 2, 1, PAGE_TOKENS, 1},
                                                .data = memory[g]};
        shell.facts.page_bytes[g] = kv_page_bytes(DTYPE_F32, 1, 1);
        CHECK(shell.facts.page_bytes[g] * PAGES_MAX <= (int64_t)sizeof memory[g]);
    }
    shell.name = "sim";
    shell.model = &model;
    shell.tokenizer = (struct tokenizer *)tokenizer;
    shell.facts.vocab_size = VOCAB;
    shell.text.specials = (struct special_ids){.ret = sim_letter[LETTERS - 1],
                                               .end = sim_letter[LETTERS - 2],
                                               .call = -1,
                                               .endoftext = -1};
    pthread_mutex_init(&shell.costs_lock, NULL);
    return &shell;
}

void sim_model_head(bool has_head)
{
    static const struct draft none;

    model.draft = none;
    if (has_head)
        head_init(&model);
    shell.facts.page_bytes[GROUP_FULL] = kv_page_bytes(DTYPE_F32, 1, 1) * (has_head ? 2 : 1);
}

void sim_model_limits(const struct sched_limits *l)
{
    shell.plan.context_tokens_max = l->context_tokens_max;
    shell.plan.n_seqs_max = l->n_seqs_max;
    shell.plan.n_batch_tokens_max = l->n_batch_tokens_max;
    shell.plan.n_draft_rows_max = l->n_draft_rows_max;
    shell.plan.lists = (struct batch_counts){.n_biases = l->n_seqs_max};
    memcpy(shell.plan.n_pages, l->n_pages, sizeof l->n_pages);
    shell.facts.window_tokens = l->window_tokens;
}
