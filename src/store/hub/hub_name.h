/* Names of models on a Hugging Face hub: USER/MODEL[:TAG][@REVISION]. The tag chooses a GGUF file,
 * as in llama-server's -hf. Every part becomes a piece of a path and of a URL, so each is checked
 * here. */
#ifndef STORE_HUB_HUB_NAME_H
#define STORE_HUB_HUB_NAME_H

#include <stdbool.h>

#include "base/status.h"

enum {
    HUB_REPO_BYTES_MAX = 96, /* the hub's own limit */
    HUB_TAG_BYTES_MAX = 64,
    HUB_REVISION_BYTES_MAX = 256,
    HUB_PATH_BYTES_MAX = 512,
    HUB_PATH_DEPTH_MAX = 8,
    HUB_COMMIT_BYTES = 40 /* a git commit in hexadecimal */
};

struct hub_name {
    char repo[HUB_REPO_BYTES_MAX + 1];         /* "openai/gpt-oss-20b" */
    char tag[HUB_TAG_BYTES_MAX + 1];           /* "Q8_0"; "": none */
    char revision[HUB_REVISION_BYTES_MAX + 1]; /* a branch, tag or commit */
};

/* Whether a word has the form of such a name. A word that ends in .gguf is a file. */
bool hub_name_is(const char *word);

/* `revision` may be NULL; without one anywhere it is "main". OSP_EINVAL: not a name, or two
 * different revisions. */
CHECKED enum osp_status hub_name_parse(struct hub_name *out, const char *word,
                                       const char *revision);

/* A revision that stays inside a folder when it is appended to it. */
bool hub_revision_is_sane(const char *revision);
bool hub_commit_is(const char *text); /* 40 lower-case hexadecimal digits */

/* A file name of a listing: relative, UTF-8 without hidden characters and backslashes, no component
 * that is empty, "." or "..", within the limits above. */
bool hub_path_is_sane(const char *path);

#endif
