/* Rows of draft trees: each path of a random tree has the bits of decode rows that come one by one,
 * alone and beside other rows; and so have the rows behind an accepted path, whose keys and values
 * were moved to their positions. Activations and pages start as NaN. For tests/unit/test_tree_rows.c
 * and check_tree_rows.c. */
#ifndef TREE_ROWS_H
#define TREE_ROWS_H

#include <stdio.h>

#include "backend/tree_mask.h"
#include "base/rng.h"
#include "steps.h"

enum {
    NODES_MAX = 16,
    TREE_ROWS_MAX = NODES_MAX + 1, /* and the row behind the stored positions */
    TOKENS_MAX = 4200,
    AFTER_TOKENS = 3, /* rows behind an accepted path */
    BESIDE_TOKENS = 100,
    VOCAB_MIN = 96, /* ids that all models have */
    N_SEQS = 8,
    CROWD_TREES = 5, /* trees beside the one that is checked */
    CROWD_PREFILL = 20,
    STEP_ROWS_MAX = 2 + (CROWD_TREES + 1) * TREE_ROWS_MAX + CROWD_PREFILL
};

/* A tree: row 0 is that of the last token, row i > 0 a draft behind row parent[i] < i. */
struct tree {
    int n_rows, parent[TREE_ROWS_MAX], depth[TREE_ROWS_MAX];
    uint32_t mask[TREE_ROWS_MAX];
    int32_t tokens[TREE_ROWS_MAX];
};

static int32_t token_of(uint64_t seed, int i)
{
    return (int32_t)(rng_bits(seed, (uint64_t)i, 0) % VOCAB_MIN);
}

static struct tree random_tree(uint64_t seed)
{
    struct tree t = {.n_rows = 2 + (int)(rng_bits(seed, 1, 0) % NODES_MAX), .mask = {1}};

    t.tokens[0] = token_of(seed, 100);
    for (int i = 1; i < t.n_rows; i++) {
        const uint64_t bits = rng_bits(seed, (uint64_t)i, 1);

        t.parent[i] = bits % 2 == 0 ? i - 1 : (int)(bits / 2 % (uint64_t)i); /* deep and wide */
        t.depth[i] = t.depth[t.parent[i]] + 1;
        t.mask[i] = t.mask[t.parent[i]] | 1u << i;
        t.tokens[i] = token_of(seed, 100 + i);
    }
    return t;
}

/* ---- a step with trees ---- */

/* The tree of a sequence whose first n tokens are stored. */
struct tree_chunk {
    const struct tree *tree; /* NULL: one plain row with `token` */
    int32_t token;
    int slot, n_stored; /* slot: whose pages, as in steps.h */
    int n_prefill;      /* not 0: prefill rows of `token`, from position 0 on */
};

static int n_rows_of(const struct tree_chunk *c)
{
    return c->tree != NULL ? c->tree->n_rows : c->n_prefill > 0 ? c->n_prefill : 1;
}

static void fill_rows(struct batch *b, const struct tree_chunk *c, int seq, int row)
{
    for (int i = 0; i < n_rows_of(c); i++) {
        const int depth = c->tree != NULL ? c->tree->depth[i] : i;

        ((int32_t *)BATCH_TOKENS(b))[row + i] = c->tree != NULL ? c->tree->tokens[i] : c->token;
        ((int32_t *)BATCH_POSITIONS(b))[row + i] = c->n_stored + depth;
        ((int32_t *)BATCH_ROW_SEQ(b))[row + i] = seq;
        ((int32_t *)BATCH_PHASES(b))[row + i] = c->n_prefill > 0 ? PHASE_PREFILL : PHASE_DECODE;
        ((uint32_t *)BATCH_TREE_MASKS(b))[row + i] = c->tree != NULL ? c->tree->mask[i] : 1;
        ((struct batch_sample *)BATCH_SAMPLES(b))[row + i] =
            (struct batch_sample){.row = row + i, .top_p = 1};
    }
}

static int32_t page_of(const struct model *m, int g, int slot, int page)
{
    const int64_t page_bytes =
        model_page_bytes(&m->checkpoint.config, (enum page_group)g, m->kv_dtype);
    const struct steps_seq s = {.slot = slot};

    return page_bytes == 0
               ? 0
               : steps_page(&s, page, N_SEQS, (int)((int64_t)m->pages[g].size_bytes / page_bytes));
}

/* Pages behind the window are left out, as the scheduler does. */
static int first_page_of(const struct model *m, int g, int n_stored)
{
    const int first = n_stored - model_config(m)->window_tokens + 1;

    return g == GROUP_WINDOW && first > 0 ? first / PAGE_TOKENS : 0;
}

static void run_trees(struct model *m, const struct tree_chunk *chunks, int n, float *logits)
{
    struct batch_counts counts = {.n_seqs = n, .has_trees = true};
    int n_pages = 0, row = 0;
    uint64_t ticket;
    struct batch *b;

    for (int i = 0; i < n; i++) {
        counts.n_rows += n_rows_of(&chunks[i]);
        counts.n_pages += N_PAGE_GROUPS * steps_pages(chunks[i].n_stored + TREE_ROWS_MAX);
    }
    counts.n_samples = counts.n_rows;
    b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    for (int i = 0; i < n; i++) {
        const struct tree_chunk *c = &chunks[i];
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + i;

        seq->first_row = row;
        seq->n_rows = n_rows_of(c);
        fill_rows(b, c, i, row);
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            seq->first_page[g] = first_page_of(m, g, c->n_stored);
            seq->table[g] = n_pages;
            seq->n_pages[g] = steps_pages(c->n_stored + n_rows_of(c)) - seq->first_page[g];
            for (int p = 0; p < seq->n_pages[g]; p++)
                ((int32_t *)BATCH_PAGES(b))[n_pages++] =
                    page_of(m, g, c->slot, seq->first_page[g] + p);
        }
        row += n_rows_of(c);
    }
    must(model_step(m, b, &ticket));
    must(model_wait(m, ticket));
    must(model_logits(m, counts.n_rows, logits));
    free(b);
}

/* Moves the path to row `last` to its positions, the topmost first. */
static void accept(struct model *m, const struct tree *t, int last, int slot, int n_stored)
{
    int position = n_stored;

    for (uint32_t left = t->mask[last]; left != 0; left &= left - 1, position++) {
        const int from = n_stored + __builtin_ctz(left);

        for (int g = 0; g < N_PAGE_GROUPS && from != position; g++) {
            const struct kv_move move = {
                page_of(m, g, slot, from / PAGE_TOKENS), from % PAGE_TOKENS,
                page_of(m, g, slot, position / PAGE_TOKENS), position % PAGE_TOKENS};

            must(model_kv_move(m, (enum page_group)g, &move, 1));
        }
    }
}

/* ---- one row after another, which is what must come ---- */

static void run_one(struct model *m, int slot, int position, int32_t token, float *logits)
{
    const struct tree_chunk one = {.token = token, .slot = slot, .n_stored = position};

    run_trees(m, &one, 1, logits);
}

/* The logits of each row of the tree, path by path in the pages of slot 0. */
static void play_paths(struct model *m, const struct tree *t, int n_stored, float *want)
{
    const int64_t vocab = model_config(m)->vocab_size;

    for (int i = 0; i < t->n_rows; i++) {
        bool has_child = false;

        for (int k = i + 1; k < t->n_rows; k++)
            has_child = has_child || t->parent[k] == i;
        if (has_child)
            continue;
        for (uint32_t left = t->mask[i], at = 0; left != 0; left &= left - 1, at++) {
            const int row = __builtin_ctz(left);

            run_one(m, 0, n_stored + (int)at, t->tokens[row], want + row * vocab);
        }
    }
}

/* ---- the comparison ---- */

struct tree_check {
    struct model *m;
    const char *name;   /* of what is checked */
    int n_bad;          /* comparisons that failed */
    float *want, *have; /* (STEP_ROWS_MAX, V) each */
    int32_t tokens[TOKENS_MAX];
};

static void assert_same(struct tree_check *c, const float *have, int n_rows, int n_stored,
                        const char *what)
{
    const size_t vocab = (size_t)model_config(c->m)->vocab_size;

    for (int i = 0; i < n_rows; i++) {
        const float *want = c->want + (size_t)i * vocab;

        if (memcmp(have + (size_t)i * vocab, want, vocab * sizeof(float)) == 0)
            continue;
        printf("%s: %s behind position %d: row %d has other bits\n", c->name, what, n_stored, i);
        c->n_bad++;
        return;
    }
}

/* Rows behind the accepted path, in its own pages and in those of the reference. */
static void compare_after(struct tree_check *c, const struct tree *t, int last, int n_stored)
{
    const int64_t vocab = model_config(c->m)->vocab_size;
    const int n = n_stored + t->depth[last] + 1;

    for (uint32_t left = t->mask[last], at = 0; left != 0; left &= left - 1, at++)
        run_one(c->m, 0, n_stored + (int)at, t->tokens[__builtin_ctz(left)], c->want);
    accept(c->m, t, last, 1, n_stored);
    for (int i = 0; i < AFTER_TOKENS; i++) {
        run_one(c->m, 0, n + i, token_of(9, i), c->want + i * vocab);
        run_one(c->m, 1, n + i, token_of(9, i), c->have + i * vocab);
    }
    assert_same(c, c->have, AFTER_TOKENS, n, "accepted path");
}

/* Trees beside it are shorter. */
static int n_beside(int n_stored)
{
    return n_stored < BESIDE_TOKENS ? n_stored : (int)BESIDE_TOKENS;
}

/* Stores tokens [from, n) in the pages of all slots. */
static void store(const struct tree_check *c, int from, int n)
{
    for (int slot = 0; slot < 2 + CROWD_TREES; slot++) {
        const int end = slot >= 2 ? n_beside(n) : n;
        struct steps_seq s = {.tokens = c->tokens, .n_tokens = end, .n_prefill = n, .slot = slot};

        s.n_done = from < end ? from : end;
        steps_play(c->m, &s, STEP_ROWS_MAX, N_SEQS);
    }
}

/* Alone; behind a row and before another tree; between more of them, and with prefill rows. */
static void compare(struct tree_check *c, int n_stored, uint64_t seed)
{
    const struct tree t = random_tree(seed);
    const int64_t vocab = model_config(c->m)->vocab_size;
    struct tree others[CROWD_TREES];
    struct tree_chunk chunks[2 + CROWD_TREES + 1] = {
        {.token = token_of(seed, 7), .slot = 0, .n_stored = n_stored},
        {.tree = &t, .slot = 1, .n_stored = n_stored}};

    for (int i = 0; i < CROWD_TREES; i++) {
        others[i] = random_tree(seed + 1000 * (uint64_t)(i + 1));
        chunks[2 + i] =
            (struct tree_chunk){.tree = &others[i], .slot = 2 + i, .n_stored = n_beside(n_stored)};
    }
    chunks[2 + CROWD_TREES] = (struct tree_chunk){
        .token = token_of(seed, 8), .slot = 2 + CROWD_TREES, .n_prefill = CROWD_PREFILL};
    play_paths(c->m, &t, n_stored, c->want);
    run_trees(c->m, &chunks[1], 1, c->have);
    assert_same(c, c->have, t.n_rows, n_stored, "tree");
    run_trees(c->m, chunks, 3, c->have);
    assert_same(c, c->have + vocab, t.n_rows, n_stored, "tree beside others");
    run_trees(c->m, chunks, 2 + CROWD_TREES, c->have);
    assert_same(c, c->have + vocab, t.n_rows, n_stored, "tree among trees");
    run_trees(c->m, chunks, 2 + CROWD_TREES + 1, c->have);
    assert_same(c, c->have + vocab, t.n_rows, n_stored, "tree before prefill rows");
    compare_after(c, &t, t.n_rows - 1 - (int)(seed % (uint64_t)t.n_rows), n_stored);
}

static void open_check(struct tree_check *c, const char *folder, const char *name,
                       enum dtype kv_dtype)
{
    size_t n_floats;

    *c = (struct tree_check){.name = name};
    for (int i = 0; i < TOKENS_MAX; i++)
        c->tokens[i] = token_of(77, i);
    c->m = steps_open_kv(folder, 2, STEP_ROWS_MAX, N_SEQS, TOKENS_MAX, kv_dtype);
    n_floats = STEP_ROWS_MAX * (size_t)model_config(c->m)->vocab_size;
    c->want = mem_new(n_floats * sizeof(float));
    c->have = mem_new(n_floats * sizeof(float));
    steps_poison(c->m);
}

static void close_check(struct tree_check *c)
{
    free(c->want);
    free(c->have);
    model_close(c->m);
}

/* Before and behind the edges of pages, of units of keys (16), of the window (128) and of splits, and
 * in the first page. */
static const int n_stored_short[] = {1,   10,  15,  55,  62,  63,  64,  119,
                                     126, 127, 128, 129, 130, 190, 250, 255};
static const int n_stored_long[] = {505, 511, 1023, 4094, 4095, 4158};
enum {
    N_SHORT = sizeof n_stored_short / sizeof n_stored_short[0],
    N_LONG = sizeof n_stored_long / sizeof n_stored_long[0]
};

/* Every `step`-th place. Returns how many comparisons failed. */
static inline int check_trees(const char *folder, const char *name, enum dtype kv_dtype,
                              bool is_long, int step)
{
    struct tree_check c;
    int n = 0;

    open_check(&c, folder, name, kv_dtype);
    for (int i = step - 1; i < N_SHORT + (is_long ? N_LONG : 0); i += step) {
        const int n_stored = i < N_SHORT ? n_stored_short[i] : n_stored_long[i - N_SHORT];

        store(&c, n, n_stored);
        n = n_stored;
        compare(&c, n_stored, 31 * (uint64_t)i + 5);
    }
    close_check(&c);
    return c.n_bad;
}

#endif
