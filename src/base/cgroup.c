#include "base/cgroup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

enum { SELF_BYTES_MAX = 16 * 1024 /* one line for each hierarchy */ };

/* `path` is shortened from its end on the way up. */
static int64_t least_up_to_root(const char *folder, char *path, int version, cgroup_value *value)
{
    int64_t least = INT64_MAX;

    for (;;) {
        char *group = mem_printf("%s%s", folder, path), *slash = strrchr(path, '/');
        const int64_t n = value(group, version);

        free(group);
        least = n < least ? n : least;
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

static bool has_controller(const char *controllers, const char *name)
{
    char *list = mem_strdup(controllers), *rest = list, *one;
    bool found = false;

    while (!found && (one = strsep(&rest, ",")) != NULL)
        found = strcmp(one, name) == 0;
    free(list);
    return found;
}

/* One line "ID:CONTROLLERS:/PATH"; an empty list of controllers means version 2. */
static int64_t least_of_line(const char *sys, char *line, const char *controller,
                             cgroup_value *value)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL, *folder;
    int64_t least;

    if (path == NULL)
        return INT64_MAX;
    controllers++;
    *path++ = '\0';
    if (controllers[0] == '\0')
        return least_up_to_root(sys, path, CGROUP_V2, value);
    if (!has_controller(controllers, controller))
        return INT64_MAX;
    folder =
        path_join(sys, controller); /* a link where one hierarchy has several, as cpu,cpuacct */
    least = least_up_to_root(folder, path, CGROUP_V1, value);
    free(folder);
    return least;
}

int64_t cgroup_least(const char *sys, const char *self_cgroup, const char *controller,
                     cgroup_value *value)
{
    char *text = mem_strdup(self_cgroup), *rest = text, *line;
    int64_t least = INT64_MAX;

    while ((line = strsep(&rest, "\n")) != NULL) {
        const int64_t n = least_of_line(sys, line, controller, value);

        least = n < least ? n : least;
    }
    free(text);
    return least;
}

char *cgroup_read_self(const char *root)
{
    char *path = mem_printf("%s/proc/self/cgroup", root), *text = NULL;
    size_t n_bytes;

    if (file_read(&text, &n_bytes, path, SELF_BYTES_MAX) != OSP_OK)
        text = NULL;
    free(path);
    return text;
}
