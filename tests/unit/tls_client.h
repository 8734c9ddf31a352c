/* A TLS client in memory for the layer of tls.h, and certificates for it. */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "serve/tls/tls.h"

/* ---- files ---- */

struct pair {
    char folder[64];
    char *cert, *key; /* paths */
};

static inline EVP_PKEY *new_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    assert_non_null(key);
    return key;
}

static inline X509 *new_cert(EVP_PKEY *key, const char *name, long begin_s, long end_s)
{
    X509 *cert = X509_new();

    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), begin_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), end_s);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    return cert;
}

static inline void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* password: NULL: none */
static inline void write_key(const char *path, EVP_PKEY *key, char *password)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(PEM_write_PrivateKey(f, key, password ? EVP_aes_128_cbc() : NULL,
                                     (unsigned char *)password,
                                     password ? (int)strlen(password) : 0, NULL, NULL));
    fclose(f);
}

static inline void write_cert(const char *path, const X509 *cert, const char *how)
{
    FILE *f = fopen(path, how);

    assert_non_null(f);
    assert_true(PEM_write_X509(f, cert));
    fclose(f);
}

/* Replaces both files by a new pair. */
static inline void pair_write(const struct pair *p, const char *name, long begin_s, long end_s)
{
    EVP_PKEY *key = new_key();
    X509 *cert = new_cert(key, name, begin_s, end_s);

    write_key(p->key, key, NULL);
    write_cert(p->cert, cert, "w");
    X509_free(cert);
    EVP_PKEY_free(key);
}

static inline void pair_open(struct pair *p)
{
    snprintf(p->folder, sizeof p->folder, "/tmp/osprey-tls-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    p->cert = path_join(p->folder, "cert.pem");
    p->key = path_join(p->folder, "key.pem");
    pair_write(p, "first", -60, 3600);
}

static inline void pair_close(struct pair *p)
{
    unlink(p->cert);
    unlink(p->key);
    rmdir(p->folder);
    free(p->cert);
    free(p->key);
}

/* ---- the client ---- */

struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out;
};

static inline void client_open(struct client *c, int version, const char *ciphers)
{
    c->ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(c->ctx, version);
    SSL_CTX_set_max_proto_version(c->ctx, version);
    if (ciphers)
        assert_true(SSL_CTX_set_cipher_list(c->ctx, ciphers));
    c->ssl = SSL_new(c->ctx);
    c->in = BIO_new(BIO_s_mem());
    c->out = BIO_new(BIO_s_mem());
    SSL_set_bio(c->ssl, c->in, c->out);
    SSL_set_connect_state(c->ssl);
}

static inline void client_close(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    ERR_clear_error();
}

/* Moves what the server has to say to the client. Returns the number of bytes. */
static inline size_t to_client(struct client *c, struct tls *server)
{
    size_t n;
    char *bytes = tls_take_output(server, &n);

    if (bytes)
        assert_int_equal(BIO_write(c->in, bytes, (int)n), (int)n);
    free(bytes);
    return n;
}

/* Moves what the client has to say to the server, in pieces of `step` bytes. */
static inline enum tls_state to_server(struct client *c, struct tls *server, size_t step,
                                       struct buf *plain)
{
    char piece[4096];
    int n;

    while ((n = BIO_read(c->out, piece, (int)step)) > 0)
        tls_receive(server, piece, (size_t)n, plain);
    return tls_state(server);
}

/* Until both have finished, or one has failed. */
static inline enum tls_state shake_hands(struct client *c, struct tls *server, size_t step,
                                         struct buf *plain)
{
    for (int i = 0; i < 20; i++) {
        (void)SSL_do_handshake(c->ssl);
        to_server(c, server, step, plain);
        to_client(c, server);
        if (tls_state(server) == TLS_FAILED ||
            (tls_state(server) == TLS_OPEN && SSL_is_init_finished(c->ssl)))
            break;
    }
    return tls_state(server);
}

#endif
