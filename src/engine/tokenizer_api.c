/* The tokenizer part of osprey.h over text/tokenizer.h. */
#include <limits.h>
#include <stdlib.h>

#include "base/file.h"
#include "engine/bundled.h"
#include "engine/core/model_api.h"

enum {
    DECODED_BYTES_MAX = 1 << 30, /* far above any context's text */
    ENCODED_IDS_MAX = 1 << 28    /* 1 GiB of ids */
};

/* The tokenizer of a folder may be in its parent: original/ has it there. */
static enum osp_status open_from(struct tokenizer **out, const char *path)
{
    char *file = NULL;
    enum osp_status st;

    TRY(bundled_tokenizer_path(&file, path_is_folder(path) ? NULL : path, path));
    TRY(tokenizer_open(out, file));
out:
    free(file);
    return st;
}

enum osp_status osp_tokenizer_open(struct osp_tokenizer **out, const char *path)
{
    struct tokenizer *t = NULL;
    char *bundled = NULL;
    enum osp_status st;

    *out = NULL;
    if (path == NULL)
        TRY(bundled_model_path(&bundled));
    TRY(open_from(&t, path != NULL ? path : bundled));
    *out = (struct osp_tokenizer *)t;
out:
    free(bundled);
    return st;
}

void osp_tokenizer_close(struct osp_tokenizer *t)
{
    tokenizer_close((struct tokenizer *)t);
}

enum osp_status osp_tokenize(const struct osp_tokenizer *t, const char *text, size_t n_bytes,
                             bool with_specials, int32_t **ids, size_t *n)
{
    struct ids encoded;
    enum osp_status st;

    *ids = NULL;
    *n = 0;
    ids_init(&encoded, ENCODED_IDS_MAX);
    if (with_specials)
        TRY(tokenizer_encode_with_specials(tokenizer_of(t), text, n_bytes, &encoded));
    else
        TRY(tokenizer_encode(tokenizer_of(t), text, n_bytes, &encoded));
    *ids = encoded.data;
    *n = encoded.n;
out:
    if (st != OSP_OK)
        ids_release(&encoded);
    return st;
}

enum osp_status osp_token_bytes(const struct osp_tokenizer *t, int32_t id,
                                char scratch[OSP_TOKEN_SCRATCH_BYTES], const char **bytes,
                                size_t *n_bytes)
{
    return tokenizer_bytes(tokenizer_of(t), id, scratch, bytes, n_bytes);
}

enum osp_status osp_detokenize(const struct osp_tokenizer *t, const int32_t *ids, size_t n,
                               char **text, size_t *n_bytes)
{
    struct buf decoded;
    enum osp_status st;

    *text = NULL;
    *n_bytes = 0;
    buf_init(&decoded, DECODED_BYTES_MAX);
    TRY(tokenizer_decode(tokenizer_of(t), ids, n, &decoded));
    *n_bytes = decoded.size_bytes;
    *text = buf_take(&decoded);
out:
    buf_release(&decoded);
    return st;
}

void osp_free(void *memory)
{
    free(memory);
}
