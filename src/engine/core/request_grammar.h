/* The grammars of one request: which it asks for, and how they become the struct answer_grammar
 * that its answer is held to. */
#ifndef ENGINE_CORE_REQUEST_GRAMMAR_H
#define ENGINE_CORE_REQUEST_GRAMMAR_H

#include "engine/core/engine.h"

/* What osp_request_options say of it. */
struct grammar_source {
    enum osp_form form;
    const char *form_text; /* NULL: none */
    const char *calls;     /* likewise */
};

static inline struct grammar_source grammar_source_of(const struct osp_request_options *opt)
{
    return (struct grammar_source){opt->form, opt->form_text, opt->calls};
}

static inline bool grammar_source_is_empty(const struct grammar_source *s)
{
    return s->form == OSP_FORM_NONE && s->calls == NULL;
}

/* What can be found wrong without compiling: OSP_EINVAL that names the field. */
CHECKED enum osp_status request_grammar_check(const struct osp_request_options *opt);
/* Compiles and sets r->form, in an engine of this process: up to a tenth of a second for a form,
 * and CALLS_WORK_MAX of COMPILE_WORK_MAX times that for functions. OSP_EINVAL that names the
 * field: a grammar that cannot be. */
CHECKED enum osp_status request_grammar_make(struct osp_request *r, const struct osp_engine *engine,
                                             const struct grammar_source *source);

/* Makes the mask for the next draw of r, whose form has taken the last token; true: it is there,
 * or r->grammar_status says why there can be none. Of the thread that owns the form. */
bool request_make_mask(struct osp_request *r, enum mask_effort effort);

#endif
