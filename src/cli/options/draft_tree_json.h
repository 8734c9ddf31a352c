/* speculative_token_tree of --speculative-config. vLLM's is the text of a Python list of tuples.
 * Each of them is a node: the ranks of the guesses on its path, from 0, the best one. A list of
 * lists of JSON is the same. */
#ifndef CLI_OPTIONS_DRAFT_TREE_JSON_H
#define CLI_OPTIONS_DRAFT_TREE_JSON_H

#include "base/status.h"
#include "osprey.h"

#define DRAFT_OPTION      "--speculative-config"
#define DRAFT_TREE_MEMBER "speculative_token_tree"

struct json_t;

/* Sets n_tree and tree_parents. OSP_EINVAL: not such a list, a node without its parent or without
 * its better siblings, or too many. */
CHECKED enum osp_status draft_tree_read(struct osp_speculative *s, struct json_t *value);

#endif
