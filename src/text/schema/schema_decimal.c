#include "text/schema/schema_decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest "%e" that reads back as the same number. */
static void shortest(double value, char text[64])
{
    for (int digits = 0; digits < 18; digits++) {
        snprintf(text, 64, "%.*e", digits, value);
        if (strtod(text, NULL) == value)
            return;
    }
}

bool schema_decimal_read(double value, struct schema_decimal *d)
{
    char text[64], digits[64];
    int n = 0, n_whole;
    const char *at = text;

    *d = (struct schema_decimal){.is_negative = value < 0, .is_zero = value == 0};
    if (!isfinite(value) || fabs(value) >= 1e19 || (value != 0 && fabs(value) < 1e-15))
        return false;
    shortest(fabs(value), text);
    for (; *at != 'e' && *at != '\0'; at++)
        if (*at != '.')
            digits[n++] = *at;
    n_whole = 1 + atoi(at + 1);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    for (int i = 0; i < n_whole; i++)
        d->whole[i] = i < n ? digits[i] : '0';
    if (n_whole <= 0)
        d->whole[0] = '0';
    if (d->is_zero)
        return true;
    for (int i = n_whole; i < n; i++)
        d->fraction[i - n_whole] = i < 0 ? '0' : digits[i];
    return strlen(d->fraction) <= DECIMAL_FRACTION_MAX;
}

bool schema_decimal_integer(json_int_t value, struct schema_decimal *d)
{
    *d = (struct schema_decimal){.is_negative = value < 0, .is_zero = value == 0};
    snprintf(d->whole, sizeof d->whole, "%llu",
             value < 0 ? 0ULL - (unsigned long long)value : (unsigned long long)value);
    return true;
}
