/* Times the stage sample on a card, over the vocabulary of gpt-oss: us a launch of its kernels, of many in one graph,
 * for rows of each kind. The lists are such that editing a row again leaves it as it is.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/sample_cuda bench/sample_cuda.cu \
 *         build/obj/src/cuda/sampling/sample.cu.o build/obj/src/backend/batch.o
 *     build/sample_cuda [brief]       brief: one row, launched once, for tools that look at memory */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph_times.h"

extern "C" {
#include "backend/batch.h"
}
#include "cuda/common/launch.h"

enum { V = 201088, ROWS_MAX = 64, SEEN = 2000, BIASES = 300, LAUNCHES = 20, RUNS = 8 };

static bool is_brief;

static cudaStream_t stream;

/* Sums of four uniform numbers, of about the logits' spread. */
static __global__ void fill(float *z, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u;

        x ^= x >> 31, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 27;
        z[i] = ((x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48)) / 16384.0f - 8;
    }
}

struct kind {
    const char *name;
    struct batch_sample wish; /* n_seen, n_biases and n_mask_words: whether it has them */
    bool only_first;          /* of the rows; the others are plain */
};

static struct batch *batch_for(const struct kind *k, int n_rows)
{
    const int n_special = k->only_first ? 1 : n_rows;
    struct batch_counts n = {};
    struct batch *b;

    n.n_rows = n.n_seqs = n.n_samples = n_rows;
    n.n_seen = k->wish.n_seen ? n_special * SEEN : 0;
    n.n_biases = k->wish.n_biases ? n_special * BIASES : 0;
    n.n_mask_words = k->wish.n_mask_words ? n_special * V / MASK_WORD_IDS : 0;
    b = batch_init(calloc(1, (size_t)batch_bytes(n)), n);
    for (int i = 0; i < n.n_seen; i++)
        ((struct batch_seen *)BATCH_SEEN(b))[i] = {i % SEEN * (V / SEEN), 1};
    for (int i = 0; i < n.n_biases; i++)
        ((struct batch_bias *)BATCH_BIASES(b))[i] = {i % BIASES * (V / BIASES), -INFINITY};
    for (int i = 0; i < n.n_mask_words; i++)
        ((uint32_t *)BATCH_MASKS(b))[i] = 0x55555555u;
    for (int r = 0; r < n_rows; r++) {
        struct batch_sample s = k->wish;

        s.n_seen = s.n_seen ? SEEN : 0, s.first_seen = r * s.n_seen;
        s.n_biases = s.n_biases ? BIASES : 0, s.first_bias = r * s.n_biases;
        s.n_mask_words = s.n_mask_words ? V / MASK_WORD_IDS : 0;
        s.first_mask_word = r * s.n_mask_words;
        if (r >= n_special)
            s.n_seen = s.n_biases = s.n_mask_words = s.n_top = 0;
        s.row = r;
        ((struct batch_sample *)BATCH_SAMPLES(b))[r] = s;
    }
    return b;
}

/* us a launch, of the best run. */
static float time_launches(const struct sample_launch *l)
{
    const int n_launches = is_brief ? 1 : LAUNCHES;
    const std::vector<float> times = graph_times(stream, is_brief ? 1 : RUNS, [&] {
        for (int i = 0; i < n_launches; i++)
            launch_sample(stream, l);
    });

    return times[0] * 1000 / n_launches;
}

template <typename T> static T *room(int64_t n)
{
    void *data;

    CHECK(cudaMalloc(&data, (size_t)n * sizeof(T)));
    return (T *)data;
}

static void time_kind(const struct kind *k, int n_rows, float *z)
{
    struct batch *b = batch_for(k, n_rows);
    struct sample_launch l = {};

    fill<<<1024, 256, 0, stream>>>(z, (int64_t)n_rows * V);
    l.batch = (struct batch *)room<char>(b->size_bytes);
    CHECK(cudaMemcpy(l.batch, b, (size_t)b->size_bytes, cudaMemcpyHostToDevice));
    l.samples = (const struct batch_sample *)batch_at(l.batch, b->offset_samples);
    l.uniforms = room<double>(n_rows);
    CHECK(cudaMemset((void *)l.uniforms, 0x3F, n_rows * sizeof(double)));
    l.chunks = room<struct sample_chunk>(n_rows * SAMPLE_CHUNKS);
    l.tops = room<uint64_t>(n_rows * SAMPLE_CHUNKS * SAMPLE_TOP_MAX);
    l.bins = room<struct sample_bins>(n_rows);
    l.args.tokens.data = room<int32_t>(n_rows);
    l.args.logprobs.data = room<float>(n_rows);
    l.args.top_tokens.data = room<int32_t>(n_rows * SAMPLE_TOP_MAX);
    l.args.top_logprobs.data = room<float>(n_rows * SAMPLE_TOP_MAX);
    l.args.logits = {DTYPE_F32, 2, {n_rows, V}, z, NULL, LAYOUT_ROWS};
    l.args.n_valid = V - 100;
    l.n_samples = n_rows;
    l.has_special = batch_has_special(b);
    printf("%8.1f", time_launches(&l));
    fflush(stdout);
    for (void *data : {(void *)l.batch, (void *)l.uniforms, (void *)l.chunks, (void *)l.tops,
                       (void *)l.bins, l.args.tokens.data, l.args.logprobs.data,
                       l.args.top_tokens.data, l.args.top_logprobs.data})
        CHECK(cudaFree(data));
    free(b);
}

int main(int argc, char **argv)
{
    static const int row_counts[] = {1, 8, 64};
    struct kind kinds[14] = {};
    float *z;
    int n = 0;

    for (int i = 0; i < 14; i++)
        kinds[i].wish.temperature = kinds[i].wish.top_p = kinds[i].wish.repetition = 1;
    kinds[n++].name = "greedy", kinds[0].wish.temperature = 0;
    kinds[n++].name = "temperature";
    kinds[n].wish.min_p = 0.05f, kinds[n++].name = "min_p";
    kinds[n].wish.top_p = 0.9f, kinds[n++].name = "top_p";
    kinds[n].wish.top_p = 0.9f, kinds[n].wish.top_k = 40, kinds[n++].name = "top_k, top_p";
    kinds[n].wish.temperature = 3, kinds[n].wish.top_p = 0.9f, kinds[n++].name = "top_p, flat";
    kinds[n].wish.min_p = 0.05f, kinds[n].wish.top_k = 40, kinds[n++].name = "top_k, min_p";
    kinds[n].wish.n_seen = 1, kinds[n++].name = "2,000 seen";
    kinds[n].wish.n_biases = 1, kinds[n++].name = "300 biases";
    kinds[n].wish.n_mask_words = 1, kinds[n++].name = "mask";
    kinds[n].wish.n_top = 5, kinds[n++].name = "top 5";
    kinds[n].wish.n_top = 20, kinds[n++].name = "top 20";
    kinds[n].wish.n_seen = kinds[n].wish.n_biases = kinds[n].wish.n_mask_words = 1;
    kinds[n].wish.n_top = 20, kinds[n++].name = "all of these";
    kinds[n] = kinds[n - 1], kinds[n].only_first = true, kinds[n++].name = "all, in one row";
    is_brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    CHECK(cudaStreamCreate(&stream));
    z = room<float>((int64_t)ROWS_MAX * V);
    printf("%-16s", "us, rows:");
    for (int rows : row_counts)
        printf("%8d", rows);
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("%-16s", kinds[i].name);
        for (int rows : row_counts)
            if (rows == 1 || !is_brief)
                time_kind(&kinds[i], rows, z);
        printf("\n");
    }
    return 0;
}
