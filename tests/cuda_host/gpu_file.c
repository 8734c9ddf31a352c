#include "cuda_host/gpu_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Truth values are 0 and 1 in a file, which has them from mangled names. */
static bool is_name(const char *of_file, const char *name)
{
    for (; *of_file != '\0' && *name != '\0'; of_file++) {
        const char *word = *of_file == '1' ? "true" : "false";
        const size_t n = strncmp(name, word, strlen(word)) == 0 ? strlen(word) : 1;

        if (*of_file != *name && n == 1)
            return false;
        name += n;
    }
    return *of_file == *name;
}

static bool find_kernel(void *ctx, const void *function, const char *name,
                        const struct cluster_config *cluster, struct kernel_desc *out)
{
    const struct gpu_file *file = ctx;

    (void)function;
    for (int i = 0; i < file->n; i++)
        if (is_name(file->kernels[i].name, name)) {
            *out =
                (struct kernel_desc){.binary_version = 10 * file->gpu.major + file->gpu.minor,
                                     .static_shared_bytes = file->kernels[i].static_shared_bytes,
                                     .max_clusters = cluster == NULL          ? 0
                                                     : cluster->n_blocks <= 4 ? file->clusters_of_4
                                                                              : file->clusters};
            return true;
        }
    return false;
}

static bool read_limit(struct gpu_file *out, const char *line)
{
    const struct {
        const char *format;
        int *value;
    } limits[] = {
        {"major %d", &out->gpu.major},
        {"minor %d", &out->gpu.minor},
        {"n_sms %d", &out->gpu.n_sms},
        {"shared_per_block %d", &out->gpu.shared_per_block},
        {"shared_per_sm %d", &out->gpu.shared_per_sm},
        {"shared_reserved %d", &out->gpu.shared_reserved},
        {"clusters %d", &out->clusters},
        {"clusters_of_4 %d", &out->clusters_of_4},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (sscanf(line, limits[i].format, limits[i].value) == 1)
            return true;
    return false;
}

static bool read_line(struct gpu_file *out, const char *line)
{
    if (line[0] == '#' || read_limit(out, line))
        return true;
    if (out->n == GPU_FILE_KERNELS_MAX || sscanf(line, "kernel %159s %d", out->kernels[out->n].name,
                                                 &out->kernels[out->n].static_shared_bytes) != 2)
        return false;
    out->n++;
    return true;
}

void gpu_file_read(struct gpu_file *out, const char *path)
{
    char line[256];
    FILE *file = fopen(path, "r");

    *out = (struct gpu_file){.gpu = {.kernel = find_kernel, .ctx = out}};
    if (file == NULL) {
        fprintf(stderr, "%s: cannot be read; tools/record_gpu_desc writes it\n", path);
        exit(1);
    }
    while (fgets(line, sizeof(line), file) != NULL)
        if (!read_line(out, line)) {
            fprintf(stderr, "%s: unknown line: %s", path, line);
            exit(1);
        }
    (void)fclose(file);
}
