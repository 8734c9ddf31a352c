#include "base/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

int tcp_listen(const struct sockaddr *address, socklen_t n_bytes, int backlog)
{
    const int on = 1, off = 0;
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0)
        return -1;
    if (address->sa_family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address, n_bytes) == 0 && listen(fd, backlog) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

int tcp_port(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;

    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 0;
    if (a.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return a.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&a)->sin_port) : 0;
}
