/* What the two halves of the writer share: response_items.c and response_writer.c. */
#ifndef SERVE_RESPONSES_RESPONSE_PARTS_H
#define SERVE_RESPONSES_RESPONSE_PARTS_H

#include "serve/responses/response_writer.h"

/* `event: TYPE` and its data up to the members of its own, which follow with a comma in front;
 * then its end. */
void response_begin_event(struct response_writer *w, const char *type, struct buf *out);
void response_end_event(struct buf *out);

/* Ends the open item, if there is one. is_cut: the answer ended in it. False: there are too
 * many. */
CHECKED bool response_close_item(struct response_writer *w, bool is_cut, struct buf *out);
/* Appends the event's text to an item of that kind, and of that phase, which is begun if another
 * is open. */
CHECKED bool response_add_text(struct response_writer *w, enum response_item_kind kind,
                               const struct osp_event *event, struct buf *out);
/* To the call that is open. */
CHECKED bool response_add_arguments(struct response_writer *w, const struct osp_event *event,
                                    struct buf *out);
CHECKED bool response_begin_call(struct response_writer *w, const struct osp_event *event,
                                 struct buf *out);

#endif
