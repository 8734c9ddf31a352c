/* The client of a connection: its address and network. */
#include <string.h>

#include "serve/http/http_conn.h"

enum { IP6_BYTES = 16, IP6_NETWORK_BYTES = 8 /* 64 bits; a host chooses the other bits itself */ };

static void name_ip6(struct sockaddr_in6 *a, char *out, size_t out_bytes)
{
    /* prefix of an IPv4-mapped address */
    static const unsigned char MAPPED[12] = {[10] = 0xff, [11] = 0xff};
    struct sockaddr_in ip4 = {.sin_family = AF_INET};

    if (memcmp(&a->sin6_addr, MAPPED, sizeof MAPPED) == 0) {
        memcpy(&ip4.sin_addr, (const char *)&a->sin6_addr + sizeof MAPPED, sizeof ip4.sin_addr);
        uv_ip4_name(&ip4, out, out_bytes);
        return;
    }
    memset((char *)&a->sin6_addr + IP6_NETWORK_BYTES, 0, IP6_BYTES - IP6_NETWORK_BYTES);
    uv_ip6_name(a, out, out_bytes);
}

void http_exchange_network(const struct http_exchange *x, char out[HTTP_ADDRESS_BYTES])
{
    struct sockaddr_storage address = {0};
    int n_bytes = sizeof address;

    out[0] = '\0';
    if (uv_tcp_getpeername(&x->conn->tcp, (struct sockaddr *)&address, &n_bytes) != 0)
        return;
    if (address.ss_family == AF_INET)
        uv_ip4_name((struct sockaddr_in *)&address, out, HTTP_ADDRESS_BYTES);
    else if (address.ss_family == AF_INET6)
        name_ip6((struct sockaddr_in6 *)&address, out, HTTP_ADDRESS_BYTES);
}
