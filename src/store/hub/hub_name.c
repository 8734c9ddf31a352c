#include "store/hub/hub_name.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/str.h"
#include "base/utf8.h"

enum { COMPONENT_BYTES_MAX = 200 /* file systems allow 255; suffixes are added */ };

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* Length of "USER/MODEL" at the start of the word; 0: it has not that form. */
static size_t repo_bytes(const char *word)
{
    const size_t n_owner = strspn(word, NAME_CHARACTERS);
    const char *name = word + n_owner + 1;
    size_t n_name;

    if (n_owner == 0 || word[n_owner] != '/' || *word == '.' || *name == '.')
        return 0;
    n_name = strspn(name, NAME_CHARACTERS);
    return n_name == 0 || n_owner + 1 + n_name > HUB_REPO_BYTES_MAX ? 0 : n_owner + 1 + n_name;
}

/* "--" separates the parts of a cache folder's name, so the hub forbids it in names. */
static bool is_ambiguous(const struct hub_name *name)
{
    return strstr(name->repo, "--") != NULL || strstr(name->repo, "..") != NULL;
}

static bool take(char *out, size_t out_bytes, const char *text, size_t n)
{
    if (n == 0 || n >= out_bytes)
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

static bool split(struct hub_name *out, const char *word)
{
    const size_t n_repo = repo_bytes(word);
    const char *rest = word + n_repo;

    *out = (struct hub_name){.repo = ""};
    if (n_repo == 0 || !take(out->repo, sizeof out->repo, word, n_repo) || is_ambiguous(out))
        return false;
    if (*rest == ':') {
        const size_t n_tag = strspn(rest + 1, NAME_CHARACTERS);

        if (!take(out->tag, sizeof out->tag, rest + 1, n_tag))
            return false;
        rest += 1 + n_tag;
    }
    if (*rest == '@') {
        if (!take(out->revision, sizeof out->revision, rest + 1, strlen(rest + 1)))
            return false;
        rest += strlen(rest);
    }
    return *rest == '\0' && (out->revision[0] == '\0' || hub_revision_is_sane(out->revision));
}

bool hub_name_is(const char *word)
{
    struct hub_name name;

    return !str_ends_with(word, ".gguf") && split(&name, word);
}

enum osp_status hub_name_parse(struct hub_name *out, const char *word, const char *revision)
{
    if (str_ends_with(word, ".gguf") || !split(out, word))
        return fail(OSP_EINVAL,
                    "%s: not the name of a model, expected USER/MODEL[:TAG][@REVISION] such as "
                    "openai/gpt-oss-20b",
                    word);
    if (revision != NULL && !hub_revision_is_sane(revision))
        return fail(OSP_EINVAL, "--revision %s: not a branch, tag or commit", revision);
    if (revision != NULL && out->revision[0] != '\0' && strcmp(revision, out->revision) != 0)
        return fail(OSP_EINVAL, "%s and --revision %s name different revisions", word, revision);
    if (out->revision[0] == '\0')
        snprintf(out->revision, sizeof out->revision, "%s", revision ? revision : "main");
    return OSP_OK;
}

bool hub_revision_is_sane(const char *revision)
{
    const size_t n = strlen(revision);

    return n > 0 && n <= HUB_REVISION_BYTES_MAX && *revision != '/' && *revision != '.' &&
           revision[n - 1] != '/' && strstr(revision, "..") == NULL &&
           strstr(revision, "//") == NULL && strstr(revision, "/.") == NULL &&
           revision[strspn(revision, NAME_CHARACTERS "/")] == '\0';
}

bool hub_commit_is(const char *text)
{
    return strlen(text) == HUB_COMMIT_BYTES && strspn(text, "0123456789abcdef") == HUB_COMMIT_BYTES;
}

static bool has_safe_characters(const char *path)
{
    const size_t n = strlen(path);

    for (size_t i = 0; i < n;) {
        uint32_t code_point;
        bool valid;

        i += utf8_read(path + i, n - i, &code_point, &valid);
        if (!valid || printable_is_hidden(code_point) || code_point == '\\')
            return false;
    }
    return true;
}

bool hub_path_is_sane(const char *path)
{
    int depth = 0;

    if (strlen(path) > HUB_PATH_BYTES_MAX || !has_safe_characters(path))
        return false;
    for (const char *at = path;; depth++) {
        const size_t n = strcspn(at, "/");

        if (n == 0 || n > COMPONENT_BYTES_MAX || (n == 1 && *at == '.') ||
            (n == 2 && strncmp(at, "..", 2) == 0) || depth >= HUB_PATH_DEPTH_MAX)
            return false;
        if (at[n] == '\0')
            return true;
        at += n + 1;
    }
}
