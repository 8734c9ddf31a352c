/* Memory of the host. Small, fixed-size allocations abort when the system has none (mem_new);
 * anything whose size comes from a file, a request or a device goes through mem_try_* and is an
 * error of the world. All sizes are checked for overflow. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Zeroed memory or abort with a log line; free with free(). */
void *mem_new(size_t size_bytes);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n_bytes);
char *mem_printf(const char *format, ...) PRINTF_LIKE(1, 2); /* gives a string to free() */

/* Zeroed n * size bytes into *out (a `T **`); OSP_ENOMEM names what was asked for. n = 0 is
 * fine. */
CHECKED enum osp_status mem_try_array(void *out, size_t n, size_t size_bytes, const char *what);
/* Room in *items (a `T **`) for one more than the n that are there; it at least doubles, and
 * *capacity with it. What is new is not zeroed. mem_grow: or abort, for lists that stay small. */
CHECKED enum osp_status mem_try_grow(void *items, size_t n, size_t *capacity, size_t item_bytes,
                                     const char *what);
void mem_grow(void *items, size_t n, size_t *capacity, size_t item_bytes);
/* As mem_try_array, aligned to 64 bytes and not zeroed (free() releases it too). */
CHECKED enum osp_status mem_try_aligned(void *out, size_t n, size_t size_bytes, const char *what);

/* Same for what stays for long and is read often: from 2 MiB on aligned to that, in huge pages
 * where the system has them. Untouched, so that the thread which first writes decides where it
 * lies. */
CHECKED enum osp_status mem_try_hugepages(void *out, size_t n, size_t size_bytes, const char *what);

/* Brings the pages of mapped memory in for reading. False when the file behind it cannot be
 * read; where the system does not know how (Linux before 5.14) they come when they are touched,
 * as ever. */
bool mem_populate(const void *data, size_t size_bytes);

/* Gives the whole pages of memory that nobody reads any more back to the system: those of a mapped
 * file are read again when they are needed after all, others become zeros. */
void mem_drop_pages(const void *data, size_t size_bytes);

/* False on overflow; *out is then untouched. */
CHECKED bool mul_size(size_t a, size_t b, size_t *out);
CHECKED bool add_size(size_t a, size_t b, size_t *out);

/* Bump allocator with a cap, dropped whole. Owned by one thread at a time. */
struct arena {
    struct arena_chunk *chunks;
    size_t used_bytes, limit_bytes;
};
void arena_init(struct arena *a, size_t limit_bytes);
void arena_release(struct arena *a);
/* Zeroed, aligned to 16 bytes; NULL beyond the limit. */
void *arena_try(struct arena *a, size_t size_bytes);
/* Why arena_try() gave NULL: OSP_ELIMIT, or OSP_ENOMEM when the limit was not the reason. */
enum osp_status arena_failure(const struct arena *a, size_t size_bytes, const char *what);

#endif
