#include "cli/bench/bench_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct format {
    const char *name;
    void (*print)(FILE *out, const struct bench_report *r);
} FORMATS[] = {{"md", bench_print_md}, {"json", bench_print_json}, {"csv", bench_print_csv}};

static const struct format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++)
        if (strcmp(name, FORMATS[i].name) == 0)
            return &FORMATS[i];
    return NULL;
}

static enum osp_status open_file(FILE **out, const char *path, const char *mode)
{
    *out = fopen(path, mode);
    return *out != NULL ? OSP_OK
                        : fail(OSP_EIO, "%s: cannot be written: %s", path, strerror(errno));
}

/* Opens for append, so that an existing file keeps its content until there is a new result. */
static enum osp_status check_writable(const char *path)
{
    enum osp_status st = OSP_OK;
    FILE *f;

    if (path == NULL)
        return OSP_OK;
    TRY(open_file(&f, path, "ae"));
    fclose(f);
out:
    return st;
}

enum osp_status bench_output_check(const struct bench_args *args)
{
    enum osp_status st;

    if (find_format(args->format) == NULL)
        return fail(OSP_EINVAL, "--format %s: must be md, json or csv", args->format);
    TRY(check_writable(args->output));
    TRY(check_writable(args->plot));
out:
    return st;
}

enum osp_status bench_output_open(FILE **out, const struct bench_args *args)
{
    if (args->output != NULL)
        return open_file(out, args->output, "we");
    *out = stdout;
    return OSP_OK;
}

enum osp_status bench_output_close(FILE *out, const struct bench_args *args)
{
    int failed = fflush(out) != 0 || ferror(out);

    if (out != stdout)
        failed |= fclose(out) != 0;
    return failed ? fail(OSP_EIO, "%s: cannot be written",
                         args->output != NULL ? args->output : "standard output")
                  : OSP_OK;
}

/* The plot reads the report back from its JSON. */
static enum osp_status plot_report(const char *path, const struct bench_report *r)
{
    struct saved_bench saved = {.n_rows = 0};
    const struct saved_bench *series[] = {&saved};
    char *json = NULL;
    size_t n_bytes = 0;
    FILE *memory = open_memstream(&json, &n_bytes);
    enum osp_status st;

    if (memory == NULL)
        return fail(OSP_ENOMEM, "%s: out of memory for the plot", path);
    bench_print_json(memory, r);
    fclose(memory);
    TRY(saved_bench_parse(&saved, json, n_bytes, r->model));
    TRY(bench_plot(path, series, 1));
out:
    saved_bench_release(&saved);
    free(json);
    return st;
}

enum osp_status bench_output_report(const struct bench_args *args, const struct bench_report *r)
{
    FILE *out;
    enum osp_status st;

    TRY(bench_output_open(&out, args));
    find_format(args->format)->print(out, r);
    TRY(bench_output_close(out, args));
    if (args->plot != NULL)
        st = plot_report(args->plot, r);
out:
    return st;
}
