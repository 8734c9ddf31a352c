/* Copies whole pages of the KV cache between steps: to another page, or to and from host memory. */
#include <stdlib.h>

#include "backend/kv_page.h"
#include "base/memory.h"
#include "model/model.h"

/* The bytes of one layer in a page. */
static size_t layer_page_bytes(const struct tensor *kv)
{
    return (size_t)kv_page_bytes(kv->dtype, kv->dim[2], kv->dim[4]);
}

static char *layer_page_at(const struct tensor *kv, int page)
{
    return (char *)kv->data + (size_t)page * layer_page_bytes(kv);
}

/* The cache of layer i, from 0, of those of a group, that of a draft head last; moves *i on. NULL:
 * there is no such layer. */
static const struct tensor *layer_kv(const struct model *m, enum page_group group, int *i)
{
    for (; *i < m->n_layers; ++*i)
        if (m->layers[*i].attn_qkv.group == group)
            return &m->layers[(*i)++].attn_qkv.kv;
    if (*i > m->n_layers || group != GROUP_FULL || m->draft.kv.data == NULL)
        return NULL;
    ++*i;
    return &m->draft.kv;
}

enum osp_status model_page_copy(struct model *m, enum page_group group, int from, int to)
{
    const struct tensor *kv;
    int i = 0;
    enum osp_status st = OSP_OK;

    while ((kv = layer_kv(m, group, &i)) != NULL)
        TRY(m->ops->copy(m->be, layer_page_at(kv, to), layer_page_at(kv, from),
                         layer_page_bytes(kv)));
out:
    return st;
}

enum osp_status model_kv_move(struct model *m, enum page_group group, const struct kv_move *moves,
                              int n)
{
    const struct tensor **kv = mem_new((size_t)m->n_layers * sizeof(const struct tensor *));
    struct kv_moves all = {.kv = kv, .list = moves, .n = n};
    enum osp_status st = OSP_OK;

    for (int i = 0; i < m->n_layers; i++)
        if (m->layers[i].attn_qkv.group == group)
            kv[all.n_layers++] = &m->layers[i].attn_qkv.kv;
    if (all.n_layers > 0)
        st = m->ops->kv_move(m->be, &all);
    free(kv);
    return st;
}

enum osp_status model_page_read(struct model *m, enum page_group group, int page, char *host)
{
    const struct tensor *kv;
    int i = 0;
    enum osp_status st = OSP_OK;

    while ((kv = layer_kv(m, group, &i)) != NULL) {
        TRY(m->ops->read(m->be, host, layer_page_at(kv, page), layer_page_bytes(kv)));
        host += layer_page_bytes(kv);
    }
out:
    return st;
}

enum osp_status model_page_write(struct model *m, enum page_group group, int page, const char *host)
{
    const struct tensor *kv;
    int i = 0;
    enum osp_status st = OSP_OK;

    while ((kv = layer_kv(m, group, &i)) != NULL) {
        TRY(m->ops->write(m->be, layer_page_at(kv, page), host, layer_page_bytes(kv)));
        host += layer_page_bytes(kv);
    }
out:
    return st;
}
