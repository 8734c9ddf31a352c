#include "cli/eval/quality.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/eval/eval.h"

enum {
    PROMPTS_DEFAULT = 2,
    ROWS = 32,             /* positions per step whose logits are computed together */
    CONTEXT_TOKENS = 2048, /* longer texts are cut */
    TEXT_BYTES_MAX = 64 << 20,
    REPORT_BYTES_MAX = 64 << 10
};

const char *const QUALITY_TEXTS[QUALITY_N_TEXTS] = {
    "The river rises in the hills to the north and runs for two hundred miles before it meets the "
    "sea. Along its upper course the valley is narrow, and the few farms stand high above the "
    "water, "
    "for in spring the melting snow can lift it by several feet in a single night. Further down "
    "the "
    "land opens. There are orchards, then fields of barley and beet, and at last the wide grey "
    "marsh "
    "where the herons stand.",
    "When the kettle boiled she poured the water over the leaves, waited four minutes by the clock "
    "on "
    "the wall, and filled two cups. \"You never did say why you came back,\" she said. He turned "
    "the "
    "cup in his hands. \"There was nobody left to ask me to stay away,\" he answered, and for a "
    "while "
    "neither of them spoke.",
    "To sort a list of n numbers, split it into two halves, sort each half by the same method, and "
    "merge the two sorted halves by taking, again and again, the smaller of the two numbers in "
    "front. "
    "Each level of halving touches every number once, and there are about log2(n) levels, so the "
    "whole takes a number of steps proportional to n log n.",
    "int count_words(const char *s)\n{\n    int n = 0, inside = 0;\n\n    for (; *s; s++) {\n      "
    "  "
    "if (*s == ' ' || *s == '\\n')\n            inside = 0;\n        else if (!inside) {\n         "
    "   "
    "inside = 1;\n            n++;\n        }\n    }\n    return n;\n}\n",
};

/* ---- texts ---- */

static enum osp_status add_plain(struct osp_quality *q, const struct osp_tokenizer *t,
                                 const char *text, size_t n_bytes, int n_tokens_max)
{
    int32_t *ids = NULL;
    size_t n;
    enum osp_status st;

    TRY(osp_tokenize(t, text, n_bytes, false, &ids, &n));
    if (n_tokens_max > 0 && n > (size_t)n_tokens_max)
        n = (size_t)n_tokens_max;
    TRY(osp_quality_add(q, ids, n));
out:
    osp_free(ids);
    return st;
}

static enum osp_status add_chat(struct osp_quality *q, const struct osp_tokenizer *t,
                                const struct osp_chat *chat)
{
    int32_t *ids = NULL;
    size_t n;
    enum osp_status st;

    TRY(osp_chat_render(chat, t, &ids, &n));
    TRY(osp_quality_add(q, ids, n));
out:
    osp_free(ids);
    return st;
}

static void log_progress(const struct quality_options *opt, const char *what, size_t done,
                         size_t all)
{
    if (!opt->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s %zu of %zu\033[K%s", what, done, all, done == all ? "\r\033[K" : "");
}

/* The prompts of eval.jsonl: conversations like those the model was trained on. */
static enum osp_status add_prompts(struct osp_quality *q, const struct osp_tokenizer *t,
                                   const char *path, const struct quality_options *opt)
{
    const struct eval_filter filter = {.n_max =
                                           opt->n_prompts > 0 ? opt->n_prompts : PROMPTS_DEFAULT};
    struct eval_tasks tasks = {.n = 0};
    enum osp_status st;

    TRY(eval_tasks_read(&tasks, path, &filter));
    for (size_t i = 0; i < tasks.n; i++) {
        TRY(add_chat(q, t, tasks.tasks[i].chat));
        log_progress(opt, "conversation", i + 1, tasks.n);
    }
out:
    eval_tasks_release(&tasks);
    return st;
}

static enum osp_status add_built_in(struct osp_quality *q, const struct osp_model *model,
                                    const struct quality_options *opt)
{
    const struct osp_tokenizer *t = osp_model_tokenizer(model);
    struct osp_model_info info;
    char *path;
    enum osp_status st = OSP_OK;

    osp_model_get_info(model, &info);
    path = path_beside(info.path, "eval.jsonl");
    for (size_t i = 0; i < QUALITY_N_TEXTS; i++) {
        TRY(add_plain(q, t, QUALITY_TEXTS[i], strlen(QUALITY_TEXTS[i]), 0));
        log_progress(opt, "text", i + 1, QUALITY_N_TEXTS);
    }
    if (path_is_file(path))
        TRY(add_prompts(q, t, path, opt));
out:
    free(path);
    return st;
}

static enum osp_status add_file(struct osp_quality *q, const struct osp_model *model,
                                const struct quality_options *opt)
{
    char *text = NULL;
    size_t n_bytes;
    enum osp_status st;

    TRY(file_read(&text, &n_bytes, opt->file, TEXT_BYTES_MAX));
    TRY(add_plain(q, osp_model_tokenizer(model), text, n_bytes, opt->n_tokens_max));
out:
    free(text);
    return st;
}

/* ---- models ---- */

static struct model_args scoring(const struct model_args *model)
{
    struct model_args m = *model;

    m.options.n_seqs_max = ROWS;
    m.options.n_batch_tokens_max = ROWS;
    if (m.options.context_tokens_max == 0)
        m.options.context_tokens_max = CONTEXT_TOKENS;
    return m;
}

/* The oracle: weights as stored, scalar kernels, and a float32 KV cache. */
static enum osp_status open_reference(struct osp_model **out, const struct model_args *model,
                                      const struct positional_args *positional,
                                      const struct quality_options *opt)
{
    const struct positional_args none = {0};
    struct model_args m = scoring(model);

    m.options.cpu_features = "ref";
    m.options.device = "cpu";
    m.device_options.n = 0;
    m.attention_config = NULL;
    m.gpu_memory_utilization.is_set = false;
    m.gpu_memory_utilization.value = 0;
    if (m.options.load_format == NULL || strcmp(m.options.load_format, "dummy") != 0)
        m.options.mxfp4_layers = NULL; /* generated weights have only this form */
    m.options.no_sinks = false;
    m.options.kv_cache_dtype = "f32";
    m.cache_type_k = m.cache_type_v = NULL;
    if (opt->reference != NULL)
        m.options.path = opt->reference;
    return model_args_open(out, &m, opt->reference != NULL ? &none : positional, opt->quiet);
}

static void describe(struct quality *out, const struct osp_model *model,
                     const struct osp_model *reference)
{
    struct osp_model_info info;

    osp_model_get_info(model, &info);
    snprintf(out->model, sizeof out->model, "%.63s", info.name);
    snprintf(out->setting, sizeof out->setting, "%.100s, KV cache %s", info.device,
             info.kv_cache_dtype);
    if (reference == NULL)
        return;
    osp_model_get_info(reference, &info);
    snprintf(out->reference, sizeof out->reference, "%.40s on %.80s", info.name, info.device);
}

enum osp_status quality_measure(struct quality *out, const struct model_args *model,
                                const struct positional_args *positional,
                                const struct quality_options *opt)
{
    const struct model_args args = scoring(model);
    struct osp_quality_options options = {.decode = opt->decode};
    struct osp_quality *q = NULL;
    uint64_t begin_ns = clock_ns();
    enum osp_status st;

    *out = (struct quality){.seconds = 0};
    TRY(model_args_open(&options.model, &args, positional, opt->quiet));
    if (!opt->alone)
        TRY(open_reference(&options.reference, model, positional, opt));
    TRY(osp_quality_open(&q, &options));
    TRY(opt->file != NULL ? add_file(q, options.model, opt) : add_built_in(q, options.model, opt));
    osp_quality_get(q, &out->result);
    describe(out, options.model, options.reference);
    out->seconds = (double)(clock_ns() - begin_ns) * 1e-9;
out:
    osp_quality_close(q);
    osp_model_close(options.model);
    osp_model_close(options.reference);
    return st;
}

/* ---- reports ---- */

static const char *arithmetic(const struct quality_options *opt)
{
    return opt->decode ? "decode" : "prompt";
}

void quality_print_table(FILE *out, const struct quality *q, const struct quality_options *opt)
{
    const struct osp_quality_result *r = &q->result;

    fprintf(out, "%s on %s, %s kernels, %lld tokens of %s, %.1f s\n\n", q->model, q->setting,
            opt->decode ? "decode" : "prefill", (long long)r->n_tokens,
            opt->file != NULL ? opt->file : "the built-in text", q->seconds);
    fprintf(out, "| perplexity | reference | KL mean | KL p99 | KL max | same top |\n"
                 "|---:|---:|---:|---:|---:|---:|\n");
    if (opt->alone)
        fprintf(out, "| %.4f | | | | | |\n", r->perplexity);
    else
        fprintf(out, "| %.4f | %.4f | %.3g | %.3g | %.3g | %.3f %% |\n\nreference: %s\n",
                r->perplexity, r->reference_perplexity, r->kl_mean, r->kl_p99, r->kl_max,
                100 * r->same_top_share, q->reference);
}

void quality_print_json(FILE *out, const struct quality *q, const struct quality_options *opt)
{
    const struct osp_quality_result *r = &q->result;
    struct buf b;

    buf_init(&b, REPORT_BYTES_MAX);
    buf_puts(&b, "{\"osprey\": \"" OSP_VERSION "\", \"model\": ");
    buf_json_string(&b, q->model, strlen(q->model));
    buf_puts(&b, ", \"device\": ");
    buf_json_string(&b, q->setting, strlen(q->setting));
    buf_printf(&b, ", \"arithmetic\": \"%s\", \"tokens\": %lld, \"perplexity\": %.9g",
               arithmetic(opt), (long long)r->n_tokens, r->perplexity);
    if (!opt->alone) {
        buf_puts(&b, ", \"reference\": ");
        buf_json_string(&b, q->reference, strlen(q->reference));
        buf_printf(&b,
                   ", \"reference_perplexity\": %.9g, \"kl_mean\": %.9g, \"kl_p99\": %.9g, "
                   "\"kl_max\": %.9g, \"same_top\": %.9g",
                   r->reference_perplexity, r->kl_mean, r->kl_p99, r->kl_max, r->same_top_share);
    }
    buf_printf(&b, ", \"seconds\": %.2f}\n", q->seconds);
    fputs(buf_text(&b), out);
    buf_release(&b);
}
