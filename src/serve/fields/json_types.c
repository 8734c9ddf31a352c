#include "serve/fields/json_types.h"

#include <math.h>

enum osp_status json_number(double *out, const char *field, const json_t *v, double min, double max)
{
    double number = json_number_value(v);

    if (!json_is_number(v) || !(number >= min && number <= max))
        return fail(OSP_EINVAL, "%s: must be a number from %g to %g", field, min, max);
    *out = number;
    return OSP_OK;
}

/* 2.0 is a whole number, too. */
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

    if (!is_whole || number < min || number > max)
        return fail(OSP_EINVAL, "%s: must be a whole number from %lld to %lld", field,
                    (long long)min, (long long)max);
    *out = number;
    return OSP_OK;
}

enum osp_status json_bool(bool *out, const char *field, const json_t *v)
{
    if (!json_is_boolean(v))
        return fail(OSP_EINVAL, "%s: must be true or false", field);
    *out = json_is_true(v);
    return OSP_OK;
}
