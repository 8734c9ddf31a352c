/* Hostile clients: each kind attacks one resource of the server (docs/limits.md). A connection
 * that the server ends is opened again after REOPEN_MS, so that the number of attackers stays
 * the same and their load is bounded. */
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "clients.h"

enum {
    REOPEN_MS = 200,
    TICK_MS = 20,
    RECEIVE_BYTES = 4096, /* of the socket of a client that does not read */
    BODY_BYTES = 4 << 20, /* the server's default limit */
    PIPELINED_BYTES = 2 << 20,
    TEXT_BYTES = 1 << 20,
    CHUNK_BYTES = 1 << 10,
    CHUNKED_BYTES = 2 << 20
};

static struct {
    const char *key; /* NULL: none is sent */
    uint64_t n_made; /* requests, so that each can differ */
} attack;

/* ---- requests ---- */

static char *with_body(const char *path, const char *key, char *body, size_t *n_bytes)
{
    char *all = mem_printf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                           "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                           path, key ? key : "none", strlen(body), body);

    free(body);
    *n_bytes = strlen(all);
    return all;
}

static char *chat(int n_tokens, const char *more, size_t *n_bytes)
{
    return with_body("/v1/chat/completions", attack.key,
                     mem_printf("{\"messages\":[{\"role\":\"user\",\"content\":\"Say the letters."
                                "\"}],\"max_tokens\":%d%s}",
                                n_tokens, more),
                     n_bytes);
}

static char *repeated(const char *piece, size_t n_bytes_min, size_t *n_bytes)
{
    size_t n_piece = strlen(piece), n = n_bytes_min / n_piece + 1;
    char *all = mem_new(n * n_piece + 1);

    for (size_t i = 0; i < n; i++)
        memcpy(all + i * n_piece, piece, n_piece);
    *n_bytes = n * n_piece;
    return all;
}

static char *make_silence(size_t *n_bytes)
{
    *n_bytes = 0;
    return mem_strdup("");
}

static char *make_slow_head(size_t *n_bytes)
{
    return repeated("GET /health HTTP/1.1\r\nx-slow: ", 8000, n_bytes);
}

static char *make_slow_body(size_t *n_bytes)
{
    return chat(8, "", n_bytes);
}

/* All but the last byte of the longest body; sent with a key that the server does not have. */
static char *make_big_body(size_t *n_bytes)
{
    size_t n;
    char *text = repeated("a", BODY_BYTES - 32, &n), *all;

    text[BODY_BYTES - 32] = '\0';
    all = with_body("/v1/completions", attack.n_made % 2 ? attack.key : "wrong",
                    mem_printf("{\"prompt\":\"%s\"}", text), n_bytes);
    free(text);
    *n_bytes -= 1;
    return all;
}

static char *make_pipeline(size_t *n_bytes)
{
    return repeated("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n",
                    PIPELINED_BYTES, n_bytes);
}

static char *make_stream(size_t *n_bytes)
{
    return chat(4000, ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":20", n_bytes);
}

static char *make_tokenize(size_t *n_bytes)
{
    size_t n;
    char *text = repeated("hostile words ", TEXT_BYTES, &n), *all;

    all = with_body("/tokenize", attack.key,
                    mem_printf("{\"prompt\":\"%s\",\"return_token_strs\":true}", text), n_bytes);
    free(text);
    return all;
}

/* A schema that no request had before, with patterns that are expensive to compile. */
static char *make_grammar(size_t *n_bytes)
{
    char *format = mem_printf(
        ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":"
        "{\"type\":\"object\",\"properties\":{\"p%llu\":{\"type\":\"string\",\"pattern\":"
        "\"^(a|b)*a(a|b){9}$\"},\"q\":{\"type\":\"string\",\"pattern\":\"^([a-z]{1,40}-){1,9}$\"}},"
        "\"required\":[\"q\"],\"additionalProperties\":false}}}",
        (unsigned long long)attack.n_made);
    char *all = chat(8, format, n_bytes);

    free(format);
    return all;
}

static char *make_malformed(size_t *n_bytes)
{
    static const char *const BYTES[] = {
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        "\r\n",
        "GET / HTTP/1.1\nHost: x\n\n",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "ffffffffffffffff\r\n",
        "\x16\x03\x01\x02\x01",
    };
    const char *one = BYTES[attack.n_made % (sizeof BYTES / sizeof BYTES[0])];

    *n_bytes = strlen(one);
    return mem_strdup(one);
}

static char *make_foreign_page(size_t *n_bytes)
{
    char *all = mem_strdup("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                           "Origin: http://203.0.113.66\r\nSec-Fetch-Site: cross-site\r\n\r\n");

    *n_bytes = strlen(all);
    return all;
}

/* Chunks without end: no length is declared. */
static char *make_chunks(size_t *n_bytes)
{
    size_t n_head, n_chunks;
    char *block = mem_new(CHUNK_BYTES + 1), *chunk, *chunks, *all;

    memset(block, 'b', CHUNK_BYTES);
    chunk = mem_printf("%x\r\n%s\r\n", (unsigned)CHUNK_BYTES, block);
    chunks = repeated(chunk, CHUNKED_BYTES, &n_chunks);
    all = mem_printf("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s"
                     "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%s",
                     attack.key ? attack.key : "none", chunks);
    n_head = strlen(all) - n_chunks;
    free(block);
    free(chunk);
    free(chunks);
    *n_bytes = n_head + n_chunks;
    return all;
}

/* ---- kinds ---- */

static const struct kind {
    const char *name;
    char *(*make)(size_t *n_bytes);
    int trickle_ms; /* between two bytes; 0: all at once */
    int leave_ms;   /* it closes at a random moment until then; 0: it stays */
    bool reads_nothing;
} KINDS[] = {
    {"silent", make_silence, 0, 0, false},
    {"slow_head", make_slow_head, 200, 0, false},
    {"slow_body", make_slow_body, 500, 0, false},
    {"big_body", make_big_body, 0, 0, false},
    {"pipeline", make_pipeline, 0, 0, true},
    {"stream", make_stream, 0, 0, true},
    {"stream_left", make_stream, 0, 2000, false},
    {"tokenize", make_tokenize, 0, 0, true},
    {"tokenize_left", make_tokenize, 0, 500, false},
    {"grammar", make_grammar, 0, 5000, false},
    {"malformed", make_malformed, 0, 0, false},
    {"foreign_page", make_foreign_page, 0, 1000, false},
    {"chunks", make_chunks, 0, 0, false},
};
enum { N_KINDS = sizeof KINDS / sizeof KINDS[0] };

static struct {
    int64_t n_opened, n_ended, n_status[6]; /* [status / 100] */
} seen[N_KINDS];

static uint64_t random_ns(uint64_t below_ms)
{
    return rng_bits(11, attack.n_made, 0) % (below_ms * 1000000u + 1);
}

static void open_one(struct clients *c, int index)
{
    struct client *k = &c->all[index];
    const struct kind *kind = &KINDS[k->kind];
    int small = RECEIVE_BYTES;
    size_t n_bytes;
    char *request;

    attack.n_made++;
    request = kind->make(&n_bytes);
    client_open(c, index, request, n_bytes);
    seen[k->kind].n_opened++;
    k->reads_nothing = kind->reads_nothing;
    if (kind->reads_nothing)
        setsockopt(k->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (kind->trickle_ms > 0)
        k->n_allowed = strcspn(request, "{") + 1 < n_bytes ? strcspn(request, "{") : 0;
    k->due_ns = k->begin_ns + (kind->leave_ms > 0 ? random_ns((uint64_t)kind->leave_ms) : 0);
}

static void ended(struct clients *c, struct client *k)
{
    (void)c;
    seen[k->kind].n_ended++;
    if (k->status >= 100 && k->status < 600)
        seen[k->kind].n_status[k->status / 100]++;
    k->due_ns = clock_ns() + (uint64_t)REOPEN_MS * 1000000u;
}

/* What is due: one more byte, the end of a client that leaves, or a new connection. */
static void act(struct clients *c, int index, uint64_t now_ns)
{
    struct client *k = &c->all[index];
    const struct kind *kind = &KINDS[k->kind];

    if (now_ns < k->due_ns)
        return;
    if (k->fd < 0) {
        open_one(c, index);
    } else if (kind->leave_ms > 0) {
        client_close(c, k, attack.n_made % 2 == 0);
        ended(c, k);
    } else if (kind->trickle_ms > 0 && k->n_allowed < k->n_request) {
        k->n_allowed++;
        k->due_ns = now_ns + (uint64_t)kind->trickle_ms * 1000000u;
        client_send(c, k);
    }
}

static void print_seen(double seconds, int n)
{
    printf("{\"connections\":%d,\"seconds\":%.1f,\"kinds\":{", n, seconds);
    for (int i = 0; i < N_KINDS; i++)
        printf("%s\"%s\":{\"opened\":%lld,\"ended\":%lld,\"2xx\":%lld,\"4xx\":%lld,\"5xx\":%lld}",
               i > 0 ? "," : "", KINDS[i].name, (long long)seen[i].n_opened,
               (long long)seen[i].n_ended, (long long)seen[i].n_status[2],
               (long long)seen[i].n_status[4], (long long)seen[i].n_status[5]);
    printf("}}\n");
}

int run_hostile(int port, char **argv)
{
    const double seconds = atof(argv[0]);
    const int n = atoi(argv[1]);
    const uint64_t begin_ns = clock_ns();
    uint64_t tick_ns = 0;
    struct clients c;

    attack.key = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
    clients_init(&c, n, port);
    for (int i = 0; i < n; i++) {
        c.all[i].kind = i % N_KINDS;
        c.all[i].due_ns = begin_ns + (uint64_t)i * 2000000u; /* not all in the same instant */
    }
    while ((double)(clock_ns() - begin_ns) * 1e-9 < seconds) {
        clients_wait(&c, TICK_MS, ended);
        if (clock_ns() < tick_ns)
            continue;
        tick_ns = clock_ns() + (uint64_t)TICK_MS * 1000000u;
        for (int i = 0; i < n; i++)
            act(&c, i, clock_ns());
    }
    print_seen((double)(clock_ns() - begin_ns) * 1e-9, n);
    clients_release(&c);
    return 0;
}

/* ---- a good client ---- */

enum { HEALTH_EVERY_MS = 20, CHAT_EVERY_MS = 200, CHAT_TOKENS = 16, SAMPLES_MAX = 1 << 18 };

struct series {
    struct clients one;
    double *ms;
    size_t n, n_bad;
    uint64_t due_ns, every_ns;
    bool is_chat;
};

static void series_init(struct series *s, int port, int every_ms, bool is_chat)
{
    *s = (struct series){.every_ns = (uint64_t)every_ms * 1000000u, .is_chat = is_chat};
    s->ms = mem_new(SAMPLES_MAX * sizeof *s->ms);
    clients_init(&s->one, 1, port);
}

static void series_release(struct series *s)
{
    clients_release(&s->one);
    free(s->ms);
}

static char *good_request(const struct series *s, const char *key, size_t *n_bytes)
{
    const char *body = "{\"messages\":[{\"role\":\"user\",\"content\":\"Say the letters.\"}],"
                       "\"max_tokens\":16,\"ignore_eos\":true}";
    char *all;

    if (s->is_chat)
        all = mem_printf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                         "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                         "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                         key, strlen(body), body);
    else
        all = mem_strdup("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    *n_bytes = strlen(all);
    return all;
}

static void no_matter(struct clients *c, struct client *k)
{
    (void)c;
    (void)k;
}

static void series_go_on(struct series *s, const char *key)
{
    struct client *k = &s->one.all[0];
    size_t n_bytes;
    char *request;

    clients_wait(&s->one, 1, no_matter);
    if (k->fd < 0 && k->begin_ns > 0 && s->n < SAMPLES_MAX) {
        s->n_bad += k->status != 200;
        s->ms[s->n++] = (double)(k->end_ns - k->begin_ns) * 1e-6;
        k->begin_ns = 0;
    }
    if (k->fd >= 0 || clock_ns() < s->due_ns)
        return;
    s->due_ns = clock_ns() + s->every_ns;
    request = good_request(s, key, &n_bytes);
    client_open(&s->one, 0, request, n_bytes);
}

static void series_print(struct series *s, const char *name)
{
    printf("\"%s\":{\"n\":%zu,\"bad\":%zu,\"ms_p50\":%.2f,\"ms_p99\":%.2f,\"ms_max\":%.2f}", name,
           s->n, s->n_bad, percentile(s->ms, s->n, 0.5), percentile(s->ms, s->n, 0.99),
           percentile(s->ms, s->n, 1));
}

int run_good(int port, char **argv)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)(atof(argv[0]) * 1e9);
    struct series health, chats;

    series_init(&health, port, HEALTH_EVERY_MS, false);
    series_init(&chats, port, CHAT_EVERY_MS, true);
    while (clock_ns() < end_ns) {
        series_go_on(&health, argv[1]);
        series_go_on(&chats, argv[1]);
    }
    printf("{");
    series_print(&health, "health");
    printf(",");
    series_print(&chats, "chat");
    printf("}\n");
    series_release(&health);
    series_release(&chats);
    return 0;
}
