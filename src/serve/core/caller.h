/* The caller of a generation request in the engine's terms: which client's share of the engine
 * the request uses, and which prefix cache it sees. The client is the API key; without keys it
 * is the network address, because a client can open any number of connections and choose any
 * `user`. The fields `user`, `priority` and `cache_salt` only act within the client's share and
 * cache. */
#ifndef SERVE_CORE_CALLER_H
#define SERVE_CORE_CALLER_H

#include "serve/http/http.h"
#include "serve/fields/request_params.h"
#include "serve/http/keys.h"

enum { CALLER_BYTES = 64 };

struct caller {
    int key_index; /* -1: the server has no keys */
    char client[CALLER_BYTES];
};

/* On the loop. Reads the key and the address of the exchange. */
void caller_init(struct caller *c, const struct http_exchange *x);
/* Sets `client` and `cache_salt` of params->options; params and `c` own their text. keys->salts
 * is not NULL if each key has its own prefix cache. */
void caller_apply(const struct caller *c, const struct keys *keys, struct request_params *params);

#endif
