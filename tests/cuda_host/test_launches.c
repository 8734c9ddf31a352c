/* Launch lists, made on a host without a GPU: those of some situations against the golden files,
 * those of thousands of situations against the rules of program/hazards.h.
 *
 *   test_launches --write    writes the golden files (make golden-launches) */

#include "unit.h"

#include "cuda/program/hazards.h"
#include "cuda/program/print_list.h"
#include "cuda_host/situations.h"

/* ---- golden lists ---- */

#define MODEL_120B                                                                                 \
    {                                                                                              \
        .dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2                                      \
    }

#define MODEL_RANKS                                                                                \
    {                                                                                              \
        .dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2, .n_ranks = 2                        \
    }

#define MODEL_NCCL                                                                                 \
    {                                                                                              \
        .dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2, .n_ranks = 4, .is_gathered = true   \
    }

#define MODEL_DRAFT                                                                                \
    {                                                                                              \
        .has_draft = true, .dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2                   \
    }

/* As first_op: all of the draft head's first pass, or of that behind a step. */
enum { DRAFT_PROGRAM = -1, BEHIND_PROGRAM = -2 };
enum { STATIC_BYTES = 128 }; /* shared memory of kernels that is not dynamic, at most */

struct golden {
    const char *name, *title;
    struct symbolic_spec model;
    struct situation at;
    int first_op, n_ops; /* of the program; n_ops 0: all */
};

static const struct golden goldens[] = {
    {"decode-1", "1 decode row", MODEL_120B, {SM_90A, false, {.n_decode = 1}}, 0, 0},
    {"decode-2", "2 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 2}}, 0, 0},
    {"decode-4", "4 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 4}}, 0, 0},
    {"drafts-4",
     "4 decode rows of a sequence at position 2048",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 4, .n_each = 4, .n_context = 2048}},
     0,
     0},
    {"drafts-8",
     "8 decode rows of a sequence at position 2048",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 8, .n_each = 8, .n_context = 2048}},
     0,
     0},
    {"tree-8",
     "8 decode rows of a sequence at position 2048, a tree of drafts",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 8, .n_each = 8, .n_context = 2048, .has_trees = true}},
     0,
     0},
    {"decode-5", "5 decode rows, padded to 6", MODEL_120B, {SM_90A, false, {.n_decode = 5}}, 0, 0},
    {"decode-64", "64 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 64}}, 0, 0},
    {"decode-65",
     "65 decode rows, padded to 80",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 65}},
     0,
     0},
    {"decode-256", "256 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 256}}, 0, 0},
    {"decode-1024", "1024 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 1024}}, 0, 0},
    {"decode-64-one-long",
     "64 decode rows at position 1000, but the first at 20000",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 64, .n_context = 1000, .n_context_first = 20000}},
     0,
     0},
    {"decode-1-long",
     "1 decode row at position 5000",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 1, .n_context = 5000}},
     0,
     0},
    {"prefill-2048",
     "2048 prefill rows, the last one sampled",
     MODEL_120B,
     {SM_90A, false, {.n_prefill = 2048}},
     0,
     0},
    {"prefill-2048-unsampled",
     "2048 prefill rows, no row sampled",
     MODEL_120B,
     {SM_90A, false, {.n_prefill = 2048, .samples = SAMPLES_NO}},
     0,
     0},
    {"mixed-64-512",
     "64 decode rows and 512 prefill rows",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 64, .n_prefill = 512}},
     0,
     0},
    {"mixed-256-1792",
     "256 decode rows and 1792 prefill rows",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 256, .n_prefill = 1792}},
     0,
     0},
    {"bf16-1",
     "BF16 dense layers, 1 decode row",
     {.dense = DTYPE_BF16, .kv = DTYPE_BF16, .n_layers = 2},
     {SM_90A, false, {.n_decode = 1}},
     0,
     0},
    {"bf16-64",
     "BF16 dense layers, 64 decode rows",
     {.dense = DTYPE_BF16, .kv = DTYPE_BF16, .n_layers = 2},
     {SM_90A, false, {.n_decode = 64}},
     0,
     0},
    {"kv-fp8-1",
     "FP8 KV cache, 1 decode row",
     {.dense = DTYPE_MXFP4, .kv = DTYPE_F8, .n_layers = 2},
     {SM_90A, false, {.n_decode = 1}},
     0,
     0},
    {"kv-fp8-256",
     "FP8 KV cache, 256 decode rows at position 1000",
     {.dense = DTYPE_MXFP4, .kv = DTYPE_F8, .n_layers = 2},
     {SM_90A, false, {.n_decode = 256, .n_context = 1000}},
     0,
     0},
    {"sm121-1", "1 decode row on a DGX Spark", MODEL_120B, {SM_121A, false, {.n_decode = 1}}, 0, 0},
    {"sm121-64",
     "64 decode rows on a DGX Spark",
     MODEL_120B,
     {SM_121A, false, {.n_decode = 64}},
     0,
     0},
    {"sm121-prefill-native",
     "2048 prefill rows as MXFP8 on a DGX Spark",
     MODEL_120B,
     {SM_121A, true, {.n_prefill = 2048}},
     0,
     0},
    {"sm80-1", "1 decode row on an A100", MODEL_120B, {SM_80, false, {.n_decode = 1}}, 0, 0},
    {"attn-out-1",
     "attn_out alone, its output tapped, 1 decode row",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 1}},
     3,
     1},
    {"special-1",
     "1 decode row with top_logprobs",
     MODEL_120B,
     {SM_90A, false, {.n_decode = 1, .has_special = true}},
     0,
     0},
    {"tapped-1",
     "1 decode row, with a draft head",
     MODEL_DRAFT,
     {SM_90A, false, {.n_decode = 1}},
     0,
     0},
    {"ranks-1", "1 decode row, rank 0 of 2", MODEL_RANKS, {SM_90A, false, {.n_decode = 1}}, 0, 0},
    {"ranks-4", "4 decode rows, rank 0 of 2", MODEL_RANKS, {SM_90A, false, {.n_decode = 4}}, 0, 0},
    {"ranks-64",
     "64 decode rows, rank 0 of 2",
     MODEL_RANKS,
     {SM_90A, false, {.n_decode = 64}},
     0,
     0},
    {"ranks-prefill-2048",
     "2048 prefill rows, the last one sampled, rank 0 of 2",
     MODEL_RANKS,
     {SM_90A, false, {.n_prefill = 2048}},
     0,
     0},
    {"nccl-1",
     "1 decode row, rank 0 of 4 with NCCL",
     MODEL_NCCL,
     {SM_90A, false, {.n_decode = 1}},
     0,
     0},
    {"nccl-prefill-2048",
     "2048 prefill rows, the last one sampled, rank 0 of 4 with NCCL",
     MODEL_NCCL,
     {SM_90A, false, {.n_prefill = 2048}},
     0,
     0},
    {"draft-1",
     "the draft head, 1 decode row",
     MODEL_DRAFT,
     {SM_90A, false, {.n_decode = 1}},
     DRAFT_PROGRAM,
     0},
    {"draft-8",
     "the draft head, 8 decode rows",
     MODEL_DRAFT,
     {SM_90A, false, {.n_decode = 8}},
     DRAFT_PROGRAM,
     0},
    {"draft-tree-4",
     "the draft head, a level of a tree of 4 rows",
     MODEL_DRAFT,
     {SM_90A, false, {.n_decode = 4, .n_each = 4, .has_trees = true, .has_candidates = true}},
     DRAFT_PROGRAM,
     0},
    {"draft-behind-4",
     "the draft head behind a step, 4 decode rows",
     MODEL_DRAFT,
     {SM_90A, false, {.n_decode = 4}},
     BEHIND_PROGRAM,
     0},
};
enum { N_GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

static void print_golden(FILE *out, const struct golden *g)
{
    struct symbolic *s = symbolic_new(&g->model);
    struct program part = {0};
    const struct program *p = g->first_op == DRAFT_PROGRAM    ? &s->model.draft.passes[DRAFT_FIRST]
                              : g->first_op == BEHIND_PROGRAM ? &s->model.draft.passes[DRAFT_BEHIND]
                                                              : &s->program;
    struct launch_list list;
    struct step_counts counts;

    if (g->n_ops > 0) {
        assert_int_equal(program_range(&part, p, g->first_op, g->n_ops), OSP_OK);
        p = &part;
    }
    if (make_list(&list, &counts, s, p, &g->at) != OSP_OK)
        fail_msg("%s: %s", g->name, fail_message());
    (void)fprintf(out, "# %s; %s, gpt-oss-120b with 2 layers (window, full)\n", g->title,
                  gpu_names[g->at.gpu]);
    launch_list_print(out, &list, p);
    launch_list_free(&list);
    program_free(&part);
    symbolic_free(s);
}

static void path_of(char out[256], const struct golden *g)
{
    (void)snprintf(out, 256, GOLDEN "%s.txt", g->name);
}

static void write_goldens(void)
{
    char path[256];

    for (int i = 0; i < N_GOLDENS; i++) {
        path_of(path, &goldens[i]);
        FILE *out = fopen(path, "w");

        if (out == NULL)
            fail_msg("%s cannot be written", path);
        print_golden(out, &goldens[i]);
        assert_int_equal(fclose(out), 0);
    }
    printf("%d lists in " GOLDEN "\n", N_GOLDENS);
}

static char *read_text(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(text);
    if (in == NULL)
        fail_msg("%s is missing; make golden-launches writes it", path);
    assert_true(fread(text, 1, (1 << 20) - 1, in) < (1 << 20) - 1);
    (void)fclose(in);
    return text;
}

static void test_goldens(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDENS; i++) {
        char path[256], *wanted, *found = NULL;
        size_t n;
        FILE *out = open_memstream(&found, &n);

        assert_non_null(out);
        print_golden(out, &goldens[i]);
        assert_int_equal(fclose(out), 0);
        path_of(path, &goldens[i]);
        wanted = read_text(path);
        if (strcmp(found, wanted) != 0)
            fail_msg("%s differs from the list that fuse() makes now (make golden-launches writes "
                     "it):\n%s",
                     path, found);
        free(wanted);
        free(found);
    }
}

/* ---- hazards ---- */

static void check_shared_memory(const struct launch_list *list, const struct situation *at)
{
    for (int i = 0; i < list->n; i++)
        if (list->launches[i].shared_bytes > (uint32_t)list->gpu->shared_per_block)
            fail_msg("%s: %s has %u bytes of shared memory, the GPU %d for a block",
                     situation_text(at), list->launches[i].name, list->launches[i].shared_bytes,
                     list->gpu->shared_per_block);
}

/* Launches of attn_layer_kernel alternate between two sets of buffers, and a step begins with the
 * first set; and a block of it and one of the experts' kernel share an SM. */
static void check_attn_layers(const struct launch_list *list, const struct situation *at)
{
    int n = 0, layer_bytes = 0, experts_bytes = 0;

    for (int i = 0; i < list->n; i++) {
        const struct launch *l = &list->launches[i];

        if (strcmp(l->name, "attn_layer_kernel") == 0) {
            n++;
            layer_bytes = (int)l->shared_bytes;
            assert_int_equal(l->grid[0], list->gpu->n_sms);
        }
        if (strcmp(l->name, "experts_row_kernel") == 0)
            experts_bytes = (int)l->shared_bytes;
    }
    if (n % 2 != 0)
        fail_msg("%s: %d launches of attn_layer_kernel", situation_text(at), n);
    if (n > 0)
        assert_true(layer_bytes + experts_bytes + 2 * (STATIC_BYTES + list->gpu->shared_reserved) <=
                    list->gpu->shared_per_sm);
}

static void check_hazards(const struct symbolic *s, const struct program *p,
                          const struct launch_list *list, const struct step_counts *counts,
                          const struct situation *at)
{
    (void)s;
    check_shared_memory(list, at);
    check_attn_layers(list, at);
    if (launch_list_check(list, p, counts) != OSP_OK) {
        launch_list_print(stderr, list, p);
        fail_msg("%s: %s", situation_text(at), fail_message());
    }
}

static void test_random_lists(void **state)
{
    (void)state;
    for_random_lists(check_hazards, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_padded_counts),
        cmocka_unit_test(test_not_padded),
        cmocka_unit_test(test_graphs_under_churn),
        cmocka_unit_test(test_padded_batch),
        cmocka_unit_test(test_padded_launches),
        cmocka_unit_test(test_sums_before_the_tail),
        cmocka_unit_test(test_finds_a_removed_launch),
        cmocka_unit_test(test_finds_swapped_launches),
        cmocka_unit_test(test_finds_an_early_read),
        cmocka_unit_test(test_finds_a_norm_that_nobody_does),
        cmocka_unit_test(test_finds_a_tapped_output_that_is_missing),
        cmocka_unit_test(test_finds_a_stale_workspace),
    };

    if (argc > 1 && strcmp(argv[1], "--write") == 0) {
        write_goldens();
        return 0;
    }
    return unit_main(tests, sizeof(tests) / sizeof(tests[0]), argc > 1 ? argv[1] : NULL);
}
