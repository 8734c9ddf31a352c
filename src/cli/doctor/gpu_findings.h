/* What the values of a GPU and of a link between GPUs mean for serving: pure functions of what NVML
 * and the plug-in report. */
#ifndef CLI_DOCTOR_GPU_FINDINGS_H
#define CLI_DOCTOR_GPU_FINDINGS_H

#include "cli/doctor/finding.h"
#include "cli/doctor/nvml.h"
#include "osprey_tools.h"

/* Number i of the host. */
void gpu_findings(struct findings *f, int i, const struct nvml_gpu *gpu);

/* Where NVML is not there: this thread's failure message says why. What the PCI bus and the kernel
 * show below the root distinguishes a host without GPUs from one without a driver. check_gpus.c */
void gpu_findings_without_library(struct findings *f, const char *root);

/* Adds the link. `report` describes its ends if CUDA numbers the GPUs as NVML does, by their place
 * on the PCI bus (has_nvml_order); else the line has CUDA's numbers. */
void gpu_link_finding(struct findings *f, const struct osp_gpu_link *link,
                      const struct nvml_report *report, bool has_nvml_order);

/* Whether NCCL can be used, which ranks of several hosts need. */
void gpu_nccl_finding(struct findings *f);

/* Bytes per second in one direction that copies between two such GPUs should reach; 0: unknown. */
double gpu_link_expected(const struct nvml_gpu *gpu, bool has_peer_access);

#endif
