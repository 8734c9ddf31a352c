/* JSON schema -> the TypeScript-like type that gpt-oss was trained to read (reference gpt-oss.md
 * E.4). Part of the Harmony renderer; only harmony_tools.c uses it. */
#ifndef TEXT_HARMONY_HARMONY_TYPES_H
#define TEXT_HARMONY_HARMONY_TYPES_H

#include "base/buf.h"

enum {
    TYPE_DEPTH_MAX = 64,             /* nested schemas; real ones stay under ten */
    TYPE_SCHEMA_BYTES_MAX = 4 << 20, /* one function's schema, as JSON */
};

/* Appends the type of a JSON schema; for "null", which means no schema, sets *absent instead.
 * Properties keep the order of the text. OSP_EINVAL for text that is not a JSON object and for
 * schemas deeper than TYPE_DEPTH_MAX, OSP_ELIMIT for text that is too long. */
CHECKED enum osp_status harmony_type_append(const char *schema_json, struct buf *out, bool *absent);

#endif
