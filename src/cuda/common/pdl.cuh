/* Programmatic dependent launch (PDL): blocks of a kernel start while the previous kernel still
 * runs. Before pdl_wait() (griddepcontrol.wait) such a kernel may read only data that no earlier
 * kernel of the step writes: weights and the batch. After it all earlier launches have completed
 * and their writes are visible, because every kernel of the chain waits. pdl_launch_dependents()
 * (griddepcontrol.launch_dependents) lets blocks of the next kernel start; it does not order
 * memory. Below sm_90 both functions are empty, and launches are plain. */
#ifndef CUDA_COMMON_PDL_CUH
#define CUDA_COMMON_PDL_CUH

static __device__ __forceinline__ void pdl_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static __device__ __forceinline__ void pdl_launch_dependents(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Forces a value to be computed at this point, before pdl_wait(), where latency is hidden. */
template <typename T> static __device__ __forceinline__ void materialize(T *&pointer)
{
    asm volatile("" : "+l"(pointer));
}

static __device__ __forceinline__ void materialize(int &number)
{
    asm volatile("" : "+r"(number));
}

static __device__ __forceinline__ void materialize(uint32_t &number)
{
    asm volatile("" : "+r"(number));
}

static __device__ __forceinline__ void materialize(float &number)
{
    asm volatile("" : "+f"(number));
}

static __device__ __forceinline__ void materialize(float4 &numbers)
{
    asm volatile("" : "+f"(numbers.x), "+f"(numbers.y), "+f"(numbers.z), "+f"(numbers.w));
}

#endif
