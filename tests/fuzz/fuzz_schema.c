/* Fuzzing entry for libFuzzer. The first byte chooses a schema, an expression or choices; the
 * remaining bytes are compiled. If that succeeds, a walk samples from the masks, which must never
 * be empty and must never allow a token that is then refused. Run from the root of the
 * repository. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/constraint.h"
#include "text/schema/schema.h"

enum { WALK_TOKENS = 40, CHOICES_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static const struct token_index *bundled(int32_t *stop)
{
    static struct tokenizer *t;
    static struct token_index *x;

    if (x == NULL) {
        check(tokenizer_open(&t, "models/osprey-nano/tokenizer.json") == OSP_OK);
        check(token_index_new(&x, t) == OSP_OK);
    }
    *stop = tokenizer_specials(t)->ret;
    return x;
}

/* The n-th allowed token, modulo their number. */
static int32_t pick(const uint32_t *bits, const struct token_index *x, uint32_t n)
{
    uint32_t n_allowed = 0;

    for (int32_t id = 0; id < x->n_tokens; id++)
        n_allowed += mask_has(bits, id);
    if (n_allowed == 0)
        return -1;
    n %= n_allowed;
    for (int32_t id = 0;; id++)
        if (mask_has(bits, id) && n-- == 0)
            return id;
}

static void walk(struct grammar *g, uint32_t seed)
{
    int32_t stop;
    const struct token_index *x = bundled(&stop);
    uint32_t *bits = calloc(x->n_words, sizeof *bits);
    struct constraint *c;

    check(bits != NULL && constraint_new(&c, g, x, &stop, 1) == OSP_OK);
    for (int i = 0; i < WALK_TOKENS && !constraint_is_done(c); i++) {
        enum osp_status st = constraint_mask(c, bits);
        int32_t token;

        seed = seed * 1664525 + 1013904223;
        if (st == OSP_ELIMIT)
            break;
        check(st == OSP_OK);
        token = pick(bits, x, seed >> 8);
        check(token >= 0);
        st = constraint_accept(c, token);
        if (st == OSP_ELIMIT)
            break;
        check(st == OSP_OK);
    }
    constraint_free(c);
    free(bits);
}

static enum osp_status choices_of(struct grammar **g, char *text)
{
    const char *choices[CHOICES_MAX];
    size_t n = 0;

    for (char *at = strtok(text, "|"); at != NULL && n < CHOICES_MAX; at = strtok(NULL, "|"))
        choices[n++] = at;
    return grammar_from_choices(g, choices, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = calloc(n_bytes + 1, 1);
    struct grammar *g;
    enum osp_status st;

    check(text != NULL);
    if (n_bytes > 1)
        memcpy(text, data + 1, n_bytes - 1);
    if (n_bytes > 0 && data[0] == 'r')
        st = grammar_from_regex(&g, text, n_bytes - 1);
    else if (n_bytes > 0 && data[0] == 'c')
        st = choices_of(&g, text);
    else if (n_bytes > 0 && data[0] == 'l')
        st = grammar_from_loose_schema(&g, text, n_bytes - 1,
                                       (struct schema_options){n_bytes & 1, n_bytes & 2});
    else
        st = grammar_from_schema(&g, text, n_bytes > 0 ? n_bytes - 1 : 0,
                                 (struct schema_options){n_bytes & 1, n_bytes & 2});
    check((st == OSP_OK) == (g != NULL));
    check(st == OSP_OK || n_bytes == 0 || data[0] != 'l');
    check(st == OSP_OK || st == OSP_EINVAL || st == OSP_ELIMIT);
    if (st == OSP_OK)
        walk(g, (uint32_t)n_bytes);
    grammar_unref(g);
    free(text);
    return 0;
}
