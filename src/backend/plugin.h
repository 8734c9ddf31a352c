/* The interface between osprey and a device plug-in: a shared object, loaded when the device is
 * requested. It exports one symbol, a struct plugin. It is refused unless its version and struct
 * sizes equal those of the program. */
#ifndef BACKEND_PLUGIN_H
#define BACKEND_PLUGIN_H

#include "backend/backend.h"
#include "backend/batch.h"
#include "base/log.h"

enum { PLUGIN_VERSION = 7 };

/* Functions of the program that the plug-in uses. */
struct plugin_host {
    enum osp_status (*fail)(enum osp_status code, const char *format, ...) PRINTF_LIKE(2, 3);
    void (*log_line)(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
};

/* X(type): structs that must have the same layout in both */
#define PLUGIN_STRUCT_LIST(X)                                                                      \
    X(backend_ops)                                                                                 \
    X(backend_options)                                                                             \
    X(device_option_row)                                                                           \
    X(device_option)                                                                               \
    X(device_options)                                                                              \
    X(step_shape)                                                                                  \
    X(device_memory)                                                                               \
    X(device_info)                                                                                 \
    X(device_link)                                                                                 \
    X(sampled)                                                                                     \
    X(kernel_use)                                                                                  \
    X(probe)                                                                                       \
    X(stage_cost)                                                                                  \
    X(exchange_ops)                                                                                \
    X(exchange)                                                                                    \
    X(random_weight)                                                                               \
    X(tensor)                                                                                      \
    X(program_op)                                                                                  \
    X(program_tensor)                                                                              \
    X(program)                                                                                     \
    X(batch)                                                                                       \
    X(batch_seq)                                                                                   \
    X(batch_sample)                                                                                \
    X(batch_seen)                                                                                  \
    X(batch_bias)                                                                                  \
    X(embed_rmsnorm_args)                                                                          \
    X(attn_qkv_args)                                                                               \
    X(attn_args)                                                                                   \
    X(attn_out_args)                                                                               \
    X(residual_rmsnorm_args)                                                                       \
    X(router_args)                                                                                 \
    X(experts_args)                                                                                \
    X(logits_args)                                                                                 \
    X(sample_args)

struct plugin_sizes {
#define PLUGIN_SIZE(type) int32_t type;
    PLUGIN_STRUCT_LIST(PLUGIN_SIZE)
#undef PLUGIN_SIZE
};

#define PLUGIN_SIZE(type) .type = (int32_t)sizeof(struct type),
#define PLUGIN_SIZES                                                                               \
    {                                                                                              \
        PLUGIN_STRUCT_LIST(PLUGIN_SIZE)                                                            \
    }

struct plugin {
    int32_t version;
    struct plugin_sizes sizes;
    const struct backend_ops *ops;
    /* Called once, before anything else. Fails if the machine has no such device, or only devices
     * that this build has no code for. */
    enum osp_status (*start)(const struct plugin_host *host);
};

/* The plug-in of a device, loaded and started by the first call; later calls return the same
 * result. OSP_ENOTFOUND: no file, the message lists the paths; OSP_EDEVICE: it cannot run here. */
CHECKED enum osp_status plugin_ops(const struct backend_ops **out, const char *device);

/* The plug-in's table of options, also where it is loaded but cannot run, as on a machine without
 * a GPU. NULL: there is no plug-in, or it was refused. */
const struct device_option_row *plugin_options(const char *device);

#endif
