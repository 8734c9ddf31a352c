/* Programmatic dependent launch: a kernel whose blocks start while the kernel before it still
 * runs. Such a kernel may read what no earlier kernel of the step writes (weights, the batch) at
 * once, and calls pdl_wait() before it reads or writes anything else: then everything launched
 * earlier has ended and is seen, as every kernel of the chain waits. pdl_launch_dependents()
 * allows the next kernel's blocks to start; it says nothing about memory. Below sm_90 both are
 * nothing, and launches are plain. */
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

/* Has a value worked out where this stands, in front of pdl_wait(), where there is time, not
 * behind it. */
template <typename T> static __device__ __forceinline__ void materialize(T *&pointer)
{
    asm volatile("" : "+l"(pointer));
}

static __device__ __forceinline__ void materialize(int &number)
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
