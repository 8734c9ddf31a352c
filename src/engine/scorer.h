/* Runs one token list through a model and keeps every row's logits, for perplexity and comparisons
 * of models. Claims the model in place of an engine while it is open. */
#ifndef ENGINE_SCORER_H
#define ENGINE_SCORER_H

#include "engine/core/model_api.h"
#include "engine/sched/pages.h"

struct scorer {
    struct osp_model *model; /* borrowed and claimed */
    bool decode;             /* rows count as decode rows, not as prefill rows */
    int n_rows_max, vocab_size;
    struct pages pages[N_PAGE_GROUPS];
    struct page_list lists[N_PAGE_GROUPS];
    int n_done; /* stored positions */
    void *batch_memory;
    float *logits; /* (n_rows_max, V) of the last step */
};

CHECKED enum osp_status scorer_open(struct scorer *s, struct osp_model *model, bool decode);
void scorer_close(struct scorer *s); /* accepts a zeroed one */
/* Begins a new list: the next row is its position 0. */
void scorer_begin(struct scorer *s);
/* Appends n <= n_rows_max tokens; s->logits then has their rows. OSP_ELIMIT beyond the context. */
CHECKED enum osp_status scorer_push(struct scorer *s, const int32_t *ids, int n);

#endif
