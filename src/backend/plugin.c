/* Finds, loads and checks plug-ins. They lie beside the program, in its folder's parent, or below
 * ../lib/osprey; $OSPREY_PLUGIN_DIR names another folder, and then the only one. */
#include "backend/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES_MAX = 512, N_PLACES = 3 };

static const char SYMBOL[] = "osprey_plugin";
static const char *const places[N_PLACES] = {"", "/..", "/../lib/osprey"};

/* What the first call found, kept for the later ones. */
static struct {
    pthread_mutex_t lock;
    const struct backend_ops *ops;
    enum osp_status status;
    bool is_tried;
    char message[FAIL_MESSAGE_BYTES_MAX];
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Folder of the running program; "." when the system does not say. */
static void program_folder(char out[PATH_BYTES_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES_MAX - 1);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash == NULL)
        strcpy(out, ".");
    else
        *slash = '\0';
}

/* Path number i of the places to look at; false when there are no more. */
static bool path_at(char out[2 * PATH_BYTES_MAX], int i, const char *device)
{
    const char *given = getenv("OSPREY_PLUGIN_DIR");
    char folder[PATH_BYTES_MAX];

    if (given != NULL && given[0] != '\0') {
        snprintf(out, 2 * PATH_BYTES_MAX, "%.500s/osprey-%s.so", given, device);
        return i == 0;
    }
    program_folder(folder);
    if (i < N_PLACES)
        snprintf(out, 2 * PATH_BYTES_MAX, "%s%s/osprey-%s.so", folder, places[i], device);
    return i < N_PLACES;
}

static enum osp_status fail_not_found(const char *device)
{
    char path[2 * PATH_BYTES_MAX], all[FAIL_MESSAGE_BYTES_MAX / 2] = "";
    size_t n = 0;

    for (int i = 0; path_at(path, i, device) && n < sizeof(all); i++)
        n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i > 0 ? ", " : "", path);
    return fail(OSP_ENOTFOUND, "device \"%s\": its plug-in is not here, tried %s", device, all);
}

static enum osp_status check(const struct plugin *p, const char *path)
{
    static const struct plugin_sizes sizes = PLUGIN_SIZES;

    if (p->version != PLUGIN_VERSION)
        return fail(OSP_EDEVICE, "%s: version %d of the plug-in's contract, expected %d", path,
                    (int)p->version, PLUGIN_VERSION);
    if (memcmp(&p->sizes, &sizes, sizeof(sizes)) != 0)
        return fail(OSP_EDEVICE, "%s: built from other sources than this program", path);
    return OSP_OK;
}

static enum osp_status load(const struct backend_ops **out, const char *path)
{
    static const struct plugin_host host = {.fail = fail, .log_line = log_line};
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct plugin *p;
    enum osp_status st;

    if (object == NULL)
        return fail(OSP_EDEVICE, "%s", dlerror());
    p = dlsym(object, SYMBOL);
    if (p == NULL)
        st = fail(OSP_EDEVICE, "%s: no symbol %s", path, SYMBOL);
    else
        st = check(p, path);
    if (st == OSP_OK)
        st = p->start(&host);
    if (st == OSP_OK)
        *out = p->ops; /* stays loaded until the process ends */
    else
        dlclose(object);
    return st;
}

static enum osp_status find(const struct backend_ops **out, const char *device)
{
    char path[2 * PATH_BYTES_MAX];

    for (int i = 0; path_at(path, i, device); i++)
        if (access(path, R_OK) == 0)
            return load(out, path);
    return fail_not_found(device);
}

enum osp_status plugin_ops(const struct backend_ops **out, const char *device)
{
    enum osp_status st;

    pthread_mutex_lock(&found.lock);
    if (!found.is_tried) {
        found.is_tried = true;
        found.status = find(&found.ops, device);
        if (found.status != OSP_OK)
            snprintf(found.message, sizeof(found.message), "%s", fail_message());
    }
    st = found.status;
    *out = found.ops;
    pthread_mutex_unlock(&found.lock);
    return st == OSP_OK ? OSP_OK : fail(st, "%s", found.message);
}
