/* What the routers of a model do at each position: which experts they choose, and how near that
 * is to a tie. Watches the steps of one model on the CPU at a time. */
#ifndef ROUTERS_H
#define ROUTERS_H

#include <math.h>

#include "stage_hook.h"

/* Of one position, over all layers. */
struct router_note {
    /* least gap between the logits of the last selected expert and of the first one that is not */
    float margin;
    uint64_t chosen; /* a hash of the sets of experts: others, if they differ in any layer */
};

static struct router_note *router_notes; /* of position 0 */

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

static inline void routers_look(enum stage stage, const union stage_args *args,
                                const struct batch *b)
{
    const struct router_args *a = &args->router;
    int n_experts, n_active;

    if (stage != STAGE_router)
        return;
    n_experts = (int)a->router_logits.dim[1];
    n_active = (int)a->ids.dim[1];
    for (int i = 0; i < b->n_rows; i++)
        routers_note(&router_notes[BATCH_POSITIONS(b)[i]],
                     (const float *)a->router_logits.data + i * n_experts, n_experts,
                     (const int32_t *)a->ids.data + i * n_active, n_active);
}

static inline void routers_watch(struct model *m)
{
    stage_hook_set(m, routers_look);
}

/* Where the next steps' notes go, of a text of n tokens that begins with position 0. */
static inline void routers_into(struct router_note *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = (struct router_note){.margin = INFINITY};
    router_notes = out;
}

#endif
