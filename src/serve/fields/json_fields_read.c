/* Reads a request body with the table of its fields. */
#include <stdio.h>
#include <string.h>

#include "serve/fields/json_fields.h"
#include "serve/fields/llama_fields.h"
#include "serve/fields/json_types.h"

static const struct field *find(const struct field_set *set, const char *name)
{
    const struct field *f;

    for (size_t i = 0; (f = fields_at(set, i)) != NULL; i++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static enum osp_status read_int(int *out, const struct field *f, const json_t *v)
{
    json_int_t number = 0;
    enum osp_status st = json_int(&number, f->name, v, (json_int_t)f->min, (json_int_t)f->max);

    *out = (int)number;
    return st;
}

static enum osp_status read_float(float *out, const struct field *f, const json_t *v)
{
    double number = 0;
    enum osp_status st = json_number(&number, f->name, v, f->min, f->max);

    *out = (float)number;
    return st;
}

/* Checks the value, and stores it unless the field has a reader. */
static enum osp_status check_and_store(struct request_params *p, const struct field *f,
                                       const json_t *v)
{
    void *at = (char *)p + f->offset;
    bool flag;
    int whole;
    float real;

    switch (f->type) {
    case FIELD_BOOL:
        return json_bool(f->read ? &flag : at, f->name, v);
    case FIELD_INT:
        return read_int(f->read ? &whole : at, f, v);
    case FIELD_FLOAT:
        return read_float(f->read ? &real : at, f, v);
    case FIELD_OTHER:
        break;
    }
    return OSP_OK;
}

/* The name is sent in a response header, so every other character is replaced by '?'. */
static void put_safe_name(struct buf *out, const char *name)
{
    static const char safe_name[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    for (; *name; name++)
        buf_putc(out, strchr(safe_name, *name) ? *name : '?');
}

/* Whether the name is in the list, whose separator is ", ". */
static bool is_named(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static void note_ignored(struct buf *ignored, const char *name)
{
    struct buf safe_name;

    buf_init(&safe_name, IGNORED_BYTES_MAX);
    put_safe_name(&safe_name, name);
    if (!safe_name.overflow && *name && !is_named(buf_text(ignored), buf_text(&safe_name)) &&
        ignored->size_bytes + safe_name.size_bytes + 2 <= IGNORED_BYTES_MAX)
        buf_printf(ignored, "%s%s", ignored->size_bytes ? ", " : "", buf_text(&safe_name));
    buf_release(&safe_name);
}

void fields_warn_ignored(struct request_params *p, const char *name)
{
    note_ignored(&p->ignored, name);
}

void fields_warn(struct request_params *p, const char *what, const char *about)
{
    buf_printf(&p->warnings, "%s%s: %s", p->warnings.size_bytes > 0 ? "; " : "", what, about);
}

void fields_warn_unknown(struct buf *ignored, const struct field_set *set, const json_t *body)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)body, name, v)
    {
        if (find(set, name) == NULL)
            note_ignored(ignored, name);
    }
}

static enum osp_status read_field(struct request_params *p, const struct field_set *set,
                                  const char *name, const json_t *v)
{
    const struct field *f = find(set, name);
    enum osp_status st = OSP_OK;

    if (f == NULL)
        fields_warn_ignored(p, name);
    if (f == NULL || json_is_null(v))
        return OSP_OK;
    TRY(check_and_store(p, f, v));
    if (f->read)
        TRY(f->read(p, f->name, v));
out:
    return st;
}

enum osp_status fields_read_within(struct request_params *p, const struct field_set *set,
                                   const char *field, const json_t *object)
{
    const char *name;
    json_t *v;

    if (!json_is_object(object))
        return json_mismatch(field, object, "an object");
    json_object_foreach((json_t *)object, name, v)
    {
        char within[FAIL_MESSAGE_BYTES_MAX];
        const bool is_known = find(set, name) != NULL;
        enum osp_status st = is_known ? read_field(p, set, name, v) : OSP_OK;

        if (st != OSP_OK) {
            snprintf(within, sizeof within, "%s", fail_message());
            return fail(st, "%s.%s", field, within);
        }
        snprintf(within, sizeof within, "%s.%s", field, name);
        if (!is_known)
            fields_warn_ignored(p, within);
    }
    return OSP_OK;
}

/* Checks fields that depend on each other. */
static enum osp_status check_combination(const struct request_params *p)
{
    const struct osp_request_options *o = &p->options;

    if (o->tokens_max > 0 && o->tokens_min > o->tokens_max)
        return fail(OSP_EINVAL, "min_tokens: is %d; must be at most max_tokens, which is %d",
                    o->tokens_min, o->tokens_max);
    if (o->prompt_only && o->tokens_min > 0)
        return fail(OSP_EINVAL, "min_tokens: is %d; must be at most max_tokens, which is 0",
                    o->tokens_min);
    if (o->top_logprobs > 0 && !o->logprobs)
        return fail(OSP_EINVAL, "top_logprobs: requires \"logprobs\": true");
    if (p->wants_prompt_logprobs && p->stream)
        return fail(OSP_EUNSUPPORTED, "prompt_logprobs: cannot be combined with \"stream\": true");
    return OSP_OK;
}

enum osp_status fields_read(struct request_params *out, const struct field_set *set,
                            const json_t *body)
{
    enum osp_status st;
    const char *name;
    json_t *v;

    buf_init(&out->ignored, IGNORED_BYTES_MAX);
    buf_init(&out->warnings, WARNINGS_BYTES_MAX);
    json_object_foreach((json_t *)body, name, v) TRY(read_field(out, set, name, v));
    TRY(check_combination(out));
    TRY(llama_fields_finish(out));
out:
    return st;
}
