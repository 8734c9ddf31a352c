#include "serve/fields/json_kwargs.h"

#include <stdio.h>
#include <string.h>

bool template_kwarg_is_known(const char *name)
{
#define IS_KWARG(kwarg)                                                                            \
    if (strcmp(name, kwarg) == 0)                                                                  \
        return true;
    TEMPLATE_KWARGS_LIST(IS_KWARG)
#undef IS_KWARG
    return false;
}

/* chat_read_document() reads the values of the known keys. */
enum osp_status json_read_template_kwargs(struct request_params *p, const char *field,
                                          const json_t *v)
{
    char name[64];
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)v, key, member)
    {
        if (template_kwarg_is_known(key))
            continue;
        snprintf(name, sizeof name, "%s.%s", field, key);
        fields_warn_ignored(p, name);
    }
    return OSP_OK;
}
