/* FNV-1a, 64 bits: short names for things. Not collision-resistant against an attacker. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_INIT UINT64_C(0xcbf29ce484222325)

/* Continues from `hash`, which starts as HASH_INIT. */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t n_bytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
