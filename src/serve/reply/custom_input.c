#include "serve/reply/custom_input.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

static void put(struct buf *out, uint32_t code_point)
{
    char bytes[4];

    buf_append(out, bytes, utf8_write(code_point, bytes));
}

/* An unpaired surrogate is not a character; U+FFFD is written instead. */
static void put_unit(struct custom_input *c, struct buf *out)
{
    const bool is_low = c->unit >= 0xDC00 && c->unit < 0xE000;

    if (c->high != 0 && is_low)
        put(out, 0x10000 + ((c->high - 0xD800) << 10) + (c->unit - 0xDC00));
    else if (c->high != 0 || is_low)
        put(out, UTF8_REPLACEMENT);
    if (c->high != 0 && is_low) {
        c->high = 0;
        return;
    }
    c->high = c->unit >= 0xD800 && c->unit < 0xDC00 ? c->unit : 0;
    if (c->high == 0 && !is_low)
        put(out, c->unit);
}

/* The pending high surrogate is not followed by a low one. */
static void drop_high(struct custom_input *c, struct buf *out)
{
    if (c->high != 0)
        put(out, UTF8_REPLACEMENT);
    c->high = 0;
}

static void read_escape(struct custom_input *c, char letter, struct buf *out)
{
    static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    const char *at = strchr(letters, letter);

    c->state = INPUT_TEXT;
    if (letter == 'u') {
        c->state = INPUT_HEX;
        c->unit = 0;
        c->n_digits = 0;
        return;
    }
    drop_high(c, out);
    buf_putc(out, at != NULL && letter != '\0' ? bytes[at - letters] : letter);
}

static void read_hex(struct custom_input *c, char digit, struct buf *out)
{
    const int value = digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;

    c->unit = c->unit << 4 | (uint32_t)(value & 15);
    if (++c->n_digits < 4)
        return;
    put_unit(c, out);
    c->state = INPUT_TEXT;
}

static void read_text(struct custom_input *c, char byte, struct buf *out)
{
    if (byte == '\\') {
        c->state = INPUT_ESCAPE;
        return;
    }
    drop_high(c, out);
    if (byte == '"')
        c->state = INPUT_DONE;
    else
        buf_putc(out, byte);
}

void custom_input_push(struct custom_input *c, const char *piece, size_t n_bytes, struct buf *out)
{
    for (size_t i = 0; i < n_bytes; i++)
        switch (c->state) {
        case INPUT_NAME:
            c->state = piece[i] == ':' ? INPUT_VALUE : INPUT_NAME;
            break;
        case INPUT_VALUE:
            c->state = piece[i] == '"' ? INPUT_TEXT : INPUT_VALUE;
            break;
        case INPUT_TEXT:
            read_text(c, piece[i], out);
            break;
        case INPUT_ESCAPE:
            read_escape(c, piece[i], out);
            break;
        case INPUT_HEX:
            read_hex(c, piece[i], out);
            break;
        case INPUT_DONE:
            return;
        }
}

void custom_names_add(struct custom_names *c, const char *name)
{
    mem_grow(&c->names, c->n, &c->n_max, sizeof *c->names);
    c->names[c->n++] = mem_strdup(name);
}

bool custom_names_have(const struct custom_names *c, const char *name)
{
    for (size_t i = 0; c != NULL && i < c->n; i++)
        if (strcmp(c->names[i], name) == 0)
            return true;
    return false;
}

void custom_names_release(struct custom_names *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->names[i]);
    free(c->names);
    *c = (struct custom_names){0};
}
