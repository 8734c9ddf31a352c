/* Schemas of functions that are not strict: what the compiler refuses is left out, one location at
 * a time, until the rest compiles. Leaving a keyword out only allows more values. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "text/schema/schema_internal.h"

enum { LOCATIONS_MAX = 64 };

/* What a step of a pointer leads to. */
enum place_kind {
    PLACE_SCHEMA,
    PLACE_NAMED, /* an object of schemas */
    PLACE_LIST,  /* a list of schemas */
    PLACE_VALUE  /* of a keyword that has no schemas */
};

/* The deepest value of a pointer that exists. */
struct place_found {
    json_t *at;
    enum place_kind kind;
    json_t *owner;                          /* the schema that has the last keyword; NULL: none */
    char keyword[SCHEMA_POINTER_BYTES_MAX]; /* that keyword */
};

static enum place_kind kind_of(const char *keyword)
{
    static const struct {
        const char *keyword;
        enum place_kind kind;
    } KINDS[] = {
        {"properties", PLACE_NAMED},
        {"$defs", PLACE_NAMED},
        {"definitions", PLACE_NAMED},
        {"anyOf", PLACE_LIST},
        {"oneOf", PLACE_LIST},
        {"allOf", PLACE_LIST},
        {"prefixItems", PLACE_LIST},
        {"items", PLACE_SCHEMA},
        {"additionalProperties", PLACE_SCHEMA},
    };

    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strcmp(KINDS[i].keyword, keyword) == 0)
            return KINDS[i].kind;
    return PLACE_VALUE;
}

static json_t *member(json_t *of, const char *key)
{
    unsigned index;

    if (!json_is_array(of))
        return json_object_get(of, key);
    return sscanf(key, "%u", &index) == 1 ? json_array_get(of, index) : NULL;
}

/* The target of a $ref in the middle of a pointer, or NULL. */
static json_t *target_of(json_t *root, const json_t *ref)
{
    const char *text = json_string_value(ref);

    return text != NULL && text[0] == '#' ? schema_follow(root, text + 1) : NULL;
}

static struct place_found find_place(json_t *root, const char *pointer)
{
    struct place_found p = {.at = root, .kind = PLACE_SCHEMA};
    char key[SCHEMA_POINTER_BYTES_MAX];

    while (*pointer == '/' && p.kind != PLACE_VALUE) {
        json_t *next;

        pointer = schema_pointer_step(pointer + 1, key, sizeof key);
        next = member(p.at, key);
        if (next == NULL)
            break;
        if (p.kind == PLACE_SCHEMA && strcmp(key, "$ref") == 0 && *pointer == '/') {
            next = target_of(root, next);
            if (!json_is_object(next))
                break;
        } else if (p.kind == PLACE_SCHEMA) {
            p.owner = p.at;
            snprintf(p.keyword, sizeof p.keyword, "%s", key);
            p.kind = kind_of(key);
        } else {
            p.kind = PLACE_SCHEMA;
        }
        p.at = next;
    }
    return p;
}

/* Leaves only the type. False: there was nothing else. */
static bool keep_type(json_t *schema)
{
    json_t *type = json_incref(json_object_get(schema, "type"));
    const bool has_more = json_object_size(schema) > (type != NULL ? 1u : 0u);

    json_object_clear(schema);
    if (type != NULL)
        json_object_set_new(schema, "type", type);
    return has_more;
}

static bool drop_keyword(json_t *schema, const char *keyword)
{
    json_t *list = json_object_get(schema, keyword);

    if (list == NULL)
        return false;
    if (strcmp(keyword, "oneOf") == 0 && json_array_size(list) > 0 &&
        json_object_get(schema, "anyOf") == NULL)
        json_object_set(schema, "anyOf", list);
    return json_object_del(schema, keyword) == 0;
}

/* Leaves out what the pointer leads to. False: nothing was left to leave out. */
static bool relax(json_t *root, const char *pointer)
{
    struct place_found p = find_place(root, pointer);

    if (p.owner != NULL && strcmp(p.keyword, "oneOf") == 0)
        return drop_keyword(p.owner, "oneOf");
    if (p.kind == PLACE_SCHEMA && json_is_object(p.at) && keep_type(p.at))
        return true;
    if (p.kind == PLACE_SCHEMA && json_is_object(p.at) && json_object_size(p.at) > 0)
        return json_object_clear(p.at) == 0;
    return p.owner != NULL && drop_keyword(p.owner, p.keyword);
}

static void note(struct buf *ignored, const char *pointer)
{
    static const char MORE[] = ", ...";
    const char *what = pointer[0] != '\0' ? pointer : "the schema";

    if (ignored->size_bytes + strlen(what) + 2 * sizeof MORE <= SCHEMA_IGNORED_BYTES_MAX)
        buf_printf(ignored, "%s%s", ignored->size_bytes > 0 ? ", " : "", what);
    else if (ignored->size_bytes == 0)
        buf_printf(ignored, "%.80s%s", what, MORE);
    else if (strstr(buf_text(ignored), MORE) == NULL)
        buf_puts(ignored, MORE);
}

/* Arguments are objects, whatever the schema says. */
static void make_object(json_t *root, struct buf *ignored)
{
    const json_t *type = json_object_get(root, "type");
    bool allows_object = type == NULL;

    if (json_is_string(type))
        allows_object = strcmp(json_string_value(type), "object") == 0;
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *name = json_string_value(json_array_get(type, i));

        allows_object = allows_object || (name != NULL && strcmp(name, "object") == 0);
    }
    if (!allows_object)
        note(ignored, "/type");
    json_object_set_new(root, "type", json_string("object"));
}

static enum osp_status compile_rest(struct grammar **out, json_t *root,
                                    struct schema_options options, struct buf *ignored)
{
    struct budget budget = {COMPILE_WORK_MAX};
    char failed_at[SCHEMA_POINTER_BYTES_MAX];
    enum osp_status st;

    make_object(root, ignored);
    for (int i = 0; i < LOCATIONS_MAX; i++) {
        st = schema_compile(out, root, options, &budget, failed_at);
        if (st == OSP_OK || st == OSP_ENOMEM)
            return st;
        if (budget.work_left <= 0 || !relax(root, failed_at))
            break;
        make_object(root, ignored);
        note(ignored, failed_at);
    }
    buf_clear(ignored);
    note(ignored, "");
    return grammar_from_any_object(out, options);
}

enum osp_status grammar_from_loose_schema(struct grammar **out, const char *json, size_t n_bytes,
                                          struct schema_options options)
{
    json_t *root = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    struct buf ignored;
    enum osp_status st;

    *out = NULL;
    buf_init(&ignored, SCHEMA_IGNORED_BYTES_MAX);
    if (json_is_object(root)) {
        TRY(compile_rest(out, root, options, &ignored));
    } else {
        note(&ignored, "");
        TRY(grammar_from_any_object(out, options));
    }
    if (ignored.size_bytes > 0)
        (*out)->ignored = buf_take(&ignored);
out:
    buf_release(&ignored);
    json_decref(root);
    return st;
}
