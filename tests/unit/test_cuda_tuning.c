/* The table of CUDA kernels, which needs no card: everything that a step can ask has one answer. */
#include "unit.h"

#include <string.h>

#include "cuda/device/kernel_config.h"
#include "cuda/device/tuning.h"

enum { N_ROWS_MAX = 8192 };

/* Kernels of the table that answer, on request or not: one with several tiles counts once, and
 * so do those that differ in nothing but their tile. */
static int count_answers(const struct tuning_key *k, bool is_on_request, enum op_class op_class)
{
    unsigned kernels = 0;
    int n = 0;

    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *r = &tuning_rows[i];

        if (!(r->stages >> k->stage & r->archs >> k->arch & r->formats >> k->format &
              r->phases >> k->phase & 1) ||
            k->n_rows < r->n_rows_min || k->n_rows > r->n_rows_max ||
            r->is_on_request != is_on_request ||
            (is_on_request && kernel_texts[r->kernel].op_class != op_class))
            continue;
        n += !(is_on_request && kernels & SET(r->kernel));
        kernels |= GEMM_KERNELS & SET(r->kernel) ? GEMM_KERNELS : SET(r->kernel);
    }
    return n;
}

static void check_key(const struct tuning_key *k)
{
    const struct kernel_request none = {.op_class = OPCLASS_AUTO};
    const struct tuning_row *row = tuning_find(k, &none);

    if (count_answers(k, false, OPCLASS_AUTO) != 1)
        fail_msg("stage %d, card %d, format %d, kind %d, %d rows: %d kernels", k->stage, k->arch,
                 k->format, k->phase, k->n_rows, count_answers(k, false, OPCLASS_AUTO));
    assert_non_null(row);
    assert_false(row->is_on_request);
    for (int f = OPCLASS_NATIVE; f < N_OPCLASSES; f++) {
        const bool is_meant = kernel_texts[row->kernel].op_class == (enum op_class)f &&
                              !(GEMM_KERNELS & SET(row->kernel));

        assert_true(count_answers(k, true, (enum op_class)f) + is_meant <= 1);
    }
}

static void check_stage(struct tuning_key k)
{
    const unsigned formats = stage_formats(k.stage) ? stage_formats(k.stage) : SET(WEIGHTS_NONE);

    for (int f = 0; f < N_FORMATS; f++) {
        k.format = (enum weight_format)f;
        for (k.n_rows = 1; formats & SET(f) && k.n_rows <= N_ROWS_MAX; k.n_rows++)
            check_key(&k);
    }
}

static void test_one_kernel_for_everything(void **state)
{
    (void)state;
    for (int stage = 0; stage < N_GPU_STAGES; stage++)
        for (int arch = 0; arch < N_ARCHS; arch++)
            for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++)
                check_stage((struct tuning_key){.stage = (enum stage)stage,
                                                .arch = (enum arch)arch,
                                                .phase = (enum phase)phase});
}

static enum kernel kernel_for(struct tuning_key k, enum op_class op_class)
{
    const struct kernel_request w = {.op_class = op_class};

    return tuning_find(&k, &w)->kernel;
}

static void test_wishes(void **state)
{
    struct tuning_key k = {.stage = STAGE_experts,
                           .arch = ARCH_AMPERE,
                           .format = WEIGHTS_MXFP4,
                           .phase = PHASE_DECODE,
                           .n_rows = 1};

    (void)state;
    assert_int_equal(kernel_for(k, OPCLASS_SIMT), KERNEL_MATMUL_SIMT);
    assert_int_equal(kernel_texts[kernel_for(k, OPCLASS_MMA)].op_class, OPCLASS_MMA);
    /* Ampere has no native kernel: the automatic choice replaces it. kernel_config_parse() refuses
     * the option earlier. */
    assert_int_equal(kernel_for(k, OPCLASS_NATIVE), kernel_for(k, OPCLASS_AUTO));
}

/* Each kind of rows on Hopper has products of its own. */
static void test_prompts(void **state)
{
    struct tuning_key k = {.stage = STAGE_experts,
                           .arch = ARCH_HOPPER,
                           .format = WEIGHTS_MXFP4,
                           .phase = PHASE_PREFILL,
                           .n_rows = 1};

    (void)state;
    assert_int_equal(kernel_for(k, OPCLASS_AUTO), KERNEL_GEMM_256);
    assert_int_equal(kernel_for(k, OPCLASS_MMA), KERNEL_GEMM_MMA);
    k.phase = PHASE_DECODE;
    assert_int_not_equal(kernel_for(k, OPCLASS_AUTO), KERNEL_GEMM_256);
    k.phase = PHASE_PREFILL;
    k.arch = ARCH_AMPERE;
    assert_int_equal(kernel_for(k, OPCLASS_AUTO), KERNEL_GEMM_MMA);
    /* The LM head sums in the same order in both phases: decode rows beside prefill rows keep their
     * kernel. */
    k.stage = STAGE_logits;
    k.arch = ARCH_HOPPER;
    k.n_rows = 64;
    assert_int_equal(kernel_for(k, OPCLASS_AUTO), KERNEL_DECODE_HEAD);
}

/* The prefill kernels sum in another order than the kernels of a single row: no number of decode
 * rows may use them, except in the build without batch invariance, which measures its cost. */
static void test_decode_rows_keep_their_order(void **state)
{
    const unsigned other =
        GEMM_KERNELS | SET(KERNEL_GEMM_MMA) | SET(KERNEL_MXFP8_MATMUL) | SET(KERNEL_ATTN_SM90);

    (void)state;
    assert_int_equal(IS_ORDER_FREE, 0);
    for (int i = 0; i < n_tuning_rows; i++)
        if (tuning_rows[i].archs && tuning_rows[i].phases & SET(PHASE_DECODE))
            assert_false(other & SET(tuning_rows[i].kernel));
}

static enum kernel kernel_of_tile(enum arch arch, int tile_rows)
{
    const struct tuning_key k = {.stage = STAGE_experts,
                                 .arch = arch,
                                 .format = WEIGHTS_MXFP4,
                                 .phase = PHASE_PREFILL,
                                 .n_rows = 64};
    const struct kernel_request w = {.tile_rows = tile_rows, .tile_tokens = 128};

    return tuning_find(&k, &w)->kernel;
}

/* A tile without a backend selects the GPU's native GEMM kernels. */
static void test_tiles(void **state)
{
    (void)state;
    assert_int_equal(kernel_of_tile(ARCH_HOPPER, 64), KERNEL_GEMM_64);
    assert_int_equal(kernel_of_tile(ARCH_HOPPER, 128), KERNEL_GEMM_128);
    assert_int_equal(kernel_of_tile(ARCH_HOPPER, 256), KERNEL_GEMM_256);
    assert_int_equal(kernel_of_tile(ARCH_BLACKWELL_RTX, 128), KERNEL_MXFP8_MATMUL);
}

/* Values of three options; NULL: not set. */
struct given {
    const char *mxfp4_backend, *attention_backend, *moe_tile;
};

static enum osp_status parse(struct kernel_config *c, struct given g, enum arch arch,
                             char note[KERNEL_NOTE_BYTES])
{
    const struct device_option list[] = {{"mxfp4-backend", g.mxfp4_backend},
                                         {"attention-backend", g.attention_backend},
                                         {"moe-tile", g.moe_tile}};

    return kernel_config_parse(c, &(struct device_options){.n = 3, .list = list}, arch, note);
}

static void read_values(struct given g, enum arch arch, enum osp_status expected,
                        const char *message)
{
    char note[KERNEL_NOTE_BYTES];
    struct kernel_config c;
    const enum osp_status st = parse(&c, g, arch, note);

    assert_int_equal(st, expected);
    if (strstr(st == OSP_OK ? note : fail_message(), message) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", message, st == OSP_OK ? note : fail_message());
}

static void test_values(void **state)
{
    char note[KERNEL_NOTE_BYTES];
    struct kernel_config c;

    (void)state;
    assert_int_equal(parse(&c, (struct given){.mxfp4_backend = "simt"}, ARCH_HOPPER, note), OSP_OK);
    assert_int_equal(kernel_request_of(&c, STAGE_experts, WEIGHTS_MXFP4).op_class, OPCLASS_SIMT);
    assert_int_equal(kernel_request_of(&c, STAGE_logits, WEIGHTS_BF16).op_class, OPCLASS_AUTO);
    assert_string_equal(note, "");
    read_values((struct given){.mxfp4_backend = "wgmma"}, ARCH_AMPERE, OSP_EUNSUPPORTED,
                "for Ampere or Ada; allowed values: auto, native, mma, simt");
    read_values((struct given){.mxfp4_backend = "quick"}, ARCH_HOPPER, OSP_EINVAL,
                "--mxfp4-backend quick: unknown kernel; allowed values on Hopper: auto, ");
    read_values((struct given){.attention_backend = "native"}, ARCH_HOPPER, OSP_EUNSUPPORTED,
                "--attention-backend native");
    read_values((struct given){.moe_tile = "3x5"}, ARCH_HOPPER, OSP_EUNSUPPORTED, "--moe-tile 3x5");
    read_values((struct given){.moe_tile = "64*128"}, ARCH_HOPPER, OSP_EINVAL,
                "allowed values: auto");
    read_values((struct given){.mxfp4_backend = "MARLIN", .attention_backend = "FLASHINFER"},
                ARCH_HOPPER, OSP_OK, "MARLIN is a kernel of vLLM; osprey uses mma on Hopper");
}

/* Where ranks exchange whole numbers, kernels that leave floats are refused, not replaced. */
static void test_requests_of_ranks(void **state)
{
    char note[KERNEL_NOTE_BYTES];
    struct kernel_config c;

    (void)state;
    assert_int_equal(parse(&c, (struct given){.mxfp4_backend = "simt"}, ARCH_HOPPER, note), OSP_OK);
    assert_int_equal(kernel_config_check_ranks(&c, ARCH_HOPPER, 1), OSP_OK);
    assert_int_equal(kernel_config_check_ranks(&c, ARCH_AMPERE, 2), OSP_OK);
    assert_int_equal(kernel_config_check_ranks(&c, ARCH_HOPPER, 2), OSP_EUNSUPPORTED);
    assert_non_null(strstr(fail_message(), "--mxfp4-backend simt: its kernels cannot add the sums "
                                           "of 2 ranks on Hopper; use auto, wgmma or mma"));
    for (int i = 0; i < 3; i++) {
        const char *const allowed[] = {"auto", "wgmma", "mma"};

        assert_int_equal(parse(&c, (struct given){.mxfp4_backend = allowed[i]}, ARCH_HOPPER, note),
                         OSP_OK);
        assert_int_equal(kernel_config_check_ranks(&c, ARCH_HOPPER, 8), OSP_OK);
    }
}

/* Every row has what a help text needs, and accepts its own values. */
static void test_option_rows(void **state)
{
    (void)state;
    for (int i = 0; i < N_GPU_OPTIONS; i++) {
        const struct device_option_row *row = &gpu_option_rows[i];

        assert_non_null(row->name);
        assert_non_null(row->metavar);
        assert_non_null(row->help);
        assert_int_equal(strncmp(row->values, row->initial, strlen(row->initial)), 0);
    }
    assert_null(gpu_option_rows[N_GPU_OPTIONS].name);
    assert_true(gpu_option_rows[GPU_OPTION_MOE_TILE].is_value("256x128"));
    assert_false(gpu_option_rows[GPU_OPTION_MOE_TILE].is_value("64x"));
}

static void test_cards(void **state)
{
    (void)state;
    assert_int_equal(arch_of_capability(7), N_ARCHS);
    assert_int_equal(arch_of_capability(8), ARCH_AMPERE);
    assert_int_equal(arch_of_capability(9), ARCH_HOPPER);
    assert_int_equal(arch_of_capability(10), ARCH_BLACKWELL);
    assert_int_equal(arch_of_capability(12), ARCH_BLACKWELL_RTX);
    assert_int_equal(arch_of_capability(13), N_ARCHS);
    assert_true(arch_has_code("80 90a 121a", 9, 0));
    assert_true(arch_has_code("80 90a 121a", 8, 0) && arch_has_code("80 90a 121a", 8, 9));
    assert_true(arch_has_code("80 90a 121a", 12, 1) && arch_has_code(" 90a  121a ", 12, 1));
    assert_false(arch_has_code("80 90a 121a", 12, 0) || arch_has_code("80 90a 121a", 7, 5));
    assert_false(arch_has_code("86 120a", 8, 0) || arch_has_code("120a", 12, 1));
    assert_false(arch_has_code("", 9, 0) || arch_has_code(" ", 9, 0));
    assert_int_equal(arch_of_name("AMPERE"), ARCH_AMPERE);
    assert_int_equal(arch_of_name("BLACKWELL_RTX"), ARCH_BLACKWELL_RTX);
    assert_int_equal(arch_of_name("Ampere or Ada"), N_ARCHS);
}

/* Symbols tell kernels apart in the report of what ran. */
static void test_symbols_differ(void **state)
{
    (void)state;
    for (int i = 0; i < N_KERNELS; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(kernel_texts[i].symbol, kernel_texts[j].symbol);
}

UNIT_MAIN(cmocka_unit_test(test_one_kernel_for_everything), cmocka_unit_test(test_wishes),
          cmocka_unit_test(test_prompts), cmocka_unit_test(test_decode_rows_keep_their_order),
          cmocka_unit_test(test_tiles), cmocka_unit_test(test_values),
          cmocka_unit_test(test_requests_of_ranks), cmocka_unit_test(test_option_rows),
          cmocka_unit_test(test_cards), cmocka_unit_test(test_symbols_differ))
