/* The grammars of one request: which it asks for, and how they become the struct answer_form that its answer is held
 * to. */
#ifndef ENGINE_CORE_REQUEST_FORM_H
#define ENGINE_CORE_REQUEST_FORM_H

#include "engine/core/engine.h"

/* What osp_request_options say of it. */
struct form_source {
    enum osp_form form;
    const char *form_text; /* NULL: none */
    const char *calls;     /* likewise */
};

static inline struct form_source form_source_of(const struct osp_request_options *opt)
{
    return (struct form_source){opt->form, opt->form_text, opt->calls};
}

static inline bool form_source_is_empty(const struct form_source *s)
{
    return s->form == OSP_FORM_NONE && s->calls == NULL;
}

/* What can be found wrong without compiling: OSP_EINVAL that names the field. */
CHECKED enum osp_status request_form_check(const struct osp_request_options *opt);
/* Compiles and sets r->form, in an engine of this process: up to a tenth of a second for a form, and CALLS_WORK_MAX
 * of COMPILE_WORK_MAX times that for functions. OSP_EINVAL that names the field: a grammar that cannot be. */
CHECKED enum osp_status request_form_make(struct osp_request *r, const struct osp_engine *engine,
                                          const struct form_source *source);

/* Makes the mask for the next draw of r, whose form has taken the last token; true: it is there, or r->form_status
 * says why there can be none. Of the thread that owns the form. */
bool request_make_mask(struct osp_request *r, enum mask_effort effort);

#endif
