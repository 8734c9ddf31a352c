/* Digests that the hub names files by: the SHA-256 of a file in large file storage, git's SHA-1 of
 * a small one. */
#ifndef STORE_HUB_HUB_DIGEST_H
#define STORE_HUB_HUB_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HUB_ETAG_BYTES_MAX = 64, HUB_DIGEST_BYTES_MAX = 32 };

struct hub_digest {
    void *context; /* NULL: not started */
};

/* Whether the text is the name of a blob: 64 (SHA-256) or 40 (git's SHA-1) lower-case hexadecimal
 * digits. */
bool hub_etag_is(const char *text);
const char *hub_etag_kind(const char *etag); /* "sha256" or "git sha1" */

/* Starts the digest of a file of that size which a name of this kind needs. Release it also after a
 * failure. */
CHECKED enum osp_status hub_digest_start(struct hub_digest *d, const char *etag, int64_t size);
CHECKED enum osp_status hub_digest_start_sha256(struct hub_digest *d);
void hub_digest_add(struct hub_digest *d, const void *bytes, size_t n_bytes);
/* The digest of everything added, which is then released. Returns its length in bytes. */
size_t hub_digest_finish(struct hub_digest *d, uint8_t out[HUB_DIGEST_BYTES_MAX]);
void hub_digest_release(struct hub_digest *d); /* accepts a zeroed one */

/* In hexadecimal, with a NUL. */
void hub_digest_text(char out[HUB_ETAG_BYTES_MAX + 1], const uint8_t *digest, size_t n_bytes);

#endif
