/* Decides which weights a device packs, under which key their packed form is cached, and in which
 * file. */
#include "model/pack_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trusted.h"
#include "model/pack_file.h"
#include "model/quantize.h"
#include "model/weight_table.h"

enum {
    KEY_BYTES_MAX = 1 << 20,
    CONFIG_BYTES_MAX = 1 << 20,
    FOLDER_MODE = 0700 /* others must not write to it, whatever the umask */
};

/* ---- what is packed ---- */

struct slot_list {
    struct pack_cache *cache;
    const struct pack_cache_options *opt;
};

/* The slot as it will be after loading: a layer that becomes MXFP4 counts as MXFP4. */
static enum osp_status list_slot(void *ctx, const struct weight_rule *rule, int layer,
                                 struct tensor *slot)
{
    const struct slot_list *l = ctx;
    struct tensor later = *slot;
    int64_t n_bytes;

    (void)layer;
    if (weight_rule_mxfp4_layer(rule) & l->opt->mxfp4_layers) {
        later.dtype = DTYPE_MXFP4;
        later.layout = LAYOUT_ROWS;
    }
    n_bytes = l->opt->ops->pack_bytes(l->opt->be, &later);
    if (n_bytes > 0)
        l->cache->slots[l->cache->n_slots++] =
            (struct pack_slot){.host = slot, .size_bytes = (size_t)n_bytes};
    return OSP_OK;
}

static enum osp_status list_slots(struct pack_cache *out, struct weights *w,
                                  const struct checkpoint *c, const struct pack_cache_options *opt)
{
    struct slot_list list = {.cache = out, .opt = opt};
    enum osp_status st;

    TRY(mem_try_array(&out->slots, weight_slots_max(&c->config), sizeof *out->slots,
                      "packed weights"));
    TRY(weights_visit(w, &c->config, list_slot, &list));
out:
    return st;
}

/* ---- key and place ---- */

/* Identifies a checkpoint file by its size, its time and a hash of its header, and not by its
 * path. */
static enum osp_status key_of_file(struct buf *key, const struct st_file *f)
{
    const size_t n_header = f->size_bytes - f->data_bytes;
    struct stat info;

    if (stat(f->path, &info) != 0)
        return fail(OSP_EIO, "%s: cannot read file status: %s", f->path, strerror(errno));
    buf_printf(key, "file %zu bytes, time %lld.%09ld, header %016" PRIx64 "\n", f->size_bytes,
               (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
               hash_bytes(HASH_INIT, f->map.data, n_header));
    return OSP_OK;
}

static enum osp_status key_of_config(struct buf *key, const struct checkpoint *c)
{
    char *path = path_join(c->path, "config.json"), *text = NULL;
    size_t n_bytes = 0;
    enum osp_status st = OSP_OK;

    if (c->config.layout == CHECKPOINT_GGUF) /* the config is part of the header */
        goto out;
    TRY(file_read(&text, &n_bytes, path, CONFIG_BYTES_MAX));
    buf_printf(key, "config %016" PRIx64 "\n", hash_bytes(HASH_INIT, text, n_bytes));
out:
    free(text);
    free(path);
    return st;
}

static enum osp_status make_key(struct pack_cache *out, const struct checkpoint *c,
                                const struct pack_cache_options *opt, const char *layout)
{
    char names[MXFP4_LAYERS_TEXT_BYTES];
    struct buf key;
    enum osp_status st;

    buf_init(&key, KEY_BYTES_MAX);
    buf_printf(&key, "layout %s\nmxfp4 %s\n", layout, mxfp4_layers_text(names, opt->mxfp4_layers));
    TRY(key_of_config(&key, c));
    for (int i = 0; i < c->n_files; i++)
        TRY(key_of_file(&key, &c->files[i]));
    if (key.overflow)
        st = fail(OSP_ELIMIT, "%s: cache of packed weights: too many checkpoint files for its key",
                  c->path);
    else
        out->key = buf_take(&key);
out:
    buf_release(&key);
    return st;
}

/* Makes the folder and its missing parents. */
static enum osp_status make_folders(const char *path)
{
    char *copy = mem_strdup(path);

    for (char *at = copy + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(copy, FOLDER_MODE);
            *at = '/';
        }
    (void)mkdir(copy, FOLDER_MODE);
    free(copy);
    return path_is_folder(path)
               ? OSP_OK
               : fail(OSP_EIO, "%s: cannot create the folder for packed weights: %s", path,
                      strerror(errno));
}

/* $XDG_CACHE_HOME/osprey, else ~/.cache/osprey. */
static char *users_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && cache[0] == '/')
        return path_join(cache, "osprey");
    return home && home[0] ? mem_printf("%s/.cache/osprey", home) : NULL;
}

static enum osp_status make_path(struct pack_cache *out, const char *folder)
{
    char *place = strcmp(folder, "on") == 0 ? users_folder() : mem_strdup(folder);
    enum osp_status st;

    if (!place)
        return fail(OSP_EINVAL, "cache of packed weights: neither XDG_CACHE_HOME nor HOME is "
                                "set; name a folder");
    TRY(make_folders(place));
    if (trusted_folder_check(place) != OSP_OK) {
        log_warn("cache of packed weights is not used: %s", fail_message());
        goto out;
    }
    out->path = mem_printf("%s/%016" PRIx64 ".pack", place,
                           hash_bytes(HASH_INIT, out->key, strlen(out->key)));
out:
    free(place);
    return st;
}

/* ---- open and close ---- */

static struct pack_piece *pieces_of(const struct pack_cache *c)
{
    struct pack_piece *pieces = mem_new((c->n_slots + 1) * sizeof *pieces);

    for (size_t i = 0; i < c->n_slots; i++)
        pieces[i] = (struct pack_piece){c->slots[i].data, c->slots[i].size_bytes};
    return pieces;
}

static void look(struct pack_cache *c)
{
    struct pack_piece *pieces = pieces_of(c);
    enum osp_status st = pack_file_read(&c->map, c->path, c->key, pieces, c->n_slots);

    for (size_t i = 0; st == OSP_OK && i < c->n_slots; i++)
        c->slots[i].data = pieces[i].data;
    c->is_mapped = st == OSP_OK;
    if (st != OSP_OK && st != OSP_ENOTFOUND)
        log_warn("%s; it will be replaced", fail_message());
    free(pieces);
}

static bool is_off(const char *folder)
{
    return folder == NULL || folder[0] == '\0' || strcmp(folder, "off") == 0;
}

enum osp_status pack_cache_open(struct pack_cache *out, struct weights *w,
                                const struct checkpoint *c, const struct pack_cache_options *opt)
{
    struct device_info info;
    enum osp_status st = OSP_OK;

    *out = (struct pack_cache){.path = NULL};
    if (is_off(opt->folder))
        return OSP_OK;
    opt->ops->info(opt->be, &info);
    if (info.pack_layout == NULL)
        return OSP_OK;
    TRY(list_slots(out, w, c, opt));
    if (out->n_slots == 0)
        return OSP_OK;
    TRY(make_key(out, c, opt, info.pack_layout));
    TRY(make_path(out, opt->folder));
    if (out->path)
        look(out);
out:
    return st;
}

static struct pack_slot *find(const struct pack_cache *c, const struct tensor *host)
{
    for (size_t i = 0; c->path && i < c->n_slots; i++)
        if (c->slots[i].host == host)
            return &c->slots[i];
    return NULL;
}

bool pack_cache_get(const struct pack_cache *cache, const struct tensor *host, struct tensor *out)
{
    const struct pack_slot *slot = cache->is_mapped ? find(cache, host) : NULL;

    if (!slot)
        return false;
    *out = *host;
    out->layout = LAYOUT_PACKED;
    out->data = (void *)(uintptr_t)slot->data; /* weights are never written */
    out->scales = NULL;
    return true;
}

void pack_cache_add(struct pack_cache *cache, const struct tensor *host, const struct tensor *out)
{
    struct pack_slot *slot = cache->is_mapped ? NULL : find(cache, host);

    if (slot && out->layout == LAYOUT_PACKED)
        slot->data = out->data;
}

void pack_cache_save(struct pack_cache *cache)
{
    struct pack_piece *pieces;

    if (!cache->path || cache->is_mapped)
        return;
    for (size_t i = 0; i < cache->n_slots; i++)
        if (!cache->slots[i].data) {
            log_warn("%s: not written: the device did not pack all weights", cache->path);
            return;
        }
    pieces = pieces_of(cache);
    if (pack_file_write(cache->path, cache->key, pieces, cache->n_slots) == OSP_OK)
        log_info("packed weights written to %s", cache->path);
    else
        log_warn("packed weights not written: %s", fail_message());
    free(pieces);
}

void pack_cache_close(struct pack_cache *cache)
{
    file_map_close(&cache->map);
    free(cache->slots);
    free(cache->path);
    free(cache->key);
    *cache = (struct pack_cache){.path = NULL};
}
