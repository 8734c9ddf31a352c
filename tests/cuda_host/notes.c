/* The notes of what launches read and write, against the addresses in their parameters. */
#include "unit.h"

#include "cuda/program/print_list.h"
#include "cuda_host/situations.h"

/* Whether a parameter of the launch has an address in the tensor, or in the workspace. */
static bool has_address(const struct symbolic *s, const struct program *p,
                        const struct launch_list *list, int launch, const struct touch *t)
{
    const struct launch *l = &list->launches[launch];
    const uint32_t first = list->params[l->first_param];
    const int next = l->first_param + l->n_params;
    const uint32_t end = next < list->n_params ? list->params[next] : (uint32_t)list->n_bytes;

    for (uint32_t at = first; at + 8 <= end; at += 8) {
        uint64_t address;
        int index;

        memcpy(&address, list->bytes + at, sizeof(address));
        switch (symbolic_find(s, p, address, &index)) {
        case ADDRESS_TENSOR:
            if (t->tensor == index)
                return true;
            break;
        case ADDRESS_WORKSPACE:
            if (t->tensor == 0 && t->workspace == index)
                return true;
            break;
        default:
            break;
        }
    }
    return false;
}

static void check_notes(const struct symbolic *s, const struct program *p,
                        const struct launch_list *list, const struct step_counts *counts,
                        const struct situation *at)
{
    (void)counts;
    for (int i = 0; i < list->n_touches; i++) {
        const struct touch *t = &list->touches[i];

        if (!has_address(s, p, list, t->launch, t)) {
            launch_list_print(stderr, list, p);
            fail_msg("%s: launch %d (%s) is noted to touch %s, and has no address of it",
                     situation_text(at), t->launch, list->launches[t->launch].name,
                     t->tensor > 0 ? p->tensors[t->tensor - 1].name : workspace_name(t->workspace));
        }
    }
}

/* Tensors and workspaces whose addresses a kernel has and does not use: it takes the argument
 * struct of a whole stage, or of a group of kernels. */
static const struct {
    const char *kernel, *unused;
} carried[] = {
    {"attn_kernel<", " att "}, /* with partials, which merge_kernel merges */
    {"attn_kernel_tree<", " att "},
    {"merge_kernel", " q kv "},
    {"rope_cache", " y wqkv[0] wqkv[1] wqkv[2] bqkv[0] bqkv[1] bqkv[2] "},
    {"decode_gemm_kernel<", " kv_rows "}, /* with the epilogue that stores keys and values */
    {"smem_resident_kernel<", " kv_rows "},
    {"mxfp8_matmul_kernel<",
     " y att q units taps normed "}, /* float32 rows, which it takes as MXFP8 */
    {"gathered_tokens_kernel", " tokens "},
    {"residual_rmsnorm", " h "},        /* without the residual add */
    {"shared_rmsnorm_kernel", " h y "}, /* it takes parts of h; y where only the operand is read */
    {"topk_kernel", " y wr br "},
    {"shared_topk_kernel", " y wr br "},
    {"up_kernel<", " w_down b_down h ids gates router_logits "},
    {"down_kernel<", " w_up b_up x y h br norm router_logits "},
    {"expert_jobs_kernel", " w_up w_down b_up b_down h x y units parts gates rounded "},
    {"few_jobs_kernel", " w_up w_down b_up b_down "},
    {"grouped_kernel<", " w_up w_down b_up b_down h x y ids gates parts router_logits rounded "},
    {"expert_operand_kernel", " w_up w_down b_up b_down h x y ids gates parts router_logits "},
    {"grouped_sm90_kernel<",
     " w_up w_down b_up b_down h x y ids gates parts router_logits rounded "},
    {"grouped_wide_kernel<",
     " w_up w_down b_up b_down h x y ids gates parts router_logits rounded "},
    {"combine_partials", " w_up w_down b_up b_down h y ids gates units router_logits rounded "},
    {"combine", " w_up w_down b_up b_down y ids units "},
    {"survey<", " tokens logprobs top_tokens top_logprobs tops bins ids candidates "},
    {"weigh<", " tokens logprobs top_tokens top_logprobs tops bins ids candidates "},
    {"collect", " tokens logprobs top_tokens top_logprobs tops ids candidates "},
    {"sample<", " top_tokens top_logprobs tops bins candidates "},
    {"candidates_of_chunk", " logprobs top_tokens top_logprobs bins candidates "},
    {"candidates_of_row", " logprobs top_tokens top_logprobs logits chunks bins "},
};

static bool is_carried(const char *kernel, const char *name)
{
    char word[64];

    (void)snprintf(word, sizeof(word), " %s ", name);
    for (size_t i = 0; i < sizeof(carried) / sizeof(carried[0]); i++)
        if (strncmp(kernel, carried[i].kernel, strlen(carried[i].kernel)) == 0)
            return strstr(carried[i].unused, word) != NULL;
    return false;
}

static bool is_noted(const struct launch_list *list, const struct touch *t)
{
    for (int i = 0; i < list->n_touches; i++)
        if (list->touches[i].launch == t->launch && list->touches[i].tensor == t->tensor &&
            (t->tensor > 0 || list->touches[i].workspace == t->workspace))
            return true;
    return false;
}

/* Every address of a tensor or workspace but for the batch, which no launch of a step writes first,
 * is noted. */
static void check_addresses(const struct symbolic *s, const struct program *p,
                            const struct launch_list *list, const struct step_counts *counts,
                            const struct situation *at)
{
    (void)counts;
    for (int launch = 0; launch < list->n; launch++)
        for (int i = 1 - N_WORKSPACES; i <= p->n_tensors; i++) {
            const struct touch t = {
                .launch = launch, .tensor = i > 0 ? i : 0, .workspace = i > 0 ? 0 : -i};
            const char *name = i > 0 ? p->tensors[i - 1].name : workspace_name(-i);

            if ((i > 0 || -i != WORKSPACE_batch) && has_address(s, p, list, launch, &t) &&
                !is_noted(list, &t) && !is_carried(list->launches[launch].name, name))
                fail_msg("%s: launch %d (%s) has an address of %s, and no note of it",
                         situation_text(at), launch, list->launches[launch].name, name);
        }
}

void test_addresses(void **state)
{
    (void)state;
    for_random_lists(check_addresses, 3);
}

void test_notes(void **state)
{
    (void)state;
    for_random_lists(check_notes, 2);
}
