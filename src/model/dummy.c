/* Generates weights without a checkpoint: all tensors of the weight table, one after the other in
 * one anonymous mapping. The host fills it in parallel. If the device generates its own weights,
 * the host fills only the vectors; pages that are never touched use no memory. */
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
    TENSORS_PER_RULE_MAX = 2,   /* blocks and scales */
    ALIGN_BYTES = 64,           /* every tensor begins at a cache line */
    CHUNK_BYTES = 1 << 20,      /* unit of the parallel loop; a multiple of ALIGN_BYTES */
    CHUNKS_PER_ROUND = 256,     /* between two calls of progress */
    NAMES_BYTES_MAX = 16 << 20, /* far above the names of 36 layers of 23 tensors */
    SEED = 20                   /* of all dummy weights */
};

/* A layer then adds a vector of about half a standard deviation to the residual stream: small
 * beside it, as in trained models. So a rounding error that changes one selected expert does not
 * change all that follows. */
static const float EMBED_DEVIATION = 4;
/* Attention passes on what tokens have in common and averages out the rest. At full strength the
 * tokens of a text would converge on the same experts. */
static const float ATTN_OUT_FACTOR = 0.5f;

/* A tensor and how it is filled. */
struct fill_job {
    struct st_tensor tensor; /* data is an offset until the memory is mapped */
    struct random_fill values;
    size_t offset_bytes;
};

struct dummy {
    const struct gptoss_config *c;
    int64_t letters[N_LETTERS];
    struct fill_job *fill_jobs; /* (n) */
    size_t n, size_bytes;
    struct arena *names;   /* names in the file; NULL: only count */
    unsigned char *memory; /* owned by the checkpoint */
    size_t first_chunk;    /* of the current round */
};

/* ---- the list of tensors ---- */

static void add(struct dummy *g, struct fill_job f, int layer, const char *name, const char *suffix)
{
    char whole[WEIGHT_NAME_BYTES];
    char *kept;

    f.tensor.size_bytes = st_dtype_bytes(f.tensor.dtype);
    for (int i = 0; i < f.tensor.n_dims; i++)
        f.tensor.size_bytes *= (size_t)f.tensor.dim[i];
    f.offset_bytes = g->size_bytes;
    f.values.key = rng_bits(SEED, g->n, 0);
    g->size_bytes += (f.tensor.size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (g->names != NULL) {
        weight_name(whole, g->c, layer, name, suffix);
        kept = arena_try(g->names, strlen(whole) + 1);
        f.tensor.name = kept != NULL ? strcpy(kept, whole) : NULL;
        g->fill_jobs[g->n] = f;
    }
    g->n++;
}

/* Standard deviation of the sixteen e2m1 values, uniform: sqrt(2 * (0.25 + 1 + ... + 36) / 16). */
static const double E2M1_DEVIATION = 2.926;

static uint8_t scale_exponent(float deviation)
{
    return (uint8_t)(127 + lround(log2((double)deviation / E2M1_DEVIATION) + 0.5));
}

void dummy_matrix(struct random_weight *out, int64_t n_columns, uint64_t data_key,
                  uint64_t scales_key)
{
    *out = (struct random_weight){
        .data = {.key = data_key, .content = CONTENT_CODES},
        .scales = {.key = scales_key,
                   .content = CONTENT_SCALES,
                   .exponent = scale_exponent(1.0f / sqrtf((float)n_columns))}};
}

static void add_mxfp4(struct dummy *g, const struct weight_rule *rule, int layer, struct fill_job f)
{
    const int last = f.tensor.n_dims - 1;

    f.tensor.dtype = ST_U8;
    f.tensor.dim[last] /= MXFP4_BLOCK;
    f.tensor.dim[f.tensor.n_dims++] = MXFP4_BLOCK_BYTES;
    f.values.content = CONTENT_CODES;
    add(g, f, layer, rule->names[CHECKPOINT_HF], mxfp4_blocks_suffix(g->c));
    f.tensor.n_dims--;
    f.values.content = CONTENT_SCALES;
    f.values.exponent = scale_exponent(f.values.deviation);
    add(g, f, layer, rule->names[CHECKPOINT_HF], mxfp4_scales_suffix(g->c));
}

static void add_rule(struct dummy *g, const struct weight_rule *rule, int layer)
{
    struct fill_job f = {.tensor = {.dtype = ST_BF16}, .values = {.deviation = 0.02f}};

    if (weight_rule_name(rule, g->c) == NULL)
        return;
    while (f.tensor.n_dims < 3 && rule->shape[f.tensor.n_dims] != L_NONE) {
        f.tensor.dim[f.tensor.n_dims] = g->letters[rule->shape[f.tensor.n_dims]];
        f.tensor.n_dims++;
    }
    if (rule->part == PART_NORM)
        f.values = (struct random_fill){.content = CONTENT_NEAR_ONE, .deviation = 0.1f};
    if (rule->weight_kind != WEIGHT_VECTOR)
        f.values.deviation = 1.0f / sqrtf((float)f.tensor.dim[f.tensor.n_dims - 1]);
    if (rule->part == PART_EMBED)
        f.values.deviation = EMBED_DEVIATION;
    if (rule->slot == offsetof(struct layer_weights, wo) && rule->part == PART_ATTN)
        f.values.deviation *= ATTN_OUT_FACTOR;
    if (weight_rule_is_mxfp4(rule, g->c))
        add_mxfp4(g, rule, layer, f);
    else
        add(g, f, layer, rule->names[CHECKPOINT_HF], "");
}

/* Lists all tensors; only counts them if g->names is NULL. */
static void list_tensors(struct dummy *g, const struct gptoss_config *c)
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
    struct dummy g = {.names = NULL};

    list_tensors(&g, c);
    return (int64_t)g.size_bytes;
}

/* ---- values ---- */

/* Fills bytes [begin, end) of the memory, all within this tensor; begin is a multiple of 8 from its
 * start. */
static void fill(const struct dummy *g, const struct fill_job *f, size_t begin, size_t end)
{
    const struct random_fill values = f->values;
    uint64_t i = (begin - f->offset_bytes) / RANDOM_WORD_BYTES;

    for (; begin < end; begin += RANDOM_WORD_BYTES) {
        const uint64_t word = random_word(&values, i++);

        memcpy(g->memory + begin, &word, end - begin < sizeof word ? end - begin : sizeof word);
    }
}

/* The tensor with the byte at this offset: the last one that starts at or before it. */
static const struct fill_job *fill_job_at(const struct dummy *g, size_t offset_bytes)
{
    size_t low = 0, high = g->n;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (g->fill_jobs[middle].offset_bytes <= offset_bytes)
            low = middle;
        else
            high = middle;
    }
    return &g->fill_jobs[low];
}

static void fill_chunk(void *ctx, int part, int worker)
{
    struct dummy *g = ctx;
    const size_t begin = (g->first_chunk + (size_t)part) * CHUNK_BYTES, end = begin + CHUNK_BYTES;
    const struct fill_job *last = g->fill_jobs + g->n - 1;

    (void)worker;
    for (const struct fill_job *f = fill_job_at(g, begin); f <= last && f->offset_bytes < end;
         f++) {
        const size_t end_of_data = f->offset_bytes + f->tensor.size_bytes;

        fill(g, f, f->offset_bytes > begin ? f->offset_bytes : begin,
             end_of_data < end ? end_of_data : end);
    }
}

static void fill_vectors(const struct dummy *g)
{
    for (const struct fill_job *f = g->fill_jobs; f < g->fill_jobs + g->n; f++)
        if (f->tensor.n_dims == 1)
            fill(g, f, f->offset_bytes, f->offset_bytes + f->tensor.size_bytes);
}

static enum osp_status fill_all(struct dummy *g, int n_threads, load_progress_fn *progress,
                                void *ctx)
{
    const size_t n_chunks = (g->size_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    struct pool *pool = NULL;
    enum osp_status st;

    TRY(pool_open(&pool, n_threads));
    for (g->first_chunk = 0; g->first_chunk < n_chunks; g->first_chunk += CHUNKS_PER_ROUND) {
        size_t rest = n_chunks - g->first_chunk,
               n = rest < CHUNKS_PER_ROUND ? rest : CHUNKS_PER_ROUND;
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

static enum osp_status list_in_file(struct dummy *g, struct st_file *file)
{
    enum osp_status st;

    TRY(mem_try_array(&file->tensors, g->n, sizeof *file->tensors, "tensors"));
    for (size_t i = 0; i < g->n; i++) {
        if (g->fill_jobs[i].tensor.name == NULL)
            return fail(OSP_ENOMEM, "names of %zu tensors take more than %d bytes", g->n,
                        (int)NAMES_BYTES_MAX);
        file->tensors[i] = g->fill_jobs[i].tensor;
        file->tensors[i].data = g->memory + g->fill_jobs[i].offset_bytes;
        file->data_bytes += file->tensors[i].size_bytes;
    }
    file->n_tensors = g->n;
    file->size_bytes = g->size_bytes;
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_tensors);
out:
    return st;
}

static enum osp_status map_memory(struct dummy *g, struct st_file *file)
{
    char size[16];
    void *memory = mmap(NULL, g->size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return fail(OSP_ENOMEM, "out of memory: %s of dummy weights: %s",
                    format_bytes(size, (double)g->size_bytes), strerror(errno));
    g->memory = memory;
    file->map = (struct file_map){.data = memory, .size_bytes = g->size_bytes};
    return OSP_OK;
}

static enum osp_status make_file(struct dummy *g, struct st_file *file)
{
    size_t n_rules = (size_t)n_global_rules + (size_t)g->c->n_layers * (size_t)n_layer_rules;
    enum osp_status st;

    file->path = mem_strdup("dummy");
    arena_init(&file->names, NAMES_BYTES_MAX);
    g->names = &file->names;
    TRY(mem_try_array(&g->fill_jobs, n_rules * TENSORS_PER_RULE_MAX, sizeof *g->fill_jobs,
                      "tensors"));
    list_tensors(g, g->c);
    TRY(map_memory(g, file));
    TRY(list_in_file(g, file));
out:
    return st;
}

static enum osp_status make_checkpoint(struct dummy *g, struct checkpoint *out)
{
    enum osp_status st;

    *out = (struct checkpoint){.config = *g->c, .path = mem_strdup("dummy")};
    TRY(mem_try_array(&out->files, 1, sizeof *out->files, "shards"));
    out->n_files = 1;
    TRY(make_file(g, &out->files[0]));
    out->n_tensors = (int64_t)out->files[0].n_tensors;
    out->data_bytes = (int64_t)out->files[0].data_bytes;
    out->file_bytes = (int64_t)out->files[0].size_bytes;
out:
    return st;
}

enum osp_status dummy_open(struct dummy **out, struct checkpoint *checkpoint,
                           const struct gptoss_config *c, const struct dummy_options *opt)
{
    struct dummy *g = mem_new(sizeof *g);
    enum osp_status st;

    g->c = c;
    TRY(make_checkpoint(g, checkpoint));
    g->c = NULL;
    g->names = NULL;
    if (opt->vectors_only)
        fill_vectors(g);
    else
        TRY(fill_all(g, opt->n_threads, opt->progress, opt->progress_ctx));
    *out = g;
out:
    if (st != OSP_OK) {
        checkpoint_close(checkpoint);
        dummy_close(g);
    }
    return st;
}

void dummy_close(struct dummy *d)
{
    if (d == NULL)
        return;
    free(d->fill_jobs);
    free(d);
}

static bool find(struct random_fill *out, const struct dummy *d, const void *data)
{
    const uintptr_t begin = (uintptr_t)d->memory, at = (uintptr_t)data;
    const struct fill_job *f;

    if (at < begin || at - begin >= d->size_bytes)
        return false;
    f = fill_job_at(d, at - begin);
    *out = f->values;
    out->part.first = (int64_t)(at - begin - f->offset_bytes);
    return at - begin - f->offset_bytes < f->tensor.size_bytes;
}

bool dummy_find(struct random_weight *out, const struct dummy *d, const struct tensor *t)
{
    *out = (struct random_weight){.data = {.key = 0}};
    return d != NULL && find(&out->data, d, t->data) &&
           (t->scales == NULL || find(&out->scales, d, t->scales));
}
