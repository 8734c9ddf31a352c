/* `osprey eval drafts`: how many drafts of a draft head, or of prompt lookup, are accepted in
 * greedy answers, by ability and by position in the draft. */
#ifndef CLI_EVAL_EVAL_DRAFTS_H
#define CLI_EVAL_EVAL_DRAFTS_H

#include "cli/eval/eval.h"

/* Of the prompts of one ability. */
struct eval_drafts {
    int n; /* prompts; 0: the ability was not selected */
    struct osp_draft_stats stats;
};

/* Runs the tasks of each ability in an engine of its own, which verifies every draft. */
CHECKED enum osp_status eval_drafts_run(struct eval_drafts out[N_ABILITIES],
                                        const struct eval_tasks *tasks, struct osp_model *model,
                                        const struct osp_speculative *speculative, bool progress);

/* n_drafts: the most tokens of a draft. */
void eval_drafts_print_table(FILE *out, const struct eval_drafts all[N_ABILITIES], int n_drafts);
void eval_drafts_print_json(FILE *out, const struct osp_model_info *model,
                            const struct eval_drafts all[N_ABILITIES], int n_drafts);

#endif
