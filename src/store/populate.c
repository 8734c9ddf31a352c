#include "store/populate.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/pool.h"

enum {
    CHUNK_BYTES = 8 << 20,
    ROUND_CHUNKS = 64,   /* chunks between two progress reports */
    MEMORY_PER_CENT = 90 /* of the machine's memory: larger weights are not populated */
};

struct populate {
    struct mapped_region *chunks; /* (n) */
    size_t n, first;              /* first chunk of this round */
    atomic_bool failed;
};

static size_t chunks_of(const struct mapped_region *p)
{
    return p->size_bytes / CHUNK_BYTES + (p->size_bytes % CHUNK_BYTES != 0);
}

static size_t sum_bytes(const struct mapped_region *regions, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += regions[i].size_bytes;
    return sum;
}

static bool fits_memory(size_t n_bytes)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

    return n_bytes > 0 && (double)n_bytes <= memory / 100 * MEMORY_PER_CENT;
}

static enum osp_status list_chunks(struct populate *p, const struct mapped_region *regions,
                                   size_t n)
{
    size_t n_chunks = 0;
    enum osp_status st;

    for (size_t i = 0; i < n; i++)
        n_chunks += chunks_of(&regions[i]);
    TRY(mem_try_array(&p->chunks, n_chunks, sizeof *p->chunks, "the read plan of mapped weights"));
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < regions[i].size_bytes; at += CHUNK_BYTES) {
            const size_t rest = regions[i].size_bytes - at;

            p->chunks[p->n++] = (struct mapped_region){(const char *)regions[i].data + at,
                                                       rest < CHUNK_BYTES ? rest : CHUNK_BYTES};
        }
out:
    return st;
}

static void populate_chunk(void *ctx, int part, int worker)
{
    struct populate *p = ctx;
    const struct mapped_region *chunk = &p->chunks[p->first + (size_t)part];

    (void)worker;
    if (!mem_populate(chunk->data, chunk->size_bytes))
        atomic_store(&p->failed, true);
}

static enum osp_status populate_all(struct populate *p, struct pool *pool, size_t total_bytes,
                                    load_progress_fn *progress, void *ctx)
{
    size_t done_bytes = 0;

    for (p->first = 0; p->first < p->n; p->first += ROUND_CHUNKS) {
        const size_t rest = p->n - p->first, n = rest < ROUND_CHUNKS ? rest : ROUND_CHUNKS;

        pool_run(pool, populate_chunk, p, (int)n);
        if (atomic_load(&p->failed))
            return fail(OSP_EIO,
                        "cannot read the mapped weights: the disk fails, or a file was truncated");
        done_bytes += sum_bytes(p->chunks + p->first, n);
        if (progress)
            progress(ctx, (int64_t)done_bytes, (int64_t)total_bytes);
    }
    return OSP_OK;
}

enum osp_status regions_populate(const struct mapped_region *regions, size_t n, int n_threads,
                                 load_progress_fn *progress, void *ctx)
{
    const size_t total_bytes = sum_bytes(regions, n);
    struct populate p = {.chunks = NULL};
    struct pool *pool = NULL;
    enum osp_status st;

    if (!fits_memory(total_bytes))
        return OSP_OK;
    TRY(pool_open(&pool, n_threads));
    TRY(list_chunks(&p, regions, n));
    TRY(populate_all(&p, pool, total_bytes, progress, ctx));
out:
    free(p.chunks);
    pool_close(pool);
    return st;
}
