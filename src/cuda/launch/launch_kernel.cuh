/* How launchers append a kernel to a launch list. */
#ifndef CUDA_LAUNCH_LAUNCH_KERNEL_CUH
#define CUDA_LAUNCH_LAUNCH_KERNEL_CUH

#include <cuda_runtime.h>
#include <string.h>

#include "cuda/launch/launch_list.h"

enum { KERNEL_NAME_BYTES = 160 };

/* A kernel's name with its template arguments, as in the sources. It is parsed from
 * "... [with auto KERNEL = name<1, 2>; ...]". */
struct kernel_name {
    char text[KERNEL_NAME_BYTES];

    explicit kernel_name(const char *signature)
    {
        const char *at = strstr(signature, "KERNEL = ");
        size_t n = 0;

        for (at = at == NULL ? signature : at + 9; *at != '\0' && *at != ';' && *at != ']'; at++)
            if (*at != ' ' && *at != '&' && n + 1 < sizeof(text))
                text[n++] = *at;
        text[n] = '\0';
    }
};

template <auto KERNEL> static const char *name_of_kernel(void)
{
    static const struct kernel_name name(__PRETTY_FUNCTION__);

    return name.text;
}

template <typename... Params> static void add_params(struct launch_list *list, const Params &...p)
{
    (launch_list_param(list, &p, sizeof(p), alignof(Params)), ...);
}

/* Converts the arguments to the kernel's parameter types. */
template <typename... Params, typename... Args>
static void add_launch(struct launch_list *list, const struct launch &l, void (*)(Params...),
                       const Args &...args)
{
    if (!list->is_query && launch_list_add(list, &l) != NULL)
        add_params<Params...>(list, Params(args)...);
}

static inline struct launch make_launch(const void *function, const char *name, dim3 grid,
                                        dim3 block, int64_t shared_bytes)
{
    struct launch l = {};

    l.function = function;
    l.name = name;
    l.grid[0] = grid.x, l.grid[1] = grid.y, l.grid[2] = grid.z;
    l.block[0] = block.x, l.block[1] = block.y, l.block[2] = block.z;
    l.shared_bytes = (uint32_t)shared_bytes;
    l.cluster = 1;
    l.op = -1;
    return l;
}

/* Appends a kernel that starts when the previous kernel has ended. */
template <auto KERNEL, typename... Args>
static void add_kernel(struct launch_list *list, dim3 grid, dim3 block, int64_t shared_bytes,
                       const Args &...args)
{
    add_launch(
        list,
        make_launch((const void *)KERNEL, name_of_kernel<KERNEL>(), grid, block, shared_bytes),
        KERNEL, args...);
}

/* Appends a kernel that calls pdl_wait() before it touches memory that other kernels write
 * (pdl.cuh). n_cluster: blocks per cluster. */
template <auto KERNEL, typename... Args>
static void add_dependent_clusters(struct launch_list *list, dim3 grid, dim3 block,
                                   int64_t shared_bytes, unsigned n_cluster, const Args &...args)
{
    struct launch l =
        make_launch((const void *)KERNEL, name_of_kernel<KERNEL>(), grid, block, shared_bytes);

    l.is_dependent = gpu_has_pdl(list->gpu);
    l.cluster = n_cluster;
    add_launch(list, l, KERNEL, args...);
}

/* The same without clusters. */
template <auto KERNEL, typename... Args>
static void add_dependent(struct launch_list *list, dim3 grid, dim3 block, int64_t shared_bytes,
                          const Args &...args)
{
    add_dependent_clusters<KERNEL>(list, grid, block, shared_bytes, 1, args...);
}

#endif
