/* Hashes of the prefix cache's table, and look-ups that both of its files need. */
#ifndef ENGINE_SCHED_PREFIX_HASH_H
#define ENGINE_SCHED_PREFIX_HASH_H

#include "engine/sched/prefix.h"

uint64_t prefix_hash_salt(const char *salt);
/* Of the next page, with n tokens, after the page (or salt) with the hash `parent`. */
uint64_t prefix_hash_next(uint64_t parent, const int32_t *tokens, int n);
/* The same for a child of `parent`. */
uint64_t prefix_hash_tokens(const struct prefix_node *parent, const int32_t *tokens, int n);
struct prefix_node *prefix_find_root(const struct prefix *p, const char *salt, uint64_t hash);

#endif
