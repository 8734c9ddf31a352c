/* Opens a checkpoint with the reader of its layout. */
#include <stdlib.h>
#include <string.h>

#include "store/checkpoint_reader.h"

static const struct checkpoint_reader *const readers[] = {&gguf_reader, &safetensors_reader};

enum osp_status checkpoint_files_alloc(struct checkpoint *c, int n)
{
    return mem_try_array(&c->files, (size_t)n, sizeof *c->files, "shards");
}

enum osp_status checkpoint_files_count(struct checkpoint *c)
{
    const struct st_file *f = &c->files[c->n_files++];

    c->n_tensors += (int64_t)f->n_tensors;
    c->data_bytes += (int64_t)f->data_bytes;
    c->file_bytes += (int64_t)f->size_bytes;
    if (c->n_tensors > CHECKPOINT_TENSORS_MAX)
        return fail(OSP_ELIMIT,
                    "%s: the first %d files have %lld tensors, at most %d are allowed in a "
                    "checkpoint",
                    c->path, c->n_files, (long long)c->n_tensors, CHECKPOINT_TENSORS_MAX);
    return OSP_OK;
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
enum osp_status checkpoint_check_unique(const struct checkpoint *c)
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

static enum osp_status find_reader(char **place, const struct checkpoint_reader **reader,
                                   const char *path)
{
    enum osp_status st = OSP_OK;

    *place = NULL;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0] && !*place; i++) {
        TRY(readers[i]->find(place, path));
        *reader = readers[i];
    }
    if (*place)
        return OSP_OK;
    if (path_is_folder(path))
        st = fail(OSP_ENOTFOUND,
                  "%s: no config.json in this folder or in its original/, and no GGUF file", path);
    else
        st = fail(OSP_ENOTFOUND, "%s: no such folder or file", path);
out:
    return st;
}

enum osp_status checkpoint_open(struct checkpoint *out, const char *path)
{
    const struct checkpoint_reader *reader = NULL;
    enum osp_status st;

    memset(out, 0, sizeof *out);
    TRY(find_reader(&out->path, &reader, path));
    TRY(reader->open(out));
out:
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
