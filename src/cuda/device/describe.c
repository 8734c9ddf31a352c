/* Describes the GPU, and lists the kernel of each stage, for how many rows it is used, and why. */
#include <stdio.h>
#include <string.h>

#include "cuda/device/gpu.h"

enum { ROWS_CHECKED_MAX = 8192, TEXT_BYTES = 256 };

struct writer {
    describe_fn *put;
    void *ctx;
};

static void put_memory(const struct writer *w, const struct gpu *gpu)
{
    struct device_memory m;
    char line[TEXT_BYTES];

    if (cudaGetLastError() != cudaSuccess || gpu_memory(&m, gpu->device, 1) != OSP_OK)
        return;
    snprintf(line, sizeof(line), "%.1f GB, %.1f GB free%s", (double)m.total_bytes * 1e-9,
             (double)m.free_bytes * 1e-9, m.is_unified ? ", shared with the host" : "");
    w->put(w->ctx, "memory", line);
}

/* The version of the kernel module, for example "580.159.04"; "" if it cannot be read. */
static void read_module_version(char out[32])
{
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    char line[TEXT_BYTES];

    out[0] = '\0';
    if (f == NULL)
        return;
    if (fgets(line, sizeof(line), f) != NULL)
        for (char *word = strtok(line, " \t\n"); word != NULL && out[0] == '\0';
             word = strtok(NULL, " \t\n"))
            if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.') != NULL)
                snprintf(out, 32, "%.31s", word);
    fclose(f);
}

static void put_driver(const struct writer *w)
{
    int driver = 0, runtime = 0;
    char version[32], line[TEXT_BYTES];

    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    read_module_version(version);
    snprintf(line, sizeof(line), "%s%sfor CUDA %d.%d; this build's runtime is CUDA %d.%d", version,
             version[0] != '\0' ? ", " : "", driver / 1000, driver % 1000 / 10, runtime / 1000,
             runtime % 1000 / 10);
    w->put(w->ctx, "driver", line);
}

/* ---- kernels ---- */

static const struct tuning_row *row_of(const struct gpu *gpu, struct tuning_key k)
{
    const struct kernel_request kernel_request =
        kernel_request_of(&gpu->kernel_config, k.stage, k.format);

    return tuning_find(&k, &kernel_request);
}

static void put_range(const struct writer *w, const struct tuning_row *row,
                      const struct tuning_key *first, int last_rows, bool is_any_phase)
{
    static const char *const formats[N_FORMATS] = {[WEIGHTS_NONE] = "",
                                                   [WEIGHTS_BF16] = ", BF16",
                                                   [WEIGHTS_MXFP4] = ", MXFP4",
                                                   [WEIGHTS_OTHER] = ", F32"};
    const struct kernel_text *k = &kernel_texts[row->kernel];
    char key[TEXT_BYTES], tile[64] = "", line[TEXT_BYTES], to[16] = " or more";

    if (last_rows < ROWS_CHECKED_MAX)
        snprintf(to, sizeof(to), " to %d", last_rows);
    snprintf(key, sizeof(key), "%s%s, %d%s%s rows", stage_names[first->stage],
             formats[first->format], first->n_rows, to,
             is_any_phase                    ? ""
             : first->phase == PHASE_PREFILL ? " prefill"
                                             : " decode");
    if (row->tile.rows > 0)
        snprintf(tile, sizeof(tile), ", tile %d x %d x %d", row->tile.rows, row->tile.tokens,
                 row->tile.columns);
    snprintf(line, sizeof(line), "%s (%s%s): %s", k->symbol,
             k->op_class == OPCLASS_AUTO ? "float32" : opclass_names[k->op_class], tile, row->why);
    w->put(w->ctx, key, line);
}

static bool is_any_phase(const struct gpu *gpu, struct tuning_key k)
{
    const struct tuning_row *row = row_of(gpu, k);

    k.phase = k.phase == PHASE_PREFILL ? PHASE_DECODE : PHASE_PREFILL;
    return row_of(gpu, k) == row;
}

/* One line per range of row counts that use the same kernel; one line for both phases if they use
 * the same one. */
static void put_phase(const struct writer *w, const struct gpu *gpu, struct tuning_key k)
{
    while (k.n_rows <= ROWS_CHECKED_MAX) {
        const struct tuning_row *row = row_of(gpu, k);
        const bool both = is_any_phase(gpu, k);
        const struct tuning_key first = k;

        while (k.n_rows <= ROWS_CHECKED_MAX && row_of(gpu, k) == row &&
               is_any_phase(gpu, k) == both)
            k.n_rows++;
        if (!both || k.phase == PHASE_DECODE)
            put_range(w, row, &first, k.n_rows - 1, both);
    }
}

static void put_stage(const struct writer *w, const struct gpu *gpu, enum stage stage)
{
    const unsigned formats = stage_formats(stage) ? stage_formats(stage) : SET(WEIGHTS_NONE);

    for (int f = 0; f < N_FORMATS; f++)
        for (int phase = PHASE_DECODE; phase >= PHASE_PREFILL && formats & SET(f); phase--)
            put_phase(w, gpu,
                      (struct tuning_key){.stage = stage,
                                          .arch = gpu->arch,
                                          .format = (enum weight_format)f,
                                          .phase = (enum phase)phase,
                                          .n_rows = 1});
}

void gpu_describe(const struct gpu *gpu, describe_fn *put, void *ctx)
{
    const struct cudaDeviceProp *p = &gpu->properties;
    const struct writer w = {put, ctx};
    char line[TEXT_BYTES];

    snprintf(line, sizeof(line), "%.100s, capability %d.%d, %d multiprocessors", p->name, p->major,
             p->minor, p->multiProcessorCount);
    put(ctx, "GPU", line);
    put(ctx, "class", arch_texts[gpu->arch]);
    put_memory(&w, gpu);
    put_driver(&w);
    for (int stage = 0; stage < N_GPU_STAGES; stage++)
        put_stage(&w, gpu, (enum stage)stage);
}
