/* Burdens a server on 127.0.0.1 whose device is tests/load/fake_device.c, and prints what its
 * clients saw as one line of JSON. tests/load/load.py starts both and holds the figures against
 * what is promised.
 *
 *     burden streams PORT N TOKENS OPEN_PER_S          N streams of so many tokens, to their end
 *     burden overload PORT SECONDS REQUESTS_PER_S TOKENS
 *     burden slow PORT N SECONDS                       N each of slow heads, slow bodies, slow
 *                                                      readers, and one that asks /health every 10 ms
 *     burden disconnects PORT N AT_ONCE MS             N clients that leave at random points within
 *                                                      MS
 *     burden hostile PORT SECONDS N KEY                N attacking connections of all kinds
 *                                                      (hostile.c)
 *     burden good PORT SECONDS KEY                     one client that asks /health and chats
 *
 * `streams` prints {"event":"all_begun"} first, once every stream has had a token. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "clients.h"
#include "hostile.h"

enum { HEADER_TOKENS = 3, SECOND_MS = 1000 };

static double seconds_since(uint64_t begin_ns)
{
    return (double)(clock_ns() - begin_ns) * 1e-9;
}

static double milliseconds(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? (double)(end_ns - begin_ns) * 1e-6 : 0;
}

static void ignore_end(struct clients *c, struct client *k)
{
    (void)c;
    (void)k;
}

static bool is_whole(const struct client *k, int n_tokens)
{
    return k->status == 200 && k->is_done && !k->has_error && !k->is_broken &&
           k->n_letters == n_tokens - HEADER_TOKENS;
}

/* ---- streams ---- */

static void open_due(struct clients *c, int *n_opened, uint64_t begin_ns, int n_per_s, int n_tokens)
{
    while (*n_opened < c->n && *n_opened < seconds_since(begin_ns) * n_per_s) {
        size_t n_bytes;
        char *request = chat_request(n_tokens, true, "Say the letters.", &n_bytes);

        client_open(c, (*n_opened)++, request, n_bytes);
    }
}

static int count_begun(const struct clients *c)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        n += c->all[i].n_letters > 0;
    return n;
}

static void print_streams(struct clients *c, int n_tokens, double seconds)
{
    double *first = mem_new((size_t)c->n * sizeof *first);
    int n_whole = 0, n_errors = 0, n_refused = 0;
    int64_t n_letters = 0;
    size_t n_first = 0;

    for (int i = 0; i < c->n; i++) {
        const struct client *k = &c->all[i];

        n_whole += is_whole(k, n_tokens);
        n_errors += k->has_error;
        n_refused += k->status >= 400;
        n_letters += k->n_letters;
        if (k->first_ns > 0)
            first[n_first++] = milliseconds(k->begin_ns, k->first_ns) * 1e-3;
    }
    printf("{\"streams\":%d,\"whole\":%d,\"cut_or_wrong\":%d,\"error_events\":%d,\"refused\":%d,"
           "\"letters\":%lld,\"seconds\":%.2f,\"ttft_s_p50\":%.4f,\"ttft_s_p99\":%.4f,",
           c->n, n_whole, c->n - n_whole, n_errors, n_refused, (long long)n_letters, seconds,
           percentile(first, n_first, 0.5), percentile(first, n_first, 0.99));
    printf("\"gap_s_p50\":%.4f,\"gap_s_p99\":%.4f,\"gap_s_max\":%.4f}\n",
           percentile(c->gaps, c->n_gaps, 0.5), percentile(c->gaps, c->n_gaps, 0.99),
           percentile(c->gaps, c->n_gaps, 1));
    free(first);
}

static int run_streams(int port, char **argv)
{
    int n = atoi(argv[0]), n_tokens = atoi(argv[1]), n_per_s = atoi(argv[2]), n_opened = 0;
    uint64_t begin_ns = clock_ns();
    bool is_printed = false;
    struct clients c;

    clients_init(&c, n, port);
    while (n_opened < n || c.n_open > 0) {
        open_due(&c, &n_opened, begin_ns, n_per_s, n_tokens);
        clients_wait(&c, n_opened < n ? 5 : 100, ignore_end);
        if (!is_printed && n_opened == n && count_begun(&c) == n) {
            printf("{\"event\":\"all_begun\",\"seconds\":%.2f}\n", seconds_since(begin_ns));
            fflush(stdout);
            is_printed = true;
        }
    }
    print_streams(&c, n_tokens, seconds_since(begin_ns));
    clients_release(&c);
    return 0;
}

/* ---- overload ---- */

struct overload {
    double *refusal_ms;
    size_t n_refused;
    int n_sent, n_whole, n_cut, n_odd, n_without_retry_after, n_tokens;
};
static struct overload over;

static void overload_ended(struct clients *c, struct client *k)
{
    (void)c;
    if (k->status == 429) {
        over.refusal_ms[over.n_refused++] = milliseconds(k->begin_ns, k->head_ns);
        over.n_without_retry_after += !k->has_retry_after;
    } else if (is_whole(k, over.n_tokens)) {
        over.n_whole++;
    } else if (k->status == 200) {
        over.n_cut++;
    } else {
        over.n_odd++;
    }
}

static int free_client(const struct clients *c, int from)
{
    for (int i = 0; i < c->n; i++)
        if (c->all[(from + i) % c->n].fd < 0)
            return (from + i) % c->n;
    fprintf(stderr, "burden: %d clients at once are not enough\n", c->n);
    exit(1);
}

static void send_due(struct clients *c, uint64_t begin_ns, double seconds, int n_per_s)
{
    static int last;
    double now = seconds_since(begin_ns);

    while (now < seconds && over.n_sent < now * n_per_s) {
        size_t n_bytes;
        char *request = chat_request(over.n_tokens, true, "Say the letters.", &n_bytes);

        last = free_client(c, last + 1);
        client_open(c, last, request, n_bytes);
        over.n_sent++;
    }
}

static int run_overload(int port, char **argv)
{
    double seconds = atof(argv[0]);
    int n_per_s = atoi(argv[1]);
    uint64_t begin_ns = clock_ns();
    struct clients c;

    over.n_tokens = atoi(argv[2]);
    over.refusal_ms = mem_new((size_t)(seconds * n_per_s + 1) * sizeof(double));
    clients_init(&c, 16000, port);
    while (seconds_since(begin_ns) < seconds || c.n_open > 0) {
        send_due(&c, begin_ns, seconds, n_per_s);
        clients_wait(&c, 1, overload_ended);
    }
    printf("{\"sent\":%d,\"whole\":%d,\"cut\":%d,\"refused\":%zu,\"other\":%d,"
           "\"without_retry_after\":%d,\"refusal_ms_p50\":%.2f,\"refusal_ms_p99\":%.2f,"
           "\"refusal_ms_max\":%.2f,\"seconds\":%.2f}\n",
           over.n_sent, over.n_whole, over.n_cut, over.n_refused, over.n_odd,
           over.n_without_retry_after, percentile(over.refusal_ms, over.n_refused, 0.5),
           percentile(over.refusal_ms, over.n_refused, 0.99),
           percentile(over.refusal_ms, over.n_refused, 1), seconds_since(begin_ns));
    clients_release(&c);
    free(over.refusal_ms);
    return 0;
}

/* ---- slow clients ---- */

enum { SLOW_HEAD, SLOW_BODY, SLOW_READ, SLOW_KINDS };
enum { HEAD_LINE_MS = 2000, BODY_BYTE_MS = 500, ASK_MS = 10, ASK_MAX = 1 << 20 };

static int64_t n_slow_ended[SLOW_KINDS];

/* A head without end, a body that trickles, an answer that nobody takes. */
static void open_slow(struct clients *c, int index)
{
    static const char head[] = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";
    struct client *k = &c->all[index];
    size_t n_bytes = 0;
    char *request;
    int small = 2048;

    if (k->kind == SLOW_HEAD) {
        request = mem_new(4096);
        n_bytes = (size_t)snprintf(request, 4096, "%s", head);
        for (int i = 0; i < 90; i++)
            n_bytes += (size_t)snprintf(request + n_bytes, 4096 - n_bytes, "x-slow-%02d: 1\r\n", i);
    } else {
        request = chat_request(4000, true, "Say the letters.", &n_bytes);
    }
    client_open(c, index, request, n_bytes);
    if (k->kind == SLOW_HEAD)
        k->n_allowed = sizeof head - 1;
    if (k->kind == SLOW_BODY)
        k->n_allowed = (size_t)(strstr(request, "\r\n\r\n") - request) + 4;
    if (k->kind == SLOW_READ) {
        k->reads_nothing = true;
        setsockopt(k->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    }
    k->due_ns = clock_ns() + (uint64_t)HEAD_LINE_MS * 1000000;
}

static void slow_ended(struct clients *c, struct client *k)
{
    n_slow_ended[k->kind]++;
    open_slow(c, (int)(k - c->all));
}

/* One more line or byte of those whose time has come. */
static void trickle(struct clients *c)
{
    uint64_t now_ns = clock_ns();

    for (int i = 0; i < c->n; i++) {
        struct client *k = &c->all[i];
        const char *end;

        if (now_ns < k->due_ns || k->fd < 0 || k->n_allowed == k->n_request)
            continue;
        end = strstr(k->request + k->n_allowed, "\r\n");
        k->n_allowed =
            k->kind == SLOW_HEAD && end ? (size_t)(end - k->request) + 2 : k->n_allowed + 1;
        k->due_ns =
            now_ns + (uint64_t)(k->kind == SLOW_HEAD ? HEAD_LINE_MS : BODY_BYTE_MS) * 1000000;
        client_send(c, k);
    }
}

struct asker {
    struct clients one;
    double *ms;
    size_t n, n_bad;
    uint64_t due_ns;
};

static void ask(struct asker *a)
{
    struct client *k = &a->one.all[0];

    clients_wait(&a->one, 0, ignore_end);
    if (k->fd < 0 && k->begin_ns > 0 && a->n < ASK_MAX) {
        a->n_bad += k->status != 200;
        a->ms[a->n++] = milliseconds(k->begin_ns, k->head_ns > 0 ? k->head_ns : clock_ns());
        k->begin_ns = 0;
    }
    if (k->fd >= 0 || clock_ns() < a->due_ns)
        return;
    a->due_ns = clock_ns() + (uint64_t)ASK_MS * 1000000;
    client_open(&a->one, 0,
                mem_strdup("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
                strlen("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
}

static int run_slow(int port, char **argv)
{
    int n = atoi(argv[0]);
    double seconds = atof(argv[1]);
    uint64_t begin_ns = clock_ns(), trickle_ns = 0;
    struct clients c;
    struct asker a = {.ms = mem_new(ASK_MAX * sizeof(double))};

    clients_init(&c, SLOW_KINDS * n, port);
    clients_init(&a.one, 1, port);
    for (int i = 0; i < c.n; i++) {
        c.all[i].kind = i % SLOW_KINDS;
        open_slow(&c, i);
    }
    while (seconds_since(begin_ns) < seconds) {
        clients_wait(&c, 1, slow_ended);
        ask(&a);
        if (clock_ns() < trickle_ns)
            continue;
        trickle(&c);
        trickle_ns = clock_ns() + 20000000;
    }
    printf("{\"slow_of_each\":%d,\"seconds\":%.2f,\"asked\":%zu,\"asked_bad\":%zu,"
           "\"health_ms_p50\":%.2f,\"health_ms_p99\":%.2f,\"health_ms_max\":%.2f,"
           "\"ended_heads\":%lld,\"ended_bodies\":%lld,\"ended_readers\":%lld}\n",
           n, seconds_since(begin_ns), a.n, a.n_bad, percentile(a.ms, a.n, 0.5),
           percentile(a.ms, a.n, 0.99), percentile(a.ms, a.n, 1),
           (long long)n_slow_ended[SLOW_HEAD], (long long)n_slow_ended[SLOW_BODY],
           (long long)n_slow_ended[SLOW_READ]);
    clients_release(&c);
    clients_release(&a.one);
    free(a.ms);
    return 0;
}

/* ---- disconnects ---- */

static struct {
    int n, n_opened, n_ended_first, n_by_point[4];
    int64_t n_letters;
    uint64_t leave_ns;
} leave;

/* Leaves in the head, in the body, at a random moment after the whole request, or with the
 * answer. */
static void open_leaver(struct clients *c, int index)
{
    uint64_t i = (uint64_t)leave.n_opened++;
    int point = (int)(rng_bits(7, i, 0) % 8);
    size_t n_bytes, head, n_tokens = 4 + rng_bits(7, i, 1) % 60;
    char *request = chat_request((int)n_tokens, rng_bits(7, i, 2) % 4 != 0, "Say it.", &n_bytes);
    struct client *k = &c->all[index];

    head = (size_t)(strstr(request, "\r\n\r\n") - request) + 4;
    client_open(c, index, request, n_bytes);
    if (point == 0)
        k->n_allowed = rng_bits(7, i, 3) % head;
    if (point == 1)
        k->n_allowed = head + rng_bits(7, i, 3) % (n_bytes - head);
    k->due_ns = clock_ns() + rng_bits(7, i, 4) % leave.leave_ns;
    leave.n_by_point[point < 3 ? point : 3]++;
    k->kind = (int)(rng_bits(7, i, 5) % 2);
}

static void leaver_ended(struct clients *c, struct client *k)
{
    leave.n_ended_first++;
    leave.n_letters += k->n_letters;
    if (leave.n_opened < leave.n)
        open_leaver(c, (int)(k - c->all));
}

static void leave_due(struct clients *c)
{
    uint64_t now_ns = clock_ns();

    for (int i = 0; i < c->n; i++) {
        struct client *k = &c->all[i];

        if (k->fd < 0 || now_ns < k->due_ns)
            continue;
        leave.n_letters += k->n_letters;
        client_close(c, k, k->kind == 0);
        if (leave.n_opened < leave.n)
            open_leaver(c, i);
    }
}

static int run_disconnects(int port, char **argv)
{
    int n_at_once = atoi(argv[1]);
    uint64_t begin_ns = clock_ns();
    struct clients c;

    leave.n = atoi(argv[0]);
    leave.leave_ns = (uint64_t)atoi(argv[2]) * 1000000;
    clients_init(&c, n_at_once, port);
    for (int i = 0; i < n_at_once && leave.n_opened < leave.n; i++)
        open_leaver(&c, i);
    while (c.n_open > 0) {
        clients_wait(&c, 1, leaver_ended);
        leave_due(&c);
    }
    printf("{\"clients\":%d,\"left_in_head\":%d,\"left_in_body\":%d,\"left_later\":%d,"
           "\"answered_before\":%d,\"letters\":%lld,\"seconds\":%.2f}\n",
           leave.n_opened, leave.n_by_point[0], leave.n_by_point[1],
           leave.n_by_point[2] + leave.n_by_point[3], leave.n_ended_first,
           (long long)leave.n_letters, seconds_since(begin_ns));
    clients_release(&c);
    return 0;
}

/* ---- the command line ---- */

static const struct scenario {
    const char *name;
    int n_words;
    int (*run)(int port, char **argv);
} SCENARIOS[] = {
    {"streams", 3, run_streams},         {"overload", 3, run_overload}, {"slow", 2, run_slow},
    {"disconnects", 3, run_disconnects}, {"hostile", 3, run_hostile},   {"good", 2, run_good},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 2 && i < sizeof SCENARIOS / sizeof SCENARIOS[0]; i++)
        if (strcmp(argv[1], SCENARIOS[i].name) == 0 && argc == 3 + SCENARIOS[i].n_words)
            return SCENARIOS[i].run(atoi(argv[2]), argv + 3);
    fprintf(stderr, "usage: see tests/load/burden.c\n");
    return 2;
}
