/* `osprey doctor`: the checks on machines that are folders with files of /proc and /sys, on GPUs
 * that are a table of functions, and the output. */
#include "unit.h"

#include <linux/capability.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint_edit.h"
#include "base/host_file.h"
#include "base/host_memory.h"
#include "base/nccl_library.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/gpu_findings.h"
#include "cli/doctor/peer_expected.h"

#define GB 1000000000LL

/* ---- machines ---- */

/* Writes a file below the root, with its folders. */
static void put(const char *root, const char *path, const char *text)
{
    char *whole = mem_printf("%s%s", root, path);

    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    bytes_write(root, path + 1, text, strlen(text));
    free(whole);
}

static const struct finding *find(const struct findings *f, const char *subject)
{
    for (size_t i = f->n; i > 0; i--)
        if (strcmp(f->list[i - 1].subject, subject) == 0)
            return &f->list[i - 1];
    fail_msg("no finding of %s", subject);
}

/* The last finding of a subject: its state, and a part of its text. */
static void expect(const struct findings *f, const char *subject, enum finding_state state,
                   const char *part)
{
    const struct finding *one = find(f, subject);

    if (one->state != state || strstr(one->text, part) == NULL)
        fail_msg("%s: state %d, \"%s\"; expected %d, \"%s\"", subject, (int)one->state, one->text,
                 (int)state, part);
    if (state == FINDING_slow || state == FINDING_broken)
        assert_non_null(one->advice);
}

typedef void check_fn(struct findings *f, const char *root);

/* Runs a check and expects one of its findings. */
static void check_expect(check_fn *check, const char *root, const char *subject,
                         enum finding_state state, const char *part)
{
    struct findings f = {.group = ""};

    check(&f, root);
    expect(&f, subject, state, part);
    findings_release(&f);
}

/* A DGX Spark: unified memory, no swap in use, and one RoCE device of which one port has a cable. */
static char *spark_new(void)
{
    char *root = folder_new();

    put(root, "/proc/meminfo",
        "MemTotal: 125000000 kB\nMemFree: 1 kB\nMemAvailable: 118000000 kB\n"
        "SwapTotal: 16000000 kB\nSwapFree: 16000000 kB\n");
    put(root, "/proc/self/cgroup", "0::/\n");
    put(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put(root, "/sys/devices/system/node/node0/cpulist", "0-19\n");
    put(root, "/sys/devices/system/node/online", "0\n");
    put(root, "/sys/class/net/lo/operstate", "unknown\n");
    put(root, "/sys/class/net/enp1s0f0np0/operstate", "up\n");
    put(root, "/sys/class/net/enp1s0f0np0/speed", "200000\n");
    put(root, "/sys/class/net/enp1s0f0np0/mtu", "9000\n");
    put(root, "/sys/class/net/enp1s0f1np1/operstate", "down\n");
    put(root, "/sys/class/net/enp1s0f1np1/device/vendor", "0x15b3\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/state", "4: ACTIVE\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/link_layer", "Ethernet\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/types/3", "RoCE v2\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/ndevs/3", "enp1s0f0np0\n");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/gids/3",
        "0000:0000:0000:0000:0000:ffff:c0a8:6401\n");
    put(root, "/sys/class/infiniband/rocep1s0f1/ports/1/state", "1: DOWN\n");
    put(root, "/sys/class/infiniband/rocep1s0f1/ports/1/link_layer", "Ethernet\n");
    put(root, "/dev/infiniband/uverbs0", "");
    return root;
}

static void test_files(void **state)
{
    char *root = folder_new(), *names[2], *deep = mem_new(2 * HOST_PATH_BYTES);
    struct host_line line;
    int64_t n = 0;

    (void)state;
    put(root, "/a/text", "one  \ntwo\n");
    put(root, "/a/number", "42 kB\n");
    put(root, "/a/max", "max\n");
    put(root, "/a/empty", "");
    assert_true(host_line(&line, root, "/a/%s", "text"));
    assert_string_equal(line.text, "one");
    assert_true(host_number(&n, root, "/a/number") && n == 42);
    assert_false(host_number(&n, root, "/a/max"));
    assert_false(host_line(&line, root, "/a/empty"));
    assert_false(host_line(&line, root, "/b"));
    memset(deep, 'x', 2 * HOST_PATH_BYTES - 1);
    assert_false(host_line(&line, root, "/%s", deep));
    assert_false(host_exists(root, "/%s", deep));
    assert_int_equal(host_list(names, 2, root, "/a"), 2);
    free(names[0]);
    free(names[1]);
    assert_int_equal(host_list(names, 2, root, "/none"), 0);
    free(deep);
    folder_remove(root);
}

static void test_a_spark_is_good(void **state)
{
    char *root = spark_new();
    struct findings f = {.group = ""};

    (void)state;
    check_memory(&f, root);
    check_network(&f, root);
    assert_int_equal(findings_count(&f, FINDING_slow) + findings_count(&f, FINDING_broken), 0);
    expect(&f, "memory", FINDING_good, "120.8 GB of 128.0 GB");
    expect(&f, "memory limit", FINDING_good, "none");
    expect(&f, "enp1s0f0np0", FINDING_good, "200 Gbit/s, MTU 9000");
    expect(&f, "enp1s0f1np1", FINDING_untested, "down");
    expect(&f, "rocep1s0f0 port 1", FINDING_untested, "GID 3 (RoCE v2), MTU 9000; osprey does not");
    expect(&f, "rocep1s0f1 port 1", FINDING_untested, "down");
    expect(&f, "RDMA", FINDING_untested, "does not measure it; other hosts are reached by TCP");
    findings_release(&f);
    folder_remove(root);
}

static void test_memory(void **state)
{
    char *root = spark_new();

    (void)state;
    put(root, "/proc/meminfo", "MemTotal: 125000000 kB\nMemAvailable: 50000000 kB\n");
    check_expect(check_memory, root, "memory", FINDING_slow, "more than 50 % expected");
    put(root, "/proc/meminfo",
        "MemTotal: 125000000 kB\nMemAvailable: 1000000 kB\nSwapTotal: 9000000 kB\nSwapFree: 1 "
        "kB\n");
    check_expect(check_memory, root, "memory", FINDING_broken, "at least 2 GiB");
    check_expect(check_memory, root, "swap", FINDING_slow, "9.2 GB are swapped out");
    put(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    check_expect(check_memory, root, "huge pages", FINDING_slow, "are off");
    put(root, "/proc/sys/kernel/numa_balancing", "1\n");
    check_expect(check_memory, root, "NUMA", FINDING_good, "1 node");
    put(root, "/sys/devices/system/node/node1/cpulist", "20-39\n");
    check_expect(check_memory, root, "NUMA", FINDING_slow, "2 nodes");
    put(root, "/proc/sys/kernel/numa_balancing", "0\n");
    check_expect(check_memory, root, "NUMA", FINDING_good, "2 nodes");
    folder_remove(root);
    root = folder_new(); /* nothing can be read */
    check_expect(check_memory, root, "memory", FINDING_untested, "cannot be read");
    check_expect(check_memory, root, "huge pages", FINDING_untested, "does not report");
    folder_remove(root);
}

static void test_memory_limits(void **state)
{
    char *root = spark_new();

    (void)state;
    put(root, "/proc/self/cgroup", "0::/system.slice/osprey.service\n");
    put(root, "/sys/fs/cgroup/system.slice/osprey.service/memory.max", "max\n");
    check_expect(check_memory, root, "memory limit", FINDING_good, "none");
    put(root, "/sys/fs/cgroup/system.slice/memory.max", "64000000000\n");
    check_expect(check_memory, root, "memory limit", FINDING_good, "64.0 GB");
    put(root, "/sys/fs/cgroup/memory.max", "1000000000\n"); /* the smallest counts */
    check_expect(check_memory, root, "memory limit", FINDING_broken, "1.0 GB");
    put(root, "/proc/self/cgroup", "12:cpu,cpuacct:/a\n11:memory:/docker/b\nnonsense\n");
    check_expect(check_memory, root, "memory limit", FINDING_good, "none");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    check_expect(check_memory, root, "memory limit", FINDING_good, "none");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n");
    check_expect(check_memory, root, "memory limit", FINDING_broken, "500.0 MB");
    folder_remove(root);
}

static void limit(__rlimit_resource_t resource, rlim_t soft, rlim_t hard)
{
    assert_int_equal(setrlimit(resource, &(struct rlimit){soft, hard}), 0);
}

/* What a group leaves is the least over its ancestors, and page cache is left. */
static void test_memory_that_is_left(void **state)
{
    char *root = folder_new();
    struct host_memory m;

    (void)state;
    host_memory_read(&m, root);
    assert_true(m.total_bytes == INT64_MAX && m.available_bytes == INT64_MAX);
    assert_true(m.group_limit_bytes == INT64_MAX && m.group_left_bytes == INT64_MAX);
    put(root, "/proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  800 kB\n");
    put(root, "/proc/self/cgroup", "0::/a/b\n");
    put(root, "/sys/fs/cgroup/a/memory.max", "600000\n");
    put(root, "/sys/fs/cgroup/a/memory.current", "500000\n");
    put(root, "/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100000\n");
    put(root, "/sys/fs/cgroup/a/b/memory.max", "400000\n");
    put(root, "/sys/fs/cgroup/a/b/memory.current", "50000\n");
    host_memory_read(&m, root);
    assert_true(m.total_bytes == 1024000 && m.available_bytes == 819200);
    assert_true(m.group_limit_bytes == 400000 && m.group_left_bytes == 200000);
    put(root, "/sys/fs/cgroup/a/b/memory.current", "450000\n");
    host_memory_read(&m, root);
    assert_true(m.group_left_bytes == 0);
    folder_remove(root);
}

static void test_system(void **state)
{
    char *root = folder_new();

    (void)state;
    check_expect(check_system, root, "CPU frequency", FINDING_untested, "does not control");
    put(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    check_expect(check_system, root, "CPU frequency", FINDING_slow, "performance expected");
    put(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
    check_expect(check_system, root, "CPU frequency", FINDING_good, "powersave");
    limit(RLIMIT_MEMLOCK, 65536, 65536);
    check_expect(check_system, root, "locked memory", FINDING_good, "65.5 kB");
    put(root, "/sys/class/infiniband/mlx5_0/node_guid", "0\n");
    check_expect(check_system, root, "locked memory", FINDING_good, "which osprey does not use");
    limit(RLIMIT_NOFILE, 512, 1024);
    check_expect(check_system, root, "open files", FINDING_broken, "at most 1024");
    folder_remove(root);
}

static void test_interfaces(void **state)
{
    char *root = folder_new();

    (void)state;
    check_expect(check_network, root, "interfaces", FINDING_untested, "none but the loopback");
    check_expect(check_network, root, "RDMA", FINDING_untested, "no device");
    put(root, "/sys/class/net/eth0/operstate", "up\n");
    put(root, "/sys/class/net/eth0/mtu", "1500\n");
    put(root, "/sys/class/net/eth0/speed", "-1\n");
    check_expect(check_network, root, "eth0", FINDING_good, "speed not reported");
    put(root, "/sys/class/net/eth0/speed", "100\n");
    check_expect(check_network, root, "eth0", FINDING_slow, "at least 1000");
    put(root, "/sys/class/net/eth0/speed", "1000\n");
    check_expect(check_network, root, "eth0", FINDING_good, "1 Gbit/s");
    put(root, "/sys/class/net/eth0/speed", "10000\n");
    check_expect(check_network, root, "eth0", FINDING_slow, "MTU 1500, expected 9000");
    put(root, "/sys/class/net/eth0/mtu", "9000\n");
    put(root, "/sys/class/net/eth0/device/current_link_width", "4\n");
    put(root, "/sys/class/net/eth0/device/max_link_width", "16\n");
    put(root, "/sys/class/net/eth0/device/current_link_speed", "16.0 GT/s PCIe\n");
    put(root, "/sys/class/net/eth0/device/max_link_speed", "32.0 GT/s PCIe\n");
    check_expect(check_network, root, "eth0", FINDING_slow,
                 "PCIe 16.0 GT/s x4, expected 32.0 GT/s x16");
    put(root, "/sys/class/net/eth0/device/current_link_speed", "32.0 GT/s PCIe\n");
    put(root, "/sys/class/net/eth0/device/current_link_width", "16\n");
    check_expect(check_network, root, "eth0", FINDING_good, "MTU 9000");
    folder_remove(root);
}

static void test_rdma(void **state)
{
    char *root = spark_new(), *file;

    (void)state;
    put(root, "/sys/class/net/enp1s0f0np0/mtu", "1500\n");
    check_expect(check_network, root, "rocep1s0f0 port 1", FINDING_untested,
                 "MTU 1500; osprey does not use RDMA");
    check_expect(check_network, root, "enp1s0f0np0", FINDING_slow, "MTU 1500, expected 9000");
    put(root, "/sys/class/infiniband/rocep1s0f0/ports/1/gids/3",
        "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    check_expect(check_network, root, "rocep1s0f0 port 1", FINDING_untested,
                 "without a RoCE v2 GID");
    put(root, "/sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT\n");
    put(root, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put(root, "/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    check_expect(check_network, root, "mlx5_0 port 1", FINDING_untested, "subnet manager");
    put(root, "/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    check_expect(check_network, root, "mlx5_0 port 1", FINDING_untested,
                 "InfiniBand at 400 Gb/sec");
    file = mem_printf("%s/dev/infiniband/uverbs0", root);
    unlink(file);
    *strrchr(file, '/') = '\0';
    rmdir(file);
    free(file);
    check_expect(check_network, root, "RDMA", FINDING_untested, "no /dev/infiniband");
    folder_remove(root);
}

/* ---- GPUs ---- */

static const struct nvml_gpu H200 = {.name = "NVIDIA H200",
                                     .memory_bytes = 143 * GB,
                                     .used_bytes = GB / 2,
                                     .ecc = 1,
                                     .sm_mhz = 345,
                                     .sm_mhz_max = 1980,
                                     .power_limit_mw = 700000,
                                     .power_default_mw = 700000,
                                     .celsius = 30,
                                     .persistence = 1,
                                     .pcie_generation_max = 5,
                                     .pcie_lanes = 16,
                                     .pcie_lanes_max = 16,
                                     .n_nvlinks = 18};

/* One finding of the GPU has this state and text. */
static void expect_of(const struct nvml_gpu *gpu, enum finding_state state, const char *part)
{
    struct findings f = {.group = ""};
    bool found = false;

    gpu_findings(&f, 0, gpu);
    for (size_t i = 0; i < f.n; i++)
        found = found || (f.list[i].state == state && strstr(f.list[i].text, part) != NULL &&
                          (f.list[i].advice != NULL || state == FINDING_good));
    if (!found)
        fail_msg("no finding with \"%s\"", part);
    findings_release(&f);
}

static void test_gpu(void **state)
{
    struct findings f = {.group = ""};
    struct nvml_gpu g = H200;

    (void)state;
    gpu_findings(&f, 0, &H200);
    assert_int_equal(findings_count(&f, FINDING_good), (int)f.n);
    findings_release(&f);
    g.used_bytes = 40 * GB;
    g.compute_mode = NVML_PROHIBITED;
    g.ecc_errors = 2;
    g.throttle = NVML_THROTTLE_SW_THERMAL | 1;
    g.power_limit_mw = 400000;
    g.persistence = 0;
    g.mig = 1;
    g.pcie_lanes = 8;
    expect_of(&g, FINDING_slow, "40.0 GB of 143.0 GB in use");
    expect_of(&g, FINDING_broken, "prohibited");
    expect_of(&g, FINDING_broken, "2 uncorrected ECC errors");
    expect_of(&g, FINDING_slow, "too hot; 345 MHz, expected 1980");
    expect_of(&g, FINDING_slow, "400 W, expected 700 W");
    expect_of(&g, FINDING_slow, "persistence mode is off");
    expect_of(&g, FINDING_good, "MIG is on");
    expect_of(&g, FINDING_slow, "PCIe x8, expected x16");
    g.throttle = 4; /* the power cap of a setting: no fault */
    expect_of(&g, FINDING_good, "up to 1980 MHz");
    g.name[0] = '\0';
    expect_of(&g, FINDING_broken, "does not answer");
}

/* A GB10 reports neither memory nor ECC nor power limits. */
static void test_gpu_without_values(void **state)
{
    struct nvml_gpu g = {.name = "NVIDIA GB10"};
    struct findings f = {.group = ""};

    (void)state;
    g.memory_bytes = g.used_bytes = g.ecc_errors = g.throttle = NVML_UNKNOWN;
    g.compute_mode = g.ecc = g.sm_mhz = g.sm_mhz_max = g.celsius = NVML_UNKNOWN;
    g.power_limit_mw = g.power_default_mw = g.persistence = g.mig = NVML_UNKNOWN;
    g.pcie_generation_max = g.pcie_lanes = g.pcie_lanes_max = NVML_UNKNOWN;
    gpu_findings(&f, 0, &g);
    assert_int_equal(findings_count(&f, FINDING_good), (int)f.n);
    expect(&f, "GPU 0", FINDING_good, "shared with the host");
    findings_release(&f);
}

/* With CUDA_VISIBLE_DEVICES, CUDA's numbers are not those of NVML. */
static void test_links_of_chosen_gpus(void **state)
{
    struct nvml_report *report = mem_new(sizeof *report);
    struct osp_gpu_link link = {0, 1, true, 100e9, 0.9e-6};
    struct findings f = {.group = ""};

    (void)state;
    gpu_link_finding(&f, &link, report, false); /* NVML shows none */
    expect(&f, "CUDA device 0 to 1", FINDING_good, "100.0 GB/s");
    report->n_gpus = 3;
    report->gpus[0] = report->gpus[1] = report->gpus[2] = H200;
    gpu_link_finding(&f, &link, report, false);
    expect(&f, "CUDA device 0 to 1", FINDING_slow, "NVLink, 100.0 GB/s, push 0.90 us; expected");
    report->gpus[2].n_nvlinks = 0; /* it may be this one */
    gpu_link_finding(&f, &link, report, false);
    expect(&f, "CUDA device 0 to 1", FINDING_good, "100.0 GB/s");
    findings_release(&f);
    free(report);
}

static void test_links(void **state)
{
    struct nvml_report *report = mem_new(sizeof *report);
    struct osp_gpu_link link = {0, 1, true, 380e9, 0.9e-6};
    struct findings f = {.group = ""};

    (void)state;
    report->n_gpus = 2;
    report->gpus[0] = report->gpus[1] = H200;
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 0 to GPU 1", FINDING_good, "NVLink, 380.0 GB/s, push 0.90 us");
    link.push_latency_s = 5e-6;
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 0 to GPU 1", FINDING_slow, "push 5.00 us (slow); expected");
    link = (struct osp_gpu_link){0, 1, true, 100e9, 0.9e-6};
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 0 to GPU 1", FINDING_slow,
           "100.0 GB/s, push 0.90 us; expected peer access, "
           "270.0 GB/s, push at most 3 us");
    link = (struct osp_gpu_link){1, 0, false, 20e9, 0};
    report->gpus[1].n_nvlinks = 0;
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 1 to GPU 0", FINDING_slow, "no peer access, 20.0 GB/s; expected");
    link = (struct osp_gpu_link){1, 0, true, 50e9, 2e-6};
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 1 to GPU 0", FINDING_good, "PCIe peer access, 50.0 GB/s");
    link = (struct osp_gpu_link){7, 8, true, 1e9, 2e-6}; /* which NVML does not list */
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 7 to GPU 8", FINDING_good, "1.0 GB/s");
    link.push_latency_s = 9e-6;
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 7 to GPU 8", FINDING_slow, "expected peer access, push at most 6 us");
    link.bytes_per_s = 0;
    gpu_link_finding(&f, &link, report, true);
    expect(&f, "GPU 7 to GPU 8", FINDING_broken, "copies fail");
    assert_int_equal((int)(1e-9 * gpu_link_expected(&H200, true) + 0.5), 270);  /* 0.6 x 18 x 25 */
    assert_int_equal((int)(1e-8 * gpu_link_expected(&H200, false) + 0.5), 192); /* 0.3 x 16 x 4 */
    findings_release(&f);
    free(report);
}

/* ---- NVML ---- */

static int fake_init(void)
{
    return 0;
}

static int fake_count(unsigned *n)
{
    *n = 3;
    return 0;
}

static int fake_handle(unsigned i, void **device)
{
    static int devices[3];

    *device = &devices[i];
    return i == 1 ? 15 : 0; /* the second one has fallen off the bus */
}

static int fake_name(void *device, char *text, unsigned n_bytes)
{
    (void)device;
    memset(text, 'x', n_bytes); /* without an end */
    return 0;
}

static int fake_memory(void *device, struct nvml_memory *m)
{
    (void)device;
    *m = (struct nvml_memory){.total = 100, .unused = 90, .used = 10};
    return 0;
}

static int fake_clock(void *device, unsigned type, unsigned *mhz)
{
    (void)device;
    *mhz = type == 1 ? 1500 : 0;
    return 0;
}

static int fake_unsupported(void *device, unsigned *value)
{
    (void)device;
    *value = 7;
    return 3;
}

static int fake_nvlink(void *device, unsigned link, unsigned *is_active)
{
    (void)device;
    *is_active = link < 4;
    return link < 6 ? 0 : 2;
}

static int fake_failed_init(void)
{
    return 9;
}

static void test_nvml(void **state)
{
    struct nvml_calls calls = {.init = fake_init,
                               .shutdown = fake_init,
                               .count = fake_count,
                               .handle = fake_handle,
                               .name = fake_name,
                               .memory = fake_memory,
                               .clock = fake_clock,
                               .persistence = fake_unsupported,
                               .nvlink = fake_nvlink};
    struct nvml_report *report = mem_new(sizeof *report);

    (void)state;
    assert_int_equal(nvml_read(report, &calls), OSP_OK);
    assert_int_equal(report->n_gpus, 3);
    assert_int_equal(strlen(report->gpus[0].name), NVML_NAME_BYTES - 1);
    assert_string_equal(report->gpus[1].name, "");
    assert_int_equal(report->gpus[2].memory_bytes, 100);
    assert_int_equal(report->gpus[2].sm_mhz, 1500);
    assert_int_equal(report->gpus[2].sm_mhz_max, NVML_UNKNOWN); /* the library lacks it */
    assert_int_equal(report->gpus[2].persistence, NVML_UNKNOWN);
    assert_int_equal(report->gpus[2].n_nvlinks, 4);
    calls.init = fake_failed_init;
    assert_int_equal(nvml_read(report, &calls), OSP_EDEVICE);
    assert_non_null(strstr(fail_message(), "nvmlInit returns 9"));
    free(report);
}

/* What the host shows where NVML is not there. */
static void test_no_library(void **state)
{
    char *root = folder_new();

    (void)state;
    (void)fail(OSP_ENOTFOUND, "libnvidia-ml.so.1: no such file");
    put(root, "/sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n");
    put(root, "/sys/bus/pci/devices/0000:00:01.0/class", "0x030000\n");
    put(root, "/sys/bus/pci/devices/0000:00:02.0/vendor", "0x10de\n");
    put(root, "/sys/bus/pci/devices/0000:00:02.0/class", "0x040300\n"); /* sound */
    check_expect(gpu_findings_without_library, root, "GPUs", FINDING_untested, "none");
    put(root, "/sys/bus/pci/devices/0000:00:03.0/vendor", "0x10de\n");
    put(root, "/sys/bus/pci/devices/0000:00:03.0/class", "0x030200\n");
    check_expect(gpu_findings_without_library, root, "driver", FINDING_broken, "1 GPU of NVIDIA");
    (void)fail(OSP_ENOTFOUND, "libnvidia-ml.so.1: no such file");
    put(root, "/proc/driver/nvidia/version", "NVRM version: 580\n");
    check_expect(gpu_findings_without_library, root, "driver", FINDING_broken, "no such file");
    folder_remove(root);
}

static void expect_nccl(const char *file, const char *version, enum finding_state state,
                        const char *part)
{
    struct findings f = {.group = ""};

    assert_int_equal(setenv(NCCL_LIBRARY_VARIABLE, file, 1), 0);
    assert_int_equal(setenv("NCCL_STANDIN_VERSION", version, 1), 0);
    gpu_nccl_finding(&f);
    expect(&f, "NCCL", state, part);
    assert_int_equal(find(&f, "NCCL")->advice != NULL, state != FINDING_good);
    findings_release(&f);
    (void)unsetenv(NCCL_LIBRARY_VARIABLE);
    (void)unsetenv("NCCL_STANDIN_VERSION");
}

/* With the stand-in of test_nccl.c. */
static void test_nccl(void **state)
{
    char program[400], standin[512];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    (void)state;
    assert_true(n > 0);
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    (void)snprintf(standin, sizeof standin, "%s/../nccl_standin.so", program);
    expect_nccl(standin, "22809", FINDING_good, "2.28.9, for ranks on several hosts");
    expect_nccl(standin, "21700", FINDING_untested, "version 21700, expected 21800 or later");
    expect_nccl("/nonexistent/libnccl.so.2", "22809", FINDING_untested, "No such file");
    expect_nccl("libc.so.6", "22809", FINDING_untested, "libc.so.6 has no ncclGetVersion");
}

/* ---- serving ---- */

static void expect_serving(const struct serving_args *args, const char *subject,
                           enum finding_state expected, const char *part)
{
    struct findings f = {.group = ""};

    check_serving(&f, args);
    expect(&f, subject, expected, part);
    findings_release(&f);
}

static void test_port(void **state)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    char *cache = folder_new();
    struct serving_args args = {.host = "127.0.0.1", .cache = cache};

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n) + listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    args.port = ntohs(a.sin_port);
    expect_serving(&args, "port", FINDING_broken, "Address already in use");
    close(fd);
    expect_serving(&args, "port", FINDING_good, "is free");
    args.host = "192.0.2.1"; /* reserved for documents: no host has it */
    expect_serving(&args, "port", FINDING_broken, "Cannot assign requested address");
    args.host = "not a name";
    expect_serving(&args, "port", FINDING_broken, "--host not a name");
    folder_remove(cache);
}

/* Root without them may no longer write where the mode forbids it. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    assert_int_equal(syscall(SYS_capset, &header, none), 0);
}

static void test_cache(void **state)
{
    char *cache = folder_new(), *below = mem_printf("%s/x/y", cache);
    struct serving_args args = {.host = "127.0.0.1", .cache = below};

    (void)state;
    unsetenv("HF_HUB_OFFLINE");
    expect_serving(&args, "models", FINDING_untested, "has none");
    put(cache, "/models--o--m/refs/main", "c1");
    put(cache, "/models--o--m/snapshots/c1/config.json", "{}");
    put(cache, "/models--o--m/snapshots/c1/model.safetensors", "");
    drop_capabilities();
    assert_int_equal(chmod(cache, 0500), 0);
    expect_serving(&args, "model cache", FINDING_broken, "Permission denied");
    (void)setenv("HF_HUB_OFFLINE", "1", 1);
    expect_serving(&args, "downloads", FINDING_good, "off by HF_HUB_OFFLINE");
    expect_serving(&args, "model cache", FINDING_good, "read-only (Permission denied)");
    unsetenv("HF_HUB_OFFLINE");
    args.cache = cache;
    expect_serving(&args, "model", FINDING_good, "o/m");
    expect_serving(&args, "model cache", FINDING_good, "nothing can be downloaded there");
    assert_int_equal(chmod(cache, 0700), 0);
    free(below);
    folder_remove(cache);
}

/* One that is not there yet, in the working directory and below the root of the file system. */
static void test_cache_to_be_created(void **state)
{
    char *folder = folder_new();
    struct serving_args args = {.host = "127.0.0.1", .cache = "models"};

    (void)state;
    assert_int_equal(chdir(folder), 0);
    (void)setenv("HF_HUB_OFFLINE", "1", 1); /* the test needs no free disk */
    expect_serving(&args, "model cache", FINDING_good, " free");
    unsetenv("HF_HUB_OFFLINE");
    drop_capabilities();
    assert_int_equal(chmod(folder, 0500), 0);
    expect_serving(&args, "model cache", FINDING_broken, ".: Permission denied");
    assert_int_equal(chdir("/") + chmod(folder, 0700), 0);
    folder_remove(folder);
}

static void test_peer_address(void **state)
{
    static const char *const good[][3] = {{"a", "a", "8474"},
                                          {"a:1", "a", "1"},
                                          {"[fe80::1]:65535", "fe80::1", "65535"},
                                          {"[fe80::1]", "fe80::1", "8474"},
                                          {"fe80::1", "fe80::1", "8474"}};
    static const char *const wrong[] = {"", ":1", "a:", "a:0", "a:65536", "[::1", "[::1]1"};
    struct peer_address a;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(peer_address_parse(&a, good[i][0]), OSP_OK);
        assert_string_equal(a.host, good[i][1]);
        assert_string_equal(a.port, good[i][2]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(peer_address_parse(&a, wrong[i]), OSP_EINVAL);
}

static void clear_proxies(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void test_proxies(void **state)
{
    char *cache = folder_new();
    const struct serving_args args = {.host = "127.0.0.1", .cache = cache};

    (void)state;
    clear_proxies();
    expect_serving(&args, "proxy", FINDING_good, "none is set");
    (void)setenv("https_proxy", "http://user:secret@proxy:3128", 1);
    expect_serving(&args, "proxy", FINDING_good, "proxy:3128 for downloads");
    (void)setenv("HTTP_PROXY", "http://user:secret@proxy:3128", 1);
    expect_serving(&args, "proxy", FINDING_broken, "proxy:3128, also for http://127.0.0.1");
    (void)setenv("no_proxy", "example.org,localhost", 1);
    expect_serving(&args, "proxy", FINDING_good, "for downloads");
    folder_remove(cache);
}

/* ---- output ---- */

static void test_output(void **state)
{
    struct findings f = {.group = "memory"};
    struct buf text;

    (void)state;
    finding_add(&f, FINDING_good, "swap", "none");
    f.group = "network";
    finding_add(&f, FINDING_slow, "eth\x1b[2J", "%d Gbit/s, \"expected\" %d", 1, 10);
    finding_advise(&f, "a");
    finding_advise(&f, "change %s", "the cable");
    buf_init(&text, FINDINGS_TEXT_BYTES_MAX);
    findings_put_text(&text, &f);
    assert_string_equal(buf_text(&text),
                        "memory\n"
                        "  good      swap                  none\n"
                        "\nnetwork\n"
                        "  slow      eth\\x1b[2J            1 Gbit/s, \"expected\" 10\n"
                        "                                  -> change the cable\n"
                        "\n1 good, 1 slow, 0 broken, 0 untested\n");
    buf_clear(&text);
    findings_put_json(&text, &f);
    assert_non_null(strstr(buf_text(&text),
                           "\"good\":1,\"slow\":1,\"broken\":0,\"untested\":0,\"findings\":[{"
                           "\"group\":\"memory\",\"subject\":\"swap\",\"state\":\"good\","
                           "\"text\":\"none\"},{\"group\":\"network\","));
    assert_non_null(
        strstr(buf_text(&text), "\\\"expected\\\" 10\",\"advice\":\"change the cable\"}]}"));
    buf_release(&text);
    findings_release(&f);
}

static void test_expected_bandwidth(void **state)
{
    (void)state;
    assert_true(peer_expected_gbit(0) == 0);
    assert_true(peer_expected_gbit(10000) == 8);
    assert_true(peer_expected_gbit(200000) == 40);
}

UNIT_MAIN(cmocka_unit_test(test_files), cmocka_unit_test(test_a_spark_is_good),
          cmocka_unit_test(test_memory), cmocka_unit_test(test_memory_limits),
          cmocka_unit_test(test_memory_that_is_left), cmocka_unit_test(test_system),
          cmocka_unit_test(test_interfaces), cmocka_unit_test(test_rdma),
          cmocka_unit_test(test_gpu), cmocka_unit_test(test_gpu_without_values),
          cmocka_unit_test(test_links), cmocka_unit_test(test_links_of_chosen_gpus),
          cmocka_unit_test(test_nvml), cmocka_unit_test(test_no_library),
          cmocka_unit_test(test_nccl), cmocka_unit_test(test_port), cmocka_unit_test(test_cache),
          cmocka_unit_test(test_cache_to_be_created), cmocka_unit_test(test_peer_address),
          cmocka_unit_test(test_proxies), cmocka_unit_test(test_output),
          cmocka_unit_test(test_expected_bandwidth))
