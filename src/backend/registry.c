/* Which devices exist, and how they are found by name. */
#include <string.h>

#include "backend/checked.h"

static const char *const device_names[N_DEVICES] = {
#define DEVICE_NAME(device) #device,
    DEVICE_LIST(DEVICE_NAME)
#undef DEVICE_NAME
};

const struct backend_ops *backend_find(const char *name)
{
    if (strcmp(name, "auto") == 0)
        return checked_ops((enum device)0);
    for (int i = 0; i < N_DEVICES; i++)
        if (strcmp(name, device_names[i]) == 0)
            return checked_ops((enum device)i);
    (void)fail(OSP_ENOTFOUND, "device \"%s\": not known, allowed are auto and %s", name,
               device_names[0]);
    return NULL;
}
