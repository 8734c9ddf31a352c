/* Benchmark of the sampling kernels over the vocabulary of gpt-oss: us per launch, of many launches
 * in one CUDA graph, for each kind of row. The edits are idempotent: editing a row again does not
 * change it.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/sample_cuda bench/sample_cuda.cu \
 *         build/obj/src/cuda/sampling/sample.cu.o \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o build/obj/src/backend/batch.o
 *     build/sample_cuda [brief]       brief: one row, launched once, for compute-sanitizer */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph_times.h"

extern "C" {
#include "backend/batch.h"
}
#include "cuda/launch/launch.h"

enum { V = 201088, ROWS_MAX = 64, SEEN = 2000, BIASES = 300, LAUNCHES = 20, RUNS = 8 };

static bool is_brief;

static cudaStream_t stream;

/* Sums of four uniform numbers, with about the spread of logits. */
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
    struct batch_sample params; /* n_seen, n_biases and n_mask_words: 1 if the row has them */
    bool only_first;            /* the other rows are plain */
};

static struct batch *batch_for(const struct kind *k, int n_rows)
{
    const int n_special = k->only_first ? 1 : n_rows;
    struct batch_counts n = {};
    struct batch *b;

    n.n_rows = n.n_seqs = n.n_samples = n_rows;
    n.n_seen = k->params.n_seen ? n_special * SEEN : 0;
    n.n_biases = k->params.n_biases ? n_special * BIASES : 0;
    n.n_mask_words = k->params.n_mask_words ? n_special * V / MASK_WORD_IDS : 0;
    b = batch_init(calloc(1, (size_t)batch_bytes(n)), n);
    for (int i = 0; i < n.n_seen; i++)
        ((struct batch_seen *)BATCH_SEEN(b))[i] = {i % SEEN * (V / SEEN), 1};
    for (int i = 0; i < n.n_biases; i++)
        ((struct batch_bias *)BATCH_BIASES(b))[i] = {i % BIASES * (V / BIASES), -INFINITY};
    for (int i = 0; i < n.n_mask_words; i++)
        ((uint32_t *)BATCH_MASKS(b))[i] = 0x55555555u;
    for (int r = 0; r < n_rows; r++) {
        struct batch_sample s = k->params;

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

/* Microseconds per launch, best run. */
static float time_launches(const struct sample_launch *l)
{
    const int n_launches = is_brief ? 1 : LAUNCHES;
    const std::vector<float> times =
        graph_times(stream, is_brief ? 1 : RUNS, [&](struct launch_list *list) {
            for (int i = 0; i < n_launches; i++)
                launch_sample(list, l);
        });

    return times[0] * 1000 / n_launches;
}

template <typename T> static T *device_alloc(int64_t n)
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
    l.batch = (struct batch *)device_alloc<char>(b->size_bytes);
    CHECK(cudaMemcpy(l.batch, b, (size_t)b->size_bytes, cudaMemcpyHostToDevice));
    l.samples = (const struct batch_sample *)batch_at(l.batch, b->offset_samples);
    l.uniforms = device_alloc<double>(n_rows);
    CHECK(cudaMemset((void *)l.uniforms, 0x3F, n_rows * sizeof(double)));
    l.chunks = device_alloc<struct sample_chunk>(n_rows * SAMPLE_CHUNKS);
    l.tops = device_alloc<uint64_t>(n_rows * SAMPLE_CHUNKS * TOP_LOGPROBS_MAX);
    l.bins = device_alloc<struct sample_bins>(n_rows);
    l.args.tokens.data = device_alloc<int32_t>(n_rows);
    l.args.logprobs.data = device_alloc<float>(n_rows);
    l.args.top_tokens.data = device_alloc<int32_t>(n_rows * TOP_LOGPROBS_MAX);
    l.args.top_logprobs.data = device_alloc<float>(n_rows * TOP_LOGPROBS_MAX);
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
    struct kind phases[14] = {};
    float *z;
    int n = 0;

    for (int i = 0; i < 14; i++)
        phases[i].params.temperature = phases[i].params.top_p = phases[i].params.repetition = 1;
    phases[n++].name = "greedy", phases[0].params.temperature = 0;
    phases[n++].name = "temperature";
    phases[n].params.min_p = 0.05f, phases[n++].name = "min_p";
    phases[n].params.top_p = 0.9f, phases[n++].name = "top_p";
    phases[n].params.top_p = 0.9f, phases[n].params.top_k = 40, phases[n++].name = "top_k, top_p";
    phases[n].params.temperature = 3, phases[n].params.top_p = 0.9f,
    phases[n++].name = "top_p, flat";
    phases[n].params.min_p = 0.05f, phases[n].params.top_k = 40, phases[n++].name = "top_k, min_p";
    phases[n].params.n_seen = 1, phases[n++].name = "2,000 seen";
    phases[n].params.n_biases = 1, phases[n++].name = "300 biases";
    phases[n].params.n_mask_words = 1, phases[n++].name = "mask";
    phases[n].params.n_top = 5, phases[n++].name = "top 5";
    phases[n].params.n_top = 20, phases[n++].name = "top 20";
    phases[n].params.n_seen = phases[n].params.n_biases = phases[n].params.n_mask_words = 1;
    phases[n].params.n_top = 20, phases[n++].name = "all of these";
    phases[n] = phases[n - 1], phases[n].only_first = true, phases[n++].name = "all, in one row";
    is_brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    CHECK(cudaStreamCreate(&stream));
    z = device_alloc<float>((int64_t)ROWS_MAX * V);
    printf("%-16s", "us, rows:");
    for (int rows : row_counts)
        printf("%8d", rows);
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("%-16s", phases[i].name);
        for (int rows : row_counts)
            if (rows == 1 || !is_brief)
                time_kind(&phases[i], rows, z);
        printf("\n");
    }
    return 0;
}
