#include "store/hub/hub_choose.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/gguf_files.h"
#include "base/str.h"

enum { NAMES_BYTES_MAX = 600 };

#define GGUF ".gguf"

/* ---- .safetensors ---- */

/* Files of the repository's top folder that the model, the tokenizer and the chat template need. */
static const char *const PATTERNS[] = {
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "*.tiktoken",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template*",
    "*.safetensors",
    "*.safetensors.index.json",
};

static bool is_shard(const char *path)
{
    return strchr(path, '/') == NULL && str_ends_with(path, ".safetensors");
}

static bool is_needed(const char *path)
{
    for (size_t i = 0; i < sizeof PATTERNS / sizeof PATTERNS[0]; i++)
        if (fnmatch(PATTERNS[i], path, FNM_PATHNAME) == 0)
            return true;
    return false;
}

/* ---- GGUF ---- */

/* Files beside a model: image encoders, importance matrices, draft models. */
static bool is_gguf_model(const char *path)
{
    static const char *const others[] = {"mmproj",  "imatrix", "mtp-",
                                         "eagle3-", "dflash-", "dspark-"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    if (!str_ends_with(path, GGUF))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strstr(name, others[i]) != NULL)
            return false;
    return true;
}

/* A file's place in its model. */
struct split {
    size_t n_prefix;   /* bytes of the path before ".gguf" or "-00002-of-00003.gguf" */
    int number, count; /* of one file: 1 of 1 */
};

static struct split split_of(const char *path)
{
    struct split s;

    if (!gguf_split_parse(path, &s.n_prefix, &s.number, &s.count))
        s = (struct split){.n_prefix = strlen(path) - strlen(GGUF), .number = 1, .count = 1};
    return s;
}

/* Whether the path has the tag before "." or "-"; `whole`: also behind one of "/-._" or at the
 * start. */
static bool has_tag(const char *path, const char *tag, bool whole)
{
    const size_t n = strlen(tag);

    for (const char *at = strcasestr(path, tag); at != NULL; at = strcasestr(at + 1, tag))
        if ((at[n] == '.' || at[n] == '-') &&
            (!whole || at == path || strchr("/-._", at[-1]) != NULL))
            return true;
    return false;
}

/* tag NULL: any. */
static struct hub_file *find_tag(struct hub_listing *l, const char *tag, bool whole)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_gguf_model(l->files[i].path) && split_of(l->files[i].path).number == 1 &&
            (tag == NULL || has_tag(l->files[i].path, tag, whole)))
            return &l->files[i];
    return NULL;
}

static struct hub_file *find_model(struct hub_listing *l, const char *tag)
{
    static const char *const defaults[] = {"Q4_K_M", "Q8_0"};
    struct hub_file *found = NULL;

    if (tag != NULL) {
        found = find_tag(l, tag, true);
        return found ? found : find_tag(l, tag, false);
    }
    for (size_t i = 0; found == NULL && i < sizeof defaults / sizeof defaults[0]; i++)
        found = find_tag(l, defaults[i], true);
    return found ? found : find_tag(l, NULL, false);
}

static struct hub_file *find_file(struct hub_listing *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcasecmp(l->files[i].path, path) == 0 && str_ends_with(l->files[i].path, GGUF))
            return &l->files[i];
    return NULL;
}

static enum osp_status not_found(const struct hub_listing *l, const struct hub_choice *choice,
                                 const char *where)
{
    const bool by_tag = choice->file == NULL && choice->tag != NULL;
    struct buf names;
    enum osp_status st;

    buf_init(&names, NAMES_BYTES_MAX);
    for (size_t i = 0; i < l->n; i++)
        if (is_gguf_model(l->files[i].path) && split_of(l->files[i].path).number == 1)
            buf_printf(&names, "%s%s", names.size_bytes ? ", " : "", l->files[i].path);
    st = fail(OSP_ENOTFOUND, "%s: no GGUF file %s%s; available: %s%s", where,
              by_tag ? "with the tag " : "", by_tag ? choice->tag : choice->file,
              names.size_bytes ? buf_text(&names) : "none", names.overflow ? " ..." : "");
    buf_release(&names);
    return st;
}

/* All parts of the model that begins with `first`. */
static enum osp_status want_parts(struct hub_listing *l, const struct hub_file *first,
                                  const char *where)
{
    const struct split split = split_of(first->path);
    int n_parts = 0;

    for (size_t i = 0; i < l->n; i++) {
        const char *path = l->files[i].path;
        struct split other;

        if (!str_ends_with(path, GGUF))
            continue;
        other = split_of(path);
        if (other.count == split.count && other.n_prefix == split.n_prefix &&
            strncmp(path, first->path, split.n_prefix) == 0) {
            l->files[i].is_wanted = true;
            n_parts++;
        }
    }
    return n_parts == split.count
               ? OSP_OK
               : fail(OSP_ENOTFOUND, "%s: %s: %d of the model's %d parts are there", where,
                      first->path, n_parts, split.count);
}

static enum osp_status choose_gguf(const struct hub_file **gguf, struct hub_listing *l,
                                   const struct hub_choice *choice, const char *where)
{
    struct hub_file *found = choice->file ? find_file(l, choice->file) : find_model(l, choice->tag);

    if (found == NULL)
        return not_found(l, choice, where);
    *gguf = found;
    return want_parts(l, found, where);
}

/* ---- both ---- */

static bool is_included(const char *patterns, const char *path)
{
    while (patterns && *patterns) {
        const size_t n = strcspn(patterns, ",");
        char pattern[HUB_PATH_BYTES_MAX];

        snprintf(pattern, sizeof pattern, "%.*s", (int)n, patterns);
        if (n < sizeof pattern && fnmatch(pattern, path, 0) == 0)
            return true;
        patterns += n + (patterns[n] == ',');
    }
    return false;
}

enum osp_status hub_choose(const struct hub_file **gguf, struct hub_listing *l,
                           const struct hub_choice *choice, const char *where)
{
    struct hub_choice c = *choice;
    int n_shards = 0, n_models = 0;
    enum osp_status st = OSP_OK;

    *gguf = NULL;
    c.tag = c.tag && *c.tag ? c.tag : NULL;
    for (size_t i = 0; i < l->n; i++) {
        l->files[i].is_wanted = is_included(c.include, l->files[i].path);
        n_shards += is_shard(l->files[i].path);
        n_models += is_gguf_model(l->files[i].path);
    }
    if (c.tag != NULL || c.file != NULL || (n_shards == 0 && n_models > 0))
        return choose_gguf(gguf, l, &c, where);
    if (n_shards == 0)
        return fail(OSP_ENOTFOUND,
                    "%s: neither .safetensors nor .gguf files in the repository's top folder, so "
                    "this is no model that osprey can run",
                    where);
    for (size_t i = 0; i < l->n; i++)
        l->files[i].is_wanted = l->files[i].is_wanted || is_needed(l->files[i].path);
    return st;
}
