/* Entry point of the CUDA plug-in, and the check that this machine can run it. */
#include "backend/plugin.h"
#include "cuda/device/gpu.h"
#include "cuda/device/host.h"

static enum osp_status check_driver(void)
{
    int driver = 0, runtime = 0;
    enum osp_status st;

    TRY(gpu_check(cudaDriverGetVersion(&driver), "querying the driver version"));
    TRY(gpu_check(cudaRuntimeGetVersion(&runtime), "querying the runtime version"));
    if (driver == 0)
        return fail(OSP_EDEVICE,
                    "cuda: no driver is loaded: install libcuda.so.1 and its kernel module; a "
                    "container needs NVIDIA's container toolkit and --gpus all");
    if (driver / 1000 < runtime / 1000)
        return fail(
            OSP_EDEVICE,
            "cuda: the driver supports CUDA %d.%d; this build needs %d.0: update the driver",
            driver / 1000, driver % 1000 / 10, runtime / 1000);
out:
    return st;
}

/* Checks that the plug-in has code for this GPU. It does not query a kernel: that would create a
 * context, which takes half a gigabyte of GPU memory even in a process that only checks, such as
 * one whose worker process has the model. */
static enum osp_status check_code(void)
{
    struct cudaDeviceProp p;
    enum osp_status st;

    TRY(gpu_check(cudaGetDeviceProperties(&p, 0), "querying the device properties"));
    if (arch_of_capability(p.major) == N_ARCHS || !arch_has_code(CUDA_ARCHS, p.major, p.minor))
        return fail(
            OSP_EDEVICE,
            "cuda: %s has compute capability %d.%d; this build has no code for it (docs/cuda.md)",
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
        return fail(OSP_EDEVICE, "cuda: the driver found no device");
    TRY(check_code());
out:
    return st;
}

__attribute__((visibility("default"))) extern const struct plugin osprey_plugin;
const struct plugin osprey_plugin = {
    .version = PLUGIN_VERSION, .sizes = PLUGIN_SIZES, .ops = &gpu_ops, .start = cuda_start};
