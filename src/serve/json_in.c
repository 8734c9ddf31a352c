#include "serve/json_in.h"

#include <stdlib.h>
#include <string.h>

#include "serve/json_fields.h"

enum { IGNORED_BYTES_MAX = 256 }; /* of names in a warning */

/* The name becomes part of a header of the response: nothing but harmless characters. */
static void note_ignored(struct chat_params *p, const char *name)
{
    if (p->ignored.size_bytes + strlen(name) + 2 > IGNORED_BYTES_MAX)
        return;
    buf_puts(&p->ignored, p->ignored.size_bytes ? ", " : "");
    for (; *name; name++)
        buf_putc(&p->ignored,
                 strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "_-.",
                        *name)
                     ? *name
                     : '?');
}

static enum osp_status parse(json_t **out, const char *json, size_t n_bytes)
{
    json_error_t error;

    *out = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!*out && error.line < 0)
        return fail(OSP_ENOMEM, "no memory for the JSON of a request");
    if (!*out)
        return fail(OSP_EFORMAT, "the body is not valid JSON (line %d, column %d): %s", error.line,
                    error.column, error.text);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return fail(OSP_EFORMAT, "the body must be a JSON object");
    }
    return OSP_OK;
}

enum osp_status chat_params_read(struct chat_params *out, const char *json, size_t n_bytes)
{
    enum osp_status st;
    json_t *body = NULL, *v;
    const char *name;
    bool known;

    buf_init(&out->ignored, IGNORED_BYTES_MAX);
    TRY(parse(&body, json, n_bytes));
    json_object_foreach(body, name, v)
    {
        TRY(chat_field_read(&known, out, name, v));
        if (!known)
            note_ignored(out, name);
    }
    TRY(chat_fields_agree(out));
out:
    json_decref(body);
    return st;
}

void chat_params_release(struct chat_params *p)
{
    for (int i = 0; i < OSP_STOP_STRINGS_MAX; i++)
        free(p->stops[i]);
    free(p->model);
    free(p->biases);
    free(p->allowed);
    free(p->form_text);
    free(p->client);
    free(p->salt);
    buf_release(&p->ignored);
    *p = (struct chat_params){0};
}

enum osp_status chat_body_without_tools(char **out, const char *json, size_t n_bytes)
{
    json_t *body = NULL;
    enum osp_status st = parse(&body, json, n_bytes);

    if (st != OSP_OK)
        return st;
    json_object_del(body, "tools");
    *out = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return *out ? OSP_OK : fail(OSP_ENOMEM, "out of memory for a request of %zu bytes", n_bytes);
}
