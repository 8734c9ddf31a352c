/* Reads a checkpoint of safetensors: the layouts of Transformers and of openai's original/, whose
 * config.json tells which of the two it is. */
#include <stdlib.h>
#include <string.h>

#include "store/checkpoint_reader.h"
#include "store/draft_checkpoint.h"
#include "store/safetensors.h"
#include "store/shard_list.h"

/* The folder that contains config.json: `path` or, if only that contains one, path/original. */
static enum osp_status find_folder(char **out, const char *path)
{
    char *config = path_join(path, "config.json");
    char *original = path_join(path, "original");
    char *original_config = path_join(original, "config.json");

    *out = NULL;
    if (path_is_file(config))
        *out = mem_strdup(path);
    else if (path_is_file(original_config))
        *out = mem_strdup(original);
    free(config);
    free(original);
    free(original_config);
    return OSP_OK;
}

static enum osp_status open_files(struct checkpoint *c, const struct shard_list *list)
{
    enum osp_status st;

    TRY(checkpoint_files_alloc(c, list->n));
    for (int i = 0; i < list->n; i++) {
        char *path = path_join(c->path, list->names[i]);

        st = safetensors_open(&c->files[i], path);
        free(path);
        if (st == OSP_ENOTFOUND && list->index_path)
            return fail_prefix(st, "%s refers to a missing file", list->index_path);
        if (st != OSP_OK)
            return st;
        TRY(checkpoint_files_count(c));
    }
out:
    return st;
}

enum osp_status safetensors_folder_open(struct checkpoint *out)
{
    struct shard_list list = {.names = NULL};
    enum osp_status st;

    TRY(shard_list_read(&list, out->path));
    TRY(open_files(out, &list));
    TRY(checkpoint_check_unique(out));
    TRY(shard_list_check(&list, out->files, out->data_bytes));
out:
    shard_list_release(&list);
    return st;
}

static enum osp_status open_folder(struct checkpoint *out)
{
    enum osp_status st;

    TRY(gptoss_config_read(&out->config, out->path));
    TRY(safetensors_folder_open(out));
out:
    return st;
}

const struct checkpoint_reader safetensors_reader = {find_folder, open_folder};

enum osp_status draft_checkpoint_open(struct checkpoint *out, struct draft_config *config,
                                      const char *folder)
{
    enum osp_status st;

    *out = (struct checkpoint){.path = mem_strdup(folder)};
    TRY(draft_config_read(config, folder));
    TRY(safetensors_folder_open(out));
out:
    if (st != OSP_OK)
        checkpoint_close(out);
    return st;
}
