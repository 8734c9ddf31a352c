/* Compact JSON output of a jansson value. jansson's own writer prints reals with 17 digits (0.1 as
 * 0.10000000000000001); this writer prints the fewest digits that read back as the same number.
 * Depth is bounded by jansson's parser. */
#include "text/harmony/harmony_value.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REAL_DIGITS_MAX = 17, /* enough for any double */
    PLAIN_POINT_MAX = 16, /* 1e16 and above are written with an exponent */
    PLAIN_POINT_MIN = -4  /* numbers below 1e-5 also have an exponent */
};

/* Shortest decimal digits of value >= 0, which is 0.DIGITS * 10^point. */
static int shortest_digits(double value, char digits[REAL_DIGITS_MAX + 1], int *point)
{
    char text[40];
    char *exponent;
    int n;

    for (n = 1; n <= REAL_DIGITS_MAX; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        if (n == REAL_DIGITS_MAX || strtod(text, NULL) == value)
            break;
    }
    exponent = strchr(text, 'e');
    *point = (int)strtol(exponent + 1, NULL, 10) + 1;
    digits[0] = text[0];
    /* After the decimal point of the locale */
    memcpy(digits + 1, exponent - (n - 1), (size_t)n - 1);
    digits[n] = '\0';
    return n;
}

static void append_zeros(struct buf *out, int n)
{
    for (int i = 0; i < n; i++)
        buf_putc(out, '0');
}

static void append_real(double value, struct buf *out)
{
    char digits[REAL_DIGITS_MAX + 1];
    int point;
    int n = shortest_digits(fabs(value), digits, &point);

    if (signbit(value))
        buf_putc(out, '-');
    if (point > PLAIN_POINT_MAX || point < PLAIN_POINT_MIN) {
        buf_printf(out, "%c%s%se%d", digits[0], n > 1 ? "." : "", digits + 1, point - 1);
    } else if (point <= 0) {
        buf_puts(out, "0.");
        append_zeros(out, -point);
        buf_puts(out, digits);
    } else if (n <= point) {
        buf_puts(out, digits);
        append_zeros(out, point - n);
        buf_puts(out, ".0");
    } else {
        buf_printf(out, "%.*s.%s", point, digits, digits + point);
    }
}

static void append_array(const json_t *array, struct buf *out)
{
    const json_t *item;
    size_t i;

    buf_putc(out, '[');
    json_array_foreach(array, i, item)
    {
        if (i > 0)
            buf_putc(out, ',');
        harmony_value_append(item, out);
    }
    buf_putc(out, ']');
}

static void append_object(json_t *object, struct buf *out)
{
    const char *separator = "";
    const char *key;
    json_t *member;

    buf_putc(out, '{');
    json_object_foreach(object, key, member)
    {
        buf_puts(out, separator);
        buf_json_string(out, key, strlen(key));
        buf_putc(out, ':');
        harmony_value_append(member, out);
        separator = ",";
    }
    buf_putc(out, '}');
}

void harmony_value_append(const struct json_t *value, struct buf *out)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        append_object((json_t *)(uintptr_t)value, out);
        return;
    case JSON_ARRAY:
        append_array(value, out);
        return;
    case JSON_STRING:
        buf_json_string(out, json_string_value(value), json_string_length(value));
        return;
    case JSON_INTEGER:
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return;
    case JSON_REAL:
        append_real(json_real_value(value), out);
        return;
    case JSON_TRUE:
        buf_puts(out, "true");
        return;
    case JSON_FALSE:
        buf_puts(out, "false");
        return;
    case JSON_NULL:
        buf_puts(out, "null");
        return;
    }
}
