/* The checks of `osprey doctor`. Each adds a group of findings. `root` is "" or, in tests, a folder
 * with a machine's files of /proc and /sys. */
#ifndef CLI_DOCTOR_CHECKS_H
#define CLI_DOCTOR_CHECKS_H

#include "cli/doctor/finding.h"

/* CPUs, frequency governor, open files, locked memory. */
void check_system(struct findings *f, const char *root);

/* Memory, limit of the control group, swap, huge pages, NUMA nodes. */
void check_memory(struct findings *f, const char *root);

/* Network interfaces and RDMA devices. */
void check_network(struct findings *f, const char *root);

/* GPUs: what the driver's library (NVML) reports, the plug-in, the links between GPUs. */
void check_gpus(struct findings *f, const char *root);

struct serving_args {
    const char *host;
    int port;
    const char *cache; /* folder of the model cache; NULL: of the environment */
};
/* The port, the model cache and its disk, proxy variables. */
void check_serving(struct findings *f, const struct serving_args *args);

enum { PEER_HOST_BYTES = 256, PEER_PORT_BYTES = 8 };

struct peer_address {
    char host[PEER_HOST_BYTES], port[PEER_PORT_BYTES];
};
/* HOST, HOST:PORT, [ADDRESS]:PORT, or an IPv6 address alone. OSP_EINVAL: that is no address. */
CHECKED enum osp_status peer_address_parse(struct peer_address *out, const char *peer);

/* Latency, bandwidth and version of `osprey doctor --listen` at that address. */
void check_peer(struct findings *f, const char *root, const struct peer_address *address);

#endif
