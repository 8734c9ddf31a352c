#include "serve/anthropic/call_input.h"

#include <jansson.h>
#include <string.h>

#include "serve/reply/reply.h"

void call_input_init(struct call_input *c)
{
    *c = (struct call_input){.state = CALL_INPUT_BEFORE};
    buf_init(&c->member, REPLY_TEXT_BYTES_MAX);
    buf_init(&c->text, REPLY_TEXT_BYTES_MAX);
}

void call_input_release(struct call_input *c)
{
    buf_release(&c->member);
    buf_release(&c->text);
    *c = (struct call_input){0};
}

static bool is_space(char ch)
{
    return ch != '\0' && strchr(" \t\r\n", ch) != NULL;
}

/* ---- members ---- */

static void begin_member(struct call_input *c)
{
    buf_clear(&c->member);
    buf_putc(&c->member, '{');
}

static bool has_member(const struct call_input *c)
{
    const char *text = buf_text(&c->member) + 1; /* behind the { */

    return text[strspn(text, " \t\r\n")] != '\0';
}

/* Whether the text between commas is one member: a name and a value. */
static bool is_valid(struct call_input *c)
{
    json_t *v;
    bool is_one;

    buf_putc(&c->member, '}');
    v = json_loadb(buf_text(&c->member), c->member.size_bytes, JSON_ALLOW_NUL, NULL);
    is_one = json_object_size(v) == 1;
    json_decref(v);
    return is_one;
}

/* Delivers the member that has ended. */
static void end_member(struct call_input *c, struct buf *out)
{
    if (!is_valid(c)) {
        c->state = CALL_INPUT_BAD;
        return;
    }
    buf_putc(out, c->n_members++ == 0 ? '{' : ',');
    buf_append(out, buf_text(&c->member) + 1, c->member.size_bytes - 2);
    begin_member(c);
}

/* ---- characters ---- */

static void push_in_string(struct call_input *c, char ch)
{
    static const char escapes[] = "\"\\/bfnrtu";

    if (c->is_escaped) {
        const bool is_escape = ch != '\0' && strchr(escapes, ch) != NULL;

        c->is_escaped = false;
        c->is_changed = c->is_changed || !is_escape;
        buf_puts(&c->member, is_escape ? "\\" : "\\\\");
        if (is_escape) {
            buf_putc(&c->member, ch);
            return;
        }
    }
    if (ch == '\\') {
        c->is_escaped = true; /* written with the next character */
    } else if ((unsigned char)ch < ' ') {
        c->is_changed = true;
        buf_printf(&c->member, "\\u%04x", (unsigned)ch);
    } else {
        c->in_string = ch != '"';
        buf_putc(&c->member, ch);
    }
}

static void close_bracket(struct call_input *c, char ch, struct buf *out)
{
    if (--c->depth > 0) {
        buf_putc(&c->member, ch);
        return;
    }
    if (ch != '}')
        c->state = CALL_INPUT_BAD;
    else if (has_member(c))
        end_member(c, out);
    else if (c->n_members > 0) /* a comma without a member behind it */
        c->is_changed = true;
    if (c->state == CALL_INPUT_INSIDE)
        c->state = CALL_INPUT_DONE;
}

static void push_inside(struct call_input *c, char ch, struct buf *out)
{
    if (c->in_string) {
        push_in_string(c, ch);
    } else if (ch == '}' || ch == ']') {
        close_bracket(c, ch, out);
    } else if (ch == ',' && c->depth == 1) {
        end_member(c, out);
    } else {
        c->in_string = ch == '"';
        c->depth += ch == '{' || ch == '[';
        buf_putc(&c->member, ch);
    }
}

static void push_before(struct call_input *c, char ch)
{
    if (is_space(ch))
        return;
    if (ch != '{') {
        c->state = CALL_INPUT_BAD;
        return;
    }
    c->state = CALL_INPUT_INSIDE;
    c->depth = 1;
    begin_member(c);
}

bool call_input_push(struct call_input *c, const char *piece, size_t n_bytes, struct buf *out)
{
    buf_append(&c->text, piece, n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        switch (c->state) {
        case CALL_INPUT_BEFORE:
            push_before(c, piece[i]);
            break;
        case CALL_INPUT_INSIDE:
            push_inside(c, piece[i], out);
            break;
        case CALL_INPUT_DONE:
            c->is_changed = c->is_changed || !is_space(piece[i]);
            break;
        case CALL_INPUT_BAD:
            break;
        }
    }
    return !c->text.overflow && !c->member.overflow && !out->overflow;
}

bool call_input_end(struct call_input *c, struct buf *out)
{
    return buf_puts(out, c->n_members == 0 ? "{}" : "}");
}

bool call_input_is_whole(const struct call_input *c)
{
    return c->state == CALL_INPUT_DONE && !c->is_changed;
}
