/* Matrices of 8 rows of 16 bytes from shared memory into fragments of mma.sync. */
#ifndef CUDA_COMMON_LDMATRIX_CUH
#define CUDA_COMMON_LDMATRIX_CUH

#include <stdint.h>

/* Four matrices, one in each word: lane l gets word l % 4 of row l / 4. The lane gives the address
 * of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ uint4 load_matrices(uint32_t at)
{
    uint4 v;

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

#endif
