/* Shared by the files of the writer: response_writer.c, response_items.c and
 * response_item_json.c. */
#ifndef SERVE_RESPONSES_RESPONSE_PARTS_H
#define SERVE_RESPONSES_RESPONSE_PARTS_H

#include "serve/responses/response_writer.h"

/* Writes `event: TYPE` and the common members of its data. The caller appends its own members,
 * each with a comma in front, and then calls response_end_event(). */
void response_begin_event(struct response_writer *w, const char *type, struct buf *out);
void response_end_event(struct buf *out);

/* Ends the open item, if there is one. is_cut: the answer ended within the item. False: too many
 * items. */
CHECKED bool response_close_item(struct response_writer *w, bool is_cut, struct buf *out);
/* Appends the text of the event to an item of this kind and phase; begins a new item if another
 * one is open. */
CHECKED bool response_add_text(struct response_writer *w, enum response_item_kind kind,
                               const struct osp_event *event, struct buf *out);
/* Appends to the open call. */
CHECKED bool response_add_arguments(struct response_writer *w, const struct osp_event *event,
                                    struct buf *out);
CHECKED bool response_begin_call(struct response_writer *w, const struct osp_event *event,
                                 struct buf *out);

/* The JSON of the open item. With status "in_progress" it has just begun and has no content. */
void response_put_item(const struct response_writer *w, const char *status, struct buf *out);
/* The single part of its content, and of its summary. */
void response_put_part(const struct response_writer *w, struct buf *out);
void response_put_summary_part(const struct response_writer *w, struct buf *out);
/* ,"name":... of a called function */
void response_put_call_name(const struct response_writer *w, struct buf *out);
/* ,"logprobs":[...] with the entries of `logprobs_json` */
void response_put_logprobs(struct buf *out, const struct buf *logprobs_json);

#endif
