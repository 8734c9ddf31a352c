/* Figures of ranks on GPUs that need no GPU: how check_ranks reads its arguments, the time of an
 * exchange that is expected, and JSON of what was measured. */
#ifndef TESTS_RANK_FIGURES_H
#define TESTS_RANK_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "64": decode rows; "+8192": prefill rows in steps of step_default; "+8192/4096": of 4096. */
struct rows_timed {
    int n_rows, n_step;
    bool is_prefill;
};

/* False: the text is not of that form, or a number is not from 1 to n_max. */
static inline bool rows_timed_parse(struct rows_timed *out, const char *text, int step_default,
                                    int n_max)
{
    char *end;
    long n;

    *out = (struct rows_timed){.n_step = step_default, .is_prefill = text[0] == '+'};
    n = strtol(text + out->is_prefill, &end, 10);
    if (n < 1 || n > n_max)
        return false;
    out->n_rows = (int)n;
    if (*end == '/' && out->is_prefill) {
        n = strtol(end + 1, &end, 10);
        if (n < 1 || n > n_max)
            return false;
        out->n_step = (int)n;
    }
    return *end == '\0';
}

/* An exchange as it was measured. */
struct exchange_figure {
    const char *by; /* "peer" or "nccl" */
    int n_rows;
    int64_t bytes; /* of a rank's numbers */
    double us, expected_us;
};

/* By pushes: a kernel and a push over NVLink; the bytes that a rank sends, at what doctor measures
 * between H200s; and four accesses to memory for each number that arrives: polled, emptied, its own
 * one read and the sum stored. is_owned: the owners of the numbers add them and send the sums. */
static inline double exchange_expected_us(int64_t bytes, int n_ranks, bool is_owned)
{
    const double base_us = 3.5, link_bytes_per_us = 384e3, memory_bytes_per_us = 3.4e6;
    const double n_others = n_ranks - 1;
    const double sent = (double)bytes * (is_owned ? 2 * n_others / n_ranks : n_others);

    return base_us + sent / link_bytes_per_us + 4 * sent / memory_bytes_per_us;
}

/* The file of bench/results: an object with the ranks and a list of the exchanges. */
static inline void exchange_figures_print(FILE *out, int n_ranks, int n_columns,
                                          const struct exchange_figure *list, int n)
{
    fprintf(out, "{\"ranks\": %d, \"columns\": %d, \"exchanges\": [", n_ranks, n_columns);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s\n  {\"by\": \"%s\", \"rows\": %d, \"bytes\": %lld, \"us\": %.2f",
                i > 0 ? "," : "", list[i].by, list[i].n_rows, (long long)list[i].bytes, list[i].us);
        if (list[i].expected_us > 0)
            fprintf(out, ", \"expected_us\": %.2f", list[i].expected_us);
        fprintf(out, "}");
    }
    fprintf(out, "\n]}\n");
}

#endif
