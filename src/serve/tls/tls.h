/* TLS without sockets: bytes of the network in, bytes for the network out. TLS 1.2 and 1.3 by
 * OpenSSL, with HTTP/1.1 as the only protocol inside. Used by one thread. */
#ifndef SERVE_TLS_TLS_H
#define SERVE_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* ---- certificate and key ---- */

struct tls_server;

/* Reads a PEM file with the certificate, followed by those of its issuers, and a PEM file with its
 * private key (NULL: the key is in the first file, too). Fails if a file is missing or has no such
 * part, if the key has a password, and if it is not the certificate's. Warns of a certificate that
 * has expired or is not valid yet. Paths are borrowed. */
CHECKED enum osp_status tls_server_open(struct tls_server **out, const char *cert_path,
                                        const char *key_path);
void tls_server_close(struct tls_server *t); /* accepts NULL; connections keep what they use */
/* Reads the files again if they have changed; new connections then use them. Files that
 * tls_server_open() would refuse are logged once, and the pair in use stays. */
void tls_server_refresh(struct tls_server *t);

/* ---- one connection ---- */

enum {
    TLS_RECORD_BYTES_MAX = 16 << 10 /* the plaintext of a record: sent at once, kept until whole */
};

enum tls_state {
    TLS_HANDSHAKE, /* the client has not finished the handshake */
    TLS_OPEN,
    TLS_ENDED, /* the client has sent its close_notify: it will not send more */
    TLS_FAILED /* nothing can be received or sent any more, except what is in the output */
};

struct tls;

struct tls *tls_new(const struct tls_server *t); /* NULL: out of memory */
void tls_free(struct tls *c);                    /* accepts NULL */
enum tls_state tls_state(const struct tls *c);
const char *tls_error(const struct tls *c); /* the reason of TLS_FAILED */

/* Takes bytes of the client. Appends what they say to `plain`: at most n_bytes and a record. Out of
 * memory or over the limit of `plain`: TLS_FAILED. */
enum tls_state tls_receive(struct tls *c, const char *data, size_t n_bytes, struct buf *plain);
/* Encrypts bytes for the client. False: not TLS_OPEN or TLS_ENDED, or out of memory. */
bool tls_send(struct tls *c, const char *data, size_t n_bytes);
/* Announces the end of the output (close_notify); no effect unless tls_send() is possible. */
void tls_send_end(struct tls *c);
/* What must be written to the socket now: answers of the handshake, alerts, encrypted bytes. Gives
 * the caller memory to free(); NULL: nothing. */
char *tls_take_output(struct tls *c, size_t *n_bytes);

#endif
