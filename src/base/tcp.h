/* Listening TCP sockets, by system calls. */
#ifndef BASE_TCP_H
#define BASE_TCP_H

#include <sys/socket.h>

/* A listening socket at the address, which may also be one of a Unix socket; -1: errno says why.
 * It does not block: a connection can be gone again between poll() and accept(). An IPv6 address
 * of all interfaces also takes connections by IPv4. */
int tcp_listen(const struct sockaddr *address, socklen_t n_bytes, int backlog);

/* The port of this end of a socket; 0: it has none. */
int tcp_port(int fd);

#endif
