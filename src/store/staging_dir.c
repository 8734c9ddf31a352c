/* Temporary folders, and the rename that publishes them. */
#include "store/staging_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/st_write.h"

enum { COPY_BYTES = 256 * 1024 };

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- existing content ---- */

struct dir_content {
    int n_files, n_foreign; /* n_foreign: folders, links, devices */
    bool has_config;
};

static enum osp_status list_content(struct dir_content *out, const char *path)
{
    DIR *dir = opendir(path);

    *out = (struct dir_content){.n_files = 0};
    if (!dir)
        return fail(OSP_EIO, "%s: cannot list: %s", path, strerror(errno));
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        struct stat info;

        if (is_self_or_parent(e->d_name))
            continue;
        if (fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            out->n_files++;
        else
            out->n_foreign++;
        out->has_config = out->has_config || strcmp(e->d_name, "config.json") == 0;
    }
    closedir(dir);
    return OSP_OK;
}

static enum osp_status check_target(struct staging_dir *f, bool force)
{
    struct dir_content dir_content;
    struct stat info;
    enum osp_status st = OSP_OK;

    if (lstat(f->path, &info) != 0 && errno == ENOENT)
        return OSP_OK;
    if (!path_is_folder(f->path) || S_ISLNK(info.st_mode))
        return fail(OSP_EINVAL, "%s: exists and is not a folder; choose a new name", f->path);
    TRY(list_content(&dir_content, f->path));
    if (dir_content.n_files + dir_content.n_foreign == 0)
        return OSP_OK;
    if (!force)
        return fail(OSP_EINVAL, "%s: exists and is not empty; use --force to replace it", f->path);
    if (!dir_content.has_config || dir_content.n_foreign > 0)
        return fail(
            OSP_EINVAL, "%s: is not a checkpoint (%s), so --force does not replace it", f->path,
            dir_content.has_config ? "it contains other things than files" : "no config.json");
    f->replaces = true;
out:
    return st;
}

/* ---- creation ---- */

/* "/models/out" without trailing slashes: names beside it are derived from it. */
static char *trimmed(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    return mem_strndup(path, n);
}

enum osp_status staging_dir_open(struct staging_dir *out, const char *path, bool force)
{
    mode_t mask;
    enum osp_status st;

    *out = (struct staging_dir){.path = trimmed(path)};
    TRY(check_target(out, force));
    out->temporary = mem_printf("%s.partial-XXXXXX", out->path);
    if (!mkdtemp(out->temporary)) {
        st = fail(errno == ENOENT ? OSP_ENOTFOUND : OSP_EIO, "%s: cannot create a folder there: %s",
                  out->path, strerror(errno));
        free(out->temporary);
        out->temporary = NULL;
        goto out;
    }
    mask = umask(0);
    umask(mask);
    (void)chmod(out->temporary, 0777 & ~mask); /* mkdtemp allows access for the owner only */
out:
    if (st != OSP_OK)
        staging_dir_close(out);
    return st;
}

enum osp_status staging_dir_check_space(const struct staging_dir *f, int64_t n_bytes)
{
    char need[16], has[16];
    struct statvfs info;
    uint64_t free_bytes;

    if (statvfs(f->temporary, &info) != 0)
        return fail(OSP_EIO, "%s: cannot determine the free space: %s", f->path, strerror(errno));
    free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if ((uint64_t)n_bytes <= free_bytes)
        return OSP_OK;
    return fail(OSP_EIO, "%s: needs %s, the file system has %s free", f->path,
                format_bytes(need, (double)n_bytes), format_bytes(has, (double)free_bytes));
}

static enum osp_status create(int *fd, char **path, const struct staging_dir *f, const char *name)
{
    *path = path_join(f->temporary, name);
    *fd = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd >= 0 ? OSP_OK : fail(OSP_EIO, "%s: cannot create: %s", *path, strerror(errno));
}

static enum osp_status finish(int fd, const char *path, enum osp_status st)
{
    if (fd < 0)
        return st;
    if (st == OSP_OK && fsync(fd) != 0)
        st = fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
    if (close(fd) != 0 && st == OSP_OK)
        st = fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
    return st;
}

enum osp_status staging_dir_write(const struct staging_dir *f, const char *name, const char *text,
                                  size_t n_bytes)
{
    char *path = NULL;
    int fd = -1;
    enum osp_status st;

    TRY(create(&fd, &path, f, name));
    TRY(write_all(fd, path, text, n_bytes));
out:
    st = finish(fd, path, st);
    free(path);
    return st;
}

static enum osp_status copy_bytes(int to, const char *to_path, int from, const char *from_path)
{
    char *buffer = mem_new(COPY_BYTES);
    enum osp_status st = OSP_OK;

    for (;;) {
        ssize_t n = read(from, buffer, COPY_BYTES);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            st = fail(OSP_EIO, "%s: cannot read: %s", from_path, strerror(errno));
        if (n <= 0)
            break;
        TRY(write_all(to, to_path, buffer, (size_t)n));
    }
out:
    free(buffer);
    return st;
}

enum osp_status staging_dir_copy(const struct staging_dir *f, const char *name, const char *from)
{
    int from_fd = open(from, O_RDONLY | O_CLOEXEC), fd = -1;
    char *path = NULL;
    enum osp_status st;

    if (from_fd < 0)
        return fail(OSP_EIO, "%s: cannot open: %s", from, strerror(errno));
    TRY(create(&fd, &path, f, name));
    TRY(copy_bytes(fd, path, from_fd, from));
out:
    st = finish(fd, path, st);
    close(from_fd);
    free(path);
    return st;
}

/* ---- commit and close ---- */

/* Removes a folder that contains only plain files. */
static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);

    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (!is_self_or_parent(e->d_name))
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    if (rmdir(path) != 0)
        log_warn("%s: cannot remove: %s", path, strerror(errno));
}

/* Without fsync of the folders, a crash of the machine could lose the rename. */
static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static void sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = slash == NULL   ? mem_strdup(".")
                   : slash == path ? mem_strdup("/")
                                   : mem_strndup(path, (size_t)(slash - path));

    sync_folder(parent);
    free(parent);
}

enum osp_status staging_dir_commit(struct staging_dir *f)
{
    const unsigned flags = f->replaces ? RENAME_EXCHANGE : 0;

    sync_folder(f->temporary);
    if (renameat2(AT_FDCWD, f->temporary, AT_FDCWD, f->path, flags) != 0)
        return fail(OSP_EIO, "%s: cannot rename to %s: %s", f->temporary, f->path, strerror(errno));
    sync_parent(f->path);
    if (f->replaces) /* the replaced folder now has the temporary name */
        remove_folder(f->temporary);
    free(f->temporary);
    f->temporary = NULL;
    return OSP_OK;
}

void staging_dir_close(struct staging_dir *f)
{
    if (f->temporary)
        remove_folder(f->temporary);
    free(f->temporary);
    free(f->path);
    *f = (struct staging_dir){.path = NULL};
}
