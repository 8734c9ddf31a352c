/* What this machine can do at most, measured: bytes read from memory a second and operations a
 * second. The roof that a stage's speed is held against. */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum probe_kind { PROBE_F32, PROBE_BF16, PROBE_INT8, N_PROBE_KINDS };

enum { PROBE_PEAKS_MAX = 12 };

/* The speed of one kind of instruction on all threads. */
struct probe_peak {
    const char *name; /* "AVX-512 VNNI" */
    enum probe_kind kind;
    double ops_per_s; /* a multiplication and an addition are two */
};

struct probe {
    int n_threads;
    double read_bytes_per_s;      /* from memory, far beyond the caches, at best */
    double read_mean_bytes_per_s; /* the same loop over seconds: others use memory, too */
    const char *read_name;        /* the loop that was fastest */
    struct probe_peak peaks[PROBE_PEAKS_MAX]; /* all that this CPU has, (n_peaks) */
    int n_peaks;
};

/* Measures with n_threads threads (0 = all usable), bound as `affinity` says (see base/bind.h); takes a
 * few seconds, and up to an eighth of the machine's memory meanwhile. */
CHECKED enum osp_status probe_run(struct probe *out, int n_threads, const char *affinity);

/* The fastest peak of that kind; NULL when there is none. */
const struct probe_peak *probe_best(const struct probe *p, enum probe_kind kind);
/* Operations a second of the fastest peak of all. */
double probe_ops_per_s(const struct probe *p);
const char *probe_kind_name(enum probe_kind kind); /* "f32" */

/* One thread's loop of independent operations: runs `n_rounds` of them and gives the number of
 * operations done. */
struct probe_kernel {
    const char *name;
    enum probe_kind kind;
    double (*run)(long n_rounds);
};
/* Those of this CPU; gives how many. */
int probe_kernels(struct probe_kernel out[PROBE_PEAKS_MAX]);

/* One thread's loop over memory, whose size is a multiple of PROBE_READ_UNIT; gives something made of
 * all that was read. */
enum { PROBE_READ_UNIT = 16384, PROBE_READERS_MAX = 8 };
struct probe_reader {
    const char *name;
    uint64_t (*run)(const void *data, size_t n_bytes);
};
int probe_readers(struct probe_reader out[PROBE_READERS_MAX]);

#endif
