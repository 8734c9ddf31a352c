#include "model/source.h"

#include "model/config.h"

enum osp_status model_source_open(struct model_source *out, const char *path)
{
    enum osp_status st;

    *out = (struct model_source){.checkpoint = {.path = NULL}};
    TRY(checkpoint_open(&out->checkpoint, path));
    TRY(model_config_check(&out->checkpoint.config));
    TRY(weights_bind(&out->weights, &out->checkpoint, &out->report));
out:
    if (st != OSP_OK)
        model_source_close(out);
    return st;
}

void model_source_close(struct model_source *s)
{
    weights_release(&s->weights);
    checkpoint_close(&s->checkpoint);
    *s = (struct model_source){.checkpoint = {.path = NULL}};
}
