/* What this machine can do at most, measured: bytes read from memory per second and operations per
 * second. These are the roofline limits for the speed of a stage. */
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
    double ops_per_s; /* a multiplication and an addition count as two */
};

struct probe {
    int n_threads;
    double read_bytes_per_s;      /* best read speed from memory, far beyond the caches */
    double read_mean_bytes_per_s; /* mean of probe_read(); 0: not measured */
    const char *read_name;        /* the fastest loop */
    struct probe_peak peaks[PROBE_PEAKS_MAX]; /* all instructions of this CPU, (n_peaks) */
    int n_peaks;
};

/* A running probe: it holds up to an eighth of the machine's memory. */
struct probe_run;

/* Finds the fastest loop over memory and its best speed, with n_threads threads (0 = all usable),
 * bound according to `affinity` (see base/bind.h). Takes a second or two. The caller passes the
 * probe to probe_end or probe_cancel. */
CHECKED enum osp_status probe_begin(struct probe_run **out, int n_threads, const char *affinity);
/* Reads memory with that loop for at least `time_ns`. The mean covers all calls. On a shared
 * machine the speed changes from second to second, so a measurement to be compared with the read
 * speed must alternate with calls of this function. */
void probe_read(struct probe_run *p, uint64_t time_ns);
/* Measures the arithmetic, fills *out and frees p. */
void probe_end(struct probe_run *p, struct probe *out);
void probe_cancel(struct probe_run *p); /* accepts NULL */

/* The fastest peak of that kind; NULL if the CPU has none. */
const struct probe_peak *probe_best(const struct probe *p, enum probe_kind kind);
/* Operations per second of the fastest peak of any kind. */
double probe_ops_per_s(const struct probe *p);
const char *probe_kind_name(enum probe_kind kind); /* "f32" */

/* One thread's loop of independent operations: runs `n_rounds` rounds and returns the number of
 * operations done. */
struct probe_kernel {
    const char *name;
    enum probe_kind kind;
    double (*run)(long n_rounds);
};
/* The kernels that this CPU supports; returns their number. */
int probe_kernels(struct probe_kernel out[PROBE_PEAKS_MAX]);

/* One thread's loop over memory, whose size is a multiple of PROBE_READ_UNIT; returns a value that
 * depends on all bytes read. */
enum { PROBE_READ_UNIT = 16384, PROBE_READERS_MAX = 8 };
struct probe_reader {
    const char *name;
    uint64_t (*run)(const void *data, size_t n_bytes);
};
int probe_readers(struct probe_reader out[PROBE_READERS_MAX]);

#endif
