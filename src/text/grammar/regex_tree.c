/* Expression -> tree, by recursive descent. */
#include "text/grammar/regex_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

struct regex_parser {
    struct regex_tree *tree;
    struct budget *budget;
    const char *begin, *at, *end;
    int depth;
};

void regex_tree_release(struct regex_tree *t)
{
    free(t->nodes);
    free(t->ranges);
    *t = (struct regex_tree){.root = NO_NODE};
}

enum osp_status regex_tree_node(struct regex_tree *t, enum regex_kind kind, int *node)
{
    enum osp_status st;

    if (t->n_nodes == REGEX_NODES_MAX)
        return fail(OSP_ELIMIT, "the expression has more than the limit of %d parts",
                    (int)REGEX_NODES_MAX);
    TRY(mem_try_grow(&t->nodes, t->n_nodes, &t->capacity_nodes, sizeof *t->nodes, "an expression"));
    *node = (int)t->n_nodes++;
    t->nodes[*node] = (struct regex_node){.kind = kind, .last = NO_NODE, .previous = NO_NODE};
out:
    return st;
}

void regex_tree_append(struct regex_tree *t, int parent, int child)
{
    t->nodes[child].previous = t->nodes[parent].last;
    t->nodes[parent].last = child;
}

enum osp_status regex_tree_range(struct regex_tree *t, uint32_t low, uint32_t high)
{
    enum osp_status st;

    TRY(mem_try_grow(&t->ranges, t->n_ranges, &t->capacity_ranges, sizeof *t->ranges,
                     "an expression"));
    t->ranges[t->n_ranges++] = (struct range){low, high};
out:
    return st;
}

static int by_low(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

enum osp_status regex_tree_normalize(struct regex_tree *t, int first, bool negate)
{
    size_t n_all = t->n_ranges, n = (size_t)first;
    uint32_t next = 0; /* start of the next range of the complement */
    enum osp_status st = OSP_OK;

    if (n_all > n)
        qsort(t->ranges + n, n_all - n, sizeof *t->ranges, by_low);
    for (size_t i = (size_t)first; i < n_all; i++) {
        struct range r = t->ranges[i];

        if (n > (size_t)first && r.low <= t->ranges[n - 1].high + 1) {
            if (r.high > t->ranges[n - 1].high)
                t->ranges[n - 1].high = r.high;
        } else {
            t->ranges[n++] = r;
        }
    }
    t->n_ranges = n;
    if (!negate)
        return OSP_OK;
    for (size_t i = (size_t)first; i < n; i++) {
        struct range r = t->ranges[i];

        if (r.low > next)
            TRY(regex_tree_range(t, next, r.low - 1));
        next = r.high + 1;
    }
    if (next <= CODE_POINT_MAX)
        TRY(regex_tree_range(t, next, CODE_POINT_MAX));
    memmove(t->ranges + first, t->ranges + n, (t->n_ranges - n) * sizeof *t->ranges);
    t->n_ranges -= n - (size_t)first;
out:
    return st;
}

static enum osp_status syntax_error(const struct regex_parser *r, const char *target)
{
    return fail(OSP_EINVAL, "%s at byte %zu of the expression", target, (size_t)(r->at - r->begin));
}

static bool peek_is(const struct regex_parser *r, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
}

static bool accept_char(struct regex_parser *r, const char *text)
{
    if (!peek_is(r, text))
        return false;
    r->at += strlen(text);
    return true;
}

static uint32_t next_code_point(struct regex_parser *r)
{
    uint32_t code_point;
    bool valid;

    r->at += utf8_read(r->at, (size_t)(r->end - r->at), &code_point, &valid);
    return code_point;
}

/* ---- characters and classes ---- */

static const struct range digits[] = {{'0', '9'}};
static const struct range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct range spaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static const struct {
    char name;
    const struct range *ranges;
    int n;
} named_sets[] = {{'d', digits, 1}, {'w', words, 4}, {'s', spaces, 10}};

/* Adds a named set or its complement: "\d", "\D". */
static enum osp_status add_named(struct regex_parser *r, const struct range *ranges, int n,
                                 bool negate)
{
    uint32_t next = 0;
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i++) {
        if (!negate)
            TRY(regex_tree_range(r->tree, ranges[i].low, ranges[i].high));
        else if (ranges[i].low > next)
            TRY(regex_tree_range(r->tree, next, ranges[i].low - 1));
        next = ranges[i].high + 1;
    }
    if (negate)
        TRY(regex_tree_range(r->tree, next, CODE_POINT_MAX));
out:
    return st;
}

static enum osp_status read_hex(struct regex_parser *r, int n_digits, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < n_digits; i++) {
        char c = r->at < r->end ? *r->at : '\0';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return syntax_error(r, "missing hexadecimal digit");
        *value = *value << 4 | (uint32_t)digit;
        r->at++;
    }
    return OSP_OK;
}

/* After "\u": four digits, twice four for a surrogate pair, or "{...}". */
static enum osp_status read_unicode(struct regex_parser *r, uint32_t *value)
{
    uint32_t low;
    enum osp_status st;

    if (accept_char(r, "{")) {
        int n = 0;

        while (n < 6 && r->at + n < r->end && r->at[n] != '}')
            n++;
        TRY(read_hex(r, n, value));
        if (n == 0 || !accept_char(r, "}") || *value > CODE_POINT_MAX)
            return syntax_error(r, "invalid \\u{...}");
        return OSP_OK;
    }
    TRY(read_hex(r, 4, value));
    if (*value >= 0xD800 && *value < 0xDC00 && accept_char(r, "\\u")) {
        TRY(read_hex(r, 4, &low));
        if (low < 0xDC00 || low > 0xDFFF)
            return syntax_error(r, "unpaired surrogate");
        *value = 0x10000 + ((*value - 0xD800) << 10) + (low - 0xDC00);
    }
    if (*value >= 0xD800 && *value <= 0xDFFF)
        return syntax_error(r, "unpaired surrogate");
out:
    return st;
}

/* After a backslash: an escape that means one character. */
static enum osp_status read_escaped_character(struct regex_parser *r, uint32_t *value)
{
    static const char letters[] = "nrtfv0", means[] = "\n\r\t\f\v";
    char c;
    const char *letter;

    if (r->at == r->end)
        return syntax_error(r, "backslash without a character");
    c = *r->at++;
    letter = strchr(letters, c);
    if (c == 'x')
        return read_hex(r, 2, value);
    if (c == 'u')
        return read_unicode(r, value);
    if (c != '\0' && letter != NULL) {
        *value = (unsigned char)means[letter - letters];
        return OSP_OK;
    }
    r->at--;
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return syntax_error(r, c >= '1' && c <= '9'
                                   ? "unsupported back-reference (not a regular construct)"
                               : c == 'b' || c == 'B' ? "unsupported escape \\b"
                               : c == 'p' || c == 'P' ? "unsupported escape \\p"
                                                      : "unknown escape");
    *value = next_code_point(r);
    return OSP_OK;
}

/* After a backslash, in a class or outside: the ranges of a named set, or one character
 * (*is_one). */
static enum osp_status read_escape(struct regex_parser *r, bool *is_one, uint32_t *value)
{
    char c = r->at < r->end ? *r->at : '\0';

    *is_one = false;
    for (size_t i = 0; i < sizeof named_sets / sizeof named_sets[0]; i++)
        if (c == named_sets[i].name || c == named_sets[i].name - 'a' + 'A') {
            r->at++;
            return add_named(r, named_sets[i].ranges, named_sets[i].n, c != named_sets[i].name);
        }
    *is_one = true;
    return read_escaped_character(r, value);
}

/* One member of a class: a character, or a set, whose ranges have then been added. */
static enum osp_status read_member(struct regex_parser *r, bool *is_one, uint32_t *value)
{
    if (r->at == r->end)
        return syntax_error(r, "unclosed character class");
    if (accept_char(r, "\\")) {
        if (accept_char(r, "b")) {
            *is_one = true;
            *value = '\b';
            return OSP_OK;
        }
        return read_escape(r, is_one, value);
    }
    *is_one = true;
    *value = next_code_point(r);
    return OSP_OK;
}

static enum osp_status read_class_ranges(struct regex_parser *r)
{
    uint32_t low = 0, high = 0;
    bool is_one, ends_in_one;
    enum osp_status st = OSP_OK;

    while (!accept_char(r, "]")) {
        TRY(budget_spend(r->budget, 4));
        TRY(read_member(r, &is_one, &low));
        high = low;
        if (is_one && peek_is(r, "-") && !peek_is(r, "-]")) {
            r->at++;
            TRY(read_member(r, &ends_in_one, &high));
            if (!ends_in_one || high < low)
                return syntax_error(r, "descending range");
        }
        if (is_one)
            TRY(regex_tree_range(r->tree, low, high));
    }
out:
    return st;
}

/* A set node with the ranges from `first` on. */
static enum osp_status finish_set(struct regex_parser *r, size_t first, bool negate, int *node)
{
    enum osp_status st;

    TRY(regex_tree_normalize(r->tree, (int)first, negate));
    TRY(regex_tree_node(r->tree, REGEX_SET, node));
    r->tree->nodes[*node].first = (int)first;
    r->tree->nodes[*node].n = (int)(r->tree->n_ranges - first);
out:
    return st;
}

static enum osp_status read_set(struct regex_parser *r, int *node)
{
    size_t first = r->tree->n_ranges;
    bool negate = false, is_one = true;
    uint32_t value = 0;
    enum osp_status st;

    if (accept_char(r, "[")) {
        negate = accept_char(r, "^");
        TRY(read_class_ranges(r));
        return finish_set(r, first, negate, node);
    }
    if (accept_char(r, ".")) {
        TRY(add_named(r, line_ends, 3, true));
        return finish_set(r, first, false, node);
    }
    if (accept_char(r, "\\"))
        TRY(read_escape(r, &is_one, &value));
    else
        value = next_code_point(r);
    if (is_one)
        TRY(regex_tree_range(r->tree, value, value));
    st = finish_set(r, first, false, node);
out:
    return st;
}

/* ---- groups and repetition ---- */

static enum osp_status read_alternatives(struct regex_parser *r, int *node);

static enum osp_status read_group(struct regex_parser *r, int *node)
{
    enum osp_status st;

    if (peek_is(r, "(?") && !peek_is(r, "(?:") &&
        !(peek_is(r, "(?<") && r->at + 3 < r->end && r->at[3] != '=' && r->at[3] != '!'))
        return syntax_error(r, "unsupported group (look-around or flags)");
    if (++r->depth > REGEX_DEPTH_MAX)
        return fail(OSP_ELIMIT, "groups are nested deeper than the limit of %d",
                    (int)REGEX_DEPTH_MAX);
    if (accept_char(r, "(?<"))
        while (r->at < r->end && *r->at != '>')
            r->at++;
    if (r->at == r->end)
        return syntax_error(r, "unclosed group");
    if (!accept_char(r, "(?:") && !accept_char(r, ">"))
        r->at++;
    TRY(read_alternatives(r, node));
    if (!accept_char(r, ")"))
        return syntax_error(r, "unclosed group");
    r->depth--;
out:
    return st;
}

static enum osp_status read_number(struct regex_parser *r, int *value)
{
    *value = 0;
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return syntax_error(r, "missing number");
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        *value = *value * 10 + (*r->at - '0');
        if (*value > REGEX_REPEAT_MAX)
            return fail(OSP_ELIMIT, "a repetition count exceeds the limit of %d",
                        (int)REGEX_REPEAT_MAX);
    }
    return OSP_OK;
}

static enum osp_status read_counts(struct regex_parser *r, int *min_count, int *max_count)
{
    enum osp_status st;

    TRY(read_number(r, min_count));
    *max_count = *min_count;
    if (accept_char(r, ",")) {
        *max_count = REGEX_UNBOUNDED;
        if (!peek_is(r, "}"))
            TRY(read_number(r, max_count));
    }
    if (!accept_char(r, "}") || (*max_count != REGEX_UNBOUNDED && *max_count < *min_count))
        return syntax_error(r, "invalid {m,n}");
out:
    return st;
}

/* Wraps *node in a repetition if one follows. Lazy repetitions match the same texts. */
static enum osp_status read_repeat(struct regex_parser *r, int *node)
{
    int min_count = 0, max_count = REGEX_UNBOUNDED, repeat;
    enum osp_status st = OSP_OK;

    if (accept_char(r, "+"))
        min_count = 1;
    else if (accept_char(r, "?"))
        max_count = 1;
    else if (accept_char(r, "{"))
        TRY(read_counts(r, &min_count, &max_count));
    else if (!accept_char(r, "*"))
        return OSP_OK;
    (void)accept_char(r, "?");
    if (peek_is(r, "*") || peek_is(r, "+") || peek_is(r, "?") || peek_is(r, "{"))
        return syntax_error(r, "nothing to repeat");
    TRY(regex_tree_node(r->tree, REGEX_REPEAT, &repeat));
    r->tree->nodes[repeat].min_count = min_count;
    r->tree->nodes[repeat].max_count = max_count;
    regex_tree_append(r->tree, repeat, *node);
    *node = repeat;
out:
    return st;
}

static enum osp_status read_item(struct regex_parser *r, int *node)
{
    enum osp_status st;

    TRY(budget_spend(r->budget, 4));
    if (accept_char(r, "^"))
        return regex_tree_node(r->tree, REGEX_BEGIN, node);
    if (accept_char(r, "$"))
        return regex_tree_node(r->tree, REGEX_END, node);
    if (peek_is(r, "*") || peek_is(r, "+") || peek_is(r, "?") || peek_is(r, "{"))
        return syntax_error(r, "nothing to repeat");
    if (peek_is(r, "("))
        TRY(read_group(r, node));
    else
        TRY(read_set(r, node));
    st = read_repeat(r, node);
out:
    return st;
}

static enum osp_status read_sequence(struct regex_parser *r, int *node)
{
    int item;
    enum osp_status st;

    TRY(regex_tree_node(r->tree, REGEX_CAT, node));
    while (r->at < r->end && *r->at != '|' && *r->at != ')') {
        TRY(read_item(r, &item));
        regex_tree_append(r->tree, *node, item);
    }
out:
    return st;
}

static enum osp_status read_alternatives(struct regex_parser *r, int *node)
{
    int item;
    enum osp_status st;

    TRY(regex_tree_node(r->tree, REGEX_ALT, node));
    do {
        TRY(read_sequence(r, &item));
        regex_tree_append(r->tree, *node, item);
    } while (accept_char(r, "|"));
out:
    return st;
}

enum osp_status regex_tree_read(struct regex_tree *t, const char *pattern, size_t n_bytes,
                                struct budget *budget)
{
    struct regex_parser r = {t, budget, pattern, pattern, pattern + n_bytes, 0};
    enum osp_status st;

    if (n_bytes > REGEX_BYTES_MAX)
        return fail(OSP_ELIMIT, "the expression has %zu bytes, limit is %d", n_bytes,
                    (int)REGEX_BYTES_MAX);
    if (!utf8_is_valid(pattern, n_bytes))
        return fail(OSP_EINVAL, "the expression is not UTF-8");
    TRY(read_alternatives(&r, &t->root));
    if (r.at < r.end)
        return syntax_error(&r, "unmatched )");
out:
    return st;
}
