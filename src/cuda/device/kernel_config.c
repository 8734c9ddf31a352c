#include "cuda/device/kernel_config.h"

#include <stdio.h>
#include <string.h>

#include "cuda/device/host.h"

enum { ROWS_MAX = 1024 /* decode rows that kernels are looked up for */ };

enum vllm_mxfp4 {
#define VLLM_ENUM(name) VLLM_MXFP4_##name,
    VLLM_MXFP4_LIST(VLLM_ENUM)
#undef VLLM_ENUM
        N_VLLM_MXFP4
};

/* The op class that corresponds to a kernel of vLLM on each architecture: Ampere, Hopper, data
 * centre Blackwell, consumer Blackwell. AUTO: vLLM's kernel is for another architecture, so the
 * tuning table chooses. */
static const enum op_class opclasses_of_vllm[N_VLLM_MXFP4][N_ARCHS] = {
    [VLLM_MXFP4_MARLIN] = {OPCLASS_MMA, OPCLASS_MMA, OPCLASS_MMA, OPCLASS_MMA},
    [VLLM_MXFP4_TRITON] = {OPCLASS_MMA, OPCLASS_WGMMA, OPCLASS_MMA, OPCLASS_MMA},
    [VLLM_MXFP4_CUTLASS] = {OPCLASS_AUTO, OPCLASS_WGMMA, OPCLASS_AUTO, OPCLASS_NATIVE},
    [VLLM_MXFP4_TRTLLM] = {OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_NATIVE},
    [VLLM_MXFP4_TRTLLM_MXFP8] = {OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_AUTO, OPCLASS_NATIVE},
};

/* ---- contents of the tuning table ---- */

static bool has_tile(const struct tuning_row *row, const struct kernel_request *w)
{
    return w->tile_rows == 0 ||
           (row->tile.rows == w->tile_rows && row->tile.tokens == w->tile_tokens);
}

/* True if the request selects a kernel for some number of rows in some phase. */
static bool exists(enum stage stage, enum weight_format format, enum arch arch,
                   const struct kernel_request *w)
{
    for (int i = 0; i < n_tuning_rows; i++) {
        const struct tuning_row *row = &tuning_rows[i];

        if (row->stages & SET(stage) && row->formats & SET(format) && row->archs & SET(arch) &&
            (w->op_class == OPCLASS_AUTO || kernel_texts[row->kernel].op_class == w->op_class) &&
            has_tile(row, w))
            return true;
    }
    return false;
}

static void list_opclasses(char out[64], enum stage stage, enum weight_format format,
                           enum arch arch)
{
    size_t at = (size_t)snprintf(out, 64, "auto");

    for (int f = OPCLASS_AUTO + 1; f < N_OPCLASSES; f++) {
        const struct kernel_request w = {.op_class = (enum op_class)f};

        if (exists(stage, format, arch, &w) && at < 64)
            at += (size_t)snprintf(out + at, 64 - at, ", %s", opclass_names[f]);
    }
}

static void list_tiles(char out[64], enum arch arch, enum op_class op_class)
{
    static const struct kernel_request tiles[] = {{OPCLASS_AUTO, 64, 128},
                                                  {OPCLASS_AUTO, 128, 128}};
    size_t at = (size_t)snprintf(out, 64, "auto");

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        struct kernel_request w = tiles[i];

        w.op_class = op_class;
        if (exists(STAGE_experts, WEIGHTS_MXFP4, arch, &w) && at < 64)
            at += (size_t)snprintf(out + at, 64 - at, ", %dx%d", w.tile_rows, w.tile_tokens);
    }
}

/* ---- values of options ---- */

static bool find_opclass(enum op_class *out, const char *value)
{
    for (int f = 0; f < N_OPCLASSES; f++)
        if (strcmp(value, opclass_names[f]) == 0) {
            *out = (enum op_class)f;
            return true;
        }
    return false;
}

/* N_VLLM_MXFP4: the value is not a kernel of vLLM. */
static enum vllm_mxfp4 find_vllm_mxfp4(const char *value)
{
    static const char *const names[] = {
#define VLLM_TEXT(name) #name,
        VLLM_MXFP4_LIST(VLLM_TEXT)};
    int i = 0;

    while (i < N_VLLM_MXFP4 && strcasecmp(value, names[i]) != 0)
        i++;
    return (enum vllm_mxfp4)i;
}

static bool is_vllm_attention(const char *value)
{
    static const char *const names[] = {VLLM_ATTENTION_LIST(VLLM_TEXT)};
#undef VLLM_TEXT

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(value, names[i]) == 0)
            return true;
    return false;
}

/* AUTO also for an op class that the tuning table does not have for this architecture. */
static enum op_class opclass_of_vllm(const char *value, enum arch arch,
                                     char note[KERNEL_NOTE_BYTES])
{
    struct kernel_request w = {.op_class = opclasses_of_vllm[find_vllm_mxfp4(value)][arch]};
    char there[64];

    if (!exists(STAGE_experts, WEIGHTS_MXFP4, arch, &w))
        w.op_class = OPCLASS_AUTO;
    list_opclasses(there, STAGE_experts, WEIGHTS_MXFP4, arch);
    snprintf(note, KERNEL_NOTE_BYTES,
             "--mxfp4-backend %s is a kernel of vLLM; osprey uses %s on %s (it has %s)", value,
             opclass_names[w.op_class], arch_texts[arch], there);
    return w.op_class;
}

static enum osp_status parse_opclass(struct kernel_request *out, enum gpu_option option,
                                     const char *value, enum stage stage, enum weight_format format,
                                     enum arch arch)
{
    const char *name = gpu_option_rows[option].name;
    char there[64];

    list_opclasses(there, stage, format, arch);
    if (!find_opclass(&out->op_class, value))
        return fail(OSP_EINVAL, "--%s %s: unknown kernel; allowed values on %s: %s", name, value,
                    arch_texts[arch], there);
    if (!exists(stage, format, arch, out))
        return fail(OSP_EUNSUPPORTED,
                    "--%s %s: this build has no such kernel for %s; allowed values: %s", name,
                    value, arch_texts[arch], there);
    return OSP_OK;
}

static enum osp_status parse_mxfp4(struct kernel_request *out, const char *value, enum arch arch,
                                   char note[KERNEL_NOTE_BYTES])
{
    if (device_option_is_auto(value))
        return OSP_OK;
    if (find_vllm_mxfp4(value) == N_VLLM_MXFP4)
        return parse_opclass(out, GPU_OPTION_MXFP4_BACKEND, value, STAGE_experts, WEIGHTS_MXFP4,
                             arch);
    out->op_class = opclass_of_vllm(value, arch, note);
    return OSP_OK;
}

static enum osp_status parse_attention(struct kernel_request *out, const char *value,
                                       enum arch arch, char note[KERNEL_NOTE_BYTES])
{
    const size_t at = strlen(note);

    if (device_option_is_auto(value))
        return OSP_OK;
    if (!is_vllm_attention(value))
        return parse_opclass(out, GPU_OPTION_ATTENTION_BACKEND, value, STAGE_attn, WEIGHTS_NONE,
                             arch);
    snprintf(note + at, KERNEL_NOTE_BYTES - at,
             "%s--attention-backend %s is a kernel of vLLM; osprey uses auto", at > 0 ? "; " : "",
             value);
    return OSP_OK;
}

static enum osp_status parse_tile(struct kernel_request *out, const char *value, enum arch arch)
{
    char there[64];

    if (device_option_is_auto(value))
        return OSP_OK;
    list_tiles(there, arch, out->op_class);
    if (!gpu_tile_parse(&out->tile_rows, &out->tile_tokens, value))
        return fail(OSP_EINVAL, "--moe-tile %s: not a tile; allowed values: %s", value, there);
    if (!exists(STAGE_experts, WEIGHTS_MXFP4, arch, out))
        return fail(OSP_EUNSUPPORTED,
                    "--moe-tile %s: this build has no kernel%s%s with that tile for %s; allowed "
                    "values: %s",
                    value, out->op_class == OPCLASS_AUTO ? "" : " of ",
                    out->op_class == OPCLASS_AUTO ? "" : opclass_names[out->op_class],
                    arch_texts[arch], there);
    return OSP_OK;
}

enum osp_status kernel_config_parse(struct kernel_config *out, const struct device_options *options,
                                    enum arch arch, char note[KERNEL_NOTE_BYTES])
{
    enum osp_status st;

    *out = (struct kernel_config){.mxfp4 = {.op_class = OPCLASS_AUTO}};
    note[0] = '\0';
    TRY(parse_mxfp4(&out->mxfp4, gpu_option(options, GPU_OPTION_MXFP4_BACKEND), arch, note));
    TRY(parse_tile(&out->mxfp4, gpu_option(options, GPU_OPTION_MOE_TILE), arch));
    TRY(parse_attention(&out->attention, gpu_option(options, GPU_OPTION_ATTENTION_BACKEND), arch,
                        note));
out:
    return st;
}

/* On Hopper ranks exchange the sums of attn_out as words, which no SIMT kernel computes. */
enum osp_status kernel_config_check_ranks(const struct kernel_config *c, enum arch arch,
                                          int n_ranks)
{
    struct tuning_key key = {
        .stage = STAGE_attn_out, .arch = arch, .format = WEIGHTS_MXFP4, .phase = PHASE_DECODE};

    for (key.n_rows = 1; n_ranks > 1 && arch == ARCH_HOPPER && key.n_rows <= ROWS_MAX;
         key.n_rows *= 2)
        if (kernel_texts[tuning_find(&key, &c->mxfp4)->kernel].op_class == OPCLASS_SIMT)
            return fail(OSP_EUNSUPPORTED,
                        "--mxfp4-backend simt: its kernels cannot add the sums of %d ranks on %s; "
                        "use auto, wgmma or mma, or --tensor-parallel-size 1",
                        n_ranks, arch_texts[arch]);
    return OSP_OK;
}

struct kernel_request kernel_request_of(const struct kernel_config *c, enum stage stage,
                                        enum weight_format format)
{
    struct kernel_request w = {.op_class = OPCLASS_AUTO};

    if (stage == STAGE_attn)
        return c->attention;
    if (format != WEIGHTS_MXFP4)
        return w;
    w = c->mxfp4;
    if (stage != STAGE_experts)
        w.tile_rows = w.tile_tokens = 0;
    return w;
}
