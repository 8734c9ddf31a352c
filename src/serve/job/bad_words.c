#include "serve/job/bad_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/json_sampling.h"

static const char FIELD[] = "bad_words";

/* A token has one bias: that of the word replaces that of logit_bias. */
static enum osp_status ban(struct request_params *p, int32_t token)
{
    int i = 0;

    while (i < p->options.n_biases && p->biases[i].token != token)
        i++;
    if (i == OSP_LOGIT_BIASES_MAX)
        return fail(OSP_EINVAL, "%s: these words and logit_bias have more than %d tokens together",
                    FIELD, OSP_LOGIT_BIASES_MAX);
    p->biases[i] = (struct osp_logit_bias){.token = token, .bias = -OSP_LOGIT_BIAS_MAX};
    if (i == p->options.n_biases)
        p->options.n_biases++;
    return OSP_OK;
}

static enum osp_status ban_text(struct request_params *p, const struct osp_tokenizer *t,
                                const char *text, const char *word)
{
    int32_t *ids = NULL;
    size_t n = 0;
    enum osp_status st;

    TRY(osp_tokenize(t, text, strlen(text), false, &ids, &n));
    if (n == 1)
        st = ban(p, ids[0]);
    else
        st = fail(OSP_EUNSUPPORTED,
                  "%s: \"%.100s\" is not supported: a word must be a single token with and without "
                  "a space before it, and \"%.101s\" has %zu tokens; /tokenize shows them",
                  FIELD, word, text, n);
    osp_free(ids);
out:
    return st;
}

static enum osp_status ban_word(struct request_params *p, const struct osp_tokenizer *t,
                                const char *word)
{
    struct buf spaced;
    enum osp_status st;

    buf_init(&spaced, strlen(word) + 2);
    buf_printf(&spaced, " %s", word);
    TRY(ban_text(p, t, word, word));
    st = ban_text(p, t, buf_text(&spaced), word);
out:
    buf_release(&spaced);
    return st;
}

enum osp_status bad_words_apply(struct request_params *p, const struct osp_tokenizer *t,
                                const json_t *words)
{
    struct osp_logit_bias *all;
    enum osp_status st = OSP_OK;

    if (json_array_size(words) == 0)
        return OSP_OK;
    all = mem_new(OSP_LOGIT_BIASES_MAX * sizeof *all);
    if (p->options.n_biases > 0)
        memcpy(all, p->biases, (size_t)p->options.n_biases * sizeof *all);
    free(p->biases);
    p->options.biases = p->biases = all;
    for (size_t i = 0; i < json_array_size(words); i++)
        TRY(ban_word(p, t, json_bad_word(json_array_get(words, i))));
out:
    return st;
}
