/* The list of devices, and the lookup by name. */
#include <stdio.h>
#include <string.h>

#include "backend/checked.h"
#include "base/log.h"

static const char *const device_names[N_DEVICES] = {
#define DEVICE_NAME(device, in_worker, draft_heads, rule) #device,
    DEVICE_LIST(DEVICE_NAME)
#undef DEVICE_NAME
};

static const struct backend_ops *find_auto(void)
{
    const enum osp_status st = device_check(DEVICE_cuda);

    if (st == OSP_OK)
        return checked_ops(DEVICE_cuda);
    /* Only a refused plug-in is worth a warning; no plug-in or no GPU is a normal configuration. */
    log_line(st == OSP_EIO ? LOG_WARN : LOG_DEBUG, "device auto: using the CPU: %s",
             fail_message());
    return checked_ops(DEVICE_cpu);
}

const struct backend_ops *backend_find(const char *name)
{
    char all[64] = "auto";
    size_t n = strlen(all);

    if (name == NULL || strcmp(name, "auto") == 0)
        return find_auto();
    for (int i = 0; i < N_DEVICES; i++)
        if (strcmp(name, device_names[i]) == 0)
            return device_check((enum device)i) == OSP_OK ? checked_ops((enum device)i) : NULL;
    for (int i = 0; i < N_DEVICES; i++)
        n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i + 1 < N_DEVICES ? ", " : " or ",
                              device_names[i]);
    (void)fail(OSP_ENOTFOUND, "device \"%s\" is unknown, expected %s", name, all);
    return NULL;
}
