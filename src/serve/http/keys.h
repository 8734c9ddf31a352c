/* The API keys that clients may send: of --api-key and of a file. Filled once, then read. */
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
    char (*salts)[KEY_SALT_BYTES]; /* (n) owned; NULL: there are none */
    int n;
};

/* Adds the keys of a list with commas. OSP_EINVAL: one is empty, too long, or has what no header
 * field can carry: anything but visible ASCII. */
CHECKED enum osp_status keys_add_list(struct keys *k, const char *list);
/* Adds those of a file, one a line; empty lines and those that begin with # are none. A file
 * without a key is OSP_EINVAL: it would leave the server open. */
CHECKED enum osp_status keys_add_file(struct keys *k, const char *path);
/* Gives each key a salt for the prefix cache, random and of this process, when all keys are
 * there. */
void keys_make_salts(struct keys *k);
void keys_release(struct keys *k); /* accepts a zeroed one */

/* Index of `given` among them, or -1. The time this takes depends on the length of `given` and
 * on how many keys of which lengths there are, not on their contents. */
int keys_find(const struct keys *k, const char *given);

#endif
