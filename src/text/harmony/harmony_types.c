/* JSON schema -> TypeScript-like type, byte for byte as openai/harmony 0.0.8 prints it, including
 * its oddities: a nested object closes at its children's indent, text of several lines gets no
 * further prefix, and enums before [] have no parentheses. The schema comes from the client: every
 * member may be of any JSON type, and members of a wrong type count as absent. */
#include "text/harmony/harmony_types.h"

#include <float.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/harmony/harmony_value.h"

enum { PROPERTY_INDENT = 4, VARIANT_INDENT = 3 };

static enum osp_status append_type(struct buf *out, const json_t *schema, int indent, int depth);

static void append_indent(struct buf *out, int indent)
{
    buf_printf(out, "%*s", indent, "");
}

/* Appends the bytes of a JSON string unchanged. */
static void append_raw(struct buf *out, const json_t *string)
{
    buf_append(out, json_string_value(string), json_string_length(string));
}

static void append_comment(struct buf *out, int indent, const json_t *string)
{
    append_indent(out, indent);
    buf_puts(out, "// ");
    append_raw(out, string);
    buf_putc(out, '\n');
}

/* The member if it is a string, else NULL. */
static const json_t *member_string(const json_t *schema, const char *key)
{
    const json_t *value = json_object_get(schema, key);

    return json_is_string(value) ? value : NULL;
}

static const json_t *member_array(const json_t *schema, const char *key)
{
    const json_t *value = json_object_get(schema, key);

    return json_is_array(value) ? value : NULL;
}

/* Appends the default of a schema that has one. Strings are in plain quotes, but without quotes if
 * the values are an enum's (as JSON among the variants of a type); everything else is JSON. */
static void append_default(struct buf *out, const json_t *schema, bool enum_as_json)
{
    const json_t *value = json_object_get(schema, "default");
    bool is_enum = json_array_size(json_object_get(schema, "enum")) > 0;

    buf_puts(out, "default: ");
    if (!json_is_string(value) || (is_enum && enum_as_json)) {
        harmony_value_append(value, out);
    } else if (is_enum) {
        append_raw(out, value);
    } else {
        buf_putc(out, '"');
        append_raw(out, value);
        buf_putc(out, '"');
    }
}

/* A type, followed by " | null" if the schema is nullable and the type does not include null. */
static enum osp_status append_nullable(struct buf *out, const json_t *schema, int indent, int depth)
{
    size_t begin = out->size_bytes;
    enum osp_status st = append_type(out, schema, indent, depth);

    if (st == OSP_OK && json_is_true(json_object_get(schema, "nullable")) &&
        memmem(buf_text(out) + begin, out->size_bytes - begin, "null", 4) == NULL)
        buf_puts(out, " | null");
    return st;
}

/* One line of a oneOf: the type, then description and default as a comment. */
static enum osp_status append_variant(struct buf *out, const json_t *variant,
                                      const json_t *description, bool enum_as_json, int indent,
                                      int depth)
{
    bool has_default = json_object_get(variant, "default") != NULL;
    enum osp_status st;

    append_indent(out, indent);
    buf_puts(out, " | ");
    TRY(append_nullable(out, variant, indent + VARIANT_INDENT, depth));
    if (description != NULL || has_default)
        buf_puts(out, " // ");
    if (description != NULL)
        append_raw(out, description);
    if (description != NULL && has_default)
        buf_putc(out, ' ');
    if (has_default)
        append_default(out, variant, enum_as_json);
out:
    return st;
}

/* A oneOf outside of a property: every variant on its own line. */
static enum osp_status append_one_of(struct buf *out, const json_t *variants, int indent, int depth)
{
    enum osp_status st = OSP_OK;
    const json_t *variant;
    size_t i;

    json_array_foreach(variants, i, variant)
    {
        buf_putc(out, '\n');
        TRY(append_variant(out, variant, member_string(variant, "description"), true, indent,
                           depth));
    }
out:
    return st;
}

static bool strings_equal(const json_t *a, const json_t *b)
{
    return a != NULL && b != NULL && json_equal(a, b);
}

static void append_key(struct buf *out, const char *key, bool required, int indent)
{
    append_indent(out, indent);
    buf_printf(out, "%s%s:", key, required ? "" : "?");
}

/* A property with a oneOf. Its description precedes it, unless the first variant has the same one.
 * A variant's description is omitted if it repeats the property's. */
static enum osp_status append_property_one_of(struct buf *out, const char *key,
                                              const json_t *property, bool required, int indent,
                                              int depth)
{
    const json_t *variants = member_array(property, "oneOf");
    const json_t *description = member_string(property, "description");
    const json_t *first = member_string(json_array_get(variants, 0), "description");
    bool is_above = description != NULL && !strings_equal(description, first);
    enum osp_status st = OSP_OK;
    const json_t *variant;
    size_t i;

    if (is_above)
        append_comment(out, indent, description);
    if (json_object_get(property, "default") != NULL) {
        append_indent(out, indent);
        buf_puts(out, "// ");
        append_default(out, property, false);
        buf_putc(out, '\n');
    }
    append_key(out, key, required, indent);
    buf_putc(out, '\n');
    json_array_foreach(variants, i, variant)
    {
        const json_t *text = member_string(variant, "description");

        if ((i == 0 && is_above) || strings_equal(text, description))
            text = NULL;
        TRY(append_variant(out, variant, text, false, indent, depth));
        buf_putc(out, '\n');
    }
    append_indent(out, indent);
    buf_puts(out, ",\n");
out:
    return st;
}

/* Title, description and examples, above the property. */
static void append_property_comments(struct buf *out, const json_t *property, int indent)
{
    const json_t *title = member_string(property, "title");
    const json_t *description = member_string(property, "description");
    const json_t *examples = member_array(property, "examples");
    const json_t *example;
    size_t i;

    if (title != NULL) {
        append_comment(out, indent, title);
        append_indent(out, indent);
        buf_puts(out, "//\n");
    }
    if (description != NULL && json_object_get(property, "oneOf") == NULL)
        append_comment(out, indent, description);
    if (json_array_size(examples) == 0)
        return;
    append_indent(out, indent);
    buf_puts(out, "// Examples:\n");
    json_array_foreach(examples, i, example)
    {
        if (!json_is_string(example))
            continue;
        append_indent(out, indent);
        buf_puts(out, "// - \"");
        append_raw(out, example);
        buf_puts(out, "\"\n");
    }
}

static enum osp_status append_property(struct buf *out, const char *key, const json_t *property,
                                       bool required, int indent, int depth)
{
    enum osp_status st;

    append_property_comments(out, property, indent);
    if (member_array(property, "oneOf") != NULL)
        return append_property_one_of(out, key, property, required, indent, depth);
    append_key(out, key, required, indent);
    buf_putc(out, ' ');
    TRY(append_nullable(out, property, indent + PROPERTY_INDENT, depth));
    buf_putc(out, ',');
    if (json_object_get(property, "oneOf") == NULL &&
        json_object_get(property, "default") != NULL) {
        buf_puts(out, " // ");
        append_default(out, property, false);
    }
    buf_putc(out, '\n');
out:
    return st;
}

/* The names under "required", as a set that the caller releases. */
static json_t *required_set(const json_t *schema)
{
    json_t *set = json_object();
    const json_t *name;
    size_t i;

    json_array_foreach(member_array(schema, "required"), i, name)
    {
        if (json_is_string(name))
            json_object_set_new(set, json_string_value(name), json_true());
    }
    return set;
}

static enum osp_status append_object(struct buf *out, const json_t *schema, int indent, int depth)
{
    const json_t *description = member_string(schema, "description");
    json_t *properties = json_object_get(schema, "properties");
    json_t *required = required_set(schema);
    enum osp_status st = OSP_OK;
    json_t *property;
    const char *key;

    if (description != NULL)
        append_comment(out, indent, description);
    buf_puts(out, "{\n");
    json_object_foreach(properties, key, property)
    {
        TRY(append_property(out, key, property, json_object_get(required, key) != NULL, indent,
                            depth));
    }
    append_indent(out, indent);
    buf_putc(out, '}');
out:
    json_decref(required);
    return st;
}

/* The strings of an array joined by " | "; false: there are no strings. */
static bool append_union(struct buf *out, const json_t *strings, bool quoted)
{
    const char *separator = "";
    const json_t *item;
    size_t i;

    json_array_foreach(strings, i, item)
    {
        if (!json_is_string(item))
            continue;
        buf_puts(out, separator);
        separator = " | ";
        if (quoted)
            buf_putc(out, '"');
        if (!quoted && strcmp(json_string_value(item), "integer") == 0)
            buf_puts(out, "number");
        else
            append_raw(out, item);
        if (quoted)
            buf_putc(out, '"');
    }
    return *separator != '\0';
}

static enum osp_status append_array(struct buf *out, const json_t *schema, int indent, int depth)
{
    const json_t *items = json_object_get(schema, "items");
    enum osp_status st = OSP_OK;

    if (items == NULL) {
        buf_puts(out, "Array<any>");
        return OSP_OK;
    }
    TRY(append_type(out, items, indent, depth));
    buf_puts(out, "[]");
out:
    return st;
}

/* The type named by "type"; "any" for a schema without a type known here. */
static enum osp_status append_named(struct buf *out, const json_t *schema, int indent, int depth)
{
    const json_t *type = member_string(schema, "type");
    const char *name = type != NULL ? json_string_value(type) : "";

    if (strcmp(name, "object") == 0)
        return append_object(out, schema, indent, depth);
    if (strcmp(name, "array") == 0)
        return append_array(out, schema, indent, depth);
    if (strcmp(name, "string") == 0) {
        if (!append_union(out, member_array(schema, "enum"), true))
            buf_puts(out, "string");
    } else if (strcmp(name, "number") == 0 || strcmp(name, "integer") == 0) {
        buf_puts(out, "number");
    } else if (strcmp(name, "boolean") == 0) {
        buf_puts(out, "boolean");
    } else {
        buf_puts(out, "any");
    }
    return OSP_OK;
}

static enum osp_status append_type(struct buf *out, const json_t *schema, int indent, int depth)
{
    const json_t *variants = member_array(schema, "oneOf");

    if (depth >= TYPE_DEPTH_MAX)
        return fail(OSP_EINVAL, "the schema nests deeper than the limit of %d levels",
                    TYPE_DEPTH_MAX);
    if (variants != NULL)
        return append_one_of(out, variants, indent, depth + 1);
    if (append_union(out, member_array(schema, "type"), false))
        return OSP_OK;
    return append_named(out, schema, indent, depth + 1);
}

enum osp_status harmony_type_append(const char *schema_json, struct buf *out, bool *absent)
{
    size_t n_bytes = strlen(schema_json);
    enum osp_status st = OSP_OK;
    json_error_t error;
    json_t *schema;

    if (n_bytes > TYPE_SCHEMA_BYTES_MAX)
        return fail(OSP_ELIMIT, "the schema has %zu bytes, limit is %d", n_bytes,
                    TYPE_SCHEMA_BYTES_MAX);
    schema = json_loadb(schema_json, n_bytes,
                        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (schema == NULL && error.line < 0)
        return fail(OSP_ENOMEM, "out of memory: the schema");
    if (schema == NULL)
        return fail(OSP_EINVAL, "not valid JSON: line %d, column %d: %s", error.line, error.column,
                    error.text);
    *absent = json_is_null(schema);
    if (json_is_object(schema))
        st = append_type(out, schema, 0, 0);
    else if (!*absent)
        st = fail(OSP_EINVAL, "the schema must be a JSON object");
    json_decref(schema);
    return st;
}
