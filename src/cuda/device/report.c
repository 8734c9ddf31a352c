/* What really ran: the kernels of the recorded steps, read from the nodes of their graphs, and
 * held against what the table and the flags asked for. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device/gpu.h"

/* ---- names ---- */

/* The template's numbers behind a name, "ILi2ELb1EE" as "<2,1>"; anything else is left out. */
static void write_numbers(char *out, size_t n_max, const char *at)
{
    size_t n = 0;

    while (*at == 'I' || *at == 'L') {
        char *end;
        long number;

        if (*at == 'I')
            at++;
        if (at[0] != 'L' || !islower((unsigned char)at[1]))
            break;
        number = strtol(at + 2 + (at[2] == 'n'), &end, 10);
        if (*end != 'E' || n + 24 > n_max)
            break;
        n += (size_t)snprintf(out + n, n_max - n, "%s%s%ld", n == 0 ? "<" : ",",
                              at[2] == 'n' ? "-" : "", number);
        at = end + 1;
    }
    snprintf(out + n, n_max - n, "%s", n > 0 ? ">" : "");
}

/* "_Z13matmul_kernelILi2ELi1EEv6matmul" as "matmul_kernel<2,1>"; its first n_symbol bytes are
 * the name in the sources. */
static void write_name(struct kernel_use *out, const char *mangled, size_t *n_symbol)
{
    const char *at = mangled + strcspn(mangled, "0123456789");
    char *name;
    const long n = strtol(at, &name, 10);

    if (strncmp(mangled, "_Z", 2) != 0 || n <= 0 || (size_t)n > strlen(name) ||
        (size_t)n + 32 > sizeof(out->name)) {
        *n_symbol = (size_t)snprintf(out->name, sizeof(out->name), "%.80s", mangled);
        return;
    }
    *n_symbol = (size_t)n;
    memcpy(out->name, name, (size_t)n);
    write_numbers(out->name + n, sizeof(out->name) - (size_t)n, name + n);
}

static enum kernel kernel_of(const char *name, size_t n_symbol)
{
    int i = 0;

    while (i < N_KERNELS && (strlen(kernel_texts[i].symbol) != n_symbol ||
                             memcmp(kernel_texts[i].symbol, name, n_symbol) != 0))
        i++;
    return (enum kernel)i;
}

/* ---- one graph ---- */

struct report {
    struct kernel_use *uses; /* (n_max) */
    int n, n_max, first;     /* first: of the graph at hand */
    unsigned seen;           /* kernels of the table in the graph at hand, */
    unsigned is_seen;        /* and in any of them */
};

static bool is_same(const struct kernel_use *a, const struct kernel_use *b)
{
    return strcmp(a->name, b->name) == 0 && memcmp(a->grid, b->grid, sizeof(a->grid)) == 0 &&
           memcmp(a->block, b->block, sizeof(a->block)) == 0 && a->shared_bytes == b->shared_bytes;
}

static void add_use(struct report *r, const struct kernel_use *use)
{
    for (int i = r->first; i < r->n; i++)
        if (is_same(&r->uses[i], use)) {
            r->uses[i].n_calls++;
            return;
        }
    if (r->n < r->n_max)
        r->uses[r->n++] = *use;
}

static enum osp_status add_node(struct report *r, const struct graph *g, cudaGraphNode_t node)
{
    struct kernel_use use = {.n_rows = g->key.n_rows,
                             .n_prefill = g->key.n_prefill,
                             .n_seqs = g->key.n_seqs,
                             .n_steps = (int64_t)g->n_steps,
                             .n_calls = 1};
    struct cudaKernelNodeParams p;
    enum cudaGraphNodeType type;
    const char *mangled;
    enum kernel kernel;
    size_t n_symbol;
    enum osp_status st;

    TRY(gpu_check(cudaGraphNodeGetType(node, &type), "a node of a graph"));
    if (type != cudaGraphNodeTypeKernel)
        return OSP_OK;
    TRY(gpu_check(cudaGraphKernelNodeGetParams(node, &p), "a kernel of a graph"));
    TRY(gpu_check(cudaFuncGetName(&mangled, p.func), "the name of a kernel"));
    write_name(&use, mangled, &n_symbol);
    kernel = kernel_of(use.name, n_symbol);
    r->seen |= kernel < N_KERNELS ? SET(kernel) : 0;
    use.grid[0] = (int)p.gridDim.x, use.grid[1] = (int)p.gridDim.y, use.grid[2] = (int)p.gridDim.z;
    use.block[0] = (int)p.blockDim.x, use.block[1] = (int)p.blockDim.y;
    use.block[2] = (int)p.blockDim.z;
    use.shared_bytes = (int)p.sharedMemBytes;
    add_use(r, &use);
out:
    return st;
}

/* What was asked for is what is there, and nothing else of the table's products and attentions. */
static enum osp_status check(const struct report *r, const struct graph *g)
{
    for (int i = 0; i < N_KERNELS; i++) {
        const bool is_meant = g->expected & SET(i), is_there = r->seen & SET(i);

        if (kernel_texts[i].op_class != OPCLASS_AUTO && is_meant != is_there)
            return fail(OSP_EDEVICE,
                        "cuda: a step of %d rows %s the kernel %s (%s), which the table and the "
                        "flags %s: what was measured is not what was asked for",
                        g->key.n_rows, is_there ? "launched" : "lacks", kernel_texts[i].symbol,
                        opclass_names[kernel_texts[i].op_class],
                        is_there ? "do not ask for" : "ask for");
    }
    return OSP_OK;
}

static enum osp_status add_graph(struct report *r, const struct graph *g)
{
    cudaGraphNode_t *nodes = NULL;
    size_t n;
    enum osp_status st;

    TRY(gpu_check(cudaGraphGetNodes(g->recorded, NULL, &n), "the nodes of a graph"));
    nodes = calloc(n + 1, sizeof(*nodes));
    if (nodes == NULL)
        return fail(OSP_ENOMEM, "no memory for the nodes of a graph");
    TRY(gpu_check(cudaGraphGetNodes(g->recorded, nodes, &n), "the nodes of a graph"));
    r->first = r->n;
    r->seen = 0;
    for (size_t i = 0; i < n; i++)
        TRY(add_node(r, g, nodes[i]));
    r->is_seen |= r->seen;
    st = check(r, g);
out:
    free(nodes);
    return st;
}

/* ---- all ---- */

/* A kind of kernel that was asked for by name is there, if only in one of the steps. */
static enum osp_status check_request(const struct report *r, const struct kernel_request *w,
                                     const char *flag)
{
    for (int i = 0; i < N_KERNELS; i++)
        if (w->op_class == OPCLASS_AUTO ||
            (kernel_texts[i].op_class == w->op_class && r->is_seen & SET(i)))
            return OSP_OK;
    return fail(OSP_EDEVICE,
                "cuda: %s %s was asked for, but no recorded step has such a kernel: steps are "
                "recorded when they come a second time, so measure more runs, or prompts",
                flag, opclass_names[w->op_class]);
}

static bool is_same_shape(const struct graph *a, const struct graph *b)
{
    return a->key.n_rows == b->key.n_rows && a->key.n_prefill == b->key.n_prefill &&
           a->key.n_seqs == b->key.n_seqs;
}

/* Of graphs that differ in the length of the context alone, the one that ran most stands for
 * all. */
static bool is_representative(const struct gpu *gpu, const struct graph *g)
{
    for (int i = 0; i < GRAPHS_MAX; i++) {
        const struct graph *o = &gpu->graphs[i];

        if (o != g && o->recorded != NULL && is_same_shape(o, g) &&
            (o->n_steps > g->n_steps || (o->n_steps == g->n_steps && o < g)))
            return false;
    }
    return true;
}

enum osp_status gpu_kernels(const struct gpu *gpu, struct kernel_use *out, int n_max, int *n)
{
    struct report r = {.uses = out, .n_max = n_max};
    enum osp_status st;

    *n = 0;
    for (int i = 0; gpu->graphs != NULL && i < GRAPHS_MAX; i++)
        if (gpu->graphs[i].recorded != NULL && is_representative(gpu, &gpu->graphs[i]))
            TRY(add_graph(&r, &gpu->graphs[i]));
    if (r.n == 0)
        return fail(OSP_EUNSUPPORTED, "cuda: no step was recorded as a graph, so none can be "
                                      "looked at: steps are when they come a second time, and "
                                      "never with --enforce-eager");
    TRY(check_request(&r, &gpu->kernel_config.mxfp4, "--mxfp4-backend"));
    TRY(check_request(&r, &gpu->kernel_config.attention, "--attention-backend"));
    *n = r.n;
out:
    return st;
}
