#include "model/source.h"

#include <string.h>

#include "base/hash.h"
#include "model/config.h"

enum { SAMPLE_BYTES = 256 }; /* of a tensor, from its middle */

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

static uint64_t hash_tensor(uint64_t hash, const struct st_tensor *t)
{
    const size_t n = t->size_bytes < SAMPLE_BYTES ? t->size_bytes : SAMPLE_BYTES;

    hash = hash_bytes(hash, t->name, strlen(t->name));
    hash = hash_bytes(hash, &t->dtype, sizeof t->dtype);
    hash = hash_bytes(hash, t->dim, (size_t)t->n_dims * sizeof t->dim[0]);
    hash = hash_bytes(hash, &t->size_bytes, sizeof t->size_bytes);
    return hash_bytes(hash, t->data + (t->size_bytes - n) / 2, n);
}

uint64_t checkpoint_fingerprint(const struct checkpoint *c)
{
    const struct gptoss_config *config = &c->config;
    const double numbers[] = {
        config->n_layers,     config->n_experts_active, config->window_tokens,
        config->rope_theta,   config->rope_factor,      config->norm_eps,
        config->swiglu_limit, config->head_dim,         config->context_tokens_max};
    uint64_t hash = hash_bytes(HASH_INIT, numbers, sizeof numbers);

    for (int i = 0; i < c->n_files; i++)
        for (size_t t = 0; t < c->files[i].n_tensors; t++)
            hash = hash_tensor(hash, &c->files[i].tensors[t]);
    return hash;
}

void model_source_close(struct model_source *s)
{
    weights_release(&s->weights);
    checkpoint_close(&s->checkpoint);
    *s = (struct model_source){.checkpoint = {.path = NULL}};
}
