/* Functions of src/base that the program provides to the plug-in, under the same names. */
#ifndef CUDA_DEVICE_HOST_H
#define CUDA_DEVICE_HOST_H

#include "backend/plugin.h"

void host_is(const struct plugin_host *host);

#endif
