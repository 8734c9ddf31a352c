/* GPUs: the devices of the PCI bus, the driver, what NVML reports of each GPU, osprey's plug-in,
 * and the links between GPUs, which the plug-in measures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/host_file.h"
#include "base/memory.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/gpu_findings.h"
#include "osprey_tools.h"

enum { PCI_DEVICES_MAX = 4096, LINKS_MAX = 16 * 15 };

/* NVIDIA's display and 3D controllers. */
static int count_pci_gpus(const char *root)
{
    static const char BUS[] = "/sys/bus/pci/devices";
    char **names = mem_new(PCI_DEVICES_MAX * sizeof *names);
    const int n = host_list(names, PCI_DEVICES_MAX, root, BUS);
    int n_gpus = 0;

    for (int i = 0; i < n; i++) {
        struct host_line vendor, class;

        n_gpus += host_line(&vendor, root, "%s/%s/vendor", BUS, names[i]) &&
                  strcmp(vendor.text, "0x10de") == 0 &&
                  host_line(&class, root, "%s/%s/class", BUS, names[i]) &&
                  strncmp(class.text, "0x03", 4) == 0;
        free(names[i]);
    }
    free(names);
    return n_gpus;
}

void gpu_findings_without_library(struct findings *f, const char *root)
{
    const int n_gpus = count_pci_gpus(root);

    if (host_exists(root, "/proc/driver/nvidia/version")) {
        finding_add(f, FINDING_broken, "driver", "loaded, and %s", fail_message());
        finding_advise(f, "install the driver's libraries; a container needs --gpus all and "
                          "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    } else if (n_gpus > 0) {
        finding_add(f, FINDING_broken, "driver", "%d GPU%s of NVIDIA, and no driver", n_gpus,
                    n_gpus > 1 ? "s" : "");
        finding_advise(f, "install the distribution's nvidia-driver package, version 580 or later; "
                          "a container needs NVIDIA's container toolkit and --gpus all");
    } else
        finding_add(f, FINDING_untested, "GPUs", "this host has none; osprey serves on the CPU");
}

static void check_driver(struct findings *f, struct nvml_report *report)
{
    if (report->n_gpus == 0) {
        finding_add(f, FINDING_broken, "driver", "%s, which shows no GPU", report->driver);
        finding_advise(f, "dmesg | grep -i nvrm; a container needs --gpus all");
        return;
    }
    finding_add(f, FINDING_good, "driver", "%s, %d GPU%s", report->driver, report->n_gpus,
                report->n_gpus > 1 ? "s" : "");
}

/* Makes CUDA number the GPUs as NVML and nvidia-smi do, unless the user has chosen otherwise: false
 * then. To be called before the plug-in is used. */
static bool set_nvml_order(void)
{
    static const char NAME[] = "CUDA_DEVICE_ORDER", BUS[] = "PCI_BUS_ID";
    const char *order;

    (void)setenv(NAME, BUS, 0);
    order = getenv(NAME);
    return order != NULL && strcmp(order, BUS) == 0 && getenv("CUDA_VISIBLE_DEVICES") == NULL;
}

/* Also measures the links: the plug-in is the code for GPUs. */
static void check_plugin(struct findings *f, const struct nvml_report *report)
{
    struct osp_gpu_link *links = mem_new(LINKS_MAX * sizeof *links);
    const bool has_nvml_order = set_nvml_order();
    int n_gpus = 0, n = 0;
    const enum osp_status st = osp_gpu_links(links, LINKS_MAX, &n_gpus, &n);

    if (n_gpus > 0)
        finding_add(f, FINDING_good, "plug-in", "osprey-cuda.so runs here");
    if (st != OSP_OK) {
        finding_add(f, FINDING_broken, n_gpus > 0 ? "links" : "plug-in", "%s", fail_message());
        finding_advise(f,
                       st == OSP_ENOTFOUND
                           ? "build or install osprey with its plug-in for GPUs (make with nvcc, "
                             "or the package osprey-cuda)"
                           : "`osprey validate --device cuda` describes the GPU; docs/cuda.md "
                             "lists what the plug-in needs");
    } else if (n_gpus == 1) {
        finding_add(f, FINDING_untested, "links", "one GPU: there is no link to measure");
    }
    for (int i = 0; st == OSP_OK && i < n; i++)
        gpu_link_finding(f, &links[i], report, has_nvml_order);
    if (n == LINKS_MAX)
        finding_add(f, FINDING_untested, "links", "only the first %d were measured", LINKS_MAX);
    free(links);
}

void check_gpus(struct findings *f, const char *root)
{
    struct nvml_report *report = mem_new(sizeof *report);
    struct nvml_calls calls;
    enum osp_status st;

    f->group = "GPUs";
    st = nvml_load(&calls);
    if (st != OSP_OK) {
        gpu_findings_without_library(f, root);
        goto out;
    }
    st = nvml_read(report, &calls);
    if (st != OSP_OK) {
        finding_add(f, FINDING_broken, "driver", "%s", fail_message());
        finding_advise(f, "nvidia-smi; after an update of the driver reboot, or load its module "
                          "again");
        goto out;
    }
    check_driver(f, report);
    for (int i = 0; i < report->n_gpus; i++)
        gpu_findings(f, i, &report->gpus[i]);
    check_plugin(f, report);
    gpu_nccl_finding(f);
out:
    free(report);
}
