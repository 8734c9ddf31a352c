/* Situations for launch lists: a model's shape, a GPU, a step; some of them at random. */
#ifndef TESTS_CUDA_HOST_SITUATIONS_H
#define TESTS_CUDA_HOST_SITUATIONS_H

#include "cuda_host/symbolic.h"

#define GOLDEN "tests/golden/launches/"

enum { SM_80, SM_90A, SM_100A, SM_121A, N_GPUS };
extern const char *const gpu_names[N_GPUS]; /* "sm_90a" */

struct situation {
    int gpu;
    bool is_native; /* --mxfp4-backend native: block-scaled products */
    struct step_spec step;
};

/* The list of the program for the step; the caller frees it. */
enum osp_status make_list(struct launch_list *list, struct step_counts *counts,
                          const struct symbolic *s, const struct program *p,
                          const struct situation *at);

extern const struct symbolic_spec models[]; /* of the random lists */

/* A line for messages; overwritten by the next call. */
const char *situation_text(const struct situation *at);

typedef void (*list_check)(const struct symbolic *s, const struct program *p,
                           const struct launch_list *list, const struct step_counts *counts,
                           const struct situation *at);
/* Calls the check for 5,600 lists: of whole programs, and of ranges of their ops. */
void for_random_lists(list_check check, uint32_t seed);

/* notes.c: what launches are noted to touch, against the addresses in their parameters. */
void test_notes(void **state);
void test_addresses(void **state);

/* padded.c: steps whose counts are padded. */
void test_padded_counts(void **state);
void test_not_padded(void **state);
void test_graphs_under_churn(void **state);
void test_padded_batch(void **state);
void test_padded_launches(void **state);

/* planted.c: lists with a bug, which launch_list_check() must find. */
void test_sums_before_the_tail(void **state);
void test_finds_a_removed_launch(void **state);
void test_finds_swapped_launches(void **state);
void test_finds_an_early_read(void **state);
void test_finds_a_norm_that_nobody_does(void **state);
void test_finds_a_tapped_output_that_is_missing(void **state);
void test_finds_a_stale_workspace(void **state);

#endif
