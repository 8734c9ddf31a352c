#include "store/hub/hub_listing.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_limits.h"
#include "base/memory.h"

static const struct json_limits LIMITS = {.file_bytes = HUB_LISTING_BYTES_MAX,
                                          .memory_bytes = 512 << 20,
                                          .string_bytes = 1 << 20,
                                          .depth = 32};

static enum osp_status parse(json_t **out, const char *text, size_t n_bytes, const char *where)
{
    json_error_t error;
    enum osp_status st = json_limits_check(&LIMITS, text, n_bytes);

    if (st != OSP_OK)
        return fail_prefix(st, "%s", where);
    *out = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    return *out != NULL ? OSP_OK
                        : fail(OSP_EFORMAT, "%s: the answer is not JSON: line %d: %s", where,
                               error.line, error.text);
}

/* ---- one file ---- */

static enum osp_status append(struct hub_listing *l, const struct hub_file *file)
{
    enum osp_status st;

    if (l->n >= HUB_FILES_MAX)
        return fail(OSP_ELIMIT, "the repository has more than %d files", (int)HUB_FILES_MAX);
    st = mem_try_grow(&l->files, l->n, &l->capacity, sizeof *l->files, "list of files");
    if (st == OSP_OK)
        l->files[l->n++] = *file;
    return st;
}

/* The size and digest of large file storage; for other files git's, of the entry itself. */
static enum osp_status read_digest(struct hub_file *out, const json_t *entry, const char *path,
                                   const char *where)
{
    const json_t *lfs = json_object_get(entry, "lfs");
    const json_t *from = json_is_object(lfs) ? lfs : entry;
    const json_t *size = json_object_get(from, "size");
    const char *etag = json_string_value(json_object_get(from, "oid"));
    const size_t n = from == lfs ? HUB_ETAG_BYTES_MAX : HUB_COMMIT_BYTES;

    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        json_integer_value(size) > HUB_FILE_BYTES_MAX)
        return fail(OSP_EFORMAT, "%s: %s: its size must be a number from 0 to %" PRId64, where,
                    path, HUB_FILE_BYTES_MAX);
    if (etag == NULL || !hub_etag_is(etag) || strlen(etag) != n)
        return fail(OSP_EFORMAT, "%s: %s: its digest must have %zu hexadecimal digits", where, path,
                    n);
    out->size = json_integer_value(size);
    memcpy(out->etag, etag, n + 1);
    return OSP_OK;
}

static enum osp_status add_entry(struct hub_listing *l, const json_t *entry, const char *where)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    struct hub_file file = {0};
    enum osp_status st;

    if (type == NULL || path == NULL)
        return fail(OSP_EFORMAT, "%s: an entry lacks its type or its path", where);
    if (strcmp(type, "file") != 0)
        return OSP_OK; /* a folder: its files have entries of their own */
    if (!hub_path_is_sane(path))
        return fail(OSP_EFORMAT, "%s: refused, the file name '%s' could leave the model's folder",
                    where, path);
    TRY(read_digest(&file, entry, path, where));
    file.path = mem_strdup(path);
    st = append(l, &file);
    if (st != OSP_OK)
        free(file.path);
out:
    return st;
}

/* ---- the list ---- */

enum osp_status hub_listing_add_page(struct hub_listing *l, const char *text, size_t n_bytes,
                                     const char *where)
{
    json_t *root = NULL;
    enum osp_status st;

    TRY(parse(&root, text, n_bytes, where));
    if (!json_is_array(root)) {
        st = fail(OSP_EFORMAT, "%s: the answer is not a list of files", where);
        goto out;
    }
    for (size_t i = 0; i < json_array_size(root); i++)
        TRY(add_entry(l, json_array_get(root, i), where));
out:
    json_decref(root);
    return st;
}

enum osp_status hub_listing_add(struct hub_listing *l, const char *path, int64_t size)
{
    struct hub_file file = {.path = mem_strdup(path), .size = size};
    const enum osp_status st = append(l, &file);

    if (st != OSP_OK)
        free(file.path);
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum osp_status hub_listing_check(const struct hub_listing *l, const char *where)
{
    const char **paths;
    enum osp_status st;

    TRY(mem_try_array(&paths, l->n, sizeof *paths, "list of files"));
    for (size_t i = 0; i < l->n; i++)
        paths[i] = l->files[i].path;
    qsort(paths, l->n, sizeof *paths, by_path);
    for (size_t i = 1; i < l->n && st == OSP_OK; i++)
        if (strcmp(paths[i - 1], paths[i]) == 0)
            st = fail(OSP_EFORMAT, "%s: the file %s is listed twice", where, paths[i]);
    free(paths);
out:
    return st;
}

void hub_listing_release(struct hub_listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->files[i].path);
    free(l->files);
    *l = (struct hub_listing){0};
}

enum osp_status hub_commit_read(char out[HUB_COMMIT_BYTES + 1], const char *text, size_t n_bytes,
                                const char *where)
{
    json_t *root = NULL;
    const char *commit;
    enum osp_status st;

    TRY(parse(&root, text, n_bytes, where));
    commit = json_string_value(json_object_get(root, "sha"));
    if (commit != NULL && hub_commit_is(commit))
        memcpy(out, commit, HUB_COMMIT_BYTES + 1);
    else
        st = fail(OSP_EFORMAT, "%s: the answer has no commit of %d hexadecimal digits (sha)", where,
                  (int)HUB_COMMIT_BYTES);
out:
    json_decref(root);
    return st;
}
