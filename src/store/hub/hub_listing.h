/* The files of a repository at one commit, as the hub's API lists them. The text comes from a
 * server: names, sizes and digests are checked, and the first bad one refuses the listing. */
#ifndef STORE_HUB_HUB_LISTING_H
#define STORE_HUB_HUB_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/hub/hub_digest.h"
#include "store/hub/hub_name.h"

#define HUB_FILE_BYTES_MAX ((int64_t)1 << 40) /* gpt-oss-120b's shards have 5 GB */
enum {
    HUB_FILES_MAX = 20000,
    HUB_LISTING_BYTES_MAX = 16 << 20 /* of one page; a page has up to 1,000 files of 0.3 kB */
};

struct hub_file {
    char *path; /* in the repository: "config.json" */
    int64_t size;
    char etag[HUB_ETAG_BYTES_MAX + 1]; /* its digest: SHA-256, or git's SHA-1; "" of a file that was
                                          found in the cache */
    bool is_wanted;                    /* by hub_choose() */
};

/* Zeroed: empty. */
struct hub_listing {
    struct hub_file *files; /* (n), in the order of the hub */
    size_t n, capacity;
};

/* Adds a page of GET /api/models/REPO/tree/COMMIT. `where` begins the messages. OSP_EFORMAT: not
 * such a page, or a file with an unusable name, size or digest. */
CHECKED enum osp_status hub_listing_add_page(struct hub_listing *l, const char *text,
                                             size_t n_bytes, const char *where);
/* Adds a file that was found in the cache. */
CHECKED enum osp_status hub_listing_add(struct hub_listing *l, const char *path, int64_t size);
/* OSP_EFORMAT: two files have the same name. Call it after the last page; sorts nothing. */
CHECKED enum osp_status hub_listing_check(const struct hub_listing *l, const char *where);
void hub_listing_release(struct hub_listing *l);

/* The commit of GET /api/models/REPO/revision/REVISION. */
CHECKED enum osp_status hub_commit_read(char out[HUB_COMMIT_BYTES + 1], const char *text,
                                        size_t n_bytes, const char *where);

#endif
