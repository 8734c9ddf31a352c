#include "serve/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { HOST_BYTES_MAX = 256 };

static bool is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool means_this_machine(const struct origin_rule *rule, const char *name)
{
    return strcasecmp(name, "localhost") == 0 || is_address(name) ||
           strcasecmp(name, rule->bind_host) == 0;
}

static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static const char *host_of(const struct http_request *r)
{
    return r->authority ? r->authority : r->fields[HTTP_HOST];
}

static bool host_allowed(const struct origin_rule *rule, const struct http_request *r)
{
    const char *host = host_of(r);
    char name[HOST_BYTES_MAX];

    if (!is_loopback(rule->bind_host) || (!host && r->http_1_0))
        return true;
    return host && http_host_name(host, name, sizeof name) && means_this_machine(rule, name);
}

/* "a,b", and as vLLM writes it: ["a", "b"]. */
static bool in_list(const char *list, const char *word)
{
    size_t n_word = strlen(word);

    while (list && *list) {
        size_t n = strcspn(list, ",[]\" ");

        if ((n == 1 && *list == '*') || (n > 0 && n == n_word && strncasecmp(list, word, n) == 0))
            return true;
        list += n + (list[n] != '\0');
    }
    return false;
}

static bool origin_allowed(const struct origin_rule *rule, const struct http_request *r)
{
    const char *origin = r->fields[HTTP_ORIGIN];
    const char *site = r->fields[HTTP_SEC_FETCH_SITE];
    const char *authority, *host = host_of(r);
    char name[HOST_BYTES_MAX];

    if (!origin)
        return !site || strcasecmp(site, "cross-site") != 0 || in_list(rule->allowed_origins, "*");
    if (in_list(rule->allowed_origins, origin))
        return true;
    authority = strstr(origin, "://");
    if (!authority || !http_host_name(authority + 3, name, sizeof name))
        return false;
    return means_this_machine(rule, name) || (host && strcasecmp(authority + 3, host) == 0);
}

const char *origin_refusal(const struct origin_rule *rule, const struct http_request *r)
{
    if (!host_allowed(rule, r))
        return "this server answers on a loopback address for localhost and IP addresses only: the "
               "Host field names another host (start it with --host NAME to allow that)";
    if (!rule->is_page && !origin_allowed(rule, r))
        return "a web page of another site may not call this server (--allowed-origins names those "
               "that may)";
    return NULL;
}
