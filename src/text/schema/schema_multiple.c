/* multipleOf: an automaton over the decimal digits whose state is the remainder so far. The divisor
 * is n / 10^k with integers n and k. A number with f <= k digits after the point, whose digits read
 * as the integer v, is a multiple when v * 10^(k - f) is divisible by n. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/schema/schema_decimal.h"
#include "text/schema/schema_internal.h"

enum {
    REMAINDERS_MAX = 4096, /* n * (k + 2) */
    DIGITS_MIN = 6,
    DIGITS_MAX = 18,
    /* of the intersection with an automaton that counts the digits of a number; the rest is for
     * what bounds add */
    COUNTED_STATES_MAX = DFA_STATES_MAX / 4 * 3
};

/* Bytes with the same transitions: the ten digits, then these, then all others. */
enum { CLASS_MINUS = 10, CLASS_POINT, CLASS_OTHER, N_CLASSES };
/* States before the remainders; state 0 is dead. */
enum { STATE_START = 1, STATE_SIGN, STATE_ZERO, N_FIXED };

struct divisor {
    uint32_t n;
    int k;
};

/* The state with f digits after the point and remainder r; f = k + 1: the point has been read, and
 * no digit after it. */
static uint32_t state_of(const struct divisor *d, int f, uint32_t r)
{
    return N_FIXED + (uint32_t)f * d->n + r;
}

static bool divides(const struct divisor *d, int f, uint32_t r)
{
    for (int i = f; i < d->k; i++)
        r = r * 10 % d->n;
    return r == 0;
}

/* False: not positive, or too many remainders. */
static bool read_divisor(const json_t *value, struct divisor *d)
{
    struct schema_decimal decimal;
    char digits[2 * DECIMAL_BYTES];
    unsigned long long n;

    if (!(json_is_integer(value) ? schema_decimal_integer(json_integer_value(value), &decimal)
                                 : schema_decimal_read(json_real_value(value), &decimal)))
        return false;
    d->k = (int)strlen(decimal.fraction);
    if (strlen(decimal.whole) + (size_t)d->k > DIGITS_MAX)
        return false;
    memcpy(digits, decimal.whole, strlen(decimal.whole) + 1);
    strcat(digits, decimal.fraction);
    n = strtoull(digits, NULL, 10);
    if (decimal.is_negative || n == 0 || n > REMAINDERS_MAX ||
        n * (unsigned)(d->k + 2) > REMAINDERS_MAX)
        return false;
    d->n = (uint32_t)n;
    return true;
}

static void set(struct dfa *a, uint32_t state, int class, uint32_t to)
{
    a->next[state * N_CLASSES + (uint32_t) class] = (uint16_t)to;
}

/* From each of these states a digit leads to the remainder of the number with that digit added. */
static void set_digits(struct dfa *a, const struct divisor *d, uint32_t from, int f, uint32_t r)
{
    for (int digit = 0; digit < 10; digit++)
        set(a, from, digit, state_of(d, f, (r * 10 + (uint32_t)digit) % d->n));
}

/* No zero stands before another digit of the integer part. */
static void add_integer_part(struct dfa *a, const struct divisor *d, bool has_fraction)
{
    a->start = STATE_START;
    set(a, STATE_START, CLASS_MINUS, STATE_SIGN);
    for (uint32_t state = STATE_START; state <= STATE_SIGN; state++) {
        set_digits(a, d, state, 0, 0);
        set(a, state, 0, STATE_ZERO);
    }
    a->accepts[STATE_ZERO] = true;
    if (has_fraction)
        set(a, STATE_ZERO, CLASS_POINT, state_of(d, d->k + 1, 0));
    for (uint32_t r = 0; r < d->n; r++) {
        set_digits(a, d, state_of(d, 0, r), 0, r);
        a->accepts[state_of(d, 0, r)] = divides(d, 0, r);
        if (has_fraction)
            set(a, state_of(d, 0, r), CLASS_POINT, state_of(d, d->k + 1, r));
    }
}

static void add_fraction(struct dfa *a, const struct divisor *d)
{
    for (uint32_t r = 0; r < d->n; r++) {
        set_digits(a, d, state_of(d, d->k + 1, r), 1, r);
        for (int f = 1; f <= d->k; f++) {
            a->accepts[state_of(d, f, r)] = divides(d, f, r);
            if (f < d->k)
                set_digits(a, d, state_of(d, f, r), f + 1, r);
        }
    }
}

static enum osp_status build(struct schema_compiler *c, const struct divisor *d, bool integer,
                             struct dfa **out)
{
    struct dfa *a = mem_new(sizeof *a);
    enum osp_status st;

    *out = NULL;
    a->n_states = N_FIXED + (uint32_t)(d->k + 2) * d->n;
    a->n_classes = N_CLASSES;
    memset(a->classes, CLASS_OTHER, sizeof a->classes);
    for (int digit = 0; digit < 10; digit++)
        a->classes['0' + digit] = (uint8_t)digit;
    a->classes['-'] = CLASS_MINUS;
    a->classes['.'] = CLASS_POINT;
    TRY(budget_spend(&c->budget, (int64_t)a->n_states * N_CLASSES));
    TRY(mem_try_array(&a->next, (size_t)a->n_states * N_CLASSES, sizeof *a->next, "multipleOf"));
    TRY(mem_try_array(&a->accepts, a->n_states, sizeof *a->accepts, "multipleOf"));
    add_integer_part(a, d, !integer && d->k > 0);
    if (!integer && d->k > 0)
        add_fraction(a, d);
    TRY(dfa_minimize(a, &c->budget));
    TRY(dfa_trim(a, &c->budget));
    *out = a;
    a = NULL;
out:
    dfa_free(a);
    return st;
}

enum osp_status schema_multiple(struct schema_compiler *c, const json_t *divisor, bool integer,
                                const struct location *location, struct dfa **out, int *n_digits)
{
    const struct location here = {location, "multipleOf", 0};
    struct divisor d;
    enum osp_status st;

    *out = NULL;
    if (json_number_value(divisor) <= 0)
        return schema_reject(c, &here, "must be greater than 0");
    if (!read_divisor(divisor, &d))
        return schema_reject(c, &here,
                             "%g is not supported: without its decimal point it must be at most "
                             "%d, and less with many decimal places",
                             json_number_value(divisor), REMAINDERS_MAX / 2);
    TRY(build(c, &d, integer, out));
    *n_digits = COUNTED_STATES_MAX / (int)(*out)->n_states;
    if (*n_digits > DIGITS_MAX)
        *n_digits = DIGITS_MAX;
    if (*n_digits >= DIGITS_MIN)
        return OSP_OK;
    dfa_free(*out);
    *out = NULL;
    return schema_reject(c, &here, "%g is not supported: it needs %d remainders, the limit is %d",
                         json_number_value(divisor), (int)d.n, COUNTED_STATES_MAX / DIGITS_MIN);
out:
    return st;
}

enum osp_status schema_is_multiple(struct schema_compiler *c, const json_t *divisor,
                                   const json_t *value, const struct location *location, bool *fits)
{
    struct schema_decimal decimal;
    char text[2 * DECIMAL_BYTES + 2];
    struct dfa *multiple;
    int n_digits;
    enum osp_status st;

    TRY(schema_multiple(c, divisor, false, location, &multiple, &n_digits));
    *fits = json_is_integer(value) ? schema_decimal_integer(json_integer_value(value), &decimal)
                                   : schema_decimal_read(json_real_value(value), &decimal);
    snprintf(text, sizeof text, "%s%s%s", decimal.whole, decimal.fraction[0] != '\0' ? "." : "",
             decimal.fraction);
    *fits = *fits && dfa_matches(multiple, text, strlen(text));
    dfa_free(multiple);
out:
    return st;
}
