#include "engine/scorer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { ROWS_MAX = 64 }; /* of a step: logits of gpt-oss take 0.8 MB a row */

static int rows_max_of(const struct memory_plan *p)
{
    int n = p->n_seqs_max < p->n_batch_tokens_max ? p->n_seqs_max : p->n_batch_tokens_max;

    return n < ROWS_MAX ? n : ROWS_MAX;
}

static struct batch_counts counts_of(const struct scorer *s, int n_rows)
{
    struct batch_counts c = {.n_rows = n_rows, .n_seqs = 1, .n_samples = n_rows};

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        c.n_pages += s->lists[g].n;
    return c;
}

static enum osp_status open_pages(struct scorer *s)
{
    struct batch_counts most = {.n_rows = s->n_rows_max, .n_seqs = 1, .n_samples = s->n_rows_max};
    enum osp_status st = OSP_OK;

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        int n = s->model->plan.n_pages[g];

        TRY(pages_init(&s->pages[g], n));
        TRY(page_list_init(&s->lists[g], n));
        most.n_pages += n;
    }
    TRY(mem_try_aligned(&s->batch_memory, (size_t)batch_bytes(most), 1, "batch"));
out:
    return st;
}

enum osp_status scorer_open(struct scorer *s, struct osp_model *model, bool decode)
{
    enum osp_status st;

    memset(s, 0, sizeof *s);
    if (model->is_in_worker)
        return fail(OSP_EUNSUPPORTED, "%s is in a worker process: it cannot be scored",
                    model->name);
    if (atomic_exchange(&model->claimed, true))
        return fail(OSP_EINVAL, "%s has an engine: it cannot be scored meanwhile", model->name);
    s->model = model;
    s->decode = decode;
    s->n_rows_max = rows_max_of(&model->plan);
    s->vocab_size = model_config(model->model)->vocab_size;
    TRY(open_pages(s));
    TRY(mem_try_array(&s->logits, (size_t)s->n_rows_max * (size_t)s->vocab_size, sizeof *s->logits,
                      "logits"));
out:
    if (st != OSP_OK)
        scorer_close(s);
    return st;
}

void scorer_close(struct scorer *s)
{
    if (s->model == NULL)
        return;
    scorer_begin(s);
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        page_list_release(&s->lists[g]);
        pages_release(&s->pages[g]);
    }
    free(s->batch_memory);
    free(s->logits);
    atomic_store(&s->model->claimed, false);
    memset(s, 0, sizeof *s);
}

void scorer_begin(struct scorer *s)
{
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_clear(&s->lists[g], &s->pages[g]);
    s->n_done = 0;
}

/* ---- a step ---- */

static void *writable(struct batch *b, int32_t offset)
{
    return (char *)b + offset;
}

static void fill_rows(const struct scorer *s, struct batch *b, const int32_t *ids)
{
    int32_t *tokens = writable(b, b->offset_tokens);
    int32_t *positions = writable(b, b->offset_positions);
    int32_t *kinds = writable(b, b->offset_phases);
    struct batch_sample *samples = writable(b, b->offset_samples);

    for (int i = 0; i < b->n_rows; i++) {
        tokens[i] = ids[i];
        positions[i] = s->n_done + i;
        kinds[i] = s->decode ? PHASE_DECODE : PHASE_PREFILL;
        samples[i] = (struct batch_sample){.row = i, .top_p = 1};
    }
}

static void fill_seq(const struct scorer *s, struct batch *b)
{
    struct batch_seq *seq = writable(b, b->offset_seqs);
    int n_pages = 0;

    seq->n_rows = b->n_rows;
    page_lists_write(s->lists, seq, writable(b, b->offset_pages), &n_pages);
}

static enum osp_status check_push(const struct scorer *s, const int32_t *ids, int n)
{
    if (n < 1 || n > s->n_rows_max)
        return fail(OSP_EINVAL, "%d rows of a step, must be 1 to %d", n, s->n_rows_max);
    if (n > s->model->plan.context_tokens_max - s->n_done)
        return fail(OSP_ELIMIT, "a text of more than %d tokens, limit is %d", s->n_done + n - 1,
                    s->model->plan.context_tokens_max);
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->vocab_size)
            return fail(OSP_EINVAL, "token %d of the text is %d, must be in 0 to %d", s->n_done + i,
                        (int)ids[i], s->vocab_size - 1);
    return OSP_OK;
}

enum osp_status scorer_push(struct scorer *s, const int32_t *ids, int n)
{
    struct model *m = s->model->model;
    struct batch *b;
    uint64_t ticket;
    enum osp_status st;

    TRY(check_push(s, ids, n));
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        page_list_grow(&s->lists[g], &s->pages[g], s->n_done + n - 1);
    b = batch_init(s->batch_memory, counts_of(s, n));
    fill_rows(s, b, ids);
    fill_seq(s, b);
    TRY(model_step(m, b, &ticket));
    TRY(model_wait(m, ticket));
    TRY(model_logits(m, n, s->logits));
    s->n_done += n;
    page_list_slide(&s->lists[GROUP_WINDOW], &s->pages[GROUP_WINDOW],
                    s->n_done - model_config(m)->window_tokens + 1);
out:
    return st;
}
