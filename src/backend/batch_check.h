/* Assertions of what batch.h promises about a batch; a breach is a bug of osprey, never of its
 * input. */
#ifndef BACKEND_BATCH_CHECK_H
#define BACKEND_BATCH_CHECK_H

#include <stdbool.h>

#include "backend/args.h"

void batch_check(const struct batch *b, int n_rows_max, int n_samples_max);

/* Samples name no id of n_ids or above, their masks cover all, and likeliest tokens are asked
 * for only where there is room for them. */
void batch_check_ids(const struct batch *b, int64_t n_ids, bool has_top);

/* Every page of the group lies in a cache of so many. */
void batch_check_pages(const struct batch *b, enum page_group group, int64_t n_pages);

/* The pages that the window of the first row of each sequence reaches are still there. */
void batch_check_window(const struct batch *b, const struct attn_args *a);

#endif
