/* JSON values as text, in the compact form in which openai/harmony prints defaults (serde_json's:
 * no spaces, members in order, the fewest digits that read back as the same number). */
#ifndef TEXT_HARMONY_HARMONY_VALUE_H
#define TEXT_HARMONY_HARMONY_VALUE_H

#include "base/buf.h"

struct json_t; /* jansson's value type */

void harmony_value_append(const struct json_t *value, struct buf *out);

#endif
