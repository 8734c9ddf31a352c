#include "store/hub/hub_settings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"

enum {
    TOKEN_BYTES_MAX = 1024,
    ENDPOINT_BYTES_MAX = 1024,
    STALL_S_DEFAULT = 20,
    STALL_S_MAX = 3600
};

#define ENDPOINT_DEFAULT "https://huggingface.co"

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* "~/x" in the home folder, as huggingface_hub reads paths. A string to free(). */
static char *expanded(const char *path)
{
    return strncmp(path, "~/", 2) == 0 && variable("HOME") ? path_join(variable("HOME"), path + 2)
                                                           : mem_strdup(path);
}

/* $HF_HOME; a string to free(). */
static char *home_folder(void)
{
    const char *home = variable("HOME");

    if (variable("HF_HOME"))
        return expanded(variable("HF_HOME"));
    if (variable("XDG_CACHE_HOME"))
        return path_join(variable("XDG_CACHE_HOME"), "huggingface");
    return path_join(home ? home : "/", ".cache/huggingface");
}

char *hub_cache_folder(const char *given)
{
    char *home, *folder;

    if (given)
        return expanded(given);
    if (variable("HF_HUB_CACHE"))
        return expanded(variable("HF_HUB_CACHE"));
    if (variable("HUGGINGFACE_HUB_CACHE")) /* the older name of that variable */
        return expanded(variable("HUGGINGFACE_HUB_CACHE"));
    home = home_folder();
    folder = path_join(home, "hub");
    free(home);
    return folder;
}

/* ---- the token ---- */

/* A token is sent as part of a header line, so it must be one word of visible ASCII. */
static enum osp_status set_token(struct hub_settings *s, const char *text, const char *origin)
{
    const char *start = text + strspn(text, " \t\r\n");
    const size_t n = strcspn(start, " \t\r\n");

    if (n == 0)
        return OSP_OK;
    if (start[n + strspn(start + n, " \t\r\n")] != '\0' || n > TOKEN_BYTES_MAX)
        return fail(OSP_EINVAL, "%s: not a token, expected one word of at most %d bytes", origin,
                    (int)TOKEN_BYTES_MAX);
    for (size_t i = 0; i < n; i++)
        if (start[i] < '!' || start[i] > '~')
            return fail(OSP_EINVAL, "%s: not a token, it has a byte that is not visible ASCII",
                        origin);
    s->token = mem_strndup(start, n);
    return OSP_OK;
}

/* A file that does not exist is no token. */
static enum osp_status token_from_file(struct hub_settings *s)
{
    char *home = home_folder(), *text = NULL, *path;
    enum osp_status st = OSP_OK;
    size_t n_bytes;

    path =
        variable("HF_TOKEN_PATH") ? expanded(variable("HF_TOKEN_PATH")) : path_join(home, "token");
    free(home);
    if (path_is_file(path)) {
        TRY(file_read(&text, &n_bytes, path, 2 * TOKEN_BYTES_MAX));
        TRY(set_token(s, text, path));
    }
out:
    free(text);
    free(path);
    return st;
}

static enum osp_status read_token(struct hub_settings *s, const char *token)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};

    if (token)
        return set_token(s, token, "the token");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (variable(names[i]))
            return set_token(s, variable(names[i]), names[i]);
    return token_from_file(s);
}

/* ---- the rest ---- */

static enum osp_status read_endpoint(struct hub_settings *s)
{
    const char *text = variable("HF_ENDPOINT") ? variable("HF_ENDPOINT") : ENDPOINT_DEFAULT;
    size_t n = strlen(text);

    while (n > 0 && text[n - 1] == '/')
        n--;
    if ((strncasecmp(text, "https://", 8) != 0 && strncasecmp(text, "http://", 7) != 0) ||
        n > ENDPOINT_BYTES_MAX || strpbrk(text, "?#@ \t\r\n") != NULL)
        return fail(OSP_EINVAL,
                    "HF_ENDPOINT %s: expected the URL of a hub such as " ENDPOINT_DEFAULT, text);
    s->endpoint = mem_strndup(text, n);
    return OSP_OK;
}

static bool is_true(const char *name)
{
    const char *value = variable(name);

    return value && (strcasecmp(value, "1") == 0 || strcasecmp(value, "on") == 0 ||
                     strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0);
}

bool hub_is_offline(void)
{
    return is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
}

static enum osp_status read_stall(struct hub_settings *s)
{
    const char *text = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    char *end;
    long seconds;

    s->stall_s = STALL_S_DEFAULT;
    if (!text)
        return OSP_OK;
    seconds = strtol(text, &end, 10);
    if (end == text || *end != '\0' || seconds < 1 || seconds > STALL_S_MAX)
        return fail(OSP_EINVAL,
                    "HF_HUB_DOWNLOAD_TIMEOUT %s: must be a number of seconds from 1 to %d", text,
                    (int)STALL_S_MAX);
    s->stall_s = (int)seconds;
    return OSP_OK;
}

enum osp_status hub_settings_read(struct hub_settings *out, const char *token)
{
    enum osp_status st;

    *out = (struct hub_settings){.offline = hub_is_offline()};
    TRY(read_endpoint(out));
    TRY(read_stall(out));
    TRY(read_token(out, token));
out:
    if (st != OSP_OK)
        hub_settings_release(out);
    return st;
}

void hub_settings_release(struct hub_settings *s)
{
    free(s->endpoint);
    free(s->token);
    *s = (struct hub_settings){0};
}
