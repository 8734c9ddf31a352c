#include "engine/kv_events/zmq_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char FILE_NAME[] = "libzmq.so.5";

static struct zmq_library library;
static char error[256]; /* why it cannot be used; "": it can */

/* POSIX allows the conversion from a data pointer to a function pointer. */
static bool find(void *in, const char *name, void *into)
{
    void *function = dlsym(in, name);

    memcpy(into, &function, sizeof function);
    if (function == NULL && error[0] == '\0')
        snprintf(error, sizeof error, "%s has no %s", FILE_NAME, name);
    return function != NULL;
}

static void load(void)
{
    void *loaded = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);

    if (loaded == NULL) {
        snprintf(error, sizeof error, "%s", dlerror());
        return;
    }
#define ZMQ_FIND(name, result, parameters) (void)find(loaded, #name, &library.name);
    ZMQ_FUNCTION_LIST(ZMQ_FIND)
#undef ZMQ_FIND
}

enum osp_status zmq_library_find(const struct zmq_library **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    *out = &library;
    return error[0] == '\0'
               ? OSP_OK
               : fail(OSP_EUNAVAILABLE,
                      "kv events: libzmq cannot be loaded (%s); on Debian and Ubuntu run apt "
                      "install libzmq5",
                      error);
}
