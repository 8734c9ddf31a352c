/* The control groups of this process: its own and their ancestors, in both versions. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

enum { CGROUP_V1 = 1, CGROUP_V2 = 2 };

/* A number of the group in this folder, such as a limit; INT64_MAX: it has none. */
typedef int64_t cgroup_value(const char *folder, int version);

/* The least value of the process's group and of its ancestors; INT64_MAX: none has one. sys: the
 * folder of the groups (/sys/fs/cgroup). self_cgroup: the text of /proc/self/cgroup. controller: of
 * version 1, whose folder below sys has its name. Inside a container the path of a group may not
 * exist; the folder itself is then the container's own group. */
int64_t cgroup_least(const char *sys, const char *self_cgroup, const char *controller,
                     cgroup_value *value);

/* The text of /proc/self/cgroup below the root ("": this machine), to be freed; NULL: it cannot be
 * read. */
char *cgroup_read_self(const char *root);

#endif
