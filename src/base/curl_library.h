/* libcurl, loaded when it is first needed: osprey runs without it, and a command that uses no
 * network does not wait for it. The callers include curl/curl.h and call the functions found. */
#ifndef BASE_CURL_LIBRARY_H
#define BASE_CURL_LIBRARY_H

#include "base/status.h"

struct curl_function {
    const char *name;
    void *into; /* a pointer to a function, which receives the address */
};

/* Finds functions of libcurl, which the first call in the process loads and initializes. Any thread
 * may call it. OSP_EUNAVAILABLE: libcurl or a function is missing; the message begins with `who`,
 * as in "downloads need". */
CHECKED enum osp_status curl_library_find(const struct curl_function *functions, int n,
                                          const char *who);

#endif
