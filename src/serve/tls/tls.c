/* A connection's TLS. OpenSSL reads from the bytes that tls_receive() was given and writes to a
 * buffer that tls_take_output() empties, so that it never waits. */
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/tls/tls_internal.h"

/* TLS 1.2: forward secrecy and authenticated encryption only. All suites of TLS 1.3 have both. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* Of all that may be encrypted before it is taken: the largest answer (64 MiB) and its framing. */
#define OUTPUT_BYTES_MAX ((size_t)128 << 20)

enum {
    RECORD_OVERHEAD_BYTES = 64, /* of a record: header, nonce, tag, with some to spare */
    CONTROL_BYTES_MAX = 4096    /* about 150 new keys without an answer in between */
};

struct tls {
    SSL *ssl;
    struct buf out;
    const char *in; /* (n_in) not read yet; only during tls_receive() */
    size_t n_in;
    enum tls_state state;
    const char *error;
    size_t n_control_bytes; /* see is_flood(); since tls_send() */
};

const char *tls_reason(void)
{
    const unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);

    if (ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST)
        return "a plain HTTP request on a port for TLS; the client must use https://";
    return reason ? reason : "invalid data";
}

/* ---- between OpenSSL and the buffers ---- */

static int bio_read(BIO *bio, char *out, size_t n_bytes, size_t *n_read)
{
    struct tls *c = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *n_read = n_bytes < c->n_in ? n_bytes : c->n_in;
    if (*n_read == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(out, c->in, *n_read);
    c->in += *n_read;
    c->n_in -= *n_read;
    return 1;
}

static int bio_write(BIO *bio, const char *data, size_t n_bytes, size_t *n_written)
{
    struct tls *c = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *n_written = n_bytes;
    return buf_append(&c->out, data, n_bytes);
}

static long bio_ctrl(BIO *bio, int what, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH; /* everything else is not supported */
}

BIO_METHOD *tls_bio_new(void)
{
    BIO_METHOD *bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "osprey buffers");

    if (!bio || !BIO_meth_set_read_ex(bio, bio_read) || !BIO_meth_set_write_ex(bio, bio_write) ||
        !BIO_meth_set_ctrl(bio, bio_ctrl)) {
        BIO_meth_free(bio);
        return NULL;
    }
    return bio;
}

/* ---- what is offered ---- */

/* A client that offers protocols without HTTP/1.1 gets the alert no_application_protocol. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n_out,
                           const unsigned char *offered, unsigned n_offered, void *ctx)
{
    static const unsigned char HTTP_1_1[] = "\x08http/1.1";

    (void)ssl;
    (void)ctx;
    return SSL_select_next_proto((unsigned char **)out, n_out, HTTP_1_1, sizeof HTTP_1_1 - 1,
                                 offered, n_offered) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

SSL_CTX *tls_context_new(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (!ctx)
        return NULL;
    if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
        !SSL_CTX_set_cipher_list(ctx, CIPHERS)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS); /* idle connections need less memory */
    /* sessions are resumed by tickets, which the clients keep */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return ctx;
}

/* ---- a connection ---- */

struct tls *tls_new(const struct tls_server *t)
{
    struct tls *c = mem_new(sizeof *c);
    BIO *bio = BIO_new(t->bio);

    *c = (struct tls){.state = TLS_HANDSHAKE, .error = "", .ssl = SSL_new(t->ctx)};
    buf_init(&c->out, OUTPUT_BYTES_MAX);
    if (!bio || !c->ssl) {
        BIO_free(bio);
        tls_free(c);
        return NULL;
    }
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(c->ssl, bio, bio);
    SSL_set_accept_state(c->ssl);
    return c;
}

void tls_free(struct tls *c)
{
    if (!c)
        return;
    SSL_free(c->ssl);
    buf_release(&c->out);
    free(c);
}

enum tls_state tls_state(const struct tls *c)
{
    return c->state;
}

const char *tls_error(const struct tls *c)
{
    return c->error;
}

static enum tls_state failed(struct tls *c, const char *why)
{
    c->state = TLS_FAILED;
    c->error = why;
    return TLS_FAILED;
}

/* The state after a call of OpenSSL that could not go on. */
static enum tls_state after(struct tls *c, int result)
{
    const int error = SSL_get_error(c->ssl, result);

    if (error == SSL_ERROR_ZERO_RETURN)
        return c->state = TLS_ENDED;
    if (error != SSL_ERROR_WANT_READ)
        return failed(c, tls_reason());
    if (c->state == TLS_HANDSHAKE && SSL_is_init_finished(c->ssl))
        c->state = TLS_OPEN;
    return c->state;
}

/* OpenSSL answers a new key and a request for a renegotiation at once. A client that does not read
 * could make it write such answers without end. */
static bool is_flood(struct tls *c, enum tls_state before, size_t n_out_before)
{
    if (before == TLS_OPEN)
        c->n_control_bytes += c->out.size_bytes - n_out_before;
    return c->n_control_bytes > CONTROL_BYTES_MAX;
}

enum tls_state tls_receive(struct tls *c, const char *data, size_t n_bytes, struct buf *plain)
{
    const enum tls_state before = c->state;
    const size_t n_out_before = c->out.size_bytes;
    char record[TLS_RECORD_BYTES_MAX];
    size_t n = 0;
    int result;

    if (c->state == TLS_FAILED || c->state == TLS_ENDED)
        return c->state;
    c->in = data;
    c->n_in = n_bytes;
    ERR_clear_error();
    while ((result = SSL_read_ex(c->ssl, record, sizeof record, &n)) == 1)
        if (!buf_append(plain, record, n))
            return failed(c, "out of memory for what the client sends");
    (void)after(c, result);
    c->in = NULL;
    c->n_in = 0;
    if (is_flood(c, before, n_out_before))
        return failed(c, "too many new keys or requests for a renegotiation");
    return c->state;
}

static bool is_writable(const struct tls *c)
{
    return c->state == TLS_OPEN || c->state == TLS_ENDED;
}

bool tls_send(struct tls *c, const char *data, size_t n_bytes)
{
    const size_t n_records = n_bytes / TLS_RECORD_BYTES_MAX + 1;
    size_t n;

    if (!is_writable(c) || !buf_reserve(&c->out, n_bytes + n_records * RECORD_OVERHEAD_BYTES))
        return false;
    c->n_control_bytes = 0;
    ERR_clear_error();
    if (n_bytes == 0 || SSL_write_ex(c->ssl, data, n_bytes, &n) == 1)
        return true;
    (void)failed(c, tls_reason());
    return false;
}

void tls_send_end(struct tls *c)
{
    if (!is_writable(c))
        return;
    ERR_clear_error();
    if (SSL_shutdown(c->ssl) < 0 && SSL_get_error(c->ssl, -1) == SSL_ERROR_SSL)
        (void)failed(c, tls_reason());
    ERR_clear_error();
}

char *tls_take_output(struct tls *c, size_t *n_bytes)
{
    *n_bytes = c->out.size_bytes;
    return c->out.size_bytes > 0 ? buf_take(&c->out) : NULL;
}
