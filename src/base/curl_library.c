#include "base/curl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char FILE_NAME[] = "libcurl.so.4";
enum { GLOBAL_DEFAULT = 3 }; /* CURL_GLOBAL_DEFAULT: TLS and everything else */

static void *library;   /* NULL: not usable */
static char error[256]; /* why */

/* POSIX allows the conversion from a data pointer to a function pointer. */
static bool find(void *in, const char *name, void *into)
{
    void *function = dlsym(in, name);

    memcpy(into, &function, sizeof function);
    return function != NULL;
}

static void load(void)
{
    void *loaded = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    unsigned (*global_init)(long); /* CURLcode is an enum without negative values */

    if (loaded == NULL)
        snprintf(error, sizeof error, "%s", dlerror());
    else if (!find(loaded, "curl_global_init", &global_init) || global_init(GLOBAL_DEFAULT) != 0)
        snprintf(error, sizeof error, "%s cannot be initialized", FILE_NAME);
    else
        library = loaded;
}

enum osp_status curl_library_find(const struct curl_function *functions, int n, const char *who)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char missing[sizeof error];

    pthread_once(&once, load);
    snprintf(missing, sizeof missing, "%s", error);
    for (int i = 0; library != NULL && i < n && missing[0] == '\0'; i++)
        if (!find(library, functions[i].name, functions[i].into))
            snprintf(missing, sizeof missing, "%s has no %s", FILE_NAME, functions[i].name);
    return missing[0] == '\0'
               ? OSP_OK
               : fail(OSP_EUNAVAILABLE,
                      "%s libcurl, which cannot be loaded (%s); on Debian and Ubuntu run apt "
                      "install libcurl4",
                      who, missing);
}
