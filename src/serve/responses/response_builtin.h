/* Tools of the OpenAI API whose calls the client executes itself: shell, local_shell and
 * apply_patch. The model sees each as a function; a call of it becomes an item of the tool's own
 * type, and such items become calls of the function again. */
#ifndef SERVE_RESPONSES_RESPONSE_BUILTIN_H
#define SERVE_RESPONSES_RESPONSE_BUILTIN_H

#include <jansson.h>

#include "base/buf.h"

struct response_builtin {
    const char *name;                     /* type of the tool, and name of the function */
    const char *call_type;                /* of the item of a call */
    const char *output_type;              /* of the item of its result */
    const char *id;                       /* prefix of the ids of its items */
    const char *member;                   /* of the call item: what is to be executed */
    const char *description, *parameters; /* of the function; parameters: a JSON schema */
};

/* NULL: there is no such tool. */
const struct response_builtin *response_builtin_tool(const char *type);
const struct response_builtin *response_builtin_call(const char *item_type);
const struct response_builtin *response_builtin_output(const char *item_type);

/* The function, as a tool of a chat completion. The caller must json_decref() it. */
json_t *response_builtin_function(const struct response_builtin *b);

/* Writes the item's member that says what is to be executed, ,"action":{...}, from the arguments
 * of the call. False, and nothing is written: these are not the arguments of the function, for
 * example because the call was cut. */
bool response_builtin_put(const struct response_builtin *b, const char *arguments, size_t n_bytes,
                          struct buf *out);

/* The arguments of the function from that member of an item, as a JSON string to json_decref();
 * NULL: the member does not have its form, which *expected then describes. */
json_t *response_builtin_arguments(const struct response_builtin *b, const json_t *item,
                                   const char **expected);
/* The result that the model reads, likewise. */
json_t *response_builtin_result(const struct response_builtin *b, const json_t *item,
                                const char **expected);

#endif
