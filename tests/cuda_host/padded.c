/* Steps whose counts are padded: their sizes, the layout of their batch, and that each of their
 * launches reads the number of rows on the device. */
#include "unit.h"

#include "base/rng.h"
#include "cuda/program/plan.h"
#include "cuda/launch/collective.h"
#include "cuda_host/situations.h"

/* ---- counts ---- */

static struct step_counts counts_of(const struct step_spec *spec)
{
    struct batch *b = symbolic_batch(spec);
    struct step_counts n;

    assert_int_equal(step_counts_of(&n, b), OSP_OK);
    free(b);
    return n;
}

static int padded_rows(int n_rows, int n_most)
{
    struct step_counts n = counts_of(&(struct step_spec){.n_decode = n_rows});

    step_counts_pad(&n, n_most);
    assert_int_equal(n.n_decode, n.n_rows);
    assert_int_equal(n.n_samples, n.n_rows);
    assert_int_equal(n.n_seqs, n.n_rows);
    assert_int_equal(n.n_tail, n.n_rows);
    assert_int_equal(n.n_tail_decode, n.n_rows);
    return n.is_padded ? n.n_rows : -n.n_rows;
}

void test_padded_counts(void **state)
{
    (void)state;
    assert_int_equal(padded_rows(1, 512), -1);
    assert_int_equal(padded_rows(4, 512), -4);
    assert_int_equal(padded_rows(5, 512), 6);
    assert_int_equal(padded_rows(6, 512), 6);
    assert_int_equal(padded_rows(7, 512), 8);
    assert_int_equal(padded_rows(8, 512), 8);
    assert_int_equal(padded_rows(9, 512), 16);
    assert_int_equal(padded_rows(57, 512), 64);
    assert_int_equal(padded_rows(65, 512), 80);
    assert_int_equal(padded_rows(241, 512), 256);
    assert_int_equal(padded_rows(256, 512), 256);
    assert_int_equal(padded_rows(257, 512), 320);
    assert_int_equal(padded_rows(500, 510), 510);
    assert_int_equal(padded_rows(1000, 1024), 1024);
    assert_int_equal(padded_rows(1025, 2048), -1025);
    assert_int_equal(padded_rows(5, 5), 5); /* the largest step */
    assert_int_equal(padded_rows(49, 50), 50);
}

/* All of a step's rows are decode rows, each with a sample and a sequence of its own. */
void test_not_padded(void **state)
{
    static const struct step_spec specs[] = {
        {.n_decode = 20, .n_prefill = 1},
        {.n_decode = 20, .samples = SAMPLES_NO},
        {.n_prefill = 20},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        const struct step_counts before = counts_of(&specs[i]);
        struct step_counts n = before;

        step_counts_pad(&n, 512);
        assert_memory_equal(&n, &before, sizeof(n));
    }
}

/* ---- many sequences of random lengths ---- */

enum { CHURN_SEQS_MAX = 512, CHURN_STEPS = 4000, CONTEXT_MAX = 4096 };

/* Sequences that end give their place to new ones, which have no row in the next one to four steps:
 * their prompts are computed. One sequence at a time, on average, needs the kernels of special
 * samples, so that steps with and without them alternate. */
struct churn {
    int position[CHURN_SEQS_MAX], end[CHURN_SEQS_MAX], waits[CHURN_SEQS_MAX];
    bool is_special[CHURN_SEQS_MAX]; /* its samples need more than temperature sampling */
    uint64_t n_drawn;
};

static int draw(struct churn *c, int from, int to)
{
    return from + (int)(rng_uniform(7, c->n_drawn++, 0) * (to - from + 1));
}

/* Decode rows at these positions, each of a sequence of its own. */
static void churn_step(struct churn *c, struct batch *b, int n_seqs)
{
    int n = 0;

    for (int i = 0; i < n_seqs; i++) {
        if (c->position[i] == c->end[i]) {
            c->position[i] = draw(c, 50, 2000);
            c->end[i] = c->position[i] + draw(c, 20, CONTEXT_MAX - 2000);
            c->waits[i] = draw(c, 1, 4);
            c->is_special[i] = draw(c, 1, n_seqs) == 1;
        }
        if (c->waits[i]-- > 0)
            continue;
        ((struct batch_sample *)(uintptr_t)BATCH_SAMPLES(b))[n].n_top = c->is_special[i];
        ((int32_t *)(uintptr_t)BATCH_POSITIONS(b))[n++] = c->position[i]++;
    }
    b->n_rows = b->n_seqs = b->n_samples = n;
}

/* The padded counts of steps, each of which has a graph, are few enough to be kept, and a new one
 * comes in less than 1 % of the steps. */
void test_graphs_under_churn(void **state)
{
    static struct step_counts seen[CHURN_STEPS];

    (void)state;
    for (int n_seqs = 256; n_seqs <= CHURN_SEQS_MAX; n_seqs *= 2) {
        struct batch *b = symbolic_batch(&(struct step_spec){.n_decode = n_seqs});
        struct churn c = {.n_drawn = 0};
        int n_seen = 0;

        for (int step = 0; step < CHURN_STEPS; step++) {
            struct step_counts n;
            int i = 0;

            churn_step(&c, b, n_seqs);
            if (b->n_rows == 0)
                continue;
            assert_int_equal(step_counts_of(&n, b), OSP_OK);
            step_counts_pad(&n, n_seqs);
            while (i < n_seen && memcmp(&seen[i], &n, sizeof n) != 0)
                i++;
            if (i == n_seen)
                seen[n_seen++] = n;
        }
        assert_in_range(n_seen, 1, CHURN_STEPS / 100 - 1);
        assert_true(n_seen <= PLANS_MAX - PREFILL_PLANS_MAX);
        free(b);
    }
}

/* ---- the batch ---- */

static bool is_zero(const void *data, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        if (((const char *)data)[i] != 0)
            return false;
    return true;
}

#define CHECK_ARRAY(to, b, ARRAY, n, n_padded)                                                     \
    do {                                                                                           \
        assert_memory_equal(ARRAY(to), ARRAY(b), (size_t)(n) * sizeof(*ARRAY(b)));                 \
        assert_true(is_zero(ARRAY(to) + (n), (size_t)((n_padded) - (n)) * sizeof(*ARRAY(b))));     \
    } while (0)

static struct batch *random_batch(int n_rows)
{
    const struct batch_counts n = {.n_rows = n_rows,
                                   .n_seqs = n_rows,
                                   .n_samples = n_rows,
                                   .n_pages = 3 * n_rows + 1,
                                   .n_seen = n_rows,
                                   .n_biases = 5,
                                   .n_mask_words = 7,
                                   .n_follows = n_rows};
    struct batch *b = batch_init(malloc((size_t)batch_bytes(n)), n);

    for (int64_t i = (int64_t)sizeof(*b); i < b->size_bytes; i++)
        ((unsigned char *)b)[i] = (unsigned char)(i * 37 % 251 + 1);
    for (int i = 0; i < n_rows; i++) {
        ((int32_t *)BATCH_PHASES(b))[i] = PHASE_DECODE;
        ((struct batch_sample *)BATCH_SAMPLES(b))[i].row = i;
    }
    return b;
}

static void check_copy(int n_rows, int n_padded)
{
    struct batch *b = random_batch(n_rows), *to;
    struct step_counts n;
    void *memory;

    assert_int_equal(step_counts_of(&n, b), OSP_OK);
    step_counts_pad(&n, 512);
    assert_int_equal(n.n_rows, n_padded);
    memory = malloc((size_t)step_batch_bytes(b, &n));
    memset(memory, 0xFF, (size_t)step_batch_bytes(b, &n));
    to = step_batch_copy(memory, b, &n);
    assert_int_equal(to->n_rows, n_rows);
    assert_int_equal(to->n_seqs, n_rows);
    assert_int_equal(to->n_samples, n_rows);
    assert_int_equal(to->size_bytes, step_batch_bytes(b, &n));
    CHECK_ARRAY(to, b, BATCH_TOKENS, n_rows, n_padded);
    CHECK_ARRAY(to, b, BATCH_POSITIONS, n_rows, n_padded);
    CHECK_ARRAY(to, b, BATCH_ROW_SEQ, n_rows, n_padded);
    CHECK_ARRAY(to, b, BATCH_PHASES, n_rows, n_padded);
    CHECK_ARRAY(to, b, BATCH_SEQS, n_rows, n_padded);
    CHECK_ARRAY(to, b, BATCH_SAMPLES, n_rows, n_padded);
    CHECK_ARRAY(to, b, BATCH_PAGES, b->n_pages, b->n_pages);
    CHECK_ARRAY(to, b, BATCH_SEEN, b->n_seen, b->n_seen);
    CHECK_ARRAY(to, b, BATCH_BIASES, b->n_biases, b->n_biases);
    CHECK_ARRAY(to, b, BATCH_MASKS, b->n_mask_words, b->n_mask_words);
    assert_int_equal(to->n_follows, n_rows);
    CHECK_ARRAY(to, b, BATCH_FOLLOWS, n_rows, n_padded);
    free(memory);
    free(b);
}

void test_padded_batch(void **state)
{
    (void)state;
    check_copy(3, 3);
    check_copy(5, 6);
    check_copy(7, 8);
    check_copy(8, 8);
    check_copy(13, 16);
    check_copy(65, 80);
}

/* ---- launches ---- */

static bool has_param(const struct launch_list *list, int launch, const void *address)
{
    const struct launch *l = &list->launches[launch];
    const uint32_t first = list->params[l->first_param];
    const int next = l->first_param + l->n_params;
    const uint32_t end = next < list->n_params ? list->params[next] : (uint32_t)list->n_bytes;

    for (uint32_t at = first; at + sizeof(address) <= end; at += (uint32_t)sizeof(address))
        if (memcmp(list->bytes + at, &address, sizeof(address)) == 0)
            return true;
    return false;
}

/* Lists of jobs, or of the rows of each expert, which have no padding. */
static bool reads_lists(const struct launch_list *list, int launch)
{
    for (int i = 0; i < list->n_touches; i++) {
        const struct touch *t = &list->touches[i];

        if (t->launch == launch && t->kind == TOUCH_READ && t->tensor == 0 &&
            (t->workspace == WORKSPACE_jobs || t->workspace == WORKSPACE_lists) &&
            strncmp(list->launches[launch].name, "combine", 7) != 0)
            return true;
    }
    return false;
}

/* Kernels of ranks whose numbers go through NCCL: a collective moves padding, too, and owners add
 * it. */
static bool takes_padding(const struct launch *l)
{
    return is_collective(l) || strcmp(l->name, "owned_sums_kernel") == 0;
}

/* The number of rows, the batch, or the phases of its rows. */
static void check_reads_rows(const struct symbolic *s, const struct program *p,
                             const struct launch_list *list, const struct step_counts *counts,
                             const struct situation *at)
{
    const struct batch_counts n = {
        .n_rows = counts->n_rows, .n_seqs = counts->n_seqs, .n_samples = counts->n_samples};
    struct batch *layout = batch_init(calloc(1, (size_t)batch_bytes(n)), n);
    const char *batch = (const char *)s->workspaces.at[WORKSPACE_batch].data +
                        noise_keys_bytes(SYMBOLIC_SAMPLES_MAX);

    (void)p;
    for (int i = 0; counts->is_padded && i < list->n; i++)
        if (!has_param(list, i, batch) && !has_param(list, i, batch + layout->offset_phases) &&
            !has_param(list, i, batch + offsetof(struct batch, n_rows)) && !reads_lists(list, i) &&
            !takes_padding(&list->launches[i]))
            fail_msg("%s: launch %d (%s) does not read the number of rows", situation_text(at), i,
                     list->launches[i].name);
    free(layout);
}

void test_padded_launches(void **state)
{
    (void)state;
    for_random_lists(check_reads_rows, 4);
}

/* ---- the tail ---- */

/* Before the rows of the tail are gathered, x of all rows gets the experts' sums: the sampled row
 * is the last one. Steps of two rows have no such sums, those of five and more neither. */
void test_sums_before_the_tail(void **state)
{
    (void)state;
    for (int n = 3; n <= 4; n++) {
        const struct situation at = {SM_90A, false, {.n_decode = n, .samples = SAMPLES_LAST}};
        struct symbolic *s = symbolic_new(&models[0]);
        struct step_counts counts;
        struct launch_list list;
        int n_found = 0;

        assert_int_equal(make_list(&list, &counts, s, &s->program, &at), OSP_OK);
        assert_true(counts.has_tail);
        for (int i = 0; i < list.n; i++)
            if (strcmp(list.launches[i].name, "add_sums_kernel") == 0 && n_found++ == 0)
                assert_int_equal(list.launches[i].grid[1], n);
        assert_true(n_found > 0);
        launch_list_free(&list);
        symbolic_free(s);
    }
}
