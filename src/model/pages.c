/* Copies whole pages of the KV cache between steps: to another page, or to and from host memory. */
#include "backend/kv_page.h"
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

enum osp_status model_page_copy(struct model *m, enum page_group group, int from, int to)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < m->n_layers; i++) {
        const struct tensor *kv = &m->layers[i].attn_qkv.kv;

        if (m->layers[i].attn_qkv.group == group)
            TRY(m->ops->copy(m->be, layer_page_at(kv, to), layer_page_at(kv, from),
                             layer_page_bytes(kv)));
    }
out:
    return st;
}

enum osp_status model_page_read(struct model *m, enum page_group group, int page, char *host)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < m->n_layers; i++) {
        const struct tensor *kv = &m->layers[i].attn_qkv.kv;

        if (m->layers[i].attn_qkv.group != group)
            continue;
        TRY(m->ops->read(m->be, host, layer_page_at(kv, page), layer_page_bytes(kv)));
        host += layer_page_bytes(kv);
    }
out:
    return st;
}

enum osp_status model_page_write(struct model *m, enum page_group group, int page, const char *host)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < m->n_layers; i++) {
        const struct tensor *kv = &m->layers[i].attn_qkv.kv;

        if (m->layers[i].attn_qkv.group != group)
            continue;
        TRY(m->ops->write(m->be, layer_page_at(kv, page), host, layer_page_bytes(kv)));
        host += layer_page_bytes(kv);
    }
out:
    return st;
}
