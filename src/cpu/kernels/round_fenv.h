/* Rounding towards minus infinity by the C library, for ISAs without an intrinsic for it. */
#ifndef CPU_KERNELS_ROUND_FENV_H
#define CPU_KERNELS_ROUND_FENV_H

#include <fenv.h>

/* Returns the mode before, for round_back(). */
static inline unsigned round_down(void)
{
    const int mode = fegetround();

    fesetround(FE_DOWNWARD);
    return (unsigned)mode;
}

static inline void round_back(unsigned mode)
{
    fesetround((int)mode);
}

#endif
