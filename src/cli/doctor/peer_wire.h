/* The exchange of `osprey doctor --peer` with `osprey doctor --listen` over TCP. A connection
 * begins with one struct peer_hello in each direction, and then measures one thing. */
#ifndef CLI_DOCTOR_PEER_WIRE_H
#define CLI_DOCTOR_PEER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PEER_PORT_DEFAULT = 8474,
    PEER_TIMEOUT_MS = 5000,       /* of one connect, send or receive */
    PEER_CONNECTION_MS = 30000,   /* the listener ends a connection after that */
    PEER_MESSAGE_BYTES = 64,      /* of the latency: a short message of the ranks */
    PEER_BLOCK_BYTES = 256 << 10, /* of the bandwidth: one send() */
    PEER_VERSION_BYTES = 40
};

enum peer_mode {
    PEER_ECHO = 'e',  /* the listener returns every message of PEER_MESSAGE_BYTES */
    PEER_SINK = 's',  /* the listener reads to the end, then sends the number of bytes, 8 bytes in
                        network order */
    PEER_SOURCE = 'r' /* the listener sends until the connection is closed */
};

struct peer_hello {
    char magic[16];                       /* PEER_MAGIC */
    char mode;                            /* enum peer_mode; in the answer the same */
    char version[PEER_VERSION_BYTES - 1]; /* of osprey, with a NUL */
};
#define PEER_MAGIC "osprey-doctor 1"

void peer_hello_fill(struct peer_hello *out, enum peer_mode mode);
/* OSP_EFORMAT: it is not the greeting of a doctor. Ends the version with a NUL. */
CHECKED enum osp_status peer_hello_check(struct peer_hello *hello);

/* A connection. */
struct peer {
    int fd;
    uint64_t deadline_ns; /* of clock_ns(), for all that is sent and received */
};

/* All of the bytes. OSP_ETIMEOUT: nothing came or went for PEER_TIMEOUT_MS, or the deadline is
 * over; OSP_EUNAVAILABLE: the other end has closed. */
CHECKED enum osp_status peer_send(const struct peer *p, const void *data, size_t n_bytes);
CHECKED enum osp_status peer_receive(const struct peer *p, void *data, size_t n_bytes);
/* Sets PEER_TIMEOUT_MS for each call of the system, and no delay of short messages. */
void peer_set_limits(int fd);

/* Serves connections until `stop`, a descriptor, is readable (-1: never). Prints where it listens
 * to standard output. host NULL: all addresses of this host. */
CHECKED enum osp_status peer_listen(const char *host, int port, int stop);

#endif
