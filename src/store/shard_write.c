/* Splits a list of tensors into shards and writes them with their index. */
#include "store/shard_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "store/shard_list.h"

enum {
    NAME_BYTES = 64,
    INDEX_BYTES_MAX = 8 * 1024 * 1024 /* as in shard_list.c */
};

struct shard {
    struct shard_write *w;
    size_t first, end;     /* the range of its tensors */
    char name[NAME_BYTES]; /* file name */
};

int64_t shard_write_data_bytes(const struct shard_write *w)
{
    int64_t n_bytes = 0;

    for (size_t i = 0; i < w->all.n_tensors; i++)
        n_bytes += (int64_t)w->all.tensors[i].size_bytes;
    return n_bytes;
}

/* Index after the last tensor of the shard that begins with tensor `first`. */
static size_t shard_end(const struct shard_write *w, size_t first)
{
    int64_t n_bytes = (int64_t)w->all.tensors[first].size_bytes;
    size_t end = first + 1;

    while (end < w->all.n_tensors &&
           (int64_t)w->all.tensors[end].size_bytes <= w->shard_bytes_max - n_bytes)
        n_bytes += (int64_t)w->all.tensors[end++].size_bytes;
    return end;
}

static int count_shards(const struct shard_write *w)
{
    int n = 0;

    for (size_t at = 0; at < w->all.n_tensors; at = shard_end(w, at))
        n++;
    return n;
}

/* The number after "of" is that of the last file, because files are numbered from 0. */
static void name_shard(struct shard *s, int number, int n_shards)
{
    if (n_shards == 1)
        snprintf(s->name, sizeof s->name, "model.safetensors");
    else
        snprintf(s->name, sizeof s->name, "model-%05d-of-%05d.safetensors", number, n_shards - 1);
}

static enum osp_status shard_data(void *ctx, size_t index, const void **data)
{
    const struct shard *s = ctx;

    return s->w->all.data(s->w->all.ctx, s->first + index, data);
}

static enum osp_status shard_written(void *ctx, size_t n_bytes)
{
    const struct shard *s = ctx;

    return s->w->all.written ? s->w->all.written(s->w->all.ctx, n_bytes) : OSP_OK;
}

static enum osp_status write_shard(struct shard *s, const struct staging_dir *folder)
{
    const struct st_write file = {.tensors = s->w->all.tensors + s->first,
                                  .n_tensors = s->end - s->first,
                                  .data = shard_data,
                                  .written = shard_written,
                                  .ctx = s};
    char *path = path_join(folder->temporary, s->name);
    size_t header_bytes;
    enum osp_status st;

    TRY(st_write_header_bytes(&file, &header_bytes));
    TRY(st_write_file(&file, path));
    s->w->n_files++;
    s->w->file_bytes += (int64_t)header_bytes;
    for (size_t i = s->first; i < s->end; i++)
        s->w->file_bytes += (int64_t)s->w->all.tensors[i].size_bytes;
out:
    free(path);
    return st;
}

static void index_shard(struct buf *index, const struct shard *s)
{
    for (size_t i = s->first; i < s->end; i++) {
        const char *name = s->w->all.tensors[i].name;

        buf_puts(index, i > 0 ? ",\n    " : "\n    ");
        buf_json_string(index, name, strlen(name));
        buf_printf(index, ": \"%s\"", s->name);
    }
}

static enum osp_status write_index(struct buf *index, const struct staging_dir *folder)
{
    buf_puts(index, "\n  }\n}\n");
    if (index->overflow)
        return fail(OSP_ELIMIT, "%s: the index exceeds the limit of %d bytes", folder->path,
                    INDEX_BYTES_MAX);
    return staging_dir_write(folder, "model.safetensors.index.json", buf_text(index),
                             index->size_bytes);
}

enum osp_status shard_write_all(struct shard_write *w, const struct staging_dir *folder)
{
    const int n_shards = count_shards(w);
    struct shard s = {.w = w};
    struct buf index;
    enum osp_status st = OSP_OK;

    buf_init(&index, INDEX_BYTES_MAX);
    buf_printf(&index, "{\n  \"metadata\": {\"total_size\": %lld},\n  \"weight_map\": {",
               (long long)shard_write_data_bytes(w));
    w->n_files = 0;
    w->file_bytes = 0;
    if (n_shards > SHARDS_MAX) {
        st = fail(OSP_ELIMIT, "%s: %d shards, at most %d are allowed: increase the shard size",
                  folder->path, n_shards, SHARDS_MAX);
        goto out;
    }
    for (int i = 0; i < n_shards; i++, s.first = s.end) {
        s.end = shard_end(w, s.first);
        name_shard(&s, i, n_shards);
        index_shard(&index, &s);
        TRY(write_shard(&s, folder));
    }
    if (n_shards > 1)
        TRY(write_index(&index, folder));
out:
    buf_release(&index);
    return st;
}
