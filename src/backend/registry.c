/* Which devices exist, and how they are found by name. */
#include <stdio.h>
#include <string.h>

#include "backend/checked.h"
#include "base/log.h"

static const char *const device_names[N_DEVICES] = {
#define DEVICE_NAME(device, in_worker) #device,
    DEVICE_LIST(DEVICE_NAME)
#undef DEVICE_NAME
};

static const struct backend_ops *find_auto(void)
{
    const enum osp_status st = device_check(DEVICE_cuda);

    if (st == OSP_OK)
        return checked_ops(DEVICE_cuda);
    /* Without a plug-in or a GPU that is as it should be; a plug-in that was refused is not. */
    log_line(st == OSP_EIO ? LOG_WARN : LOG_DEBUG, "device auto: the CPU, because %s",
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
        n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i + 1 < N_DEVICES ? ", " : " and ",
                              device_names[i]);
    (void)fail(OSP_ENOTFOUND, "device \"%s\": not known, there are %s", name, all);
    return NULL;
}
