#include "base/sd_notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

/* A path, or an abstract address that is written with @ for its leading NUL. Returns the address's
 * size in bytes, 0 if the text is neither. */
static socklen_t read_address(struct sockaddr_un *out, const char *text)
{
    const size_t n = strlen(text);

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((text[0] != '/' && text[0] != '@') || n < 2 || n >= sizeof out->sun_path)
        return 0;
    memcpy(out->sun_path, text, n);
    if (text[0] == '@')
        out->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (text[0] == '/'));
}

static int connect_to(const char *text)
{
    struct sockaddr_un address;
    socklen_t n_bytes = read_address(&address, text);
    int fd;

    if (n_bytes == 0) {
        log_warn("NOTIFY_SOCKET=%s: expected an absolute path or @name of at most %zu bytes; the "
                 "service manager is not notified",
                 text, sizeof address.sun_path - 1);
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, n_bytes) == 0)
        return fd;
    log_warn("NOTIFY_SOCKET=%s: cannot connect: %s; the service manager is not notified", text,
             strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* WATCHDOG_PID names the process that the manager watches; without it any process is meant. */
static uint64_t read_watchdog(void)
{
    const char *pid = getenv("WATCHDOG_PID"), *usec = getenv("WATCHDOG_USEC");

    if (!usec || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    return usec[0] == '-' ? 0 : strtoull(usec, NULL, 10);
}

void sd_notify_open(struct sd_notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");

    *n = (struct sd_notify){.fd = path && path[0] ? connect_to(path) : -1};
    if (n->fd >= 0)
        n->watchdog_us = read_watchdog();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
}

void sd_notify_close(struct sd_notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

bool sd_notify_is_open(const struct sd_notify *n)
{
    return n->fd >= 0;
}

bool sd_notify_send(struct sd_notify *n, const char *assignments)
{
    if (n->fd < 0 || send(n->fd, assignments, strlen(assignments), MSG_NOSIGNAL) >= 0)
        return true;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS)
        return false;
    log_warn("the service manager's socket has failed: %s; it is not notified any more",
             strerror(errno));
    sd_notify_close(n);
    return true;
}
