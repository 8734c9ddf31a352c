/* Checked allocation, and the arena: chunks of growing size that are freed together. */
#include "base/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

enum {
    CACHE_LINE_BYTES = 64,
    HUGE_PAGE_BYTES = 2 << 20,
    GROWN_ITEMS_MIN = 16,
    ARENA_ALIGN_BYTES = 16,
    ARENA_CHUNK_BYTES_MIN = 4 * 1024,
    ARENA_CHUNK_BYTES_MAX = 1024 * 1024, /* larger requests get a chunk of their own size */
};

bool mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

void *mem_new(size_t size_bytes)
{
    void *p = calloc(1, size_bytes ? size_bytes : 1);

    if (!p) {
        log_error("out of memory: %zu bytes", size_bytes);
        abort();
    }
    return p;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n_bytes)
{
    char *copy = mem_new(n_bytes + 1);

    if (n_bytes)
        memcpy(copy, s, n_bytes);
    return copy;
}

char *mem_printf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) {
        log_error("out of memory: a string of format \"%s\"", format);
        abort();
    }
    return text;
}

enum osp_status mem_try_array(void *out, size_t n, size_t size_bytes, const char *what)
{
    size_t total;
    void *p = NULL;

    if (mul_size(n, size_bytes, &total))
        p = calloc(1, total ? total : 1);
    if (!p)
        return fail(OSP_ENOMEM, "%s: out of memory: %zu times %zu bytes", what, n, size_bytes);
    memcpy(out, &p, sizeof p); /* `out` is a T ** for any T */
    return OSP_OK;
}

enum osp_status mem_try_grow(void *items, size_t n, size_t *capacity, size_t item_bytes,
                             const char *what)
{
    size_t wanted = *capacity < GROWN_ITEMS_MIN ? GROWN_ITEMS_MIN : *capacity * 2, total;
    void *p = NULL;

    if (n < *capacity)
        return OSP_OK;
    memcpy(&p, items, sizeof p); /* a T ** for any T */
    p = mul_size(wanted, item_bytes, &total) ? realloc(p, total) : NULL;
    if (!p)
        return fail(OSP_ENOMEM, "%s: out of memory: %zu times %zu bytes", what, wanted, item_bytes);
    memcpy(items, &p, sizeof p);
    *capacity = wanted;
    return OSP_OK;
}

void mem_grow(void *items, size_t n, size_t *capacity, size_t item_bytes)
{
    if (mem_try_grow(items, n, capacity, item_bytes, "a list") != OSP_OK) {
        log_error("out of memory: %s", fail_message());
        abort();
    }
}

enum osp_status mem_try_aligned(void *out, size_t n, size_t size_bytes, const char *what)
{
    size_t total, rounded;
    void *p = NULL;

    if (mul_size(n, size_bytes, &total) && add_size(total, CACHE_LINE_BYTES, &rounded))
        p = aligned_alloc(CACHE_LINE_BYTES, rounded / CACHE_LINE_BYTES * CACHE_LINE_BYTES);
    if (!p)
        return fail(OSP_ENOMEM, "%s: out of memory: %zu times %zu bytes", what, n, size_bytes);
    memcpy(out, &p, sizeof p);
    return OSP_OK;
}

enum osp_status mem_try_hugepages(void *out, size_t n, size_t size_bytes, const char *what)
{
    size_t total, rounded;
    void *p = NULL;

    if (!mul_size(n, size_bytes, &total) || total < HUGE_PAGE_BYTES)
        return mem_try_aligned(out, n, size_bytes, what);
    if (add_size(total, HUGE_PAGE_BYTES - 1, &rounded))
        p = aligned_alloc(HUGE_PAGE_BYTES, rounded / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
    if (!p)
        return fail(OSP_ENOMEM, "%s: out of memory: %zu times %zu bytes", what, n, size_bytes);
    (void)madvise(p, rounded / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES,
                  MADV_HUGEPAGE); /* if it fails, normal pages are used */
    memcpy(out, &p, sizeof p);
    return OSP_OK;
}

bool mem_populate(const void *data, size_t size_bytes)
{
#ifdef MADV_POPULATE_READ
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t begin = at / page * page, end = (at + size_bytes + page - 1) / page * page;
    int code;

    do
        code = madvise((void *)begin, end - begin, MADV_POPULATE_READ);
    while (code != 0 && (errno == EINTR || errno == EAGAIN));
    return code == 0 || errno == EINVAL;
#else
    (void)data;
    (void)size_bytes;
    return true;
#endif
}

void mem_drop_pages(const void *data, size_t size_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t begin = (at + page - 1) / page * page, end = (at + size_bytes) / page * page;

    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

struct arena_chunk {
    struct arena_chunk *next;
    size_t used_bytes, size_bytes;
    _Alignas(ARENA_ALIGN_BYTES) unsigned char data[];
};

void arena_init(struct arena *a, size_t limit_bytes)
{
    *a = (struct arena){.limit_bytes = limit_bytes};
}

void arena_release(struct arena *a)
{
    struct arena_chunk *chunk = a->chunks;

    while (chunk) {
        struct arena_chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    a->chunks = NULL;
    a->used_bytes = 0;
}

/* Chunks double, so that their number stays small; none exceeds the remaining limit. */
static size_t chunk_size(const struct arena *a, size_t wanted_bytes)
{
    size_t left = a->limit_bytes - a->used_bytes;
    size_t size = a->chunks ? a->chunks->size_bytes * 2 : ARENA_CHUNK_BYTES_MIN;

    if (size > ARENA_CHUNK_BYTES_MAX)
        size = ARENA_CHUNK_BYTES_MAX;
    if (size > left)
        size = left;
    return size > wanted_bytes ? size : wanted_bytes;
}

static struct arena_chunk *arena_grow(struct arena *a, size_t wanted_bytes)
{
    size_t size_bytes = chunk_size(a, wanted_bytes), total;
    struct arena_chunk *chunk;

    if (!add_size(size_bytes, sizeof *chunk, &total))
        return NULL;
    chunk = calloc(1, total);
    if (!chunk)
        return NULL;
    chunk->size_bytes = size_bytes;
    chunk->next = a->chunks;
    a->chunks = chunk;
    return chunk;
}

enum osp_status arena_failure(const struct arena *a, size_t size_bytes, const char *what)
{
    if (size_bytes + ARENA_ALIGN_BYTES <= a->limit_bytes - a->used_bytes)
        return fail(OSP_ENOMEM, "%s: out of memory: %zu bytes", what, size_bytes);
    return fail(OSP_ELIMIT, "%s: exceeds the limit of %zu bytes", what, a->limit_bytes);
}

void *arena_try(struct arena *a, size_t size_bytes)
{
    struct arena_chunk *chunk = a->chunks;
    size_t rounded;
    void *p;

    if (!add_size(size_bytes ? size_bytes : 1, ARENA_ALIGN_BYTES - 1, &rounded))
        return NULL;
    rounded -= rounded % ARENA_ALIGN_BYTES;
    if (rounded > a->limit_bytes - a->used_bytes)
        return NULL;
    if (!chunk || chunk->size_bytes - chunk->used_bytes < rounded)
        chunk = arena_grow(a, rounded);
    if (!chunk)
        return NULL;
    p = chunk->data + chunk->used_bytes;
    chunk->used_bytes += rounded;
    a->used_bytes += rounded;
    return p;
}
