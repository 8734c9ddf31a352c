/* The status of a server as a table for people and as JSON for programs. */
#ifndef CLI_STATUS_STATUS_PRINT_H
#define CLI_STATUS_STATUS_PRINT_H

#include "cli/status/server_status.h"

/* Two moments of one server; `before` NULL: there is one only, and no rates. */
struct status_pair {
    const struct client_server *server; /* borrowed, as all */
    const struct server_status *now, *before;
    bool with_error; /* the table has a row for the error; otherwise it is printed elsewhere */
};

/* Appends lines without control characters. What the server does not report is left out. */
void status_put_table(struct buf *out, const struct status_pair *p);
/* Appends one object and a newline. What the server does not report is null. */
void status_put_json(struct buf *out, const struct status_pair *p);

#endif
