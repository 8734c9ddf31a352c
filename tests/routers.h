/* What the routers of a model do at each position: which experts they choose, and how near that
 * is to a tie. Watches the steps of one model on the CPU at a time, whose stages it leaves as
 * they are. */
#ifndef ROUTERS_H
#define ROUTERS_H

#include <math.h>

#include "model/model.h"

/* Of one position, over all layers. */
struct router_note {
    float
        margin; /* least gap between the logits of the last chosen expert and the first that is not */
    uint64_t chosen; /* a hash of the sets of experts: others, if they differ in any layer */
};

static struct routers {
    const struct backend_ops *ops; /* the model's own */
    struct backend_ops watching;
    const struct batch *batch;
    struct router_note *out; /* of position 0 */
} routers;

static inline void routers_note(struct router_note *note, const float *logits, int n_experts,
                                const int32_t *ids, int n_active)
{
    float least = INFINITY, largest = -INFINITY;
    uint64_t set = 0;

    for (int e = 0; e < n_experts; e++) {
        bool is_chosen = false;

        for (int i = 0; i < n_active; i++)
            is_chosen |= ids[i] == e;
        if (is_chosen)
            least = fminf(least, logits[e]);
        else
            largest = fmaxf(largest, logits[e]);
        set = 2 * set + is_chosen;
    }
    note->margin = fminf(note->margin, least - largest);
    note->chosen = (note->chosen + set + 1) * 0x9E3779B97F4A7C15u;
}

static inline enum osp_status routers_begin(struct backend *be, const struct batch *b,
                                            enum step *out)
{
    routers.batch = b;
    return routers.ops->step_begin(be, b, out);
}

static inline enum osp_status routers_route(struct backend *be, const struct router_args *a)
{
    const enum osp_status st = routers.ops->router(be, a);
    const int n_experts = (int)a->router_logits.dim[1], n_active = (int)a->ids.dim[1];

    for (int i = 0; i < routers.batch->n_rows && st == OSP_OK; i++)
        routers_note(&routers.out[BATCH_POSITIONS(routers.batch)[i]],
                     (const float *)a->router_logits.data + i * n_experts, n_experts,
                     (const int32_t *)a->ids.data + i * n_active, n_active);
    return st;
}

static inline void routers_watch(struct model *m)
{
    routers.ops = m->ops;
    routers.watching = *m->ops;
    routers.watching.step_begin = routers_begin;
    routers.watching.router = routers_route;
    m->ops = &routers.watching;
}

/* Where the next steps' notes go, of a text of n tokens that begins with position 0. */
static inline void routers_into(struct router_note *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = (struct router_note){.margin = INFINITY};
    routers.out = out;
}

#endif
