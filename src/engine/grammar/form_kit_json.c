/* Grammars of forms by their text, the last ones kept; tools, made once. Compiling happens outside of the lock. */
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "engine/grammar/form_kit.h"
#include "text/schema/schema.h"

struct kept {
    enum osp_form form;
    uint64_t hash;
    char *text;
    struct grammar *grammar;
    uint64_t used; /* when, by kit.now */
};

struct form_kit {
    pthread_mutex_t lock;
    struct kept kept[FORM_GRAMMARS_MAX];
    int n_kept;
    size_t n_bytes; /* of them */
    uint64_t now;

    pthread_mutex_t tools_lock; /* held while they are made */
    struct form_tools tools;
    bool has_tools;

    pthread_t warmer;
    bool is_warming;
    char *warm_path;
};

struct form_kit *form_kit_new(void)
{
    struct form_kit *kit = mem_new(sizeof *kit);

    pthread_mutex_init(&kit->lock, NULL);
    pthread_mutex_init(&kit->tools_lock, NULL);
    return kit;
}

static void release_tools(struct form_tools *t)
{
    token_index_free(t->index);
    *t = (struct form_tools){.index = NULL};
}

void form_kit_free(struct form_kit *kit)
{
    if (kit == NULL)
        return;
    if (kit->is_warming)
        pthread_join(kit->warmer, NULL);
    for (int i = 0; i < kit->n_kept; i++) {
        free(kit->kept[i].text);
        grammar_drop(kit->kept[i].grammar);
    }
    release_tools(&kit->tools);
    pthread_mutex_destroy(&kit->lock);
    pthread_mutex_destroy(&kit->tools_lock);
    free(kit->warm_path);
    free(kit);
}

/* ---- grammars ---- */

static enum osp_status from_choices(const char *text, struct grammar **out)
{
    json_error_t error;
    json_t *list = json_loads(text, 0, &error), *item;
    const char **choices = NULL;
    size_t i, n = json_array_size(list);
    enum osp_status st;

    TRY(mem_try_array(&choices, n, sizeof *choices, "choices"));
    if (!json_is_array(list))
        TRY(fail(OSP_EINVAL, "must be a list of strings"));
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            TRY(fail(OSP_EINVAL, "must be a list of strings"));
        choices[i] = json_string_value(item);
    }
    st = grammar_from_choices(out, choices, n);
out:
    free(choices);
    json_decref(list);
    return st;
}

static enum osp_status compile(enum osp_form form, const char *text, struct grammar **out)
{
    *out = NULL;
    switch (form) {
    case OSP_FORM_OBJECT:
        return grammar_from_any_object(out, (struct schema_options){.closed = false});
    case OSP_FORM_SCHEMA:
        return grammar_from_schema(out, text, strlen(text),
                                   (struct schema_options){.closed = false});
    case OSP_FORM_STRICT_SCHEMA:
        return grammar_from_schema(out, text, strlen(text),
                                   (struct schema_options){.closed = true});
    case OSP_FORM_REGEX:
        return grammar_from_regex(out, text, strlen(text));
    case OSP_FORM_CHOICE:
        return from_choices(text, out);
    case OSP_FORM_NONE:
        break;
    }
    return fail(OSP_EINVAL, "form %d is none", (int)form);
}

static struct kept *find(struct form_kit *kit, enum osp_form form, uint64_t hash, const char *text)
{
    for (int i = 0; i < kit->n_kept; i++)
        if (kit->kept[i].form == form && kit->kept[i].hash == hash &&
            strcmp(kit->kept[i].text, text) == 0)
            return &kit->kept[i];
    return NULL;
}

/* Lets go of the one that was not used for longest. */
static void forget_oldest(struct form_kit *kit)
{
    struct kept *oldest = &kit->kept[0];

    for (int i = 1; i < kit->n_kept; i++)
        if (kit->kept[i].used < oldest->used)
            oldest = &kit->kept[i];
    kit->n_bytes -= grammar_bytes(oldest->grammar);
    grammar_drop(oldest->grammar);
    free(oldest->text);
    *oldest = kit->kept[--kit->n_kept];
}

static void keep(struct form_kit *kit, enum osp_form form, uint64_t hash, const char *text,
                 struct grammar *g)
{
    size_t n_bytes = grammar_bytes(g);
    char *copy;

    if (find(kit, form, hash, text) != NULL)
        return; /* another thread was quicker */
    if (str_copy(&copy, text, "a form's text") != OSP_OK)
        return; /* it is made again the next time */
    while (kit->n_kept == FORM_GRAMMARS_MAX ||
           (kit->n_kept > 0 && kit->n_bytes + n_bytes > FORM_GRAMMAR_BYTES_MAX))
        forget_oldest(kit);
    kit->kept[kit->n_kept++] = (struct kept){form, hash, copy, grammar_share(g), ++kit->now};
    kit->n_bytes += n_bytes;
}

enum osp_status form_kit_grammar(struct form_kit *kit, enum osp_form form, const char *text,
                                 struct grammar **out)
{
    struct kept *known;
    uint64_t hash;
    enum osp_status st;

    *out = NULL;
    if (text == NULL)
        text = "";
    if (strlen(text) > FORM_TEXT_BYTES_MAX)
        return fail(OSP_ELIMIT, "%zu bytes, limit is %d", strlen(text), (int)FORM_TEXT_BYTES_MAX);
    hash = hash_bytes(HASH_START, text, strlen(text));
    pthread_mutex_lock(&kit->lock);
    known = find(kit, form, hash, text);
    if (known != NULL) {
        known->used = ++kit->now;
        *out = grammar_share(known->grammar);
    }
    pthread_mutex_unlock(&kit->lock);
    if (*out != NULL)
        return OSP_OK;
    TRY(compile(form, text, out));
    pthread_mutex_lock(&kit->lock);
    keep(kit, form, hash, text, *out);
    pthread_mutex_unlock(&kit->lock);
out:
    return st;
}

/* ---- tools ---- */

static enum osp_status make_tools(struct form_tools *tools, const struct tokenizer *t)
{
    enum osp_status st;

    tools->specials = *tokenizer_specials(t);
    TRY(token_index_new(&tools->index, t));
out:
    if (st != OSP_OK)
        release_tools(tools);
    return st;
}

static enum osp_status prepare(struct form_kit *kit, const struct tokenizer *t, const char *path)
{
    struct tokenizer *own = NULL;
    enum osp_status st = OSP_OK;

    if (kit->has_tools)
        return OSP_OK;
    if (t == NULL) {
        TRY(tokenizer_open(&own, path));
        t = own;
    }
    TRY(make_tools(&kit->tools, t));
    kit->has_tools = true;
out:
    tokenizer_close(own);
    return st;
}

enum osp_status form_kit_prepare(struct form_kit *kit, const struct tokenizer *t, const char *path,
                                 const struct form_tools **tools)
{
    enum osp_status st;

    pthread_mutex_lock(&kit->tools_lock);
    st = prepare(kit, t, path);
    pthread_mutex_unlock(&kit->tools_lock);
    *tools = st == OSP_OK ? &kit->tools : NULL;
    return st;
}

static void *warm(void *ctx)
{
    struct form_kit *kit = ctx;
    const struct form_tools *tools;

    if (form_kit_prepare(kit, NULL, kit->warm_path, &tools) != OSP_OK)
        log_warn("no structured output: %s", fail_message());
    return NULL;
}

void form_kit_warm(struct form_kit *kit, const char *path)
{
    kit->warm_path = mem_strdup(path);
    kit->is_warming = pthread_create(&kit->warmer, NULL, warm, kit) == 0;
}
