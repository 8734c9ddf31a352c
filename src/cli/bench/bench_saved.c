/* Reads earlier results from JSON: osprey's, or llama-benchy's, which has the same rows. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/bench/bench.h"

enum { RESULT_BYTES_MAX = 256 << 20 };

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static double number_in(const json_t *object, const char *outer, const char *inner)
{
    return number(json_object_get(object, outer), inner);
}

static enum osp_status read_row(struct saved_row *out, const json_t *row, const char *name)
{
    *out = (struct saved_row){
        .c = {.concurrency = (int)number(row, "concurrency"),
              .depth_tokens = (int)number(row, "context_size"),
              .pp_tokens = (int)number(row, "prompt_size"),
              .tg_tokens = (int)number(row, "response_size")},
        .pp = number_in(row, "pp_throughput", "mean"),
        .tg = number_in(row, "tg_throughput", "mean"),
        .ttft_p50 = number_in(row, "ttft_ms", "p50") * 1e-3,
    };
    if (out->c.concurrency < 1 || out->c.pp_tokens < 0 || out->c.tg_tokens < 0)
        return fail(OSP_EFORMAT,
                    "%s: benchmarks: a row lacks concurrency, prompt_size or "
                    "response_size",
                    name);
    return OSP_OK;
}

static enum osp_status read_rows(struct saved_bench *out, const json_t *root, const char *name)
{
    const json_t *rows = json_object_get(root, "benchmarks");
    enum osp_status st = OSP_OK;

    if (!json_is_array(rows))
        return fail(
            OSP_EFORMAT,
            "%s: has no array \"benchmarks\"; expected a result of osprey bench --format json",
            name);
    if (json_array_size(rows) > BENCH_CASES_MAX)
        return fail(OSP_ELIMIT, "%s: has %zu rows, limit is %d", name, json_array_size(rows),
                    (int)BENCH_CASES_MAX);
    for (size_t i = 0; i < json_array_size(rows); i++)
        TRY(read_row(&out->rows[out->n_rows++], json_array_get(rows, i), name));
out:
    return st;
}

static void read_rest(struct saved_bench *out, const json_t *root)
{
    const json_t *quality = json_object_get(root, "quality");
    const char *model = json_string_value(json_object_get(root, "model"));

    out->model = printable_new(model != NULL ? model : "");
    out->peak_bytes = (int64_t)number_in(root, "process", "peak_bytes");
    out->ready_seconds = number_in(root, "start", "ready_s");
    out->has_quality = quality != NULL;
    out->perplexity = number(quality, "perplexity");
    out->kl_mean = number(quality, "kl_mean");
    out->kl_p99 = number(quality, "kl_p99");
    out->same_top = number(quality, "same_top");
}

enum osp_status saved_bench_parse(struct saved_bench *out, const char *json, size_t n_bytes,
                                  const char *name)
{
    json_error_t error;
    json_t *root = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES, &error);
    enum osp_status st;

    *out = (struct saved_bench){.label = printable_new(name)};
    if (root == NULL) {
        st = fail(OSP_EFORMAT, "%s: line %d: %s", name, error.line, error.text);
        goto out;
    }
    TRY(read_rows(out, root, name));
    read_rest(out, root);
out:
    json_decref(root);
    if (st != OSP_OK)
        saved_bench_release(out);
    return st;
}

enum osp_status saved_bench_read(struct saved_bench *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *json = NULL;
    size_t n_bytes;
    enum osp_status st;

    *out = (struct saved_bench){.n_rows = 0};
    TRY(file_read(&json, &n_bytes, path, RESULT_BYTES_MAX));
    TRY(saved_bench_parse(out, json, n_bytes, path));
    free(out->label);
    out->label = printable_new(slash != NULL ? slash + 1 : path);
out:
    free(json);
    return st;
}

void saved_bench_release(struct saved_bench *s)
{
    free(s->model);
    free(s->label);
    *s = (struct saved_bench){.n_rows = 0};
}
