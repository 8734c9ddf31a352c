/* The versions that launches read, against those that the program's order asks for. */
#include "cuda/program/hazards.h"

#include "cuda/launch/workspaces.h"
#include "cuda/program/print_list.h"

enum { NO_OP = -1 /* the version of before the step */ };

struct check {
    const struct launch_list *list;
    const struct program *p;
    const struct step_counts *counts;
};

/* ---- what the program asks for ---- */

static bool is_written_by(const struct program *p, int op, int tensor)
{
    switch (program_access(p, op, tensor)) {
    case ACCESS_WRITE:
    case ACCESS_UPDATE:
    case ACCESS_APPEND:
    case ACCESS_WORKSPACE:
        return true;
    default:
        return false;
    }
}

/* Outputs that nobody reads in a step of these counts, so that fuse() leaves them out. */
static bool is_left_out(const struct check *c, int op, int tensor)
{
    const struct program_op *o = &c->p->ops[op];

    if (o->stage == STAGE_logits || o->stage == STAGE_gather)
        return c->counts->n_samples == 0;
    if (o->stage == STAGE_sample && tensor == o->args.sample.candidates.id)
        return c->counts->n_samples == 0 || !c->counts->has_candidates;
    if (o->stage == STAGE_sample) /* only special samples edit logits or ask for likely tokens */
        return c->counts->n_samples == 0 ||
               (!c->counts->has_special && tensor != o->args.sample.tokens.id &&
                tensor != o->args.sample.logprobs.id);
    return c->counts->has_tail && c->counts->n_tail == 0 && o->rows == ROWS_SAMPLED;
}

/* The last op before this one that writes the tensor. */
static int writer_before(const struct check *c, int op, int tensor)
{
    for (op--; op >= 0; op--)
        if (is_written_by(c->p, op, tensor) && !is_left_out(c, op, tensor))
            return op;
    return NO_OP;
}

/* ---- what the list does ---- */

/* The op of the last write to the tensor before the launch. */
static int version_at(const struct check *c, int launch, int tensor)
{
    int op = NO_OP, last = -1;

    for (int i = 0; i < c->list->n_touches; i++) {
        const struct touch *t = &c->list->touches[i];

        if (t->kind == TOUCH_WRITE && t->tensor == tensor && t->launch < launch &&
            t->launch >= last) {
            op = t->op;
            last = t->launch;
        }
    }
    return op;
}

/* Whether a launch of [first, end) writes the tensor for the op. */
static bool writes_for(const struct check *c, int first, int end, int tensor, int op)
{
    for (int i = 0; i < c->list->n_touches; i++) {
        const struct touch *t = &c->list->touches[i];

        if (t->kind == TOUCH_WRITE && t->tensor == tensor && t->op == op && t->launch >= first &&
            t->launch < end)
            return true;
    }
    return false;
}

/* ---- messages ---- */

static const char *op_text(const struct check *c, int op, char out[64])
{
    if (op == NO_OP)
        (void)snprintf(out, 64, "no op of the step");
    else if (c->p->ops[op].layer == NO_LAYER)
        (void)snprintf(out, 64, "op %d (%s)", op, stage_names[c->p->ops[op].stage]);
    else
        (void)snprintf(out, 64, "op %d (%s of layer %d)", op, stage_names[c->p->ops[op].stage],
                       c->p->ops[op].layer);
    return out;
}

static enum osp_status wrong_version(const struct check *c, const struct touch *t, int found,
                                     int wanted)
{
    char reader[64], found_text[64], wanted_text[64];

    return fail(OSP_EINTERNAL,
                "launch %d (%s) reads %s for %s as written by %s; the program's order asks for "
                "the version of %s",
                t->launch, c->list->launches[t->launch].name, c->p->tensors[t->tensor - 1].name,
                op_text(c, t->op, reader), op_text(c, found, found_text),
                op_text(c, wanted, wanted_text));
}

/* ---- rules ---- */

/* The version that the launch may read for its op; `found` is what it reads. An op that updates a
 * tensor reads the version before its own in the launch that writes its own, and its own in all
 * other launches. An op that writes a tensor, or takes it as a workspace, reads only what an
 * earlier launch wrote for it. A launch that reads a tensor which its op does not name does so in
 * place of another op (a norm), or reads rows that were moved there (the tail). */
static int version_for(const struct check *c, const struct touch *t, int found)
{
    const int before = writer_before(c, t->op, t->tensor);

    switch (program_access(c->p, t->op, t->tensor)) {
    case ACCESS_WRITE:
    case ACCESS_WORKSPACE:
        return t->op;
    case ACCESS_UPDATE:
        return writes_for(c, t->launch, t->launch + 1, t->tensor, t->op) ||
                       !writes_for(c, 0, c->list->n, t->tensor, t->op)
                   ? before
                   : t->op;
    case N_ACCESSES:
        return found == t->op ? found : before;
    default:
        return before;
    }
}

static enum osp_status check_read(const struct check *c, const struct touch *t)
{
    const int found = version_at(c, t->launch, t->tensor);
    const int wanted = version_for(c, t, found);

    return found == wanted ? OSP_OK : wrong_version(c, t, found, wanted);
}

static enum osp_status check_early(const struct check *c, const struct touch *t)
{
    for (int i = 0; i < c->list->n_touches; i++) {
        const struct touch *w = &c->list->touches[i];

        if (w->kind == TOUCH_WRITE && w->tensor == t->tensor &&
            (t->tensor > 0 || w->workspace == t->workspace))
            return fail(OSP_EINTERNAL,
                        "launch %d (%s) reads %s before griddepcontrol.wait, and launch %d (%s) "
                        "writes it",
                        t->launch, c->list->launches[t->launch].name,
                        t->tensor > 0 ? c->p->tensors[t->tensor - 1].name
                                      : workspace_name(t->workspace),
                        w->launch, c->list->launches[w->launch].name);
    }
    return OSP_OK;
}

/* The last write to the workspace before the launch; NULL: no launch writes it. */
static const struct touch *last_write(const struct check *c, int launch, int workspace)
{
    const struct touch *last = NULL;

    for (int i = 0; i < c->list->n_touches; i++) {
        const struct touch *w = &c->list->touches[i];

        if (w->kind == TOUCH_WRITE && w->tensor == 0 && w->workspace == workspace &&
            w->launch < launch && (last == NULL || w->launch >= last->launch))
            last = w;
    }
    return last;
}

/* The version of the tensor that an op's launch has in a workspace in another form. */
static int version_of_copy(const struct check *c, const struct touch *t)
{
    return is_written_by(c->p, t->op, t->copy_of) ? t->op : writer_before(c, t->op, t->copy_of);
}

/* The router's sums are cleared by an op and added to by another one of the layer. The experts add
 * to sums that attn_out has cleared; their residual, or the next layer, adds these to x. */
static bool is_same_op(const struct check *c, const struct touch *write, const struct touch *read)
{
    const struct program_op *w = &c->p->ops[write->op], *r = &c->p->ops[read->op];
    const bool is_sum_of_experts =
        w->stage == STAGE_experts && (r->layer == w->layer || r->layer == w->layer + 1);

    /* QKV exchanges the sums of the layer before; attn_out or the residual before QKV adds them */
    const bool is_exchanged_sum =
        w->stage == STAGE_attn_qkv && (w->layer == r->layer || w->layer == r->layer + 1);

    switch (read->workspace) {
    case WORKSPACE_router:
        return w->layer == r->layer;
    case WORKSPACE_expert_sums:
        return r->stage == STAGE_experts /* those that ranks exchange are the experts' own */
                   ? (w->stage == STAGE_attn_out && w->layer == r->layer) || write->op == read->op
                   : is_sum_of_experts;
    case WORKSPACE_expert_totals:
        return is_exchanged_sum;
    case WORKSPACE_poison:
        return w->layer == r->layer || is_sum_of_experts || is_exchanged_sum;
    default:
        return write->op == read->op;
    }
}

static enum osp_status check_workspace(const struct check *c, const struct touch *t)
{
    const struct touch *w = last_write(c, t->launch, t->workspace);
    char reader[64], writer[64];

    if (t->workspace == WORKSPACE_merge_bufs || t->workspace == WORKSPACE_batch)
        return OSP_OK;
    if (w == NULL)
        return fail(OSP_EINTERNAL,
                    "launch %d (%s) reads the workspace %s, which no launch before it writes",
                    t->launch, c->list->launches[t->launch].name, workspace_name(t->workspace));
    if (t->workspace == WORKSPACE_cos_sin ||
        (w->copy_of == t->copy_of &&
         (t->copy_of > 0 ? version_of_copy(c, w) == writer_before(c, t->op, t->copy_of)
                         : is_same_op(c, w, t))))
        return OSP_OK;
    return fail(OSP_EINTERNAL,
                "launch %d (%s) reads the workspace %s for %s; the last launch that wrote it, %d "
                "(%s), did so for %s",
                t->launch, c->list->launches[t->launch].name, workspace_name(t->workspace),
                op_text(c, t->op, reader), w->launch, c->list->launches[w->launch].name,
                op_text(c, w->op, writer));
}

static enum osp_status check_tapped(const struct check *c, int tensor)
{
    const int wanted = writer_before(c, c->p->n_ops, tensor);
    const int found = version_at(c, c->list->n, tensor);
    char found_text[64], wanted_text[64];

    if (found == wanted)
        return OSP_OK;
    return fail(OSP_EINTERNAL,
                "the list leaves %s as written by %s; the caller reads the version of %s",
                c->p->tensors[tensor - 1].name, op_text(c, found, found_text),
                op_text(c, wanted, wanted_text));
}

enum osp_status launch_list_check(const struct launch_list *list, const struct program *p,
                                  const struct step_counts *counts)
{
    const struct check c = {.list = list, .p = p, .counts = counts};
    enum osp_status st = OSP_OK;

    for (int i = 0; i < list->n_touches; i++) {
        const struct touch *t = &list->touches[i];

        if (t->kind == TOUCH_EARLY)
            TRY(check_early(&c, t));
        else if (t->kind == TOUCH_READ && t->tensor > 0)
            TRY(check_read(&c, t));
        else if (t->kind == TOUCH_READ)
            TRY(check_workspace(&c, t));
    }
    for (int tensor = 1; tensor <= p->n_tensors; tensor++)
        if (p->tensors[tensor - 1].is_tapped)
            TRY(check_tapped(&c, tensor));
out:
    return st;
}
