/* Writes safetensors: the header text, then the data in pieces. */
#include "store/st_write.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

enum {
    LENGTH_BYTES = 8, /* little-endian length before the header */
    /* The widest element, so that a reader need not copy tensors to align them */
    HEADER_ALIGN_BYTES = 8,
    PIECE_BYTES = 8 * 1024 * 1024 /* bytes between two progress reports */
};

static void add_tensor(struct buf *text, const struct st_tensor *t, size_t begin)
{
    char shape[ST_SHAPE_TEXT_BYTES];

    buf_puts(text, text->size_bytes > 1 ? "," : "");
    buf_json_string(text, t->name, strlen(t->name));
    buf_printf(text, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
               st_dtype_name(t->dtype), st_shape_text(shape, t->dim, t->n_dims), begin,
               begin + t->size_bytes);
}

/* Length and header as they are in the file. */
static enum osp_status make_header(struct buf *out, const struct st_write *w)
{
    unsigned char length[LENGTH_BYTES] = {0};
    size_t begin = 0;
    struct buf text;

    buf_init(&text, SAFETENSORS_HEADER_BYTES_MAX);
    buf_init(out, SAFETENSORS_HEADER_BYTES_MAX + LENGTH_BYTES);
    buf_puts(&text, "{");
    for (size_t i = 0; i < w->n_tensors; i++) {
        add_tensor(&text, &w->tensors[i], begin);
        begin += w->tensors[i].size_bytes;
    }
    buf_puts(&text, "}");
    while (!text.overflow && text.size_bytes % HEADER_ALIGN_BYTES != 0)
        buf_putc(&text, ' ');
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)(text.size_bytes >> (8 * i));
    buf_append(out, length, sizeof length);
    buf_append(out, text.data, text.size_bytes);
    out->overflow = out->overflow || text.overflow;
    buf_release(&text);
    if (!out->overflow)
        return OSP_OK;
    return fail(OSP_ELIMIT, "a safetensors header of %zu tensors exceeds %d bytes", w->n_tensors,
                SAFETENSORS_HEADER_BYTES_MAX);
}

enum osp_status st_write_header_bytes(const struct st_write *w, size_t *out)
{
    struct buf header;
    enum osp_status st = make_header(&header, w);

    *out = header.size_bytes;
    buf_release(&header);
    return st;
}

enum osp_status write_all(int fd, const char *path, const void *data, size_t n_bytes)
{
    const unsigned char *at = data;

    while (n_bytes > 0) {
        ssize_t n = write(fd, at, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(OSP_EIO, "%s: cannot write: %s", path, strerror(n < 0 ? errno : ENOSPC));
        at += n;
        n_bytes -= (size_t)n;
    }
    return OSP_OK;
}

static enum osp_status write_tensor(const struct st_write *w, size_t index, int fd,
                                    const char *path)
{
    const size_t size_bytes = w->tensors[index].size_bytes;
    const void *data = NULL;
    enum osp_status st;

    TRY(w->data(w->ctx, index, &data));
    for (size_t at = 0; at < size_bytes; at += PIECE_BYTES) {
        size_t n = size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;

        TRY(write_all(fd, path, (const unsigned char *)data + at, n));
        if (w->written)
            TRY(w->written(w->ctx, n));
    }
out:
    return st;
}

enum osp_status st_write_file(const struct st_write *w, const char *path)
{
    struct buf header;
    enum osp_status st;
    int fd = -1;

    TRY(make_header(&header, w));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        st = fail(OSP_EIO, "%s: cannot create: %s", path, strerror(errno));
        goto out;
    }
    TRY(write_all(fd, path, header.data, header.size_bytes));
    for (size_t i = 0; i < w->n_tensors; i++)
        TRY(write_tensor(w, i, fd, path));
    if (fsync(fd) != 0)
        st = fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
out:
    if (fd >= 0 && close(fd) != 0 && st == OSP_OK)
        st = fail(OSP_EIO, "%s: cannot write: %s", path, strerror(errno));
    buf_release(&header);
    return st;
}
