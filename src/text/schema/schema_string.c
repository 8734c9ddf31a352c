/* Strings. Lengths alone are counted while sampling; patterns, formats and their combinations with
 * lengths are intersected automata. */
#include "text/schema/schema_internal.h"

#include <stdio.h>
#include <string.h>

#include "text/grammar/regex.h"

#define HOUR  "(?:[01][0-9]|2[0-3])"
#define SIXTY "[0-5][0-9]"
#define TIME  HOUR ":" SIXTY ":" SIXTY "(?:\\.[0-9]{1,9})?(?:Z|[+-]" HOUR ":" SIXTY ")"
#define LEAP  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"                                \
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define LABEL    "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define HOST     LABEL "(?:\\." LABEL "){0,4}"
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,24}"
#define BYTE     "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4     BYTE "(?:\\." BYTE "){3}"
#define H16      "[0-9A-Fa-f]{1,4}"
#define URI_PART "[A-Za-z0-9._~/?@!$&'()*+,;=:-]*"
#define COUNT    "[0-9]{1,9}"

#define DAYS  "(?:" COUNT "Y(?:" COUNT "M(?:" COUNT "D)?)?|" COUNT "M(?:" COUNT "D)?|" COUNT "D)"
#define HOURS "T(?:" COUNT "H(?:" COUNT "M(?:" COUNT "S)?)?|" COUNT "M(?:" COUNT "S)?|" COUNT "S)"

/* The accepted language of each format: a subset of its standard, see docs/structured-output.md. */
static const struct {
    const char *name, *regex;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:" COUNT "W|" DAYS "(?:" HOURS ")?|" HOURS ")"},
    {"email", ATOM "(?:\\." ATOM ")?@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", "(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,6}:" H16 "|::(?:" H16 ":){0,5}" H16 "|::)"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,15}://" HOST "(?::[0-9]{1,5})?(?:[/?]" URI_PART
            ")?(?:#" URI_PART ")?"},
};

const char *schema_format_regex(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].regex;
    return NULL;
}

enum osp_status schema_intersect(struct schema_compiler *c, const struct location *location,
                                 struct dfa **out, const struct dfa *a, const struct dfa *b)
{
    enum osp_status st = dfa_combine(out, a, b, DFA_INTERSECTION, &c->budget);

    if (st != OSP_EINVAL)
        return st;
    schema_note_unsat(c, location, "no value satisfies all keywords");
    return OSP_OK;
}

/* The constraints on a string so far. */
struct intersection {
    struct schema_compiler *c;
    const struct location *location;
    struct dfa *dfa; /* owned; NULL: any string */
    bool is_unsatisfiable;
};

static enum osp_status intersect(struct intersection *n, const char *regex, size_t n_bytes,
                                 bool search)
{
    const struct regex_options options = {.json = true, .search = search};
    struct dfa *more = NULL, *product;
    enum osp_status st;

    if (n->is_unsatisfiable)
        return OSP_OK;
    TRY(regex_compile(&more, regex, n_bytes, options, &n->c->budget));
    if (n->dfa != NULL) {
        TRY(schema_intersect(n->c, n->location, &product, n->dfa, more));
        n->is_unsatisfiable = product == NULL;
        dfa_free(n->dfa);
        n->dfa = product;
    } else {
        n->dfa = more;
        more = NULL;
    }
out:
    dfa_free(more);
    return st;
}

static enum osp_status intersect_with(struct intersection *n, const json_t *schema,
                                      const char *keyword)
{
    const struct location at = {n->location, keyword, 0};
    const json_t *value = json_object_get(schema, keyword);
    const char *text = json_string_value(value);
    bool is_format = strcmp(keyword, "format") == 0;

    if (value == NULL)
        return OSP_OK;
    if (is_format && schema_format_regex(text) == NULL)
        return schema_reject(n->c, &at, "the format \"%.100s\" is not supported", text);
    if (is_format)
        return schema_fail_at(
            n->c, &at,
            intersect(n, schema_format_regex(text), strlen(schema_format_regex(text)), false));
    return schema_fail_at(n->c, &at, intersect(n, text, json_string_length(value), true));
}

static enum osp_status intersect_length(struct intersection *n, int64_t min_count,
                                        int64_t max_count)
{
    char regex[64];

    if (min_count == 0 && max_count == UNLIMITED_CHARS)
        return OSP_OK;
    if (max_count == UNLIMITED_CHARS)
        snprintf(regex, sizeof regex, "[\\s\\S]{%lld,}", (long long)min_count);
    else
        snprintf(regex, sizeof regex, "[\\s\\S]{%lld,%lld}", (long long)min_count,
                 (long long)max_count);
    return schema_fail_at(n->c, n->location, intersect(n, regex, strlen(regex), false));
}

enum osp_status schema_string(struct schema_compiler *c, const json_t *schema,
                              const struct location *location, int32_t from, int32_t to)
{
    int64_t min_count = schema_count(schema, "minLength", 0);
    int64_t max_count = schema_count(schema, "maxLength", UNLIMITED_CHARS);
    struct intersection n = {.c = c, .location = location};
    int32_t term;
    enum osp_status st = OSP_OK;

    if (min_count > max_count) {
        schema_note_unsat(c, location, "minLength is larger than maxLength");
        return OSP_OK;
    }
    TRY(intersect_with(&n, schema, "pattern"));
    TRY(intersect_with(&n, schema, "format"));
    if (n.dfa != NULL)
        TRY(intersect_length(&n, min_count, max_count));
    if (n.is_unsatisfiable)
        return OSP_OK;
    if (n.dfa == NULL) {
        TRY(grammar_add_string(c->g, (uint32_t)min_count, (uint32_t)max_count, &term));
    } else {
        st = grammar_add_dfa(c->g, n.dfa, true, &c->budget, &term);
        n.dfa = NULL;
        TRY(st);
    }
    st = grammar_add_edge(c->g, from, EDGE_TERM, term, to);
out:
    dfa_free(n.dfa);
    return st;
}
