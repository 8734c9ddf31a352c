/* Many clients of one server in one thread: non-blocking sockets in an epoll set, each with what
 * it has heard so far. What they do is said by the scenarios (burden.c). */
#ifndef LOAD_CLIENTS_H
#define LOAD_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MARKS = 3, HEAD_BYTES = 512 };

struct client {
    int fd;                              /* -1: closed */
    int kind;                            /* the scenario's */
    char *request;                       /* owned; NULL: nothing to send */
    size_t n_request, n_sent, n_allowed; /* of the request; may be sent by now */
    uint64_t begin_ns, head_ns, first_ns, last_ns, end_ns, due_ns;
    int status; /* of the response; 0: not heard yet */
    bool has_retry_after, is_done, has_error, is_broken, reads_nothing;
    int n_letters;
    char letter; /* the last one */
    int mark[MARKS];
    char head[HEAD_BYTES];
    size_t n_head;
};

struct clients {
    int epoll, port;
    struct client *all;
    int n, n_open;
    double *gaps; /* seconds between tokens, of all clients; a random part of them */
    size_t n_gaps, n_gaps_seen;
};

void clients_init(struct clients *c, int n, int port);
void clients_release(struct clients *c);
/* Begins to connect, from one of many loopback addresses, and will send the request, which it
 * takes. */
void client_open(struct clients *c, int index, char *request, size_t n_request);
void client_close(struct clients *c, struct client *k, bool with_reset);
/* Sends what is allowed. */
void client_send(struct clients *c, struct client *k);
/* Waits up to timeout_ms for data, reads it, and calls `ended` for clients whose connection has
 * ended. */
void clients_wait(struct clients *c, int timeout_ms,
                  void (*ended)(struct clients *c, struct client *k));

/* A chat completion that is streamed. Gives a string to free(). */
char *chat_request(int n_tokens, bool streams, const char *text, size_t *n_bytes);

/* Of n values, which it sorts. */
double percentile(double *values, size_t n, double share);

#endif
