/* --attention-config '{"backend": "FLASHINFER"}', vLLM's JSON form of --attention-backend. */
#ifndef CLI_OPTIONS_KERNEL_JSON_H
#define CLI_OPTIONS_KERNEL_JSON_H

#include "base/status.h"

/* Gives the backend to free(); NULL: the object has none. Warns about other members, which are
 * ignored. OSP_EINVAL: not a JSON object, or its backend is not a string. */
CHECKED enum osp_status kernel_json_backend(char **out, const char *json);

#endif
