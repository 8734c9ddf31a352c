/* Numbers of a schema as decimal digits. */
#ifndef TEXT_SCHEMA_SCHEMA_DECIMAL_H
#define TEXT_SCHEMA_SCHEMA_DECIMAL_H

#include <jansson.h>
#include <stdbool.h>

enum { DECIMAL_BYTES = 400, DECIMAL_FRACTION_MAX = 17 };

/* A magnitude in decimal: digits before the point, without leading zeros except "0", and after it,
 * without trailing zeros. */
struct schema_decimal {
    char whole[DECIMAL_BYTES], fraction[DECIMAL_BYTES];
    bool is_negative, is_zero;
};

/* The shortest decimal that reads back as the same double: 1.25e-02 -> 0.0125. False: not finite,
 * 1e19 or more, or more than DECIMAL_FRACTION_MAX digits after the point. */
bool schema_decimal_read(double value, struct schema_decimal *d);
/* Exact where a double would round. Returns true. */
bool schema_decimal_integer(json_int_t value, struct schema_decimal *d);

#endif
