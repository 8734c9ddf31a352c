#include "serve/http/http_extension.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { BEFORE, NAME_BEGIN, NAME, VALUE_BEGIN, VALUE, QUOTED, ESCAPED, QUOTE_END, WRONG };

void http_extension_begin(struct http_extension *e)
{
    *e = (struct http_extension){.state = BEFORE};
}

static bool is_token(char c)
{
    static const char CHARACTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";

    return c != '\0' && strchr(CHARACTERS, c) != NULL;
}

static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

static int after_quoted(int state, char c)
{
    if (!is_text(c))
        return WRONG;
    if (state == QUOTED && c == '"')
        return QUOTE_END;
    return state == QUOTED && c == '\\' ? ESCAPED : QUOTED;
}

static int next_state(int state, char c)
{
    const bool ends_one = state == BEFORE || state == NAME || state == VALUE || state == QUOTE_END;

    if (state == QUOTED || state == ESCAPED)
        return after_quoted(state, c);
    if (c == ';')
        return ends_one ? NAME_BEGIN : WRONG;
    if (c == '=')
        return state == NAME ? VALUE_BEGIN : WRONG;
    if (c == '"')
        return state == VALUE_BEGIN ? QUOTED : WRONG;
    if (!is_token(c) || state == BEFORE || state == QUOTE_END)
        return WRONG;
    return state == NAME_BEGIN || state == NAME ? NAME : VALUE;
}

const char *http_extension_feed(struct http_extension *e, const char *data, size_t n_bytes,
                                size_t *used)
{
    size_t i = 0;

    for (; i < n_bytes && e->state != WRONG && data[i] != '\r'; i++) {
        static_assert(HTTP_CHUNK_EXTENSION_BYTES_MAX == 256, "the message names the limit");
        if (++e->n_bytes > HTTP_CHUNK_EXTENSION_BYTES_MAX) {
            *used = i;
            return "the extensions of a chunk are larger than 256 bytes, the limit";
        }
        e->state = next_state(e->state, data[i]);
    }
    *used = i;
    if (i < n_bytes && e->state != NAME && e->state != VALUE && e->state != QUOTE_END)
        e->state = WRONG;
    return e->state == WRONG ? "a chunk extension is invalid: it must be ;name, ;name=value or "
                               ";name=\"value\" without white space"
                             : NULL;
}
