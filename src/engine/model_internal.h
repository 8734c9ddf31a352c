/* What the files that open a model share: model_api.c (the public functions, tokenizer, ranks,
 * weights), model_memory.c (the memory plan), model_files.c (a checkpoint) and model_dummy.c
 * (generated weights). */
#ifndef ENGINE_MODEL_INTERNAL_H
#define ENGINE_MODEL_INTERNAL_H

#include <string.h>

#include "engine/core/model_api.h"

static inline bool model_is_dummy(const struct osp_model_options *opt)
{
    return opt->load_format != NULL && strcmp(opt->load_format, "dummy") == 0;
}

static inline const char *model_dummy_shape(const struct osp_model_options *opt)
{
    return opt->dummy_shape != NULL ? opt->dummy_shape : "gpt-oss-20b";
}

/* model_api.c. In a worker the parent has opened it already. */
CHECKED enum osp_status model_open_tokenizer(struct osp_model *m, const char *given,
                                             const char *folder);
CHECKED enum osp_status model_check_vocabulary(const struct osp_model *m,
                                               const struct gptoss_config *c);
/* Takes `source` and `draft` over, as model_open() does; NULL: generated weights, no draft head. */
CHECKED enum osp_status model_open_weights(struct osp_model *m, const struct osp_model_options *opt,
                                           struct model_source *source, struct draft_files *draft);

/* model_memory.c. Makes m->plan. file_bytes, parts_of: with several ranks, of rank 0's part. draft:
 * an opened draft head, or an empty one; NULL: none. */
CHECKED enum osp_status model_plan_memory(struct osp_model *m, const struct osp_model_options *opt,
                                          const struct gptoss_config *whole, int64_t file_bytes,
                                          const struct weights_report *parts_of,
                                          const struct draft_files *draft);

/* model_files.c. A folder or GGUF file. */
CHECKED enum osp_status model_open_files(struct osp_model *m, const struct osp_model_options *opt);

/* model_dummy.c. Load format "dummy". */
CHECKED enum osp_status model_open_dummy(struct osp_model *m, const struct osp_model_options *opt);

#endif
