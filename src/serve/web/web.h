/* The chat in a web page, for browsers that ask for /: one self-contained page, part of the
 * program. */
#ifndef SERVE_WEB_WEB_H
#define SERVE_WEB_WEB_H

#include "serve/http/http.h"

/* A browser that wants to look at /, and not a program that reads its list: the page is nothing
 * secret, so it needs no key, and any page may link to it. */
bool is_web_page_request(const struct http_request *r);
void web_page_respond(struct http_exchange *x);

#endif
