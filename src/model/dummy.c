/* Generated weights: the tensors that the weight table asks for, laid out behind each other in one
 * anonymous mapping, and filled in parallel. Every chunk has a random stream of its own, so that the
 * values do not depend on the number of threads. */
#include "model/dummy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/weight_table.h"

enum {
    TENSORS_A_RULE_MAX = 2,     /* blocks and scales */
    ALIGN_BYTES = 64,           /* every tensor begins at a cache line */
    CHUNK_BYTES = 1 << 20,      /* of one random stream; a multiple of ALIGN_BYTES */
    CHUNKS_A_ROUND = 256,       /* between two reports of progress */
    NAMES_BYTES_MAX = 16 << 20, /* of all names, far above 36 layers of 23 tensors */
    SEED = 20                   /* of all dummy weights */
};

enum content { CONTENT_NORMAL, CONTENT_NEAR_ONE, CONTENT_BLOCKS, CONTENT_SCALES };

/* A tensor and how it is filled. */
struct filling {
    struct st_tensor tensor; /* its data is an offset until the memory is there */
    enum content content;
    float deviation;  /* NORMAL */
    uint8_t exponent; /* SCALES: E8M0 of the larger of two scales */
    size_t offset_bytes;
};

struct generator {
    const struct gptoss_config *c;
    int64_t letters[N_LETTERS];
    struct filling *fillings; /* (n) */
    size_t n, size_bytes;
    struct arena *names; /* of the file that is made */
    unsigned char *memory;
    size_t first_chunk; /* of the round */
};

/* ---- the list of tensors ---- */

static void add(struct generator *g, struct filling f, int layer, const char *name,
                const char *suffix)
{
    char whole[WEIGHT_NAME_BYTES];
    char *kept;

    f.tensor.size_bytes = st_dtype_bytes(f.tensor.dtype);
    for (int i = 0; i < f.tensor.n_dims; i++)
        f.tensor.size_bytes *= (size_t)f.tensor.dim[i];
    f.offset_bytes = g->size_bytes;
    g->size_bytes += (f.tensor.size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (g->names != NULL) {
        weight_name(whole, g->c, layer, name, suffix);
        kept = arena_try(g->names, strlen(whole) + 1);
        f.tensor.name = kept != NULL ? strcpy(kept, whole) : NULL;
        g->fillings[g->n] = f;
    }
    g->n++;
}

/* Deviation of the sixteen e2m1 values, drawn evenly: sqrt(2 * (0.25 + 1 + ... + 36) / 16). */
static const double E2M1_DEVIATION = 2.926;

static uint8_t scale_exponent(int64_t n_columns)
{
    return (uint8_t)(127 + lround(-log2(sqrt((double)n_columns) * E2M1_DEVIATION) + 0.5));
}

static void add_experts(struct generator *g, const struct weight_rule *rule, int layer,
                        struct filling f)
{
    const int64_t n_columns = f.tensor.dim[2];

    f.tensor.dtype = ST_U8;
    f.tensor.dim[2] = n_columns / MXFP4_BLOCK;
    f.tensor.dim[3] = MXFP4_BLOCK_BYTES;
    f.tensor.n_dims = 4;
    f.content = CONTENT_BLOCKS;
    add(g, f, layer, rule->name, mxfp4_blocks_suffix(g->c));
    f.tensor.n_dims = 3;
    f.content = CONTENT_SCALES;
    f.exponent = scale_exponent(n_columns);
    add(g, f, layer, rule->name, mxfp4_scales_suffix(g->c));
}

static void add_rule(struct generator *g, const struct weight_rule *rule, int layer)
{
    struct filling f = {.tensor = {.dtype = ST_BF16}, .deviation = 0.02f};

    if (weight_rule_name(rule, g->c) == NULL)
        return;
    while (f.tensor.n_dims < 3 && rule->shape[f.tensor.n_dims] != L_NONE) {
        f.tensor.dim[f.tensor.n_dims] = g->letters[rule->shape[f.tensor.n_dims]];
        f.tensor.n_dims++;
    }
    if (rule->form == FORM_EXPERTS) {
        add_experts(g, rule, layer, f);
        return;
    }
    if (rule->part == PART_NORM)
        f.content = CONTENT_NEAR_ONE;
    if (rule->form == FORM_MATRIX)
        f.deviation = 1.0f / sqrtf((float)f.tensor.dim[1]);
    if (rule->part == PART_EMBED)
        f.deviation = 1.0f;
    add(g, f, layer, rule->name, "");
}

/* Without names it only counts. */
static void list_tensors(struct generator *g, const struct gptoss_config *c)
{
    g->c = c;
    g->n = g->size_bytes = 0;
    weight_letters(g->letters, c);
    for (int i = 0; i < n_global_rules; i++)
        add_rule(g, &global_rules[i], -1);
    for (int layer = 0; layer < c->n_layers; layer++)
        for (int i = 0; i < n_layer_rules; i++)
            add_rule(g, &layer_rules[i], layer);
}

int64_t dummy_bytes(const struct gptoss_config *c)
{
    struct generator g = {.names = NULL};

    list_tensors(&g, c);
    return (int64_t)g.size_bytes;
}

/* ---- values ---- */

/* xorshift64*: fast, and good enough for numbers that nobody reads. */
static uint64_t next_word(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

/* Normal enough: the sum of four bytes, with mean 0 and deviation 1. */
static float normal_of(uint32_t bytes)
{
    const int sum =
        (int)((bytes & 0xFF) + (bytes >> 8 & 0xFF) + (bytes >> 16 & 0xFF) + (bytes >> 24));

    return (float)(sum - 510) * (1.0f / 147.8f); /* sqrt(4 * (256^2 - 1) / 12) */
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x8000) >> 16);
}

static void fill_bf16(unsigned char *out, size_t n_bytes, const struct filling *f, uint64_t *state)
{
    const bool near_one = f->content == CONTENT_NEAR_ONE;
    const float middle = near_one ? 1.0f : 0.0f, deviation = near_one ? 0.1f : f->deviation;
    uint64_t word = 0;

    for (size_t i = 0; i < n_bytes / 2; i++) {
        uint16_t value;

        word = i % 2 == 0 ? next_word(state) : word >> 32;
        value = to_bf16(middle + deviation * normal_of((uint32_t)word));
        memcpy(out + 2 * i, &value, sizeof value);
    }
}

static void fill_bytes(unsigned char *out, size_t n_bytes, const struct filling *f, uint64_t *state)
{
    for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
        uint64_t word = next_word(state);

        if (f->content == CONTENT_SCALES)
            word = 0x0101010101010101u * f->exponent - (word & 0x0101010101010101u);
        memcpy(out + i, &word, n_bytes - i < sizeof word ? n_bytes - i : sizeof word);
    }
}

/* The tensor that holds the byte at this offset: the last that begins at or before it. */
static const struct filling *filling_at(const struct generator *g, size_t offset_bytes)
{
    size_t low = 0, high = g->n;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (g->fillings[middle].offset_bytes <= offset_bytes)
            low = middle;
        else
            high = middle;
    }
    return &g->fillings[low];
}

/* A chunk's part of one tensor. */
static void fill_part(struct generator *g, const struct filling *f, size_t begin, size_t end,
                      uint64_t *state)
{
    const size_t end_of_data = f->offset_bytes + f->tensor.size_bytes;

    if (end > end_of_data)
        end = end_of_data;
    if (begin >= end)
        return;
    if (f->tensor.dtype == ST_BF16)
        fill_bf16(g->memory + begin, end - begin, f, state);
    else
        fill_bytes(g->memory + begin, end - begin, f, state);
}

static void fill_chunk(void *ctx, int part, int worker)
{
    struct generator *g = ctx;
    const size_t chunk = g->first_chunk + (size_t)part;
    const size_t begin = chunk * CHUNK_BYTES;
    const size_t end = begin + CHUNK_BYTES < g->size_bytes ? begin + CHUNK_BYTES : g->size_bytes;
    const struct filling *last = g->fillings + g->n - 1;
    uint64_t state = rng_bits(SEED, chunk, 0) | 1;

    (void)worker;
    for (const struct filling *f = filling_at(g, begin); f <= last && f->offset_bytes < end; f++)
        fill_part(g, f, f->offset_bytes > begin ? f->offset_bytes : begin, end, &state);
}

static enum osp_status fill_all(struct generator *g, int n_threads, load_progress_fn *progress,
                                void *ctx)
{
    const size_t n_chunks = (g->size_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    struct pool *pool = NULL;
    enum osp_status st;

    TRY(pool_open(&pool, n_threads));
    for (g->first_chunk = 0; g->first_chunk < n_chunks; g->first_chunk += CHUNKS_A_ROUND) {
        size_t rest = n_chunks - g->first_chunk, n = rest < CHUNKS_A_ROUND ? rest : CHUNKS_A_ROUND;
        size_t done = (g->first_chunk + n) * CHUNK_BYTES;

        pool_run(pool, fill_chunk, g, (int)n);
        if (progress)
            progress(ctx, (int64_t)(done < g->size_bytes ? done : g->size_bytes),
                     (int64_t)g->size_bytes);
    }
out:
    pool_close(pool);
    return st;
}

/* ---- the checkpoint ---- */

static int compare_tensors(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static enum osp_status list_in_file(struct generator *g, struct st_file *file)
{
    enum osp_status st;

    TRY(mem_try_array(&file->tensors, g->n, sizeof *file->tensors, "tensors"));
    for (size_t i = 0; i < g->n; i++) {
        if (g->fillings[i].tensor.name == NULL)
            return fail(OSP_ENOMEM, "names of %zu tensors take more than %d bytes", g->n,
                        (int)NAMES_BYTES_MAX);
        file->tensors[i] = g->fillings[i].tensor;
        file->tensors[i].data = g->memory + g->fillings[i].offset_bytes;
        file->data_bytes += file->tensors[i].size_bytes;
    }
    file->n_tensors = g->n;
    file->size_bytes = g->size_bytes;
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_tensors);
out:
    return st;
}

static enum osp_status map_memory(struct generator *g, struct st_file *file)
{
    char size[16];
    void *memory =
        mmap(NULL, g->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return fail(OSP_ENOMEM, "no memory for %s of dummy weights: %s",
                    format_bytes(size, (double)g->size_bytes), strerror(errno));
    g->memory = memory;
    file->map = (struct file_map){.data = memory, .size_bytes = g->size_bytes};
    return OSP_OK;
}

static enum osp_status make_file(struct generator *g, struct st_file *file)
{
    size_t n_rules = (size_t)n_global_rules + (size_t)g->c->n_layers * (size_t)n_layer_rules;
    enum osp_status st;

    file->path = mem_strdup("dummy");
    arena_init(&file->names, NAMES_BYTES_MAX);
    g->names = &file->names;
    TRY(mem_try_array(&g->fillings, n_rules * TENSORS_A_RULE_MAX, sizeof *g->fillings, "tensors"));
    list_tensors(g, g->c);
    TRY(map_memory(g, file));
    TRY(list_in_file(g, file));
out:
    return st;
}

enum osp_status dummy_checkpoint(struct checkpoint *out, const struct gptoss_config *c,
                                 int n_threads, load_progress_fn *progress, void *ctx)
{
    struct generator g = {.c = c};
    enum osp_status st;

    memset(out, 0, sizeof *out);
    out->config = *c;
    out->path = mem_strdup("dummy");
    TRY(mem_try_array(&out->files, 1, sizeof *out->files, "shards"));
    out->n_files = 1;
    TRY(make_file(&g, &out->files[0]));
    out->n_tensors = (int64_t)out->files[0].n_tensors;
    out->data_bytes = (int64_t)out->files[0].data_bytes;
    out->file_bytes = (int64_t)out->files[0].size_bytes;
    TRY(fill_all(&g, n_threads, progress, ctx));
out:
    free(g.fillings);
    if (st != OSP_OK)
        checkpoint_close(out);
    return st;
}
