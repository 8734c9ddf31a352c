/* A value in a JSON document with its path, for errors like
 * "messages[2].content[0].type: must be a string, is null". Places are borrowed views on the stack;
 * the document outlives them. */
#ifndef ENGINE_CHAT_JSON_PLACE_H
#define ENGINE_CHAT_JSON_PLACE_H

#include "base/status.h"
#include "text/harmony/harmony.h"

struct json_t; /* jansson's value */

struct place {
    const struct place *in; /* NULL: the document itself */
    const char *key;        /* of an object's member; NULL: an array's item */
    size_t index;
    const struct json_t *value; /* NULL: missing */
};

struct place place_member(const struct place *in, const char *key);
struct place place_item(const struct place *in, size_t index);
/* Items of an array, members of an object; 0 for everything else. */
size_t place_size(const struct place *p);
/* Missing or null. */
bool place_is_absent(const struct place *p);
bool place_is_string(const struct place *p);
bool place_is_array(const struct place *p);

/* Records OSP_EINVAL: the place, then the message. */
enum osp_status place_fail(const struct place *p, const char *format, ...) PRINTF_LIKE(2, 3);
/* Puts the path in front of the thread's last message; returns code. OSP_OK changes nothing. */
CHECKED enum osp_status place_within(const struct place *p, enum osp_status code);
/* OSP_EINVAL "must be WANTED, is ..." */
enum osp_status place_mismatch(const struct place *p, const char *wanted);

CHECKED enum osp_status place_object(const struct place *p);
CHECKED enum osp_status place_array(const struct place *p);
/* A string, as text that may hold NUL bytes. */
CHECKED enum osp_status place_text(const struct place *p, struct harmony_text *out);
/* A string without NUL characters. */
CHECKED enum osp_status place_string(const struct place *p, const char **out);
/* The same for members that may be absent, with NULL then. */
CHECKED enum osp_status member_text(const struct place *in, const char *key,
                                    struct harmony_text *out);
CHECKED enum osp_status member_string(const struct place *in, const char *key, const char **out);
/* true or false; false when it is absent. */
CHECKED enum osp_status member_bool(const struct place *in, const char *key, bool *out);

#endif
