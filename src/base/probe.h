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
    double read_bytes_per_s; /* from memory, far beyond the caches, at best */
    double
        read_mean_bytes_per_s; /* the same loop, by turns with what was measured; 0: not at all */
    const char *read_name;     /* the loop that was fastest */
    struct probe_peak peaks[PROBE_PEAKS_MAX]; /* all that this CPU has, (n_peaks) */
    int n_peaks;
};

/* A probe under way: it holds up to an eighth of the machine's memory. */
struct probe_run;

/* Finds the fastest loop over memory and its best speed, with n_threads threads (0 = all
 * usable), bound as `affinity` says (see base/bind.h); takes a second or two. Gives a probe to
 * probe_end or probe_cancel. */
CHECKED enum osp_status probe_begin(struct probe_run **out, int n_threads, const char *affinity);
/* Reads memory by that loop for `time_ns` or a little longer. All its calls make the mean: where
 * others use the machine too, speed changes from second to second, and what is to be compared
 * with reading has to be measured by turns with it. */
void probe_read(struct probe_run *p, uint64_t time_ns);
/* Measures the arithmetic, gives all and frees. */
void probe_end(struct probe_run *p, struct probe *out);
void probe_cancel(struct probe_run *p); /* accepts NULL */

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

/* One thread's loop over memory, whose size is a multiple of PROBE_READ_UNIT; gives something
 * made of all that was read. */
enum { PROBE_READ_UNIT = 16384, PROBE_READERS_MAX = 8 };
struct probe_reader {
    const char *name;
    uint64_t (*run)(const void *data, size_t n_bytes);
};
int probe_readers(struct probe_reader out[PROBE_READERS_MAX]);

#endif
