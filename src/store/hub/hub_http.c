#include "store/hub/hub_http.h"

#include <ctype.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/curl_library.h"
#include "base/memory.h"
#include "store/hub/hub_url.h"

enum {
    CONNECT_TIMEOUT_S = 20,
    OTHER_BODY_BYTES_MAX = 64 << 10, /* of a redirect or an error; a longer one is cut */
    RECEIVE_BYTES = 256 << 10        /* fewer calls of on_body; libcurl's default is 16 KiB */
};

/* X(member, function, result, parameters): the functions of libcurl that are used. */
#define CURL_FUNCTIONS(X)                                                                          \
    X(init, curl_easy_init, CURL *, (void))                                                        \
    X(reset, curl_easy_reset, void, (CURL *))                                                      \
    X(setopt, curl_easy_setopt, CURLcode, (CURL *, CURLoption, ...))                               \
    X(getinfo, curl_easy_getinfo, CURLcode, (CURL *, CURLINFO, ...))                               \
    X(perform, curl_easy_perform, CURLcode, (CURL *))                                              \
    X(cleanup, curl_easy_cleanup, void, (CURL *))                                                  \
    X(strerror, curl_easy_strerror, const char *, (CURLcode))                                      \
    X(append, curl_slist_append, struct curl_slist *, (struct curl_slist *, const char *))         \
    X(free_all, curl_slist_free_all, void, (struct curl_slist *))                                  \
    X(url, curl_url, CURLU *, (void))                                                              \
    X(url_set, curl_url_set, CURLUcode, (CURLU *, CURLUPart, const char *, unsigned))              \
    X(url_get, curl_url_get, CURLUcode, (const CURLU *, CURLUPart, char **, unsigned))             \
    X(url_cleanup, curl_url_cleanup, void, (CURLU *))                                              \
    X(free, curl_free, void, (void *))

static struct {
#define CURL_MEMBER(member, function, result, parameters) result(*member) parameters;
    CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
} lib;

static enum osp_status load_status; /* of load(), with its message */
static char load_message[FAIL_MESSAGE_BYTES_MAX];

static void load(void)
{
#define CURL_ROW(member, function, result, parameters) {#function, &lib.member},
    static const struct curl_function functions[] = {CURL_FUNCTIONS(CURL_ROW)};
#undef CURL_ROW

    load_status =
        curl_library_find(functions, sizeof functions / sizeof functions[0], "downloads need");
    if (load_status != OSP_OK)
        snprintf(load_message, sizeof load_message, "%s", fail_message());
}

static enum osp_status load_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return load_status == OSP_OK ? OSP_OK : fail(load_status, "%s", load_message);
}

struct hub_http {
    CURL *curl;
    /* of the request in flight */
    const struct hub_request *request;
    struct hub_response *response;
    bool is_refused;      /* on_body() returned false, or the body of another status is too long */
    size_t n_other_bytes; /* of the body of another status, which is not kept */
    bool is_stopped;
    char error[CURL_ERROR_SIZE];
};

enum osp_status hub_http_open(struct hub_http **out)
{
    struct hub_http *http;
    enum osp_status st;

    *out = NULL;
    TRY(load_once());
    http = mem_new(sizeof *http);
    http->curl = lib.init();
    if (http->curl == NULL) {
        free(http);
        return fail(OSP_ENOMEM, "out of memory in libcurl");
    }
    *out = http;
out:
    return st;
}

void hub_http_close(struct hub_http *http)
{
    if (http == NULL)
        return;
    lib.cleanup(http->curl);
    free(http);
}

/* ---- one request ---- */

/* A new status line begins a new answer: one may follow 100 Continue. */
static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct hub_http *http = ctx;

    (void)size; /* always 1 */
    if (n >= 5 && strncmp(line, "HTTP/", 5) == 0)
        hub_headers_init(&http->response->headers);
    else
        hub_headers_add(&http->response->headers, line, n, clock_unix_s());
    return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct hub_http *http = ctx;
    const struct hub_request *request = http->request;
    long status = 0;

    (void)size; /* always 1 */
    lib.getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
    http->response->status = status;
    if (status == 200 || status == 206) {
        http->is_refused =
            request->on_body == NULL || !request->on_body(request->ctx, http->response, bytes, n);
    } else { /* libcurl gives the URL of a redirect only when its body was read */
        http->n_other_bytes += n;
        http->is_refused = http->n_other_bytes > OTHER_BODY_BYTES_MAX;
    }
    return http->is_refused ? 0 : n; /* n > 0; any other number ends the transfer */
}

/* Called at least once a second, also without traffic. */
static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct hub_http *http = ctx;

    (void)a, (void)b, (void)c, (void)d;
    http->is_stopped =
        http->request->is_stopped != NULL && http->request->is_stopped(http->request->ctx);
    return http->is_stopped;
}

static struct curl_slist *headers_of(const struct hub_request *request)
{
    struct curl_slist *headers = lib.append(NULL, "Accept-Encoding: identity");
    char *authorization;

    if (request->token != NULL) {
        authorization = mem_printf("Authorization: Bearer %s", request->token);
        headers = lib.append(headers, authorization);
        free(authorization);
    }
    return headers;
}

/* The file of trusted certificates, by the variables of OpenSSL and of Python's clients. */
static const char *certificates(void)
{
    static const char *const names[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) && *getenv(names[i]))
            return getenv(names[i]);
    return NULL;
}

static void set_options(struct hub_http *http, struct curl_slist *headers)
{
    const struct hub_request *request = http->request;
    CURL *curl = http->curl;
    char range[48];

    lib.reset(curl); /* keeps connections */
    lib.setopt(curl, CURLOPT_URL, request->url);
    lib.setopt(curl, CURLOPT_HTTPHEADER, headers);
    lib.setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    lib.setopt(curl, CURLOPT_HEADERDATA, http);
    lib.setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    lib.setopt(curl, CURLOPT_WRITEDATA, http);
    lib.setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    lib.setopt(curl, CURLOPT_XFERINFODATA, http);
    lib.setopt(curl, CURLOPT_NOPROGRESS, 0L);
    lib.setopt(curl, CURLOPT_ERRORBUFFER, http->error);
    lib.setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    lib.setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    lib.setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)request->stall_s);
    lib.setopt(curl, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
    lib.setopt(curl, CURLOPT_NOSIGNAL, 1L);
    lib.setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    lib.setopt(curl, CURLOPT_USERAGENT, "osprey");
    lib.setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    /* several connections are faster than several streams of one */
    lib.setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (certificates() != NULL)
        lib.setopt(curl, CURLOPT_CAINFO, certificates());
    if (request->first >= 0) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)request->first,
                 (long long)request->last);
        lib.setopt(curl, CURLOPT_RANGE, range);
    }
}

/* Errors that the next try would meet, too. */
static bool is_permanent(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_URL_MALFORMAT || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_COULDNT_RESOLVE_PROXY;
}

static enum osp_status outcome(struct hub_http *http, CURLcode code)
{
    struct hub_response *r = http->response;
    char *shown;
    const char *redirect = NULL;
    enum osp_status st;

    lib.getinfo(http->curl, CURLINFO_RESPONSE_CODE, &r->status);
    lib.getinfo(http->curl, CURLINFO_REDIRECT_URL, &redirect);
    if (redirect != NULL && strlen(redirect) < sizeof r->redirect)
        snprintf(r->redirect, sizeof r->redirect, "%s", redirect);
    if (http->is_stopped)
        return fail(OSP_ECANCELED, "canceled");
    if (code == CURLE_OK || http->is_refused)
        return OSP_OK;
    shown = hub_url_shown(http->request->url);
    st = fail(is_permanent(code) ? OSP_EUNAVAILABLE : OSP_EIO, "%s: %s%s", shown,
              http->error[0] != '\0' ? http->error : lib.strerror(code),
              code == CURLE_PEER_FAILED_VERIFICATION
                  ? " (SSL_CERT_FILE can name a PEM file with the certificate to trust)"
                  : "");
    free(shown);
    return st;
}

enum osp_status hub_http_get(struct hub_http *http, const struct hub_request *request,
                             struct hub_response *out)
{
    struct curl_slist *headers = headers_of(request);
    enum osp_status st;

    out->status = 0;
    out->redirect[0] = '\0';
    hub_headers_init(&out->headers);
    http->request = request;
    http->response = out;
    http->is_refused = false;
    http->is_stopped = false;
    http->n_other_bytes = 0;
    http->error[0] = '\0';
    set_options(http, headers);
    st = outcome(http, lib.perform(http->curl));
    lib.free_all(headers);
    return st;
}

/* ---- origins ---- */

/* One part of a URL into out; false: absent or too long. */
static bool part(char *out, size_t out_bytes, const CURLU *url, CURLUPart which)
{
    char *text = NULL;
    bool found = lib.url_get(url, which, &text, CURLU_DEFAULT_PORT) == CURLUE_OK && text != NULL &&
                 strlen(text) < out_bytes;

    if (found)
        snprintf(out, out_bytes, "%s", text);
    lib.free(text);
    return found;
}

static bool read_origin(struct hub_origin *out, const CURLU *url)
{
    char scheme[8], port[8], *user = NULL;
    const bool has_user = lib.url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK;

    lib.free(user);

    if (!part(scheme, sizeof scheme, url, CURLUPART_SCHEME) ||
        !part(out->host, sizeof out->host, url, CURLUPART_HOST) ||
        !part(port, sizeof port, url, CURLUPART_PORT) || has_user)
        return false;
    for (char *c = out->host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    out->is_https = strcmp(scheme, "https") == 0;
    snprintf(out->text, sizeof out->text, "%s://%s:%s", scheme, out->host, port);
    return out->is_https || strcmp(scheme, "http") == 0;
}

enum osp_status hub_origin_read(struct hub_origin *out, const char *url)
{
    bool found;
    char *shown;
    CURLU *parsed;
    enum osp_status st;

    *out = (struct hub_origin){.text = ""};
    TRY(load_once());
    parsed = lib.url();
    found = parsed != NULL && lib.url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
            read_origin(out, parsed);
    lib.url_cleanup(parsed);
    if (found)
        return OSP_OK;
    shown = hub_url_shown(url);
    st = fail(OSP_EFORMAT, "%s: expected an http or https URL without a user name", shown);
    free(shown);
out:
    return st;
}
