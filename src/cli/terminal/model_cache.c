/* models--OWNER--NAME/refs/REVISION holds a commit, snapshots/COMMIT the files. */
#include "cli/terminal/model_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/gguf_files.h"
#include "base/memory.h"
#include "base/str.h"

enum { NAME_BYTES_MAX = 96, REVISION_BYTES_MAX = 256 };

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

bool model_cache_is_name(const char *word)
{
    const size_t n_owner = strspn(word, NAME_CHARACTERS);
    const char *name = word + n_owner + 1;

    return !str_ends_with(word, ".gguf") && n_owner > 0 && word[n_owner] == '/' && *name != '\0' &&
           *word != '.' && *name != '.' && name[strspn(name, NAME_CHARACTERS)] == '\0' &&
           strlen(word) <= NAME_BYTES_MAX;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* A string to free(). */
static char *cache_folder(const char *given)
{
    const char *home = variable("HOME");

    if (given)
        return mem_strdup(given);
    if (variable("HF_HUB_CACHE"))
        return mem_strdup(variable("HF_HUB_CACHE"));
    if (variable("HUGGINGFACE_HUB_CACHE")) /* the older name of that variable */
        return mem_strdup(variable("HUGGINGFACE_HUB_CACHE"));
    if (variable("HF_HOME"))
        return path_join(variable("HF_HOME"), "hub");
    if (variable("XDG_CACHE_HOME"))
        return path_join(variable("XDG_CACHE_HOME"), "huggingface/hub");
    return path_join(home ? home : "/", ".cache/huggingface/hub");
}

/* The revision becomes part of a path, so it must not leave the folder. */
static bool is_sane_revision(const char *revision)
{
    const size_t n = strlen(revision);

    return n > 0 && n <= REVISION_BYTES_MAX && *revision != '/' && *revision != '.' &&
           strstr(revision, "..") == NULL &&
           revision[strspn(revision, NAME_CHARACTERS "/")] == '\0';
}

/* The commit in refs/REVISION, or the revision itself. A string to free(). */
static char *commit_of(const char *model, const char *revision)
{
    char *refs = path_join(model, "refs"), *path = path_join(refs, revision), *text = NULL;
    size_t n_bytes;

    free(refs);
    if (!path_is_file(path) || file_read(&text, &n_bytes, path, REVISION_BYTES_MAX) != OSP_OK)
        text = NULL;
    free(path);
    if (text)
        text[strcspn(text, " \t\r\n")] = '\0';
    if (text && is_sane_revision(text))
        return text;
    free(text);
    return mem_strdup(revision);
}

static enum osp_status find_snapshot(char **out, const char *name, const char *model,
                                     const char *revision)
{
    char *commit = commit_of(model, revision), *snapshots = path_join(model, "snapshots");
    char *folder = path_join(snapshots, commit), *config = path_join(folder, "config.json");
    enum osp_status st = OSP_OK;

    if (path_is_file(config)) {
        *out = folder;
        folder = NULL;
    } else {
        TRY(gguf_in_folder(out, folder));
    }
    if (!*out)
        st = fail(OSP_ENOTFOUND,
                  "%s: the local Hugging Face cache has no config.json of revision %s (expected "
                  "%s) and no GGUF file; run hf download %s",
                  name, revision, config, name);
out:
    free(commit);
    free(snapshots);
    free(folder);
    free(config);
    return st;
}

enum osp_status model_cache_find(char **out, const char *name, const char *cache,
                                 const char *revision)
{
    const char *slash = strchr(name, '/');
    char *entry, *folder, *model;
    enum osp_status st;

    *out = NULL;
    if (!model_cache_is_name(name))
        return fail(OSP_EINVAL, "%s: not a model name such as openai/gpt-oss-20b", name);
    revision = revision ? revision : "main";
    if (!is_sane_revision(revision))
        return fail(OSP_EINVAL, "--revision %s: not a branch, tag or commit", revision);
    entry = mem_printf("models--%.*s--%s", (int)(slash - name), name, slash + 1);
    folder = cache_folder(cache);
    model = path_join(folder, entry);
    if (path_is_folder(model))
        st = find_snapshot(out, name, model, revision);
    else
        st = fail(
            OSP_ENOTFOUND,
            "%s: no such folder, and the model is not in the local Hugging Face cache (expected "
            "%s). osprey does not download models; download it first, for example "
            "with: hf download %s",
            name, model, name);
    free(entry);
    free(folder);
    free(model);
    return st;
}
