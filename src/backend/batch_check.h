/* Asserts what batch.h promises about a batch; a failed assertion is a bug of osprey, never of
 * its input. */
#ifndef BACKEND_BATCH_CHECK_H
#define BACKEND_BATCH_CHECK_H

#include <stdbool.h>

#include "backend/args.h"

void batch_check(const struct batch *b, int n_rows_max, int n_samples_max);

/* Samples name no id >= n_ids, their masks cover all ids, and n_top is 0 unless the stage has
 * tensors for top_logprobs (has_top). */
void batch_check_ids(const struct batch *b, int64_t n_ids, bool has_top);

/* Every page number of the group is below n_pages. */
void batch_check_pages(const struct batch *b, enum page_group group, int64_t n_pages);

/* The page tables still hold the pages that the window of each sequence's first row reaches. */
void batch_check_window(const struct batch *b, const struct attn_args *a);

#endif
