#include "serve/llama/llama_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/json_types.h"

enum {
    PLACE_BYTES = 48,
    PROMPT_TOKENS_MAX = 1 << 24 /* far above any context, which the engine checks */
};

struct reader {
    const struct osp_tokenizer *tokenizer;
    int vocab_size;
};

/* ---- one prompt ---- */

static enum osp_status no_memory(void)
{
    return fail(OSP_ENOMEM, "prompt: out of memory for its tokens");
}

static enum osp_status append_text(struct ids *p, const struct reader *r, const json_t *v)
{
    int32_t *ids = NULL;
    size_t n = 0;
    enum osp_status st;

    TRY(osp_tokenize(r->tokenizer, json_string_value(v), json_string_length(v), true, &ids, &n));
    if (!ids_append(p, ids, n))
        st = no_memory();
out:
    osp_free(ids);
    return st;
}

static enum osp_status append_id(struct ids *p, const struct reader *r, const char *place,
                                 const json_t *v)
{
    json_int_t id = 0;
    enum osp_status st = json_int(&id, place, v, 0, r->vocab_size - 1);

    if (st == OSP_OK && !ids_push(p, (int32_t)id))
        st = no_memory();
    return st;
}

static enum osp_status read_mixed(struct ids *p, const struct reader *r, const char *place,
                                  const json_t *list)
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);

        if (json_is_number(v))
            TRY(append_id(p, r, place, v));
        else if (json_is_string(v))
            TRY(append_text(p, r, v));
        else
            return json_mismatch(place, v, "token ids and texts");
    }
out:
    return st;
}

static enum osp_status read_object(struct ids *p, const struct reader *r, const char *place,
                                   const json_t *v)
{
    const json_t *text = json_object_get(v, "prompt_string"),
                 *media = json_object_get(v, "multimodal_data");

    if (json_array_size(media) > 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s.multimodal_data: must be empty: the model reads text only", place);
    if (!json_is_string(text))
        return fail(OSP_EINVAL, "%s.prompt_string: must be a string", place);
    return append_text(p, r, text);
}

static enum osp_status read_one(struct ids *p, const struct reader *r, const char *place,
                                const json_t *v)
{
    enum osp_status st;

    if (json_is_string(v))
        TRY(append_text(p, r, v));
    else if (json_is_array(v))
        TRY(read_mixed(p, r, place, v));
    else if (json_is_object(v))
        TRY(read_object(p, r, place, v));
    else
        return json_mismatch(place, v, "a string, a list of token ids and texts, or an object");
    if (p->n == 0)
        st = fail(OSP_EINVAL, "%s: is empty; must have at least one token", place);
out:
    return st;
}

/* ---- lists ---- */

/* A list with a number is one prompt; a list of anything else is one of prompts. */
static bool is_list_of_prompts(const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (json_is_number(json_array_get(v, i)))
            return false;
    return json_array_size(v) > 0;
}

enum osp_status llama_prompts_read(struct llama_prompts *out, const struct osp_tokenizer *t,
                                   int vocab_size, const json_t *v)
{
    const struct reader r = {.tokenizer = t, .vocab_size = vocab_size};
    const bool is_list = is_list_of_prompts(v);
    const size_t n = is_list ? json_array_size(v) : 1;
    enum osp_status st = OSP_OK;

    if (v == NULL || json_is_null(v))
        return fail(OSP_EINVAL, "prompt: is missing");
    if (n > LLAMA_PROMPTS_MAX)
        return fail(OSP_EINVAL, "prompt: has %zu prompts, at most %d are allowed", n,
                    LLAMA_PROMPTS_MAX);
    out->list = mem_new(n * sizeof *out->list);
    out->n = (int)n;
    for (size_t i = 0; i < n; i++)
        ids_init(&out->list[i], PROMPT_TOKENS_MAX);
    if (!is_list)
        return read_one(out->list, &r, "prompt", v);
    for (size_t i = 0; i < n; i++) {
        char place[PLACE_BYTES];

        snprintf(place, sizeof place, "prompt[%zu]", i);
        TRY(read_one(&out->list[i], &r, place, json_array_get(v, i)));
    }
out:
    return st;
}

void llama_prompts_release(struct llama_prompts *p)
{
    for (int i = 0; i < p->n; i++)
        ids_release(&p->list[i]);
    free(p->list);
    *p = (struct llama_prompts){0};
}
