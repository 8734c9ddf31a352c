/* What the program lends to the plug-in, under the names that src/base has for it. */
#ifndef CUDA_DEVICE_HOST_H
#define CUDA_DEVICE_HOST_H

#include "backend/plugin.h"

void host_is(const struct plugin_host *host);

#endif
