/* TLS without sockets: handshakes in pieces, data of all sizes, damaged bytes, certificates and
 * keys that cannot be used, and their replacement. */
#include "unit.h"

#include "base/log.h"
#include "base/rng.h"
#include "tls_client.h"

enum { PLAIN_BYTES_MAX = 4 << 20, BIG_BYTES = 1000003 };

static const int VERSIONS[] = {TLS1_2_VERSION, TLS1_3_VERSION};

struct session {
    struct pair pair;
    struct tls_server *server;
    struct tls *tls;
    struct client client;
    struct buf plain;
};

static void session_open(struct session *s, int version, const char *ciphers)
{
    log_set_level(LOG_ERROR);
    pair_open(&s->pair);
    assert_int_equal(tls_server_open(&s->server, s->pair.cert, s->pair.key), OSP_OK);
    s->tls = tls_new(s->server);
    assert_non_null(s->tls);
    client_open(&s->client, version, ciphers);
    buf_init(&s->plain, PLAIN_BYTES_MAX);
}

static void session_close(struct session *s)
{
    client_close(&s->client);
    tls_free(s->tls);
    tls_server_close(s->server);
    pair_close(&s->pair);
    buf_release(&s->plain);
}

/* ---- connections ---- */

static void check_upload(struct session *s, const char *data, size_t n_bytes, size_t step)
{
    size_t n = 0;

    assert_int_equal(SSL_write_ex(s->client.ssl, data, n_bytes, &n), 1);
    assert_int_equal(to_server(&s->client, s->tls, step, &s->plain), TLS_OPEN);
    assert_int_equal(s->plain.size_bytes, n_bytes);
    assert_memory_equal(s->plain.data, data, n_bytes);
    buf_clear(&s->plain);
}

static void check_download(struct session *s, const char *data, size_t n_bytes)
{
    char *got = mem_new(n_bytes + 1);
    size_t n_got = 0, n = 0;

    assert_true(tls_send(s->tls, data, n_bytes));
    assert_true(to_client(&s->client, s->tls) > n_bytes);
    while (SSL_read_ex(s->client.ssl, got + n_got, n_bytes + 1 - n_got, &n) == 1)
        n_got += n;
    assert_int_equal(n_got, n_bytes);
    assert_memory_equal(got, data, n_bytes);
    free(got);
}

static char *random_bytes(size_t n_bytes)
{
    char *data = mem_new(n_bytes);

    for (size_t i = 0; i < n_bytes; i++)
        data[i] = (char)rng_bits(7, i, 0);
    return data;
}

static void test_data_in_pieces(void **state)
{
    static const size_t steps[] = {1, 7, 4096}, sizes[] = {1, 16384, 16385, BIG_BYTES};
    char *data = random_bytes(BIG_BYTES);

    (void)state;
    for (size_t v = 0; v < 2; v++)
        for (size_t i = 0; i < 3; i++) {
            struct session s;

            session_open(&s, VERSIONS[v], NULL);
            assert_int_equal(shake_hands(&s.client, s.tls, steps[i], &s.plain), TLS_OPEN);
            assert_int_equal(SSL_version(s.client.ssl), VERSIONS[v]);
            for (size_t k = 0; k < 4; k++) {
                check_upload(&s, data, sizes[k], steps[i]);
                check_download(&s, data, sizes[k]);
            }
            session_close(&s);
        }
    free(data);
}

/* Each side ends its output alone, and the other one can still send. */
static void test_ends(void **state)
{
    char byte;

    (void)state;
    for (size_t v = 0; v < 2; v++) {
        struct session s;

        session_open(&s, VERSIONS[v], NULL);
        tls_send_end(s.tls); /* too early: nothing happens */
        assert_false(tls_send(s.tls, "x", 1));
        assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
        assert_int_equal(SSL_shutdown(s.client.ssl), 0);
        assert_int_equal(to_server(&s.client, s.tls, 4096, &s.plain), TLS_ENDED);
        assert_int_equal(tls_receive(s.tls, "garbage", 7, &s.plain), TLS_ENDED);
        assert_true(tls_send(s.tls, "answer", 6));
        tls_send_end(s.tls);
        assert_true(to_client(&s.client, s.tls) > 6);
        tls_send_end(s.tls); /* once is enough */
        assert_int_equal(to_client(&s.client, s.tls), 0);
        assert_int_equal(SSL_read(s.client.ssl, &byte, 1), 1);
        assert_int_equal(byte, 'a');
        session_close(&s);
    }
}

static void test_protocols_that_are_refused(void **state)
{
    static const struct {
        int version;
        const char *ciphers, *protocols, *why;
    } CASES[] = {
        {TLS1_VERSION, "ALL:@SECLEVEL=0", NULL, "unsupported protocol"},
        {TLS1_1_VERSION, "ALL:@SECLEVEL=0", NULL, "unsupported protocol"},
        {TLS1_2_VERSION, "AES128-GCM-SHA256", NULL, "no shared cipher"},
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", NULL, "no shared cipher"},
        {TLS1_2_VERSION, "aNULL:@SECLEVEL=0", NULL, "no shared cipher"},
        {TLS1_3_VERSION, NULL, "\x02h2", "no application protocol"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct session s;

        session_open(&s, CASES[i].version, CASES[i].ciphers);
        if (CASES[i].protocols)
            SSL_set_alpn_protos(s.client.ssl, (const unsigned char *)CASES[i].protocols,
                                (unsigned)strlen(CASES[i].protocols));
        assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_FAILED);
        assert_string_equal(tls_error(s.tls), CASES[i].why);
        assert_false(tls_send(s.tls, "x", 1));
        assert_int_equal(tls_receive(s.tls, "x", 1, &s.plain), TLS_FAILED);
        session_close(&s);
    }
}

static void test_http_1_1_is_chosen(void **state)
{
    const unsigned char *chosen;
    struct session s;
    unsigned n;

    (void)state;
    session_open(&s, TLS1_3_VERSION, NULL);
    SSL_set_alpn_protos(s.client.ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12);
    assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
    SSL_get0_alpn_selected(s.client.ssl, &chosen, &n);
    assert_int_equal(n, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
    session_close(&s);
}

/* The client asks for a second handshake; the server answers with the alert no_renegotiation. */
static void test_renegotiation_is_refused(void **state)
{
    struct session s;
    char byte;

    (void)state;
    session_open(&s, TLS1_2_VERSION, NULL);
    assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
    assert_int_equal(SSL_renegotiate(s.client.ssl), 1);
    (void)SSL_do_handshake(s.client.ssl);
    (void)to_server(&s.client, s.tls, 4096, &s.plain);
    assert_true(to_client(&s.client, s.tls) > 0);
    assert_true(SSL_read(s.client.ssl, &byte, 1) <= 0);
    assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()), SSL_R_NO_RENEGOTIATION);
    session_close(&s);
}

/* New keys in the middle of a connection are part of TLS 1.3; a flood of them is not. */
static void test_key_updates(void **state)
{
    struct session s;
    size_t n_out = 0, n;
    int n_updates;

    (void)state;
    session_open(&s, TLS1_3_VERSION, NULL);
    assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_key_update(s.client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        check_upload(&s, "hello", 5, 7);
        check_download(&s, "hello", 5);
    }
    for (n_updates = 0; n_updates < 1000 && tls_state(s.tls) == TLS_OPEN; n_updates++) {
        char *out;

        (void)SSL_key_update(s.client.ssl, SSL_KEY_UPDATE_REQUESTED);
        (void)SSL_do_handshake(s.client.ssl);
        (void)to_server(&s.client, s.tls, 4096, &s.plain);
        out = tls_take_output(s.tls, &n); /* the client does not read it */
        n_out += n;
        free(out);
    }
    assert_int_equal(tls_state(s.tls), TLS_FAILED);
    assert_true(strlen(tls_error(s.tls)) > 0);
    assert_true(n_updates < 1000 && n_out < 5000);
    session_close(&s);
}

/* ---- hostile bytes ---- */

static void test_plain_http(void **state)
{
    static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct session s;

    (void)state;
    session_open(&s, TLS1_3_VERSION, NULL);
    assert_int_equal(tls_receive(s.tls, request, sizeof request - 1, &s.plain), TLS_FAILED);
    assert_non_null(strstr(tls_error(s.tls), "the client must use https://"));
    session_close(&s);
}

static void test_garbage(void **state)
{
    char bytes[600];

    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct session s;

        session_open(&s, TLS1_3_VERSION, NULL);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)rng_bits(seed, i, 1);
        if (seed % 2) /* a record of the handshake */
            memcpy(bytes, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
        assert_int_equal(tls_receive(s.tls, bytes, sizeof bytes, &s.plain), TLS_FAILED);
        assert_int_equal(s.plain.size_bytes, 0);
        assert_true(strlen(tls_error(s.tls)) > 0);
        session_close(&s);
    }
}

/* Every byte of the first flight is damaged once: the handshake fails, or does not end. Only the
 * version in the record's header, bytes 1 and 2, is not protected. */
static void damage_hellos(int version)
{
    size_t n_hello = 1;

    for (size_t at = 0; at < n_hello; at++) {
        struct session s;
        char hello[2048];

        session_open(&s, version, NULL);
        (void)SSL_do_handshake(s.client.ssl);
        n_hello = (size_t)BIO_read(s.client.out, hello, sizeof hello);
        hello[at] ^= (char)(1 << (at % 8));
        tls_receive(s.tls, hello, n_hello, &s.plain);
        to_client(&s.client, s.tls);
        if (shake_hands(&s.client, s.tls, 4096, &s.plain) == TLS_OPEN && at != 1 && at != 2)
            fail_msg("a handshake with byte %zu damaged succeeds", at);
        session_close(&s);
    }
    assert_true(n_hello > 100);
}

static void test_damaged_handshakes(void **state)
{
    (void)state;
    damage_hellos(TLS1_2_VERSION);
    damage_hellos(TLS1_3_VERSION);
}

static void test_damaged_data(void **state)
{
    (void)state;
    for (int at = 0; at < 40; at++) {
        struct session s;
        char record[256];
        int n;

        session_open(&s, VERSIONS[at % 2], NULL);
        assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
        assert_int_equal(SSL_write(s.client.ssl, "hello, hello, hello", 19), 19);
        n = BIO_read(s.client.out, record, sizeof record);
        record[5 + at % (n - 5)] ^= 1;
        assert_int_equal(tls_receive(s.tls, record, (size_t)n, &s.plain), TLS_FAILED);
        assert_int_equal(s.plain.size_bytes, 0);
        session_close(&s);
    }
}

static void test_limit_of_the_output(void **state)
{
    char *data = random_bytes(100000);
    struct session s;
    size_t n;

    (void)state;
    session_open(&s, TLS1_3_VERSION, NULL);
    assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
    s.plain.limit_bytes = 50000;
    assert_int_equal(SSL_write_ex(s.client.ssl, data, 100000, &n), 1);
    assert_int_equal(to_server(&s.client, s.tls, 4096, &s.plain), TLS_FAILED);
    assert_true(s.plain.size_bytes <= 50000);
    free(data);
    session_close(&s);
}

/* ---- certificates and keys ---- */

static void expect_refusal(const struct pair *p, const char *cert, const char *key,
                           const char *option, const char *why)
{
    struct tls_server *server;

    (void)p;
    assert_int_not_equal(tls_server_open(&server, cert, key), OSP_OK);
    assert_null(server);
    if (!strstr(fail_message(), why) || strncmp(fail_message(), option, strlen(option)) != 0)
        fail_msg("'%s' does not begin with %s and have '%s'", fail_message(), option, why);
}

static void test_files_that_are_refused(void **state)
{
    char password[] = "secret";
    EVP_PKEY *other = new_key();
    struct pair p;

    (void)state;
    pair_open(&p);
    expect_refusal(&p, "/nowhere/cert.pem", p.key, "--ssl-certfile: ", "/nowhere/cert.pem");
    expect_refusal(&p, p.cert, "/nowhere/key.pem", "--ssl-keyfile: ", "/nowhere/key.pem");
    expect_refusal(&p, p.folder, p.key, "--ssl-certfile: ", "folder");
    expect_refusal(&p, p.key, p.key, "--ssl-certfile: ", "no certificate in this file");
    expect_refusal(&p, p.cert, p.cert, "--ssl-keyfile: ", "no private key can be read");
    expect_refusal(&p, p.cert, NULL, "--ssl-keyfile: ", "no private key can be read");
    write_key(p.key, other, NULL);
    expect_refusal(&p, p.cert, p.key, "--ssl-keyfile: ", "not the one of the certificate in");
    write_key(p.key, other, password);
    expect_refusal(&p, p.cert, p.key, "--ssl-keyfile: ", "has a password");
    write_file(p.key, "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n");
    expect_refusal(&p, p.cert, p.key, "--ssl-keyfile: ", "no private key can be read");
    write_file(p.cert, "-----BEGIN CERTIFICATE-----\nMIGH\n-----END CERTIFICATE-----\n");
    expect_refusal(&p, p.cert, p.key, "--ssl-certfile: ", "cannot be used");
    EVP_PKEY_free(other);
    pair_close(&p);
}

/* Certificate, issuers and key in one file; the client sees the chain. */
static void test_one_file_with_a_chain(void **state)
{
    EVP_PKEY *key = new_key();
    X509 *cert = new_cert(key, "leaf", -60, 3600);
    struct session s;
    FILE *f;

    (void)state;
    session_open(&s, TLS1_3_VERSION, NULL);
    write_cert(s.pair.cert, cert, "w");
    write_cert(s.pair.cert, cert, "a");
    f = fopen(s.pair.cert, "a");
    assert_true(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL));
    fclose(f);
    tls_free(s.tls);
    tls_server_close(s.server);
    assert_int_equal(tls_server_open(&s.server, s.pair.cert, NULL), OSP_OK);
    s.tls = tls_new(s.server);
    assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
    assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(s.client.ssl)), 2);
    X509_free(cert);
    EVP_PKEY_free(key);
    session_close(&s);
}

/* The name in the certificate that a new connection gets. */
static void expect_name(struct tls_server *server, const char *name)
{
    struct tls *tls = tls_new(server);
    struct client c;
    struct buf plain;
    char text[64] = "";
    X509 *cert;

    buf_init(&plain, 100);
    client_open(&c, TLS1_3_VERSION, NULL);
    assert_int_equal(shake_hands(&c, tls, 4096, &plain), TLS_OPEN);
    cert = SSL_get1_peer_certificate(c.ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, text, sizeof text);
    assert_string_equal(text, name);
    X509_free(cert);
    client_close(&c);
    tls_free(tls);
    buf_release(&plain);
}

static void test_files_that_change(void **state)
{
    struct session s;

    (void)state;
    session_open(&s, TLS1_3_VERSION, NULL);
    expect_name(s.server, "first");
    tls_server_refresh(s.server); /* nothing has changed */
    unlink(s.pair.cert);          /* so that the next file has another inode or time */
    unlink(s.pair.key);
    tls_server_refresh(s.server);
    expect_name(s.server, "first");
    write_file(s.pair.cert, "half a certif");
    tls_server_refresh(s.server);
    expect_name(s.server, "first");
    pair_write(&s.pair, "second, of another length", -60, 3600);
    tls_server_refresh(s.server);
    expect_name(s.server, "second, of another length");
    /* a connection that began before goes on with what it had */
    assert_int_equal(shake_hands(&s.client, s.tls, 4096, &s.plain), TLS_OPEN);
    check_download(&s, "hello", 5);
    session_close(&s);
}

UNIT_MAIN(cmocka_unit_test(test_data_in_pieces), cmocka_unit_test(test_ends),
          cmocka_unit_test(test_protocols_that_are_refused),
          cmocka_unit_test(test_http_1_1_is_chosen),
          cmocka_unit_test(test_renegotiation_is_refused), cmocka_unit_test(test_key_updates),
          cmocka_unit_test(test_plain_http), cmocka_unit_test(test_garbage),
          cmocka_unit_test(test_damaged_handshakes), cmocka_unit_test(test_damaged_data),
          cmocka_unit_test(test_limit_of_the_output), cmocka_unit_test(test_files_that_are_refused),
          cmocka_unit_test(test_one_file_with_a_chain), cmocka_unit_test(test_files_that_change))
