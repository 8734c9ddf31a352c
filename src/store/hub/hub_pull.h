/* Pulls a model from a hub into the cache: lists its files, chooses those that osprey needs, checks
 * the disk's space, downloads and publishes. */
#ifndef STORE_HUB_HUB_PULL_H
#define STORE_HUB_HUB_PULL_H

#include "store/hub/hub_download.h"

enum { HUB_CONNECTIONS_DEFAULT = 8, HUB_CONNECTIONS_MAX = 32 };

/* What a pull will do, before it does it. */
struct hub_plan {
    const char *repo, *revision, *commit, *cache;
    const struct hub_listing *listing; /* is_wanted marks the files */
    int n_files;
    int64_t total_bytes, needed_bytes; /* of all wanted files; still needed on the disk */
    int64_t free_bytes;                /* of the file system */
};

struct hub_pull_options {
    struct hub_name name;
    struct hub_choice choice; /* its tag is overridden by the name's */
    const char *cache;        /* NULL: of the environment */
    const char *token;        /* NULL: of the environment */
    int n_connections;        /* 0: HUB_CONNECTIONS_DEFAULT */
    bool is_offline;
    bool is_repair; /* also all files of the snapshot that the cache has; see choose_repair() */
    const volatile int *stop; /* may be NULL */
    /* Whether to go on; may be NULL. False ends with OSP_ECANCELED. */
    bool (*confirm)(void *ctx, const struct hub_plan *plan);
    void (*progress)(void *ctx, const struct hub_progress *p); /* may be NULL */
    void *ctx;
};

/* *path receives the checkpoint's folder or the first GGUF file, to free(); NULL after a failure.
 * *total and the commit are filled as far as the pull came. */
CHECKED enum osp_status hub_pull(char **path, struct hub_progress *total,
                                 char commit[HUB_COMMIT_BYTES + 1],
                                 const struct hub_pull_options *options);

#endif
