#include "cpu/matmul/pack.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/kernels/exp4.h"

enum {
    VECTOR_COLUMNS = 8, /* columns in a vector of 64 bytes */
    VECTOR_BYTES = 64,
    VECTORS = MXFP4_BLOCK / VECTOR_COLUMNS /* vectors in a block */
};

int64_t packed_group_bytes(int64_t n_columns)
{
    return group_bytes((int)(n_columns / MXFP4_BLOCK));
}

static int64_t groups_of(int64_t n_rows)
{
    return (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
}

/* ---- packing ---- */

/* The source on the host, and the destination. */
struct pack_run {
    const struct tensor *host;
    char *data;
    int64_t n_rows, n_columns;
};

/* The nibbles of the lower two bytes of each dword go to the low halves of its four bytes, those of
 * the upper two bytes to the high halves. */
static u32x4 interleave(u32x4 codes)
{
    u32x4 low = codes & 0xFFFFu, high = codes >> 16;

    low = (low | low << 8) & 0x00FF00FFu;
    low = (low | low << 4) & 0x0F0F0F0Fu;
    high = (high | high << 8) & 0x00FF00FFu;
    high = (high | high << 4) & 0x0F0F0F0Fu;
    return low | high << 4;
}

/* A row's block is sixteen bytes; dword v of them goes to vector v. */
static void pack_row(unsigned char *group, const uint8_t *blocks, const uint8_t *scales, int r,
                     int64_t n_columns)
{
    for (int b = 0; b < (int)(n_columns / MXFP4_BLOCK); b++) {
        unsigned char *to = group + group_codes_at(b) + 4 * r;
        u32x4 codes;

        memcpy(&codes, blocks + (ptrdiff_t)b * MXFP4_BLOCK_BYTES, sizeof(codes));
        codes = interleave(codes);
        for (int v = 0; v < VECTORS; v++) {
            const uint32_t word = codes[v];

            memcpy(to + v * VECTOR_BYTES, &word, sizeof(word));
        }
        group[group_scales_at(b) + r] = scales[b];
    }
}

/* The last line of scales may be partial: zeros for the blocks that do not exist. */
static void clear_last_scales(unsigned char *group, int n_blocks)
{
    const int n_last = n_blocks % GROUP_LINE_BLOCKS;

    if (n_last != 0)
        memset(group + group_scales_at(n_blocks - n_last) + n_last * GROUP_ROWS, 0,
               (size_t)(GROUP_LINE_BLOCKS - n_last) * GROUP_ROWS);
}

/* Rows after the last one are zeros. */
static void pack_group(const struct pack_run *run, int64_t e, int64_t g)
{
    const int64_t K = run->n_columns, n_bytes = packed_group_bytes(K);
    unsigned char *group = (unsigned char *)run->data + (e * groups_of(run->n_rows) + g) * n_bytes;
    const int64_t first = g * GROUP_ROWS, n_left = run->n_rows - first;
    const int n = n_left < GROUP_ROWS ? (int)n_left : GROUP_ROWS;

    if (n < GROUP_ROWS)
        memset(group, 0, (size_t)n_bytes);
    else
        clear_last_scales(group, (int)(K / MXFP4_BLOCK));
    for (int r = 0; r < n; r++) {
        const int64_t block = (e * run->n_rows + first + r) * (K / MXFP4_BLOCK);

        pack_row(group, (const uint8_t *)run->host->data + block * MXFP4_BLOCK_BYTES,
                 (const uint8_t *)run->host->scales + block, r, K);
    }
}

static void pack_tiles(void *ctx, int job, int first, int end, int worker)
{
    (void)worker;
    for (int g = first; g < end; g++)
        pack_group(ctx, job, g);
}

enum osp_status cpu_weight_alloc(struct cpu *cpu, char **out, size_t n, size_t size_bytes)
{
    struct packed *p;
    enum osp_status st;

    TRY(mem_try_hugepages(out, n, size_bytes, "packed weights"));
    p = mem_new(sizeof(*p));
    *p = (struct packed){.next = cpu->packed, .data = *out};
    cpu->packed = p;
out:
    return st;
}

static bool is_packed_here(const struct cpu *cpu, const struct tensor *host)
{
    return host->dtype == DTYPE_MXFP4 && host->layout == LAYOUT_ROWS &&
           cpu->kernels->gemm_int8 != NULL;
}

int64_t cpu_packed_bytes(const struct cpu *cpu, const struct tensor *host)
{
    if (!is_packed_here(cpu, host))
        return 0;
    return (host->n_dims == 3 ? host->dim[0] : 1) * groups_of(host->dim[host->n_dims - 2]) *
           packed_group_bytes(host->dim[host->n_dims - 1]);
}

enum osp_status cpu_pack_tensor(struct cpu *cpu, struct tensor *out, const struct tensor *host)
{
    const int n_stacked = host->n_dims == 3 ? (int)host->dim[0] : 1;
    struct pack_run run = {.host = host};
    enum osp_status st;

    *out = *host;
    if (!is_packed_here(cpu, host))
        return OSP_OK;
    assert(host->n_dims == 2 || host->n_dims == 3);
    run.n_rows = host->dim[host->n_dims - 2];
    run.n_columns = host->dim[host->n_dims - 1];
    TRY(cpu_weight_alloc(cpu, &run.data, (size_t)(n_stacked * groups_of(run.n_rows)),
                         (size_t)packed_group_bytes(run.n_columns)));
    TRY(cpu_run_owned_tiles(cpu, n_stacked, (int32_t)groups_of(run.n_rows), pack_tiles, &run));
    out->data = run.data;
    out->scales = NULL;
    out->layout = LAYOUT_PACKED;
out:
    return st;
}

void cpu_pack_release(struct cpu *cpu)
{
    while (cpu->packed != NULL) {
        struct packed *p = cpu->packed;

        cpu->packed = p->next;
        free(p->data);
        free(p);
    }
}

/* ---- reading ---- */

struct tensor matrix_of(const struct tensor *stack, int64_t e)
{
    struct tensor t = *stack;
    int64_t n = 1;

    t.n_dims--;
    for (int i = 0; i < t.n_dims; i++) {
        t.dim[i] = stack->dim[i + 1];
        n *= t.dim[i];
    }
    if (t.layout == LAYOUT_PACKED) {
        t.data = (char *)t.data + e * groups_of(t.dim[0]) * packed_group_bytes(t.dim[1]);
    } else if (t.dtype == DTYPE_MXFP4) {
        t.data = (char *)t.data + e * n / 2;
        t.scales = (const char *)t.scales + e * n / MXFP4_BLOCK;
    } else {
        t.data = (char *)t.data + e * n * (t.dtype == DTYPE_BF16 ? 2 : 4);
    }
    return t;
}

/* The inverse of interleave(), for one dword. */
static uint32_t separate(uint32_t word)
{
    uint32_t low = word & 0x0F0F0F0Fu, high = word >> 4 & 0x0F0F0F0Fu;

    low = (low | low >> 4) & 0x00FF00FFu;
    low = (low | low >> 8) & 0x0000FFFFu;
    high = (high | high >> 4) & 0x00FF00FFu;
    high = (high | high >> 8) & 0x0000FFFFu;
    return low | high << 16;
}

static void packed_row_widen(const struct kernels *k, float *out, const struct tensor *w,
                             int64_t row)
{
    const int64_t K = w->dim[1];
    const unsigned char *group =
        (const unsigned char *)w->data + row / GROUP_ROWS * packed_group_bytes(K);
    const int r = (int)(row % GROUP_ROWS);

    for (int b = 0; b < (int)(K / MXFP4_BLOCK); b++) {
        const uint8_t scale = group[group_scales_at(b) + r];
        uint8_t codes[MXFP4_BLOCK_BYTES];

        for (int v = 0; v < VECTORS; v++) {
            uint32_t word;

            memcpy(&word, group + group_codes_at(b) + v * VECTOR_BYTES + 4 * r, sizeof(word));
            word = separate(word);
            memcpy(codes + 4 * v, &word, sizeof(word));
        }
        k->dequant_mxfp4(out + (ptrdiff_t)b * MXFP4_BLOCK, codes, &scale, MXFP4_BLOCK);
    }
}

void row_widen(const struct kernels *k, float *out, const struct tensor *w, int64_t row)
{
    assert(w->layout != LAYOUT_COLUMNS);
    if (w->layout == LAYOUT_PACKED)
        packed_row_widen(k, out, w, row);
    else
        cpu_widen(k, out, w, row * w->dim[1], w->dim[1]);
}
