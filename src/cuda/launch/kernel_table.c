#include "cuda/launch/kernel_table.h"

#include "cuda/launch/collective.h"

enum { PARAMS_MAX = 16 };

/* ---- facts ---- */

/* Queries the device the first time. NULL: the device has no code for the kernel. */
static struct kernel_facts *facts_of(struct kernel_table *t, const void *function)
{
    struct cudaFuncAttributes attributes;

    for (int i = 0; i < t->n; i++)
        if (t->kernels[i].function == function)
            return &t->kernels[i];
    if (t->n == KERNELS_MAX)
        return NULL;
    if (cudaFuncGetAttributes(&attributes, function) != cudaSuccess) {
        (void)cudaGetLastError(); /* a kernel without code is not an error of the device */
        return NULL;
    }
    t->kernels[t->n] =
        (struct kernel_facts){.function = function,
                              .desc = {.binary_version = attributes.binaryVersion,
                                       .static_shared_bytes = (int)attributes.sharedSizeBytes,
                                       .max_clusters = -1}};
    return &t->kernels[t->n++];
}

static bool allow_shared(struct kernel_facts *facts, int n_bytes)
{
    if (n_bytes <= facts->shared_bytes)
        return true;
    if (cudaFuncSetAttribute(facts->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             n_bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    facts->shared_bytes = n_bytes;
    return true;
}

/* Active clusters at most; 0: the device cannot run such clusters. */
static int count_clusters(struct kernel_facts *facts, const struct cluster_config *c)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension,
                                     .val = {.clusterDim = {(unsigned)c->n_blocks, 1, 1}}};
    const cudaLaunchConfig_t config = {.gridDim = {(unsigned)c->n_blocks, 1, 1},
                                       .blockDim = {(unsigned)c->n_threads, 1, 1},
                                       .dynamicSmemBytes = (size_t)c->shared_bytes,
                                       .attrs = &attribute,
                                       .numAttrs = 1};
    int n = 0;

    if (allow_shared(facts, c->shared_bytes) &&
        cudaOccupancyMaxActiveClusters(&n, facts->function, &config) == cudaSuccess)
        return n;
    (void)cudaGetLastError();
    return 0;
}

static bool kernel_desc(void *ctx, const void *function, const char *name,
                        const struct cluster_config *cluster, struct kernel_desc *out)
{
    struct kernel_facts *facts = facts_of(ctx, function);

    (void)name;
    if (facts == NULL)
        return false;
    if (cluster != NULL && facts->desc.max_clusters < 0)
        facts->desc.max_clusters = count_clusters(facts, cluster);
    *out = facts->desc;
    return true;
}

void kernel_table_init(struct kernel_table *t, const struct cudaDeviceProp *properties)
{
    t->n = 0;
    t->gpu = (struct gpu_desc){.major = properties->major,
                               .minor = properties->minor,
                               .n_sms = properties->multiProcessorCount,
                               .shared_per_block = (int)properties->sharedMemPerBlockOptin,
                               .shared_per_sm = (int)properties->sharedMemPerMultiprocessor,
                               .shared_reserved = (int)properties->reservedSharedMemPerBlock,
                               .kernel = kernel_desc,
                               .ctx = t};
}

/* ---- launching ---- */

/* One carveout for all kernels of a decode step, so that blocks of the next kernel can run beside
 * the blocks of this one. */
static void prefer_shared(struct kernel_facts *facts)
{
    if (!facts->has_max_carveout)
        (void)cudaFuncSetAttribute(facts->function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared);
    facts->has_max_carveout = true;
}

const struct launch *kernel_table_prepare(struct kernel_table *t, const struct launch_list *list)
{
    for (int i = 0; i < list->n; i++) {
        const struct launch *l = &list->launches[i];
        struct kernel_facts *facts;

        if (is_collective(l))
            continue;
        facts = facts_of(t, l->function);
        if (facts == NULL || l->n_params > PARAMS_MAX || !allow_shared(facts, (int)l->shared_bytes))
            return l;
        if (l->has_max_carveout)
            prefer_shared(facts);
    }
    return NULL;
}

static cudaError_t run(const struct launch_list *list, const struct launch *l, cudaStream_t stream)
{
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = {.gridDim = {l->grid[0], l->grid[1], l->grid[2]},
                                 .blockDim = {l->block[0], l->block[1], l->block[2]},
                                 .dynamicSmemBytes = l->shared_bytes,
                                 .stream = stream,
                                 .attrs = attributes};
    void *params[PARAMS_MAX];

    for (int i = 0; i < l->n_params; i++)
        params[i] = (void *)(uintptr_t)launch_param(list, l, i);
    if (l->is_dependent)
        attributes[config.numAttrs++] =
            (cudaLaunchAttribute){.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                  .val = {.programmaticStreamSerializationAllowed = 1}};
    if (l->cluster > 1)
        attributes[config.numAttrs++] = (cudaLaunchAttribute){
            .id = cudaLaunchAttributeClusterDimension, .val = {.clusterDim = {l->cluster, 1, 1}}};
    return cudaLaunchKernelExC(&config, l->function, params);
}

cudaError_t launch_list_run(const struct launch_list *list, int first, int end, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    for (int i = first; i < end && error == cudaSuccess; i++)
        error = run(list, &list->launches[i], stream);
    return error;
}
