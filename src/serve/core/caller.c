#include "serve/core/caller.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

static_assert(KEY_SALT_BYTES - 1 + OSP_CLIENT_BYTES_MAX <= OSP_SALT_BYTES_MAX,
              "the salt of a key and of a request fit together");
static_assert(sizeof "address " + HTTP_ADDRESS_BYTES <= CALLER_BYTES, "an address fits");

void caller_init(struct caller *c, const struct http_exchange *x)
{
    char address[HTTP_ADDRESS_BYTES];

    c->key_index = http_exchange_request(x)->key_index;
    if (c->key_index >= 0) {
        snprintf(c->client, sizeof c->client, "key %d", c->key_index);
        return;
    }
    http_exchange_network(x, address);
    snprintf(c->client, sizeof c->client, "address %s", address);
}

/* The salt of a key is random, secret and of fixed length. So salts of two keys are never equal
 * texts, and a client cannot construct a salt with the hash of another key's salt. */
static void salt_by_key(const struct caller *c, const struct keys *keys,
                        struct request_params *params)
{
    char *salt =
        mem_printf("%s%s", keys->salts[c->key_index], params->salt != NULL ? params->salt : "");

    free(params->salt);
    params->salt = salt;
    params->options.cache_salt = salt;
}

void caller_apply(const struct caller *c, const struct keys *keys, struct request_params *params)
{
    params->options.client = c->client;
    if (keys->salts != NULL && c->key_index >= 0)
        salt_by_key(c, keys, params);
}
