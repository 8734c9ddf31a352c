#include "base/gguf_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"

#define SUFFIX       ".gguf"
#define SPLIT_FORMAT "-%05d-of-%05d" SUFFIX

enum {
    SPLIT_BYTES = sizeof "-00001-of-00003" SUFFIX - 1,
    MODELS_MAX = 64, /* of a folder; repositories of quantised models have about 25 */
    LIST_BYTES_MAX = 512
};

bool gguf_split_parse(const char *path, size_t *n_prefix, int *number, int *count)
{
    const size_t n = strlen(path);
    char again[SPLIT_BYTES + 16];

    if (n <= SPLIT_BYTES ||
        sscanf(path + n - SPLIT_BYTES, "-%5d-of-%5d" SUFFIX, number, count) != 2)
        return false;
    snprintf(again, sizeof again, SPLIT_FORMAT, *number, *count);
    *n_prefix = n - SPLIT_BYTES;
    return strcmp(again, path + *n_prefix) == 0 && *number >= 1 && *number <= *count;
}

char *gguf_split_path(const char *path, int number)
{
    size_t n_prefix;
    int old, count;

    if (!gguf_split_parse(path, &n_prefix, &old, &count))
        return mem_strdup(path);
    return mem_printf("%.*s" SPLIT_FORMAT, (int)n_prefix, path, number, count);
}

char *gguf_model_name(const char *path)
{
    size_t n_prefix;
    int number, count;

    if (gguf_split_parse(path, &n_prefix, &number, &count))
        return mem_strndup(path, n_prefix);
    return mem_strndup(path, strlen(path) - (str_ends_with(path, SUFFIX) ? strlen(SUFFIX) : 0));
}

/* ---- folders ---- */

struct model_list {
    char *names[MODELS_MAX];
    int n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a file's model, once for all of its parts. */
static void add_model(struct model_list *l, const char *file)
{
    char *first = gguf_split_path(file, 1);

    for (int i = 0; i < l->n; i++)
        if (strcmp(l->names[i], first) == 0) {
            free(first);
            return;
        }
    if (l->n < MODELS_MAX)
        l->names[l->n++] = first;
    else
        free(first);
}

static void list_models(struct model_list *l, const char *folder)
{
    DIR *dir = opendir(folder);

    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char *path = path_join(folder, e->d_name);

        if (e->d_name[0] != '.' && str_ends_with(e->d_name, SUFFIX) &&
            strncmp(e->d_name, "mmproj", strlen("mmproj")) != 0 && path_is_file(path))
            add_model(l, e->d_name);
        free(path);
    }
    closedir(dir);
    qsort(l->names, (size_t)l->n, sizeof l->names[0], by_name);
}

static enum osp_status fail_several(const struct model_list *l, const char *folder)
{
    struct buf names;
    enum osp_status st;

    buf_init(&names, LIST_BYTES_MAX);
    for (int i = 0; i < l->n && !names.overflow; i++)
        buf_printf(&names, "%s%s", i > 0 ? ", " : "", l->names[i]);
    st = fail(OSP_EINVAL, "%s: has %d GGUF models; give the path of one of them: %s%s", folder,
              l->n, buf_text(&names), names.overflow ? ", ..." : "");
    buf_release(&names);
    return st;
}

enum osp_status gguf_in_folder(char **out, const char *folder)
{
    struct model_list l = {.n = 0};
    enum osp_status st = OSP_OK;

    *out = NULL;
    list_models(&l, folder);
    if (l.n == 1)
        *out = path_join(folder, l.names[0]);
    else if (l.n > 1)
        st = fail_several(&l, folder);
    for (int i = 0; i < l.n; i++)
        free(l.names[i]);
    return st;
}
