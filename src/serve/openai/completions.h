/* The job of /v1/completions, for another path that answers in the same form. */
#ifndef SERVE_OPENAI_COMPLETIONS_H
#define SERVE_OPENAI_COMPLETIONS_H

#include "serve/job/job.h"

extern const struct job_kind completions_kind;

#endif
