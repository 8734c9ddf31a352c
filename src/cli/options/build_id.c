#include "cli/options/build_id.h"

#ifndef OSP_BUILD_ID
#define OSP_BUILD_ID ""
#endif

static const char ID[] = OSP_BUILD_ID;

const char *build_id(void)
{
    return sizeof ID > 1 ? ID : "unknown";
}
