/* Fuzzing entry for libFuzzer: what a hub can send to `osprey pull`. The first byte selects the
 * reader: 0 mod 3 header lines, 1 a page of a listing and the choice of files, otherwise a commit. */
#include <stdlib.h>
#include <string.h>

#include "store/hub/hub_choose.h"
#include "store/hub/hub_headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_headers(const char *text, size_t n_bytes)
{
    struct hub_headers h;

    hub_headers_init(&h);
    while (n_bytes > 0) {
        const char *end = memchr(text, '\n', n_bytes);
        const size_t n = end ? (size_t)(end - text) + 1 : n_bytes;

        hub_headers_add(&h, text, n, 1000000000);
        text += n;
        n_bytes -= n;
    }
    check(h.retry_after_s <= HUB_WAIT_S_MAX && h.rate_limit_s <= HUB_WAIT_S_MAX);
    check(h.linked_etag[0] == '\0' || hub_etag_is(h.linked_etag));
    check(h.commit[0] == '\0' || hub_commit_is(h.commit));
    check(!h.has_range || h.bad_range ||
          (h.range_first >= 0 && h.range_last >= h.range_first &&
           (h.range_total < 0 || h.range_last < h.range_total)));
}

/* Whatever the listing was: a file that is taken has a safe name, a digest and a bounded size. */
static void read_listing(const char *text, size_t n_bytes)
{
    struct hub_listing l = {0};
    const struct hub_file *gguf = NULL;

    if (hub_listing_add_page(&l, text, n_bytes, "hub") == OSP_OK &&
        hub_listing_check(&l, "hub") == OSP_OK)
        (void)!hub_choose(&gguf, &l, &(struct hub_choice){.include = "*/*"}, "hub");
    for (size_t i = 0; i < l.n; i++)
        check(hub_path_is_sane(l.files[i].path) && hub_etag_is(l.files[i].etag) &&
              l.files[i].size >= 0 && l.files[i].size <= HUB_FILE_BYTES_MAX);
    check(gguf == NULL || gguf->is_wanted);
    hub_listing_release(&l);
}

static void read_commit(const char *text, size_t n_bytes)
{
    char commit[HUB_COMMIT_BYTES + 1];

    if (hub_commit_read(commit, text, n_bytes, "hub") == OSP_OK)
        check(hub_commit_is(commit));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static void (*const readers[])(const char *, size_t) = {read_headers, read_listing,
                                                            read_commit};

    if (n_bytes > 0)
        readers[data[0] % 3]((const char *)data + 1, n_bytes - 1);
    return 0;
}
