/* Numbers: a regular expression for the lower bound and one for the upper bound, each over the
 * decimal digits, and the intersection of their automata. Without bounds a number may have an
 * exponent; with bounds it is written without. The number of digits is limited, so that an answer
 * cannot consist of digits without end. */
#include "text/schema/schema_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/regex.h"
#include "text/schema/schema_decimal.h"

enum { FRACTION_DIGITS_MAX = DECIMAL_FRACTION_MAX, EXACT_DIGITS = 15 };

/* Exponents are limited so that a number of 18 digits stays within the range of a double. */
#define INTEGER_TEXT  "-?(?:0|[1-9][0-9]{0,17})"
#define FRACTION_TEXT "(?:\\.[0-9]{1,17})?"
#define EXPONENT_TEXT                                                                              \
    "(?:[eE](?:\\+?(?:[0-9]{1,2}|1[0-9]{2}|2[0-7][0-9])|-(?:[0-9]{1,2}|[12][0-9]{2})))?"

/* The shape of the numbers that are allowed. */
struct number_spec {
    bool integer, strict;
    int digits_max;      /* before the decimal point */
    size_t fraction_max; /* digits after the decimal point */
    char rest[40];       /* regular expression: any fraction, or empty */
};

/* ---- comparing digits ---- */

static void put_digit_range(struct buf *b, char low, char high)
{
    buf_printf(b, "[%c-%c]", low, high);
}

/* Digit strings of the same length as `digits` that are larger (smaller), as alternatives, each
 * followed by '|': the same digits up to some place, a different digit there, then any digits. No
 * leading zero, except "0" itself. */
static void put_other_digits(struct buf *b, const char *digits, bool larger, const char *rest)
{
    size_t n = strlen(digits);

    for (size_t i = 0; i < n; i++) {
        char low = larger ? (char)(digits[i] + 1) : i == 0 && n > 1 ? '1' : '0';
        char high = larger ? '9' : (char)(digits[i] - 1);

        if (low > high)
            continue;
        buf_printf(b, "%.*s", (int)i, digits);
        put_digit_range(b, low, high);
        buf_printf(b, "[0-9]{%zu}%s|", n - i - 1, rest);
    }
}

/* Integer parts that are larger. */
static void put_larger_whole(struct buf *b, const char *whole, const char *rest, int digits_max)
{
    size_t n = strlen(whole);

    put_other_digits(b, whole, true, rest);
    if (n < (size_t)digits_max)
        buf_printf(b, "[1-9][0-9]{%zu,%d}%s|", n, digits_max - 1, rest);
}

static void put_smaller_whole(struct buf *b, const char *whole, const char *rest)
{
    size_t n = strlen(whole);

    put_other_digits(b, whole, false, rest);
    if (n > 1)
        buf_printf(b, "0%s|", rest);
    if (n > 1 && n > 2)
        buf_printf(b, "[1-9][0-9]{0,%zu}%s|", n - 2, rest);
    else if (n == 2)
        buf_printf(b, "[1-9]%s|", rest);
}

/* Fractions, without the point, that are larger than this one or, unless strict, equal. "" is 0. */
static void put_larger_fraction(struct buf *b, const char *f, const struct number_spec *number_spec)
{
    size_t n = strlen(f), max_count = number_spec->fraction_max;
    bool strict = number_spec->strict;

    for (size_t i = 0; i < n; i++)
        if (f[i] < '9') {
            buf_printf(b, "%.*s", (int)i, f);
            put_digit_range(b, (char)(f[i] + 1), '9');
            buf_printf(b, "[0-9]{0,%zu}|", max_count - 1 - i);
        }
    if (!strict && n > 0)
        buf_printf(b, "%s[0-9]{0,%zu}|", f, max_count - n);
    for (size_t zeros = 0; strict && n + zeros < max_count; zeros++) {
        buf_puts(b, f);
        for (size_t i = 0; i < zeros; i++)
            buf_putc(b, '0');
        buf_printf(b, "[1-9][0-9]{0,%zu}|", max_count - 1 - n - zeros);
    }
}

static void put_smaller_fraction(struct buf *b, const char *f,
                                 const struct number_spec *number_spec)
{
    size_t n = strlen(f), max_count = number_spec->fraction_max;

    for (size_t i = 0; i < n; i++) {
        if (f[i] > '0') {
            buf_printf(b, "%.*s", (int)i, f);
            put_digit_range(b, '0', (char)(f[i] - 1));
            buf_printf(b, "[0-9]{0,%zu}|", max_count - 1 - i);
        }
        if (i > 0)
            buf_printf(b, "%.*s|", (int)i, f);
    }
    if (!number_spec->strict)
        buf_printf(b, "%s0{%d,%zu}|", f, n == 0, max_count - n);
}

static void drop_bar(struct buf *b)
{
    if (b->size_bytes > 0 && b->data[b->size_bytes - 1] == '|')
        b->data[--b->size_bytes] = '\0';
}

/* Numbers without a sign that are at least `d`, or larger than it. */
static void put_from(struct buf *b, const struct schema_decimal *d,
                     const struct number_spec *number_spec)
{
    bool integer = number_spec->integer, strict = number_spec->strict;

    put_larger_whole(b, d->whole, number_spec->rest, number_spec->digits_max);
    if (integer && !strict)
        buf_printf(b, "%s|", d->whole);
    if (integer)
        return;
    if (d->fraction[0] == '\0' && !strict) {
        buf_printf(b, "%s%s|", d->whole, number_spec->rest);
        return;
    }
    buf_printf(b, "%s\\.(?:", d->whole);
    put_larger_fraction(b, d->fraction, number_spec);
    drop_bar(b);
    buf_puts(b, ")|");
}

static void put_up_to(struct buf *b, const struct schema_decimal *d,
                      const struct number_spec *number_spec)
{
    bool has_fraction = d->fraction[0] != '\0', integer = number_spec->integer,
         strict = number_spec->strict;

    put_smaller_whole(b, d->whole, number_spec->rest);
    if (!strict || has_fraction)
        buf_printf(b, "%s|", d->whole);
    if (integer || (strict && !has_fraction))
        return;
    buf_printf(b, "%s\\.(?:", d->whole);
    put_smaller_fraction(b, d->fraction, number_spec);
    drop_bar(b);
    buf_puts(b, ")|");
}

/* ---- bounds ---- */

struct bound {
    double value;         /* NaN: no bound */
    const json_t *number; /* as written in the schema */
    bool strict;
};

/* All numbers without a sign. */
static void put_any(struct buf *b, const struct number_spec *number_spec)
{
    buf_printf(b, "(?:0|[1-9][0-9]{0,%d})%s", number_spec->digits_max - 1, number_spec->rest);
}

/* All numbers that satisfy the bound, with their sign. */
static void put_bound(struct buf *b, const struct schema_decimal *d, bool lower,
                      const struct number_spec *number_spec)
{
    /* All numbers of the opposite sign satisfy the bound */
    if (lower == d->is_negative && !d->is_zero) {
        buf_puts(b, lower ? "-(?:" : "(?:");
        put_up_to(b, d, number_spec);
        drop_bar(b);
        buf_puts(b, lower ? ")|" : ")|-");
        put_any(b, number_spec);
    } else if (d->is_zero && !lower && !number_spec->strict) {
        buf_puts(b, number_spec->integer ? "0|-" : "0(?:\\.0{1,17})?|-");
        put_any(b, number_spec);
    } else {
        buf_puts(b, lower ? "(?:" : "-(?:");
        put_from(b, d, number_spec);
        drop_bar(b);
        buf_putc(b, ')');
    }
}

/* The tighter of "minimum" and "exclusiveMinimum". */
static struct bound bound_of(const json_t *schema, bool lower)
{
    const json_t *open = json_object_get(schema, lower ? "exclusiveMinimum" : "exclusiveMaximum");
    const json_t *closed = json_object_get(schema, lower ? "minimum" : "maximum");
    struct bound b = {NAN, closed, false};

    if (closed != NULL)
        b.value = json_number_value(closed);
    if (open != NULL && !(closed != NULL && (lower ? b.value > json_number_value(open)
                                                   : b.value < json_number_value(open))))
        b = (struct bound){json_number_value(open), open, true};
    return b;
}

/* Rounds a bound to an integer. */
static void to_integer(struct bound *b, bool lower)
{
    double whole = lower ? ceil(b->value) : floor(b->value);

    b->strict = b->strict && whole == b->value;
    b->value = whole;
}

/* Decimals with at most 15 digits are exact to 15 digits as doubles. A longer decimal below an
 * exclusive bound may be rounded to the bound itself, which must not be allowed. */
static bool set_fraction(struct number_spec *number_spec, const struct schema_decimal *d)
{
    size_t n_whole = strlen(d->whole);

    number_spec->fraction_max = FRACTION_DIGITS_MAX;
    number_spec->rest[0] = '\0';
    if (number_spec->integer)
        return true;
    if (number_spec->strict && n_whole + strlen(d->fraction) >= EXACT_DIGITS)
        return false;
    if (number_spec->strict)
        number_spec->fraction_max = EXACT_DIGITS - n_whole;
    snprintf(number_spec->rest, sizeof number_spec->rest, "(?:\\.[0-9]{1,%zu})?",
             number_spec->fraction_max);
    return true;
}

static enum osp_status bound_dfa(struct schema_compiler *c, struct bound bound, bool lower,
                                 struct number_spec number_spec, const struct location *location,
                                 struct dfa **out)
{
    struct schema_decimal d;
    struct buf regex;
    enum osp_status st = OSP_OK;

    buf_init(&regex, REGEX_BYTES_MAX);
    if (number_spec.integer && json_is_real(bound.number))
        to_integer(&bound, lower);
    if (!(json_is_integer(bound.number)
              ? schema_decimal_integer(json_integer_value(bound.number), &d)
              : schema_decimal_read(bound.value, &d)))
        TRY(schema_reject(c, location,
                          "bounds of a number need fewer than 20 digits before the decimal point "
                          "and at most 17 after it"));
    number_spec.strict = bound.strict;
    if (!set_fraction(&number_spec, &d))
        TRY(schema_reject(c, location, "exclusive bounds of a number need fewer than 15 digits"));
    put_bound(&regex, &d, lower, &number_spec);
    TRY(regex_compile(out, buf_text(&regex), regex.size_bytes, (struct regex_options){false},
                      &c->budget));
out:
    buf_release(&regex);
    return st;
}

/* *out: NULL when no number is between the bounds. Bounds on both sides limit the number of digits,
 * so that the full range of 64 bits can be allowed. */
static enum osp_status bounded(struct schema_compiler *c, const struct bound *ends, bool integer,
                               int n_digits, const struct location *location, struct dfa **out)
{
    bool merge_values = !isnan(ends[0].value) && !isnan(ends[1].value);
    struct number_spec number_spec = {
        .integer = integer,
        .digits_max = n_digits < SCHEMA_DIGITS_MAX ? n_digits : SCHEMA_DIGITS_MAX + merge_values};
    struct dfa *min_count = NULL, *max_count = NULL;
    enum osp_status st = OSP_OK;

    if (!isnan(ends[0].value))
        TRY(bound_dfa(c, ends[0], true, number_spec, location, &min_count));
    if (!isnan(ends[1].value))
        TRY(bound_dfa(c, ends[1], false, number_spec, location, &max_count));
    if (merge_values) {
        st = schema_intersect(c, location, out, min_count, max_count);
    } else {
        *out = min_count != NULL ? min_count : max_count;
        min_count = max_count = NULL;
    }
out:
    dfa_free(min_count);
    dfa_free(max_count);
    return st;
}

static bool has_bounds(const struct bound *ends)
{
    return !isnan(ends[0].value) || !isnan(ends[1].value);
}

/* Numbers without an exponent that have at most n_digits before the point. */
static enum osp_status counted(struct schema_compiler *c, bool integer, int n_digits,
                               struct dfa **out)
{
    char regex[80];

    snprintf(regex, sizeof regex, "-?(?:0|[1-9][0-9]{0,%d})%s", n_digits - 1,
             integer ? "" : FRACTION_TEXT);
    return regex_compile(out, regex, strlen(regex), (struct regex_options){false}, &c->budget);
}

/* *out: NULL when no number fits. */
static enum osp_status multiples(struct schema_compiler *c, const json_t *schema,
                                 const struct bound *ends, bool integer,
                                 const struct location *location, struct dfa **out)
{
    struct dfa *multiple = NULL, *range = NULL;
    int n_digits;
    enum osp_status st;

    *out = NULL;
    TRY(schema_multiple(c, json_object_get(schema, "multipleOf"), integer, location, &multiple,
                        &n_digits));
    if (has_bounds(ends))
        TRY(bounded(c, ends, integer, n_digits, location, &range));
    else
        TRY(counted(c, integer, n_digits, &range));
    if (range != NULL)
        st = schema_intersect(c, location, out, multiple, range);
out:
    dfa_free(multiple);
    dfa_free(range);
    return st;
}

enum osp_status schema_number(struct schema_compiler *c, const json_t *schema, bool integer,
                              const struct location *location, int32_t from, int32_t to)
{
    static const char whole[] = INTEGER_TEXT, any[] = INTEGER_TEXT FRACTION_TEXT EXPONENT_TEXT;
    const struct bound ends[2] = {bound_of(schema, true), bound_of(schema, false)};
    const bool is_multiple = json_object_get(schema, "multipleOf") != NULL;
    struct dfa *dfa;
    int32_t term;
    enum osp_status st;

    if (!has_bounds(ends) && !is_multiple) {
        TRY(schema_regex_term(c, integer ? whole : any, &term));
    } else {
        TRY(is_multiple ? multiples(c, schema, ends, integer, location, &dfa)
                        : bounded(c, ends, integer, SCHEMA_DIGITS_MAX, location, &dfa));
        if (dfa == NULL)
            return OSP_OK;
        TRY(grammar_add_dfa(c->g, dfa, false, &c->budget, &term));
    }
    st = grammar_add_edge(c->g, from, EDGE_TERM, term, to);
out:
    return st;
}
