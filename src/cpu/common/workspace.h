/* The CPU device's workspaces. cpu_step_reserve() allocates them for the largest step when a model
 * is opened, so that no step allocates. Without that call (tests of single stages) each step
 * allocates what it needs. */
#ifndef CPU_COMMON_WORKSPACE_H
#define CPU_COMMON_WORKSPACE_H

#include "cpu/common/cpu.h"

/* Words of 32 bits in the workspace of stage experts, for n_entries pairs of a token and an expert:
 * see struct grouping. */
static inline size_t expert_lists_n(size_t n_experts, size_t n_entries)
{
    return n_experts + 1 + 4 * n_entries;
}

/* Bytes of all workspaces for the largest step on this architecture: the maximum over its ISAs. */
int64_t cpu_step_bytes(const struct step_shape *shape);
CHECKED enum osp_status cpu_step_reserve(struct backend *be, const struct step_shape *shape);
void cpu_workspace_release(struct cpu *cpu);

#endif
