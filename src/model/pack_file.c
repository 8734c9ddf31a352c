/* Reads and writes a file of packed weights. Its bytes are in this machine's byte order: the key
 * names the layout, and with another byte order the magic number does not match. */
#include "model/pack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/trusted.h"

enum {
    ALIGN_BYTES = 4096,      /* of a piece: a page boundary, more than any vector load needs */
    SAMPLE_BYTES = 4096,     /* samples of every piece: its start, its end, */
    SAMPLE_EVERY = 32 << 20, /* and one in every interval of this size */
    KEY_BYTES_MAX = 1 << 20, /* for 1024 files of a checkpoint */
    PIECES_MAX = 1 << 16,    /* four for each layer */
    WRITE_BYTES = 8 << 20
};

static const uint64_t MAGIC = UINT64_C(0x314b434150534f); /* "OSPACK1" */

struct pack_header {
    uint64_t magic, header_bytes, file_bytes, n_pieces, key_bytes;
    uint64_t checksum; /* of the header, computed with 0 in this field */
};

/* Follows header and key, one for each piece. */
struct pack_entry {
    uint64_t begin, size_bytes, samples; /* samples: a hash of them */
};

static uint64_t aligned(uint64_t n_bytes)
{
    return (n_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static size_t key_bytes_padded(const char *key)
{
    return (strlen(key) + 8) / 8 * 8; /* with the NUL, rounded up to align the entries */
}

static uint64_t hash_samples(const struct pack_piece *p)
{
    uint64_t hash = HASH_INIT;
    size_t n = p->size_bytes < SAMPLE_BYTES ? p->size_bytes : SAMPLE_BYTES;

    for (size_t at = 0; at + n <= p->size_bytes && n > 0; at += SAMPLE_EVERY)
        hash = hash_bytes(hash, (const char *)p->data + at, n);
    return hash_bytes(hash, (const char *)p->data + p->size_bytes - n, n);
}

static uint64_t hash_header(const void *bytes, size_t n_bytes)
{
    const size_t at = offsetof(struct pack_header, checksum), behind = at + sizeof(uint64_t);
    const uint64_t zero = 0;
    uint64_t hash = hash_bytes(HASH_INIT, bytes, at);

    hash = hash_bytes(hash, &zero, sizeof zero);
    return hash_bytes(hash, (const char *)bytes + behind, n_bytes - behind);
}

/* ---- the header ---- */

/* Allocates header, key and entries; the caller frees them. The sizes of the pieces alone determine
 * their offsets. */
static unsigned char *make_header(size_t *n_bytes, const char *key, const struct pack_piece *pieces,
                                  size_t n)
{
    struct pack_header h = {.magic = MAGIC, .n_pieces = n, .key_bytes = key_bytes_padded(key)};
    unsigned char *bytes;
    struct pack_entry *entries;

    h.header_bytes = sizeof h + h.key_bytes + n * sizeof(struct pack_entry);
    h.file_bytes = aligned(h.header_bytes);
    bytes = mem_new(h.header_bytes);
    memcpy(bytes + sizeof h, key, strlen(key));
    entries = (struct pack_entry *)(void *)(bytes + sizeof h + h.key_bytes);
    for (size_t i = 0; i < n; i++) {
        entries[i].begin = h.file_bytes;
        entries[i].size_bytes = pieces[i].size_bytes;
        h.file_bytes += aligned(pieces[i].size_bytes);
    }
    memcpy(bytes, &h, sizeof h);
    *n_bytes = h.header_bytes;
    return bytes;
}

static struct pack_entry *entries_of(unsigned char *header)
{
    struct pack_header h;

    memcpy(&h, header, sizeof h);
    return (struct pack_entry *)(void *)(header + sizeof h + h.key_bytes);
}

/* Fills in the hashes of the samples, then the checksum. */
static void seal(unsigned char *header, size_t n_bytes, const struct pack_piece *pieces, size_t n)
{
    struct pack_entry *entries = entries_of(header);
    struct pack_header h;

    for (size_t i = 0; i < n; i++)
        entries[i].samples = hash_samples(&pieces[i]);
    memcpy(&h, header, sizeof h);
    h.checksum = hash_header(header, n_bytes);
    memcpy(header, &h, sizeof h);
}

/* ---- reading ---- */

static enum osp_status broken(const char *path, const char *what)
{
    return fail(OSP_EFORMAT, "%s: %s", path, what);
}

/* Compares the file with the expected header; of the pieces, only samples are read. */
static enum osp_status check(const struct file_map *map, const char *path, const char *key,
                             struct pack_piece *pieces, size_t n)
{
    struct pack_header h, want;
    size_t n_bytes;
    unsigned char *header = make_header(&n_bytes, key, pieces, n);
    const struct pack_entry *entries = entries_of(header);
    enum osp_status st = OSP_OK;

    memcpy(&want, header, sizeof want);
    if (map->size_bytes < n_bytes || map->size_bytes != want.file_bytes) {
        st = broken(path, "its size does not match these weights");
        goto out;
    }
    memcpy(&h, map->data, sizeof h);
    if (h.magic != want.magic || h.header_bytes != want.header_bytes ||
        h.checksum != hash_header(map->data, n_bytes)) {
        st = broken(path, "its header is damaged or has another version");
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        pieces[i].data = map->data + entries[i].begin;
    seal(header, n_bytes, pieces, n);
    if (memcmp(header, map->data, n_bytes) != 0)
        st = broken(path, "its key or its contents do not match these weights");
out:
    free(header);
    return st;
}

/* Whoever writes this file controls the model's output, and only samples of it are checked. */
static enum osp_status map_trusted(struct file_map *map, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? mem_strndup(path, (size_t)(slash - path) + 1) : mem_strdup(".");
    int fd = -1;
    enum osp_status st;

    TRY(trusted_open(&fd, folder, slash ? slash + 1 : path));
    TRY(file_map_descriptor(map, fd, path));
out:
    if (fd >= 0)
        close(fd);
    free(folder);
    return st;
}

enum osp_status pack_file_read(struct file_map *map, const char *path, const char *key,
                               struct pack_piece *pieces, size_t n)
{
    enum osp_status st;

    if (strlen(key) > KEY_BYTES_MAX || n > PIECES_MAX)
        return fail(OSP_ELIMIT, "%s: key of %zu bytes and %zu pieces, limits are %d and %d", path,
                    strlen(key), n, (int)KEY_BYTES_MAX, (int)PIECES_MAX);
    TRY(map_trusted(map, path));
    TRY(check(map, path, key, pieces, n));
out:
    if (st != OSP_OK)
        file_map_close(map);
    return st;
}

/* ---- writing ---- */

static enum osp_status write_at(int fd, const char *path, const void *data, size_t n_bytes,
                                uint64_t begin)
{
    const char *from = data;

    for (size_t at = 0; at < n_bytes;) {
        size_t want = n_bytes - at < WRITE_BYTES ? n_bytes - at : WRITE_BYTES;
        ssize_t got = pwrite(fd, from + at, want, (off_t)(begin + at));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(OSP_EIO, "%s: cannot write: %s", path, strerror(got < 0 ? errno : ENOSPC));
        at += (size_t)got;
    }
    return OSP_OK;
}

static enum osp_status check_space(int fd, const char *path, uint64_t n_bytes)
{
    struct statvfs info;
    char need[16], has[16];

    if (fstatvfs(fd, &info) != 0 || (uint64_t)info.f_bavail * info.f_frsize >= n_bytes)
        return OSP_OK;
    return fail(OSP_EIO, "%s: needs %s; the file system has %s free", path,
                format_bytes(need, (double)n_bytes),
                format_bytes(has, (double)info.f_bavail * (double)info.f_frsize));
}

static enum osp_status write_content(int fd, const char *path, unsigned char *header,
                                     size_t n_bytes, const struct pack_piece *pieces, size_t n)
{
    const struct pack_entry *entries = entries_of(header);
    struct pack_header h;
    enum osp_status st;

    memcpy(&h, header, sizeof h);
    TRY(check_space(fd, path, h.file_bytes));
    if (ftruncate(fd, (off_t)h.file_bytes) != 0)
        return fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
    for (size_t i = 0; i < n; i++)
        TRY(write_at(fd, path, pieces[i].data, pieces[i].size_bytes, entries[i].begin));
    TRY(write_at(fd, path, header, n_bytes, 0));
    if (fsync(fd) != 0)
        st = fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
out:
    return st;
}

enum osp_status pack_file_write(const char *path, const char *key, const struct pack_piece *pieces,
                                size_t n)
{
    char *temporary = mem_printf("%s.partial-XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    unsigned char *header = NULL;
    size_t n_bytes;
    enum osp_status st;

    if (fd < 0) {
        st = fail(OSP_EIO, "%s: cannot create: %s", path, strerror(errno));
        goto out;
    }
    header = make_header(&n_bytes, key, pieces, n);
    seal(header, n_bytes, pieces, n);
    st = write_content(fd, path, header, n_bytes, pieces, n);
    if (close(fd) != 0 && st == OSP_OK)
        st = fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
    if (st == OSP_OK && rename(temporary, path) != 0)
        st = fail(OSP_EIO, "%s: cannot rename: %s", path, strerror(errno));
    if (st != OSP_OK)
        unlink(temporary);
out:
    free(header);
    free(temporary);
    return st;
}
