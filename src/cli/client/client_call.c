#include "cli/client/client_call.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/curl_library.h"
#include "base/memory.h"

enum { ERROR_BODY_BYTES_MAX = 4096, CONNECT_TIMEOUT_S = 30, POLL_MS = 1000 };

/* X(member, function, result, parameters): the functions of libcurl that are used. */
#define CURL_FUNCTIONS(X)                                                                          \
    X(init, curl_easy_init, CURL *, (void))                                                        \
    X(setopt, curl_easy_setopt, CURLcode, (CURL *, CURLoption, ...))                               \
    X(getinfo, curl_easy_getinfo, CURLcode, (CURL *, CURLINFO, ...))                               \
    X(cleanup, curl_easy_cleanup, void, (CURL *))                                                  \
    X(strerror, curl_easy_strerror, const char *, (CURLcode))                                      \
    X(append, curl_slist_append, struct curl_slist *, (struct curl_slist *, const char *))         \
    X(free_all, curl_slist_free_all, void, (struct curl_slist *))                                  \
    X(multi_init, curl_multi_init, CURLM *, (void))                                                \
    X(multi_add, curl_multi_add_handle, CURLMcode, (CURLM *, CURL *))                              \
    X(multi_remove, curl_multi_remove_handle, CURLMcode, (CURLM *, CURL *))                        \
    X(multi_perform, curl_multi_perform, CURLMcode, (CURLM *, int *))                              \
    X(multi_poll, curl_multi_poll, CURLMcode,                                                      \
      (CURLM *, struct curl_waitfd *, unsigned, int, int *))                                       \
    X(multi_info, curl_multi_info_read, CURLMsg *, (CURLM *, int *))                               \
    X(multi_cleanup, curl_multi_cleanup, CURLMcode, (CURLM *))

static struct {
#define CURL_MEMBER(member, function, result, parameters) result(*member) parameters;
    CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
} lib;

enum osp_status client_load(void)
{
#define CURL_ROW(member, function, result, parameters) {#function, &lib.member},
    static const struct curl_function functions[] = {CURL_FUNCTIONS(CURL_ROW)};
#undef CURL_ROW

    return curl_library_find(functions, sizeof functions / sizeof functions[0],
                             "calling a server needs");
}

/* A call in flight. */
struct transfer {
    const struct client_call *call;
    CURL *curl;
    struct buf error_body;
    char error[CURL_ERROR_SIZE]; /* libcurl's own message, with host and port */
    bool is_canceled;
    bool is_stopped; /* by this side: nothing more of the body is wanted */
};

static long status_of(const struct transfer *t)
{
    long status = 0;

    lib.getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* False: the rest of the body is not wanted. */
static bool add_error(struct buf *body, const char *bytes, size_t n)
{
    const size_t n_free = ERROR_BODY_BYTES_MAX - body->size_bytes;

    return buf_append(body, bytes, n < n_free ? n : n_free) && n < n_free;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;

    (void)size; /* always 1 */
    if (t->call->any_status || status_of(t) == 200)
        t->is_stopped = !t->call->on_body(t->call->ctx, bytes, n);
    else
        t->is_stopped = !add_error(&t->error_body, bytes, n);
    return t->is_stopped ? 0 : n; /* n > 0; any other number ends the transfer */
}

static struct curl_slist *headers_of(const struct client_call *call)
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
    const struct client_call *call = t->call;
    const char *certificates = getenv("SSL_CERT_FILE"); /* libcurl itself does not read it */

    lib.setopt(t->curl, CURLOPT_URL, call->url);
    lib.setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    lib.setopt(t->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    lib.setopt(t->curl, CURLOPT_WRITEDATA, t);
    lib.setopt(t->curl, CURLOPT_ERRORBUFFER, t->error);
    lib.setopt(t->curl, CURLOPT_TIMEOUT, call->timeout_s);
    lib.setopt(t->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    lib.setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    lib.setopt(t->curl, CURLOPT_TCP_NODELAY, 1L);
    lib.setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (certificates && *certificates)
        lib.setopt(t->curl, CURLOPT_CAINFO, certificates);
    if (call->body != NULL) {
        lib.setopt(t->curl, CURLOPT_POSTFIELDS, call->body);
        lib.setopt(t->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body));
    }
}

/* Runs the transfer of `multi` to its end, or until it is canceled. */
static CURLcode transfer_wait(struct transfer *t, CURLM *multi)
{
    struct curl_waitfd cancel = {.fd = t->call->cancel_descriptor, .events = CURL_WAIT_POLLIN};
    const unsigned n_more = t->call->is_cancelable ? 1 : 0;
    const CURLMsg *message;
    int n_running = 1, n_left;

    while (lib.multi_perform(multi, &n_running) == CURLM_OK && n_running > 0) {
        if (lib.multi_poll(multi, &cancel, n_more, POLL_MS, NULL) != CURLM_OK)
            return CURLE_FAILED_INIT;
        t->is_canceled = n_more > 0 && cancel.revents != 0;
        if (t->is_canceled)
            return CURLE_ABORTED_BY_CALLBACK;
    }
    message = lib.multi_info(multi, &n_left);
    return message != NULL && message->msg == CURLMSG_DONE ? message->data.result
                                                           : CURLE_FAILED_INIT;
}

static CURLcode transfer_run(struct transfer *t)
{
    CURLM *multi = lib.multi_init();
    CURLcode code = CURLE_OUT_OF_MEMORY;

    if (multi == NULL)
        return code;
    if (lib.multi_add(multi, t->curl) == CURLM_OK) {
        code = transfer_wait(t, multi);
        lib.multi_remove(multi, t->curl);
    }
    lib.multi_cleanup(multi);
    return code;
}

/* Redirects are not followed: the key would go to a server that the user did not name. */
static enum osp_status redirect_error(const struct transfer *t, long status)
{
    const char *url = NULL;

    lib.getinfo(t->curl, CURLINFO_REDIRECT_URL, &url);
    return fail(OSP_EIO, "%s: status %ld: the server redirects to %s; use that URL", t->call->url,
                status, url != NULL ? url : "another URL");
}

/* The message of an error in OpenAI's form, {"error": {"message": ...}}, or the body as it is. */
static enum osp_status status_error(const struct transfer *t, long status)
{
    json_t *root = json_loadb(buf_text(&t->error_body), t->error_body.size_bytes, 0, NULL);
    const json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    enum osp_status st = fail(OSP_EIO, "%s: status %ld: %s", t->call->url, status,
                              message != NULL ? message : buf_text(&t->error_body));

    json_decref(root);
    return st;
}

/* What to do about an error of libcurl. */
static const char *hint_of(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return " (is the server running there?)";
    case CURLE_PEER_FAILED_VERIFICATION:
        return " (SSL_CERT_FILE can name a PEM file with the certificate to trust)";
    default:
        return "";
    }
}

static enum osp_status outcome(const struct transfer *t, CURLcode code)
{
    const long status = status_of(t);

    if (t->call->status != NULL)
        *t->call->status = status;
    if (t->is_canceled)
        return fail(OSP_ECANCELED, "%s: canceled", t->call->url);
    if (code != CURLE_OK && !t->is_stopped)
        return fail(OSP_EIO, "%s: %s%s", t->call->url,
                    t->error[0] != '\0' ? t->error : lib.strerror(code), hint_of(code));
    if (status >= 300 && status < 400)
        return redirect_error(t, status);
    return status == 200 || t->call->any_status ? OSP_OK : status_error(t, status);
}

enum osp_status client_run(const struct client_call *call)
{
    struct transfer t = {.call = call, .curl = lib.init()};
    struct curl_slist *headers;
    enum osp_status st;

    if (t.curl == NULL)
        return fail(OSP_ENOMEM, "%s: out of memory in libcurl", call->url);
    headers = headers_of(call);
    buf_init(&t.error_body, ERROR_BODY_BYTES_MAX);
    set_options(&t, headers);
    st = outcome(&t, transfer_run(&t));
    buf_release(&t.error_body);
    lib.free_all(headers);
    lib.cleanup(t.curl);
    return st;
}
