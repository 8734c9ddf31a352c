/* The forward pass of an Eagle3 draft head, as a program; and the states of the target that it
 * reads, as stages of the target's. draft.c binds the arguments. */
#include "model/draft_model.h"

/* The states of the target's last step are read where its program leaves them. */
static struct draft_stages stages_of(const struct draft *d, enum draft_pass pass)
{
    struct draft_stages s = d->stages;

    if (pass != DRAFT_BEHIND)
        return s;
    if (s.fc.w.data != NULL)
        s.fc.taps = d->act.step_taps;
    else
        s.input.f = d->act.step_taps;
    return s;
}

enum osp_status draft_program(struct program *p, const struct draft *d, enum draft_pass pass)
{
    const struct draft_stages stages = stages_of(d, pass), *s = &stages;
    enum osp_status st = OSP_OK;

    if (pass != DRAFT_AGAIN && s->fc.w.data != NULL)
        TRY(PROGRAM_ADD(p, draft_fc, 0, s->fc));
    TRY(PROGRAM_ADD(p, draft_input, 0, s->input));
    TRY(PROGRAM_ADD(p, attn_qkv, 0, s->attn_qkv));
    TRY(PROGRAM_ADD(p, attn, 0, s->attn));
    TRY(PROGRAM_ADD(p, attn_out, 0, s->attn_out));
    TRY(PROGRAM_ADD(p, residual_rmsnorm, 0, s->attn_residual));
    TRY(PROGRAM_ADD(p, mlp, 0, s->mlp));
    TRY(PROGRAM_ADD(p, residual_rmsnorm, 0, s->mlp_residual));
    TRY(PROGRAM_ADD(p, gather, NO_LAYER, s->gather));
    TRY(PROGRAM_ADD(p, logits, NO_LAYER, s->logits));
    TRY(PROGRAM_ADD(p, sample, NO_LAYER, s->sample));
    program_tap(p, &s->gather.out);
    program_tap(p, &s->logits.logits);
    program_tap(p, &s->sample.tokens);
    program_tap(p, &s->sample.logprobs);
    program_tap(p, &s->sample.candidates);
    program_end(p);
out:
    return st;
}

enum osp_status draft_taps(struct program *p, const struct draft *d, int boundary,
                           const struct tensor *x)
{
    const struct draft_config *c = d != NULL ? &d->source.config : NULL;
    enum osp_status st = OSP_OK;

    if (d == NULL)
        return OSP_OK;
    for (int i = 0; i < c->n_states; i++) {
        const bool is_read =
            c->reads_final_norm ? boundary == DRAFT_FINAL_NORM : boundary == c->state_ids[i];

        if (is_read)
            TRY(PROGRAM_ADD(p, tap, boundary > 0 ? boundary - 1 : NO_LAYER,
                            ((struct tap_args){.taps = d->act.step_taps, .x = *x, .index = i})));
    }
    program_tap(p, &d->act.step_taps);
out:
    return st;
}
