#include "cli/client/client_server.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "cli/client/client_call.h"

enum { MODELS_BYTES_MAX = 4 << 20, MODELS_TIMEOUT_S = 60 };

/* The scheme and the root; a string to free(). */
static char *root_of(const char *url)
{
    char *root = mem_printf("%s%s", strstr(url, "://") ? "" : "http://", url);
    size_t n = strlen(root);

    while (n > 0 && root[n - 1] == '/')
        root[--n] = '\0';
    if (str_ends_with(root, "/v1"))
        root[n -= 3] = '\0';
    while (n > 0 && root[n - 1] == '/')
        root[--n] = '\0';
    return root;
}

/* A line break in the key would begin another header. */
static enum osp_status check_key(const char *key)
{
    for (const char *c = key; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return fail(OSP_EINVAL, "the API key has a control character; give it on one line");
    return OSP_OK;
}

enum osp_status client_server_open(struct client_server *s, const char *url, const char *api_key)
{
    enum osp_status st;

    *s = (struct client_server){.api_key = api_key && *api_key ? api_key : NULL};
    TRY(check_key(api_key));
    s->root = root_of(url);
    if (strncmp(s->root, "http://", 7) != 0 && strncmp(s->root, "https://", 8) != 0)
        return fail(OSP_EINVAL, "%s: not a URL of a server; expected http:// or https://", url);
    TRY(client_load());
out:
    return st;
}

void client_server_release(struct client_server *s)
{
    free(s->root);
    *s = (struct client_server){0};
}

char *client_server_url(const struct client_server *s, const char *path)
{
    return mem_printf("%s%s", s->root, path);
}

static bool append_bytes(void *ctx, const char *bytes, size_t n_bytes)
{
    return buf_append(ctx, bytes, n_bytes);
}

enum osp_status client_server_get(const struct client_server *s, const char *path, long timeout_s,
                                  struct buf *out, long *status)
{
    char *url = client_server_url(s, path);
    const struct client_call call = {.url = url,
                                     .api_key = s->api_key,
                                     .timeout_s = timeout_s,
                                     .is_cancelable = s->is_cancelable,
                                     .cancel_descriptor = s->cancel_descriptor,
                                     .any_status = status != NULL,
                                     .status = status,
                                     .on_body = append_bytes,
                                     .ctx = out};
    enum osp_status st;

    TRY(client_run(&call));
    if (out->overflow)
        st = buf_failure(out, url);
out:
    free(url);
    return st;
}

/* Copies the ids of data, which may be NULL. */
static void read_ids(struct client_models *m, const json_t *data)
{
    size_t i, capacity = 0;
    const json_t *model;

    json_array_foreach(data, i, model)
    {
        const char *id = json_string_value(json_object_get(model, "id"));

        if (id == NULL)
            continue;
        mem_grow(&m->ids, m->n, &capacity, sizeof *m->ids);
        m->ids[m->n++] = mem_strdup(id);
    }
}

enum osp_status client_models_get(struct client_models *m, const struct client_server *s)
{
    struct buf answer;
    json_t *root = NULL;
    enum osp_status st;

    *m = (struct client_models){0};
    buf_init(&answer, MODELS_BYTES_MAX);
    TRY(client_server_get(s, "/v1/models", MODELS_TIMEOUT_S, &answer, NULL));
    root = json_loadb(buf_text(&answer), answer.size_bytes, 0, NULL);
    read_ids(m, json_object_get(root, "data"));
    if (m->n == 0)
        st = fail(OSP_EFORMAT, "%s/v1/models lists no model; give the model's name as MODEL",
                  s->root);
out:
    json_decref(root);
    buf_release(&answer);
    return st;
}

void client_models_release(struct client_models *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->ids[i]);
    free(m->ids);
    *m = (struct client_models){0};
}

enum osp_status client_server_first_model(const struct client_server *s, char **out)
{
    struct client_models models;
    enum osp_status st;

    TRY(client_models_get(&models, s));
    *out = mem_strdup(models.ids[0]);
out:
    client_models_release(&models);
    return st;
}
