/* ISA "amx" with emulated tiles: its loops over operations in plain C, by the instructions'
 * definition. Few machines have AMX, so the loops are tested everywhere, and the instructions only
 * where they exist. */
#ifndef EMULATED_AMX_H
#define EMULATED_AMX_H

#include "cpu/kernels/kernels.h"

extern const struct kernels emulated_amx;

#endif
