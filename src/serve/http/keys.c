#include "serve/http/keys.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"

static enum osp_status add(struct keys *k, const char *key, size_t n_bytes)
{
    if (n_bytes == 0)
        return fail(OSP_EINVAL, "an API key is empty");
    if (n_bytes > KEY_BYTES_MAX)
        return fail(OSP_EINVAL, "an API key has %zu bytes, at most %d are allowed", n_bytes,
                    KEY_BYTES_MAX);
    if (k->n == KEYS_MAX)
        return fail(OSP_EINVAL, "there are more than %d API keys, the limit", KEYS_MAX);
    for (size_t i = 0; i < n_bytes; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return fail(OSP_EINVAL,
                        "API key %d has a space or a character that is not visible ASCII, which a "
                        "header field cannot contain",
                        k->n + 1);
    if (!k->items)
        k->items = mem_new(KEYS_MAX * sizeof *k->items);
    k->items[k->n++] = mem_strndup(key, n_bytes);
    return OSP_OK;
}

enum osp_status keys_add_list(struct keys *k, const char *list)
{
    enum osp_status st;

    for (;;) {
        const size_t n = strcspn(list, ",");

        TRY(add(k, list, n));
        if (list[n] == '\0')
            return OSP_OK;
        list += n + 1;
    }
out:
    return fail_prefix(st, "--api-key");
}

static enum osp_status add_lines(struct keys *k, const char *text)
{
    enum osp_status st = OSP_OK;

    while (*text) {
        const size_t n = strcspn(text, "\r\n");

        if (n > 0 && *text != '#')
            TRY(add(k, text, n));
        text += n + (text[n] != '\0');
    }
out:
    return st;
}

enum osp_status keys_add_file(struct keys *k, const char *path)
{
    const int n_before = k->n;
    size_t n_bytes;
    char *text = NULL;
    enum osp_status st;

    TRY(file_read(&text, &n_bytes, path, KEYS_FILE_BYTES_MAX));
    if (strlen(text) != n_bytes)
        st = fail(OSP_EINVAL, "%s: has a NUL byte; must be a text file with one API key per line",
                  path);
    else if ((st = add_lines(k, text)) != OSP_OK)
        st = fail_prefix(st, "%s", path);
    else if (k->n == n_before)
        st = fail(OSP_EINVAL, "%s: has no API key; must have one per line", path);
out:
    free(text);
    return st == OSP_OK ? st : fail_prefix(st, "--api-key-file");
}

void keys_make_salts(struct keys *k)
{
    k->salts = mem_new((size_t)k->n * sizeof *k->salts);
    for (int i = 0; i < k->n; i++)
        snprintf(k->salts[i], sizeof k->salts[i], "%016" PRIx64 "%016" PRIx64, rng_entropy(),
                 rng_entropy());
}

void keys_release(struct keys *k)
{
    for (int i = 0; i < k->n; i++)
        free(k->items[i]);
    free(k->items);
    free(k->salts);
    *k = (struct keys){0};
}

/* Constant time, so that the time does not reveal a prefix of the key. */
static bool is_same(const char *given, size_t n_given, const char *key)
{
    const size_t n = strlen(key);
    unsigned char difference = n_given != n;

    for (size_t i = 0; i < n_given; i++)
        difference |= (unsigned char)(given[i] ^ key[i % n]);
    return difference == 0;
}

/* Searches from the last key to the first, so that of two equal keys the first is found. */
int keys_find(const struct keys *k, const char *given)
{
    const size_t n_given = strlen(given);
    unsigned found = UINT_MAX;

    for (int i = k->n - 1; i >= 0; i--) {
        const unsigned mask = 0U - is_same(given, n_given, k->items[i]);

        found = (found & ~mask) | ((unsigned)i & mask);
    }
    return (int)found;
}
