/* Builds the tries: ids sorted by their bytes, then one pass that opens and closes nodes. */
#include "text/grammar/token_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { LENGTH_STEP_BYTES = 8 };

struct index_builder {
    const struct token_index *x;
    int32_t *ids; /* sorted by bytes */
    int n;
    uint8_t *group; /* of each id: its trie besides `all` */
};
/* Groups of plain tokens: alphabet * N_LENGTHS + length. */
enum { GROUP_HARD = N_ALPHABETS * N_LENGTHS, GROUP_NONE };

/* ---- bytes ---- */

static enum osp_status collect_bytes(struct token_index *x, const struct tokenizer *t)
{
    struct buf all;
    char scratch[32];
    enum osp_status st;

    buf_init(&all, (size_t)1 << 30);
    TRY(mem_try_array(&x->offsets, (size_t)x->n_tokens + 1, sizeof *x->offsets, "a token index"));
    for (int32_t id = 0; id < x->n_tokens; id++) {
        const char *bytes;
        size_t n;

        TRY(tokenizer_bytes(t, id, scratch, &bytes, &n));
        if (!tokenizer_is_special(t, id) && bytes != scratch && n <= INDEXED_BYTES_MAX &&
            !buf_append(&all, bytes, n))
            TRY(fail(OSP_ENOMEM, "out of memory: the bytes of a token index"));
        x->offsets[id + 1] = (uint32_t)all.size_bytes;
    }
    x->bytes = buf_take(&all);
out:
    buf_release(&all);
    return st;
}

static int compare_tokens(const void *a, const void *b, void *ctx)
{
    const struct token_index *x = ctx;
    size_t n, m;
    const char *p = token_index_bytes(x, *(const int32_t *)a, &n);
    const char *q = token_index_bytes(x, *(const int32_t *)b, &m);
    int order = memcmp(p, q, n < m ? n : m);

    return order != 0 ? order : n < m ? -1 : n > m;
}

/* Characters of a plain token; -1 for a hard token. */
static int plain_chars(const char *bytes, size_t n_bytes)
{
    int n = 0;

    if (!utf8_is_valid(bytes, n_bytes))
        return -1;
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if (c < 0x20 || c == '"' || c == '\\')
            return -1;
        n += (c & 0xC0) != 0x80;
    }
    return n;
}

/* ---- tries ---- */

static size_t common_bytes(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0;

    while (i < n && i < m && a[i] == b[i])
        i++;
    return i;
}

/* Number of nodes for the tokens of a group: for each token, the bytes that it does not share with
 * the previous one. */
static size_t count_nodes(const struct index_builder *s, int group)
{
    size_t n_nodes = 1, n_before = 0;
    const char *before = "";

    for (int i = 0; i < s->n; i++) {
        size_t n;
        const char *bytes = token_index_bytes(s->x, s->ids[i], &n);

        if (group != GROUP_NONE && s->group[s->ids[i]] != group)
            continue;
        n_nodes += n - common_bytes(bytes, n, before, n_before);
        before = bytes;
        n_before = n;
    }
    return n_nodes;
}

/* Closes the nodes on the path that are deeper than `depth`. */
static void close_nodes(struct trie *t, uint32_t *path, size_t *depth, size_t to)
{
    for (; *depth > to; --*depth)
        t->nodes[path[*depth]].end = t->n_nodes;
}

static void add_token(struct trie *t, uint32_t *path, size_t *depth, const char *bytes, size_t n,
                      int32_t token)
{
    for (size_t i = *depth; i < n; i++) {
        uint32_t node = t->n_nodes++;
        uint8_t byte = (uint8_t)bytes[i];

        t->nodes[node] = (struct trie_node){-1, 0, byte, (uint8_t)(i + 1)};
        path[i + 1] = node;
        if (i == 0)
            t->children[byte] = node;
    }
    *depth = n;
    t->nodes[path[n]].token = token;
}

/* group GROUP_NONE: all tokens. */
static enum osp_status build_trie(struct trie *t, const struct index_builder *s, int group)
{
    uint32_t path[INDEXED_BYTES_MAX + 1] = {0};
    size_t depth = 0, n_before = 0;
    const char *before = "";
    enum osp_status st;

    TRY(mem_try_hugepages(&t->nodes, count_nodes(s, group), sizeof *t->nodes, "a token index"));
    t->nodes[0] = (struct trie_node){.token = -1};
    t->n_nodes = 1;
    for (int i = 0; i < s->n; i++) {
        size_t n;
        const char *bytes = token_index_bytes(s->x, s->ids[i], &n);

        if (group != GROUP_NONE && s->group[s->ids[i]] != group)
            continue;
        close_nodes(t, path, &depth, common_bytes(bytes, n, before, n_before));
        add_token(t, path, &depth, bytes, n, s->ids[i]);
        before = bytes;
        n_before = n;
    }
    close_nodes(t, path, &depth, 0);
    t->nodes[0].end = t->n_nodes;
out:
    return st;
}

/* ---- plain tokens ---- */

static int plain_group(const char *bytes, size_t n_bytes)
{
    int length = 0;
    enum alphabet alphabet = ALPHABET_LOWER;

    while (length < N_LENGTHS - 1 && n_bytes > (size_t)LENGTH_STEP_BYTES << length)
        length++;
    for (size_t i = 0; i < n_bytes; i++)
        if (alphabet_of((unsigned char)bytes[i]) > alphabet)
            alphabet = alphabet_of((unsigned char)bytes[i]);
    return (int)alphabet * N_LENGTHS + length;
}

struct long_token {
    int32_t id;
    int n_chars;
};

static int by_falling_chars(const void *a, const void *b)
{
    const struct long_token *x = a, *y = b;

    return x->n_chars != y->n_chars ? (x->n_chars < y->n_chars ? 1 : -1)
                                    : (x->id > y->id) - (x->id < y->id);
}

static enum osp_status add_long(struct token_index *x, struct long_token *tokens, int n)
{
    enum osp_status st;

    qsort(tokens, (size_t)n, sizeof *tokens, by_falling_chars);
    TRY(mem_try_array(&x->long_plain, (size_t)n, sizeof *x->long_plain, "a token index"));
    TRY(mem_try_array(&x->long_chars, (size_t)n, sizeof *x->long_chars, "a token index"));
    for (int i = 0; i < n; i++) {
        x->long_plain[i] = tokens[i].id;
        x->long_chars[i] = (uint8_t)tokens[i].n_chars;
    }
    x->n_long_plain = n;
out:
    return st;
}

/* Adds a plain token to the masks. */
static void add_plain(struct token_index *x, int32_t id, int group, size_t n_bytes, int n_chars)
{
    int *bytes_max = &x->plain_bytes_max[group / N_LENGTHS][group % N_LENGTHS];

    for (int g = group; g < group / N_LENGTHS * N_LENGTHS + N_LENGTHS; g++)
        mask_set(x->plain_masks + (size_t)g * x->n_words, id);
    mask_set(x->all_plain, id);
    if ((int)n_bytes > *bytes_max)
        *bytes_max = (int)n_bytes;
    for (int n = n_chars; n < PLAIN_CHARS_MASKS; n++)
        mask_set(x->plain_of_chars + (size_t)n * x->n_words, id);
}

static enum osp_status classify_tokens(struct token_index *x, struct index_builder *s)
{
    struct long_token *longer = NULL;
    int n_longer = 0;
    enum osp_status st;

    TRY(mem_try_array(&longer, (size_t)s->n, sizeof *longer, "a token index"));
    for (int i = 0; i < s->n; i++) {
        size_t n;
        const char *bytes = token_index_bytes(x, s->ids[i], &n);
        int n_chars = plain_chars(bytes, n);

        s->group[s->ids[i]] = (uint8_t)(n_chars < 0 ? GROUP_HARD : plain_group(bytes, n));
        if (n_chars >= 0)
            add_plain(x, s->ids[i], s->group[s->ids[i]], n, n_chars);
        if (n_chars >= PLAIN_CHARS_MASKS)
            longer[n_longer++] = (struct long_token){s->ids[i], n_chars};
    }
    st = add_long(x, longer, n_longer);
out:
    free(longer);
    return st;
}

static enum osp_status build(struct token_index *x, struct index_builder *s)
{
    enum osp_status st;

    TRY(mem_try_array(&s->ids, (size_t)x->n_tokens, sizeof *s->ids, "a token index"));
    TRY(mem_try_array(&s->group, (size_t)x->n_tokens, 1, "a token index"));
    TRY(mem_try_array(&x->ordinary, x->n_words, 4, "a token index"));
    for (int32_t id = 0; id < x->n_tokens; id++)
        if (x->offsets[id + 1] > x->offsets[id]) {
            s->ids[s->n++] = id;
            mask_set(x->ordinary, id);
        }
    qsort_r(s->ids, (size_t)s->n, sizeof *s->ids, compare_tokens, x);
    TRY(mem_try_array(&x->plain_masks, GROUP_HARD * x->n_words, 4, "a token index"));
    TRY(mem_try_array(&x->all_plain, x->n_words, 4, "a token index"));
    TRY(mem_try_array(&x->plain_of_chars, PLAIN_CHARS_MASKS * x->n_words, 4, "a token index"));
    TRY(classify_tokens(x, s));
    TRY(build_trie(&x->all, s, GROUP_NONE));
    TRY(build_trie(&x->hard, s, GROUP_HARD));
    for (int g = 0; g < GROUP_HARD; g++)
        TRY(build_trie(&x->plain[g / N_LENGTHS][g % N_LENGTHS], s, g));
out:
    return st;
}

enum osp_status token_index_new(struct token_index **out, const struct tokenizer *t)
{
    struct token_index *x = mem_new(sizeof *x);
    struct index_builder s = {.x = x};
    enum osp_status st;

    *out = NULL;
    x->n_tokens = tokenizer_size(t);
    x->n_words = ((size_t)x->n_tokens + 31) / 32;
    TRY(collect_bytes(x, t));
    TRY(build(x, &s));
    *out = x;
out:
    free(s.ids);
    free(s.group);
    if (st != OSP_OK)
        token_index_free(x);
    return st;
}

void token_index_free(struct token_index *x)
{
    if (x == NULL)
        return;
    free(x->all.nodes);
    free(x->hard.nodes);
    for (int g = 0; g < GROUP_HARD; g++)
        free(x->plain[g / N_LENGTHS][g % N_LENGTHS].nodes);
    free(x->ordinary);
    free(x->plain_masks);
    free(x->all_plain);
    free(x->plain_of_chars);
    free(x->long_plain);
    free(x->long_chars);
    free(x->bytes);
    free(x->offsets);
    free(x);
}
