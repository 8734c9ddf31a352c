/* What a draft head computes, as a filter, for comparison with its formulas (tests/tools): 32-bit
 * token ids on standard input are one sequence of the bundled model.
 *
 *   print_draft HEAD GUESSES [DEVICE]     a folder with an Eagle3 head; guesses in a row behind
 *                                         the last one; device cpu is the default
 *
 * Standard output has the states that the head reads, (n, S * C) float32; the logits behind each
 * position but the last, (n - 1, Vd); those of the guesses that follow, (GUESSES - 1, Vd); and the
 * guesses, (GUESSES) int32 ids of the target. */
#include "steps.h"

#include "engine/bundled.h"

enum { TOKENS_MAX = 512, GUESSES_MAX = 8 };

struct rows {
    const int32_t *tokens; /* (n) */
    int first, n;          /* positions [first, first + n), each sampled */
};

static struct batch *batch_of(const struct rows *r, int n_pages)
{
    const struct batch_counts counts = {
        .n_rows = r->n, .n_seqs = 1, .n_samples = r->n, .n_pages = n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    struct batch_seq *seq = (struct batch_seq *)((char *)b + b->offset_seqs);

    seq->n_rows = r->n;
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        seq->n_pages[g] = n_pages;
    for (int i = 0; i < n_pages; i++)
        ((int32_t *)((char *)b + b->offset_pages))[i] = n_pages - 1 - i;
    for (int i = 0; i < r->n; i++) {
        ((int32_t *)((char *)b + b->offset_tokens))[i] = r->tokens[i];
        ((int32_t *)((char *)b + b->offset_positions))[i] = r->first + i;
        ((int32_t *)((char *)b + b->offset_phases))[i] = r->n == 1 ? PHASE_DECODE : PHASE_PREFILL;
        ((struct batch_sample *)((char *)b + b->offset_samples))[i] =
            (struct batch_sample){.row = i, .top_p = 1};
    }
    return b;
}

static void put(const void *data, size_t n)
{
    if (fwrite(data, 4, n, stdout) != n)
        exit(2);
}

static void put_taps(struct model *m, int n)
{
    const struct tensor *t = &m->draft.act.step_taps;
    const size_t n_floats = (size_t)n * (size_t)t->dim[1];
    float *taps = mem_new(n_floats * sizeof *taps);

    must(m->ops->read(m->be, taps, t->data, n_floats * sizeof *taps));
    put(taps, n_floats);
    free(taps);
}

static void put_logits(struct model *m, int n)
{
    const size_t n_floats = (size_t)n * (size_t)m->draft.act.logits.dim[1];
    float *logits = mem_new(n_floats * sizeof *logits);

    must(model_draft_logits(m, n, logits));
    put(logits, n_floats);
    free(logits);
}

static struct model *open_with(const char *head, const char *device, int n)
{
    struct model_source source;
    struct draft_files draft;
    struct model_options opt = {
        .source = &source,
        .draft = &draft,
        .device = device,
        .n_threads = 2,
        .n_rows_max = n,
        .n_samples_max = n,
        .n_draft_states_kept = 1,
        .n_pages = {steps_pages(n + GUESSES_MAX), steps_pages(n + GUESSES_MAX)},
        .kv_dtype = DTYPE_F32};
    struct model *m;
    char *path;

    must(bundled_model_path(&path));
    must(model_source_open(&source, path));
    must(draft_files_open(&draft, head, &source.checkpoint.config));
    must(model_open(&m, &opt));
    model_source_close(&source);
    draft_files_close(&draft);
    free(path);
    return m;
}

/* The guess behind row `row` of the last batch; its state becomes the only one. */
static int32_t take_guess(struct model *m, uint64_t ticket, int row)
{
    int32_t guesses[TOKENS_MAX];

    must(model_draft_tokens(m, ticket, row + 1, guesses));
    must(model_draft_move(m, row, 0));
    return guesses[row];
}

static void run(struct model *m, const int32_t *tokens, int n, int n_guesses)
{
    const int n_pages = steps_pages(n + GUESSES_MAX);
    struct batch *target = batch_of(&(struct rows){tokens, 0, n}, n_pages);
    struct batch *first = batch_of(&(struct rows){tokens + 1, 0, n - 1}, n_pages);
    int32_t guesses[GUESSES_MAX];
    uint64_t ticket;

    must(model_step_tapped(m, target, &ticket));
    must(model_wait(m, ticket));
    put_taps(m, n);
    must(model_draft_take_step(m, 0, n - 1, 0));
    must(model_draft_run(m, first, &ticket));
    guesses[0] = take_guess(m, ticket, n - 2);
    put_logits(m, n - 1);
    for (int i = 1; i < n_guesses; i++) {
        struct batch *again = batch_of(&(struct rows){&guesses[i - 1], n - 2 + i, 1}, n_pages);

        must(model_draft_again(m, again, &ticket));
        guesses[i] = take_guess(m, ticket, 0);
        put_logits(m, 1);
        free(again);
    }
    put(guesses, (size_t)n_guesses);
    free(target);
    free(first);
}

int main(int argc, char **argv)
{
    static int32_t tokens[TOKENS_MAX];
    const int n_guesses = argc >= 3 ? atoi(argv[2]) : 0;
    const int n = (int)fread(tokens, sizeof tokens[0], TOKENS_MAX, stdin);
    struct model *m;

    if (n_guesses < 1 || n_guesses > GUESSES_MAX || n < 2) {
        fprintf(stderr, "usage: print_draft HEAD GUESSES [DEVICE] <ids\n");
        return 2;
    }
    m = open_with(argv[1], argc > 3 ? argv[3] : "cpu", n);
    run(m, tokens, n, n_guesses);
    model_close(m);
    return fflush(stdout) != 0;
}
