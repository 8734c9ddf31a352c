/* The wrapper around every device: asserts the shapes of a program's arguments when it is compiled
 * and every batch when it is run, then calls the device. Written once, so that no device repeats
 * it. */
#ifndef BACKEND_CHECKED_H
#define BACKEND_CHECKED_H

#include "backend/backend.h"

/* X(device, runs_in_worker, runs_draft_heads and shard_rule of backend_ops):
 * device_ops_<device>() gives its operations, or fails where it cannot run. */
#define DEVICE_LIST(X) X(cpu, false, true, SHARD_FOR_CPU) X(cuda, true, true, SHARD_FOR_GPU)

enum device {
#define DEVICE_ENUM(device, in_worker, draft_heads, rule) DEVICE_##device,
    DEVICE_LIST(DEVICE_ENUM)
#undef DEVICE_ENUM
        N_DEVICES
};

const struct backend_ops *checked_ops(enum device device);
enum device device_of(const struct backend_ops *ops); /* the inverse of checked_ops() */
/* The table of the device's options, which is known without a GPU; NULL: it has none, or its
 * plug-in is missing or refused. */
const struct device_option_row *device_option_rows(enum device device);
/* OSP_OK if the device can run here, else a failure with a message. */
CHECKED enum osp_status device_check(enum device device);

#endif
