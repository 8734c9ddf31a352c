/* JSON values as text, in the compact form that openai/harmony prints defaults in (serde_json's:
 * no spaces, members in order, the shortest digits that give a number back). */
#ifndef TEXT_HARMONY_HARMONY_VALUE_H
#define TEXT_HARMONY_HARMONY_VALUE_H

#include "base/buf.h"

struct json_t; /* jansson's value */

void harmony_value_append(const struct json_t *value, struct buf *out);

#endif
