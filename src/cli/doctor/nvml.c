#include "cli/doctor/nvml.h"

#include <dlfcn.h>
#include <string.h>

enum {
    CLOCK_SM = 1,
    SENSOR_GPU = 0,
    ERROR_UNCORRECTED = 1,
    COUNTER_VOLATILE = 0, /* since the driver was loaded */
    NVLINKS_MAX = 18
};

static const char LIBRARY[] = "libnvidia-ml.so.1";

enum osp_status nvml_load(struct nvml_calls *out)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        return fail(OSP_ENOTFOUND, "%s", dlerror());
#define NVML_FIND(member, symbol, arguments) *(void **)&out->member = dlsym(library, symbol);
    NVML_REQUIRED_LIST(NVML_FIND)
    NVML_OPTIONAL_LIST(NVML_FIND)
#undef NVML_FIND
#define NVML_CHECK(member, symbol, arguments)                                                      \
    if (out->member == NULL)                                                                       \
        return fail(OSP_EFORMAT, "%s has no function %s", LIBRARY, symbol);
    NVML_REQUIRED_LIST(NVML_CHECK)
#undef NVML_CHECK
    return OSP_OK;
}

/* The value of a call, NVML_UNKNOWN if the library or the GPU does not have it. */
#define VALUE(call, ...)                                                                           \
    ((call) != NULL && (call)(device, __VA_ARGS__) == 0 ? (int)value : NVML_UNKNOWN)

static void read_memory(struct nvml_gpu *out, const struct nvml_calls *c, void *device)
{
    struct nvml_memory memory;

    out->memory_bytes = out->used_bytes = NVML_UNKNOWN;
    if (c->memory == NULL || c->memory(device, &memory) != 0)
        return;
    out->memory_bytes = (int64_t)memory.total;
    out->used_bytes = (int64_t)memory.used;
}

static void read_errors(struct nvml_gpu *out, const struct nvml_calls *c, void *device)
{
    unsigned long long n, bits;
    unsigned value = 0, pending;

    out->ecc = VALUE(c->ecc_mode, &value, &pending);
    out->ecc_errors = out->throttle = NVML_UNKNOWN;
    if (c->ecc_errors != NULL &&
        c->ecc_errors(device, ERROR_UNCORRECTED, COUNTER_VOLATILE, &n) == 0)
        out->ecc_errors = (int64_t)n;
    if (c->throttle != NULL && c->throttle(device, &bits) == 0)
        out->throttle = (int64_t)bits;
}

static void read_links(struct nvml_gpu *out, const struct nvml_calls *c, void *device)
{
    unsigned value = 0;

    out->pcie_generation_max = VALUE(c->pcie_generation, &value);
    out->pcie_lanes = VALUE(c->pcie_lanes, &value);
    out->pcie_lanes_max = VALUE(c->pcie_lanes_max, &value);
    out->n_nvlinks = 0;
    for (unsigned i = 0; i < NVLINKS_MAX; i++)
        out->n_nvlinks += VALUE(c->nvlink, i, &value) == 1;
}

static void read_gpu(struct nvml_gpu *out, const struct nvml_calls *c, void *device)
{
    unsigned value = 0, pending;

    if (c->name(device, out->name, sizeof out->name) != 0)
        out->name[0] = '\0';
    out->name[sizeof out->name - 1] = '\0';
    read_memory(out, c, device);
    read_errors(out, c, device);
    read_links(out, c, device);
    out->compute_mode = VALUE(c->compute_mode, &value);
    out->sm_mhz = VALUE(c->clock, CLOCK_SM, &value);
    out->sm_mhz_max = VALUE(c->clock_max, CLOCK_SM, &value);
    out->power_limit_mw = VALUE(c->power_limit, &value);
    out->power_default_mw = VALUE(c->power_default, &value);
    out->celsius = VALUE(c->temperature, SENSOR_GPU, &value);
    out->persistence = VALUE(c->persistence, &value);
    out->mig = VALUE(c->mig, &value, &pending);
}

enum osp_status nvml_read(struct nvml_report *out, const struct nvml_calls *c)
{
    unsigned n = 0;
    int code = c->init();

    memset(out, 0, sizeof *out);
    if (code != 0)
        return fail(OSP_EDEVICE, "the driver does not answer: nvmlInit returns %d", code);
    if (c->driver == NULL || c->driver(out->driver, sizeof out->driver) != 0)
        out->driver[0] = '\0';
    out->driver[sizeof out->driver - 1] = '\0';
    code = c->count(&n);
    for (unsigned i = 0; code == 0 && i < n && i < NVML_GPUS_MAX; i++) {
        void *device;

        if (c->handle(i, &device) == 0)
            read_gpu(&out->gpus[i], c, device);
        out->n_gpus++;
    }
    (void)c->shutdown();
    return code == 0 ? OSP_OK : fail(OSP_EDEVICE, "the driver does not count its GPUs: %d", code);
}
