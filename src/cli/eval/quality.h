/* Perplexity and KL divergence of a configuration from the float32 reference, for `osprey eval
 * quality` and `osprey bench --quality`: opens both models, reads the text, runs, prints. */
#ifndef CLI_EVAL_QUALITY_H
#define CLI_EVAL_QUALITY_H

#include <stdio.h>

#include "cli/options/model_args.h"
#include "osprey_tools.h"

struct quality_options {
    const char *file; /* plain text; NULL: built in */
    const char
        *reference;   /* folder of another checkpoint to compare with; NULL: the same weights */
    int n_prompts;    /* of the built-in text, per ability; 0: 2 */
    int n_tokens_max; /* of a file; 0: all */
    bool decode;      /* measure the decode kernels */
    bool alone;       /* perplexity without a reference */
    bool quiet;
};

struct quality {
    struct osp_quality_result result;
    char model[64], setting[128], reference[128]; /* names and devices, for the report */
    double seconds;
};

/* The part of the built-in text for every model: paragraphs of several kinds. */
enum { QUALITY_N_TEXTS = 4 };
extern const char *const QUALITY_TEXTS[QUALITY_N_TEXTS];

CHECKED enum osp_status quality_measure(struct quality *out, const struct model_args *model,
                                        const struct positional_args *positional,
                                        const struct quality_options *opt);

void quality_print_table(FILE *out, const struct quality *q, const struct quality_options *opt);
void quality_print_json(FILE *out, const struct quality *q, const struct quality_options *opt);

#endif
