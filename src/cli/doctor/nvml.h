/* What the driver's library (NVML, libnvidia-ml.so.1) reports about the GPUs. It is loaded when it
 * is needed, because hosts without a driver lack it; the declarations are those of its stable
 * interface. */
#ifndef CLI_DOCTOR_NVML_H
#define CLI_DOCTOR_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    NVML_GPUS_MAX = 64,
    NVML_NAME_BYTES = 96,
    NVML_UNKNOWN = -1 /* a value that the GPU does not have */
};

/* Bits of `throttle`: reasons for lower clocks that are no idleness and no setting. */
enum {
    NVML_THROTTLE_HW_SLOWDOWN = 0x8,
    NVML_THROTTLE_SW_THERMAL = 0x20,
    NVML_THROTTLE_HW_THERMAL = 0x40,
    NVML_THROTTLE_POWER_BRAKE = 0x80
};

enum nvml_compute_mode { NVML_SHARED, NVML_EXCLUSIVE_THREAD, NVML_PROHIBITED, NVML_EXCLUSIVE };

struct nvml_gpu {
    char name[NVML_NAME_BYTES];
    int64_t memory_bytes, used_bytes; /* NVML_UNKNOWN: the memory is the host's */
    int compute_mode;                 /* enum nvml_compute_mode */
    int ecc;                          /* 1: on, 0: off */
    int64_t ecc_errors;               /* uncorrected, since the driver was loaded */
    int sm_mhz, sm_mhz_max;
    int64_t throttle;
    int power_limit_mw, power_default_mw;
    int celsius;
    int persistence; /* 1: on */
    int mig;         /* 1: divided into instances */
    int pcie_generation_max, pcie_lanes, pcie_lanes_max;
    int n_nvlinks; /* that are active; 0: none */
};

struct nvml_report {
    char driver[NVML_NAME_BYTES]; /* "580.65.06" */
    int n_gpus;
    struct nvml_gpu gpus[NVML_GPUS_MAX]; /* (n_gpus) */
};

/* The functions, X(member, symbol, arguments). The first ones are required. */
#define NVML_REQUIRED_LIST(X)                                                                      \
    X(init, "nvmlInit_v2", (void))                                                                 \
    X(shutdown, "nvmlShutdown", (void))                                                            \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *n))                                               \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned i, void **device))                        \
    X(name, "nvmlDeviceGetName", (void *device, char *text, unsigned n_bytes))
#define NVML_OPTIONAL_LIST(X)                                                                      \
    X(driver, "nvmlSystemGetDriverVersion", (char *text, unsigned n_bytes))                        \
    X(memory, "nvmlDeviceGetMemoryInfo", (void *device, struct nvml_memory *m))                    \
    X(compute_mode, "nvmlDeviceGetComputeMode", (void *device, unsigned *mode))                    \
    X(ecc_mode, "nvmlDeviceGetEccMode", (void *device, unsigned *now, unsigned *pending))          \
    X(ecc_errors, "nvmlDeviceGetTotalEccErrors",                                                   \
      (void *device, unsigned kind, unsigned counter, unsigned long long *n))                      \
    X(clock, "nvmlDeviceGetClockInfo", (void *device, unsigned type, unsigned *mhz))               \
    X(clock_max, "nvmlDeviceGetMaxClockInfo", (void *device, unsigned type, unsigned *mhz))        \
    X(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons",                                       \
      (void *device, unsigned long long *bits))                                                    \
    X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (void *device, unsigned *mw))                \
    X(power_default, "nvmlDeviceGetPowerManagementDefaultLimit", (void *device, unsigned *mw))     \
    X(temperature, "nvmlDeviceGetTemperature", (void *device, unsigned sensor, unsigned *c))       \
    X(persistence, "nvmlDeviceGetPersistenceMode", (void *device, unsigned *mode))                 \
    X(mig, "nvmlDeviceGetMigMode", (void *device, unsigned *now, unsigned *pending))               \
    X(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration", (void *device, unsigned *n))          \
    X(pcie_lanes, "nvmlDeviceGetCurrPcieLinkWidth", (void *device, unsigned *n))                   \
    X(pcie_lanes_max, "nvmlDeviceGetMaxPcieLinkWidth", (void *device, unsigned *n))                \
    X(nvlink, "nvmlDeviceGetNvLinkState", (void *device, unsigned link, unsigned *state))

struct nvml_memory {
    unsigned long long total, unused, used;
};

/* Each returns 0, or a code of NVML. An optional one is NULL in a library that lacks it. */
struct nvml_calls {
#define NVML_CALL(member, symbol, arguments) int(*member) arguments;
    NVML_REQUIRED_LIST(NVML_CALL)
    NVML_OPTIONAL_LIST(NVML_CALL)
#undef NVML_CALL
};

/* Loads the library, which stays loaded. OSP_ENOTFOUND: there is none; OSP_EFORMAT: it lacks a
 * required function. */
CHECKED enum osp_status nvml_load(struct nvml_calls *out);
/* OSP_EDEVICE: the driver does not answer. A GPU that does not answer has an empty name. */
CHECKED enum osp_status nvml_read(struct nvml_report *out, const struct nvml_calls *calls);

#endif
