/* Places in a JSON document: typed reading, and errors that name the place. */
#include "engine/chat/json_place.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES_MAX = 256 }; /* longer ones are cut */

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
    [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
    [JSON_FALSE] = "false",        [JSON_NULL] = "null",
};

struct place place_member(const struct place *in, const char *key)
{
    return (struct place){.in = in, .key = key, .value = json_object_get(in->value, key)};
}

struct place place_item(const struct place *in, size_t index)
{
    return (struct place){.in = in, .index = index, .value = json_array_get(in->value, index)};
}

size_t place_size(const struct place *p)
{
    return json_is_object(p->value) ? json_object_size(p->value) : json_array_size(p->value);
}

bool place_is_absent(const struct place *p)
{
    return p->value == NULL || json_is_null(p->value);
}

bool place_is_string(const struct place *p)
{
    return json_is_string(p->value);
}

bool place_is_array(const struct place *p)
{
    return json_is_array(p->value);
}

/* "tools[3].function.name"; "body" for the document. */
static void append_path(const struct place *p, struct buf *out)
{
    if (p->in == NULL) {
        buf_puts(out, "body");
        return;
    }
    if (p->in->in != NULL)
        append_path(p->in, out);
    if (p->key == NULL)
        buf_printf(out, "[%zu]", p->index);
    else
        buf_printf(out, "%s%s", p->in->in != NULL ? "." : "", p->key);
}

enum osp_status place_within(const struct place *p, enum osp_status code)
{
    struct buf path;

    if (code == OSP_OK)
        return OSP_OK;
    buf_init(&path, PATH_BYTES_MAX);
    append_path(p, &path);
    fail_prefix(code, "%s", buf_text(&path));
    buf_release(&path);
    return code;
}

enum osp_status place_fail(const struct place *p, const char *format, ...)
{
    char text[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return place_within(p, fail(OSP_EINVAL, "%s", text));
}

enum osp_status place_mismatch(const struct place *p, const char *wanted)
{
    return place_fail(p, "must be %s, is %s", wanted,
                      p->value != NULL ? type_names[json_typeof(p->value)] : "missing");
}

enum osp_status place_object(const struct place *p)
{
    return json_is_object(p->value) ? OSP_OK : place_mismatch(p, "an object");
}

enum osp_status place_array(const struct place *p)
{
    return json_is_array(p->value) ? OSP_OK : place_mismatch(p, "an array");
}

enum osp_status place_text(const struct place *p, struct harmony_text *out)
{
    if (!json_is_string(p->value))
        return place_mismatch(p, "a string");
    *out = (struct harmony_text){json_string_value(p->value), json_string_length(p->value)};
    return OSP_OK;
}

enum osp_status place_string(const struct place *p, const char **out)
{
    struct harmony_text text = {0};
    enum osp_status st;

    TRY(place_text(p, &text));
    if (strlen(text.data) != text.n_bytes)
        return place_fail(p, "has a NUL character");
    *out = text.data;
out:
    return st;
}

enum osp_status member_text(const struct place *in, const char *key, struct harmony_text *out)
{
    struct place p = place_member(in, key);

    *out = (struct harmony_text){0};
    return place_is_absent(&p) ? OSP_OK : place_text(&p, out);
}

enum osp_status member_string(const struct place *in, const char *key, const char **out)
{
    struct place p = place_member(in, key);

    *out = NULL;
    return place_is_absent(&p) ? OSP_OK : place_string(&p, out);
}

enum osp_status member_bool(const struct place *in, const char *key, bool *out)
{
    struct place p = place_member(in, key);

    *out = json_is_true(p.value);
    return place_is_absent(&p) || json_is_boolean(p.value) ? OSP_OK
                                                           : place_mismatch(&p, "true or false");
}
