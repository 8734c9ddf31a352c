/* Copies of the small checkpoints of tests/golden/checkpoints, to be damaged: edits of JSON files
 * and of safetensors headers, and files truncated, extended and removed. Each copy is in its own
 * folder below /tmp, which folder_remove() deletes. */
#ifndef CHECKPOINT_EDIT_H
#define CHECKPOINT_EDIT_H

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "unit.h"

#define GOLDEN_CHECKPOINTS "tests/golden/checkpoints/"

enum { EDIT_FILE_BYTES_MAX = 1 << 20, EDIT_LENGTH_BYTES = 8 };

/* Gives a string to folder_remove(). */
static inline char *folder_new(void)
{
    char *path = mem_strdup("/tmp/osprey-test-XXXXXX");

    assert_non_null(mkdtemp(path));
    return path;
}

/* Not inline: gcc 12 would give a false warning about a dangling pointer. */
__attribute__((noinline, unused)) static char *bytes_read(const char *folder, const char *name,
                                                          size_t *n_bytes)
{
    char *path = path_join(folder, name), *bytes = NULL;
    enum osp_status st = file_read(&bytes, n_bytes, path, EDIT_FILE_BYTES_MAX);

    if (st != OSP_OK)
        fail_msg("%s", fail_message());
    free(path);
    return bytes;
}

static inline void bytes_write(const char *folder, const char *name, const void *bytes,
                               size_t n_bytes)
{
    char *path = path_join(folder, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
    free(path);
}

static inline void text_write(const char *folder, const char *name, const char *text)
{
    bytes_write(folder, name, text, strlen(text));
}

static inline bool is_hidden(const struct dirent *e)
{
    return e->d_name[0] == '.';
}

/* A copy of a folder of plain files. Gives a path to folder_remove(). */
static inline char *checkpoint_copy(const char *layout)
{
    char *from = path_join(GOLDEN_CHECKPOINTS, layout), *to = folder_new();
    DIR *dir = opendir(from);

    if (!dir)
        fail_msg("%s is not there: run from the root of the repository", from);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t n_bytes;
        char *bytes;

        if (is_hidden(e))
            continue;
        bytes = bytes_read(from, e->d_name, &n_bytes);
        bytes_write(to, e->d_name, bytes, n_bytes);
        free(bytes);
    }
    closedir(dir);
    free(from);
    return to;
}

/* Removes a folder, and one level of folders in it; frees the path. */
static inline void folder_remove(char *folder)
{
    DIR *dir = opendir(folder);

    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char *path = path_join(folder, e->d_name);

        if (!is_hidden(e) && path_is_folder(path))
            folder_remove(mem_strdup(path));
        else if (!is_hidden(e))
            unlink(path);
        free(path);
    }
    closedir(dir);
    rmdir(folder);
    free(folder);
}

/* Replaces the first `from` in text with `to`; gives the new text. */
static inline char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    size_t before = at ? (size_t)(at - text) : 0;

    if (!at)
        fail_msg("the test asks to replace what is not there: %s", from);
    return mem_printf("%.*s%s%s", (int)before, text, to, text + before + strlen(from));
}

static inline void edit_text(const char *folder, const char *name, const char *from, const char *to)
{
    size_t n_bytes;
    char *text = bytes_read(folder, name, &n_bytes);
    char *edited = replaced(text, from, to);

    text_write(folder, name, edited);
    free(text);
    free(edited);
}

/* Writes length, header and data as one safetensors file. */
static inline void shard_write(const char *folder, const char *name, const char *header,
                               const void *data, size_t data_bytes)
{
    size_t n = strlen(header);
    unsigned char *bytes = mem_new(EDIT_LENGTH_BYTES + n + data_bytes + 1);

    for (int i = 0; i < EDIT_LENGTH_BYTES; i++)
        bytes[i] = (unsigned char)(n >> (8 * i));
    memcpy(bytes + EDIT_LENGTH_BYTES, header, n);
    if (data_bytes > 0)
        memcpy(bytes + EDIT_LENGTH_BYTES + n, data, data_bytes);
    bytes_write(folder, name, bytes, EDIT_LENGTH_BYTES + n + data_bytes);
    free(bytes);
}

/* Length of the header in a file's first 8 bytes. */
static inline size_t header_bytes_of(const char *bytes)
{
    size_t n = 0;

    for (int i = EDIT_LENGTH_BYTES - 1; i >= 0; i--)
        n = n << 8 | (unsigned char)bytes[i];
    return n;
}

/* Replaces text in the header of a shard and updates the header's length. */
static inline void edit_header(const char *folder, const char *name, const char *from,
                               const char *to)
{
    size_t n_bytes, n_header;
    char *bytes = bytes_read(folder, name, &n_bytes), *header, *edited;

    n_header = header_bytes_of(bytes);
    header = mem_strndup(bytes + EDIT_LENGTH_BYTES, n_header);
    edited = replaced(header, from, to);
    shard_write(folder, name, edited, bytes + EDIT_LENGTH_BYTES + n_header,
                n_bytes - EDIT_LENGTH_BYTES - n_header);
    free(bytes);
    free(header);
    free(edited);
}

/* Truncates (n_bytes < 0) the file or extends it with zeros. */
static inline void edit_size(const char *folder, const char *name, long n_bytes)
{
    char *path = path_join(folder, name);
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size + n_bytes), 0);
    free(path);
}

static inline void edit_byte(const char *folder, const char *name, size_t at, int value)
{
    size_t n_bytes;
    char *bytes = bytes_read(folder, name, &n_bytes);

    assert_true(at < n_bytes);
    bytes[at] = (char)value;
    bytes_write(folder, name, bytes, n_bytes);
    free(bytes);
}

static inline void remove_file(const char *folder, const char *name)
{
    char *path = path_join(folder, name);

    assert_int_equal(unlink(path), 0);
    free(path);
}

/* Asserts that the failure has this code and that its message contains all n fragments. */
static inline void assert_failure(enum osp_status found, enum osp_status expected,
                                  const char *label, const char *const *fragments, size_t n)
{
    if (found != expected)
        fail_msg("%s: %s, expected %s; message: %s", label, status_name(found),
                 status_name(expected), fail_message());
    for (size_t i = 0; i < n && fragments[i]; i++)
        if (!strstr(fail_message(), fragments[i]))
            fail_msg("%s: \"%s\" is not in the message: %s", label, fragments[i], fail_message());
}

#endif
