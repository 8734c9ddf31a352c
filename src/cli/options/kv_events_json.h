/* vLLM's --kv-events-config, a JSON object. */
#ifndef CLI_OPTIONS_KV_EVENTS_JSON_H
#define CLI_OPTIONS_KV_EVENTS_JSON_H

#include "base/status.h"
#include "osprey.h"

struct kv_events_options {
    bool is_on;
    char *endpoint, *replay_endpoint, *topic; /* owned; NULL: not given */
    int buffer_steps, hwm, max_queue_size;    /* 0: not given */
};
void kv_events_options_release(struct kv_events_options *o); /* accepts a zeroed one */

/* Reads the option; NULL: no events. OSP_EINVAL: not valid JSON, an unknown member, or a value out
 * of range; OSP_EUNSUPPORTED: a publisher that osprey does not have. */
CHECKED enum osp_status kv_events_read(struct kv_events_options *out, const char *json);

/* Sets the members kv_events_*, which borrow the strings. */
void kv_events_set(struct osp_engine_options *out, const struct kv_events_options *o);

#endif
