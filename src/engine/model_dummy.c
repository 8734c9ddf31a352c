/* Opens a model with generated weights (load format "dummy"). */
#include <stdlib.h>

#include "base/memory.h"
#include "base/printable.h"
#include "engine/bundled.h"
#include "engine/model_internal.h"
#include "engine/rank_start.h"
#include "model/dummy.h"
#include "model/shard.h"

/* Of generated weights: on CPUs a rank generates all, on a GPU its part, with all of the head. */
static int64_t dummy_rank_bytes(const struct gptoss_config *c, const struct osp_model_options *opt)
{
    const struct shard shard = {0, ranks_wanted(opt), ranks_shard_rule(opt)};
    struct gptoss_config part;

    shard_config(&part, c, shard);
    return dummy_bytes(shard.rule == SHARD_FOR_GPU ? &part : c);
}

/* Unlike a mapped file, generated weights must fit in memory. */
static enum osp_status check_dummy_fits(const struct gptoss_config *c,
                                        const struct osp_model_options *opt)
{
    const int64_t need = dummy_rank_bytes(c, opt);
    struct device_memory_info info;
    char need_text[16], has_text[16];
    enum osp_status st;

    TRY(device_memory_get(&info, opt->device, ranks_wanted(opt), opt->gpu_memory_utilization));
    if (need > info.allowed_bytes)
        st = fail(OSP_ENOMEM, "dummy weights of %d layers take %s, only %s are free: ask for fewer",
                  c->n_layers, format_bytes(need_text, (double)need),
                  format_bytes(has_text, (double)info.allowed_bytes));
out:
    return st;
}

/* The draft head of generated weights, if one is wanted. */
static enum osp_status generate_draft(struct draft_files *out, struct gptoss_config *target,
                                      const struct osp_model_options *opt)
{
    struct device_memory memory;
    enum osp_status st = OSP_OK;

    if (opt->draft_model == NULL)
        return OSP_OK;
    TRY(backend_find(opt->device)->memory(&memory, 0, 1));
    TRY(draft_files_generate(out, target, memory.total_bytes > 0));
out:
    return st;
}

enum osp_status model_open_dummy(struct osp_model *m, const struct osp_model_options *opt)
{
    struct gptoss_config config;
    struct draft_files draft = {.checkpoint = {.path = NULL}};
    char *folder = NULL;
    enum osp_status st;

    m->path = mem_strdup("dummy");
    m->name = mem_printf("%s-dummy", model_dummy_shape(opt));
    TRY(dummy_config(&config, model_dummy_shape(opt), opt->dummy_layers, m->mxfp4_layers));
    TRY(shard_check(&config, ranks_wanted(opt), ranks_shard_rule(opt)));
    if (!m->is_in_worker)
        TRY(check_dummy_fits(&config, opt));
    if (!m->is_in_worker)
        TRY(generate_draft(&draft, &config, opt));
    if (!m->is_in_worker)
        TRY(model_plan_memory(m, opt, &config, dummy_rank_bytes(&config, opt), NULL, &draft));
    if (opt->tokenizer == NULL)
        TRY(bundled_model_path(&folder));
    TRY(model_open_tokenizer(m, opt->tokenizer, folder));
    TRY(model_check_vocabulary(m, &config));
    if (!m->is_in_worker)
        TRY(model_open_weights(m, opt, NULL, &draft));
out:
    draft_files_close(&draft);
    free(folder);
    return st;
}
