/* The grammars of one request: which ones it asks for, and how they become the struct
 * answer_grammar that constrains its answer. */
#ifndef ENGINE_CORE_REQUEST_GRAMMAR_H
#define ENGINE_CORE_REQUEST_GRAMMAR_H

#include "engine/core/engine.h"

/* The grammar fields of osp_request_options. */
struct grammar_source {
    enum osp_form form;
    const char *form_text; /* NULL: no grammar */
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

/* Checks that need no compilation: OSP_EINVAL that names the field. */
CHECKED enum osp_status request_grammar_check(const struct osp_request_options *opt);
/* Compiles and sets r->grammar, in an engine of this process: up to a tenth of a second for a
 * grammar, and CALLS_WORK_MAX of COMPILE_WORK_MAX times that for functions. OSP_EINVAL that names
 * the field: the grammar is not valid. */
CHECKED enum osp_status request_grammar_make(struct osp_request *r, const struct osp_engine *engine,
                                             const struct grammar_source *source);

/* Makes the mask for the next sample of r, whose grammar has accepted the last token. True: the
 * mask is ready, or r->grammar_status says why it cannot be made. Called by the thread that owns
 * it. */
bool request_make_mask(struct osp_request *r, enum mask_effort effort);

#endif
