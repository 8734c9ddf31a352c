/* The part of osprey.h that is about the library itself: version, errors, names of the lists. */
#include "base/status.h"
#include "osprey.h"

const char *osp_version(void)
{
    return OSP_VERSION;
}

const char *osp_error(void)
{
    return fail_message();
}

const char *osp_status_name(enum osp_status status)
{
    return status_name(status);
}

const char *osp_status_type(enum osp_status status)
{
    return status_type(status);
}

int osp_status_http(enum osp_status status)
{
    return status_http(status);
}

const char *osp_finish_text(enum osp_finish finish)
{
    static const char *const texts[] = {
#define FINISH_TEXT(member, text) [member] = (text),
        OSP_FINISH_LIST(FINISH_TEXT)
#undef FINISH_TEXT
    };
    size_t i = (size_t)finish;

    return i < sizeof texts / sizeof texts[0] ? texts[i] : "stop";
}
