/* Benchmark of the LM head of gpt-oss-120b, MXFP4, for many rows: the kernels of decode_gemm.cu and
 * decode_head.cu, as a CUDA graph of dependent launches. Checks that both give the same bits.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/lm_head_cuda bench/lm_head_cuda.cu \
 *         build/obj/src/cuda/decode/decode_{gemm,head}.cu.o \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o
 *     build/lm_head_cuda [rows...] */
#include <cstdlib>

#include "random_weights.h"
#include "graph_times.h"
#include "cuda/decode/decode.h"

enum { WIDTH = 2880, VOCABULARY = 201088, LAUNCHES = 4, ROWS_MAX = 256 };

static const struct {
    const char *name;
    bool (*launch)(struct launch_list *list, const struct decode_gemm *p);
} kernels[] = {{"decode_gemm", launch_decode_gemm}, {"decode_head", launch_decode_head}};
enum { N_KERNELS = 2 };

static struct decode_gemm product_of(int n_rows, float *out)
{
    static const int n_units = (int)units_of(WIDTH, UNIT_COLUMNS);
    static char *const head =
        alloc_filled(units_of(VOCABULARY, UNIT_ROWS) * n_units * MXFP4_UNIT_BYTES, true, 0);
    static char *const rows =
        alloc_filled((int64_t)ROWS_MAX * n_units * UNIT_COLUMNS * 2, false, 0);
    struct decode_gemm p = {};

    p.n_jobs = 1, p.n_tokens = n_rows, p.is_mxfp4 = true;
    p.w[0] = {(const unsigned char *)head, 0, VOCABULARY, n_units};
    p.bias[0].kind = VECTOR_NONE;
    p.out[0] = out, p.out_width[0] = VOCABULARY;
    p.rows = (const uint16_t *)rows;
    return p;
}

static void launch(struct launch_list *list, int kernel, int n_rows, float *out)
{
    const struct decode_gemm p = product_of(n_rows, out);

    if (!kernels[kernel].launch(list, &p))
        printf("%s does not support this shape\n", kernels[kernel].name);
}

/* True if both kernels leave the same bytes in the whole output buffer. */
static bool is_same(cudaStream_t stream, int n_rows, float *out)
{
    const size_t n = (size_t)ROWS_MAX * VOCABULARY;
    std::vector<uint32_t> left[N_KERNELS];

    for (int k = 0; k < N_KERNELS; k++) {
        left[k].resize(n);
        CHECK(cudaMemsetAsync(out, 0xEE, n * 4, stream));
        launch_once(stream, [&](struct launch_list *list) { launch(list, k, n_rows, out); });
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(left[k].data(), out, n * 4, cudaMemcpyDeviceToHost));
    }
    return left[0] == left[1];
}

static void measure(cudaStream_t stream, int kernel, int n_rows, float *out)
{
    enum { TIMES = 10 };
    const std::vector<float> times = graph_times(stream, TIMES, [&](struct launch_list *list) {
        for (int i = 0; i < LAUNCHES; i++)
            launch(list, kernel, n_rows, out);
    });

    printf("%3d rows, %s: %7.2f us (least %7.2f)\n", n_rows, kernels[kernel].name,
           times[TIMES / 2] * 1e3 / LAUNCHES, times[0] * 1e3 / LAUNCHES);
}

int main(int argc, char **argv)
{
    static const int checked[] = {17, 31, 32, 33, 64, 65, 200, 256};
    int n_bad = 0;
    cudaStream_t stream;
    float *out;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&out, (size_t)ROWS_MAX * VOCABULARY * 4));
    (void)product_of(1, out);
    CHECK(cudaDeviceSynchronize());
    for (int n_rows : checked)
        if (!is_same(stream, n_rows, out)) {
            printf("%d rows: the bits differ\n", n_rows);
            n_bad++;
        }
    for (int i = 1; i < argc; i++)
        for (int k = 0; k < N_KERNELS; k++)
            measure(stream, k, std::max(1, std::min(atoi(argv[i]), (int)ROWS_MAX)), out);
    return n_bad > 0;
}
