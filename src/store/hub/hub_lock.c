#include "store/hub/hub_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 5 };

/* Whether the path still names the locked file: another process may have removed it meanwhile, and
 * a third one may have locked a new one. */
static bool is_current(int fd, const char *path)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* *fd: the locked file, or -1 when it is busy. */
static enum osp_status open_locked(int *fd, const char *path)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (*fd < 0)
        return fail(OSP_EIO, "%s: cannot open the lock file: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return OSP_OK;
    close(*fd);
    *fd = -1;
    if (errno == EWOULDBLOCK || errno == EINTR)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED,
                "%s: cannot lock it: %s; without locks two downloads could mix, so keep the cache "
                "on a file system with flock (HF_HOME)",
                path, strerror(errno));
}

enum osp_status hub_lock_try(int *fd, const char *path)
{
    enum osp_status st;

    for (int i = 0; i < TRIES; i++) {
        st = open_locked(fd, path);
        if (st != OSP_OK || *fd < 0 || is_current(*fd, path))
            return st;
        hub_lock_release(fd);
    }
    return OSP_OK; /* busy */
}

void hub_lock_release(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
