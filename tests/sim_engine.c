/* Simulates the scheduler: seeded random limits, arrivals, cancellations and failures, and a model
 * that only stamps its pages and draws tokens by a hash. Checked in every step: page accounting, that
 * each row can read exactly the positions it must see, budgets, order of admission; at each end: the
 * tokens are those that the sequence would have drawn alone. A failure prints its seed.
 *
 *     sim_engine [n_steps [seed]] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "engine/sched.h"

enum {
    LIVE_MAX = 40,
    CONTEXT_MAX = 2000,
    STEPS_A_WORLD = 2000,
    STEPS_DEFAULT = 200000,
    STOP_TOKEN = 7,
    READS_A_ROW = 6 /* random positions checked besides the ends of what a row sees */
};

static uint64_t world_seed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("sim_engine: seed %" PRIu64 ": %s:%d: %s\n", world_seed, __FILE__, __LINE__,    \
                   #condition);                                                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct live {
    struct seq seq;
    uint64_t id;
    bool in_use;
};

struct world {
    struct sched sched;
    struct live live[LIVE_MAX];
    uint64_t *stamps[N_PAGE_GROUPS]; /* (n_pages, PAGE_TOKENS): which sequence and position */
    void *batch;
    int32_t tokens[LIVE_MAX];
    uint64_t draws, now_ns, n_born, last_admitted_id;
    int64_t n_ended;
};

static int pick(struct world *w, int below)
{
    return (int)(rng_bits(world_seed, w->draws++, 0) % (uint64_t)below);
}

/* ---- the fake model ---- */

static uint64_t stamp_of(uint64_t id, int position)
{
    return id << 24 | (uint64_t)position;
}

/* What the sequence draws at a position depends on nothing else. */
static int32_t token_at(uint64_t id, int position)
{
    uint64_t bits = rng_bits(id, (uint64_t)position, 1);

    if (bits % 1009 == 0)
        return -1; /* a failed draw */
    return (int32_t)(bits >> 32) % 300 == 0 ? STOP_TOKEN : (int32_t)(bits % 50000) + 100;
}

static uint64_t *slot(struct world *w, const struct batch *b, const struct batch_seq *s,
                      enum page_group g, int position)
{
    int entry = position / PAGE_TOKENS - s->first_page[g];
    int32_t page;

    CHECK(entry >= 0 && entry < s->n_pages[g]);
    page = BATCH_PAGES(b)[s->table[g] + entry];
    CHECK(page >= 0 && page < w->sched.limits.n_pages[g]);
    return &w->stamps[g][page * PAGE_TOKENS + position % PAGE_TOKENS];
}

static void store_row(struct world *w, const struct batch *b, int row, uint64_t id)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    int position = BATCH_POSITIONS(b)[row];

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        *slot(w, b, s, (enum page_group)g, position) = stamp_of(id, position);
}

static void read_row(struct world *w, const struct batch *b, int row, uint64_t id)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    int last = BATCH_POSITIONS(b)[row];

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int n = g == GROUP_WINDOW ? w->sched.limits.window_tokens : last + 1;
        int first = last - n + 1 > 0 ? last - n + 1 : 0;

        CHECK(*slot(w, b, s, (enum page_group)g, first) == stamp_of(id, first));
        for (int i = 0; i < READS_A_ROW; i++) {
            int position = first + pick(w, last - first + 1);

            CHECK(*slot(w, b, s, (enum page_group)g, position) == stamp_of(id, position));
        }
    }
}

static void check_part(struct world *w, const struct batch *b, const struct step_part *part, int i)
{
    const struct live *l = part->seq->owner;
    const struct batch_seq *s = &BATCH_SEQS(b)[i];

    CHECK(s->n_rows == part->n_rows && part->n_rows > 0);
    CHECK(part->first == part->seq->n_stored);
    for (int r = 0; r < s->n_rows; r++) {
        int row = s->first_row + r, position = part->first + r;

        CHECK(BATCH_ROW_SEQ(b)[row] == i);
        CHECK(BATCH_POSITIONS(b)[row] == position);
        CHECK(BATCH_TOKENS(b)[row] == part->seq->tokens[position]);
        CHECK(BATCH_KINDS(b)[row] == (position < part->seq->n_prompt ? ROW_PROMPT : ROW_GENERATED));
        store_row(w, b, row, l->id);
    }
    for (int r = 0; r < s->n_rows; r++)
        read_row(w, b, s->first_row + r, l->id);
}

static void run_batch(struct world *w, const struct step_plan *plan)
{
    const struct batch *b = sched_batch(&w->sched, w->batch);
    int n_drawn = 0;

    CHECK(b->size_bytes <= sched_batch_bytes_max(&w->sched.limits));
    CHECK(plan->n_rows <= w->sched.limits.n_batch_tokens_max);
    for (int i = 0; i < plan->n_parts; i++) {
        const struct live *l = plan->parts[i].seq->owner;

        check_part(w, b, &plan->parts[i], i);
        if (!plan->parts[i].draws)
            continue;
        CHECK((int)BATCH_SAMPLES(b)[n_drawn].position == l->seq.n_tokens);
        w->tokens[n_drawn++] = token_at(l->id, l->seq.n_tokens);
    }
    CHECK(n_drawn == plan->n_draws);
}

/* ---- the invariants ---- */

static void check_pages(const struct world *w)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        const struct pages *p = &w->sched.pages[g];
        int n_held = 0, n_refs = 0;

        for (int i = 0; i < w->sched.n_running; i++)
            n_held += w->sched.running[i]->pages[g].n;
        for (int i = 0; i < p->n_pages; i++) {
            CHECK(p->page[i].n_refs == 0 || p->page[i].n_refs == 1);
            n_refs += p->page[i].n_refs;
        }
        CHECK(n_held == n_refs);
        CHECK(p->n_free + n_held == p->n_pages);
        CHECK(w->sched.n_promised[g] >= 0 && w->sched.n_promised[g] <= p->n_pages);
    }
}

static void check_admissions(struct world *w)
{
    for (int i = 0; i < w->sched.n_running; i++) {
        const struct live *l = w->sched.running[i]->owner;

        if (l->seq.times.admit_ns != w->now_ns)
            continue;
        CHECK(l->id > w->last_admitted_id); /* first come, first served */
        w->last_admitted_id = l->id;
    }
}

static void check_end(const struct live *l)
{
    const struct seq *q = &l->seq;

    for (int i = q->n_prompt; i < q->n_tokens; i++)
        CHECK(q->tokens[i] == token_at(l->id, i));
    if (q->end == SEQ_END_STOP)
        CHECK(q->tokens[q->n_tokens - 1] == STOP_TOKEN);
    if (q->end == SEQ_END_LENGTH)
        CHECK(q->n_tokens == q->n_tokens_max);
    if (q->end == SEQ_END_FAILED)
        CHECK(token_at(l->id, q->n_tokens) < 0);
}

/* ---- the world ---- */

static void random_limits(struct world *w, struct sched_limits *l)
{
    static const int windows[] = {1, 2, 63, 64, 65, 127, 128, 129, 300};
    int n_context, n_window, n_chunk;

    memset(l, 0, sizeof *l);
    l->n_seqs_max = 1 + pick(w, 12);
    l->n_batch_tokens_max = l->n_seqs_max + pick(w, pick(w, 2) ? 16 : 500);
    l->context_tokens_max = 2 + pick(w, CONTEXT_MAX - 2);
    l->passes_max = 1 + pick(w, 20);
    l->window_tokens = windows[pick(w, (int)(sizeof windows / sizeof windows[0]))];
    l->stop_ids[l->n_stop_ids++] = STOP_TOKEN;
    n_context = pages_of_tokens(l->context_tokens_max);
    n_window = sched_window_pages(l->window_tokens);
    n_chunk = sched_chunk_pages(l->n_batch_tokens_max);
    l->n_pages[GROUP_FULL] = n_context + pick(w, n_context * l->n_seqs_max);
    l->n_pages[GROUP_WINDOW] = n_chunk + n_window + pick(w, n_window * l->n_seqs_max);
}

static void world_open(struct world *w, uint64_t seed)
{
    struct sched_limits limits;

    memset(w, 0, sizeof *w);
    world_seed = seed;
    random_limits(w, &limits);
    CHECK(sched_init(&w->sched, &limits) == OSP_OK);
    w->batch = mem_new((size_t)sched_batch_bytes_max(&limits));
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        w->stamps[g] = mem_new((size_t)limits.n_pages[g] * PAGE_TOKENS * sizeof(uint64_t));
}

static void world_close(struct world *w)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        free(w->stamps[g]);
    free(w->batch);
    sched_release(&w->sched);
}

static void arrive(struct world *w)
{
    int32_t prompt[CONTEXT_MAX];
    int n_max = w->sched.limits.context_tokens_max;
    int n_prompt = 1 + pick(w, pick(w, 2) ? n_max - 1 : (n_max - 1 < 40 ? n_max - 1 : 40));
    struct live *l = w->live;

    while (l < w->live + LIVE_MAX && l->in_use)
        l++;
    if (l == w->live + LIVE_MAX)
        return;
    for (int i = 0; i < n_prompt; i++)
        prompt[i] = i;
    CHECK(sched_can_fit(&w->sched.limits, n_max));
    CHECK(seq_init(&l->seq, &w->sched.limits, prompt, n_prompt,
                   n_prompt + 1 + pick(w, n_max - n_prompt)) == OSP_OK);
    l->in_use = true;
    l->id = ++w->n_born;
    l->seq.owner = l;
    sched_add(&w->sched, &l->seq);
}

static void cancel_one(struct world *w)
{
    struct live *l = &w->live[pick(w, LIVE_MAX)];

    if (l->in_use)
        sched_remove(&w->sched, &l->seq, SEQ_END_CANCELED);
}

static void bury(struct world *w)
{
    for (struct live *l = w->live; l < w->live + LIVE_MAX; l++) {
        if (!l->in_use || l->seq.state != SEQ_ENDED)
            continue;
        check_end(l);
        seq_release(&l->seq);
        l->in_use = false;
        w->n_ended++;
    }
}

static void world_step(struct world *w)
{
    const struct step_plan *plan;

    w->now_ns++;
    plan = sched_plan(&w->sched, w->now_ns);
    CHECK(plan->n_parts > 0 || sched_any(&w->sched) == NULL);
    check_admissions(w);
    check_pages(w);
    run_batch(w, plan);
    sched_commit(&w->sched, w->tokens, w->now_ns);
    check_pages(w);
    bury(w);
}

/* Gives the number of sequences that lived. */
static int64_t live_once(struct world *w, uint64_t seed, int n_steps)
{
    int n_left = CONTEXT_MAX * (LIVE_MAX + 1);

    world_open(w, seed);
    for (int i = 0; i < n_steps; i++) {
        if (pick(w, 4) == 0)
            arrive(w);
        if (pick(w, 50) == 0)
            cancel_one(w);
        bury(w);
        world_step(w);
    }
    while (sched_any(&w->sched) != NULL) {
        CHECK(n_left-- > 0); /* everything finishes */
        world_step(w);
    }
    CHECK(w->n_ended == (int64_t)w->n_born);
    world_close(w);
    return w->n_ended;
}

int main(int argc, char **argv)
{
    static struct world world;
    int64_t n_steps = argc > 1 ? atoll(argv[1]) : STEPS_DEFAULT;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int64_t n_worlds = (n_steps + STEPS_A_WORLD - 1) / STEPS_A_WORLD, n_lived = 0;

    for (int64_t i = 0; i < n_worlds; i++)
        n_lived += live_once(&world, seed + (uint64_t)i, STEPS_A_WORLD);
    printf("sim_engine: %" PRId64 " worlds of %d steps, %" PRId64 " sequences: ok\n", n_worlds,
           STEPS_A_WORLD, n_lived);
    return 0;
}
