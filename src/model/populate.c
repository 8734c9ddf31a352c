/* Reads mapped weights into memory when a model is opened: those that every step uses in place,
 * mapped from the checkpoint or from the cache of packed weights. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/model.h"
#include "store/populate.h"

enum { LAYER_WEIGHTS = 6 };

int64_t weight_data_bytes(const struct tensor *t)
{
    return tensor_bytes(t) - (t->scales == NULL ? 0 : tensor_elements(t) / MXFP4_BLOCK);
}

static bool is_in(const struct file_map *map, const void *data)
{
    const uintptr_t begin = (uintptr_t)map->data, at = (uintptr_t)data;

    return map->data && at >= begin && at - begin < map->size_bytes;
}

static bool is_mapped(const struct model *m, const void *data)
{
    bool found = is_in(&m->pack_cache.map, data);

    for (int i = 0; !found && i < m->checkpoint.n_files; i++)
        found = is_in(&m->checkpoint.files[i].map, data);
    return found;
}

static void add(struct mapped_region *pieces, size_t *n, const struct model *m,
                const struct tensor *t)
{
    if (is_mapped(m, t->data))
        pieces[(*n)++] = (struct mapped_region){t->data, (size_t)weight_data_bytes(t)};
}

/* The embedding is excluded: its rows are read on demand. */
enum osp_status model_populate(const struct model *m, const struct model_options *opt)
{
    struct mapped_region *pieces;
    size_t n = 0;
    enum osp_status st;

    TRY(mem_try_array(&pieces, (size_t)m->n_layers * LAYER_WEIGHTS + 1, sizeof *pieces, "weights"));
    for (int i = 0; i < m->n_layers; i++) {
        const struct layer *l = &m->layers[i];
        const struct tensor *weights[LAYER_WEIGHTS] = {&l->attn_qkv.wqkv[0], &l->attn_qkv.wqkv[1],
                                                       &l->attn_qkv.wqkv[2], &l->attn_out.wo,
                                                       &l->experts.w_up,     &l->experts.w_down};

        for (int j = 0; j < LAYER_WEIGHTS; j++)
            add(pieces, &n, m, weights[j]);
    }
    add(pieces, &n, m, &m->logits.head);
    st = regions_populate(pieces, n, opt->n_threads, opt->progress, opt->progress_ctx);
    free(pieces);
out:
    return st;
}
