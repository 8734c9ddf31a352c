/* The Hugging Face cache, shared with huggingface_hub, transformers, vLLM and llama.cpp:
 *
 *   models--USER--MODEL/blobs/ETAG                 files by their digest
 *                      /snapshots/COMMIT/FILE      relative links to blobs
 *                      /refs/REVISION              a commit
 *   .locks/models--USER--MODEL/ETAG.lock           see hub_lock.h
 *
 * A snapshot's config.json is linked last and its ref is written after that, so whoever finds a
 * model by a ref finds all of its files. */
#ifndef STORE_HUB_HUB_CACHE_H
#define STORE_HUB_HUB_CACHE_H

#include "store/hub/hub_choose.h"

/* Paths of one model. Owns its strings. */
struct hub_model_paths {
    char *cache;  /* the whole cache */
    char *folder; /* cache/models--USER--MODEL */
    char *blobs, *snapshots, *refs, *locks;
};
void hub_model_paths_init(struct hub_model_paths *p, const char *cache, const char *repo);
void hub_model_paths_release(struct hub_model_paths *p); /* accepts a zeroed one */

/* Creates blobs, snapshots, refs and locks. */
CHECKED enum osp_status hub_cache_make_folders(const struct hub_model_paths *p);

/* Whether the blob is there with that size. A link to a shared store counts. */
bool hub_cache_has_blob(const struct hub_model_paths *p, const char *etag, int64_t size);

/* Links the wanted files of the listing, whose blobs are complete, as a snapshot; then writes the
 * ref unless the revision is the commit. */
CHECKED enum osp_status hub_cache_publish(const struct hub_model_paths *p,
                                          const struct hub_listing *listing, const char *commit,
                                          const char *revision);

/* The commit that a revision names here, or the revision itself. */
void hub_cache_commit(char out[HUB_REVISION_BYTES_MAX + 1], const struct hub_model_paths *p,
                      const char *revision);

/* Gives the path of a model to free(): the folder of a checkpoint, or the first GGUF file.
 * OSP_ENOTFOUND: it is not there, or not complete; the message names what was expected. */
CHECKED enum osp_status hub_cache_find(char **out, const char *cache, const struct hub_name *name,
                                       const struct hub_choice *choice);

/* The files of a snapshot, sorted, with the digests that their links name. with_missing: also links
 * whose blob is missing, with size -1. Release it also after a failure. */
CHECKED enum osp_status hub_cache_list_files(struct hub_listing *out, const char *snapshot,
                                             bool with_missing);

#endif
