/* Network interfaces (/sys/class/net) and RDMA devices (/sys/class/infiniband). osprey uses TCP
 * alone, so nothing about RDMA makes serving slow or fail. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_file.h"
#include "base/memory.h"
#include "cli/doctor/checks.h"

enum {
    DEVICES_MAX = 256,
    PORTS_MAX = 8,
    GIDS_MAX = 64, /* more are virtual machines' */
    FAST_MBIT = 10000,
    FAST_MTU_MIN = 9000 /* jumbo frames: a fifth of the packets, for the same bytes */
};

static void free_names(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
}

/* ---- interfaces ---- */

/* "32.0 GT/s PCIe" without the last word, which older kernels do not write. */
static void cut_pcie(struct host_line *speed)
{
    char *word = strstr(speed->text, " PCIe");

    if (word != NULL)
        *word = '\0';
}

/* A network adapter in a slot with fewer lanes, or a slower one, than the adapter has. */
static void check_slot(struct findings *f, const char *root, const char *device,
                       const char *subject)
{
    struct host_line speed, speed_max;
    int64_t width, width_max;

    if (!host_number(&width, root, "%s/current_link_width", device) ||
        !host_number(&width_max, root, "%s/max_link_width", device) ||
        !host_line(&speed, root, "%s/current_link_speed", device) ||
        !host_line(&speed_max, root, "%s/max_link_speed", device))
        return;
    if (width >= width_max && strcmp(speed.text, speed_max.text) == 0)
        return;
    cut_pcie(&speed);
    cut_pcie(&speed_max);
    finding_add(f, FINDING_slow, subject, "PCIe %s x%" PRId64 ", expected %s x%" PRId64, speed.text,
                width, speed_max.text, width_max);
    finding_advise(f,
                   "move the adapter to a slot with these lanes; if the board has none, the link's "
                   "rate is not reached");
}

static bool is_up(const char *root, const char *name)
{
    struct host_line state;

    return host_line(&state, root, "/sys/class/net/%s/operstate", name) &&
           strcmp(state.text, "up") == 0;
}

static void check_interface(struct findings *f, const char *root, const char *name)
{
    char device[HOST_PATH_BYTES];
    int64_t mbit = -1, mtu = 0;

    if (!is_up(root, name)) {
        finding_add(f, FINDING_untested, name, "the link is down");
        return;
    }
    (void)host_number(&mtu, root, "/sys/class/net/%s/mtu", name);
    if (!host_number(&mbit, root, "/sys/class/net/%s/speed", name) || mbit <= 0) {
        finding_add(f, FINDING_good, name, "up, MTU %" PRId64 ", speed not reported", mtu);
    } else if (mbit < 1000) {
        finding_add(f, FINDING_slow, name, "up at %" PRId64 " Mbit/s, at least 1000 expected",
                    mbit);
        finding_advise(f, "check the cable and the port of the switch");
    } else if (mbit >= FAST_MBIT && mtu < FAST_MTU_MIN) {
        finding_add(f, FINDING_slow, name, "up at %g Gbit/s, MTU %" PRId64 ", expected %d",
                    (double)mbit / 1000, mtu, FAST_MTU_MIN);
        finding_advise(f, "sudo ip link set %s mtu %d, also on the other host and the switch", name,
                       FAST_MTU_MIN);
    } else
        finding_add(f, FINDING_good, name, "up at %g Gbit/s, MTU %" PRId64, (double)mbit / 1000,
                    mtu);
    snprintf(device, sizeof device, "/sys/class/net/%s/device", name);
    check_slot(f, root, device, name);
}

static void check_interfaces(struct findings *f, const char *root)
{
    char *names[DEVICES_MAX];
    const int n = host_list(names, DEVICES_MAX, root, "/sys/class/net");
    int n_checked = 0;

    /* Bridges and tunnels that are down are of no interest. */
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], "lo") != 0 &&
            (is_up(root, names[i]) || host_exists(root, "/sys/class/net/%s/device", names[i]))) {
            check_interface(f, root, names[i]);
            n_checked++;
        }
    if (n_checked == 0)
        finding_add(f, FINDING_untested, "interfaces", "this host has none but the loopback");
    free_names(names, n);
}

/* ---- RDMA devices ---- */

struct port {
    const char *root, *device;
    int number;
    char path[HOST_PATH_BYTES]; /* below the root */
    char subject[HOST_LINE_BYTES];
};

/* The GID for programs that use RoCE: version 2 with an IPv4 address, which begins with ten zero
 * bytes and ffff. -1: none. */
static int roce_v2_gid(const struct port *p)
{
    for (int i = 0; i < GIDS_MAX; i++) {
        struct host_line type, gid;

        if (host_line(&type, p->root, "%s/gid_attrs/types/%d", p->path, i) &&
            strcmp(type.text, "RoCE v2") == 0 &&
            host_line(&gid, p->root, "%s/gids/%d", p->path, i) &&
            strncmp(gid.text, "0000:0000:0000:0000:0000:ffff:", 30) == 0)
            return i;
    }
    return -1;
}

static void check_roce(struct findings *f, const struct port *p, const char *rate)
{
    const int gid = roce_v2_gid(p);
    struct host_line interface;
    int64_t mtu = 0;

    if (gid < 0) {
        finding_add(f, FINDING_untested, p->subject,
                    "RoCE at %s, without a RoCE v2 GID for IPv4; osprey does not use RDMA", rate);
        return;
    }
    if (host_line(&interface, p->root, "%s/gid_attrs/ndevs/%d", p->path, gid))
        (void)host_number(&mtu, p->root, "/sys/class/net/%s/mtu", interface.text);
    finding_add(f, FINDING_untested, p->subject,
                "RoCE at %s, %s, GID %d (RoCE v2), MTU %" PRId64 "; osprey does not use RDMA", rate,
                interface.text, gid, mtu);
}

static void check_port(struct findings *f, const struct port *p)
{
    struct host_line state, rate, layer;

    (void)host_line(&rate, p->root, "%s/rate", p->path);
    (void)host_line(&layer, p->root, "%s/link_layer", p->path);
    if (!host_line(&state, p->root, "%s/state", p->path)) {
        finding_add(f, FINDING_untested, p->subject, "the kernel does not report its state");
    } else if (strstr(state.text, "INIT") != NULL) { /* "2: INIT" */
        finding_add(f, FINDING_untested, p->subject,
                    "%s, waits for a subnet manager; osprey does not use RDMA", layer.text);
        finding_advise(f, "for TCP over InfiniBand start opensm on one host, or the one of the "
                          "switch");
    } else if (strstr(state.text, "ACTIVE") == NULL) {
        finding_add(f, FINDING_untested, p->subject, "%s, the link is down", layer.text);
    } else if (strcmp(layer.text, "Ethernet") == 0) {
        check_roce(f, p, rate.text);
    } else
        finding_add(f, FINDING_untested, p->subject, "%s at %s; osprey does not use RDMA",
                    layer.text, rate.text);
}

static void check_ports(struct findings *f, const char *root, const char *device)
{
    struct port p = {.root = root, .device = device};

    for (p.number = 1; p.number <= PORTS_MAX; p.number++) {
        const int n =
            snprintf(p.path, sizeof p.path, "/sys/class/infiniband/%s/ports/%d", device, p.number);

        if (n < 0 || n >= (int)sizeof p.path || !host_exists(root, "%s/state", p.path))
            return;
        snprintf(p.subject, sizeof p.subject, "%.100s port %d", device, p.number);
        check_port(f, &p);
    }
}

static void check_rdma(struct findings *f, const char *root)
{
    char *names[DEVICES_MAX];
    const int n = host_list(names, DEVICES_MAX, root, "/sys/class/infiniband");

    if (n == 0) {
        finding_add(f, FINDING_untested, "RDMA", "no device; other hosts are reached by TCP");
        return;
    }
    for (int i = 0; i < n; i++)
        check_ports(f, root, names[i]);
    free_names(names, n);
    finding_add(f, FINDING_untested, "RDMA",
                "osprey does not use it and does not measure it%s; other hosts are reached by TCP",
                host_exists(root, "/dev/infiniband") ? "" : " (there is no /dev/infiniband)");
    finding_advise(f, "osprey doctor --peer measures TCP between two hosts; for RDMA of other "
                      "programs: ib_write_lat and ib_write_bw of the package perftest");
}

void check_network(struct findings *f, const char *root)
{
    f->group = "network";
    check_interfaces(f, root);
    check_rdma(f, root);
}
