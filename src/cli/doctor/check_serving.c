/* What `osprey serve` needs besides the machine: its port, the model cache, and variables of
 * proxies that clients and downloads read. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "cli/doctor/checks.h"
#include "osprey_tools.h"

#define GB 1000000000.0

enum {
    SMALL_MODEL_GB = 14, /* openai/gpt-oss-20b */
    LARGE_MODEL_GB = 66, /* openai/gpt-oss-120b */
    MODELS_SHOWN_MAX = 8
};

/* ---- the port ---- */

/* errno of bind(), 0: the port is free. */
static int try_bind(const struct addrinfo *a)
{
    const int on = 1;
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = 0;

    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* as the server */
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1) != 0)
        error = errno;
    close(fd);
    return error;
}

static void check_port(struct findings *f, const struct serving_args *args)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    char port[16];
    int error;

    snprintf(port, sizeof port, "%d", args->port);
    error = getaddrinfo(args->host, port, &hints, &found);
    if (error != 0) {
        finding_add(f, FINDING_broken, "port", "--host %s: %s", args->host, gai_strerror(error));
        finding_advise(f, "name an address of this host; 0.0.0.0 stands for all");
        return;
    }
    error = try_bind(found);
    freeaddrinfo(found);
    if (error == 0) {
        finding_add(f, FINDING_good, "port", "%s:%d is free", args->host, args->port);
        return;
    }
    finding_add(f, FINDING_broken, "port", "%s:%d: %s", args->host, args->port, strerror(error));
    if (error == EADDRINUSE)
        finding_advise(f,
                       "`osprey status` shows whether a server of osprey has it; `ss -ltnp "
                       "sport = :%d` names the program; or serve with another --port",
                       args->port);
    else if (error == EACCES)
        finding_advise(f, "ports below 1024 need CAP_NET_BIND_SERVICE: take another --port");
    else
        finding_advise(f, "name an address of this host with --host; 0.0.0.0 stands for all");
}

/* ---- the model cache ---- */

/* The folder, or the nearest one above it that exists; a string to free(). */
static char *existing(const char *folder)
{
    char *at = mem_strdup(folder);

    while (!path_is_folder(at)) {
        char *slash = strrchr(at, '/');

        if (slash == NULL || slash == at) { /* "models": in the working directory; "/models" */
            snprintf(at, strlen(at) + 1, "%s", slash == NULL ? "." : "/");
            break;
        }
        *slash = '\0';
    }
    return at;
}

struct models {
    struct findings *f;
    int n, n_complete;
};

static void put_model(void *ctx, const struct osp_hub_model *m)
{
    struct models *models = ctx;
    char text[16];

    models->n_complete += m->is_complete;
    if (models->n++ >= MODELS_SHOWN_MAX)
        return;
    format_bytes(text, (double)m->n_bytes);
    if (m->is_complete)
        finding_add(models->f, FINDING_good, "model", "%s, %s", m->repo, text);
    else
        finding_add(models->f, FINDING_untested, "model", "%s, %s: not for osprey, or incomplete",
                    m->repo, text);
}

/* Returns the number of models that can be served. */
static int check_models(struct findings *f, const char *cache)
{
    struct models models = {.f = f};

    if (osp_hub_list(cache, put_model, &models) != OSP_OK) {
        finding_add(f, FINDING_broken, "models", "%s", fail_message());
        finding_advise(f, "let this user read the folder, or set HF_HOME");
        return 0;
    }
    if (models.n == 0) {
        finding_add(f, FINDING_untested, "models", "the cache has none");
        finding_advise(f, "osprey pull openai/gpt-oss-20b");
    } else if (models.n > MODELS_SHOWN_MAX)
        finding_add(f, FINDING_good, "models", "and %d more: osprey pull --list",
                    models.n - MODELS_SHOWN_MAX);
    if (osp_hub_is_offline())
        finding_add(f, FINDING_good, "downloads",
                    "off by HF_HUB_OFFLINE; only models of the cache can be served");
    return models.n_complete;
}

/* needs_download: there is nothing to serve yet. Else a volume that is read-only or full is what
 * containers often have. */
static void check_disk(struct findings *f, const char *cache, bool needs_download)
{
    char *folder = existing(cache);
    struct statvfs s;
    char text[16];
    double free_bytes = 0;
    const bool is_known = statvfs(folder, &s) == 0;

    if (is_known)
        free_bytes = (double)s.f_bavail * (double)s.f_frsize;
    format_bytes(text, free_bytes);
    if (access(folder, W_OK | X_OK) != 0) {
        const int error = errno;

        if (needs_download) {
            finding_add(f, FINDING_broken, "model cache", "%s: %s", folder, strerror(error));
            finding_advise(f, "as this user no model can be downloaded there; set HF_HOME, or give "
                              "the folder to this user");
        } else
            finding_add(f, FINDING_good, "model cache",
                        "%s: read-only (%s); nothing can be downloaded there", cache,
                        strerror(error));
    } else if (needs_download && is_known && free_bytes < SMALL_MODEL_GB * GB) {
        finding_add(f, FINDING_slow, "model cache",
                    "%s: %s free, expected %d GB for gpt-oss-20b, %d for gpt-oss-120b", cache, text,
                    SMALL_MODEL_GB, LARGE_MODEL_GB);
        finding_advise(f, "free the disk (osprey pull --list, --remove), or set HF_HOME to a "
                          "folder on a larger one");
    } else
        finding_add(f, FINDING_good, "model cache", "%s: %s free", cache, text);
    free(folder);
}

/* ---- proxies ---- */

static const char *either(const char *lower, const char *upper)
{
    const char *value = getenv(lower);

    if (value == NULL || value[0] == '\0')
        value = upper == NULL ? NULL : getenv(upper);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool excludes_local(const char *no_proxy)
{
    return no_proxy != NULL &&
           (strcmp(no_proxy, "*") == 0 || str_in_list(no_proxy, "localhost") ||
            str_in_list(no_proxy, "127.0.0.1") || strstr(no_proxy, "127.0.0.0/8") != NULL);
}

/* The address without the password of "http://user:password@proxy:3128". */
static const char *without_user(const char *url)
{
    const char *at = strrchr(url, '@');

    return at != NULL ? at + 1 : url;
}

static void check_proxies(struct findings *f)
{
    /* Programs with libcurl ignore HTTP_PROXY, others do not. */
    const char *http = either("http_proxy", "HTTP_PROXY");
    const char *https = either("https_proxy", "HTTPS_PROXY"),
               *all = either("all_proxy", "ALL_PROXY");
    const char *proxy = http != NULL ? http : all;

    if (proxy == NULL && https == NULL)
        finding_add(f, FINDING_good, "proxy", "none is set");
    else if (proxy != NULL && !excludes_local(either("no_proxy", "NO_PROXY"))) {
        finding_add(f, FINDING_broken, "proxy",
                    "%s, also for http://127.0.0.1 and localhost: clients on this host will not "
                    "reach the server",
                    without_user(proxy));
        finding_advise(f, "export no_proxy=localhost,127.0.0.1");
    } else
        finding_add(f, FINDING_good, "proxy", "%s for downloads",
                    without_user(https != NULL ? https : proxy));
}

void check_serving(struct findings *f, const struct serving_args *args)
{
    char *cache = osp_hub_cache(args->cache);
    int n_complete;

    f->group = "serving";
    check_port(f, args);
    n_complete = check_models(f, cache);
    check_disk(f, cache, n_complete == 0 && !osp_hub_is_offline());
    check_proxies(f);
    osp_free(cache);
}
