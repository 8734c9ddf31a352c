/* What this machine can do at most, measured: bytes read from memory a second and operations a
 * second. The roof that a stage's speed is held against. */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#include "base/status.h"

struct probe {
    int n_threads;
    double read_bytes_per_s; /* from memory, far beyond the caches */
    double f32_ops_per_s;    /* multiplications and additions of fused f32 operations */
    double int8_ops_per_s; /* the same of 8-bit dot products; 0 = there is no kernel for this CPU */
    const char *f32_name, *int8_name; /* instructions that were used */
};

/* Measures with n_threads threads (0 = all usable); takes about a second. */
CHECKED enum osp_status probe_run(struct probe *out, int n_threads);

/* One thread's loop of independent operations: runs `n_rounds` of them and gives the number of
 * operations done. */
struct probe_kernel {
    const char *name;
    double (*run)(long n_rounds);
};
/* The best of this CPU; run is NULL when there is none. */
struct probe_kernel probe_f32_kernel(void);
struct probe_kernel probe_int8_kernel(void);

#endif
