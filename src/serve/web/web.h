/* The chat page for browsers at /: one self-contained page, part of the program. */
#ifndef SERVE_WEB_WEB_H
#define SERVE_WEB_WEB_H

#include "serve/http/http.h"

/* Whether a browser requests /, and not a program that wants the list of routes. The page has no
 * secrets, so it needs no key, and any page may link to it. */
bool is_web_page_request(const struct http_request *r);
void web_page_respond(struct http_exchange *x);

#endif
