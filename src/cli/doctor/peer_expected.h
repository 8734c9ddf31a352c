/* What TCP between two hosts of one rack should reach. */
#ifndef CLI_DOCTOR_PEER_EXPECTED_H
#define CLI_DOCTOR_PEER_EXPECTED_H

#include <stdint.h>

enum { PEER_ROUND_TRIP_US_MAX = 100 }; /* 20 to 60 over one switch, 10 to 30 over a cable */

/* Gbit/s of four connections over a link of that speed, 0 for an unknown one. Beyond 40 Gbit/s the
 * CPU limits TCP, not the link; RDMA does not have that limit. */
static inline double peer_expected_gbit(int64_t mbit)
{
    const double gbit = 0.8 * (double)mbit / 1000;

    return gbit < 40 ? gbit : 40;
}

#endif
