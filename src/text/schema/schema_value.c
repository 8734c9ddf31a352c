/* Values: selects the compiler for a plain schema; objects, arrays, and unrestricted values. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/regex.h"
#include "text/schema/schema_internal.h"

enum osp_status schema_literal(struct schema_compiler *c, const char *text, size_t n, int32_t from,
                               int32_t to)
{
    int32_t term;
    enum osp_status st;

    TRY(grammar_add_literal(c->g, text, n, &term));
    st = grammar_add_edge(c->g, from, EDGE_TERM, term, to);
out:
    return st;
}

enum osp_status schema_regex_term(struct schema_compiler *c, const char *regex, int32_t *term)
{
    struct dfa *dfa;
    enum osp_status st;

    TRY(regex_compile(&dfa, regex, strlen(regex), (struct regex_options){false}, &c->budget));
    st = grammar_add_dfa(c->g, dfa, false, &c->budget, term);
out:
    return st;
}

/* Punctuation with the white space of json.dumps: one space after ':'; after ',' one space or an
 * indented line; inside of brackets an indented line. */
#define LINE "(?:\\n {0,32})?"
static const struct {
    const char *compact, *spaced;
} punct_texts[N_PUNCTS] = {
    [PUNCT_OPEN] = {"\\{", "\\{" LINE},          [PUNCT_CLOSE] = {"\\}", LINE "\\}"},
    [PUNCT_OPEN_LIST] = {"\\[", "\\[" LINE},     [PUNCT_CLOSE_LIST] = {"]", LINE "]"},
    [PUNCT_COMMA] = {",", ",(?: |\\n {0,32})?"}, [PUNCT_COLON] = {":", ": ?"},
};

enum osp_status schema_punct(struct schema_compiler *c, enum punct_term punct, int32_t from,
                             int32_t to)
{
    enum osp_status st = OSP_OK;

    if (c->puncts[punct] == UNSET)
        TRY(schema_regex_term(
            c, c->options.compact ? punct_texts[punct].compact : punct_texts[punct].spaced,
            &c->puncts[punct]));
    st = grammar_add_edge(c->g, from, EDGE_TERM, c->puncts[punct], to);
out:
    return st;
}

/* ---- unrestricted values ---- */

static enum osp_status any_string(struct schema_compiler *c, int32_t from, int32_t to)
{
    enum osp_status st = OSP_OK;

    if (c->any_string == UNSET)
        TRY(grammar_add_string(c->g, 0, UNLIMITED_CHARS, &c->any_string));
    st = grammar_add_edge(c->g, from, EDGE_TERM, c->any_string, to);
out:
    return st;
}

static enum osp_status new_rule(struct schema_compiler *c, int32_t *start, int32_t *end)
{
    enum osp_status st;

    TRY(grammar_add_node(c->g, start));
    TRY(grammar_add_node(c->g, end));
    c->g->nodes[*end].is_end = true;
out:
    return st;
}

enum osp_status schema_any_object(struct schema_compiler *c, int32_t *rule)
{
    int32_t end, first, key, colon, value, after, any;
    enum osp_status st = OSP_OK;

    *rule = c->any_object;
    if (*rule != UNSET)
        return OSP_OK;
    TRY(new_rule(c, rule, &end));
    c->any_object = *rule;
    TRY(grammar_add_node(c->g, &first));
    TRY(grammar_add_node(c->g, &key));
    TRY(grammar_add_node(c->g, &colon));
    TRY(grammar_add_node(c->g, &value));
    TRY(grammar_add_node(c->g, &after));
    TRY(schema_punct(c, PUNCT_OPEN, *rule, first));
    TRY(schema_punct(c, PUNCT_CLOSE, first, end));
    TRY(grammar_add_edge(c->g, first, EDGE_EPSILON, 0, key));
    TRY(any_string(c, key, colon));
    TRY(schema_punct(c, PUNCT_COLON, colon, value));
    TRY(schema_any(c, &any));
    TRY(grammar_add_edge(c->g, value, EDGE_RULE, any, after));
    TRY(schema_punct(c, PUNCT_COMMA, after, key));
    TRY(schema_punct(c, PUNCT_CLOSE, after, end));
out:
    return st;
}

static enum osp_status any_array(struct schema_compiler *c, int32_t from, int32_t to)
{
    int32_t first, item, after;
    enum osp_status st;

    TRY(grammar_add_node(c->g, &first));
    TRY(grammar_add_node(c->g, &item));
    TRY(grammar_add_node(c->g, &after));
    TRY(schema_punct(c, PUNCT_OPEN_LIST, from, first));
    TRY(schema_punct(c, PUNCT_CLOSE_LIST, first, to));
    TRY(grammar_add_edge(c->g, first, EDGE_EPSILON, 0, item));
    TRY(grammar_add_edge(c->g, item, EDGE_RULE, c->any_value, after));
    TRY(schema_punct(c, PUNCT_COMMA, after, item));
    TRY(schema_punct(c, PUNCT_CLOSE_LIST, after, to));
out:
    return st;
}

enum osp_status schema_any(struct schema_compiler *c, int32_t *rule)
{
    const struct location nowhere = {NULL, "", 0};
    json_t *nothing;
    int32_t end, object;
    enum osp_status st = OSP_OK;

    *rule = c->any_value;
    if (*rule != UNSET)
        return OSP_OK;
    nothing = json_object();
    json_array_append_new(c->owned, nothing);
    TRY(new_rule(c, rule, &end));
    c->any_value = *rule;
    TRY(schema_literal(c, "null", 4, *rule, end));
    TRY(schema_literal(c, "true", 4, *rule, end));
    TRY(schema_literal(c, "false", 5, *rule, end));
    TRY(schema_number(c, nothing, false, &nowhere, *rule, end));
    TRY(any_string(c, *rule, end));
    TRY(schema_any_object(c, &object));
    TRY(grammar_add_edge(c->g, *rule, EDGE_RULE, object, end));
    TRY(any_array(c, *rule, end));
out:
    return st;
}

/* ---- plain schemas ---- */

static enum osp_status boolean(struct schema_compiler *c, int32_t from, int32_t to)
{
    enum osp_status st;

    TRY(schema_literal(c, "true", 4, from, to));
    st = schema_literal(c, "false", 5, from, to);
out:
    return st;
}

static enum osp_status value_of_type(struct schema_compiler *c, json_t *schema, unsigned type,
                                     const struct location *location, int32_t from, int32_t to)
{
    switch (type) {
    case TYPE_NULL:
        return schema_literal(c, "null", 4, from, to);
    case TYPE_BOOLEAN:
        return boolean(c, from, to);
    case TYPE_INTEGER:
        return schema_number(c, schema, true, location, from, to);
    case TYPE_NUMBER:
        return schema_number(c, schema, false, location, from, to);
    case TYPE_STRING:
        return schema_string(c, schema, location, from, to);
    case TYPE_ARRAY:
        return schema_array(c, schema, location, from, to);
    default:
        return schema_object(c, schema, location, from, to);
    }
}

enum osp_status schema_plain(struct schema_compiler *c, json_t *schema,
                             const struct location *location, int32_t from, int32_t to)
{
    unsigned types = schema_types(schema);
    enum osp_status st = OSP_OK;

    if (json_object_get(schema, "enum") != NULL || json_object_get(schema, "const") != NULL)
        return schema_enum(c, schema, location, from, to);
    if (types & TYPE_NUMBER)
        types &= ~(unsigned)TYPE_INTEGER;
    for (unsigned bit = 1; bit <= TYPE_OBJECT; bit <<= 1)
        if (types & bit)
            TRY(value_of_type(c, schema, bit, location, from, to));
out:
    return st;
}
