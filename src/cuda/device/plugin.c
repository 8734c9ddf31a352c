/* The plug-in: what the program finds in it, and whether this machine has what it needs. */
#include "backend/plugin.h"
#include "cuda/device/gpu.h"
#include "cuda/device/host.h"

static enum osp_status check_driver(void)
{
    int driver = 0, runtime = 0;
    enum osp_status st;

    TRY(gpu_check(cudaDriverGetVersion(&driver), "version of the driver"));
    TRY(gpu_check(cudaRuntimeGetVersion(&runtime), "version of the runtime"));
    if (driver == 0)
        return fail(OSP_EDEVICE, "cuda: no driver is loaded (libcuda.so.1 and its kernel module)");
    if (driver / 1000 < runtime / 1000)
        return fail(OSP_EDEVICE,
                    "cuda: the driver is too old: it speaks CUDA %d.%d, this build needs %d.0",
                    driver / 1000, driver % 1000 / 10, runtime / 1000);
out:
    return st;
}

/* The kernels' code is there for this card. No kernel is asked: that would make a context, which
 * takes half a gigabyte of the card also in a process that only wants to know, as one does whose
 * worker has the model. */
static enum osp_status check_code(void)
{
    struct cudaDeviceProp p;
    enum osp_status st;

    TRY(gpu_check(cudaGetDeviceProperties(&p, 0), "properties of the device"));
    if (arch_of_capability(p.major) == N_ARCHS || !arch_has_code(CUDA_ARCHS, p.major, p.minor))
        return fail(
            OSP_EDEVICE,
            "cuda: %s has capability %d.%d, for which this build has no code (see docs/cuda.md)",
            p.name, p.major, p.minor);
out:
    return st;
}

static enum osp_status cuda_start(const struct plugin_host *host)
{
    int n_devices = 0;
    enum osp_status st;

    host_is(host);
    TRY(check_driver());
    TRY(gpu_check(cudaGetDeviceCount(&n_devices), "counting devices"));
    if (n_devices == 0)
        return fail(OSP_EDEVICE, "cuda: the driver is here, but it sees no device");
    TRY(check_code());
out:
    return st;
}

__attribute__((visibility("default"))) extern const struct plugin osprey_plugin;
const struct plugin osprey_plugin = {
    .version = PLUGIN_VERSION, .sizes = PLUGIN_SIZES, .ops = &gpu_ops, .start = cuda_start};
