/* vLLM's kernel names, which devices accept on pasted command lines and map to kernels of their
 * own. */
#ifndef BACKEND_VLLM_KERNELS_H
#define BACKEND_VLLM_KERNELS_H

/* X(name): kernels for experts with MXFP4 weights, and for attention. */
#define VLLM_MXFP4_LIST(X) X(MARLIN) X(TRITON) X(CUTLASS) X(TRTLLM) X(TRTLLM_MXFP8)
#define VLLM_ATTENTION_LIST(X)                                                                     \
    X(FLASH_ATTN) X(FLASHINFER) X(TRITON_ATTN) X(FLEX_ATTENTION) X(TORCH_SDPA)

/* The names as one string, for device_option_row.vllm_values: an empty element comes first. */
#define VLLM_VALUE(name)      "," #name
#define VLLM_MXFP4_VALUES     "" VLLM_MXFP4_LIST(VLLM_VALUE)
#define VLLM_ATTENTION_VALUES "" VLLM_ATTENTION_LIST(VLLM_VALUE)

#endif
