/* Whether the arguments that a model wrote are a JSON object, for APIs whose calls have objects and
 * not texts. It allocates nothing, since it runs on the loop. */
#ifndef SERVE_REPLY_JSON_OBJECT_H
#define SERVE_REPLY_JSON_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

enum { JSON_OBJECT_DEPTH_MAX = 128 }; /* of lists and objects within each other */

/* Whether the text is one JSON object of at most that depth, with whitespace around it. The text
 * must be valid UTF-8. Names may appear twice. */
bool json_object_is_valid(const char *text, size_t n_bytes);

#endif
