#include "cli/bench/bench_curl.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"

enum { ERROR_BODY_BYTES_MAX = 600 };

/* X(member, function, result, parameters): the functions of libcurl that are used. */
#define CURL_FUNCTIONS(X)                                                                          \
    X(global_init, curl_global_init, CURLcode, (long))                                             \
    X(init, curl_easy_init, CURL *, (void))                                                        \
    X(setopt, curl_easy_setopt, CURLcode, (CURL *, CURLoption, ...))                               \
    X(perform, curl_easy_perform, CURLcode, (CURL *))                                              \
    X(getinfo, curl_easy_getinfo, CURLcode, (CURL *, CURLINFO, ...))                               \
    X(cleanup, curl_easy_cleanup, void, (CURL *))                                                  \
    X(strerror, curl_easy_strerror, const char *, (CURLcode))                                      \
    X(append, curl_slist_append, struct curl_slist *, (struct curl_slist *, const char *))         \
    X(free_all, curl_slist_free_all, void, (struct curl_slist *))

static struct {
#define CURL_MEMBER(member, function, result, parameters) result(*member) parameters;
    CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
} lib;

/* POSIX allows the conversion from a data pointer to a function pointer. */
static bool find(void *library, const char *name, void *into)
{
    void *function = dlsym(library, name);

    memcpy(into, &function, sizeof function);
    return function != NULL;
}

enum osp_status bench_curl_load(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    bool found = library != NULL;

#define CURL_FIND(member, function, result, parameters)                                            \
    found = found && find(library, #function, &lib.member);
    CURL_FUNCTIONS(CURL_FIND)
#undef CURL_FIND
    if (!found)
        return fail(
            OSP_EUNAVAILABLE,
            "--url needs libcurl, which cannot be loaded (%s); on Debian and Ubuntu run apt "
            "install libcurl4",
            library == NULL ? dlerror() : "a function is missing");
    return lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? OSP_OK
               : fail(OSP_EUNAVAILABLE, "libcurl cannot be initialized");
}

/* A call in flight. */
struct transfer {
    const struct bench_call *call;
    CURL *curl;
    struct buf error_body;
};

static size_t on_bytes(char *bytes, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    long status = 0;

    (void)size; /* always 1 */
    lib.getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200)
        t->call->on_body(t->call->ctx, bytes, n);
    else
        buf_append(&t->error_body, bytes,
                   n < ERROR_BODY_BYTES_MAX - t->error_body.size_bytes
                       ? n
                       : ERROR_BODY_BYTES_MAX - t->error_body.size_bytes);
    return n;
}

static struct curl_slist *headers_of(const struct bench_call *call)
{
    struct curl_slist *headers = lib.append(NULL, "Content-Type: application/json");
    char *authorization;

    headers = lib.append(headers, "Expect:"); /* do not wait for 100 Continue */
    if (call->api_key != NULL) {
        authorization = mem_printf("Authorization: Bearer %s", call->api_key);
        headers = lib.append(headers, authorization);
        free(authorization);
    }
    return headers;
}

static void set_options(struct transfer *t, struct curl_slist *headers)
{
    const struct bench_call *call = t->call;

    lib.setopt(t->curl, CURLOPT_URL, call->url);
    lib.setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    lib.setopt(t->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    lib.setopt(t->curl, CURLOPT_WRITEDATA, t);
    lib.setopt(t->curl, CURLOPT_TIMEOUT, call->timeout_s);
    lib.setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    lib.setopt(t->curl, CURLOPT_TCP_NODELAY, 1L);
    lib.setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (call->body != NULL) {
        lib.setopt(t->curl, CURLOPT_POSTFIELDS, call->body);
        lib.setopt(t->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body));
    }
}

static enum osp_status outcome(const struct transfer *t, CURLcode code)
{
    long status = 0;

    if (code != CURLE_OK)
        return fail(OSP_EIO, "%s: %s", t->call->url, lib.strerror(code));
    lib.getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return fail(OSP_EIO, "%s: status %ld: %s", t->call->url, status, buf_text(&t->error_body));
    return OSP_OK;
}

enum osp_status bench_curl_call(const struct bench_call *call)
{
    struct transfer t = {.call = call, .curl = lib.init()};
    struct curl_slist *headers;
    enum osp_status st;

    if (t.curl == NULL)
        return fail(OSP_ENOMEM, "%s: out of memory in libcurl", call->url);
    headers = headers_of(call);
    buf_init(&t.error_body, ERROR_BODY_BYTES_MAX);
    set_options(&t, headers);
    st = outcome(&t, lib.perform(t.curl));
    buf_release(&t.error_body);
    lib.free_all(headers);
    lib.cleanup(t.curl);
    return st;
}
