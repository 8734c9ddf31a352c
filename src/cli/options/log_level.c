#include "cli/options/log_level.h"

#include <string.h>

#include "base/log.h"

static const char *const NAMES[] = {
    [LOG_ERROR] = "error", [LOG_WARN] = "warn", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};

enum osp_status log_level_set(const char *name, bool quiet)
{
    if (!name && quiet)
        log_set_level(LOG_ERROR);
    if (!name)
        return OSP_OK;
    for (int i = 0; i < (int)(sizeof NAMES / sizeof NAMES[0]); i++)
        if (strcmp(name, NAMES[i]) == 0) {
            log_set_level((enum log_level)i);
            return OSP_OK;
        }
    return fail(OSP_EINVAL, "--log-level %s: must be error, warn, info or debug", name);
}

enum osp_status log_format_set(const char *name)
{
    const bool is_json = name && strcmp(name, "json") == 0;

    if (name && !is_json && strcmp(name, "plain") != 0)
        return fail(OSP_EINVAL, "--log-format %s: must be plain or json", name);
    log_set_format(is_json ? LOG_JSON : LOG_PLAIN);
    return OSP_OK;
}
