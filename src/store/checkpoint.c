/* Opens a checkpoint folder: config and shards, and checks that they agree. */
#include "store/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "store/shard_list.h"

/* The folder that contains config.json: `path` or, if only that contains one, path/original. */
static enum osp_status find_folder(char **out, const char *path)
{
    char *config = path_join(path, "config.json");
    char *original = path_join(path, "original");
    char *original_config = path_join(original, "config.json");
    enum osp_status st = OSP_OK;

    if (path_is_file(config))
        *out = mem_strdup(path);
    else if (path_is_file(original_config))
        *out = mem_strdup(original);
    else if (path_is_folder(path))
        st = fail(OSP_ENOTFOUND, "%s: no config.json in this folder or in its original/", path);
    else
        st = fail(OSP_ENOTFOUND, "%s: no such folder", path);
    free(config);
    free(original);
    free(original_config);
    return st;
}

static enum osp_status open_files(struct checkpoint *c, const struct shard_list *list)
{
    enum osp_status st;

    TRY(mem_try_array(&c->files, (size_t)list->n, sizeof *c->files, "shards"));
    for (int i = 0; i < list->n; i++) {
        char *path = path_join(c->path, list->names[i]);

        st = st_file_open(&c->files[i], path);
        free(path);
        if (st == OSP_ENOTFOUND && list->index_path)
            return fail_prefix(st, "%s refers to a missing file", list->index_path);
        if (st != OSP_OK)
            return st;
        c->n_files++;
        c->n_tensors += (int64_t)c->files[i].n_tensors;
        if (c->n_tensors > CHECKPOINT_TENSORS_MAX)
            return fail(OSP_ELIMIT,
                        "%s: the first %d files have %lld tensors, at most %d are "
                        "allowed in a checkpoint",
                        c->path, c->n_files, (long long)c->n_tensors, CHECKPOINT_TENSORS_MAX);
        c->data_bytes += (int64_t)c->files[i].data_bytes;
        c->file_bytes += (int64_t)c->files[i].size_bytes;
    }
out:
    return st;
}

/* A tensor's name and the file that contains it. */
struct tensor_ref {
    const char *name;
    int file;
};

static int compare_refs(const void *a, const void *b)
{
    const struct tensor_ref *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    return order != 0 ? order : x->file - y->file;
}

/* Sorted by name, duplicates are adjacent. Duplicates within one file were excluded by the check of
 * its header. */
static enum osp_status check_unique(const struct checkpoint *c)
{
    struct tensor_ref *all = NULL;
    size_t n = 0;
    enum osp_status st;

    TRY(mem_try_array(&all, (size_t)c->n_tensors, sizeof *all, "names of tensors"));
    for (int i = 0; i < c->n_files; i++)
        for (size_t t = 0; t < c->files[i].n_tensors; t++)
            all[n++] = (struct tensor_ref){c->files[i].tensors[t].name, i};
    if (n > 0)
        qsort(all, n, sizeof *all, compare_refs);
    for (size_t i = 1; i < n && st == OSP_OK; i++)
        if (strcmp(all[i - 1].name, all[i].name) == 0)
            st = fail(OSP_EFORMAT, "%s: tensor %s: found again in %s, expected once",
                      c->files[all[i].file].path, all[i].name, c->files[all[i - 1].file].path);
out:
    free(all);
    return st;
}

enum osp_status checkpoint_open(struct checkpoint *out, const char *path)
{
    struct shard_list list = {.names = NULL};
    enum osp_status st;

    memset(out, 0, sizeof *out);
    TRY(find_folder(&out->path, path));
    TRY(gptoss_config_read(&out->config, out->path));
    TRY(shard_list_read(&list, out->path));
    TRY(open_files(out, &list));
    TRY(check_unique(out));
    TRY(shard_list_check(&list, out->files, out->data_bytes));
out:
    shard_list_release(&list);
    if (st != OSP_OK)
        checkpoint_close(out);
    return st;
}

void checkpoint_close(struct checkpoint *c)
{
    for (int i = 0; i < c->n_files; i++)
        st_file_close(&c->files[i]);
    free(c->files);
    free(c->path);
    memset(c, 0, sizeof *c);
}

const struct st_tensor *checkpoint_find(const struct checkpoint *c, const char *name,
                                        const struct st_file **file_out)
{
    for (int i = 0; i < c->n_files; i++) {
        const struct st_tensor *t = st_file_find(&c->files[i], name);

        if (t) {
            *file_out = &c->files[i];
            return t;
        }
    }
    return NULL;
}
