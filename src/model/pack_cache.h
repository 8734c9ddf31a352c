/* Packed weights kept in a file between starts, and mapped back: one file for a checkpoint, a
 * choice of MXFP4 layers and a device's layout. A file that does not fit in every respect is
 * made anew. */
#ifndef MODEL_PACK_CACHE_H
#define MODEL_PACK_CACHE_H

#include "backend/backend.h"
#include "base/file.h"
#include "model/weights.h"

struct pack_slot {
    const struct tensor *host; /* of the bound weights, by whose address it is found */
    size_t size_bytes;         /* packed */
    const void *data;          /* in the mapping, or in the device's memory to be written */
};

struct pack_cache {
    char *path; /* NULL: there is none */
    char *key;  /* what the file must say that it is */
    struct pack_slot *slots;
    size_t n_slots;
    bool is_mapped; /* all slots have their data */
    struct file_map map;
};

struct pack_cache_options {
    const char *folder;    /* "on": osprey/ in the user's cache folder; NULL, "" or "off": none */
    unsigned mxfp4_layers; /* BF16 layers that become MXFP4 on load */
    const struct backend_ops *ops;
    struct backend *be;
};

/* Looks for the file. When it is there and whole, is_mapped is set. A broken one is a warning,
 * and so is a file or folder that others can write (base/trusted.h): then none is read, and in
 * such a folder none is kept. */
CHECKED enum osp_status pack_cache_open(struct pack_cache *out, struct weights *w,
                                        const struct checkpoint *c,
                                        const struct pack_cache_options *opt);

/* With a mapped cache: gives the packed tensor, or false when the host's is not in it. */
bool pack_cache_get(const struct pack_cache *cache, const struct tensor *host, struct tensor *out);
/* Without: notes what the device made. */
void pack_cache_add(struct pack_cache *cache, const struct tensor *host, const struct tensor *out);
/* Writes what was noted, all at once or not at all; trouble is a warning, for a start must not
 * fail by it. Nothing to do when mapped or without a cache. */
void pack_cache_save(struct pack_cache *cache);

void pack_cache_close(struct pack_cache *cache); /* accepts a zeroed one */

#endif
