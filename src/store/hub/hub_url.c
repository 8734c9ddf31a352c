#include "store/hub/hub_url.h"

#include <string.h>

#include "base/memory.h"

#define UNRESERVED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"

void hub_url_add(struct buf *url, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(UNRESERVED, *c) != NULL)
            buf_putc(url, *c);
        else
            buf_printf(url, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

char *hub_url_shown(const char *url)
{
    return mem_strndup(url, strcspn(url, "?#"));
}
