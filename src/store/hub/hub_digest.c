#include "store/hub/hub_digest.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

enum { SHA256_DIGITS = 64, SHA1_DIGITS = 40 };

bool hub_etag_is(const char *text)
{
    const size_t n = strlen(text);

    return (n == SHA256_DIGITS || n == SHA1_DIGITS) && strspn(text, "0123456789abcdef") == n;
}

const char *hub_etag_kind(const char *etag)
{
    return strlen(etag) == SHA256_DIGITS ? "sha256" : "git sha1";
}

static enum osp_status start(struct hub_digest *d, const EVP_MD *kind)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    d->context = context;
    if (context == NULL || EVP_DigestInit_ex(context, kind, NULL) != 1) {
        hub_digest_release(d);
        return fail(OSP_EUNAVAILABLE, "libcrypto cannot compute %s", EVP_MD_get0_name(kind));
    }
    return OSP_OK;
}

enum osp_status hub_digest_start_sha256(struct hub_digest *d)
{
    return start(d, EVP_sha256());
}

enum osp_status hub_digest_start(struct hub_digest *d, const char *etag, int64_t size)
{
    char header[32]; /* git's: "blob 1234" and a NUL */
    enum osp_status st;
    int n;

    assert(hub_etag_is(etag));
    if (strlen(etag) == SHA256_DIGITS)
        return start(d, EVP_sha256());
    st = start(d, EVP_sha1());
    if (st != OSP_OK)
        return st;
    n = snprintf(header, sizeof header, "blob %" PRId64, size);
    hub_digest_add(d, header, (size_t)n + 1);
    return OSP_OK;
}

/* Only a failed memory allocation could end these calls, and they allocate nothing. */
void hub_digest_add(struct hub_digest *d, const void *bytes, size_t n_bytes)
{
    const int done = EVP_DigestUpdate(d->context, bytes, n_bytes);

    assert(done == 1);
    (void)done;
}

size_t hub_digest_finish(struct hub_digest *d, uint8_t out[HUB_DIGEST_BYTES_MAX])
{
    unsigned n = 0;
    const int done = EVP_DigestFinal_ex(d->context, out, &n);

    assert(done == 1 && n <= HUB_DIGEST_BYTES_MAX);
    (void)done;
    hub_digest_release(d);
    return n;
}

void hub_digest_release(struct hub_digest *d)
{
    EVP_MD_CTX_free(d->context);
    d->context = NULL;
}

void hub_digest_text(char out[HUB_ETAG_BYTES_MAX + 1], const uint8_t *digest, size_t n_bytes)
{
    assert(2 * n_bytes <= HUB_ETAG_BYTES_MAX);
    for (size_t i = 0; i < n_bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
