#include "engine/kv_events/kv_pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <msgpack/pack.h>

enum { BATCH_ITEMS = 3, STORED_MEMBERS = 11, REMOVED_MEMBERS = 4, SALT_BYTES = 17 };

/* Pages of sliding-window layers are not published: without the full layers' page nothing can be
 * reused. */
enum { GROUP_INDEX = 0 };
static const char GROUP_KIND[] = "full_attention", MEDIUM[] = "GPU"; /* where the engine computes */

static int append(void *out, const char *data, size_t n_bytes)
{
    buf_append(out, data, n_bytes);
    return 0;
}

static void put_text(msgpack_packer *p, const char *text)
{
    msgpack_pack_str(p, strlen(text));
    msgpack_pack_str_body(p, text, strlen(text));
}

static void put_map(msgpack_packer *p, size_t n, const char *type)
{
    msgpack_pack_map(p, n);
    put_text(p, "type");
    put_text(p, type);
}

static void put_hashes(msgpack_packer *p, const struct prefix_change *c, size_t n)
{
    put_text(p, "block_hashes");
    msgpack_pack_array(p, n);
    for (size_t i = 0; i < n; i++)
        msgpack_pack_uint64(p, c[i].hash);
}

static void put_tokens(msgpack_packer *p, const struct prefix_change *c, size_t n)
{
    put_text(p, "token_ids");
    msgpack_pack_array(p, n * PAGE_TOKENS);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < PAGE_TOKENS; k++)
            msgpack_pack_int32(p, c[i].tokens[k]);
}

/* For each page null, or what its hash depends on besides the tokens: for the first page of a
 * salted sequence, the hash of the salt. The salt itself is secret. */
static void put_extra_keys(msgpack_packer *p, const struct prefix_change *c, size_t n)
{
    char salt[SALT_BYTES];

    put_text(p, "extra_keys");
    msgpack_pack_array(p, n);
    for (size_t i = 0; i < n; i++) {
        if (c[i].salt == 0) {
            msgpack_pack_nil(p);
            continue;
        }
        snprintf(salt, sizeof salt, "%016" PRIx64, c[i].salt);
        msgpack_pack_array(p, 1);
        put_text(p, salt);
    }
}

static void put_stored(msgpack_packer *p, const struct prefix_change *c, size_t n)
{
    put_map(p, STORED_MEMBERS, "BlockStored");
    put_hashes(p, c, n);
    put_text(p, "parent_block_hash");
    if (c->is_first)
        msgpack_pack_nil(p);
    else
        msgpack_pack_uint64(p, c->parent);
    put_tokens(p, c, n);
    put_text(p, "block_size");
    msgpack_pack_int(p, PAGE_TOKENS);
    put_text(p, "lora_id");
    msgpack_pack_nil(p);
    put_text(p, "medium");
    put_text(p, MEDIUM);
    put_text(p, "lora_name");
    msgpack_pack_nil(p);
    put_extra_keys(p, c, n);
    put_text(p, "group_idx");
    msgpack_pack_int(p, GROUP_INDEX);
    put_text(p, "kv_cache_spec_kind");
    put_text(p, GROUP_KIND);
}

static void put_removed(msgpack_packer *p, const struct prefix_change *c, size_t n)
{
    put_map(p, REMOVED_MEMBERS, "BlockRemoved");
    put_hashes(p, c, n);
    put_text(p, "medium");
    put_text(p, MEDIUM);
    put_text(p, "group_idx");
    msgpack_pack_int(p, GROUP_INDEX);
}

/* Changes from c on that become one event. */
static size_t run_length(const struct prefix_change *c, size_t n_left)
{
    size_t n = 1;

    while (n < n_left && c[n].kind == c->kind &&
           (c->kind == PREFIX_REMOVED || (!c[n].is_first && c[n].parent == c[n - 1].hash)))
        n++;
    return n;
}

static size_t count_events(const struct kv_batch *b)
{
    size_t n = b->is_cleared;

    for (size_t i = 0; i < b->n_changes; n++)
        i += run_length(b->changes + i, b->n_changes - i);
    return n;
}

void kv_pack(struct buf *out, const struct kv_batch *b)
{
    msgpack_packer p;
    size_t n;

    msgpack_packer_init(&p, out, append);
    msgpack_pack_array(&p, BATCH_ITEMS);
    msgpack_pack_double(&p, b->unix_seconds);
    msgpack_pack_array(&p, count_events(b));
    if (b->is_cleared)
        put_map(&p, 1, "AllBlocksCleared");
    for (size_t i = 0; i < b->n_changes; i += n) {
        const struct prefix_change *c = b->changes + i;

        n = run_length(c, b->n_changes - i);
        if (c->kind == PREFIX_STORED)
            put_stored(&p, c, n);
        else
            put_removed(&p, c, n);
    }
    msgpack_pack_int(&p, b->data_parallel_rank);
}
