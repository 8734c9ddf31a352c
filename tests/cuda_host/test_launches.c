/* Launch lists, made on a host without a GPU: those of some situations against the golden files,
 * those of thousands of situations against the rules of program/hazards.h.
 *
 *   test_launches --write    writes the golden files (make golden-launches) */
#define UNIT_LIMIT_S 120
#include "unit.h"

#include "cuda/program/hazards.h"
#include "cuda/program/print_list.h"
#include "cuda_host/gpu_file.h"
#include "cuda_host/symbolic.h"

#define GOLDEN "tests/golden/launches/"

enum { SM_80, SM_90A, SM_100A, SM_121A, N_GPUS };

static const struct {
    const char *name;
    enum arch arch;
} gpus[N_GPUS] = {
    {"sm_80", ARCH_AMPERE},
    {"sm_90a", ARCH_HOPPER},
    {"sm_100a", ARCH_BLACKWELL},
    {"sm_121a", ARCH_BLACKWELL_RTX},
};

static const struct gpu_file *gpu_of(int gpu)
{
    static struct gpu_file files[N_GPUS];
    char path[128];

    if (files[gpu].n == 0) {
        (void)snprintf(path, sizeof(path), GOLDEN "gpu-%s.txt", gpus[gpu].name);
        gpu_file_read(&files[gpu], path);
    }
    return &files[gpu];
}

/* ---- a list ---- */

struct situation {
    int gpu;
    bool is_native; /* --mxfp4-backend native: block-scaled products */
    struct step_spec step;
};

/* The list of the program for the step; the caller frees it. */
static enum osp_status make_list(struct launch_list *list, struct step_counts *counts,
                                 const struct symbolic *s, const struct program *p,
                                 const struct situation *at)
{
    const struct kernel_config config = {
        .mxfp4 = {.op_class = at->is_native ? OPCLASS_NATIVE : OPCLASS_AUTO}};
    struct batch *batch = symbolic_batch(&at->step);
    struct fuse_input in = {.program = p,
                            .gpu = &gpu_of(at->gpu)->gpu,
                            .arch = gpus[at->gpu].arch,
                            .config = &config,
                            .has_mxfp8 = at->is_native,
                            .n_rows_max = SYMBOLIC_ROWS_MAX,
                            .n_samples_max = SYMBOLIC_SAMPLES_MAX,
                            .workspaces = &s->workspaces,
                            .batch = batch,
                            .n_experts_read = s->n_experts_read};
    enum osp_status st;

    *list = (struct launch_list){0};
    launch_list_init(list, in.gpu);
    TRY(step_counts_of(&in.counts, batch));
    *counts = in.counts;
    TRY(fuse(list, &in));
out:
    free(batch);
    return st;
}

/* ---- golden lists ---- */

#define MODEL_120B                                                                                 \
    {                                                                                              \
        .dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2                                      \
    }

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
    {"decode-5", "5 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 5}}, 0, 0},
    {"decode-64", "64 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 64}}, 0, 0},
    {"decode-65", "65 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 65}}, 0, 0},
    {"decode-256", "256 decode rows", MODEL_120B, {SM_90A, false, {.n_decode = 256}}, 0, 0},
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
};
enum { N_GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

static void print_golden(FILE *out, const struct golden *g)
{
    struct symbolic *s = symbolic_new(&g->model);
    struct program part = {0};
    const struct program *p = &s->program;
    struct launch_list list;
    struct step_counts counts;

    if (g->n_ops > 0) {
        assert_int_equal(program_range(&part, p, g->first_op, g->n_ops), OSP_OK);
        p = &part;
    }
    if (make_list(&list, &counts, s, p, &g->at) != OSP_OK)
        fail_msg("%s: %s", g->name, fail_message());
    (void)fprintf(out, "# %s; %s, gpt-oss-120b with 2 layers (window, full)\n", g->title,
                  gpus[g->at.gpu].name);
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

static const struct symbolic_spec models[] = {
    {.dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 3},
    {.dense = DTYPE_BF16, .kv = DTYPE_BF16, .n_layers = 2},
    {.is_20b = true, .dense = DTYPE_MXFP4, .kv = DTYPE_F8, .n_layers = 2},
    {.is_20b = true, .dense = DTYPE_BF16, .kv = DTYPE_F32, .n_layers = 3},
    {.is_nano = true, .dense = DTYPE_BF16, .kv = DTYPE_F32, .n_layers = 2},
    {.has_float_router = true, .dense = DTYPE_MXFP4, .kv = DTYPE_F32, .n_layers = 2},
};
enum { N_MODELS = sizeof(models) / sizeof(models[0]), N_RANDOM = 700 /* lists of a model */ };

static uint32_t next_random(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*state >> 8) * n) >> 24);
}

static struct situation random_situation(uint32_t *state)
{
    static const int prefills[] = {0, 0, 0, 1, 20, 2048};
    struct situation at = {
        .gpu = (int)next_random(state, N_GPUS),
        .is_native = next_random(state, 4) == 0,
        .step = {.n_decode = (int)next_random(state, next_random(state, 2) ? 301 : 10),
                 .n_prefill = prefills[next_random(state, 6)],
                 .n_context = (int)next_random(state, next_random(state, 2) ? 20000 : 200),
                 .samples = (enum samples)next_random(state, 4),
                 .has_special = next_random(state, 4) == 0}};

    if (at.step.n_decode + at.step.n_prefill == 0)
        at.step.n_decode = 1;
    if (at.gpu != SM_121A)
        at.is_native = false;
    return at;
}

static const char *text_of(const struct situation *at)
{
    static char text[160];

    (void)snprintf(text, sizeof(text),
                   "%s native %d: %d decode, %d prefill, context %d, samples %d",
                   gpus[at->gpu].name, at->is_native, at->step.n_decode, at->step.n_prefill,
                   at->step.n_context, (int)at->step.samples);
    return text;
}

/* The model's program, or a range of its ops. */
static const struct program *random_part(struct program *part, const struct symbolic *s,
                                         uint32_t *state)
{
    const int first = (int)next_random(state, (uint32_t)s->program.n_ops);
    const int n = 1 + (int)next_random(state, next_random(state, 2) ? 1 : 8);

    *part = (struct program){0};
    if (next_random(state, 3) > 0)
        return &s->program;
    assert_int_equal(program_range(part, &s->program, first,
                                   first + n > s->program.n_ops ? s->program.n_ops - first : n),
                     OSP_OK);
    return part;
}

typedef void (*list_check)(const struct symbolic *s, const struct program *p,
                           const struct launch_list *list, const struct step_counts *counts,
                           const struct situation *at);

static void for_random_lists(list_check check, uint32_t seed)
{
    for (int m = 0; m < N_MODELS; m++) {
        struct symbolic *s = symbolic_new(&models[m]);

        for (int i = 0; i < N_RANDOM; i++) {
            const struct situation at = random_situation(&seed);
            struct launch_list list;
            struct step_counts counts;
            struct program part;
            const struct program *p = random_part(&part, s, &seed);

            if (make_list(&list, &counts, s, p, &at) != OSP_OK)
                fail_msg("model %d, %s: %s", m, text_of(&at), fail_message());
            check(s, p, &list, &counts, &at);
            launch_list_free(&list);
            program_free(&part);
        }
        symbolic_free(s);
    }
}

static void check_hazards(const struct symbolic *s, const struct program *p,
                          const struct launch_list *list, const struct step_counts *counts,
                          const struct situation *at)
{
    (void)s;
    if (launch_list_check(list, p, counts) != OSP_OK) {
        launch_list_print(stderr, list, p);
        fail_msg("%s: %s", text_of(at), fail_message());
    }
}

static void test_random_lists(void **state)
{
    (void)state;
    for_random_lists(check_hazards, 1);
}

/* ---- notes against the kernels' parameters ---- */

/* Whether a parameter of the launch has an address in the tensor, or in the workspace. */
static bool has_address(const struct symbolic *s, const struct program *p,
                        const struct launch_list *list, int launch, const struct touch *t)
{
    const struct launch *l = &list->launches[launch];
    const uint32_t first = list->params[l->first_param];
    const int next = l->first_param + l->n_params;
    const uint32_t end = next < list->n_params ? list->params[next] : (uint32_t)list->n_bytes;

    for (uint32_t at = first; at + 8 <= end; at += 8) {
        uint64_t address;
        int index;

        memcpy(&address, list->bytes + at, sizeof(address));
        switch (symbolic_find(s, p, address, &index)) {
        case ADDRESS_TENSOR:
            if (t->tensor == index)
                return true;
            break;
        case ADDRESS_WORKSPACE:
            if (t->tensor == 0 && t->workspace == index)
                return true;
            break;
        default:
            break;
        }
    }
    return false;
}

static void check_notes(const struct symbolic *s, const struct program *p,
                        const struct launch_list *list, const struct step_counts *counts,
                        const struct situation *at)
{
    (void)counts;
    for (int i = 0; i < list->n_touches; i++) {
        const struct touch *t = &list->touches[i];

        if (!has_address(s, p, list, t->launch, t)) {
            launch_list_print(stderr, list, p);
            fail_msg("%s: launch %d (%s) is noted to touch %s, and has no address of it",
                     text_of(at), t->launch, list->launches[t->launch].name,
                     t->tensor > 0 ? p->tensors[t->tensor - 1].name : workspace_name(t->workspace));
        }
    }
}

/* Tensors and workspaces whose addresses a kernel has and does not use: it takes the argument
 * struct of a whole stage, or of a group of kernels. */
static const struct {
    const char *kernel, *unused;
} carried[] = {
    {"attn_kernel<", " att "}, /* with partials, which merge_kernel merges */
    {"merge_kernel", " q kv "},
    {"rope_cache", " y wqkv[0] wqkv[1] wqkv[2] bqkv[0] bqkv[1] bqkv[2] "},
    {"decode_gemm_kernel<", " kv_rows "}, /* with the epilogue that stores keys and values */
    {"smem_resident_kernel<", " kv_rows "},
    {"mxfp8_matmul_kernel<", " y att q units "}, /* float32 rows, which it takes as MXFP8 */
    {"residual_rmsnorm", " h "},                 /* without the residual add */
    {"topk_kernel", " y wr br "},
    {"up_kernel<", " w_down b_down h ids gates router_logits "},
    {"down_kernel<", " w_up b_up x y h br norm router_logits "},
    {"expert_jobs_kernel", " w_up w_down b_up b_down h x y units parts gates rounded "},
    {"grouped_kernel<", " w_up w_down b_up b_down h x y ids gates parts router_logits rounded "},
    {"combine_partials", " w_up w_down b_up b_down h y ids units router_logits rounded "},
    {"combine", " w_up w_down b_up b_down y ids units "},
    {"survey<", " tokens logprobs top_tokens top_logprobs tops bins "},
    {"weigh<", " tokens logprobs top_tokens top_logprobs tops bins "},
    {"collect", " tokens logprobs top_tokens top_logprobs tops "},
    {"sample<", " top_tokens top_logprobs tops bins "},
};

static bool is_carried(const char *kernel, const char *name)
{
    char word[64];

    (void)snprintf(word, sizeof(word), " %s ", name);
    for (size_t i = 0; i < sizeof(carried) / sizeof(carried[0]); i++)
        if (strncmp(kernel, carried[i].kernel, strlen(carried[i].kernel)) == 0)
            return strstr(carried[i].unused, word) != NULL;
    return false;
}

static bool is_noted(const struct launch_list *list, const struct touch *t)
{
    for (int i = 0; i < list->n_touches; i++)
        if (list->touches[i].launch == t->launch && list->touches[i].tensor == t->tensor &&
            (t->tensor > 0 || list->touches[i].workspace == t->workspace))
            return true;
    return false;
}

/* Every address of a tensor or workspace but for the batch, which no launch of a step writes first,
 * is noted. */
static void check_addresses(const struct symbolic *s, const struct program *p,
                            const struct launch_list *list, const struct step_counts *counts,
                            const struct situation *at)
{
    (void)counts;
    for (int launch = 0; launch < list->n; launch++)
        for (int i = 1 - N_WORKSPACES; i <= p->n_tensors; i++) {
            const struct touch t = {
                .launch = launch, .tensor = i > 0 ? i : 0, .workspace = i > 0 ? 0 : -i};
            const char *name = i > 0 ? p->tensors[i - 1].name : workspace_name(-i);

            if ((i > 0 || -i != WORKSPACE_batch) && has_address(s, p, list, launch, &t) &&
                !is_noted(list, &t) && !is_carried(list->launches[launch].name, name))
                fail_msg("%s: launch %d (%s) has an address of %s, and no note of it", text_of(at),
                         launch, list->launches[launch].name, name);
        }
}

static void test_addresses(void **state)
{
    (void)state;
    for_random_lists(check_addresses, 3);
}

static void test_notes(void **state)
{
    (void)state;
    for_random_lists(check_notes, 2);
}

/* ---- planted bugs: the rules must find each ---- */

struct planted {
    struct symbolic *s;
    struct launch_list list;
    struct step_counts counts;
};

static void plant(struct planted *out, int n_decode, int n_prefill)
{
    const struct situation at = {SM_90A, false, {.n_decode = n_decode, .n_prefill = n_prefill}};

    out->s = symbolic_new(&models[0]);
    assert_int_equal(make_list(&out->list, &out->counts, out->s, &out->s->program, &at), OSP_OK);
    assert_int_equal(launch_list_check(&out->list, &out->s->program, &out->counts), OSP_OK);
}

static void unplant(struct planted *p)
{
    launch_list_free(&p->list);
    symbolic_free(p->s);
}

/* `what` is wrong with the list: the check must say so with this text. */
static void must_fail(const struct planted *p, const char *what, const char *text)
{
    if (launch_list_check(&p->list, &p->s->program, &p->counts) == OSP_OK)
        fail_msg("not found: %s", what);
    if (strstr(fail_message(), text) == NULL)
        fail_msg("%s: the message is \"%s\", without \"%s\"", what, fail_message(), text);
}

/* Takes the launch out, with what it touches. */
static void remove_launch(struct launch_list *list, int launch)
{
    int n = 0;

    for (int i = 0; i < list->n_touches; i++) {
        struct touch t = list->touches[i];

        if (t.launch == launch)
            continue;
        t.launch -= t.launch > launch;
        list->touches[n++] = t;
    }
    list->n_touches = n;
    memmove(&list->launches[launch], &list->launches[launch + 1],
            (size_t)(--list->n - launch) * sizeof(list->launches[0]));
}

static void swap_launches(struct launch_list *list, int launch)
{
    const struct launch first = list->launches[launch];

    list->launches[launch] = list->launches[launch + 1];
    list->launches[launch + 1] = first;
    for (int i = 0; i < list->n_touches; i++) {
        struct touch *t = &list->touches[i];

        if (t->launch == launch || t->launch == launch + 1)
            t->launch = 2 * launch + 1 - t->launch;
    }
}

/* It adds to the chunks that survey has made, so that notes do not tell whether it has run. */
static bool is_weigh(const struct launch_list *list, int launch)
{
    return strncmp(list->launches[launch].name, "weigh<", 6) == 0;
}

static const int planted_rows[] = {1, 5, 64, 65, 256};
enum { N_PLANTED = sizeof(planted_rows) / sizeof(planted_rows[0]) };

static void test_finds_a_removed_launch(void **state)
{
    char what[200];

    (void)state;
    for (int r = 0; r < N_PLANTED; r++)
        for (int launch = 0;; launch++) {
            struct planted p;

            plant(&p, planted_rows[r], 0);
            if (launch == p.list.n) {
                unplant(&p);
                break;
            }
            (void)snprintf(what, sizeof(what), "%d rows without launch %d, %s", planted_rows[r],
                           launch, p.list.launches[launch].name);
            if (!is_weigh(&p.list, launch)) {
                remove_launch(&p.list, launch);
                must_fail(&p, what, "");
            }
            unplant(&p);
        }
}

/* Whether the launch and the next one touch something that one of them writes. */
static bool are_ordered(const struct launch_list *list, int launch)
{
    for (int i = 0; i < list->n_touches; i++)
        for (int k = 0; k < list->n_touches; k++) {
            const struct touch *a = &list->touches[i], *b = &list->touches[k];

            if (a->launch == launch && b->launch == launch + 1 && a->tensor == b->tensor &&
                (a->tensor > 0 || a->workspace == b->workspace) && a->kind == TOUCH_WRITE &&
                b->kind == TOUCH_READ)
                return true;
        }
    return false;
}

static void test_finds_swapped_launches(void **state)
{
    char what[300];
    int n = 0;

    (void)state;
    for (int r = 0; r < N_PLANTED; r++) {
        struct planted p;

        plant(&p, planted_rows[r], 0);
        for (int launch = 0; launch + 1 < p.list.n; launch++) {
            if (!are_ordered(&p.list, launch) || is_weigh(&p.list, launch))
                continue;
            swap_launches(&p.list, launch);
            (void)snprintf(what, sizeof(what), "%d rows, %s before %s", planted_rows[r],
                           p.list.launches[launch].name, p.list.launches[launch + 1].name);
            must_fail(&p, what, "launch ");
            swap_launches(&p.list, launch);
            n++;
        }
        unplant(&p);
    }
    assert_true(n > 80);
}

static void test_finds_an_early_read(void **state)
{
    (void)state;
    for (int r = 0; r < N_PLANTED; r++) {
        struct planted p;

        plant(&p, planted_rows[r], 0);
        for (int i = 0; i < p.list.n_touches; i++) {
            struct touch *t = &p.list.touches[i];

            if (t->kind != TOUCH_READ || t->workspace == WORKSPACE_merge_bufs)
                continue;
            t->kind = TOUCH_EARLY;
            must_fail(&p, "a read before the wait", "before griddepcontrol.wait, and launch");
            t->kind = TOUCH_READ;
        }
        unplant(&p);
    }
}

/* A norm that was left to the next kernel, which does not do it: nobody writes y. */
static void test_finds_a_norm_that_nobody_does(void **state)
{
    struct planted p;
    int n = 0;

    (void)state;
    plant(&p, 1, 0);
    for (int i = 0; i < p.list.n_touches; i++) {
        struct touch *t = &p.list.touches[i];
        const bool is_qkv = strncmp(p.list.launches[t->launch].name, "qkv_kernel", 10) == 0;

        if (!is_qkv || t->kind != TOUCH_WRITE || t->tensor == 0 ||
            p.s->program.ops[t->op].stage != STAGE_residual_rmsnorm)
            continue;
        /* the kernel takes y as if it were there */
        t->kind = TOUCH_READ;
        t->op = p.list.launches[t->launch].op;
        must_fail(&p, "a norm that no launch does",
                  "the program's order asks for the version of op 7 (residual_rmsnorm of layer 0)");
        n++;
        break;
    }
    assert_int_equal(n, 1);
    unplant(&p);
}

static void test_finds_a_tapped_output_that_is_missing(void **state)
{
    struct planted p;

    (void)state;
    plant(&p, 1, 0);
    remove_launch(&p.list, p.list.n - 1);
    must_fail(&p, "no tokens", "the list leaves tokens as written by no op of the step");
    unplant(&p);
}

static void test_finds_a_stale_workspace(void **state)
{
    struct planted p;

    (void)state;
    plant(&p, 64, 0);
    for (int launch = 0; launch < p.list.n; launch++)
        if (strncmp(p.list.launches[launch].name, "round_rows", 10) == 0) {
            remove_launch(&p.list, launch);
            break;
        }
    must_fail(&p, "rows that nobody rounded",
              "(smem_resident_kernel<resident_shape<6,2>,true>) reads the workspace rounded, which "
              "no launch before it writes");
    unplant(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_addresses),
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
