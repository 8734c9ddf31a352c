#include "engine/chat/chat_custom_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* *regex: what the whole input must match; NULL: anything. Borrowed. */
static enum osp_status read_format(const struct place *custom, const char **regex)
{
    struct place format = place_member(custom, "format");
    struct place type_place = place_member(&format, "type");
    struct place grammar = place_member(&format, "grammar");
    struct place syntax_place, definition;
    const char *type, *syntax;
    enum osp_status st;

    *regex = NULL;
    if (place_is_absent(&format))
        return OSP_OK;
    TRY(place_object(&format));
    TRY(place_string(&type_place, &type));
    if (strcmp(type, "text") == 0)
        return OSP_OK;
    if (strcmp(type, "grammar") != 0)
        return place_fail(&type_place, "\"%.32s\" is not one of text, grammar", type);
    if (place_is_absent(&grammar))
        grammar = format; /* the form of the Responses API */
    TRY(place_object(&grammar));
    syntax_place = place_member(&grammar, "syntax");
    definition = place_member(&grammar, "definition");
    TRY(place_string(&syntax_place, &syntax));
    if (strcmp(syntax, "regex") != 0)
        return place_fail(&syntax_place, "\"%.32s\" is not supported, only \"regex\" is", syntax);
    TRY(place_string(&definition, regex));
out:
    return st;
}

/* Returns a string to free(), or NULL: no memory. */
static char *parameters_of(const char *regex)
{
    json_t *input = json_pack("{s:s}", "type", "string"), *all;
    char *pattern = regex != NULL ? mem_printf("^(?:%s)$", regex) : NULL, *text;

    if (pattern != NULL)
        json_object_set_new(input, "pattern", json_string(pattern));
    all = json_pack("{s:s,s:{s:o},s:[s],s:b}", "type", "object", "properties", "input", input,
                    "required", "input", "additionalProperties", 0);
    text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    free(pattern);
    return text;
}

enum osp_status chat_read_custom_tool(struct osp_chat *chat, const struct place *tool)
{
    struct place custom = place_member(tool, "custom");
    struct place name_place = place_member(&custom, "name");
    const char *name, *description, *regex;
    char *parameters = NULL;
    enum osp_status st;

    TRY(place_object(&custom));
    TRY(place_string(&name_place, &name));
    TRY(place_within(&name_place, harmony_name_check(name)));
    TRY(member_string(&custom, "description", &description));
    TRY(read_format(&custom, &regex));
    parameters = parameters_of(regex);
    if (parameters == NULL)
        return place_within(&custom, fail(OSP_ENOMEM, "no memory for it"));
    TRY(place_within(&custom, osp_chat_add_function(chat, name, description, parameters)));
    TRY(osp_chat_set_strict(chat, name));
out:
    free(parameters);
    return st;
}

enum osp_status chat_read_custom_call(struct osp_chat *chat, const struct place *call,
                                      const char *id)
{
    struct place custom = place_member(call, "custom");
    struct place name_place = place_member(&custom, "name");
    struct place input_path = place_member(&custom, "input");
    struct harmony_text input;
    json_t *arguments;
    char *text = NULL;
    const char *name;
    enum osp_status st;

    TRY(place_object(&custom));
    TRY(place_string(&name_place, &name));
    TRY(place_within(&name_place, harmony_name_check(name)));
    TRY(place_text(&input_path, &input));
    arguments = json_pack("{s:O}", "input", input_path.value);
    text = json_dumps(arguments, JSON_COMPACT);
    json_decref(arguments);
    if (text == NULL)
        return place_within(&input_path, fail(OSP_ENOMEM, "no memory for it"));
    TRY(place_within(
        call, chat_add_call_text(chat, id, name, (struct harmony_text){text, strlen(text)})));
out:
    free(text);
    return st;
}
