/* Decides whether an answer is correct. */
#include <ctype.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/eval/eval.h"

/* ---- text ---- */

struct span {
    const char *data;
    size_t n_bytes;
};

static struct span trimmed(const struct buf *text)
{
    struct span s = {buf_text(text), text->size_bytes};

    while (s.n_bytes > 0 && isspace((unsigned char)s.data[0])) {
        s.data++;
        s.n_bytes--;
    }
    while (s.n_bytes > 0 && isspace((unsigned char)s.data[s.n_bytes - 1]))
        s.n_bytes--;
    return s;
}

static bool contains(struct span s, const char *part)
{
    return part != NULL && memmem(s.data, s.n_bytes, part, strlen(part)) != NULL;
}

static bool contains_all(struct span s, const json_t *parts)
{
    const json_t *part;
    size_t i;

    json_array_foreach(parts, i, part)
    {
        if (!contains(s, json_string_value(part)))
            return false;
    }
    return true;
}

static bool contains_any(struct span s, const json_t *parts)
{
    const json_t *part;
    size_t i;

    json_array_foreach(parts, i, part)
    {
        if (contains(s, json_string_value(part)))
            return true;
    }
    return false;
}

/* ---- styles ---- */

/* Lower-case letters of the scripts that the prompts use: ASCII, Latin-1 and Latin Extended-A,
 * where pairs are (upper, lower) from an even code point on, but for two ranges where the odd
 * one is upper. */
static bool is_lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'a' && c <= 'z';
    if (c < 0x100)
        return c >= 0xDF && c != 0xF7;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E))
        return c % 2 == 0;
    return c < 0x180 && c != 0x178 && (c % 2 == 1 || c == 0x138);
}

static bool is_upper_text(struct span s)
{
    bool has_upper = false, valid;
    uint32_t c;

    for (size_t i = 0; i < s.n_bytes;) {
        i += utf8_read(s.data + i, s.n_bytes - i, &c, &valid);
        if (is_lower(c))
            return false;
        has_upper = has_upper || (c >= 'A' && c <= 'Z');
    }
    return has_upper;
}

static bool is_one_word(struct span s)
{
    for (size_t i = 0; i < s.n_bytes; i++)
        if (isspace((unsigned char)s.data[i]))
            return false;
    return s.n_bytes > 0;
}

static bool has_style(struct span s, const char *style, const json_t *expect)
{
    if (style == NULL)
        return true;
    if (strcmp(style, "upper") == 0)
        return is_upper_text(s);
    if (strcmp(style, "one_word") == 0)
        return is_one_word(s);
    return strcmp(style, "pirate") == 0 && contains_any(s, json_object_get(expect, "any_of"));
}

/* ---- JSON ---- */

static bool same_value(const json_t *a, const json_t *b);

static bool same_objects(const json_t *a, json_t *b)
{
    const char *key;
    json_t *value;

    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach(b, key, value)
    {
        if (!same_value(json_object_get(a, key), value))
            return false;
    }
    return true;
}

static bool same_arrays(const json_t *a, const json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!same_value(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return true;
}

/* Compares JSON values: 1 equals 1.0, and the order of members does not matter. */
static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) <= json_number_value(b) &&
               json_number_value(a) >= json_number_value(b);
    if (json_is_object(a) && json_is_object(b))
        return same_objects(a, (json_t *)b);
    if (json_is_array(a) && json_is_array(b))
        return same_arrays(a, b);
    return json_equal(a, b) != 0;
}

/* ---- answers ---- */

static bool is_right_call(const json_t *expect, const struct eval_answer *answer)
{
    const char *name = json_string_value(json_object_get(expect, "name"));
    json_t *args = json_loadb(buf_text(&answer->args), answer->args.size_bytes,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    bool right = answer->n_calls == 1 && name != NULL && strcmp(answer->name, name) == 0 &&
                 args != NULL && same_value(args, json_object_get(expect, "arguments"));

    json_decref(args);
    return right;
}

static bool is_right_text(const json_t *expect, const struct eval_answer *answer)
{
    const char *equals = json_string_value(json_object_get(expect, "equals"));
    struct span s = trimmed(&answer->text);

    if (answer->n_calls > 0)
        return false;
    if (equals != NULL && (strlen(equals) != s.n_bytes || memcmp(equals, s.data, s.n_bytes) != 0))
        return false;
    return contains_all(s, json_object_get(expect, "contains")) &&
           has_style(s, json_string_value(json_object_get(expect, "style")), expect);
}

bool eval_judge(const struct eval_task *task, const struct eval_answer *answer)
{
    const char *kind = json_string_value(json_object_get(task->expect, "kind"));

    if (kind != NULL && strcmp(kind, "tool_call") == 0)
        return is_right_call(task->expect, answer);
    return is_right_text(task->expect, answer);
}
