/* Parses the values of options. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/options/option_parts.h"

static enum osp_status bad_value(const struct option_row *row, const char *text)
{
    return fail(OSP_EINVAL, "--%s %s: must be a number between %.10g and %.10g", row->name, text,
                row->min, row->max);
}

/* Factor of the letter after a number; 0: not a unit. For bytes k and K are 1024; for counts k is
 * 1000 and K is 1024, as in vLLM. */
static double unit_of(const struct option_row *row, char letter)
{
    const bool by_1000 = row->kind != OPTION_BYTES && islower((unsigned char)letter);
    const double step = by_1000 ? 1000 : 1024;

    switch (row->kind == OPTION_FLOAT ? '\0' : toupper((unsigned char)letter)) {
    case 'K':
        return step;
    case 'M':
        return step * step;
    case 'G':
        return step * step * step;
    default:
        return 0;
    }
}

static enum osp_status set_number(const struct option_row *row, char *field, const char *text)
{
    char *end;
    double number;

    if (row->kind == OPTION_LIMIT && strcmp(text, "auto") == 0)
        text = "-1";
    number = strtod(text, &end);
    if (end != text && unit_of(row, *end) > 0)
        number *= unit_of(row, *end++);
    if (end == text || *end || !(number >= row->min && number <= row->max) ||
        (row->kind != OPTION_FLOAT && number != (double)(int64_t)number))
        return bad_value(row, text);
    if (row->kind == OPTION_LIMIT && number < 0)
        number = 0;
    if (row->kind == OPTION_INT || row->kind == OPTION_LIMIT)
        memcpy(field, &(int){(int)number}, sizeof(int));
    else if (row->kind == OPTION_BYTES)
        memcpy(field, &(int64_t){(int64_t)number}, sizeof(int64_t));
    else
        memcpy(field, &(struct option_float){.is_set = true, .value = number},
               sizeof(struct option_float));
    return OSP_OK;
}

static enum osp_status set_flag(const struct option_row *row, char *field, const char *text)
{
    bool on = !text || str_in_list("1,true,yes,on", text);

    if (!on && !str_in_list("0,false,no,off", text) && *text)
        return fail(OSP_EINVAL, "--%s %s: must be true or false", row->name, text);
    memcpy(field, &on, sizeof on);
    return OSP_OK;
}

bool option_pairs_set(struct option_pairs *pairs, const char *name, const char *value)
{
    int i = 0;

    while (i < pairs->n && strcmp(pairs->list[i].name, name) != 0)
        i++;
    if (i == OSP_DEVICE_OPTIONS_MAX)
        return false;
    pairs->list[i] = (struct osp_device_option){.name = name, .value = value};
    pairs->n += i == pairs->n;
    return true;
}

/* The device checks the value (osp_model_open). */
static enum osp_status set_pair(const struct option_row *row, char *field, const char *text)
{
    if (option_pairs_set((struct option_pairs *)(void *)field, row->name, text))
        return OSP_OK;
    return fail(OSP_ELIMIT, "--%s: at most %d device options can be set", row->name,
                (int)OSP_DEVICE_OPTIONS_MAX);
}

enum osp_status option_set(const struct option_row *row, void *into, const char *text)
{
    char *field = (char *)into + row->offset;

    if (row->kind == OPTION_FLAG)
        return set_flag(row, field, text);
    if (row->kind == OPTION_DEVICE)
        return set_pair(row, field, text);
    if (row->kind != OPTION_TEXT)
        return set_number(row, field, text);
    memcpy(field, &text, sizeof text);
    return OSP_OK;
}
