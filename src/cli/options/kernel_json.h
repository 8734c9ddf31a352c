/* --attention-config '{"backend": "FLASHINFER"}', which vLLM has beside --attention-backend. */
#ifndef CLI_OPTIONS_KERNEL_JSON_H
#define CLI_OPTIONS_KERNEL_JSON_H

#include "base/status.h"

/* Gives the backend to free(), or NULL when the text has none; names what else it has, once, on
 * standard error. OSP_EINVAL when it is no JSON object, or its backend no string. */
CHECKED enum osp_status kernel_json_backend(char **out, const char *json);

#endif
