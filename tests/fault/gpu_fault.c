/* Makes a real GPU fail, for tests. Tests preload it into the program (LD_PRELOAD); it is not part
 * of the program. A thread waits for the file $CARD_FAULT_DIR/PID, where PID is this process, and
 * then runs a kernel in the context of the program, as a faulty kernel of the program would run:
 *
 *   trap      the kernel stops at a trap instruction: CUDA_ERROR_LAUNCH_FAILED
 *   address   it writes to an invalid address: CUDA_ERROR_ILLEGAL_ADDRESS
 *   busy      it occupies every multiprocessor for BUSY_NS, so that the running step cannot end,
 *             and then returns
 *
 * After the first two, every call in the context fails: nothing here simulates a result. The used
 * part of the driver's API is declared here, so that compiling needs no CUDA. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_NS = 1000000,
    PATH_BYTES = 512,
    BLOCK_THREADS = 1024,
    ATTRIBUTE_MULTIPROCESSORS = 16, /* CU_DEVICE_ATTRIBUTE_..., cuda.h */
    ATTRIBUTE_THREADS = 39,         /* of one of them */
    STREAM_NON_BLOCKING = 1
};
static const uint64_t BUSY_NS = 5000000000;

static const char PTX[] = ".version 7.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry trap(.param .u64 unused) {\n"
                          "    trap;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry address(.param .u64 unused) {\n"
                          "    .reg .u64 %at;\n"
                          "    mov.u64 %at, 16;\n"
                          "    st.global.u64 [%at], %at;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry busy(.param .u64 span_ns) {\n"
                          "    .reg .u64 %span, %begin, %now;\n"
                          "    .reg .pred %more;\n"
                          "    ld.param.u64 %span, [span_ns];\n"
                          "    mov.u64 %begin, %globaltimer;\n"
                          "again:\n"
                          "    mov.u64 %now, %globaltimer;\n"
                          "    sub.u64 %now, %now, %begin;\n"
                          "    setp.lt.u64 %more, %now, %span;\n"
                          "    @%more bra again;\n"
                          "    ret;\n"
                          "}\n";

/* The driver's functions: result 0 is success, handles are pointers, a device is a number. */
#define DRIVER_LIST(X)                                                                             \
    X(cuDeviceGet, (int *device, int ordinal))                                                     \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                               \
    X(cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *is_active))                   \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuModuleLoadData, (void **module, const void *image))                                        \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))                      \
    X(cuStreamCreate, (void **stream, unsigned flags))                                             \
    X(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
                       unsigned block_x, unsigned block_y, unsigned block_z,                       \
                       unsigned shared_bytes, void *stream, void **parameters, void **extra))      \
    X(cuStreamSynchronize, (void *stream))                                                         \
    X(cuGetErrorName, (int result, const char **name))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    DRIVER_LIST(MEMBER)
#undef MEMBER
} cu;

static struct {
    char file[PATH_BYTES];
    int device;
    void *module, *stream;
} shim;

static void say(const char *what, int result)
{
    const char *name = "";

    if (result != 0)
        (void)cu.cuGetErrorName(result, &name);
    fprintf(stderr, "gpu_fault %d: %s%s%s\n", (int)getpid(), what, result != 0 ? ": " : "", name);
}

static void pause_shortly(void)
{
    const struct timespec span = {.tv_nsec = POLL_NS};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}

/* The driver, once the program has loaded it. */
static bool find_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    bool is_whole = driver != NULL;

#define FIND(name, parameters)                                                                     \
    if (is_whole) {                                                                                \
        *(void **)&cu.name = dlsym(driver, #name);                                                 \
        is_whole = cu.name != NULL;                                                                \
    }
    DRIVER_LIST(FIND)
#undef FIND
    return is_whole;
}

static bool has_context(void)
{
    unsigned flags;
    int is_active = 0;

    return cu.cuDeviceGet(&shim.device, 0) == 0 &&
           cu.cuDevicePrimaryCtxGetState(shim.device, &flags, &is_active) == 0 && is_active != 0;
}

/* Into the program's context, with kernels that are ready to run. */
static bool join_context(void)
{
    void *context;
    int result = cu.cuDevicePrimaryCtxRetain(&context, shim.device);

    if (result == 0)
        result = cu.cuCtxSetCurrent(context);
    if (result == 0)
        result = cu.cuModuleLoadData(&shim.module, PTX);
    if (result == 0)
        result = cu.cuStreamCreate(&shim.stream, STREAM_NON_BLOCKING);
    if (result != 0)
        say("the context cannot be joined", result);
    return result == 0;
}

/* Blocks of BLOCK_THREADS that fit on the GPU at once. */
static unsigned blocks_of_gpu(void)
{
    int n_multiprocessors = 1, n_threads = BLOCK_THREADS;

    (void)cu.cuDeviceGetAttribute(&n_multiprocessors, ATTRIBUTE_MULTIPROCESSORS, shim.device);
    (void)cu.cuDeviceGetAttribute(&n_threads, ATTRIBUTE_THREADS, shim.device);
    return (unsigned)(n_multiprocessors * (n_threads / BLOCK_THREADS));
}

static void run(const char *name)
{
    uint64_t span_ns = BUSY_NS;
    void *parameters[] = {&span_ns}, *kernel;
    bool is_wide = strcmp(name, "busy") == 0;
    int result = cu.cuModuleGetFunction(&kernel, shim.module, name);

    say(name, 0);
    if (result == 0)
        result =
            cu.cuLaunchKernel(kernel, is_wide ? blocks_of_gpu() : 1, 1, 1,
                              is_wide ? BLOCK_THREADS : 1, 1, 1, 0, shim.stream, parameters, NULL);
    if (result == 0)
        result = cu.cuStreamSynchronize(shim.stream);
    say(result == 0 ? "the kernel has ended" : "the context", result);
}

/* False: nobody has asked for one. */
static bool take_wish(char out[16])
{
    FILE *f = fopen(shim.file, "re");
    bool is_read;

    if (f == NULL)
        return false;
    is_read = fscanf(f, "%15s", out) == 1;
    fclose(f);
    (void)unlink(shim.file);
    return is_read;
}

static void *serve(void *unused)
{
    char name[16];

    while (!find_driver() || !has_context())
        pause_shortly();
    if (!join_context())
        return unused;
    for (;;) {
        if (take_wish(name))
            run(name);
        pause_shortly();
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("CARD_FAULT_DIR");
    sigset_t all, before;
    pthread_t thread;

    if (folder == NULL)
        return;
    snprintf(shim.file, sizeof shim.file, "%s/%d", folder, (int)getpid());
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, serve, NULL) != 0)
        fprintf(stderr, "gpu_fault: no thread\n");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
