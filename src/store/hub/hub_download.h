/* Downloads a set of blobs into the cache: several connections take ranges of blocks, in the order
 * of the blobs; other threads compute the digest of each blob behind them and publish it. Another
 * process that downloads one of the blobs holds its lock; it is left to that process. */
#ifndef STORE_HUB_HUB_DOWNLOAD_H
#define STORE_HUB_HUB_DOWNLOAD_H

#include "store/hub/hub_cache.h"
#include "store/hub/hub_settings.h"

/* Totals while the download runs. Bytes of `done` are on the disk, from this or another process. */
struct hub_progress {
    const char *repo;
    int64_t total_bytes, done_bytes;
    int64_t received_bytes; /* over the network, by this process */
    int n_files, n_files_done;
    int n_waiting;    /* files that another process downloads */
    int n_retries;    /* requests that failed and were repeated */
    const char *note; /* why a request failed; NULL: nothing new since the last call */
};

struct hub_download_options {
    const struct hub_model_paths *paths;
    const struct hub_settings *settings;
    const struct hub_listing *listing; /* the wanted files */
    const char *repo, *commit;
    int n_connections;
    const volatile int *stop; /* may be NULL */
    void (*progress)(void *ctx,
                     const struct hub_progress *p); /* by the calling thread; may be NULL */
    void *ctx;
};

/* Bytes that the wanted files still need on the disk: files that are there, and reserved space of
 * earlier runs, do not count. */
int64_t hub_download_needs_bytes(const struct hub_model_paths *paths,
                                 const struct hub_listing *listing);

/* OSP_OK: every wanted file's blob is complete. Otherwise what was downloaded is kept for the next
 * call. *out receives the totals in any case. */
CHECKED enum osp_status hub_download(struct hub_progress *out,
                                     const struct hub_download_options *options);

#endif
