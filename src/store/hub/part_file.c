#include "store/hub/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum {
    LINE_BYTES = 8 + 1 + 2 * HUB_DIGEST_BYTES_MAX + 1, /* "0000002a DIGEST\n" */
    HEADER_BYTES_MAX = 128,
    JOURNAL_BYTES_MAX = 64 << 20, /* of a file of 1 TiB: 18 MiB */
    FILE_MODE = 0666              /* less the umask */
};

static enum osp_status io_error(const char *path, const char *verb)
{
    return fail(OSP_EIO, "%s: cannot %s: %s", path, verb, strerror(errno));
}

/* ---- the journal ---- */

static int header(char out[HEADER_BYTES_MAX], const struct part_file *p)
{
    return snprintf(out, HEADER_BYTES_MAX, "osprey-part 1 %s %" PRId64 " %d\n", p->etag, p->size,
                    (int)PART_BLOCK_BYTES);
}

static bool read_digest(uint8_t out[HUB_DIGEST_BYTES_MAX], const char *hex)
{
    for (int i = 0; i < HUB_DIGEST_BYTES_MAX; i++) {
        unsigned byte;

        if (strspn(hex + 2 * i, "0123456789abcdef") < 2 || sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return false;
        out[i] = (uint8_t)byte;
    }
    return true;
}

/* False: not a line of the journal, as after a loss of power. */
static bool read_line(struct part_file *p, const char *line)
{
    char *end;
    const unsigned long block = strtoul(line, &end, 16);

    if (end != line + 8 || *end != ' ' || line[LINE_BYTES - 1] != '\n' ||
        block >= (unsigned long)p->n_blocks || !read_digest(p->digests[block], end + 1))
        return false;
    p->states[block] = PART_INHERITED;
    return true;
}

/* Length of the usable lines; 0: the journal is of something else. */
static size_t read_lines(struct part_file *p, const char *text, size_t n_bytes)
{
    char expected[HEADER_BYTES_MAX];
    size_t at = (size_t)header(expected, p);

    if (n_bytes < at || memcmp(text, expected, at) != 0)
        return 0;
    while (n_bytes - at >= LINE_BYTES && read_line(p, text + at))
        at += LINE_BYTES;
    return at;
}

static enum osp_status read_journal(struct part_file *p, bool is_fresh)
{
    char *text = NULL, expected[HEADER_BYTES_MAX];
    size_t n_bytes = 0, n_used = 0;
    enum osp_status st = OSP_OK;

    if (!is_fresh && file_read(&text, &n_bytes, p->journal_path, JOURNAL_BYTES_MAX) == OSP_OK)
        n_used = read_lines(p, text, n_bytes);
    free(text);
    if (ftruncate(p->journal_fd, (off_t)n_used) != 0)
        return io_error(p->journal_path, "truncate");
    if (n_used == 0) {
        const int n = header(expected, p);

        if (write(p->journal_fd, expected, (size_t)n) != n)
            st = io_error(p->journal_path, "write");
    }
    return st;
}

/* ---- both files ---- */

/* A link that someone planted is not followed, and a file with a second name is not touched. */
static enum osp_status open_plain(int *fd, struct stat *info, const char *path, int flags)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, FILE_MODE);
    if (*fd < 0)
        return io_error(path, "open");
    if (fstat(*fd, info) != 0)
        return io_error(path, "stat");
    return S_ISREG(info->st_mode) && info->st_nlink == 1
               ? OSP_OK
               : fail(OSP_EIO, "%s: not a plain file with one name; remove it", path);
}

/* Reserved space cannot be taken by others meanwhile. Not every file system can do that. */
static enum osp_status reserve(struct part_file *p)
{
    if (ftruncate(p->fd, (off_t)p->size) != 0)
        return io_error(p->path, "set the size");
    if (p->size > 0 && fallocate(p->fd, 0, 0, (off_t)p->size) != 0 &&
        (errno == ENOSPC || errno == EDQUOT))
        return io_error(p->path, "reserve disk space");
    return OSP_OK;
}

enum osp_status part_file_open(struct part_file *p, const char *folder, const char *etag,
                               int64_t size)
{
    char *base = path_join(folder, etag);
    struct stat data, journal;
    enum osp_status st;

    *p = (struct part_file){.path = mem_printf("%s.osprey-part", base),
                            .journal_path = mem_printf("%s.osprey-blocks", base),
                            .fd = -1,
                            .journal_fd = -1,
                            .size = size,
                            .n_blocks = (int)((size + PART_BLOCK_BYTES - 1) / PART_BLOCK_BYTES)};
    free(base);
    snprintf(p->etag, sizeof p->etag, "%s", etag);
    TRY(mem_try_array(&p->states, (size_t)p->n_blocks, 1, "blocks of a download"));
    TRY(mem_try_array(&p->digests, (size_t)p->n_blocks, sizeof *p->digests,
                      "blocks of a download"));
    TRY(open_plain(&p->fd, &data, p->path, 0));
    TRY(open_plain(&p->journal_fd, &journal, p->journal_path, O_APPEND));
    TRY(read_journal(p, data.st_size != size));
    TRY(reserve(p));
out:
    if (st != OSP_OK)
        part_file_close(p);
    return st;
}

void part_file_close(struct part_file *p)
{
    if (p->path != NULL && p->fd >= 0)
        close(p->fd);
    if (p->path != NULL && p->journal_fd >= 0)
        close(p->journal_fd);
    free(p->path);
    free(p->journal_path);
    free(p->states);
    free(p->digests);
    *p = (struct part_file){0};
}

/* ---- blocks ---- */

int64_t part_file_block_bytes(const struct part_file *p, int block)
{
    const int64_t left = p->size - (int64_t)block * PART_BLOCK_BYTES;

    return left < PART_BLOCK_BYTES ? left : PART_BLOCK_BYTES;
}

enum osp_status part_file_write(const struct part_file *p, int64_t offset, const void *bytes,
                                size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = pwrite(p->fd, (const char *)bytes + done, n_bytes - done,
                                 (off_t)(offset + (int64_t)done));

        if (n < 0 && errno != EINTR)
            return io_error(p->path, "write");
        done += n > 0 ? (size_t)n : 0;
    }
    return OSP_OK;
}

enum osp_status part_file_read(const struct part_file *p, int64_t offset, void *bytes,
                               size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n =
            pread(p->fd, (char *)bytes + done, n_bytes - done, (off_t)(offset + (int64_t)done));

        if (n == 0)
            return fail(OSP_EIO, "%s: has become shorter", p->path);
        if (n < 0 && errno != EINTR)
            return io_error(p->path, "read");
        done += n > 0 ? (size_t)n : 0;
    }
    return OSP_OK;
}

enum osp_status part_file_mark(struct part_file *p, int block,
                               const uint8_t digest[HUB_DIGEST_BYTES_MAX])
{
    char line[LINE_BYTES + 1], hex[HUB_ETAG_BYTES_MAX + 1];

    hub_digest_text(hex, digest, HUB_DIGEST_BYTES_MAX);
    snprintf(line, sizeof line, "%08x %s\n", (unsigned)block, hex);
    if (write(p->journal_fd, line, LINE_BYTES) != LINE_BYTES)
        return io_error(p->journal_path, "write");
    p->states[block] = PART_DONE;
    return OSP_OK;
}

enum osp_status part_file_reset(struct part_file *p)
{
    memset(p->states, PART_MISSING, (size_t)p->n_blocks);
    return read_journal(p, true);
}

/* Some file systems cannot sync a folder; the rename has happened in any case. */
static void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = mem_strndup(path, slash ? (size_t)(slash - path) : 0);
    const int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    free(folder);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

enum osp_status part_file_publish(struct part_file *p, const char *blob_path)
{
    if (fdatasync(p->fd) != 0)
        return io_error(p->path, "sync");
    if (rename(p->path, blob_path) != 0)
        return io_error(p->path, "rename");
    (void)unlink(p->journal_path); /* without its file it is ignored */
    sync_folder_of(blob_path);
    return OSP_OK;
}

void part_file_discard(struct part_file *p)
{
    (void)unlink(p->journal_path);
    (void)unlink(p->path);
}

bool part_file_is_left(const char *folder, const char *etag)
{
    char *part = mem_printf("%s/%s.osprey-part", folder, etag);
    char *journal = mem_printf("%s/%s.osprey-blocks", folder, etag);
    struct stat info;
    const bool is_left = lstat(part, &info) == 0 || lstat(journal, &info) == 0;

    free(part);
    free(journal);
    return is_left;
}

void part_file_clean(const char *folder, const char *etag)
{
    struct part_file p = {.path = mem_printf("%s/%s.osprey-part", folder, etag),
                          .journal_path = mem_printf("%s/%s.osprey-blocks", folder, etag)};

    part_file_discard(&p);
    free(p.path);
    free(p.journal_path);
}

int64_t part_file_disk_bytes(const char *folder, const char *etag)
{
    char *path = mem_printf("%s/%s.osprey-part", folder, etag);
    struct stat info;
    const bool found = lstat(path, &info) == 0 && S_ISREG(info.st_mode);

    free(path);
    return found ? (int64_t)info.st_blocks * 512 : 0;
}
