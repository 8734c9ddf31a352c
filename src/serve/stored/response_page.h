/* Answers with a page of a list of items, as the query of the request selects it. */
#ifndef SERVE_STORED_RESPONSE_PAGE_H
#define SERVE_STORED_RESPONSE_PAGE_H

#include "serve/http/http.h"
#include "serve/stored/response_store.h"

enum { QUERY_VALUE_BYTES = RESPONSE_ID_BYTES };

/* The value of name=value in the query. False: absent, or QUERY_VALUE_BYTES or longer. */
bool response_query(const struct http_exchange *x, const char *name, char out[QUERY_VALUE_BYTES]);
/* Answers with 400: the query parameter is wrong. */
void response_refuse_query(struct http_exchange *x, const char *param, const char *why);

/* items: (n) places in `text`; limit, order and after are read from the query. */
void response_list_items(struct http_exchange *x, const struct response_item *items, int n,
                         const char *text);

#endif
