#include "cli/validate_device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void add_line(void *ctx, const char *key, const char *text)
{
    struct validate_device *d = ctx;

    mem_grow(&d->lines, d->n_lines, &d->n_lines_max, sizeof *d->lines);
    d->lines[d->n_lines++] = (struct device_line){mem_strdup(key), mem_strdup(text)};
}

static bool is_gpu(const struct validate_device *d)
{
    return d->n_lines > 0 && strcmp(d->lines[0].key, "GPU") == 0;
}

enum osp_status validate_device_read(struct validate_device *out, const struct model_args *args)
{
    struct osp_model_options opt = {.device = args->options.device,
                                    .cpu_features = args->options.cpu_features};
    struct option_pairs device_options;
    enum osp_status st;

    TRY(model_args_kv_type(&opt.kv_cache_dtype, args));
    TRY(model_args_device_options(&device_options, args));
    opt.device_options = device_options.list;
    opt.n_device_options = device_options.n;
    TRY(osp_device_describe(&opt, add_line, out));
    if (is_gpu(out) || args->options.device != NULL)
        st = osp_device_check(&opt, out->checks, VALIDATE_CHECKS_MAX, &out->n_checks);
out:
    return st;
}

void validate_device_release(struct validate_device *d)
{
    for (size_t i = 0; i < d->n_lines; i++) {
        free(d->lines[i].key);
        free(d->lines[i].text);
    }
    free(d->lines);
    *d = (struct validate_device){0};
}

static bool passes(const struct osp_stage_check *c)
{
    return c->error <= c->limit;
}

int validate_device_failures(const struct validate_device *d)
{
    int n = 0;

    for (int i = 0; i < d->n_checks; i++)
        n += !passes(&d->checks[i]);
    return n;
}

void validate_device_print(const struct validate_device *d)
{
    for (size_t i = 0; i < d->n_lines; i++)
        printf("%-30s %s\n", d->lines[i].key, d->lines[i].text);
    for (int i = 0; i < d->n_checks; i++) {
        const struct osp_stage_check *c = &d->checks[i];
        char key[64];

        snprintf(key, sizeof key, "check of %s", c->stage);
        printf("%-30s relative error %.2g in the worst of %d calls, limit %g: %s\n", key, c->error,
               c->n_calls, c->limit, passes(c) ? "ok" : "FAILED");
    }
}

/* Texts of devices and kernels need no escapes: quotes, backslashes and control characters are left
 * out. */
static void print_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++)
        if (*text != '"' && *text != '\\' && (unsigned char)*text >= ' ')
            putchar(*text);
    putchar('"');
}

void validate_device_print_json(const struct validate_device *d)
{
    printf(",\"device\":[");
    for (size_t i = 0; i < d->n_lines; i++) {
        printf(i > 0 ? ",[" : "[");
        print_string(d->lines[i].key);
        putchar(',');
        print_string(d->lines[i].text);
        putchar(']');
    }
    printf("],\"checks\":[");
    for (int i = 0; i < d->n_checks; i++) {
        const struct osp_stage_check *c = &d->checks[i];

        printf("%s{\"stage\":\"%s\",\"calls\":%d,\"error\":%.6g,\"limit\":%g,\"ok\":%s}",
               i > 0 ? "," : "", c->stage, c->n_calls, c->error, c->limit,
               passes(c) ? "true" : "false");
    }
    putchar(']');
}
