#include "base/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *nccl_library_file(void)
{
    const char *name = getenv(NCCL_LIBRARY_VARIABLE);

    return name != NULL && name[0] != '\0' ? name : "libnccl.so.2";
}

bool nccl_library_load(void **library, int *version, char *why, size_t why_bytes)
{
    static const char NAME[] = "ncclGetVersion";
    int (*get_version)(int *version);
    void *function;

    *version = 0;
    *library = dlopen(nccl_library_file(), RTLD_NOW | RTLD_LOCAL);
    if (*library == NULL) {
        snprintf(why, why_bytes, "%s", dlerror());
        return false;
    }
    function = dlsym(*library, NAME);
    if (function == NULL) {
        snprintf(why, why_bytes, "%s has no %s", nccl_library_file(), NAME);
        return false;
    }
    memcpy(&get_version, &function, sizeof get_version); /* POSIX allows the conversion */
    if (get_version(version) == 0 && *version >= NCCL_VERSION_MIN)
        return true;
    snprintf(why, why_bytes, "%s has version %d, expected %d or later", nccl_library_file(),
             *version, (int)NCCL_VERSION_MIN);
    return false;
}
