#include "cuda_host/situations.h"

#include "unit.h"

#include "cuda_host/gpu_file.h"

const char *const gpu_names[N_GPUS] = {"sm_80", "sm_90a", "sm_100a", "sm_121a"};

static const enum arch archs[N_GPUS] = {ARCH_AMPERE, ARCH_HOPPER, ARCH_BLACKWELL,
                                        ARCH_BLACKWELL_RTX};

static const struct gpu_file *gpu_of(int gpu)
{
    static struct gpu_file files[N_GPUS];
    char path[128];

    if (files[gpu].n == 0) {
        (void)snprintf(path, sizeof(path), GOLDEN "gpu-%s.txt", gpu_names[gpu]);
        gpu_file_read(&files[gpu], path);
    }
    return &files[gpu];
}

/* ---- a list ---- */

enum osp_status make_list(struct launch_list *list, struct step_counts *counts,
                          const struct symbolic *s, const struct program *p,
                          const struct situation *at)
{
    const struct kernel_config config = {
        .mxfp4 = {.op_class = at->is_native ? OPCLASS_NATIVE : OPCLASS_AUTO}};
    struct batch *batch = symbolic_batch(&at->step), *padded = NULL;
    struct fuse_input in = {.program = p,
                            .gpu = &gpu_of(at->gpu)->gpu,
                            .arch = archs[at->gpu],
                            .config = &config,
                            .n_rows_max = SYMBOLIC_ROWS_MAX,
                            .n_samples_max = SYMBOLIC_SAMPLES_MAX,
                            .workspaces = &s->workspaces,
                            .peers = &s->peers,
                            .gather = s->is_gathered ? NULL : &s->gather,
                            .is_gathered = s->is_gathered,
                            .n_experts_read = s->n_experts_read,
                            .expert_grids = s->expert_grids};
    enum osp_status st;

    *list = (struct launch_list){0};
    launch_list_init(list, in.gpu);
    TRY(step_counts_of(&in.counts, batch));
    step_counts_pad(&in.counts, SYMBOLIC_SAMPLES_MAX);
    *counts = in.counts;
    padded = malloc((size_t)step_batch_bytes(batch, counts));
    assert_non_null(padded);
    in.batch = step_batch_copy(padded, batch, counts);
    TRY(fuse(list, &in));
out:
    free(padded);
    free(batch);
    return st;
}

/* ---- at random ---- */

const struct symbolic_spec models[] = {
    {.dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 3},
    {.dense = DTYPE_BF16, .kv = DTYPE_BF16, .n_layers = 2},
    {.is_20b = true, .dense = DTYPE_MXFP4, .kv = DTYPE_F8, .n_layers = 2},
    {.is_20b = true, .dense = DTYPE_BF16, .kv = DTYPE_F32, .n_layers = 3},
    {.is_nano = true, .dense = DTYPE_BF16, .kv = DTYPE_F32, .n_layers = 2},
    {.has_draft = true, .dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 3},
    {.has_draft = true, .is_nano = true, .dense = DTYPE_BF16, .kv = DTYPE_BF16, .n_layers = 2},
    {.has_float_router = true, .dense = DTYPE_MXFP4, .kv = DTYPE_F32, .n_layers = 2},
    {.dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2, .n_ranks = 2},
    {.dense = DTYPE_BF16, .kv = DTYPE_F8, .n_layers = 2, .n_ranks = 4, .rank = 3},
    {.is_nano = true, .dense = DTYPE_BF16, .kv = DTYPE_F32, .n_layers = 2, .n_ranks = 2, .rank = 1},
    {.dense = DTYPE_MXFP4, .kv = DTYPE_BF16, .n_layers = 2, .n_ranks = 2, .is_gathered = true},
    {.dense = DTYPE_BF16,
     .kv = DTYPE_F8,
     .n_layers = 2,
     .n_ranks = 4,
     .rank = 3,
     .is_gathered = true},
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
        .step = {.n_decode = (int)next_random(state, next_random(state, 2) ? 1101 : 10),
                 .n_prefill = prefills[next_random(state, 6)],
                 .n_each = (int)next_random(state, 2) * (int)next_random(state, 10),
                 .n_context = (int)next_random(state, next_random(state, 2) ? 20000 : 200),
                 .n_context_first = (int)next_random(state, 2) * 20000,
                 .samples = (enum samples)next_random(state, 4),
                 .has_special = next_random(state, 4) == 0,
                 .has_trees = next_random(state, 4) == 0,
                 .has_candidates = next_random(state, 4) == 0}};

    if (at.step.n_decode + at.step.n_prefill == 0)
        at.step.n_decode = 1;
    if (at.gpu != SM_121A)
        at.is_native = false;
    return at;
}

const char *situation_text(const struct situation *at)
{
    static char text[160];

    (void)snprintf(
        text, sizeof(text),
        "%s native %d: %d decode, %d each, %d prefill, context %d, samples %d, trees %d, "
        "candidates %d",
        gpu_names[at->gpu], at->is_native, at->step.n_decode, at->step.n_each, at->step.n_prefill,
        at->step.n_context, (int)at->step.samples, at->step.has_trees, at->step.has_candidates);
    return text;
}

/* The model's program, one of its draft head, or a range of the model's ops. */
static const struct program *random_part(struct program *part, const struct symbolic *s,
                                         uint32_t *state)
{
    const int first = (int)next_random(state, (uint32_t)s->program.n_ops);
    const struct draft *d = &s->model.draft;
    const int n = 1 + (int)next_random(state, next_random(state, 2) ? 1 : 8);

    *part = (struct program){0};
    if (d->passes[0].n_ops > 0 && next_random(state, 2) > 0)
        return &d->passes[next_random(state, N_DRAFT_PASSES)];
    if (next_random(state, 3) > 0)
        return &s->program;
    assert_int_equal(program_range(part, &s->program, first,
                                   first + n > s->program.n_ops ? s->program.n_ops - first : n),
                     OSP_OK);
    return part;
}

void for_random_lists(list_check check, uint32_t seed)
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
                fail_msg("model %d, %s: %s", m, situation_text(&at), fail_message());
            check(s, p, &list, &counts, &at);
            launch_list_free(&list);
            program_free(&part);
        }
        symbolic_free(s);
    }
}
