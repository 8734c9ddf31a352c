#include "engine/core/request_grammar.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* The request field of a kind of grammar. */
static const char *grammar_field(enum osp_form form)
{
    return form == OSP_FORM_REGEX    ? "regex"
           : form == OSP_FORM_CHOICE ? "choice"
                                     : "response_format";
}

static enum osp_status compile_grammar(struct grammar **out, struct grammar_cache *grammars,
                                       const struct grammar_source *source)
{
    enum osp_status st;

    if (source->form == OSP_FORM_NONE)
        return OSP_OK;
    st = grammar_cache_get(grammars, source->form, source->form_text, out);
    if (st == OSP_ELIMIT)
        st = OSP_EINVAL; /* an error of the grammar, and not of the prompt */
    return st == OSP_OK ? st : fail_prefix(st, "%s", grammar_field(source->form));
}

/* Takes ownership of the config's call rules. */
static enum osp_status constrain(struct osp_request *r, const struct osp_model *m,
                                 const struct sched_limits *l, struct answer_grammar_config *config)
{
    struct sampling_state *lists = &r->seq.lists;
    enum osp_status st;

    st = grammar_cache_prepare(m->forms, m->tokenizer, m->text.path, &config->tools);
    if (st == OSP_OK)
        st = sampling_state_need_mask(lists, m->facts.vocab_size);
    if (st != OSP_OK) {
        call_rules_free(config->calls);
        return st;
    }
    config->prompt = r->seq.tokens;
    config->n_prompt = r->seq.n_prompt;
    config->stop_ids = l->stop_ids;
    config->n_stop_ids = l->n_stop_ids;
    config->mask = lists->mask;
    config->n_mask_words = lists->n_mask_words;
    r->seq.is_constrained = true;
    return answer_grammar_new(&r->grammar, config);
}

static enum osp_status check_size(const char *field, const char *text, size_t n_bytes_max)
{
    const size_t n_bytes = text != NULL ? strlen(text) : 0;

    if (n_bytes > n_bytes_max)
        return fail(OSP_EINVAL, "%s: has %zu bytes, the limit is %zu", field, n_bytes, n_bytes_max);
    return OSP_OK;
}

enum osp_status request_grammar_check(const struct osp_request_options *opt)
{
    const struct grammar_source source = grammar_source_of(opt);
    enum osp_status st;

    if (grammar_source_is_empty(&source))
        return OSP_OK;
    if (opt->ignore_stop_tokens)
        return fail(OSP_EINVAL, "%s: not together with ignore_eos",
                    opt->form != OSP_FORM_NONE ? grammar_field(opt->form) : "tools");
    TRY(check_size(grammar_field(opt->form), opt->form_text, GRAMMAR_TEXT_BYTES_MAX));
    TRY(check_size("tools", opt->calls, CALLS_TEXT_BYTES_MAX));
out:
    return st;
}

/* Of the form and of the functions, "response_format: /a; f: /b". */
static enum osp_status note_ignored(struct osp_request *r, const struct grammar_source *source,
                                    const struct answer_grammar_config *config)
{
    const char *of_form = config->grammar != NULL ? grammar_ignored(config->grammar) : "",
               *of_calls = config->calls != NULL ? buf_text(&config->calls->ignored) : "";
    char text[CALLS_IGNORED_BYTES_MAX + 1];

    if (of_form[0] == '\0' && of_calls[0] == '\0')
        return OSP_OK;
    snprintf(text, sizeof text, "%s%s%s%s%s", of_form[0] != '\0' ? grammar_field(source->form) : "",
             of_form[0] != '\0' ? ": " : "", of_form,
             of_form[0] != '\0' && of_calls[0] != '\0' ? "; " : "", of_calls);
    return str_copy(&r->ignored, text, "the names of ignored keywords");
}

enum osp_status request_grammar_make(struct osp_request *r, const struct osp_engine *engine,
                                     const struct grammar_source *source)
{
    const struct osp_model *m = engine->model;
    struct answer_grammar_config config = {.grammar = NULL};
    enum osp_status st;

    TRY(compile_grammar(&config.grammar, m->forms, source));
    if (source->calls != NULL)
        TRY(call_rules_open(&config.calls, m->forms, source->calls));
    st = note_ignored(r, source, &config);
    if (st != OSP_OK)
        call_rules_free(config.calls);
    TRY(st);
    TRY(constrain(r, m, &engine->limits, &config));
out:
    grammar_unref(config.grammar);
    return st;
}

/* Without memory for the message the request ends without one. */
static void keep_message(struct osp_request *r)
{
    if (str_copy(&r->grammar_message, fail_message(), "the reason of a failure") != OSP_OK)
        r->grammar_message = NULL;
}

bool request_make_mask(struct osp_request *r, enum mask_effort effort)
{
    bool made;

    r->grammar_status = answer_grammar_fill_mask(r->grammar, effort, &made);
    if (r->grammar_status != OSP_OK)
        keep_message(r);
    return made || r->grammar_status != OSP_OK;
}
