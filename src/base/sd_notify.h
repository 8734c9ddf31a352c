/* The notification protocol of systemd, sd_notify(3): datagrams of VARIABLE=VALUE lines to the
 * socket that the environment names. Without such a socket nothing is sent. Not for socket
 * activation or stored file descriptors. */
#ifndef BASE_SD_NOTIFY_H
#define BASE_SD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct sd_notify {
    int fd;               /* connected; -1: no service manager listens */
    uint64_t watchdog_us; /* WATCHDOG=1 is expected within this time; 0: never */
};

/* Connects to $NOTIFY_SOCKET and reads $WATCHDOG_USEC. Removes these variables, so that child
 * processes do not speak for this one; call it before other threads read the environment. A socket
 * that cannot be used is logged as a warning. */
void sd_notify_open(struct sd_notify *n);
void sd_notify_close(struct sd_notify *n);
bool sd_notify_is_open(const struct sd_notify *n);
/* Sends "READY=1" or the like. Never blocks: false if the socket's queue is full; send it again
 * later. */
bool sd_notify_send(struct sd_notify *n, const char *assignments);

#endif
