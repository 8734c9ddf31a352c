/* The options of speculative decoding: vLLM's --speculative-config '{"method": "ngram",
 * "num_speculative_tokens": 8}', and llama-server's -md, --draft-max and --draft-min. */
#ifndef CLI_OPTIONS_DRAFT_JSON_H
#define CLI_OPTIONS_DRAFT_JSON_H

#include "base/status.h"
#include "osprey.h"

struct draft_args {
    const char *config; /* JSON, or NULL */
    const char *model;  /* folder of a draft head, or NULL */
    int tokens_max, tokens_min;
};

/* What the options ask for. */
struct draft_options {
    struct osp_speculative speculative;
    char *model;              /* owned: osp_model_options.draft_model */
    const char *quantization; /* osp_model_options.draft_quantization */
};
void draft_options_release(struct draft_options *o); /* accepts a zeroed one */

/* Reads the options; without any of them drafts are off. OSP_EINVAL: not valid JSON, an unknown
 * member, or a value out of range; OSP_EUNSUPPORTED: a method that osprey does not have. */
CHECKED enum osp_status draft_args_read(struct draft_options *out, const struct draft_args *args);

/* The most drafts that one step can accept: of a tree, its levels. */
int draft_args_positions(const struct osp_speculative *s);

/* Rows of a step for drafts, for osp_model_options; n_seqs_max: 0 = default. */
int draft_args_rows(const struct osp_speculative *s, int n_seqs_max);

#endif
