/* The API keys of --api-key and --api-key-file. Written once, then only read. */
#ifndef SERVE_HTTP_KEYS_H
#define SERVE_HTTP_KEYS_H

#include <stdbool.h>

#include "base/status.h"

enum {
    KEYS_MAX = 1024,
    KEY_BYTES_MAX = 4096,
    KEYS_FILE_BYTES_MAX = 1 << 20,
    KEY_SALT_BYTES = 33 /* 128 random bits in hex, and a NUL */
};

struct keys {
    char **items;                  /* (n) owned */
    char (*salts)[KEY_SALT_BYTES]; /* (n) owned; NULL: the keys share one prefix cache */
    int n;
};

/* Adds the keys of a comma-separated list. OSP_EINVAL: a key is empty, too long, or has a
 * character other than visible ASCII, which a header field cannot contain. */
CHECKED enum osp_status keys_add_list(struct keys *k, const char *list);
/* Adds the keys of a file, one per line; empty lines and lines that begin with # are skipped. A
 * file without a key is OSP_EINVAL, because the server would then accept requests without a key. */
CHECKED enum osp_status keys_add_file(struct keys *k, const char *path);
/* Makes a random salt for each key, which separates its prefix cache; call it after all keys
 * were added. Salts last as long as the process. */
void keys_make_salts(struct keys *k);
void keys_release(struct keys *k); /* accepts zeroed keys */

/* Index of the key `given`, or -1. The time depends on the length of `given` and on the number
 * and lengths of the keys, not on their contents. */
int keys_find(const struct keys *k, const char *given);

#endif
