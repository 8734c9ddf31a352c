/* Where the hub and its cache are: the environment variables of huggingface_hub, read once. */
#ifndef STORE_HUB_HUB_SETTINGS_H
#define STORE_HUB_HUB_SETTINGS_H

#include <stdbool.h>

#include "base/status.h"

struct hub_settings {
    char *endpoint; /* "https://huggingface.co" or HF_ENDPOINT, without a slash at the end */
    char *token;    /* HF_TOKEN, or the file HF_TOKEN_PATH or HF_HOME/token; NULL: none */
    bool offline;   /* HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE */
    int stall_s;    /* HF_HUB_DOWNLOAD_TIMEOUT: seconds without a byte that end a connection */
};

/* `token` overrides the environment; may be NULL. OSP_EINVAL names the variable. */
CHECKED enum osp_status hub_settings_read(struct hub_settings *out, const char *token);
void hub_settings_release(struct hub_settings *s); /* accepts a zeroed one */

/* The value of `offline` alone. */
bool hub_is_offline(void);

/* The cache folder: `given`, $HF_HUB_CACHE, $HF_HOME/hub, or huggingface/hub in $XDG_CACHE_HOME or
 * ~/.cache. A string to free(). */
char *hub_cache_folder(const char *given);

#endif
