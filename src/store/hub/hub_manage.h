/* What is in the cache: lists models, compares files with their digests, removes models. Works on
 * everything that huggingface_hub put there, without the network. */
#ifndef STORE_HUB_HUB_MANAGE_H
#define STORE_HUB_HUB_MANAGE_H

#include "store/hub/hub_cache.h"

/* A snapshot of a model, or the unfinished download of one. Strings are valid during the call. */
struct hub_cached {
    char repo[HUB_REPO_BYTES_MAX + 1];
    const char *refs;   /* branches and tags, with commas; "": none */
    const char *commit; /* "": a download that has no snapshot yet */
    int n_files;
    int64_t n_bytes;          /* of the snapshot's files */
    int64_t unfinished_bytes; /* on the disk, of downloads of this model that are not complete */
    bool is_complete;         /* osprey can open it */
};
typedef void hub_cached_fn(void *ctx, const struct hub_cached *cached);

/* Calls put() for every snapshot in the cache, sorted by model. A cache that does not exist is
 * empty. */
CHECKED enum osp_status hub_list(const char *cache, hub_cached_fn *put, void *ctx);

enum hub_check {
    HUB_SOUND,
    HUB_CORRUPT, /* another digest than its name says, or missing */
    HUB_UNNAMED  /* not a link to a blob, so its digest is not known */
};

struct hub_verify_options {
    const char *cache;
    struct hub_name name;
    bool repair;              /* removes corrupt blobs, so that the next pull fetches them again */
    const volatile int *stop; /* may be NULL */
    /* For each file, in no order; from one thread at a time. */
    void (*put)(void *ctx, const char *path, enum hub_check check);
    void (*progress)(void *ctx, int64_t done_bytes, int64_t total_bytes); /* may be NULL */
    void *ctx;
};
/* OSP_ENOTFOUND: no such snapshot. OSP_EFORMAT: a file is corrupt (with repair: was). */
CHECKED enum osp_status hub_verify(const struct hub_verify_options *options);

/* Removes a model, or with a revision a snapshot and what only it uses. *freed_bytes: on the disk.
 * OSP_EBUSY: a download of the model is running. */
CHECKED enum osp_status hub_remove(int64_t *freed_bytes, const char *cache,
                                   const struct hub_name *name, bool whole_model);

#endif
