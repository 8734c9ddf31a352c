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

enum { PLACES_MAX = 8, PLACES_TEXT_BYTES_MAX = 64 * 1024 };

/* Paths from the folder of the library or the program to the model. */
static const char *const relative_places[] = {
    "../models/" BUNDLED_MODEL_NAME,                 /* build tree, bundle */
    "../../models/" BUNDLED_MODEL_NAME,              /* a program in a folder of the build tree */
    "../share/osprey/models/" BUNDLED_MODEL_NAME,    /* installed */
    "../../share/osprey/models/" BUNDLED_MODEL_NAME, /* installed, lib/<triplet> */
};

struct search {
    char *found;              /* NULL until a place holds a model */
    char *places[PLACES_MAX]; /* tried so far, each once */
    int n_places;
};

static bool was_tried(const struct search *l, const char *path)
{
    for (int i = 0; i < l->n_places; i++)
        if (strcmp(l->places[i], path) == 0)
            return true;
    return false;
}

/* Tries `path` and takes ownership of it. */
static void try_path(struct search *l, char *path)
{
    char *config = path_join(path, "config.json");

    if (l->found == NULL && path_is_file(config))
        l->found = path;
    else if (l->n_places < PLACES_MAX && !was_tried(l, path))
        l->places[l->n_places++] = path;
    else
        free(path);
    free(config);
}

/* `folder`, which has no links, joined with `relative`; each leading ".." takes off a component,
 * so that one place has one name. */
static char *place_of(const char *folder, const char *relative)
{
    char *base = mem_strdup(folder), *place;

    for (; strncmp(relative, "../", 3) == 0; relative += 3) {
        char *slash = strrchr(base, '/');

        if (slash != NULL)
            *slash = '\0';
    }
    place = mem_printf("%s/%s", base, relative);
    free(base);
    return place;
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
            try_path(l, place_of(real, relative_places[i]));
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

static enum osp_status not_found(const struct search *l)
{
    struct buf places;
    enum osp_status st;

    buf_init(&places, PLACES_TEXT_BYTES_MAX);
    for (int i = 0; i < l->n_places; i++)
        buf_printf(&places, "%s%s", i > 0 ? ", " : "", l->places[i]);
    st = fail(OSP_ENOTFOUND,
              "no bundled model: no config.json in %s; name a checkpoint folder or set "
              "OSPREY_MODEL_DIR",
              buf_text(&places));
    buf_release(&places);
    return st;
}

enum osp_status bundled_model_path(char **out)
{
    const char *given = getenv("OSPREY_MODEL_DIR");
    struct search l = {.found = NULL};

    if (given != NULL && given[0] != '\0')
        try_path(
            &l,
            mem_strdup(given)); /* a folder that was named must hold it: no other place is tried */
    else
        try_all(&l);
    *out = l.found;
    if (l.found == NULL)
        (void)not_found(&l);
    for (int i = 0; i < l.n_places; i++)
        free(l.places[i]);
    return l.found != NULL ? OSP_OK : OSP_ENOTFOUND;
}

enum osp_status bundled_draft_path(char **out)
{
    char *model = NULL, *config = NULL;
    enum osp_status st;

    *out = NULL;
    TRY(bundled_model_path(&model));
    *out = mem_printf("%s-eagle3", model);
    config = path_join(*out, "config.json");
    if (!path_is_file(config)) {
        st = fail(OSP_ENOTFOUND, "no bundled draft head: %s does not exist", config);
        free(*out);
        *out = NULL;
    }
out:
    free(model);
    free(config);
    return st;
}

static bool is_tokenizer_name(const char *name)
{
    return strcmp(name, "tokenizer.json") == 0 || str_ends_with(name, ".tiktoken") ||
           str_ends_with(name, ".gguf");
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
    if (path_is_file(folder) || holds_tokenizer(folder)) {
        *out = mem_strdup(folder);
        return OSP_OK;
    }
    parent = path_join(folder, "..");
    if (holds_tokenizer(parent)) {
        *out = parent;
        return OSP_OK;
    }
    st = fail(OSP_ENOTFOUND, "no tokenizer.json, no .tiktoken and no GGUF file in %s or %s", folder,
              parent);
    free(parent);
    return st;
}
