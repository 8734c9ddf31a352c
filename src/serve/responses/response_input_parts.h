/* Shared by the files response_input*.c: members of items, and errors that name their place. */
#ifndef SERVE_RESPONSES_RESPONSE_INPUT_PARTS_H
#define SERVE_RESPONSES_RESPONSE_INPUT_PARTS_H

#include "serve/responses/response_input.h"

/* of an item, and of all stored items together */
enum { INPUT_PATH_BYTES = 48, INPUT_TEXT_BYTES_MAX = 64 << 20 };

/* "input[2]", or the name of another origin (INPUT_...). */
const char *input_path(int item, char out[INPUT_PATH_BYTES]);
/* Records OSP_EINVAL about the item that is being read: its member ("" or ".name"), then the
 * message. */
enum osp_status input_error(const struct response_input *in, const char *member, const char *format,
                            ...) PRINTF_LIKE(3, 4);
enum osp_status input_no_memory(void);

/* Whether `phase` is a valid phase of an assistant message; NULL (absent) is valid. */
bool input_is_phase(const json_t *phase);
CHECKED enum osp_status input_string(const struct response_input *in, const json_t *item,
                                     const char *name, const json_t **out);
/* Reads a string or a list of parts. Gives a JSON string. */
CHECKED enum osp_status input_text(const struct response_input *in, const json_t *item,
                                   const char *name, json_t **out);
/* The reasoning text that this server put into encrypted_content; NULL: absent. */
CHECKED enum osp_status input_reasoning(const struct response_input *in, const json_t *item,
                                        json_t **out);

/* ---- messages ---- */

/* Records that the item that is being read became this call of the last message; -1: the message
 * itself. */
void input_note_origin(struct response_input *in, int call);
/* Takes ownership of `message`, also when it fails. */
CHECKED enum osp_status input_add_message(struct response_input *in, json_t *message);
/* Ensures that in->open is an assistant message without the given members: the current one, or a
 * new one. A member may be NULL. */
CHECKED enum osp_status input_open_message(struct response_input *in, const char *member_a,
                                           const char *member_b, const char *member_c);
/* Takes ownership of `value`. */
CHECKED enum osp_status input_set_open(struct response_input *in, const char *name, json_t *value);

/* Reads a call or a result. False: items of this type are neither. */
bool input_tool_item(struct response_input *in, json_t *item, const char *type,
                     enum osp_status *st);

#endif
