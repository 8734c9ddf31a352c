/* URLs of the hub. */
#ifndef STORE_HUB_HUB_URL_H
#define STORE_HUB_HUB_URL_H

#include <stdbool.h>

#include "base/buf.h"
#include "store/hub/hub_headers.h"

/* Appends text with everything but unreserved characters and "/" percent-encoded. */
void hub_url_add(struct buf *url, const char *text);

/* A URL without its query, which may hold a signature: for messages. A string to free(). */
char *hub_url_shown(const char *url);

#endif
