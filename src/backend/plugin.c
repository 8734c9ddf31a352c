/* Finds, checks and loads plug-ins. They are in the folder of the program or in ../lib/osprey; for
 * programs in the folder tests/ of a build, also in the folder of that build. $OSPREY_PLUGIN_DIR
 * replaces this list by one folder. A plug-in runs with all rights of this process, so it must pass
 * the checks of base/trusted.h in every folder. */
#include "backend/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trusted.h"

enum { PATH_BYTES_MAX = 4096, FILE_NAME_BYTES = 64 };

static const char SYMBOL[] = "osprey_plugin";
static const char TESTS[] = "/tests";     /* folder of a build's test programs */
static const char BUILD_MARK[] = "flags"; /* file that the Makefile writes into a build's folder */

/* The result of the first call, for later calls. */
static struct {
    pthread_mutex_t lock;
    const struct backend_ops *ops;
    const struct device_option_row *options; /* valid before the device is started */
    enum osp_status status;
    bool is_tried;
    char message[FAIL_MESSAGE_BYTES_MAX];
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The folder of the running program; false if the system does not report it, or if it is too long
 * to append to. */
static bool program_folder(char out[PATH_BYTES_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES_MAX - FILE_NAME_BYTES);
    char *slash;

    if (n <= 0 || n >= PATH_BYTES_MAX - FILE_NAME_BYTES)
        return false;
    out[n] = '\0';
    slash = strrchr(out, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* Whether a folder other than the program's own may have its plug-in: only the folder of the build
 * that this test program belongs to. Another user must not be able to fake such a folder. */
static bool is_build(const char *folder)
{
    int fd;

    if (trusted_open(&fd, folder, BUILD_MARK) != OSP_OK)
        return false;
    close(fd);
    return true;
}

/* Folder number i of the search list, "" if it does not apply; false after the last one. */
static bool folder_at(char out[PATH_BYTES_MAX], int i)
{
    const char *given = secure_getenv("OSPREY_PLUGIN_DIR"); /* ignored in a setuid program */
    size_t n;

    out[0] = '\0';
    if (given != NULL && given[0] != '\0') {
        snprintf(out, PATH_BYTES_MAX, "%s", given);
        return i == 0;
    }
    if (i > 2 || !program_folder(out))
        return false;
    n = strlen(out);
    if (i == 1) {
        strcpy(out + n, "/../lib/osprey"); /* within FILE_NAME_BYTES */
    } else if (i == 2) {
        const bool is_test = n > strlen(TESTS) && strcmp(out + n - strlen(TESTS), TESTS) == 0;

        out[is_test ? n - strlen(TESTS) : 0] = '\0';
        if (is_test && !is_build(out))
            out[0] = '\0';
    }
    return true;
}

static enum osp_status fail_not_found(const char *device)
{
    char folder[PATH_BYTES_MAX], all[FAIL_MESSAGE_BYTES_MAX / 2] = "";
    size_t n = 0;

    for (int i = 0; folder_at(folder, i) && n < sizeof(all); i++)
        if (folder[0] != '\0')
            n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i > 0 ? ", " : "", folder);
    return fail(OSP_ENOTFOUND,
                "device \"%s\": there is no osprey-%s.so in %s; OSPREY_PLUGIN_DIR names another "
                "folder",
                device, device, all);
}

static enum osp_status check(const struct plugin *p, const char *path)
{
    static const struct plugin_sizes sizes = PLUGIN_SIZES;

    if (p->version != PLUGIN_VERSION)
        return fail(OSP_EDEVICE, "%s: plug-in interface version is %d, expected %d", path,
                    (int)p->version, PLUGIN_VERSION);
    if (memcmp(&p->sizes, &sizes, sizeof(sizes)) != 0)
        return fail(OSP_EDEVICE,
                    "%s: built from sources that differ from this program's; rebuild both", path);
    return OSP_OK;
}

/* Sets found.options once the plug-in's version and sizes are checked. */
static enum osp_status start(const struct backend_ops **out, void *object, const char *path)
{
    static const struct plugin_host host = {.fail = fail, .log_line = log_line};
    const struct plugin *p = dlsym(object, SYMBOL);
    enum osp_status st;

    if (p == NULL)
        return fail(OSP_EDEVICE, "%s: not a plug-in: symbol %s is missing", path, SYMBOL);
    TRY(check(p, path));
    found.options = p->ops->options;
    TRY(p->start(&host));
    *out = p->ops;
out:
    return st;
}

/* Loads the checked file by its descriptor, because its name could refer to another file by now. */
static enum osp_status load(const struct backend_ops **out, int fd, const char *path)
{
    char checked[32];
    enum osp_status st;
    void *object;

    snprintf(checked, sizeof(checked), "/proc/self/fd/%d", fd);
    object = dlopen(checked, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL)
        return fail(OSP_EDEVICE, "%s: cannot be loaded: %s", path, dlerror());
    st = start(out, object, path);
    if (found.options == NULL && st != OSP_OK)
        dlclose(object); /* otherwise it stays loaded until the process ends */
    return st;
}

/* Loads the first file that exists. If it is refused, the search ends: another file is no
 * substitute. */
static enum osp_status find(const struct backend_ops **out, const char *device)
{
    char folder[PATH_BYTES_MAX], name[FILE_NAME_BYTES], path[PATH_BYTES_MAX + FILE_NAME_BYTES];
    int fd;

    snprintf(name, sizeof(name), "osprey-%s.so", device);
    for (int i = 0; folder_at(folder, i); i++) {
        enum osp_status st = OSP_ENOTFOUND;

        if (folder[0] != '\0')
            st = trusted_open(&fd, folder, name);
        if (st == OSP_ENOTFOUND)
            continue;
        if (st != OSP_OK)
            return fail_prefix(st, "device \"%s\": plug-in not loaded", device);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        st = load(out, fd, path);
        close(fd);
        return st;
    }
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

const struct device_option_row *plugin_options(const char *device)
{
    const struct backend_ops *unused;
    const struct device_option_row *options;

    (void)!plugin_ops(&unused, device); /* loads the plug-in at the first call */
    pthread_mutex_lock(&found.lock);
    options = found.options;
    pthread_mutex_unlock(&found.lock);
    return options;
}
