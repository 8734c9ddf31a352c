#include "cli/options/kv_events_json.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/memory.h"

#define OPTION           "--kv-events-config"
#define EXAMPLE          "{\"enable_kv_cache_events\": true, \"endpoint\": \"tcp://*:5557\"}"
#define ENDPOINT_DEFAULT "tcp://*:5557" /* vLLM's */

enum { COUNT_MAX = 10000000 };

static enum osp_status read_bool(bool *out, const char *key, const json_t *value)
{
    *out = json_is_true(value);
    return json_is_boolean(value) ? OSP_OK
                                  : fail(OSP_EINVAL, OPTION ": %s must be true or false", key);
}

static enum osp_status read_text(char **out, const char *key, const json_t *value)
{
    const char *text = json_string_value(value);

    if (json_is_null(value))
        return OSP_OK;
    if (text == NULL)
        return fail(OSP_EINVAL, OPTION ": %s must be a string", key);
    free(*out);
    *out = mem_strdup(text);
    return OSP_OK;
}

static enum osp_status read_count(int *out, const char *key, const json_t *value)
{
    const json_int_t n = json_integer_value(value);

    if (!json_is_integer(value) || n < 1 || n > COUNT_MAX)
        return fail(OSP_EINVAL, OPTION ": %s must be an integer from 1 to %d", key, COUNT_MAX);
    *out = (int)n;
    return OSP_OK;
}

/* "null" is vLLM's name of a publisher that publishes nothing. */
static enum osp_status read_publisher(bool *is_null, const json_t *value)
{
    const char *name = json_string_value(value);

    *is_null = name != NULL && strcmp(name, "null") == 0;
    if (json_is_null(value) || *is_null || (name != NULL && strcmp(name, "zmq") == 0))
        return OSP_OK;
    if (name == NULL)
        return fail(OSP_EINVAL, OPTION ": publisher must be \"zmq\" or \"null\"");
    return fail(OSP_EUNSUPPORTED, OPTION ": publisher \"%.64s\" is not supported; osprey has zmq",
                name);
}

/* X(kind, member of the JSON object and of struct kv_events_options) */
#define MEMBER_LIST(X)                                                                             \
    X(text, endpoint)                                                                              \
    X(text, replay_endpoint)                                                                       \
    X(text, topic)                                                                                 \
    X(count, buffer_steps)                                                                         \
    X(count, hwm)                                                                                  \
    X(count, max_queue_size)

static enum osp_status read_member(struct kv_events_options *o, bool *is_null, const char *key,
                                   const json_t *value)
{
    if (strcmp(key, "enable_kv_cache_events") == 0)
        return read_bool(&o->is_on, key, value);
    if (strcmp(key, "publisher") == 0)
        return read_publisher(is_null, value);
#define READ_MEMBER(kind, member)                                                                  \
    if (strcmp(key, #member) == 0)                                                                 \
        return read_##kind(&o->member, key, value);
    MEMBER_LIST(READ_MEMBER)
#undef READ_MEMBER
    return fail(OSP_EINVAL,
                OPTION ": unknown member %.64s; there are enable_kv_cache_events, publisher, "
                       "endpoint, replay_endpoint, topic, buffer_steps, hwm and max_queue_size",
                key);
}

static enum osp_status read_members(struct kv_events_options *o, json_t *root)
{
    bool is_null = false;
    json_t *value;
    const char *key;
    enum osp_status st = OSP_OK;

    json_object_foreach(root, key, value) TRY(read_member(o, &is_null, key, value));
    if (!is_null && json_object_get(root, "enable_kv_cache_events") == NULL)
        log_warn(OPTION ": nothing is published without \"enable_kv_cache_events\": true");
    o->is_on = o->is_on && !is_null;
    if (o->endpoint == NULL)
        o->endpoint = mem_strdup(ENDPOINT_DEFAULT);
out:
    return st;
}

enum osp_status kv_events_read(struct kv_events_options *out, const char *json)
{
    json_error_t error;
    json_t *root;
    enum osp_status st;

    *out = (struct kv_events_options){.is_on = false};
    if (json == NULL)
        return OSP_OK;
    root = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    st = json_is_object(root)
             ? read_members(out, root)
             : fail(OSP_EINVAL, OPTION " %.80s: must be a JSON object, such as " EXAMPLE, json);
    json_decref(root);
    if (st != OSP_OK)
        kv_events_options_release(out);
    return st;
}

void kv_events_options_release(struct kv_events_options *o)
{
    free(o->endpoint);
    free(o->replay_endpoint);
    free(o->topic);
    *o = (struct kv_events_options){.is_on = false};
}

void kv_events_set(struct osp_engine_options *out, const struct kv_events_options *o)
{
    if (!o->is_on)
        return;
    out->kv_events_endpoint = o->endpoint;
    out->kv_events_replay_endpoint = o->replay_endpoint;
    out->kv_events_topic = o->topic;
    out->kv_events_buffer_steps = o->buffer_steps;
    out->kv_events_hwm = o->hwm;
    out->kv_events_queue_max = o->max_queue_size;
}
