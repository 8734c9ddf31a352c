/* Reads the texts of items in all their forms. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/str.h"
#include "serve/responses/response_input_parts.h"
#include "serve/stored/response_store.h"

/* ---- places ---- */

const char *input_path(int item, char out[INPUT_PATH_BYTES])
{
    if (item >= 0)
        snprintf(out, INPUT_PATH_BYTES, "input[%d]", item);
    else
        snprintf(out, INPUT_PATH_BYTES, "%s",
                 item == INPUT_IS_STRING      ? "input"
                 : item == INPUT_PREVIOUS     ? "previous_response_id"
                 : item == INPUT_CONVERSATION ? "conversation"
                                              : "instructions");
    return out;
}

enum osp_status input_error(const struct response_input *in, const char *member, const char *format,
                            ...)
{
    char place[INPUT_PATH_BYTES], why[FAIL_MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return fail(OSP_EINVAL, "%s%s: %s", input_path(in->item, place), member, why);
}

enum osp_status input_no_memory(void)
{
    return fail(OSP_ENOMEM, "out of memory for the items of the request");
}

/* ---- members ---- */

bool input_is_phase(const json_t *phase)
{
    return !phase || json_is_null(phase) ||
           (json_is_string(phase) &&
            str_in_list("commentary,final_answer", json_string_value(phase)));
}

enum osp_status input_string(const struct response_input *in, const json_t *item, const char *name,
                             const json_t **out)
{
    char member[INPUT_PATH_BYTES];

    *out = json_object_get(item, name);
    if (json_is_string(*out))
        return OSP_OK;
    snprintf(member, sizeof member, ".%s", name);
    return input_error(in, member, "must be a string");
}

/* Appends the text of one part of a list; a refusal counts as text. */
static enum osp_status add_part(const struct response_input *in, const char *list, size_t i,
                                const json_t *part, struct buf *out)
{
    static const char texts[] = "input_text,output_text,text,reasoning_text,summary_text";
    const char *type = json_string_value(json_object_get(part, "type"));
    bool is_refusal = type && strcmp(type, "refusal") == 0;
    const json_t *text = json_object_get(part, is_refusal ? "refusal" : "text");
    char member[INPUT_PATH_BYTES];

    snprintf(member, sizeof member, ".%s[%zu].type", list, i);
    if (!type)
        return input_error(in, member, "must be a string");
    if (!is_refusal && !str_in_list(texts, type))
        return input_error(in, member, "\"%.32s\" is not supported: the model reads text only",
                           type);
    snprintf(member, sizeof member, ".%s[%zu].%s", list, i, is_refusal ? "refusal" : "text");
    if (!json_is_string(text))
        return input_error(in, member, "must be a string");
    if (!buf_append(out, json_string_value(text), json_string_length(text)))
        return buf_failure(out, "the text of an item");
    return OSP_OK;
}

enum osp_status input_text(const struct response_input *in, const json_t *item, const char *name,
                           json_t **out)
{
    const json_t *v = json_object_get(item, name);
    char member[INPUT_PATH_BYTES];
    struct buf text;
    enum osp_status st = OSP_OK;

    *out = NULL;
    snprintf(member, sizeof member, ".%s", name);
    if (!json_is_string(v) && !json_is_array(v))
        return input_error(in, member, "must be a string or a list of parts");
    buf_init(&text, INPUT_TEXT_BYTES_MAX);
    if (json_is_string(v))
        buf_append(&text, json_string_value(v), json_string_length(v));
    for (size_t i = 0; i < json_array_size(v); i++)
        TRY(add_part(in, name, i, json_array_get(v, i), &text));
    *out = json_stringn(buf_text(&text), text.size_bytes);
    if (text.overflow || !*out)
        st = input_no_memory();
out:
    buf_release(&text);
    return st;
}

enum osp_status input_reasoning(const struct response_input *in, const json_t *item, json_t **out)
{
    static const size_t n_prefix = sizeof ENCRYPTED_PREFIX - 1;
    const json_t *v = json_object_get(item, "encrypted_content");
    size_t n = json_string_length(v), n_bytes = 0;
    char *bytes = NULL;
    enum osp_status st;

    *out = NULL;
    if (!json_is_string(v))
        return OSP_OK;
    TRY(mem_try_array(&bytes, n + 1, 1, "the reasoning of a request"));
    if (n > n_prefix && memcmp(json_string_value(v), ENCRYPTED_PREFIX, n_prefix) == 0 &&
        base64_decode(json_string_value(v) + n_prefix, n - n_prefix, bytes, n, &n_bytes))
        *out = json_stringn(bytes, n_bytes); /* NULL: it is not UTF-8 */
    if (!*out)
        st = input_error(
            in, ".encrypted_content",
            "was not created by this server; remove it, or send the reasoning as content");
out:
    free(bytes);
    return st;
}
