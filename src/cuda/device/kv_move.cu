/* Moves slots of KV pages: accepted drafts of a tree go to their positions, in all layers of a
 * group of pages. Each thread has the same element of every slot and makes the moves in their
 * order, so that a slot can be the source of one move and the destination of a later one. The
 * kernel stands between two graphs. */
#include "backend/kv_page.h"
#include "cuda/common/rope_cache.cuh"
#include "cuda/device/kv_move.h"

enum { THREADS = 64 };

struct moves_launch {
    struct tensor kv; /* of the first layer: the shape of all */
    char *layers[KV_MOVE_LAYERS];
    struct kv_move moves[KV_MOVES_AT_ONCE];
    int n_moves;
};
static_assert(sizeof(struct moves_launch) <= 4096, "parameters of a kernel");

template <typename ELEMENT>
static __device__ __forceinline__ void copy_element(char *to, int64_t to_index, const char *from,
                                                    int64_t from_index)
{
    ((ELEMENT *)to)[to_index] = ((const ELEMENT *)from)[from_index];
}

static __device__ void move_element(const struct tensor &kv, const struct kv_move &m, int which,
                                    int head, int d)
{
    char *to = kv_side(&kv, m.to_page, which, head);
    const char *from = kv_side(&kv, m.from_page, which, head);
    const int64_t to_index = kv_element(&kv, which, m.to_slot, d);
    const int64_t from_index = kv_element(&kv, which, m.from_slot, d);

    if (kv.dtype == DTYPE_F8)
        copy_element<uint8_t>(to, to_index, from, from_index);
    else if (kv.dtype == DTYPE_BF16)
        copy_element<uint16_t>(to, to_index, from, from_index);
    else
        copy_element<uint32_t>(to, to_index, from, from_index);
    if (d == 0 && kv_n_scales(kv.dtype) > 0)
        kv_scales(&kv, to)[m.to_slot] = kv_scales(&kv, from)[m.from_slot];
}

/* Grid: heads, keys or values, layers. */
static __global__ void __launch_bounds__(THREADS)
    kv_move_kernel(const __grid_constant__ struct moves_launch l)
{
    struct tensor kv = l.kv;

    kv.data = l.layers[blockIdx.z];
    for (int d = threadIdx.x; d < kv.dim[4]; d += THREADS)
        for (int i = 0; i < l.n_moves; i++)
            move_element(kv, l.moves[i], (int)blockIdx.y, (int)blockIdx.x, d);
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

void launch_kv_moves(cudaStream_t stream, const struct kv_moves *moves)
{
    for (int first = 0; first < moves->n; first += KV_MOVES_AT_ONCE)
        for (int layer = 0; layer < moves->n_layers; layer += KV_MOVE_LAYERS) {
            const int n_layers = min_int(moves->n_layers - layer, KV_MOVE_LAYERS);
            struct moves_launch l = {};

            l.kv = *moves->kv[0];
            l.n_moves = min_int(moves->n - first, KV_MOVES_AT_ONCE);
            memcpy(l.moves, moves->list + first, (size_t)l.n_moves * sizeof(*l.moves));
            for (int i = 0; i < n_layers; i++)
                l.layers[i] = (char *)moves->kv[layer + i]->data;
            kv_move_kernel<<<dim3((unsigned)l.kv.dim[2], 2, (unsigned)n_layers), THREADS, 0,
                             stream>>>(l);
        }
}
