/* `osprey eval nano`: runs prompts with known correct answers greedily through the engine and
 * prints the share of correct answers. tools/nano/README.md describes the file of prompts. */
#ifndef CLI_EVAL_EVAL_H
#define CLI_EVAL_EVAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "osprey.h"

/* X(name in the file, text in the table, target percent of correct answers) */
#define ABILITY_LIST(X)                                                                            \
    X(capital, "capitals of countries", 98)                                                        \
    X(arithmetic, "sums and differences", 90)                                                      \
    X(instruction, "developer instructions", 95)                                                   \
    X(recall, "recall over 1,000 tokens", 90)                                                      \
    X(tool_call, "function calls", 95)                                                             \
    X(tool_result, "use of function results", 95)                                                  \
    X(copy, "copies of text", 95)

enum ability {
#define ABILITY_ENUM(name, text, target) ABILITY_##name,
    ABILITY_LIST(ABILITY_ENUM)
#undef ABILITY_ENUM
        N_ABILITIES
};

struct ability_row {
    const char *name, *text;
    int target_percent;
};
extern const struct ability_row ABILITIES[N_ABILITIES];

enum {
    ENDING_TARGET_PERCENT = 99, /* share of answers that end with the correct control token */
    REASONING_TARGET_PERCENT =
        150,                 /* median reasoning length at high effort, as percent of low effort */
    SINKS_TARGET_POINTS = 20 /* drop of the mean without sinks */
};

struct eval_task {
    char *id, *effort;
    enum ability ability;
    struct osp_chat *chat;
    json_t *expect;
    int tokens_max;
};

struct eval_tasks {
    struct eval_task *tasks; /* (n) */
    size_t n, n_max;
};

struct eval_filter {
    const char *ability; /* NULL: all */
    int n_max;           /* of each ability; 0: all */
};

/* Reads the prompts of a file; errors name file and line. */
CHECKED enum osp_status eval_tasks_read(struct eval_tasks *out, const char *path,
                                        const struct eval_filter *filter);
void eval_tasks_release(struct eval_tasks *t); /* accepts a zeroed one */

/* The model's answer to one prompt. */
struct eval_answer {
    struct buf text, args; /* the answer's content; the arguments of its first call */
    char name[128];        /* of the first call */
    int n_calls, n_reasoning_tokens;
    int32_t stop_token;
};

/* Whether the answer is what the task expects. */
bool eval_judge(const struct eval_task *task, const struct eval_answer *answer);

struct eval_result {
    bool right, ended_right;
    int n_reasoning_tokens;
};

struct eval_run_options {
    int n_wrong_shown; /* number of wrong answers to print to standard error */
    bool progress;     /* print a progress line to standard error */
    const char *what;  /* for that line */
    const struct osp_engine_options *engine; /* NULL: defaults */
    struct osp_draft_stats *drafts;          /* out, of all tasks; NULL: not wanted */
};

/* Runs all tasks, several concurrently; results: (n) in order. */
CHECKED enum osp_status eval_run(struct eval_result *results, const struct eval_tasks *tasks,
                                 struct osp_model *model, const struct eval_run_options *opt);

struct eval_score {
    int n[N_ABILITIES], n_right[N_ABILITIES];
    int n_all, n_ended_right;
    double mean_percent;            /* of the selected abilities */
    double median_low, median_high; /* reasoning tokens of arithmetic prompts; 0: none ran */
};

struct eval_score eval_score_of(const struct eval_tasks *tasks, const struct eval_result *results);

/* Contents of a report; a score that was not measured is NULL. */
struct eval_report {
    const struct osp_model_info *model;
    const struct eval_score *with_sinks, *without_sinks;
    double seconds;
};

void eval_print_table(FILE *out, const struct eval_report *r);
void eval_print_json(FILE *out, const struct eval_report *r);
/* Whether every measured value meets its target. */
bool eval_targets_met(const struct eval_report *r);

#endif
