/* The CPU's device options: those options of vLLM and osprey that choose a GPU kernel. The ISA
 * decides which kernels the CPU runs (--cpu-features), so each option accepts only its default and
 * the values of vLLM. */
#include "backend/vllm_kernels.h"
#include "base/log.h"
#include "cpu/common/cpu.h"

#define HINT "other values need --device cuda; the CPU's kernels follow from --cpu-features"

const struct device_option_row cpu_option_rows[] = {
    {.name = "mxfp4-activation",
     .metavar = "TYPE",
     .initial = "bf16",
     .values = "bf16",
     .help = "type of the activations that are multiplied with MXFP4 weights in prefill",
     .hint = HINT},
    {.name = "mxfp4-backend",
     .metavar = "NAME",
     .initial = "auto",
     .values = "auto",
     .vllm_values = VLLM_MXFP4_VALUES,
     .help = "kernel for MXFP4 weights; the CPU accepts vLLM's names and ignores them",
     .hint = HINT},
    {.name = "moe-tile",
     .metavar = "TILE",
     .initial = "auto",
     .values = "auto",
     .help = "tile of the MoE GEMM in prefill; for GPUs",
     .hint = HINT},
    {.name = "attention-backend",
     .aliases = "--attention-config.backend",
     .metavar = "NAME",
     .initial = "auto",
     .values = "auto",
     .vllm_values = VLLM_ATTENTION_VALUES,
     .help = "attention kernel; the CPU accepts vLLM's names and ignores them",
     .hint = HINT},
    {0},
};

void cpu_options_log(const struct device_options *o)
{
    for (const struct device_option_row *row = cpu_option_rows; row->name != NULL; row++) {
        const char *value = device_option_value(o, row->name);

        if (value != NULL && device_option_is_vllm(row, value))
            log_warn("--%s %s is a kernel of vLLM; the CPU uses its own kernel (auto)", row->name,
                     value);
    }
}
