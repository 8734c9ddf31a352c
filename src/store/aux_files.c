/* Copies a checkpoint's small files by name. */
#include "store/aux_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static bool is_aux_file(const char *name)
{
    /* Not copied: these are written by osprey, or describe the old tensors only. */
    static const char *const others[] = {"config.json", "model.safetensors.index.json",
                                         "dtypes.json", NULL};

    if (name[0] == '.' || is_one_of(name, others))
        return false;
    return str_ends_with(name, ".json") || str_ends_with(name, ".jinja") ||
           str_ends_with(name, ".tiktoken") || str_ends_with(name, ".txt") ||
           strcmp(name, "LICENSE") == 0;
}

/* The tokenizer's files: the only ones that are taken from a parent folder, because it also
 * contains another checkpoint and other files. */
static bool is_tokenizer_file(const char *name)
{
    static const char *const names[] = {"tokenizer.json",          "tokenizer_config.json",
                                        "special_tokens_map.json", "generation_config.json",
                                        "chat_template.jinja",     NULL};

    return is_one_of(name, names) || str_ends_with(name, ".tiktoken");
}

/* Copies the files in `folder` that `wanted` accepts and that do not exist yet. */
static enum osp_status copy_matching(const struct staging_dir *to, const char *folder,
                                     bool (*wanted)(const char *name))
{
    DIR *dir = opendir(folder);
    enum osp_status st = OSP_OK;

    if (!dir)
        return fail(OSP_EIO, "%s: cannot list: %s", folder, strerror(errno));
    for (struct dirent *e = readdir(dir); e && st == OSP_OK; e = readdir(dir)) {
        char *from = path_join(folder, e->d_name), *there = path_join(to->temporary, e->d_name);

        if (wanted(e->d_name) && path_is_file(from) && !path_is_file(there))
            st = staging_dir_copy(to, e->d_name, from);
        free(from);
        free(there);
    }
    closedir(dir);
    return st;
}

enum osp_status aux_files_copy(const struct staging_dir *to, const char *folder, bool from_parent)
{
    char *parent = path_join(folder, "..");
    enum osp_status st;

    TRY(copy_matching(to, folder, is_aux_file));
    if (from_parent)
        TRY(copy_matching(to, parent, is_tokenizer_file));
out:
    free(parent);
    return st;
}
