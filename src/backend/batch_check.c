#include "backend/batch_check.h"

#include <assert.h>

#include "backend/tree_mask.h"

static void assert_rows(const struct batch *b, const struct batch_seq *s, int seq)
{
    const int32_t *positions = BATCH_POSITIONS(b) + s->first_row;
    const int32_t *row_seq = BATCH_ROW_SEQ(b) + s->first_row;

    for (int i = 0; i < s->n_rows; i++) {
        assert(row_seq[i] == seq);
        assert(positions[i] == positions[0] + i && positions[i] >= 0);
    }
}

/* Rows of a tree write different slots, from the tree's first position on. */
static void assert_tree(const struct batch *b, const struct batch_seq *s, int seq)
{
    const int first = tree_first(b, s->first_row);
    uint32_t owned = 0;

    assert(first >= 0 && s->n_rows <= TREE_SLOTS_MAX);
    for (int row = s->first_row; row < s->first_row + s->n_rows; row++) {
        const uint32_t own = 1u << tree_mask_own(tree_mask(b, row));

        assert(BATCH_ROW_SEQ(b)[row] == seq && BATCH_PHASES(b)[row] == PHASE_DECODE);
        assert(tree_mask(b, row) != 0 && tree_first(b, row) == first);
        assert((owned & own) == 0);
        owned |= own;
    }
}

/* Whether some row's mask is not 1. */
static bool has_tree(const struct batch *b, const struct batch_seq *s)
{
    for (int row = s->first_row; row < s->first_row + s->n_rows; row++)
        if (tree_mask(b, row) != 1)
            return true;
    return false;
}

static void assert_pages(const struct batch *b, const struct batch_seq *s)
{
    int first = INT32_MAX, last = 0; /* slots */

    for (int row = s->first_row; row < s->first_row + s->n_rows; row++) {
        const int slot = tree_slot(b, row), position = BATCH_POSITIONS(b)[row];

        first = position < first ? position : first;
        last = slot > last ? slot : last;
    }

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        assert(s->table[g] >= 0 && s->n_pages[g] >= 0 && s->first_page[g] >= 0);
        assert(s->table[g] + s->n_pages[g] <= b->n_pages);
        assert(first / PAGE_TOKENS >= s->first_page[g]);
        assert(last / PAGE_TOKENS < s->first_page[g] + s->n_pages[g]);
    }
}

/* Asserts that the ids of a list, `stride` words apart, rise strictly. */
static void assert_ids(const int32_t *ids, int stride, int n)
{
    for (int i = 0; i < n; i++)
        assert(ids[(int64_t)i * stride] >= 0 &&
               (i == 0 || ids[(int64_t)i * stride] > ids[(int64_t)(i - 1) * stride]));
}

static void assert_sample(const struct batch *b, const struct batch_sample *s)
{
    assert(s->row >= 0 && s->row < b->n_rows);
    assert(s->n_top >= 0 && s->n_top <= TOP_LOGPROBS_MAX);
    assert(s->n_seen >= 0 && s->first_seen >= 0 && s->first_seen + s->n_seen <= b->n_seen);
    assert(s->n_biases >= 0 && s->first_bias >= 0 && s->first_bias + s->n_biases <= b->n_biases);
    assert(s->n_mask_words >= 0 && s->first_mask_word >= 0);
    assert(s->first_mask_word + s->n_mask_words <= b->n_mask_words);
    assert_ids(&BATCH_SEEN(b)[s->first_seen].id, sizeof(struct batch_seen) / sizeof(int32_t),
               s->n_seen);
    assert_ids(&BATCH_BIASES(b)[s->first_bias].id, sizeof(struct batch_bias) / sizeof(int32_t),
               s->n_biases);
}

/* Lowered by any number of rejected drafts, rows and positions stay those of the sequence. */
static void assert_follow(const struct batch *b, int i)
{
    const struct batch_follow *f = &BATCH_FOLLOWS(b)[i];
    const struct batch_seq *s = &BATCH_SEQS(b)[i];

    assert(f->n_drafts >= 0 && f->n_drafts <= BATCH_DRAFTS_MAX && f->first_sample >= 0);
    assert(f->lowers_row || BATCH_POSITIONS(b)[s->first_row] >= f->n_drafts);
    assert(!f->lowers_row || s->n_rows == f->n_drafts + 1);
    assert(f->sample >= -1 && f->sample < b->n_samples);
    assert(f->sample < 0 || BATCH_SAMPLES(b)[f->sample].row == s->first_row + s->n_rows - 1);
}

void batch_check(const struct batch *b, int n_rows_max, int n_samples_max)
{
    const struct batch_seq *seqs = BATCH_SEQS(b);
    int next_row = 0;

    assert(b->n_rows > 0 && b->n_rows <= n_rows_max);
    assert(b->n_samples >= 0 && b->n_samples <= n_samples_max);
    assert(b->n_tree_masks == 0 || b->n_tree_masks == b->n_rows);
    assert(b->n_candidates >= 0 && b->n_candidates <= DRAFT_CANDIDATES_MAX);
    for (int i = 0; i < b->n_seqs; i++) {
        assert(seqs[i].first_row == next_row && seqs[i].n_rows > 0);
        next_row += seqs[i].n_rows;
        assert(next_row <= b->n_rows);
        (has_tree(b, &seqs[i]) ? assert_tree : assert_rows)(b, &seqs[i], i);
        assert_pages(b, &seqs[i]);
    }
    assert(next_row == b->n_rows);
    for (int i = 0; i < b->n_samples; i++)
        assert_sample(b, &BATCH_SAMPLES(b)[i]);
    assert(b->n_follows == 0 || b->n_follows == b->n_seqs);
    assert(b->n_follows == 0 || (b->n_tree_masks == 0 && b->n_candidates == 0));
    for (int i = 0; i < b->n_follows; i++)
        assert_follow(b, i);
}

void batch_check_ids(const struct batch *b, int64_t n_ids, bool has_top)
{
    for (int i = 0; i < b->n_samples; i++) {
        const struct batch_sample *s = &BATCH_SAMPLES(b)[i];

        assert(s->n_top == 0 || has_top);
        assert(s->n_mask_words == 0 || (int64_t)s->n_mask_words * MASK_WORD_IDS >= n_ids);
        assert(s->n_seen == 0 || BATCH_SEEN(b)[s->first_seen + s->n_seen - 1].id < n_ids);
        assert(s->n_biases == 0 || BATCH_BIASES(b)[s->first_bias + s->n_biases - 1].id < n_ids);
    }
}

void batch_check_pages(const struct batch *b, enum page_group group, int64_t n_pages)
{
    for (int i = 0; i < b->n_seqs; i++) {
        const struct batch_seq *s = &BATCH_SEQS(b)[i];
        const int32_t *table = BATCH_PAGES(b) + s->table[group];

        for (int k = 0; k < s->n_pages[group]; k++)
            assert(table[k] >= 0 && table[k] < n_pages);
    }
}

void batch_check_window(const struct batch *b, const struct attn_args *a)
{
    for (int i = 0; i < b->n_seqs; i++) {
        const struct batch_seq *s = &BATCH_SEQS(b)[i];
        const int position = BATCH_POSITIONS(b)[s->first_row];
        const int first = a->window_tokens > 0 && position >= a->window_tokens
                              ? position - a->window_tokens + 1
                              : 0;

        assert(first / PAGE_TOKENS >= s->first_page[a->group]);
    }
}
