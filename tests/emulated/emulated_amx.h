/* ISA "amx" with emulated tiles: its loops over operations in plain C, by the instructions'
 * definition. Few machines have AMX, so the loops are tested on every x86-64 processor, and the
 * instructions only where they exist. Programs for other processors have no such kernels. */
#ifndef EMULATED_AMX_H
#define EMULATED_AMX_H

#include "cpu/kernels/kernels.h"

#ifdef __x86_64__
enum { N_EMULATED = 1 };
extern const struct kernels emulated_amx;
#else
enum { N_EMULATED = 0 };
#endif

/* Adds the emulated ISA to a list of n, which has space for it; returns the new n. */
static inline int emulated_add(const struct kernels **list, int n)
{
#ifdef __x86_64__
    list[n++] = &emulated_amx;
#else
    (void)list;
#endif
    return n;
}

#endif
