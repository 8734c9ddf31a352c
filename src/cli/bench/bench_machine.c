/* Facts for the report: the machine by /proc, the process by its status, the weights by a hash. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gguf_files.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/bench/bench.h"

enum { LINE_BYTES_MAX = 8192, HASHED_FILES_MAX = 4096, CONFIG_BYTES_MAX = 16 << 20 };

/* ---- the machine ---- */

/* The value of a line "key : value"; NULL: another key. */
static const char *value_of(const char *line, const char *key)
{
    size_t n = strlen(key);

    if (strncmp(line, key, n) != 0 || strchr("\t :", line[n]) == NULL)
        return NULL;
    return line + n + strspn(line + n, "\t :");
}

static void trim_line(char *out, size_t size, const char *value)
{
    snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
}

/* The CPU flags that decide which kernels run. */
static void keep_flags(struct bench_machine *m, const char *flags)
{
    static const char *const WANTED[] = {
        "sse4_2",   "avx",      "f16c",        "fma",         "avx2",        "avx_vnni", "avx512f",
        "avx512bw", "avx512vl", "avx512_vnni", "avx512_vbmi", "avx512_bf16", "amx_tile", "amx_int8",
        "amx_bf16", "asimd",    "asimddp",     "i8mm",        "bf16",        "sve"};
    char padded[LINE_BYTES_MAX + 2], word[32];
    size_t at = 0;

    snprintf(padded, sizeof padded, " %.*s ", (int)strcspn(flags, "\n"), flags);
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0]; i++) {
        snprintf(word, sizeof word, " %s ", WANTED[i]);
        if (strstr(padded, word) != NULL && at < sizeof m->flags)
            at += (size_t)snprintf(m->flags + at, sizeof m->flags - at, "%s%s", at > 0 ? " " : "",
                                   WANTED[i]);
    }
}

static void read_clock(struct bench_machine *m, double mhz)
{
    if (m->clock_mhz_min == 0 || mhz < m->clock_mhz_min)
        m->clock_mhz_min = mhz;
    if (mhz > m->clock_mhz_max)
        m->clock_mhz_max = mhz;
}

static void read_cpuinfo(struct bench_machine *m)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[LINE_BYTES_MAX];
    const char *value;

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if ((value = value_of(line, "model name")) != NULL)
            trim_line(m->cpu, sizeof m->cpu, value);
        if ((value = value_of(line, "cpu MHz")) != NULL)
            read_clock(m, strtod(value, NULL));
        if (m->flags[0] == '\0' && ((value = value_of(line, "flags")) != NULL ||
                                    (value = value_of(line, "Features")) != NULL))
            keep_flags(m, value);
        m->n_cpus += value_of(line, "processor") != NULL;
    }
    if (f != NULL)
        fclose(f);
}

/* Kilobytes of a line "Key:   123 kB" as bytes. */
static bool read_kb(const char *line, const char *key, int64_t *out)
{
    const char *value = value_of(line, key);

    if (value != NULL)
        *out = strtoll(value, NULL, 10) * 1024;
    return value != NULL;
}

void bench_machine_read(struct bench_machine *out)
{
    struct utsname name;
    char line[LINE_BYTES_MAX];
    FILE *f;

    *out = (struct bench_machine){.n_usable_cpus = pool_usable_cpus()};
    read_cpuinfo(out);
    f = fopen("/proc/meminfo", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (!read_kb(line, "MemTotal", &out->memory_bytes))
            read_kb(line, "MemAvailable", &out->available_bytes);
    if (f != NULL)
        fclose(f);
    if (uname(&name) != 0)
        return;
    snprintf(out->kernel, sizeof out->kernel, "%.60s %.60s", name.sysname, name.release);
    snprintf(out->host, sizeof out->host, "%.32s", name.machine);
}

/* ---- a process ---- */

static bool read_status(struct bench_process *out, const char *folder)
{
    char path[64], line[LINE_BYTES_MAX];
    FILE *f;

    snprintf(path, sizeof path, "%s/status", folder);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    while (fgets(line, sizeof line, f) != NULL) {
        read_kb(line, "VmHWM", &out->peak_bytes);
        read_kb(line, "VmRSS", &out->resident_bytes);
        read_kb(line, "RssAnon", &out->anonymous_bytes);
    }
    fclose(f);
    return true;
}

/* Fields 14, 15 (CPU time) and 22 (start), in ticks, counted behind the name in brackets. */
static void read_stat(struct bench_process *out, const char *folder)
{
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    unsigned long long user = 0, system = 0, start = 0;
    char path[64], line[LINE_BYTES_MAX];
    struct timespec now;
    const char *positional;
    FILE *f;

    snprintf(path, sizeof path, "%s/stat", folder);
    f = fopen(path, "re");
    if (f == NULL)
        return;
    positional = fgets(line, sizeof line, f) != NULL ? strrchr(line, ')') : NULL;
    fclose(f);
    if (positional == NULL ||
        sscanf(positional + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
               "%*d %*d %*d %llu",
               &user, &system, &start) != 3)
        return;
    clock_gettime(CLOCK_BOOTTIME, &now);
    out->cpu_seconds = (double)(user + system) * tick;
    out->seconds_alive = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)start * tick;
}

bool bench_process_read(struct bench_process *out, int pid)
{
    char folder[32] = "/proc/self";

    *out = (struct bench_process){0};
    if (pid > 0)
        snprintf(folder, sizeof folder, "/proc/%d", pid);
    if (!read_status(out, folder))
        return false;
    read_stat(out, folder);
    return true;
}

/* ---- the weights ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint64_t mix_sizes(uint64_t hash, const char *folder)
{
    char **lines = mem_new(HASHED_FILES_MAX * sizeof *lines);
    DIR *d = opendir(folder);
    struct dirent *entry;
    size_t n = 0;

    while (d != NULL && n < HASHED_FILES_MAX && (entry = readdir(d)) != NULL) {
        char *path = path_join(folder, entry->d_name);
        const char *dot = strrchr(entry->d_name, '.');
        struct stat info;

        if (dot != NULL && strcmp(dot, ".safetensors") == 0 && stat(path, &info) == 0)
            lines[n++] = mem_printf("%s %lld", entry->d_name, (long long)info.st_size);
        free(path);
    }
    if (d != NULL)
        closedir(d);
    qsort(lines, n, sizeof *lines, by_name);
    for (size_t i = 0; i < n; i++) {
        hash = hash_bytes(hash, lines[i], strlen(lines[i]) + 1);
        free(lines[i]);
    }
    free(lines);
    return hash;
}

/* The sizes of all parts of a GGUF model. */
static uint64_t mix_parts(uint64_t hash, const char *file)
{
    size_t n_prefix;
    int number, count = 1;

    if (!gguf_split_parse(file, &n_prefix, &number, &count))
        count = 1;
    for (int i = 1; i <= count; i++) {
        char *path = gguf_split_path(file, i);
        struct stat info;
        long long n_bytes = stat(path, &info) == 0 ? (long long)info.st_size : 0;

        hash = hash_bytes(hash, &n_bytes, sizeof n_bytes);
        free(path);
    }
    return hash;
}

void bench_model_hash(char out[17], const char *folder, const char *name, int n_layers)
{
    uint64_t hash = hash_bytes(HASH_INIT, name, strlen(name));
    char *path = path_join(folder, "config.json"), *config = NULL;
    size_t n_bytes;

    hash = hash_bytes(hash, &n_layers, sizeof n_layers);
    if (path_is_file(folder)) {
        snprintf(out, 17, "%016llx", (unsigned long long)mix_parts(hash, folder));
        free(path);
        return;
    }
    if (path_is_file(path) && file_read(&config, &n_bytes, path, CONFIG_BYTES_MAX) == OSP_OK)
        hash = hash_bytes(hash, config, n_bytes);
    snprintf(out, 17, "%016llx", (unsigned long long)mix_sizes(hash, folder));
    free(config);
    free(path);
}
