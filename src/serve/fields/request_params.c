#include "serve/fields/request_params.h"

#include <stdlib.h>
#include <string.h>

enum osp_status json_body_read(json_t **out, const char *json, size_t n_bytes)
{
    json_error_t error;
    const char *nul = n_bytes > 0 ? memchr(json, '\0', n_bytes) : NULL;

    *out = NULL;
    if (nul != NULL) /* jansson ignores a NUL byte after a number */
        return fail(OSP_EFORMAT, "the body is not valid JSON (byte %zu): NUL byte",
                    (size_t)(nul - json) + 1);
    *out = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!*out && error.line < 0)
        return fail(OSP_ENOMEM, "out of memory for the JSON of the request");
    if (!*out && json_error_code(&error) == json_error_numeric_overflow)
        return fail(OSP_EFORMAT,
                    "the body has a number that is out of range (line %d, column %d, byte %d): "
                    "integers have 64 bits with sign",
                    error.line, error.column, error.position);
    if (!*out)
        return fail(OSP_EFORMAT, "the body is not valid JSON (line %d, column %d, byte %d): %s",
                    error.line, error.column, error.position, error.text);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return fail(OSP_EFORMAT, "the body must be a JSON object");
    }
    return OSP_OK;
}

void request_params_release(struct request_params *p)
{
    for (int i = 0; i < OSP_STOP_STRINGS_MAX; i++)
        free(p->stops[i]);
    free(p->model);
    free(p->biases);
    free(p->allowed);
    free(p->form_text);
    free(p->user);
    free(p->salt);
    free(p->prediction);
    for (int i = 0; i < p->options.n_tools; i++)
        free(p->tools[i]);
    free(p->tools);
    buf_release(&p->ignored);
    buf_release(&p->warnings);
    *p = (struct request_params){0};
}
