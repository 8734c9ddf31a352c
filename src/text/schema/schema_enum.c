/* enum and const: each value that the other keywords allow, written out. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/grammar/regex.h"
#include "text/schema/schema_internal.h"

/* ---- writing ---- */

static enum osp_status quoted(struct schema_compiler *c, const char *text, size_t n, int32_t from,
                              int32_t to)
{
    struct buf string;
    enum osp_status st;

    buf_init(&string, SCHEMA_BYTES_MAX * 8);
    buf_json_string(&string, text, n);
    st = schema_literal(c, buf_text(&string), string.size_bytes, from, to);
    buf_release(&string);
    return st;
}

static enum osp_status enum_value(struct schema_compiler *c, const json_t *value, int32_t from,
                                  int32_t to);

/* from --punctuation--> new position. */
static enum osp_status punct_to_new(struct schema_compiler *c, enum punct_term punct, int32_t from,
                                    int32_t *to)
{
    enum osp_status st;

    TRY(grammar_add_node(c->g, to));
    st = schema_punct(c, punct, from, *to);
out:
    return st;
}

static enum osp_status enum_array(struct schema_compiler *c, const json_t *value, int32_t from,
                                  int32_t to)
{
    int32_t at, after;
    size_t i;
    json_t *item;
    enum osp_status st;

    TRY(punct_to_new(c, PUNCT_OPEN_LIST, from, &at));
    json_array_foreach(value, i, item)
    {
        if (i > 0)
            TRY(punct_to_new(c, PUNCT_COMMA, at, &at));
        TRY(grammar_add_node(c->g, &after));
        TRY(enum_value(c, item, at, after));
        at = after;
    }
    st = schema_punct(c, PUNCT_CLOSE_LIST, at, to);
out:
    return st;
}

static enum osp_status enum_object(struct schema_compiler *c, const json_t *value, int32_t from,
                                   int32_t to)
{
    int32_t at, after;
    const char *key;
    json_t *item;
    bool is_first = true;
    enum osp_status st;

    TRY(punct_to_new(c, PUNCT_OPEN, from, &at));
    json_object_foreach((json_t *)value, key, item)
    {
        if (!is_first)
            TRY(punct_to_new(c, PUNCT_COMMA, at, &at));
        is_first = false;
        TRY(grammar_add_node(c->g, &after));
        TRY(quoted(c, key, strlen(key), at, after));
        TRY(punct_to_new(c, PUNCT_COLON, after, &at));
        TRY(grammar_add_node(c->g, &after));
        TRY(enum_value(c, item, at, after));
        at = after;
    }
    st = schema_punct(c, PUNCT_CLOSE, at, to);
out:
    return st;
}

/* A value in its serialised form, keys in the schema's order. */
static enum osp_status enum_value(struct schema_compiler *c, const json_t *value, int32_t from,
                                  int32_t to)
{
    char *text;
    enum osp_status st;

    if (json_is_string(value))
        return quoted(c, json_string_value(value), json_string_length(value), from, to);
    if (json_is_array(value))
        return enum_array(c, value, from, to);
    if (json_is_object(value))
        return enum_object(c, value, from, to);
    text = json_dumps(value, JSON_ENCODE_ANY);
    st = text == NULL ? fail(OSP_ENOMEM, "out of memory: a value of an enum")
                      : schema_literal(c, text, strlen(text), from, to);
    free(text);
    return st;
}

/* ---- keywords beside enum and const ---- */

static bool is_for_numbers(const char *keyword)
{
    return strcmp(keyword, "minimum") == 0 || strcmp(keyword, "maximum") == 0 ||
           strcmp(keyword, "exclusiveMinimum") == 0 || strcmp(keyword, "exclusiveMaximum") == 0;
}

static bool fits_bound(const char *keyword, double bound, double value)
{
    if (strcmp(keyword, "minimum") == 0)
        return value >= bound;
    if (strcmp(keyword, "maximum") == 0)
        return value <= bound;
    return strcmp(keyword, "exclusiveMinimum") == 0 ? value > bound : value < bound;
}

static int64_t count_chars(const char *text)
{
    int64_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* "pattern" and "format": whether the string matches. */
static enum osp_status fits_regex(struct schema_compiler *c, const char *keyword,
                                  const char *wanted, const char *text, bool *fits)
{
    bool is_pattern = strcmp(keyword, "pattern") == 0;
    const char *regex = is_pattern ? wanted : schema_format_regex(wanted);
    struct dfa *dfa;
    enum osp_status st;

    if (regex == NULL)
        return fail(OSP_EINVAL, "the format \"%.100s\" is not supported", wanted);
    TRY(regex_compile(&dfa, regex, strlen(regex), (struct regex_options){.search = is_pattern},
                      &c->budget));
    *fits = dfa_matches(dfa, text, strlen(text));
    dfa_free(dfa);
out:
    return st;
}

static enum osp_status fits_string(struct schema_compiler *c, const char *keyword,
                                   const json_t *wanted, const char *text, bool *fits)
{
    if (strcmp(keyword, "minLength") == 0)
        *fits = (double)count_chars(text) >= json_number_value(wanted);
    else if (strcmp(keyword, "maxLength") == 0)
        *fits = (double)count_chars(text) <= json_number_value(wanted);
    else if (strcmp(keyword, "pattern") == 0 || strcmp(keyword, "format") == 0)
        return fits_regex(c, keyword, json_string_value(wanted), text, fits);
    return OSP_OK;
}

/* Whether one keyword, at `location`, allows a value; keywords of arrays and objects do not apply
 * to other values. */
static enum osp_status fits_keyword(struct schema_compiler *c, const char *keyword,
                                    const json_t *wanted, const json_t *value,
                                    const struct location *location, bool *fits)
{
    *fits = true;
    if (strcmp(keyword, "enum") == 0 || strcmp(keyword, "type") == 0 ||
        strcmp(keyword, "$defs") == 0 || strcmp(keyword, "definitions") == 0 ||
        schema_is_annotation(keyword))
        return OSP_OK;
    if (strcmp(keyword, "const") == 0)
        *fits = json_equal(wanted, value);
    else if (json_is_number(value) && is_for_numbers(keyword))
        *fits = fits_bound(keyword, json_number_value(wanted), json_number_value(value));
    else if (json_is_number(value) && strcmp(keyword, "multipleOf") == 0)
        return schema_is_multiple(c, wanted, value, location->up, fits);
    else if (json_is_string(value))
        return fits_string(c, keyword, wanted, json_string_value(value), fits);
    else if (json_is_array(value) || json_is_object(value))
        return fail(OSP_EINVAL, "not supported together with arrays or objects in enum or const");
    return OSP_OK;
}

static enum osp_status fits_all(struct schema_compiler *c, json_t *schema, const json_t *value,
                                const struct location *location, bool *fits)
{
    const char *k;
    json_t *wanted;
    enum osp_status st = OSP_OK;

    *fits = schema_type_matches(schema, value);
    json_object_foreach(schema, k, wanted)
    {
        const struct location at = {location, k, 0};

        if (!*fits)
            return OSP_OK;
        TRY(budget_spend(&c->budget, 8));
        TRY(schema_fail_at(c, &at, fits_keyword(c, k, wanted, value, &at, fits)));
    }
out:
    return st;
}

enum osp_status schema_enum(struct schema_compiler *c, json_t *schema,
                            const struct location *location, int32_t from, int32_t to)
{
    json_t *values = json_object_get(schema, "enum"), *value;
    json_t *list =
        values != NULL ? json_incref(values) : json_pack("[O]", json_object_get(schema, "const"));
    size_t i;
    bool fits;
    int n = 0;
    enum osp_status st = OSP_OK;

    json_array_foreach(list, i, value)
    {
        TRY(fits_all(c, schema, value, location, &fits));
        if (!fits)
            continue;
        TRY(enum_value(c, value, from, to));
        n++;
    }
    if (n == 0)
        schema_note_unsat(c, location, "no value of the list satisfies all keywords");
out:
    json_decref(list);
    return st;
}
