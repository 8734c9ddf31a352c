#include "base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

static enum osp_status fail_errno(const char *path, const char *verb)
{
    const int code = errno;

    return fail(code == ENOENT || code == ENOTDIR ? OSP_ENOTFOUND : OSP_EIO, "%s: %s: %s", path,
                verb, strerror(code));
}

static enum osp_status check_owner(const char *path, const struct stat *info)
{
    if (info->st_uid != 0 && info->st_uid != geteuid())
        return fail(OSP_EIO,
                    "%s: refused: it belongs to user id %u, expected root or the user who runs "
                    "this program (%u); run: chown %u '%s'",
                    path, (unsigned)info->st_uid, (unsigned)geteuid(), (unsigned)geteuid(), path);
    if (info->st_mode & (S_IWGRP | S_IWOTH))
        return fail(OSP_EIO,
                    "%s: refused: mode %04o allows its group or others to write it, expected write "
                    "access for the owner only; run: chmod go-w '%s'",
                    path, (unsigned)(info->st_mode & 07777), path);
    return OSP_OK;
}

/* Opens the folder for openat(); checks its own permissions. */
static enum osp_status open_folder(int *out, const char *path)
{
    const int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    enum osp_status st;

    if (fd < 0)
        return fail_errno(path, "cannot open");
    st = fstat(fd, &info) == 0 ? check_owner(path, &info) : fail_errno(path, "cannot stat");
    if (st == OSP_OK)
        *out = fd;
    else
        close(fd);
    return st;
}

static enum osp_status check_file(int fd, const char *path)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return fail_errno(path, "cannot stat");
    if (!S_ISREG(info.st_mode))
        return fail(OSP_EIO, "%s: refused: it is not a regular file", path);
    return check_owner(path, &info);
}

/* `path` is folder/name without symbolic links. */
static enum osp_status open_real(int *out, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char *folder = mem_strndup(path, name - path > 1 ? (size_t)(name - path - 1) : 1);
    int folder_fd = -1, fd;
    enum osp_status st;

    TRY(open_folder(&folder_fd, folder));
    /* without O_NONBLOCK, a FIFO of this name would block until a writer opens it */
    fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        TRY(fail_errno(path, "cannot open"));
    st = check_file(fd, path);
    if (st == OSP_OK)
        *out = fd;
    else
        close(fd);
out:
    if (folder_fd >= 0)
        close(folder_fd);
    free(folder);
    return st;
}

enum osp_status trusted_open(int *fd, const char *folder, const char *name)
{
    char *path = path_join(folder, name), *real = realpath(path, NULL);
    enum osp_status st;

    if (real == NULL)
        st = fail_errno(path, "cannot open");
    else
        st = trusted_folder_check(folder); /* the owner of the folder decides where a link leads */
    if (st == OSP_OK)
        st = open_real(fd, real);
    free(real);
    free(path);
    return st;
}

enum osp_status trusted_folder_check(const char *folder)
{
    int fd;
    const enum osp_status st = open_folder(&fd, folder);

    if (st == OSP_OK)
        close(fd);
    return st;
}
