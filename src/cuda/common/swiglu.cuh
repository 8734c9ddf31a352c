/* SwiGLU of the experts in float32. (gemm_epilogue.cuh has a version with fewer instructions and
 * less accuracy.) */
#ifndef CUDA_COMMON_SWIGLU_CUH
#define CUDA_COMMON_SWIGLU_CUH

/* min(g, limit) sigmoid(alpha min(g, limit)) (clamp(u, -limit, limit) + 1); NaN stays NaN. */
static __device__ __forceinline__ float swiglu(float gate, float up, float limit, float alpha)
{
    const float g = gate > limit ? limit : gate;
    const float u = up > limit ? limit : up < -limit ? -limit : up;

    return g / (1.0f + expf(-alpha * g)) * (u + 1.0f);
}

#endif
