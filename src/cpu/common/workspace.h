/* The device's scratch memory: what it takes for the largest step when a model is opened, so
 * that no step asks for memory. Steps of a device that was opened without (tests of single
 * stages) take it as they go. */
#ifndef CPU_COMMON_WORKSPACE_H
#define CPU_COMMON_WORKSPACE_H

#include "cpu/common/cpu.h"

/* Integers of stage experts for so many tokens times experts: see struct grouping. */
static inline size_t expert_lists_n(size_t n_experts, size_t n_entries)
{
    return n_experts + 1 + 3 * n_entries;
}

/* Bytes of all rooms for the largest step on a machine of this kind, of whatever level its
 * kernels are. */
int64_t cpu_step_bytes(const struct step_shape *shape);
CHECKED enum osp_status cpu_step_reserve(struct backend *be, const struct step_shape *shape);
void cpu_workspace_release(struct cpu *cpu);

#endif
