#include "model/stage_steps.h"

#include <stdlib.h>

#include "base/memory.h"

static enum osp_status compile(struct model *m, int i)
{
    struct stage_step *s = &m->stage_steps[i];
    enum osp_status st;

    TRY(program_range(&s->program, &m->program, i, 1));
    TRY(m->ops->compile(m->be, &s->program, &s->compiled));
out:
    if (st != OSP_OK)
        program_free(&s->program);
    return st;
}

enum osp_status stage_step_run(struct model *m, int i, const struct batch *b)
{
    uint64_t ticket;
    enum osp_status st;

    if (m->stage_steps == NULL)
        TRY(mem_try_array(&m->stage_steps, (size_t)stage_count(m), sizeof(*m->stage_steps),
                          "stages of a step"));
    if (m->stage_steps[i].compiled == NULL)
        TRY(compile(m, i));
    TRY(m->ops->run(m->be, m->stage_steps[i].compiled, b, &ticket));
    TRY(m->ops->step_wait(m->be, ticket));
out:
    return st;
}

void stage_steps_release(struct model *m)
{
    for (int i = 0; m->stage_steps != NULL && i < stage_count(m); i++) {
        m->ops->release_program(m->be, m->stage_steps[i].compiled);
        program_free(&m->stage_steps[i].program);
    }
    free(m->stage_steps);
    m->stage_steps = NULL;
}

/* Of stage sample, only the tensors that are written for every sample. */
static bool is_output(enum stage stage, const struct stage_field *f)
{
    if (stage == STAGE_sample)
        return f->offset == offsetof(struct sample_args, tokens) ||
               f->offset == offsetof(struct sample_args, logprobs);
    return f->access == ACCESS_WRITE || f->access == ACCESS_UPDATE;
}

struct stage_outputs stage_outputs(const struct model *m, int i)
{
    const enum stage stage = m->program.ops[i].stage;
    int n_fields;
    const struct stage_field *fields = stage_fields(stage, &n_fields);
    struct stage_outputs out = {.stage = stage};
    union stage_args args;

    program_args(&m->program, i, &args);
    for (int f = 0; f < n_fields && out.n < STAGE_OUTPUTS_MAX; f++)
        if (is_output(stage, &fields[f]))
            out.out[out.n++] =
                *(const struct tensor *)(const void *)((const char *)&args + fields[f].offset);
    return out;
}
