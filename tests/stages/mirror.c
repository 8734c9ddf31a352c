/* Uploads a stage's tensors to a device with memory of its own, and downloads them: harness.h. */
#include "stages/harness.h"

static struct tensor *tensor_at(void *args, const struct stage_field *f)
{
    return (struct tensor *)(void *)((char *)args + f->offset);
}

/* KV pages; stage tap appends to rows. */
static bool is_cache(const struct tensor *t, enum access access)
{
    return t->n_dims == 5 && (access == ACCESS_APPEND || access == ACCESS_CACHE);
}

/* Ids of a vocabulary are not packed: a draft head writes them to memory of the device. */
static bool is_weight(const struct tensor *t, enum access access)
{
    return access == ACCESS_WEIGHT && t->dtype != DTYPE_I32;
}

static size_t bytes_of(const struct tensor *t, enum access access)
{
    if (!is_cache(t, access))
        return (size_t)tensor_bytes(t);
    return (size_t)(2 * t->dim[0] * t->dim[2] * naive_side_bytes(t));
}

void move_there(struct mirror *m, void *args)
{
    int n;
    const struct stage_field *fields = stage_fields(m->stage, &n);

    for (int i = 0; i < n && under.is_in_worker; i++) {
        struct tensor *t = tensor_at(args, &fields[i]);
        const struct tensor host = *t;

        if (t->data == NULL)
            continue; /* the stage does not use it */
        if (is_weight(t, fields[i].access)) {
            if (t->layout != LAYOUT_PACKED)
                must(under.ops->pack(under.device, t, &host));
            continue;
        }
        must(under.ops->alloc(under.device, &m->mem[i], bytes_of(t, fields[i].access)));
        t->data = m->mem[i].data;
        must(under.ops->write(under.device, t->data, host.data, m->mem[i].size_bytes));
    }
}

void move_back(struct mirror *m, const void *args, void *there)
{
    int n;
    const struct stage_field *fields = stage_fields(m->stage, &n);

    for (int i = 0; i < n && under.is_in_worker; i++) {
        const struct tensor *t = tensor_at((void *)(uintptr_t)args, &fields[i]);
        void *host = t->data;

        if (is_weight(t, fields[i].access) || host == NULL)
            continue;
        must(under.ops->read(under.device, host, tensor_at(there, &fields[i])->data,
                             m->mem[i].size_bytes));
        under.ops->release(under.device, &m->mem[i]);
    }
}

static void note_time(uint64_t start_ns, bool is_first)
{
    const uint64_t ns = clock_ns() - start_ns;

    under.best_ns = is_first || ns < under.best_ns ? ns : under.best_ns;
}

void run_stage(enum stage stage, const union stage_args *args, const struct batch *b)
{
    struct program p = {0};
    struct compiled *c;

    must(program_add(&p, stage, NO_LAYER, args));
    program_tap_outputs(&p);
    program_end(&p);
    must(under.ops->compile(under.device, &p, &c));
    for (int i = 0; i < under.n_repeats; i++) {
        const uint64_t start_ns = clock_ns();
        uint64_t ticket;

        must(under.ops->run(under.device, c, b, &ticket));
        must(under.ops->step_wait(under.device, ticket));
        note_time(start_ns, i == 0);
    }
    under.ops->release_program(under.device, c);
    program_free(&p);
}
