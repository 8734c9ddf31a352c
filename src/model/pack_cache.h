/* Cache of packed weights: a file that is written after the first start and mapped by later ones.
 * There is one file for each checkpoint, set of MXFP4 layers and device layout. A file that does
 * not match in every respect is replaced. */
#ifndef MODEL_PACK_CACHE_H
#define MODEL_PACK_CACHE_H

#include "backend/backend.h"
#include "base/file.h"
#include "model/weights.h"

struct pack_slot {
    const struct tensor *host; /* the bound weight; its address is the key of a lookup */
    size_t size_bytes;         /* of the packed weight */
    const void *data;          /* in the mapping, or in the device's memory until it is written */
};

struct pack_cache {
    char *path; /* NULL: the cache is off */
    char *key;  /* identifies the contents; the file must have the same key */
    struct pack_slot *slots;
    size_t n_slots;
    bool is_mapped; /* all slots have data from the file */
    struct file_map map;
};

struct pack_cache_options {
    const char *folder; /* "on": osprey/ in the user's cache folder; NULL, "" or "off": no cache */
    unsigned mxfp4_layers; /* BF16 layers to quantize to MXFP4 on load */
    const struct backend_ops *ops;
    struct backend *be;
};

/* Opens the file of these weights; sets is_mapped if it exists and is valid. A damaged file is a
 * warning. So is a file or folder that other users can write (base/trusted.h): then the cache is
 * not read, and with such a folder not written either. */
CHECKED enum osp_status pack_cache_open(struct pack_cache *out, struct weights *w,
                                        const struct checkpoint *c,
                                        const struct pack_cache_options *opt);

/* With a mapped cache: sets *out to the packed tensor; false if the host tensor is not in the
 * cache. */
bool pack_cache_get(const struct pack_cache *cache, const struct tensor *host, struct tensor *out);
/* Without a mapped cache: records a tensor that the device packed. */
void pack_cache_add(struct pack_cache *cache, const struct tensor *host, const struct tensor *out);
/* Writes all recorded tensors or nothing. An error is only a warning, because opening the model
 * must not fail for it. Does nothing if the cache is mapped or off. */
void pack_cache_save(struct pack_cache *cache);

void pack_cache_close(struct pack_cache *cache); /* accepts a zeroed one */

#endif
