#include "cli/doctor/gpu_findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/nccl_library.h"

enum { USED_PERCENT_MAX = 10, LANES_X16 = 16 };

/* Of NVLink 3 and 4 (A100, H100, H200); later ones have 50, which is not demanded. */
#define NVLINK_BYTES_PER_S 25e9
#define LANE_BYTES_PER_S   1e9 /* PCIe generation 3; each later one doubles it */
#define LINK_SHARE_MIN     0.6 /* of the nominal rate: copies of 64 MiB reach 0.75 to 0.9 */

/* Half of these between two H200s and over a PCIe switch. The sums of every layer wait for it. */
#define NVLINK_PUSH_S_MAX 3e-6
#define PCIE_PUSH_S_MAX   6e-6

static void add_use(struct findings *f, const char *subject, const struct nvml_gpu *gpu)
{
    char used[16], total[16];

    if (gpu->memory_bytes <= 0) {
        finding_add(f, FINDING_good, subject, "memory shared with the host");
        return;
    }
    format_bytes(used, (double)gpu->used_bytes);
    format_bytes(total, (double)gpu->memory_bytes);
    if (gpu->used_bytes > gpu->memory_bytes / 100 * USED_PERCENT_MAX) {
        finding_add(f, FINDING_slow, subject,
                    "%s of %s in use by other programs, at most %d %% expected", used, total,
                    USED_PERCENT_MAX);
        finding_advise(f,
                       "nvidia-smi lists the processes; their memory is missing in the KV cache");
    } else
        finding_add(f, FINDING_good, subject, "%s, %s in use", total, used);
}

static void add_mode(struct findings *f, const char *subject, const struct nvml_gpu *gpu)
{
    if (gpu->compute_mode == NVML_PROHIBITED) {
        finding_add(f, FINDING_broken, subject, "compute mode is prohibited");
        finding_advise(f, "sudo nvidia-smi -c DEFAULT");
    }
    if (gpu->mig == 1)
        finding_add(f, FINDING_good, subject,
                    "MIG is on: osprey uses the first instance that CUDA shows");
    if (gpu->persistence == 0) {
        finding_add(f, FINDING_slow, subject,
                    "persistence mode is off, expected on: each start waits for the driver");
        finding_advise(f, "sudo systemctl enable --now nvidia-persistenced, or sudo nvidia-smi -pm "
                          "1");
    }
}

static void add_ecc(struct findings *f, const char *subject, const struct nvml_gpu *gpu)
{
    if (gpu->ecc_errors > 0) {
        finding_add(f, FINDING_broken, subject,
                    "%" PRId64 " uncorrected ECC errors since the driver was loaded",
                    gpu->ecc_errors);
        finding_advise(f, "nvidia-smi -q -d ECC,ROW_REMAPPER; reset the GPU or have it replaced");
    } else if (gpu->ecc >= 0)
        finding_add(f, FINDING_good, subject, "ECC %s",
                    gpu->ecc ? "on, no uncorrected errors" : "off");
}

static const char *throttle_text(int64_t bits)
{
    if (bits == NVML_UNKNOWN)
        return NULL;
    return bits & NVML_THROTTLE_HW_THERMAL    ? "too hot (hardware)"
           : bits & NVML_THROTTLE_SW_THERMAL  ? "too hot"
           : bits & NVML_THROTTLE_POWER_BRAKE ? "the power supply's brake"
           : bits & NVML_THROTTLE_HW_SLOWDOWN ? "hardware slowdown"
                                              : NULL;
}

static void add_clocks(struct findings *f, const char *subject, const struct nvml_gpu *gpu)
{
    const char *throttle = throttle_text(gpu->throttle);

    if (throttle != NULL) {
        finding_add(f, FINDING_slow, subject, "clocks lowered at %d C: %s; %d MHz, expected %d",
                    gpu->celsius, throttle, gpu->sm_mhz, gpu->sm_mhz_max);
        finding_advise(f, "check fans, air flow and power cables");
    } else if (gpu->sm_mhz_max > 0)
        finding_add(f, FINDING_good, subject, "%d MHz now, up to %d MHz", gpu->sm_mhz,
                    gpu->sm_mhz_max);
    if (gpu->power_limit_mw <= 0 || gpu->power_default_mw <= 0)
        return;
    if (gpu->power_limit_mw < gpu->power_default_mw) {
        finding_add(f, FINDING_slow, subject, "power limit %d W, expected %d W",
                    gpu->power_limit_mw / 1000, gpu->power_default_mw / 1000);
        finding_advise(f, "sudo nvidia-smi -pl %d, if the power supply and the cooling allow it",
                       gpu->power_default_mw / 1000);
    } else
        finding_add(f, FINDING_good, subject, "power limit %d W", gpu->power_limit_mw / 1000);
}

/* The generation falls while the bus is idle, the number of lanes does not. */
static void add_slot(struct findings *f, const char *subject, const struct nvml_gpu *gpu)
{
    if (gpu->pcie_lanes <= 0 || gpu->pcie_lanes >= gpu->pcie_lanes_max)
        return;
    finding_add(f, FINDING_slow, subject, "PCIe x%d, expected x%d", gpu->pcie_lanes,
                gpu->pcie_lanes_max);
    finding_advise(f, "seat the GPU again, or in a slot with all lanes: the start reads the "
                      "weights over it");
}

void gpu_findings(struct findings *f, int i, const struct nvml_gpu *gpu)
{
    char subject[32];

    snprintf(subject, sizeof subject, "GPU %d", i);
    if (gpu->name[0] == '\0') {
        finding_add(f, FINDING_broken, subject, "does not answer");
        finding_advise(f, "dmesg | grep -i xid names the fault; reset the GPU or reboot");
        return;
    }
    finding_add(f, FINDING_good, subject, "%s", gpu->name);
    add_use(f, subject, gpu);
    add_mode(f, subject, gpu);
    add_ecc(f, subject, gpu);
    add_clocks(f, subject, gpu);
    add_slot(f, subject, gpu);
}

/* ---- links ---- */

double gpu_link_expected(const struct nvml_gpu *gpu, bool has_peer_access)
{
    double lane = LANE_BYTES_PER_S;

    if (has_peer_access && gpu->n_nvlinks > 0)
        return LINK_SHARE_MIN * NVLINK_BYTES_PER_S * gpu->n_nvlinks;
    if (gpu->pcie_generation_max < 3 || gpu->pcie_lanes <= 0)
        return 0;
    for (int generation = 3; generation < gpu->pcie_generation_max; generation++)
        lane *= 2;
    /* Without peer access the bytes cross the bus twice, by way of the host's memory. */
    return LINK_SHARE_MIN * lane * gpu->pcie_lanes * (has_peer_access ? 1 : 0.5);
}

static const char *kind_of(const struct nvml_gpu *gpu, const struct osp_gpu_link *link)
{
    return !link->has_peer_access ? "no peer access"
           : gpu->n_nvlinks > 0   ? "NVLink"
                                  : "PCIe peer access";
}

static const struct nvml_gpu UNKNOWN_GPU = {.pcie_generation_max = NVML_UNKNOWN};

/* With CUDA's own numbers it is only known if all GPUs of the host are alike. */
static const struct nvml_gpu *gpu_of(const struct nvml_report *report, int number,
                                     bool has_nvml_order)
{
    const struct nvml_gpu *first = &report->gpus[0];

    if (has_nvml_order)
        return number < report->n_gpus ? &report->gpus[number] : &UNKNOWN_GPU;
    for (int i = 0; i < report->n_gpus; i++) {
        const struct nvml_gpu *gpu = &report->gpus[i];

        if (strcmp(gpu->name, first->name) != 0 || gpu->n_nvlinks != first->n_nvlinks ||
            gpu->pcie_generation_max != first->pcie_generation_max ||
            gpu->pcie_lanes != first->pcie_lanes)
            return &UNKNOWN_GPU;
    }
    return report->n_gpus > 0 ? first : &UNKNOWN_GPU;
}

static void advise_on_link(struct findings *f)
{
    finding_advise(f,
                   "nvidia-smi topo -m and topo -p2p rw; turn off ACS and the IOMMU of the host, "
                   "or use GPUs below one PCIe switch; tensor parallelism needs peer access");
}

void gpu_link_finding(struct findings *f, const struct osp_gpu_link *link,
                      const struct nvml_report *report, bool has_nvml_order)
{
    const struct nvml_gpu *gpu = gpu_of(report, link->from, has_nvml_order);
    const double expected = gpu_link_expected(gpu, link->has_peer_access);
    const double peer_expected = gpu_link_expected(gpu, true);
    const double push_max = gpu->n_nvlinks > 0 ? NVLINK_PUSH_S_MAX : PCIE_PUSH_S_MAX;
    char subject[64], push[96] = "", rate[48] = "";
    const bool is_late = link->has_peer_access && link->push_latency_s > push_max;

    snprintf(subject, sizeof subject, has_nvml_order ? "GPU %d to GPU %d" : "CUDA device %d to %d",
             link->from, link->to);
    if (link->bytes_per_s <= 0) {
        finding_add(f, FINDING_broken, subject, "%s, copies fail", kind_of(gpu, link));
        advise_on_link(f);
        return;
    }
    if (link->has_peer_access)
        snprintf(push, sizeof push, ", push %.2f us%s", 1e6 * link->push_latency_s,
                 is_late ? " (slow)" : "");
    if (link->bytes_per_s >= expected && !is_late && link->has_peer_access) {
        finding_add(f, FINDING_good, subject, "%s, %.1f GB/s%s", kind_of(gpu, link),
                    1e-9 * link->bytes_per_s, push);
        return;
    }
    if (peer_expected > 0)
        snprintf(rate, sizeof rate, ", %.1f GB/s", 1e-9 * peer_expected);
    finding_add(f, FINDING_slow, subject,
                "%s, %.1f GB/s%s; expected peer access%s, push at most %.0f us", kind_of(gpu, link),
                1e-9 * link->bytes_per_s, push, rate, 1e6 * push_max);
    advise_on_link(f);
}

void gpu_nccl_finding(struct findings *f)
{
    char why[512];
    void *library;
    int version;

    if (nccl_library_load(&library, &version, why, sizeof why)) {
        finding_add(f, FINDING_good, "NCCL", "%d.%d.%d, for ranks on several hosts",
                    version / 10000, version / 100 % 100, version % 100);
        return;
    }
    finding_add(f, FINDING_untested, "NCCL",
                "it cannot be used: %s; only ranks on GPUs of one host that have peer access to "
                "each other do without",
                why);
    finding_advise(f, NCCL_INSTALL);
}
