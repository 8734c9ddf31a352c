/* Who a request that generates is from, in the engine's terms: whose share of the engine it
 * takes, and whose prefix cache it sees. The share belongs to the API key; without keys to the
 * client's address, since connections, and names in the field `user`, cost nothing. What the
 * request says itself, `user`, `priority` and `cache_salt`, counts within that share and that
 * cache only. */
#ifndef SERVE_CORE_CALLER_H
#define SERVE_CORE_CALLER_H

#include "serve/http/http.h"
#include "serve/fields/request_params.h"
#include "serve/http/keys.h"

enum { CALLER_BYTES = 64 };

struct caller {
    int key_index; /* -1: there are no keys */
    char client[CALLER_BYTES];
};

/* On the loop: of the exchange's key and address. */
void caller_init(struct caller *c, const struct http_exchange *x);
/* Sets the client and the cache's salt in params->options, whose text params and `c` own. `keys`
 * has salts if the prefix cache is not shared. */
void caller_apply(const struct caller *c, const struct keys *keys, struct request_params *params);

#endif
