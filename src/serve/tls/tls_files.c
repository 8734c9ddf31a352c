/* Certificate and key: reading, checking, and reading again when the files change. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/tls/tls_internal.h"

enum { PEM_BYTES_MAX = 1 << 20, CHAIN_MAX = 32 };

static const char CERT_OPTION[] = "--ssl-certfile", KEY_OPTION[] = "--ssl-keyfile";

/* ---- reading ---- */

/* Called by OpenSSL for a key with a password; the server has nobody to ask. */
static int no_password(char *out, int out_bytes, int is_writing, void *asked)
{
    (void)out;
    (void)out_bytes;
    (void)is_writing;
    *(bool *)asked = true;
    return -1;
}

struct pem {
    char *text;
    size_t n_bytes;
    BIO *bio;
};

static enum osp_status pem_open(struct pem *p, const char *option, const char *path)
{
    *p = (struct pem){0};
    if (file_read(&p->text, &p->n_bytes, path, PEM_BYTES_MAX) != OSP_OK)
        return fail_prefix(OSP_EINVAL, "%s", option);
    p->bio = BIO_new_mem_buf(p->text, (int)p->n_bytes);
    return p->bio ? OSP_OK : fail(OSP_ENOMEM, "%s: %s: out of memory", option, path);
}

/* The text may be a key. */
static void pem_close(struct pem *p)
{
    BIO_free(p->bio);
    if (p->text)
        OPENSSL_cleanse(p->text, p->n_bytes);
    free(p->text);
}

/* Whether the last failure was that no further part of a PEM file has the wanted kind. */
static bool is_end_of_pem(void)
{
    const unsigned long error = ERR_peek_last_error();

    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

static bool is_past(const ASN1_TIME *when)
{
    return X509_cmp_current_time(when) < 0;
}

static void warn_of_dates(const char *path, const X509 *cert)
{
    if (is_past(X509_get0_notAfter(cert)))
        log_warn("%s: %s: the certificate has expired; clients will refuse it", CERT_OPTION, path);
    else if (!is_past(X509_get0_notBefore(cert)))
        log_warn("%s: %s: the certificate is not valid yet; clients will refuse it", CERT_OPTION,
                 path);
}

static enum osp_status use_issuers(SSL_CTX *ctx, const char *path, BIO *bio)
{
    for (int n = 0;; n++) {
        X509 *issuer = PEM_read_bio_X509(bio, NULL, NULL, NULL);

        if (!issuer)
            break;
        if (n == CHAIN_MAX) {
            X509_free(issuer);
            return fail(OSP_EINVAL, "%s: %s: more than %d certificates of issuers, the limit",
                        CERT_OPTION, path, CHAIN_MAX);
        }
        if (SSL_CTX_add0_chain_cert(ctx, issuer) != 1) {
            X509_free(issuer);
            break;
        }
    }
    if (!is_end_of_pem())
        return fail(OSP_EINVAL, "%s: %s: a certificate of an issuer cannot be read: %s",
                    CERT_OPTION, path, tls_reason());
    ERR_clear_error();
    return OSP_OK;
}

static enum osp_status use_certificate(SSL_CTX *ctx, const char *path)
{
    struct pem pem;
    X509 *cert = NULL;
    enum osp_status st;

    ERR_clear_error();
    TRY(pem_open(&pem, CERT_OPTION, path));
    cert = PEM_read_bio_X509_AUX(pem.bio, NULL, NULL, NULL);
    if (!cert && is_end_of_pem())
        TRY(fail(OSP_EINVAL,
                 "%s: %s: no certificate in this file; it must be PEM text with BEGIN CERTIFICATE",
                 CERT_OPTION, path));
    if (!cert || SSL_CTX_use_certificate(ctx, cert) != 1)
        TRY(fail(OSP_EINVAL, "%s: %s: the certificate cannot be used: %s", CERT_OPTION, path,
                 tls_reason()));
    TRY(use_issuers(ctx, path, pem.bio));
    warn_of_dates(path, cert);
out:
    X509_free(cert);
    pem_close(&pem);
    return st;
}

static enum osp_status read_key(EVP_PKEY **out, const char *path)
{
    bool asked = false;
    struct pem pem;
    enum osp_status st;

    *out = NULL;
    TRY(pem_open(&pem, KEY_OPTION, path));
    *out = PEM_read_bio_PrivateKey(pem.bio, NULL, no_password, &asked);
    if (asked)
        st = fail(OSP_EINVAL,
                  "%s: %s: the private key has a password; store it without one (openssl pkey -in "
                  "%s -out NEW-FILE) in a file that only the server can read",
                  KEY_OPTION, path, path);
    else if (!*out)
        st =
            fail(OSP_EINVAL,
                 "%s: %s: no private key can be read from this file (%s); it must be PEM text with "
                 "BEGIN PRIVATE KEY",
                 KEY_OPTION, path, tls_reason());
out:
    pem_close(&pem);
    return st;
}

static enum osp_status use_key(SSL_CTX *ctx, const char *path, const char *cert_path)
{
    EVP_PKEY *key;
    enum osp_status st;

    ERR_clear_error();
    TRY(read_key(&key, path));
    if (X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) != 1)
        TRY(fail(OSP_EINVAL, "%s: %s: this key is not the one of the certificate in %s", KEY_OPTION,
                 path, cert_path));
    if (SSL_CTX_use_PrivateKey(ctx, key) != 1)
        TRY(fail(OSP_EINVAL, "%s: %s: the private key cannot be used: %s", KEY_OPTION, path,
                 tls_reason()));
out:
    EVP_PKEY_free(key);
    return st;
}

static enum osp_status context_open(SSL_CTX **out, const struct tls_server *t)
{
    enum osp_status st;

    *out = tls_context_new();
    if (!*out)
        return fail(OSP_ENOMEM, "TLS cannot be set up: %s", tls_reason());
    TRY(use_certificate(*out, t->cert_path));
    TRY(use_key(*out, t->key_path, t->cert_path));
out:
    if (st != OSP_OK) {
        SSL_CTX_free(*out);
        *out = NULL;
    }
    ERR_clear_error();
    return st;
}

/* ---- life ---- */

static struct tls_file_stamp stamp_of(const char *path)
{
    struct stat s;

    if (stat(path, &s) != 0)
        return (struct tls_file_stamp){0};
    return (struct tls_file_stamp){.inode = s.st_ino,
                                   .size_bytes = (uint64_t)s.st_size,
                                   .changed_s = s.st_ctim.tv_sec,
                                   .changed_ns = s.st_ctim.tv_nsec};
}

/* False: the files are those that were tried last. Called before they are read, so that a change
 * in the meantime is found the next time. */
static bool note_stamps(struct tls_server *t)
{
    const struct tls_file_stamp now[2] = {stamp_of(t->cert_path), stamp_of(t->key_path)};
    const bool is_new = memcmp(now, t->stamps, sizeof now) != 0;

    memcpy(t->stamps, now, sizeof now);
    return is_new;
}

enum osp_status tls_server_open(struct tls_server **out, const char *cert_path,
                                const char *key_path)
{
    struct tls_server *t = mem_new(sizeof *t);
    enum osp_status st;

    *t = (struct tls_server){.cert_path = cert_path, .key_path = key_path ? key_path : cert_path};
    *out = NULL;
    (void)note_stamps(t);
    t->bio = tls_bio_new();
    if (!t->bio)
        TRY(fail(OSP_ENOMEM, "TLS cannot be set up: out of memory"));
    TRY(context_open(&t->ctx, t));
    *out = t;
out:
    if (st != OSP_OK)
        tls_server_close(t);
    return st;
}

void tls_server_close(struct tls_server *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    BIO_meth_free(t->bio);
    free(t);
}

void tls_server_refresh(struct tls_server *t)
{
    SSL_CTX *ctx;

    if (!note_stamps(t))
        return;
    if (context_open(&ctx, t) != OSP_OK) {
        log_error("%s; the certificate and key that were read before stay in use", fail_message());
        return;
    }
    SSL_CTX_free(t->ctx);
    t->ctx = ctx;
    log_info("the certificate was read again: %s", t->cert_path);
}
