#include "serve/http/origin.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/printable.h"

enum { HOST_BYTES_MAX = 256, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* ---- names ---- */

static bool is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), n_suffix = strlen(suffix);

    return n > n_suffix && strcasecmp(name + n - n_suffix, suffix) == 0;
}

static bool is_localhost(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || ends_with(name, ".localhost");
}

static bool is_loopback(const char *name)
{
    struct in6_addr ip6;
    struct in_addr ip4;

    if (inet_pton(AF_INET, name, &ip4) == 1)
        return ntohl(ip4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, name, &ip6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&ip6) || (IN6_IS_ADDR_V4MAPPED(&ip6) && ip6.s6_addr[12] == 127);
    return is_localhost(name);
}

/* A name that no public DNS zone contains: browsers resolve it to this machine or the local
 * network. */
static bool is_local_name(const char *name)
{
    static const char LETTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    if (name[strspn(name, LETTERS)] != '\0')
        return false;
    return strchr(name, '.') == NULL || is_localhost(name) || ends_with(name, ".local") ||
           ends_with(name, ".internal");
}

/* ---- the list ---- */

/* The next item of a list "a,b" or, in the form of vLLM, ["a", "b"]. False: end of the list. */
static bool next_item(const char **list, const char **item, size_t *n_bytes)
{
    static const char BETWEEN[] = ",[]\" ";

    if (!*list)
        return false;
    *item = *list + strspn(*list, BETWEEN);
    *n_bytes = strcspn(*item, BETWEEN);
    *list = *item + *n_bytes;
    return *n_bytes > 0;
}

enum osp_status origins_check(const char *list)
{
    const char *item;
    size_t n;

    while (next_item(&list, &item, &n)) {
        const char *host = memmem(item, n, "://", 3);

        host = host ? host + 3 : item;
        if (host == item + n || memchr(host, '/', n - (size_t)(host - item)))
            return fail(OSP_EINVAL,
                        "--allowed-origins: \"%.*s\" is not an origin; expected scheme://host or "
                        "scheme://host:port without a slash at the end, such as "
                        "https://chat.example.com, or *",
                        (int)(n < HOST_BYTES_MAX ? n : HOST_BYTES_MAX), item);
    }
    return OSP_OK;
}

static bool in_list(const char *list, const char *origin)
{
    const char *item;
    size_t n;

    while (next_item(&list, &item, &n))
        if ((n == 1 && *item == '*') || (n == strlen(origin) && strncasecmp(item, origin, n) == 0))
            return true;
    return false;
}

/* Whether the list has an origin with this host, or * (pages of any name may call). */
static bool host_in_list(const char *list, const char *host)
{
    char authority[HOST_BYTES_MAX], name[HOST_BYTES_MAX];
    const char *item;
    size_t n;

    while (next_item(&list, &item, &n)) {
        const char *begin = memmem(item, n, "://", 3);

        if (n == 1 && *item == '*')
            return true;
        begin = begin ? begin + 3 : item;
        n -= (size_t)(begin - item);
        if (n == 0 || n >= sizeof authority)
            continue;
        memcpy(authority, begin, n);
        authority[n] = '\0';
        if (http_host_name(authority, name, sizeof name) && strcasecmp(name, host) == 0)
            return true;
    }
    return false;
}

/* ---- Host ----
 *
 * DNS rebinding: an attacker's page has a public name with dots, and the attacker's DNS server lets
 * that name resolve to 127.0.0.1 a moment later. The browser then treats this server as the page's
 * own origin, and only the Host field still has the attacker's name. So a public name is refused
 * unless the operator listed it. Names that no public zone contains are safe to accept. */

static const char *host_of(const struct http_request *r)
{
    return r->authority ? r->authority : r->fields[HTTP_HOST];
}

static bool host_allowed(const struct origin_rule *rule, const struct http_request *r)
{
    const char *host = host_of(r);
    char name[HOST_BYTES_MAX];

    if (!rule->checks_host || (!host && r->http_1_0))
        return true;
    if (!host || !http_host_name(host, name, sizeof name))
        return false;
    return is_address(name) || is_local_name(name) || strcasecmp(name, rule->bind_host) == 0 ||
           host_in_list(rule->allowed_origins, name);
}

/* ---- Origin ---- */

/* The port of "name", "name:port" or "[address]:port", which http_host_name() has checked. */
static int port_of(const char *authority, int otherwise)
{
    const char *colon = strrchr(authority, ':');

    if (!colon || strchr(colon, ']') || colon[1] == '\0')
        return otherwise;
    return atoi(colon + 1);
}

/* Whether origin and host are equal: a page from this server, perhaps through a proxy that adds
 * TLS. A missing port is the default port of the scheme. */
static bool is_same_origin(const char *origin, const char *host)
{
    const bool is_https = strncasecmp(origin, "https://", 8) == 0;
    const int port = is_https ? HTTPS_PORT : HTTP_PORT;
    char name[HOST_BYTES_MAX], host_name[HOST_BYTES_MAX];
    const char *authority;

    if (!host || (!is_https && strncasecmp(origin, "http://", 7) != 0))
        return false;
    authority = strstr(origin, "://") + 3;
    return http_host_name(authority, name, sizeof name) &&
           http_host_name(host, host_name, sizeof host_name) && strcasecmp(name, host_name) == 0 &&
           port_of(authority, port) == port_of(host, port);
}

static bool is_loopback_origin(const char *origin)
{
    const char *authority = strstr(origin, "://");
    char name[HOST_BYTES_MAX];

    return authority && http_host_name(authority + 3, name, sizeof name) && is_loopback(name);
}

static bool origin_allowed(const struct origin_rule *rule, const struct http_request *r)
{
    const char *origin = r->fields[HTTP_ORIGIN];
    const char *site = r->fields[HTTP_SEC_FETCH_SITE];

    if (!origin)
        return !site || strcasecmp(site, "cross-site") != 0 || in_list(rule->allowed_origins, "*");
    return in_list(rule->allowed_origins, origin) || is_loopback_origin(origin) ||
           is_same_origin(origin, host_of(r));
}

static void explain_host(const char *host, char *why, size_t why_bytes)
{
    char name[HOST_BYTES_MAX];

    if (!host || !http_host_name(host, name, sizeof name))
        snprintf(why, why_bytes,
                 "the Host field is missing or empty, or its name has more than %d bytes; send "
                 "Host: localhost or the server's IP address",
                 HOST_BYTES_MAX - 1);
    else
        snprintf(
            why, why_bytes,
            "Host: %s is refused: it must be localhost, an IP address, a name without dots, or "
            "end in .localhost, .local or .internal, because a web page can let a public name "
            "resolve to this server (DNS rebinding); if the name is yours, start the server "
            "with --allowed-origins https://%s, or let the reverse proxy send its own Host, "
            "such as localhost",
            name, name);
}

static void explain_origin(const char *origin, char *why, size_t why_bytes)
{
    char text[HOST_BYTES_MAX];

    if (!origin) {
        snprintf(why, why_bytes,
                 "the request comes from a web page of another site (Sec-Fetch-Site: cross-site) "
                 "and has no Origin; --allowed-origins '*' allows such requests of all sites");
        return;
    }
    (void)printable(text, sizeof text, origin, strlen(origin));
    snprintf(why, why_bytes,
             "Origin: %s is refused: web pages of other sites may not call this server; if the "
             "page is yours, start the server with --allowed-origins %s",
             text, text);
}

bool origin_admits(const struct origin_rule *rule, const struct http_request *r, char *why,
                   size_t why_bytes)
{
    if (!host_allowed(rule, r)) {
        explain_host(host_of(r), why, why_bytes);
        return false;
    }
    if (!rule->is_page && !origin_allowed(rule, r)) {
        explain_origin(r->fields[HTTP_ORIGIN], why, why_bytes);
        return false;
    }
    return true;
}
