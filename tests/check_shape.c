/* Measures what a device's arithmetic costs in quality at the sizes of the published models: a few
 * layers of a shape with generated weights, on the device and at the CPU's ISA "ref" in float32,
 * over one text of random tokens. Prints the Kullback-Leibler divergence of the next token's
 * distribution (mean and 99th percentile, in nats) and the share of positions with the same most
 * likely token. Fails when they exceed the limits. A GPU generates its weights itself: first, one
 * tensor of each kind is compared with the packed weights of the host.
 *
 *     check_shape [DEVICE [SHAPE [LAYERS [TOKENS]]]]
 *         default: the GPU if there is one, else the CPU; osprey-nano, 2, 200 */
#include "base/rng.h"
#include "divergence.h"
#include "steps.h"

enum {
    CHUNK_ROWS = 128,
    EVERY = 4,       /* in short texts: compared positions, */
    EVERY_LONG = 16, /* in texts longer than LONG, */
    LONG = 1024,
    ALL_FIRST = 160, /* and all of these, past the edge of the window, */
    ALL_LAST = 64,   /* and all of these at the end */
    TOPS_SPARED = 2  /* positions of a short text that may differ in addition to the share */
};

static const struct limits {
    enum dtype kv;
    double kl_mean_max, same_top_min;
} limits[] = {{DTYPE_F32, 1e-3, 0.99}, {DTYPE_BF16, 1e-3, 0.99}, {DTYPE_F8, 1e-3, 0.95}};

static const char *shape;
static int n_layers, n_tokens;

/* ---- a text through a model ---- */

static struct model *open_shape(const char *device, const char *isa, enum dtype kv)
{
    struct model_options opt = {.dummy_shape = shape,
                                .dummy_layers = n_layers,
                                .device = device,
                                .cpu_features = isa,
                                .n_rows_max = CHUNK_ROWS,
                                .n_samples_max = CHUNK_ROWS,
                                .kv_dtype = kv};
    struct model *m;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        opt.n_pages[g] = steps_pages(n_tokens);
    must(model_open(&m, &opt));
    return m;
}

static bool is_compared(int position)
{
    const int every = n_tokens > LONG ? EVERY_LONG : EVERY;

    return position < ALL_FIRST || position >= n_tokens - ALL_LAST || position % every == 0;
}

static int count_compared(int first, int n)
{
    int count = 0;

    for (int i = first; i < first + n; i++)
        count += is_compared(i);
    return count;
}

static struct batch *chunk(int first, int n_rows, int vocab)
{
    const int n_pages = steps_pages(first + n_rows);
    const struct batch_counts counts = {.n_rows = n_rows,
                                        .n_seqs = 1,
                                        .n_samples = count_compared(first, n_rows),
                                        .n_pages = N_PAGE_GROUPS * n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    struct batch_sample *sample = (struct batch_sample *)BATCH_SAMPLES(b);
    struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b);

    seq->n_rows = n_rows;
    for (int i = 0; i < n_rows; i++) {
        ((int32_t *)BATCH_TOKENS(b))[i] =
            (int32_t)(rng_bits(7, (uint64_t)(first + i), 0) % (uint64_t)vocab);
        ((int32_t *)BATCH_POSITIONS(b))[i] = first + i;
        if (is_compared(first + i))
            *sample++ = (struct batch_sample){.row = i, .top_p = 1};
    }
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        seq->table[g] = g * n_pages;
        seq->n_pages[g] = n_pages;
        for (int p = 0; p < n_pages; p++)
            ((int32_t *)BATCH_PAGES(b))[g * n_pages + p] = steps_pages(n_tokens) - 1 - p;
    }
    return b;
}

/* (compared, V) logits; the caller frees them. */
static float *run_texts(struct model *m)
{
    const int vocab = model_config(m)->vocab_size;
    float *logits = mem_new((size_t)count_compared(0, n_tokens) * (size_t)vocab * sizeof(float));
    size_t n_done = 0;

    for (int first = 0; first < n_tokens; first += CHUNK_ROWS) {
        const int n_left = n_tokens - first;
        struct batch *b = chunk(first, n_left < CHUNK_ROWS ? n_left : CHUNK_ROWS, vocab);
        uint64_t ticket;

        must(model_step(m, b, &ticket));
        must(model_wait(m, ticket));
        must(model_logits(m, b->n_samples, logits + n_done * (size_t)vocab));
        n_done += (size_t)b->n_samples;
        free(b);
    }
    return logits;
}

/* ---- distributions ---- */

/* Returns whether the device is close enough. */
static bool compare(const char *device, const struct limits *l, const float *want,
                    const float *have, int vocab)
{
    const int n = count_compared(0, n_tokens);
    struct divergences d = divergences_of(want, have, n, vocab);
    const bool passes =
        d.mean <= l->kl_mean_max && d.same_top * n >= l->same_top_min * n - TOPS_SPARED;

    printf(
        "%-5s KV %-7s KL mean %.2e, p99 %.2e, same top %6.2f %% of %d positions up to %d; limits "
        "%g, %g %%   %s\n",
        device, dtype_name(l->kv), d.mean, d.p99, 100 * d.same_top, n, n_tokens - 1, l->kl_mean_max,
        100 * l->same_top_min, passes ? "ok" : "FAIL");
    divergences_release(&d);
    return passes;
}

/* ---- weights that the device makes ---- */

static bool is_same_on_device(struct model *m, const struct tensor *made, const struct tensor *host)
{
    const size_t n = (size_t)m->ops->pack_bytes(m->be, host);
    char *a = mem_new(n), *b = mem_new(n);
    struct tensor packed;
    bool same;

    must(m->ops->pack(m->be, &packed, host));
    must(m->ops->read(m->be, a, made->data, n));
    must(m->ops->read(m->be, b, packed.data, n));
    same = memcmp(a, b, n) == 0;
    free(a);
    free(b);
    return same;
}

/* Returns the number of weights of the first layer that differ from the packed weights of the
 * host. */
static int check_weights(const char *device)
{
    struct model *m = open_shape(device, NULL, DTYPE_NONE);
    const struct layer *l = &m->layers[0];
    const struct dummy_options all = {.n_threads = 0};
    struct checkpoint c;
    struct dummy *dummy;
    struct weights w;
    int n_wrong = 0;

    must(dummy_open(&dummy, &c, model_config(m), &all));
    must(weights_bind(&w, &c, NULL));
    n_wrong += !is_same_on_device(m, &m->embed_rmsnorm.table, &w.embed);
    n_wrong += !is_same_on_device(m, &l->attn_qkv.wqkv[1], &w.layers[0].wqkv[1]);
    n_wrong += !is_same_on_device(m, &l->attn_qkv.bqkv[1], &w.layers[0].bqkv[1]);
    n_wrong += !is_same_on_device(m, &l->experts.w_up, &w.layers[0].w_up);
    n_wrong += !is_same_on_device(m, &l->experts.b_down, &w.layers[0].b_down);
    printf("%-5s %d of 5 weights differ from the host's   %s\n", device, n_wrong,
           n_wrong == 0 ? "ok" : "FAIL");
    weights_release(&w);
    dummy_close(dummy);
    checkpoint_close(&c);
    model_close(m);
    return n_wrong;
}

/* Whether the device generates weights itself. */
static bool is_in_worker(const char *device)
{
    const struct backend_ops *ops = backend_find(device);
    struct device_memory memory;

    if (ops == NULL)
        must(OSP_ENOTFOUND);
    must(ops->memory(&memory, 0, 1));
    return memory.total_bytes > 0;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : backend_find("cuda") != NULL ? "cuda" : "cpu";
    int n_failed = 0, vocab;
    struct model *m;
    float *want;

    shape = argc > 2 ? argv[2] : "osprey-nano";
    n_layers = argc > 3 ? atoi(argv[3]) : 2;
    n_tokens = argc > 4 ? atoi(argv[4]) : 200;
    if (is_in_worker(device))
        n_failed += check_weights(device);
    m = open_shape("cpu", "ref", DTYPE_F32);
    vocab = model_config(m)->vocab_size;
    want = run_texts(m);
    model_close(m);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        float *have;

        m = open_shape(device, NULL, limits[i].kv);
        have = run_texts(m);
        n_failed += !compare(device, &limits[i], want, have, vocab);
        free(have);
        model_close(m);
    }
    free(want);
    printf("%d failures; %s, %d layers, %d tokens\n", n_failed, shape, n_layers, n_tokens);
    return n_failed > 0;
}
