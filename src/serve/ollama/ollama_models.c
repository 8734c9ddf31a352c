/* GET /api/tags, /api/ps and /api/version, POST /api/show: the served model in the form of Ollama.
 * A model of Ollama has a name and a tag, so that ":latest" is added to a name without one. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "serve/core/routes.h"
#include "serve/fields/json_types.h"
#include "serve/ollama/ollama.h"
#include "serve/reply/reply_parts.h"

enum {
    MODELS_BYTES_MAX = 64 << 10,
    NAME_BYTES = 512,
    DIGEST_BYTES = 65,
    DATE_BYTES = 40,
    MXFP4_BITS_MAX = 12 /* of a parameter, on average: BF16 weights have 16 */
};

/* Ollama's family of the gpt-oss models, which is the prefix of the keys of model_info, too. */
#define FAMILY "gptoss"
/* The model stays loaded. Clients parse it as a date, and Ollama's own shows "Forever" from 100
 * years on. */
#define NEVER "2318-01-01T00:00:00+00:00"

/* ---- parts ---- */

static void put_name(struct buf *out, const char *name)
{
    char tagged[NAME_BYTES];

    snprintf(tagged, sizeof tagged, "%s%s", name, strchr(name, ':') != NULL ? "" : ":latest");
    reply_put_string(out, tagged);
}

static uint64_t hash(uint64_t seed, const char *text)
{
    uint64_t h = 0xcbf29ce484222325u ^ seed; /* FNV-1a */

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

/* Tells models apart that differ in name or shape. It is not a digest of the weights, which would
 * have to be read for it. Clients show its first 12 digits. */
static void make_digest(char out[DIGEST_BYTES], const struct osp_model_info *m)
{
    char text[NAME_BYTES];

    snprintf(text, sizeof text, "%s %lld %lld %d %d", m->name, (long long)m->n_parameters,
             (long long)m->weight_bytes, m->n_layers, m->vocab_size);
    for (int i = 0; i < 4; i++)
        snprintf(out + (ptrdiff_t)16 * i, 17, "%016llx",
                 (unsigned long long)hash((uint64_t)i * 0x9e3779b97f4a7c15u, text));
}

static const char *quantization(const struct osp_model_info *m)
{
    return 8.0 * (double)m->weight_bytes < MXFP4_BITS_MAX * (double)m->n_parameters ? "MXFP4"
                                                                                    : "BF16";
}

static void put_details(struct buf *out, const struct osp_model_info *m)
{
    const double n = (double)m->n_parameters;

    buf_printf(out,
               "\"details\":{\"parent_model\":\"\",\"format\":\"%s\",\"family\":\"" FAMILY
               "\",\"families\":[\"" FAMILY "\"],",
               path_is_file(m->path) ? "gguf" : "safetensors");
    buf_printf(out, "\"parameter_size\":\"%.1f%c\",\"quantization_level\":\"%s\"",
               n < 1e9 ? n / 1e6 : n / 1e9, n < 1e9 ? 'M' : 'B', quantization(m));
    buf_printf(out, ",\"context_length\":%d,\"embedding_length\":%d}", m->context_tokens_max,
               m->width);
}

static void put_date(struct buf *out, const struct server *s)
{
    char date[DATE_BYTES];
    time_t at = (time_t)s->start_unix_s;
    struct tm utc;

    gmtime_r(&at, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    buf_printf(out, "\"modified_at\":\"%s\"", date);
}

static const char CAPABILITIES[] = "\"capabilities\":[\"completion\",\"tools\",\"thinking\"]";

/* The members that /api/tags and /api/ps have in common. */
static void put_model(struct buf *out, const struct server *s, const char *name, int64_t size_bytes)
{
    char digest[DIGEST_BYTES];

    make_digest(digest, &s->info);
    buf_puts(out, "{\"name\":");
    put_name(out, name);
    buf_puts(out, ",\"model\":");
    put_name(out, name);
    buf_printf(out, ",\"size\":%lld,\"digest\":\"%s\",", (long long)size_bytes, digest);
    put_details(out, &s->info);
}

static void respond(struct http_exchange *x, struct buf *body)
{
    buf_puts(body, "\n");
    http_respond(x, 200, "application/json", buf_text(body), body->size_bytes);
    buf_release(body);
}

/* ---- routes ---- */

void route_ollama_tags(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf body;

    (void)name;
    buf_init(&body, MODELS_BYTES_MAX);
    buf_puts(&body, "{\"models\":[");
    for (int i = 0; i < s->n_names; i++) {
        buf_puts(&body, i > 0 ? "," : "");
        put_model(&body, s, s->names[i], s->info.weight_bytes);
        buf_printf(&body, ",%s,", CAPABILITIES);
        put_date(&body, s);
        buf_puts(&body, "}");
    }
    buf_puts(&body, "]}");
    respond(x, &body);
}

void route_ollama_ps(struct server *s, struct http_exchange *x, const char *name)
{
    const struct osp_model_info *m = &s->info;
    const bool is_gpu = m->n_threads == 0; /* a device that computes everything itself */
    const int64_t size_bytes = m->weight_bytes + m->kv_cache_bytes;
    struct buf body;

    (void)name;
    buf_init(&body, MODELS_BYTES_MAX);
    buf_puts(&body, "{\"models\":[");
    for (int i = 0; i < s->n_names; i++) {
        buf_puts(&body, i > 0 ? "," : "");
        put_model(&body, s, s->names[i], size_bytes);
        buf_printf(&body, ",\"expires_at\":\"" NEVER "\",\"size_vram\":%lld,\"context_length\":%d}",
                   is_gpu ? (long long)size_bytes : 0LL, m->context_tokens_max);
    }
    buf_puts(&body, "]}");
    respond(x, &body);
}

void route_ollama_version(struct server *s, struct http_exchange *x, const char *name)
{
    struct buf body;

    (void)s;
    (void)name;
    buf_init(&body, MODELS_BYTES_MAX);
    buf_puts(&body, "{\"version\":\"" OLLAMA_VERSION "\"}");
    respond(x, &body);
}

static void put_model_info(struct buf *out, const struct osp_model_info *m)
{
    buf_printf(out,
               "\"model_info\":{\"general.architecture\":\"" FAMILY "\","
               "\"general.parameter_count\":%lld,\"" FAMILY ".context_length\":%d,"
               "\"" FAMILY ".block_count\":%d,\"" FAMILY ".embedding_length\":%d,",
               (long long)m->n_parameters, m->context_tokens_max, m->n_layers, m->width);
    buf_printf(out,
               "\"" FAMILY ".attention.head_count\":%d,\"" FAMILY ".attention.head_count_kv\":%d,"
               "\"" FAMILY ".expert_count\":%d,\"" FAMILY ".expert_used_count\":%d,"
               "\"" FAMILY ".vocab_size\":%d}",
               m->n_heads, m->n_kv_heads, m->n_experts, m->n_experts_active, m->vocab_size);
}

/* *out stays NULL if there is no such member. */
static enum osp_status read_name(const char **out, const json_t *body, const char *name)
{
    const json_t *v = json_object_get(body, name);

    if (v == NULL || json_is_null(v))
        return OSP_OK;
    *out = json_string_value(v);
    return *out != NULL ? OSP_OK : json_mismatch(name, v, "a string");
}

static enum osp_status check_verbose(const json_t *body)
{
    const json_t *v = json_object_get(body, "verbose");
    bool is_verbose;

    return v == NULL || json_is_null(v) ? OSP_OK : json_bool(&is_verbose, "verbose", v);
}

static enum osp_status answer_show(const struct token_job *job, const json_t *body, struct buf *out)
{
    const char *model = NULL, *older = NULL;
    enum osp_status st;

    TRY(read_name(&model, body, "model"));
    TRY(read_name(&older, body, "name"));
    TRY(check_verbose(body));
    if (model == NULL && older == NULL)
        return fail(OSP_EINVAL, "model: is missing");
    TRY(ollama_check_model(job->server, model != NULL ? model : older));
    buf_puts(out, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",");
    put_details(out, &job->server->info);
    buf_puts(out, ",");
    put_model_info(out, &job->server->info);
    buf_printf(out, ",%s,", CAPABILITIES);
    put_date(out, job->server);
    buf_puts(out, "}\n");
out:
    return st;
}

#define OTHER(name, form, text) FIELD_OTHER_ROW(name, 0, field_ignored, form, text)

static const struct field SHOW_FIELDS[] = {
    OTHER("model", "{'type':'string'}", "The name of the model, with or without :latest."),
    OTHER("name", "{'type':'string'}", "The older name of model."),
    FIELD_READ_ROW("verbose", 0, FIELD_BOOL, 0, 0, field_ignored, NULL,
                   "Has no effect: the answer has no tensors and no vocabulary."),
};
const struct field_set ollama_show_fields = {.own = SHOW_FIELDS,
                                             .n_own = sizeof SHOW_FIELDS / sizeof SHOW_FIELDS[0]};

void route_ollama_show(struct server *s, struct http_exchange *x, const char *name)
{
    static const struct token_kind kind = {.fields = &ollama_show_fields,
                                           .answer = answer_show,
                                           .checks_model = true,
                                           .takes_any_type = true};

    (void)name;
    token_job_start(s, x, &kind);
}
