/* Reads a whole text from a stream or an argument, up to a limit. */
#ifndef CLI_TERMINAL_READ_INPUT_H
#define CLI_TERMINAL_READ_INPUT_H

#include <stdio.h>

#include "base/buf.h"

enum { READ_INPUT_BYTES_MAX = 64 << 20 };

CHECKED enum osp_status read_stream(struct buf *out, FILE *in);
CHECKED enum osp_status read_text(struct buf *out, const char *text);

#endif
