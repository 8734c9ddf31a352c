/* Host memory. Small, fixed-size allocations abort when memory is exhausted (mem_new). A size that
 * depends on a file, a request or a device goes through mem_try_*, which returns an error. All
 * sizes are checked for overflow. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed memory, or abort with a log line; free with free(). */
void *mem_new(size_t size_bytes);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n_bytes);
char *mem_printf(const char *format, ...) PRINTF_LIKE(1, 2); /* gives a string to free() */

/* Zeroed n * size bytes into *out (a `T **`); the OSP_ENOMEM message contains `what`. n may be
 * 0. */
CHECKED enum osp_status mem_try_array(void *out, size_t n, size_t size_bytes, const char *what);
/* Makes *items (a `T **`) large enough for n + 1 items; *capacity at least doubles when it grows.
 * New memory is not zeroed. mem_grow() aborts instead of failing, for lists that stay small. */
CHECKED enum osp_status mem_try_grow(void *items, size_t n, size_t *capacity, size_t item_bytes,
                                     const char *what);
void mem_grow(void *items, size_t n, size_t *capacity, size_t item_bytes);
/* As mem_try_array, but aligned to 64 bytes and not zeroed; also released with free(). */
CHECKED enum osp_status mem_try_aligned(void *out, size_t n, size_t size_bytes, const char *what);

/* The same for long-lived data that is read often: from 2 MiB on it is aligned to 2 MiB and uses
 * huge pages where the system has them. The memory is untouched, so that its NUMA node is that of
 * the thread that first writes it. */
CHECKED enum osp_status mem_try_hugepages(void *out, size_t n, size_t size_bytes, const char *what);

/* Reads the pages of mapped memory in. False when the underlying file cannot be read. Where the
 * system cannot do this (Linux before 5.14), the pages are read on first access. */
bool mem_populate(const void *data, size_t size_bytes);

/* Returns whole pages of memory that is no longer read to the system. On a later access, pages of a
 * mapped file are read again; other pages contain zeros. */
void mem_drop_pages(const void *data, size_t size_bytes);

/* False on overflow; *out is then unchanged. */
CHECKED bool mul_size(size_t a, size_t b, size_t *out);
CHECKED bool add_size(size_t a, size_t b, size_t *out);

/* Bump allocator with a limit, freed as a whole. Owned by one thread at a time. */
struct arena {
    struct arena_chunk *chunks;
    size_t used_bytes, limit_bytes;
};
void arena_init(struct arena *a, size_t limit_bytes);
void arena_release(struct arena *a);
/* Zeroed, aligned to 16 bytes; NULL beyond the limit. */
void *arena_try(struct arena *a, size_t size_bytes);
/* The reason why arena_try() returned NULL: OSP_ELIMIT, or OSP_ENOMEM if it was not the limit. */
enum osp_status arena_failure(const struct arena *a, size_t size_bytes, const char *what);

#endif
