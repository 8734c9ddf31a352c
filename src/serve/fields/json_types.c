#include "serve/fields/json_types.h"

#include <math.h>
#include <stdio.h>

enum { VALUE_BYTES = 32 }; /* of a number as text */

/* A number as text; of other values the type. */
static const char *describe(const json_t *v, char out[VALUE_BYTES])
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",  [JSON_NULL] = "null"};

    if (json_is_integer(v))
        snprintf(out, VALUE_BYTES, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, VALUE_BYTES, "%g", json_real_value(v));
    else
        return v != NULL ? names[json_typeof(v)] : "missing";
    return out;
}

enum osp_status json_mismatch(const char *field, const json_t *v, const char *wanted)
{
    char found[VALUE_BYTES];

    return fail(OSP_EINVAL, "%s: must be %s, is %s", field, wanted, describe(v, found));
}

enum osp_status json_number(double *out, const char *field, const json_t *v, double min, double max)
{
    double number = json_number_value(v);
    char found[VALUE_BYTES];

    if (!json_is_number(v) || !(number >= min && number <= max))
        return fail(OSP_EINVAL, "%s: must be a number from %g to %g, is %s", field, min, max,
                    describe(v, found));
    *out = number;
    return OSP_OK;
}

/* Accepts a float without a fraction, such as 2.0. */
static bool integral_value(json_int_t *out, const json_t *v)
{
    static const double EXACT_MAX = 9007199254740992.0; /* 2^53 */
    const double number = json_real_value(v);

    if (!json_is_real(v) || !(fabs(number) <= EXACT_MAX) || floor(number) != number)
        return false;
    *out = (json_int_t)number;
    return true;
}

enum osp_status json_int(json_int_t *out, const char *field, const json_t *v, json_int_t min,
                         json_int_t max)
{
    json_int_t number = json_integer_value(v);
    const bool is_whole = json_is_integer(v) || integral_value(&number, v);
    char found[VALUE_BYTES];

    if (!is_whole || number < min || number > max)
        return fail(OSP_EINVAL, "%s: must be an integer from %lld to %lld, is %s", field,
                    (long long)min, (long long)max, describe(v, found));
    *out = number;
    return OSP_OK;
}

enum osp_status json_bool(bool *out, const char *field, const json_t *v)
{
    if (!json_is_boolean(v))
        return json_mismatch(field, v, "true or false");
    *out = json_is_true(v);
    return OSP_OK;
}
