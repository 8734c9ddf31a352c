/* The library of NCCL, which is loaded when it is needed: neither a build nor a start without it
 * fails. */
#ifndef BASE_NCCL_LIBRARY_H
#define BASE_NCCL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum { NCCL_VERSION_MIN = 21800 /* 2.18: calls that do not block, in CUDA graphs */ };

/* Names the file of the library, if it is not libnccl.so.2 of the system. */
#define NCCL_LIBRARY_VARIABLE "OSPREY_NCCL_LIBRARY"

/* What to do without a library that can be used. */
#define NCCL_INSTALL                                                                               \
    "install it (package libnccl2 of NVIDIA's repository, or pip install nvidia-nccl-cu13), or "   \
    "set " NCCL_LIBRARY_VARIABLE " to the path of libnccl.so.2"

/* The file that is loaded: a path, or a name in static memory or the environment. */
const char *nccl_library_file(void);

/* Loads it, for the rest of the process: *library is for dlsym(), *version 22803 for 2.28.3. False:
 * it cannot be loaded, is another library, or too old, as `why`, of `why_bytes`, says. */
bool nccl_library_load(void **library, int *version, char *why, size_t why_bytes);

#endif
