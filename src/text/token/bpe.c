/* Two implementations of the same merges. Short pieces, which is nearly all: an array of parts,
 * searched for the best pair each time. Long pieces: parts in a doubly linked list and their pairs
 * in a heap ordered by rank, then by position. A pair that has changed meanwhile is discarded when
 * it is popped. */
#include "text/token/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/memory.h"

/* Both take the same time from 60 to 200 bytes; at 400 the array takes 1.6 times as long. */
enum { SHORT_BYTES_MAX = 128 };
enum { NO_PAIR = INT32_MAX };
enum { CANCEL_STEPS = 4096 }; /* between two checks: less than a millisecond */

static enum osp_status append(struct ids *out, int32_t id)
{
    if (ids_push(out, id))
        return OSP_OK;
    return ids_failure(out, "text");
}

/* Rank of the token with these bytes, as a pair to merge. */
static int32_t pair_rank(const struct vocab *v, const char *bytes, size_t n_bytes)
{
    int32_t id = -1;

    if (n_bytes == 2)
        id = vocab_find_pair(v, bytes);
    else if (n_bytes <= v->token_bytes_max)
        id = vocab_find(v, bytes, n_bytes);
    return id < 0 ? NO_PAIR : id;
}

/* ---- short pieces ---- */

struct part {
    uint32_t start;
    int32_t id;   /* the token of the part */
    int32_t rank; /* rank of the token formed by merging it with the next part */
};

static int best_part(const struct part *parts, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (parts[i].rank < parts[best].rank)
            best = i;
    return best;
}

/* Sets the rank of part i with its successor; parts[n] is the end. */
static void rank_part(const struct vocab *v, const char *piece, struct part *parts, int n, int i)
{
    parts[i].rank = NO_PAIR;
    if (i + 1 < n)
        parts[i].rank = pair_rank(v, piece + parts[i].start, parts[i + 2].start - parts[i].start);
}

static void merge_parts(const struct vocab *v, const char *piece, struct part *parts, int *n, int i)
{
    parts[i].id = parts[i].rank;
    memmove(&parts[i + 1], &parts[i + 2], (size_t)(*n - i - 1) * sizeof *parts);
    (*n)--;
    rank_part(v, piece, parts, *n, i);
    if (i > 0)
        rank_part(v, piece, parts, *n, i - 1);
}

static enum osp_status encode_short(const struct vocab *v, const char *piece, int n,
                                    struct ids *out)
{
    struct part parts[SHORT_BYTES_MAX + 1];
    enum osp_status st = OSP_OK;
    int best;

    for (int i = 0; i <= n; i++)
        parts[i].start = (uint32_t)i;
    for (int i = 0; i < n; i++) {
        parts[i].id = v->byte_ids[(unsigned char)piece[i]];
        rank_part(v, piece, parts, n, i);
    }
    while (best = best_part(parts, n), parts[best].rank != NO_PAIR)
        merge_parts(v, piece, parts, &n, best);
    for (int i = 0; i < n; i++)
        TRY(append(out, parts[i].id));
out:
    return st;
}

/* ---- long pieces ---- */

/* A part, stored at the index of its first byte. */
struct link {
    uint32_t previous; /* start of the previous part; its own start for the first */
    uint32_t next;     /* start of the next part; the piece's length for the last */
    int32_t id, rank;
};

struct merger {
    const struct vocab *v;
    const char *piece;
    uint32_t n_bytes;
    struct link *links; /* by start */
    uint64_t *heap;     /* rank << 32 | start, smallest first */
    size_t n_heap;
};

static void heap_sink(uint64_t *heap, size_t n, size_t at)
{
    uint64_t item = heap[at];

    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= item)
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static void heap_push(struct merger *m, uint64_t item)
{
    size_t at = m->n_heap++;

    for (; at > 0 && m->heap[(at - 1) / 2] > item; at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = item;
}

static uint64_t heap_pop(struct merger *m)
{
    uint64_t top = m->heap[0];

    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap)
        heap_sink(m->heap, m->n_heap, 0);
    return top;
}

/* Sets the rank of the part at `start` with its successor. */
static void rank_link(struct merger *m, uint32_t start)
{
    struct link *l = &m->links[start];

    l->rank = NO_PAIR;
    if (l->next < m->n_bytes)
        l->rank = pair_rank(m->v, m->piece + start, m->links[l->next].next - start);
}

static void rank_and_push(struct merger *m, uint32_t start)
{
    rank_link(m, start);
    if (m->links[start].rank != NO_PAIR)
        heap_push(m, (uint64_t)m->links[start].rank << 32 | start);
}

static void merge_links(struct merger *m, uint32_t start)
{
    struct link *l = &m->links[start];
    struct link *gone = &m->links[l->next];

    l->id = l->rank;
    l->next = gone->next;
    gone->rank = NO_PAIR;
    if (l->next < m->n_bytes)
        m->links[l->next].previous = start;
    rank_and_push(m, start);
    if (l->previous != start)
        rank_and_push(m, l->previous);
}

static enum osp_status canceled(const struct merger *m)
{
    return fail(OSP_ECANCELED, "encoding of a word of %u bytes was canceled", (unsigned)m->n_bytes);
}

/* Creates one part per byte, and the heap of all pairs. */
static enum osp_status merger_fill(struct merger *m)
{
    for (uint32_t i = 0; i < m->n_bytes; i++)
        m->links[i] = (struct link){.previous = i ? i - 1 : 0,
                                    .next = i + 1,
                                    .id = m->v->byte_ids[(unsigned char)m->piece[i]]};
    for (uint32_t i = 0; i < m->n_bytes; i++) {
        if (i % CANCEL_STEPS == 0 && cancel_is_set())
            return canceled(m);
        rank_link(m, i);
        if (m->links[i].rank != NO_PAIR)
            m->heap[m->n_heap++] = (uint64_t)m->links[i].rank << 32 | i;
    }
    for (size_t i = m->n_heap / 2; i-- > 0;)
        heap_sink(m->heap, m->n_heap, i);
    return OSP_OK;
}

static enum osp_status merge_all(struct merger *m)
{
    for (size_t i = 0; m->n_heap; i++) {
        uint64_t item = heap_pop(m);
        uint32_t start = (uint32_t)item;

        if (i % CANCEL_STEPS == 0 && cancel_is_set())
            return canceled(m);
        if (m->links[start].rank == (int32_t)(item >> 32))
            merge_links(m, start);
    }
    return OSP_OK;
}

/* A merge pops one item and pushes at most two, so two items per byte are enough. */
static enum osp_status encode_long(const struct vocab *v, const char *piece, uint32_t n_bytes,
                                   struct ids *out)
{
    struct merger m = {.v = v, .piece = piece, .n_bytes = n_bytes};
    enum osp_status st;

    TRY(mem_try_array(&m.links, n_bytes, sizeof *m.links, "a long word"));
    TRY(mem_try_array(&m.heap, 2 * (size_t)n_bytes, sizeof *m.heap, "a long word"));
    TRY(merger_fill(&m));
    TRY(merge_all(&m));
    for (uint32_t i = 0; i < n_bytes; i = m.links[i].next)
        TRY(append(out, m.links[i].id));
out:
    free(m.links);
    free(m.heap);
    return st;
}

enum osp_status bpe_encode(const struct vocab *v, const char *piece, size_t n_bytes,
                           struct ids *out)
{
    int32_t whole = pair_rank(v, piece, n_bytes);

    if (whole != NO_PAIR)
        return append(out, whole);
    if (n_bytes <= SHORT_BYTES_MAX)
        return encode_short(v, piece, (int)n_bytes, out);
    if (n_bytes > BPE_PIECE_BYTES_MAX)
        return fail(OSP_ELIMIT, "a word has %zu bytes, limit is %d", n_bytes, BPE_PIECE_BYTES_MAX);
    return encode_long(v, piece, (uint32_t)n_bytes, out);
}
