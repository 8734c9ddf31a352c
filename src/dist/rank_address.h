/* Where rank 0 waits for the others: "HOST:PORT" for TCP, or "@NAME", a Unix socket without a file,
 * for ranks of one host. */
#ifndef DIST_RANK_ADDRESS_H
#define DIST_RANK_ADDRESS_H

#include <stdbool.h>

#include "base/status.h"

enum { RANK_ADDRESS_BYTES = 300 };

/* Listens at the address; `actual` gets it with the port that was chosen where PORT is 0. */
CHECKED enum osp_status rank_listen(int *out, const char *address, char actual[RANK_ADDRESS_BYTES]);
/* Listens at the address of this end of a connection by TCP, and a free port. */
CHECKED enum osp_status rank_listen_beside(int *out, int *port, int connection);
/* Whether only programs of this host reach a listener. */
bool rank_is_local(int listener);
/* Tries until it connects or the time is over: rank 0 may start later. The other end of a Unix
 * socket must belong to this user, here and in rank_accept(): anyone may take its name. */
CHECKED enum osp_status rank_connect(int *out, const char *address, int timeout_ms);
/* OSP_ETIMEOUT: there was no connection. */
CHECKED enum osp_status rank_accept(int *out, int listener, int timeout_ms);
/* The numeric address of the other end, for a connection by TCP: "10.0.0.2". "" for others. */
void rank_peer_host(int fd, char out[64]);

#endif
