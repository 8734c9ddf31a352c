/* How the experts' kernels of few rows divide their work (cuda/decode/expert_slices.h): jobs of
 * random routings are covered by tasks, each unit once. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "cuda/decode/expert_slices.h"

enum { ACTIVE_MAX = 8, ROWS_MAX = 4, JOBS_MAX = ROWS_MAX * ACTIVE_MAX, UNITS_MAX = 48 };

/* The jobs of rows with these experts, one entry after another. */
static int list_jobs(struct expert_job *jobs, int ids[ROWS_MAX][ACTIVE_MAX], int n_rows,
                     int n_ranks)
{
    int n_jobs = 0;

    for (int row = 0; row < n_rows; row++)
        for (int rank = 0; rank < n_ranks; rank++) {
            int job = 0;

            while (job < n_jobs && jobs[job].expert != ids[row][rank])
                job++;
            if (job == n_jobs)
                jobs[n_jobs++] = (struct expert_job){ids[row][rank], 0};
            jobs[job].entries |= 1u << (row * ACTIVE_MAX + rank);
        }
    return n_jobs;
}

/* Different experts for each row; rows are alike if n_experts is n_ranks. */
static void draw_experts(int ids[ROWS_MAX][ACTIVE_MAX], int n_rows, int n_ranks, int n_experts)
{
    for (int row = 0; row < n_rows; row++)
        for (int rank = 0; rank < n_ranks; rank++) {
            bool is_taken = true;

            while (is_taken) {
                ids[row][rank] = rand() % n_experts;
                is_taken = false;
                for (int i = 0; i < rank; i++)
                    is_taken = is_taken || ids[row][i] == ids[row][rank];
            }
        }
}

/* Counts how often tasks have each unit of a job, in w_up by rows and in w_down. */
static void check_tasks(const struct expert_job *jobs, int n_jobs, int n_units, int width)
{
    const struct slice_plan plan = plan_of_experts(n_units, width, n_jobs);
    int up[JOBS_MAX][2 * UNITS_MAX] = {0}, down[JOBS_MAX][UNITS_MAX] = {0};

    for (int i = 0; i < plan.n_clusters; i++) {
        const struct expert_task t = task_of_jobs(&plan, jobs, n_jobs, n_units, i);
        const struct cluster_slices *c = &t.slices;

        assert_in_range(c->n[0] + c->n[1], 1, SLICE_MAX);
        for (int part = 0; part < c->n_parts; part++) {
            const int job = rank_of(c, part);

            assert_int_equal(t.expert[part], jobs[job].expert);
            assert_int_equal(t.entries[part], jobs[job].entries);
            assert_int_equal(c->first % width, 0);
            for (int u = 0; u < units_of_part(c, part); u++)
                down[job][c->first + u]++;
        }
        for (int item = 0; item < CLUSTER_ITEMS; item++) {
            const struct up_row r = up_row_of_item(c, item);

            if (r.part >= 0)
                up[rank_of(c, r.part)][r.row]++;
        }
    }
    for (int job = 0; job < n_jobs; job++)
        for (int u = 0; u < 2 * n_units; u++) {
            assert_int_equal(up[job][u], 1);
            assert_int_equal(down[job][u / 2], 1);
        }
}

static void test_tasks_cover_jobs(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++) {
        const int n_rows = rand() % ROWS_MAX + 1, n_ranks = rand() % ACTIVE_MAX + 1;
        const int n_experts = i % 3 == 0 ? n_ranks : n_ranks + rand() % 128;
        const int n_units = rand() % UNITS_MAX + 1, width = (n_units + 7) / 8;
        int ids[ROWS_MAX][ACTIVE_MAX];
        struct expert_job jobs[JOBS_MAX];

        draw_experts(ids, n_rows, n_ranks, n_experts);
        const int n_jobs = list_jobs(jobs, ids, n_rows, n_ranks);

        if (i % 3 == 0)
            assert_int_equal(n_jobs, n_ranks);
        check_tasks(jobs, n_jobs, n_units, width);
    }
}

/* gpt-oss: four experts are 30 equal shares, the 16 of four rows 120. */
static void test_equal_shares(void **state)
{
    (void)state;
    for (int n = 4; n <= 16; n += 4) {
        const struct slice_plan plan = plan_of_experts(45, 6, n);

        assert_int_equal(plan.n_clusters, n * 30 / 4);
        for (int i = 0; i < plan.n_clusters; i++) {
            const struct cluster_slices c = slices_of(&plan, n, 45, i);

            assert_int_equal(c.n[0] + c.n[1], SLICE_MAX);
        }
    }
}

UNIT_MAIN(cmocka_unit_test(test_tasks_cover_jobs), cmocka_unit_test(test_equal_shares))
