/* How the kernels that compute both products of the experts at once (decode_experts.cu,
 * decode_expert_rows.cu) divide them among clusters of blocks.
 *
 * A cluster has a slice of the units of an expert (expert_sums.h): the rows of w_up of these units,
 * and their columns of w_down. Where the last slice has at most half of the units of the others, a
 * cluster has those of two experts. 45 units make seven slices of six units and one of three, so
 * that four experts make 30 equal shares. */
#ifndef CUDA_DECODE_EXPERT_SLICES_H
#define CUDA_DECODE_EXPERT_SLICES_H

#include <stdint.h>

#include "cuda/common/layout.h"

enum {
    CLUSTER_ITEMS = 12,                                    /* rows of units of w_up of a share */
    ITEM_UNITS = UNIT_ROWS / 2,                            /* gated units of such a row */
    SLICE_MAX = CLUSTER_ITEMS * ITEM_UNITS / UNIT_COLUMNS, /* units of a share */
    ITEM_BYTES = ITEM_UNITS * 2,                           /* as FP16 */
    ITEM_PIECES = ITEM_BYTES / LANE_BYTES,
    GATED_BYTES = CLUSTER_ITEMS * ITEM_BYTES, /* of a share, of one row */
    PARTS_MAX = 2
};

/* The shares of a row's experts, or of the experts of several rows. */
struct slice_plan {
    int32_t width, n_slices; /* units in a slice, but the last one; slices of an expert */
    int32_t n_single;        /* shares with one slice; the others have two last slices */
    int32_t n_clusters;      /* shares */
};

/* The slices of a share: one, or the last ones of two experts. */
struct cluster_slices {
    int rank[PARTS_MAX], n[PARTS_MAX]; /* index of the expert; units, 0: no second slice */
    int first;                         /* unit */
    int n_parts;
};

static inline HOST_DEVICE int slices_of_expert(int n_units, int width)
{
    return (n_units + width - 1) / width;
}

/* The plan of slices whose number is known. */
static inline HOST_DEVICE struct slice_plan plan_of_slices(int n_units, int width, int n_slices,
                                                           int n_experts)
{
    const int n_last = n_units - (n_slices - 1) * width;
    const bool is_paired = n_slices > 1 && n_last * PARTS_MAX <= width;
    const int n_single = n_experts * (is_paired ? n_slices - 1 : n_slices);
    const int n_pairs = is_paired ? (n_experts + PARTS_MAX - 1) / PARTS_MAX : 0;
    const struct slice_plan plan = {width, n_slices, n_single, n_single + n_pairs};

    return plan;
}

static inline HOST_DEVICE struct slice_plan plan_of_experts(int n_units, int width, int n_experts)
{
    return plan_of_slices(n_units, width, slices_of_expert(n_units, width), n_experts);
}

/* Share number `cluster`; slices of the same columns are adjacent. */
static inline HOST_DEVICE struct cluster_slices slices_of(const struct slice_plan *s, int n_experts,
                                                          int n_units, int cluster)
{
    const int slice = cluster / n_experts;
    struct cluster_slices c;

    if (cluster < s->n_single) {
        const int first = slice * s->width, n_left = n_units - first;

        c.first = first;
        c.rank[0] = c.rank[1] = cluster - slice * n_experts;
        c.n[0] = n_left < s->width ? n_left : s->width;
        c.n[1] = 0;
    } else {
        const int pair = (cluster - s->n_single) * PARTS_MAX;

        c.first = (s->n_slices - 1) * s->width;
        c.n[0] = c.n[1] = n_units - c.first;
        c.rank[0] = pair;
        c.rank[1] = pair + 1;
        if (pair + 1 >= n_experts) {
            c.rank[1] = pair;
            c.n[1] = 0;
        }
    }
    c.n_parts = c.n[1] > 0 ? PARTS_MAX : 1;
    return c;
}

/* Registers cannot be indexed. */
static inline HOST_DEVICE int rank_of(const struct cluster_slices *c, int part)
{
    return part == 0 ? c->rank[0] : c->rank[1];
}

static inline HOST_DEVICE int units_of_part(const struct cluster_slices *c, int part)
{
    return part == 0 ? c->n[0] : c->n[1];
}

/* A row of units of w_up: its part of the share, and its number in the matrix; part -1: none. */
struct up_row {
    int part, row;
};

/* Row `item` of the CLUSTER_ITEMS of a share: two for each of its units. */
static inline HOST_DEVICE struct up_row up_row_of_item(const struct cluster_slices *c, int item)
{
    const int unit = item / 2, part = unit < c->n[0] ? 0 : 1;
    const int of_part = part == 0 ? unit : unit - c->n[0];
    struct up_row r = {-1, 0};

    if (of_part < units_of_part(c, part)) {
        r.part = part;
        r.row = (c->first + of_part) * 2 + item % 2;
    }
    return r;
}

/* ---- the experts of several rows ---- */

/* A distinct expert of the rows, and its entries: bit DECODE_ACTIVE_MAX * row + rank. */
struct expert_job {
    int32_t expert;
    uint32_t entries;
};

/* A share of the jobs, and what it takes from these. */
struct expert_task {
    struct cluster_slices slices;
    int32_t expert[PARTS_MAX];
    uint32_t entries[PARTS_MAX];
};

static inline HOST_DEVICE struct expert_task task_of_jobs(const struct slice_plan *plan,
                                                          const struct expert_job *jobs, int n_jobs,
                                                          int n_units, int i)
{
    struct expert_task t;

    t.slices = slices_of(plan, n_jobs, n_units, i);
    for (int part = 0; part < PARTS_MAX; part++) {
        const struct expert_job *job = &jobs[rank_of(&t.slices, part)];

        t.expert[part] = job->expert;
        t.entries[part] = part < t.slices.n_parts ? job->entries : 0;
    }
    return t;
}

#endif
