/* What tls.c and tls_files.c share. */
#ifndef SERVE_TLS_TLS_INTERNAL_H
#define SERVE_TLS_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "serve/tls/tls.h"

/* When and as what a file was stored last. A file that changes has another one of these. */
struct tls_file_stamp {
    uint64_t inode, size_bytes;
    int64_t changed_s, changed_ns;
};

struct tls_server {
    const char *cert_path, *key_path; /* borrowed */
    SSL_CTX *ctx;
    BIO_METHOD *bio;                 /* tls.c: between a connection and its buffers */
    struct tls_file_stamp stamps[2]; /* of the files that were tried last */
};

/* tls.c: versions, ciphers and the protocol inside. Gives a context without certificate; NULL: out
 * of memory. */
SSL_CTX *tls_context_new(void);
BIO_METHOD *tls_bio_new(void);
/* The reason of the last failure of OpenSSL on this thread, as text of static life. */
const char *tls_reason(void);

#endif
