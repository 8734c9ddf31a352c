/* Finds the shards of a checkpoint. Names are those of the index's weight_map and are never
 * derived: some published checkpoints number them from 0 up to the number after "of", others from
 * 1. */
#include "store/shard_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/json_read.h"

enum {
    FILE_NAME_BYTES_MAX = 255, /* the limit of common file systems */
    SHARD_NAME_BYTES = 64
};

/* gpt-oss-120b's index has 0.06 MB. An entry is a tensor name and a file name; 8 MiB are enough for
 * 80,000 entries. */
static const struct json_limits index_limits = {
    .file_bytes = 8 << 20, .memory_bytes = 64 << 20, .string_bytes = 4096, .depth = 16};

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

/* The index in the sorted list at which a name is or would be inserted. */
static int shard_index(const struct shard_list *l, const char *name)
{
    int begin = 0, end = l->n;

    while (begin < end) {
        const int middle = begin + (end - begin) / 2;

        if (strcmp(l->names[middle], name) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* The index of a name, or -1. */
static int find_name(const struct shard_list *l, const char *name)
{
    const int i = shard_index(l, name);

    return i < l->n && strcmp(l->names[i], name) == 0 ? i : -1;
}

/* Adds a name if it is new; false when the list is full. */
static bool add_name(struct shard_list *l, const char *name)
{
    const int at = shard_index(l, name);

    if (at < l->n && strcmp(l->names[at], name) == 0)
        return true;
    if (l->n == SHARDS_MAX)
        return false;
    memmove(&l->names[at + 1], &l->names[at], (size_t)(l->n - at) * sizeof *l->names);
    l->names[at] = mem_strdup(name);
    l->n++;
    return true;
}

/* ---- index ---- */

/* A file name in the index must not refer to another folder. */
static bool is_plain_name(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > FILE_NAME_BYTES_MAX || name[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] == '/' || name[i] == '\\' || (unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return false;
    return true;
}

static enum osp_status read_map_entry(struct shard_list *l, const char *tensor, const json_t *value)
{
    const char *name = json_string_value(value);

    if (!name)
        return fail(OSP_EFORMAT, "%s: weight_map: tensor %.256s is %s, expected a file name",
                    l->index_path, tensor, json_type_name(value));
    if (!is_plain_name(name))
        return fail(
            OSP_EFORMAT,
            "%s: weight_map: tensor %.256s: its file is not a plain name in the same folder",
            l->index_path, tensor);
    if (!add_name(l, name))
        return fail(OSP_EFORMAT, "%s: weight_map names over %d files", l->index_path, SHARDS_MAX);
    return OSP_OK;
}

static const json_t *weight_map(const struct shard_list *l)
{
    return json_object_get(l->index, "weight_map");
}

static enum osp_status read_index(struct shard_list *l)
{
    enum osp_status st;
    const char *tensor;
    json_t *value;

    TRY(json_read_file(&l->index, l->index_path, &index_limits));
    if (!json_is_object(weight_map(l)) || json_object_size(weight_map(l)) == 0)
        return fail(OSP_EFORMAT, "%s: weight_map is %s, expected an object of tensors",
                    l->index_path,
                    json_is_object(weight_map(l)) ? "empty" : json_type_name(weight_map(l)));
    json_object_foreach((json_t *)weight_map(l), tensor, value)
        TRY(read_map_entry(l, tensor, value));
out:
    return st;
}

/* ---- shards of original/ ---- */

/* Reads "model--00002-of-00007.safetensors"; false for other names. */
static bool parse_shard_name(const char *name, int *number, int *count)
{
    char again[SHARD_NAME_BYTES];

    if (sscanf(name, "model--%5d-of-%5d.safetensors", number, count) != 2)
        return false;
    snprintf(again, sizeof again, "model--%05d-of-%05d.safetensors", *number, *count);
    return strcmp(again, name) == 0;
}

static enum osp_status add_numbered(struct shard_list *l, const char *folder, int count)
{
    if (count < 1 || count > SHARDS_MAX)
        return fail(OSP_EFORMAT, "%s: the name of a file has %d parts, expected 1 to %d", folder,
                    count, SHARDS_MAX);
    for (int i = 1; i <= count; i++) {
        char name[SHARD_NAME_BYTES];

        snprintf(name, sizeof name, "model--%05d-of-%05d.safetensors", i, count);
        (void)add_name(l, name); /* cannot fail: within SHARDS_MAX */
    }
    return OSP_OK;
}

/* All parts must agree on their number; opening reports a missing part. */
static enum osp_status find_numbered(struct shard_list *l, const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0, number, found;
    bool agree = true;

    if (!dir)
        return fail(OSP_EIO, "%s: cannot list: %s", folder, strerror(errno));
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (parse_shard_name(e->d_name, &number, &found)) {
            agree = agree && (count == 0 || found == count);
            count = found;
        }
    closedir(dir);
    if (!agree)
        return fail(OSP_EFORMAT,
                    "%s: files named model--*-of-*.safetensors disagree on their number", folder);
    if (count == 0)
        return fail(OSP_ENOTFOUND, "%s: no %s, %s or model--*-of-*.safetensors", folder, index_name,
                    single_name);
    return add_numbered(l, folder, count);
}

/* ---- all layouts ---- */

enum osp_status shard_list_read(struct shard_list *out, const char *folder)
{
    char *index_path = path_join(folder, index_name), *single = path_join(folder, single_name);
    enum osp_status st = OSP_OK;

    *out = (struct shard_list){.n = 0};
    TRY(mem_try_array(&out->names, SHARDS_MAX, sizeof *out->names, "names of files"));
    if (path_is_file(index_path)) {
        out->index_path = mem_strdup(index_path);
        TRY(read_index(out));
    } else if (path_is_file(single)) {
        (void)add_name(out, single_name); /* cannot fail: the first name */
    } else {
        TRY(find_numbered(out, folder));
    }
out:
    if (st != OSP_OK)
        shard_list_release(out);
    free(index_path);
    free(single);
    return st;
}

void shard_list_release(struct shard_list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->names[i]);
    free(l->names);
    free(l->index_path);
    json_decref(l->index);
    *l = (struct shard_list){.names = NULL};
}

/* The index of the file that contains a tensor, or -1. */
static int find_shard(const struct shard_list *l, const struct st_file *files, const char *tensor)
{
    for (int i = 0; i < l->n; i++)
        if (st_file_find(&files[i], tensor))
            return i;
    return -1;
}

static enum osp_status check_indexed(const struct shard_list *l, const struct st_file *files)
{
    const char *tensor;
    json_t *value;

    json_object_foreach((json_t *)weight_map(l), tensor, value)
    {
        const int expected = find_name(l, json_string_value(value));
        int holder;

        if (expected >= 0 && st_file_find(&files[expected], tensor))
            continue;
        holder = find_shard(l, files, tensor); /* the file that contains it, for the message */
        if (holder < 0)
            return fail(OSP_EFORMAT, "%s: tensor %.256s: expected in %s, found in no file",
                        l->index_path, tensor, json_string_value(value));
        return fail(OSP_EFORMAT, "%s: tensor %.256s: expected in %s, found in %s", l->index_path,
                    tensor, json_string_value(value), l->names[holder]);
    }
    return OSP_OK;
}

static enum osp_status check_unindexed(const struct shard_list *l, const struct st_file *files)
{
    for (int i = 0; i < l->n; i++)
        for (size_t t = 0; t < files[i].n_tensors; t++)
            if (!json_object_get(weight_map(l), files[i].tensors[t].name))
                return fail(OSP_EFORMAT, "%s: tensor %s: found in the file, not listed in %s",
                            files[i].path, files[i].tensors[t].name, l->index_path);
    return OSP_OK;
}

/* Checks metadata.total_size, if the index has it. */
static enum osp_status check_total(const struct shard_list *l, int64_t data_bytes)
{
    const json_t *total = json_object_get(json_object_get(l->index, "metadata"), "total_size");

    if (!total)
        return OSP_OK;
    if (!json_is_integer(total))
        return fail(OSP_EFORMAT, "%s: metadata.total_size is %s, expected an integer",
                    l->index_path, json_type_name(total));
    if (json_integer_value(total) != data_bytes)
        return fail(OSP_EFORMAT,
                    "%s: metadata.total_size is %" JSON_INTEGER_FORMAT
                    ", the tensors of its %d files have %lld bytes",
                    l->index_path, json_integer_value(total), l->n, (long long)data_bytes);
    return OSP_OK;
}

enum osp_status shard_list_check(const struct shard_list *l, const struct st_file *files,
                                 int64_t data_bytes)
{
    enum osp_status st;

    if (!l->index)
        return OSP_OK;
    TRY(check_indexed(l, files));
    TRY(check_unindexed(l, files));
    TRY(check_total(l, data_bytes));
out:
    return st;
}
