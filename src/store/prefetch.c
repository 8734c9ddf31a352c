/* Fills the page cache with a checkpoint: chunks of all files are read in parallel into small
 * buffers that are discarded, so that later page faults find their pages. Unlike touching the
 * mapping, a failing disk is an error code here. */
#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"

enum {
    CHUNK_BYTES = 8 * 1024 * 1024, /* long reads are fast on network file systems, too */
    BUFFER_BYTES = 256 * 1024,     /* stays in the L2 cache while it is overwritten */
    CHUNKS_A_THREAD = 4            /* chunks of one round, between two progress reports */
};

struct chunk {
    int file; /* index in the checkpoint's list of files */
    size_t begin, end;
};

struct prefetch {
    const struct checkpoint *checkpoint;
    int *fds;               /* (n_files) */
    unsigned char *buffers; /* (threads, BUFFER_BYTES) */
    struct chunk *chunks;   /* (n_chunks) */
    size_t n_chunks, first; /* first chunk of this round */
    int *errors;            /* (threads): errno, or -1 for an unexpected end of the file */
    int *error_files;       /* (threads) */
};

static size_t chunks_of(const struct st_file *f)
{
    return f->size_bytes / CHUNK_BYTES + (f->size_bytes % CHUNK_BYTES != 0);
}

static enum osp_status list_chunks(struct prefetch *p)
{
    const struct checkpoint *c = p->checkpoint;
    size_t n = 0;
    enum osp_status st;

    for (int i = 0; i < c->n_files; i++)
        n += chunks_of(&c->files[i]);
    TRY(mem_try_array(&p->chunks, n, sizeof *p->chunks, "the read plan of a checkpoint"));
    for (int i = 0; i < c->n_files; i++)
        for (size_t at = 0; at < c->files[i].size_bytes; at += CHUNK_BYTES) {
            size_t rest = c->files[i].size_bytes - at;
            size_t n_bytes = rest < CHUNK_BYTES ? rest : CHUNK_BYTES;

            p->chunks[p->n_chunks++] = (struct chunk){i, at, at + n_bytes};
        }
out:
    return st;
}

static enum osp_status open_all(struct prefetch *p)
{
    const struct checkpoint *c = p->checkpoint;

    for (int i = 0; i < c->n_files; i++) {
        p->fds[i] = open(c->files[i].path, O_RDONLY | O_CLOEXEC);
        if (p->fds[i] < 0)
            return fail(OSP_EIO, "%s: cannot reopen: %s", c->files[i].path, strerror(errno));
    }
    return OSP_OK;
}

static void read_chunk(void *ctx, int part, int worker)
{
    struct prefetch *p = ctx;
    const struct chunk *k = &p->chunks[p->first + (size_t)part];
    unsigned char *buffer = p->buffers + (size_t)worker * BUFFER_BYTES;

    for (size_t at = k->begin; at < k->end && p->errors[worker] == 0;) {
        size_t want = k->end - at < BUFFER_BYTES ? k->end - at : BUFFER_BYTES;
        ssize_t got = pread(p->fds[k->file], buffer, want, (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            p->errors[worker] = got < 0 ? errno : -1;
            p->error_files[worker] = k->file;
        } else {
            at += (size_t)got;
        }
    }
}

static enum osp_status check_errors(const struct prefetch *p, int n_threads)
{
    for (int i = 0; i < n_threads; i++)
        if (p->errors[i] != 0)
            return fail(OSP_EIO, "%s: cannot read: %s",
                        p->checkpoint->files[p->error_files[i]].path,
                        p->errors[i] < 0 ? "the file was truncated" : strerror(p->errors[i]));
    return OSP_OK;
}

static enum osp_status read_all(struct prefetch *p, struct pool *pool, load_progress_fn *progress,
                                void *ctx)
{
    size_t round = (size_t)pool_threads(pool) * CHUNKS_A_THREAD;
    int64_t done_bytes = 0;
    enum osp_status st = OSP_OK;

    for (p->first = 0; p->first < p->n_chunks; p->first += round) {
        size_t rest = p->n_chunks - p->first, n = rest < round ? rest : round;

        pool_run(pool, read_chunk, p, (int)n);
        TRY(check_errors(p, pool_threads(pool)));
        for (size_t i = p->first; i < p->first + n; i++)
            done_bytes += (int64_t)(p->chunks[i].end - p->chunks[i].begin);
        if (progress)
            progress(ctx, done_bytes, p->checkpoint->file_bytes);
    }
out:
    return st;
}

static enum osp_status prefetch_init(struct prefetch *p, const struct checkpoint *c, int n_threads)
{
    enum osp_status st;

    *p = (struct prefetch){.checkpoint = c};
    TRY(mem_try_array(&p->fds, (size_t)c->n_files, sizeof *p->fds, "files"));
    for (int i = 0; i < c->n_files; i++)
        p->fds[i] = -1;
    TRY(mem_try_array(&p->buffers, (size_t)n_threads, BUFFER_BYTES, "read buffers"));
    TRY(mem_try_array(&p->errors, (size_t)n_threads, sizeof *p->errors, "read errors"));
    TRY(mem_try_array(&p->error_files, (size_t)n_threads, sizeof *p->error_files, "read errors"));
    TRY(list_chunks(p));
    TRY(open_all(p));
out:
    return st;
}

static void prefetch_release(struct prefetch *p)
{
    for (int i = 0; p->fds && i < p->checkpoint->n_files; i++)
        if (p->fds[i] >= 0)
            close(p->fds[i]);
    free(p->fds);
    free(p->buffers);
    free(p->chunks);
    free(p->errors);
    free(p->error_files);
}

enum osp_status checkpoint_prefetch(const struct checkpoint *c, int n_threads,
                                    load_progress_fn *progress, void *ctx)
{
    struct prefetch p = {.checkpoint = c};
    struct pool *pool = NULL;
    enum osp_status st;

    TRY(pool_open(&pool, n_threads));
    TRY(prefetch_init(&p, c, pool_threads(pool)));
    TRY(read_all(&p, pool, progress, ctx));
out:
    prefetch_release(&p);
    pool_close(pool);
    return st;
}
