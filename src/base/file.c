/* Files and paths over POSIX. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"

enum { READ_CHUNK_BYTES = 64 * 1024 };

static enum osp_status fail_errno(const char *path, const char *verb)
{
    int code = errno;
    enum osp_status st = code == ENOENT || code == ENOTDIR ? OSP_ENOTFOUND : OSP_EIO;

    return fail(st, "%s: %s: %s", path, verb, strerror(code));
}

/* Opens a file that is not a folder and returns its size. */
static enum osp_status open_to_read(int *out, size_t *size_bytes, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;

    if (fd < 0)
        return fail_errno(path, "cannot open");
    if (fstat(fd, &info) != 0) {
        close(fd);
        return fail_errno(path, "cannot stat");
    }
    if (S_ISDIR(info.st_mode)) {
        close(fd);
        return fail(OSP_EINVAL, "%s: is a folder, expected a file", path);
    }
    *out = fd;
    *size_bytes = (size_t)info.st_size;
    return OSP_OK;
}

static enum osp_status map(struct file_map *out, int fd, size_t size_bytes, const char *path)
{
    void *data = NULL;

    if (size_bytes)
        data = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return fail_errno(path, "cannot map");
    *out = (struct file_map){.data = data, .size_bytes = size_bytes};
    return OSP_OK;
}

enum osp_status file_map_open(struct file_map *out, const char *path)
{
    enum osp_status st;
    size_t size_bytes;
    int fd;

    st = open_to_read(&fd, &size_bytes, path);
    if (st != OSP_OK)
        return st;
    st = map(out, fd, size_bytes, path);
    close(fd);
    return st;
}

enum osp_status file_map_descriptor(struct file_map *out, int fd, const char *path)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return fail_errno(path, "cannot stat");
    return map(out, fd, (size_t)info.st_size, path);
}

void file_map_close(struct file_map *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size_bytes);
    *m = (struct file_map){0};
}

static enum osp_status read_all(struct buf *b, int fd, const char *path)
{
    char *chunk = NULL;
    enum osp_status st = mem_try_array(&chunk, READ_CHUNK_BYTES, 1, path);
    ssize_t n;

    if (st != OSP_OK)
        return st;
    while ((n = read(fd, chunk, READ_CHUNK_BYTES)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            st = fail_errno(path, "cannot read");
            break;
        }
        if (!buf_append(b, chunk, (size_t)n)) {
            st = buf_failure(b, path);
            break;
        }
    }
    free(chunk);
    return st;
}

enum osp_status file_read(char **out, size_t *size_bytes, const char *path, size_t limit_bytes)
{
    size_t stat_bytes;
    enum osp_status st;
    struct buf b;
    int fd;

    st = open_to_read(&fd, &stat_bytes, path);
    if (st != OSP_OK)
        return st;
    buf_init(&b, limit_bytes);
    if (stat_bytes > limit_bytes)
        st = fail(OSP_ELIMIT, "%s: %zu bytes, limit is %zu", path, stat_bytes, limit_bytes);
    else
        st = read_all(&b, fd, path);
    close(fd);
    if (st == OSP_OK) {
        *size_bytes = b.size_bytes;
        *out = buf_take(&b);
    }
    buf_release(&b);
    return st;
}

char *path_join(const char *folder, const char *name)
{
    size_t n = strlen(folder);
    const char *slash = n == 0 || folder[n - 1] == '/' ? "" : "/";

    return mem_printf("%s%s%s", folder, slash, name);
}

char *path_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    if (path_is_folder(path))
        return path_join(path, name);
    if (!slash)
        return mem_strdup(name);
    return mem_printf("%.*s%s", (int)(slash + 1 - path), path, name);
}

bool path_is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool path_is_file(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

char *format_bytes(char out[16], double n_bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    enum { LAST_UNIT = sizeof units / sizeof units[0] - 1 };
    int unit = 0;

    while (unit < LAST_UNIT && n_bytes >= (unit ? 999.95 : 999.5)) {
        n_bytes /= 1000;
        unit++;
    }
    snprintf(out, 16, "%.*f %s", unit ? 1 : 0, n_bytes, units[unit]);
    return out;
}
