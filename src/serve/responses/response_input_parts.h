/* What the files of response_input*.c share: members of items, and errors that say where they
 * are. */
#ifndef SERVE_RESPONSES_RESPONSE_INPUT_PARTS_H
#define SERVE_RESPONSES_RESPONSE_INPUT_PARTS_H

#include "serve/responses/response_input.h"

enum { INPUT_PATH_BYTES = 48, INPUT_TEXT_BYTES_MAX = 64 << 20 /* of an item, and of all kept */ };

/* "input[2]", and what else an origin's item can be. */
const char *input_path(int item, char out[INPUT_PATH_BYTES]);
/* OSP_EINVAL about the item that is being read: its member ("" or ".name"), then why. */
enum osp_status input_error(const struct response_input *in, const char *member, const char *format,
                            ...) PRINTF_LIKE(3, 4);
enum osp_status input_no_memory(void);

/* Of an assistant's message; NULL: it has none. */
bool input_is_phase(const json_t *phase);
CHECKED enum osp_status input_string(const struct response_input *in, const json_t *item,
                                     const char *name, const json_t **out);
/* A string, or a list of parts. Gives a JSON string. */
CHECKED enum osp_status input_text(const struct response_input *in, const json_t *item,
                                   const char *name, json_t **out);
/* The text of what this server has put into encrypted_content; NULL: there is none. */
CHECKED enum osp_status input_reasoning(const struct response_input *in, const json_t *item,
                                        json_t **out);

#endif
