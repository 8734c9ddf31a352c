/* Values: what of a plain schema is compiled how; objects, arrays, and anything. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/regex.h"
#include "text/schema/schema_parts.h"

enum osp_status schema_literal(struct compiling *c, const char *text, size_t n, int32_t from,
                               int32_t to)
{
    int32_t term;
    enum osp_status st;

    TRY(grammar_literal(c->g, text, n, &term));
    st = grammar_edge(c->g, from, EDGE_TERM, term, to);
out:
    return st;
}

enum osp_status schema_regex_term(struct compiling *c, const char *regex, int32_t *term)
{
    struct dfa *dfa;
    enum osp_status st;

    TRY(regex_compile(&dfa, regex, strlen(regex), (struct regex_options){false}, &c->budget));
    st = grammar_dfa(c->g, dfa, false, &c->budget, term);
out:
    return st;
}

/* Marks with the blanks that json.dumps puts around them: after ':' one, after ',' one or a line with its
 * indentation, inside of brackets a line with its indentation. */
#define LINE "(?:\\n {0,32})?"
static const struct {
    const char *compact, *spaced;
} mark_texts[N_MARKS] = {
    [MARK_OPEN] = {"\\{", "\\{" LINE},          [MARK_CLOSE] = {"\\}", LINE "\\}"},
    [MARK_OPEN_LIST] = {"\\[", "\\[" LINE},     [MARK_CLOSE_LIST] = {"]", LINE "]"},
    [MARK_COMMA] = {",", ",(?: |\\n {0,32})?"}, [MARK_COLON] = {":", ": ?"},
};

enum osp_status schema_mark(struct compiling *c, enum mark_term mark, int32_t from, int32_t to)
{
    enum osp_status st = OSP_OK;

    if (c->marks[mark] == NOT_YET)
        TRY(schema_regex_term(
            c, c->options.compact ? mark_texts[mark].compact : mark_texts[mark].spaced,
            &c->marks[mark]));
    st = grammar_edge(c->g, from, EDGE_TERM, c->marks[mark], to);
out:
    return st;
}

/* ---- anything ---- */

static enum osp_status any_string(struct compiling *c, int32_t from, int32_t to)
{
    enum osp_status st = OSP_OK;

    if (c->any_string == NOT_YET)
        TRY(grammar_string(c->g, 0, UNLIMITED_CHARS, &c->any_string));
    st = grammar_edge(c->g, from, EDGE_TERM, c->any_string, to);
out:
    return st;
}

static enum osp_status new_rule(struct compiling *c, int32_t *start, int32_t *end)
{
    enum osp_status st;

    TRY(grammar_position(c->g, start));
    TRY(grammar_position(c->g, end));
    c->g->positions[*end].is_end = true;
out:
    return st;
}

enum osp_status schema_any_object(struct compiling *c, int32_t *rule)
{
    int32_t end, first, key, colon, value, after, any;
    enum osp_status st = OSP_OK;

    *rule = c->any_object;
    if (*rule != NOT_YET)
        return OSP_OK;
    TRY(new_rule(c, rule, &end));
    c->any_object = *rule;
    TRY(grammar_position(c->g, &first));
    TRY(grammar_position(c->g, &key));
    TRY(grammar_position(c->g, &colon));
    TRY(grammar_position(c->g, &value));
    TRY(grammar_position(c->g, &after));
    TRY(schema_mark(c, MARK_OPEN, *rule, first));
    TRY(schema_mark(c, MARK_CLOSE, first, end));
    TRY(grammar_edge(c->g, first, EDGE_NOTHING, 0, key));
    TRY(any_string(c, key, colon));
    TRY(schema_mark(c, MARK_COLON, colon, value));
    TRY(schema_any(c, &any));
    TRY(grammar_edge(c->g, value, EDGE_RULE, any, after));
    TRY(schema_mark(c, MARK_COMMA, after, key));
    TRY(schema_mark(c, MARK_CLOSE, after, end));
out:
    return st;
}

static enum osp_status any_array(struct compiling *c, int32_t from, int32_t to)
{
    int32_t first, item, after;
    enum osp_status st;

    TRY(grammar_position(c->g, &first));
    TRY(grammar_position(c->g, &item));
    TRY(grammar_position(c->g, &after));
    TRY(schema_mark(c, MARK_OPEN_LIST, from, first));
    TRY(schema_mark(c, MARK_CLOSE_LIST, first, to));
    TRY(grammar_edge(c->g, first, EDGE_NOTHING, 0, item));
    TRY(grammar_edge(c->g, item, EDGE_RULE, c->any_value, after));
    TRY(schema_mark(c, MARK_COMMA, after, item));
    TRY(schema_mark(c, MARK_CLOSE_LIST, after, to));
out:
    return st;
}

enum osp_status schema_any(struct compiling *c, int32_t *rule)
{
    const struct place nowhere = {NULL, "", 0};
    json_t *nothing;
    int32_t end, object;
    enum osp_status st = OSP_OK;

    *rule = c->any_value;
    if (*rule != NOT_YET)
        return OSP_OK;
    nothing = json_object();
    json_array_append_new(c->made, nothing);
    TRY(new_rule(c, rule, &end));
    c->any_value = *rule;
    TRY(schema_literal(c, "null", 4, *rule, end));
    TRY(schema_literal(c, "true", 4, *rule, end));
    TRY(schema_literal(c, "false", 5, *rule, end));
    TRY(schema_number(c, nothing, false, &nowhere, *rule, end));
    TRY(any_string(c, *rule, end));
    TRY(schema_any_object(c, &object));
    TRY(grammar_edge(c->g, *rule, EDGE_RULE, object, end));
    TRY(any_array(c, *rule, end));
out:
    return st;
}

/* ---- plain schemas ---- */

static enum osp_status boolean(struct compiling *c, int32_t from, int32_t to)
{
    enum osp_status st;

    TRY(schema_literal(c, "true", 4, from, to));
    st = schema_literal(c, "false", 5, from, to);
out:
    return st;
}

static enum osp_status value_of_type(struct compiling *c, json_t *schema, unsigned type,
                                     const struct place *place, int32_t from, int32_t to)
{
    switch (type) {
    case TYPE_NULL:
        return schema_literal(c, "null", 4, from, to);
    case TYPE_BOOLEAN:
        return boolean(c, from, to);
    case TYPE_INTEGER:
        return schema_number(c, schema, true, place, from, to);
    case TYPE_NUMBER:
        return schema_number(c, schema, false, place, from, to);
    case TYPE_STRING:
        return schema_string(c, schema, place, from, to);
    case TYPE_ARRAY:
        return schema_array(c, schema, place, from, to);
    default:
        return schema_object(c, schema, place, from, to);
    }
}

enum osp_status schema_plain(struct compiling *c, json_t *schema, const struct place *place,
                             int32_t from, int32_t to)
{
    unsigned types = schema_types(schema);
    enum osp_status st = OSP_OK;

    if (json_object_get(schema, "enum") != NULL || json_object_get(schema, "const") != NULL)
        return schema_listed(c, schema, place, from, to);
    if (types & TYPE_NUMBER)
        types &= ~(unsigned)TYPE_INTEGER;
    for (unsigned bit = 1; bit <= TYPE_OBJECT; bit <<= 1)
        if (types & bit)
            TRY(value_of_type(c, schema, bit, place, from, to));
out:
    return st;
}
