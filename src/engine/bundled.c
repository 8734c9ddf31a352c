/* Finds the bundled model and tokenizers. */
#include "engine/bundled.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"

enum { PLACES_TEXT_BYTES_MAX = 64 * 1024 };

/* Paths from the folder of the library or the program to the model. */
static const char *const relative_places[] = {
    "../models/" BUNDLED_MODEL_NAME,                 /* build tree, bundle */
    "../../models/" BUNDLED_MODEL_NAME,              /* a program in a folder of the build tree */
    "../share/osprey/models/" BUNDLED_MODEL_NAME,    /* installed */
    "../../share/osprey/models/" BUNDLED_MODEL_NAME, /* installed, lib/<triplet> */
};

struct search {
    char *found;       /* NULL until a place holds a model */
    struct buf places; /* tried so far, for the message */
};

/* Tries `path` and takes ownership of it. */
static void try_path(struct search *l, char *path)
{
    char *config = path_join(path, "config.json");

    if (l->found == NULL && path_is_file(config)) {
        l->found = path;
    } else {
        buf_printf(&l->places, "%s%s", l->places.size_bytes > 0 ? ", " : "", path);
        free(path);
    }
    free(config);
}

/* Tries the places near the file at `path`, a program or a library. */
static void try_near(struct search *l, const char *path)
{
    char *real = realpath(path, NULL);
    char *slash = real != NULL ? strrchr(real, '/') : NULL;

    if (slash == NULL) {
        free(real);
        return;
    }
    *slash = '\0';
    for (size_t i = 0; i < sizeof relative_places / sizeof relative_places[0]; i++)
        if (l->found == NULL)
            try_path(l, path_join(real, relative_places[i]));
    free(real);
}

static void try_all(struct search *l)
{
    static const char anchor; /* an address in this library or program */
    Dl_info info;

    if (dladdr(&anchor, &info) != 0 && info.dli_fname != NULL)
        try_near(l, info.dli_fname);
    if (l->found == NULL)
        try_near(l, "/proc/self/exe");
}

enum osp_status bundled_model_path(char **out)
{
    const char *given = getenv("OSPREY_MODEL_DIR");
    struct search l = {.found = NULL};
    enum osp_status st = OSP_OK;

    buf_init(&l.places, PLACES_TEXT_BYTES_MAX);
    if (given != NULL && given[0] != '\0')
        try_path(
            &l,
            mem_strdup(given)); /* a folder that was named must hold it: no other place is tried */
    else
        try_all(&l);
    if (l.found == NULL)
        st = fail(OSP_ENOTFOUND,
                  "no bundled model: no config.json in %s; name a checkpoint folder or set "
                  "OSPREY_MODEL_DIR",
                  buf_text(&l.places));
    *out = l.found;
    buf_release(&l.places);
    return st;
}

static bool is_tokenizer_name(const char *name)
{
    return strcmp(name, "tokenizer.json") == 0 || str_ends_with(name, ".tiktoken");
}

static bool holds_tokenizer(const char *folder)
{
    DIR *d = opendir(folder);
    bool found = false;

    if (d == NULL)
        return false;
    for (struct dirent *e = readdir(d); e != NULL && !found; e = readdir(d))
        found = is_tokenizer_name(e->d_name);
    closedir(d);
    return found;
}

enum osp_status bundled_tokenizer_path(char **out, const char *given, const char *folder)
{
    char *parent;
    enum osp_status st = OSP_OK;

    *out = NULL;
    if (given != NULL) {
        *out = mem_strdup(given);
        return OSP_OK;
    }
    if (holds_tokenizer(folder)) {
        *out = mem_strdup(folder);
        return OSP_OK;
    }
    parent = path_join(folder, "..");
    if (holds_tokenizer(parent)) {
        *out = parent;
        return OSP_OK;
    }
    st = fail(OSP_ENOTFOUND, "no tokenizer.json and no .tiktoken file in %s or %s", folder, parent);
    free(parent);
    return st;
}
