#include "cli/terminal/read_input.h"

#include <string.h>

enum osp_status read_stream(struct buf *out, FILE *in)
{
    char block[16 << 10];
    size_t n;

    while ((n = fread(block, 1, sizeof block, in)) > 0)
        if (!buf_append(out, block, n))
            return fail(OSP_ELIMIT, "standard input is larger than the limit of %zu bytes",
                        out->limit_bytes);
    if (ferror(in))
        return fail(OSP_EIO, "standard input cannot be read");
    return OSP_OK;
}

enum osp_status read_text(struct buf *out, const char *text)
{
    return buf_puts(out, text) ? OSP_OK
                               : fail(OSP_ELIMIT, "the text is larger than the limit of %zu bytes",
                                      out->limit_bytes);
}
