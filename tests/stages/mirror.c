/* A stage's tensors on their way to a device with memory of its own, and back: harness.h. */
#include "stages/harness.h"

enum role { WEIGHT, ROWS, CACHE };

struct member {
    size_t offset; /* of the tensor in the stage's arguments */
    enum role role;
};

/* X(member, role) */
#define MEMBERS_embed_rmsnorm(X) X(x, ROWS) X(y, ROWS) X(table, WEIGHT) X(norm, WEIGHT)
#define MEMBERS_attn_qkv(X)                                                                        \
    X(q, ROWS)                                                                                     \
    X(kv, CACHE)                                                                                   \
    X(y, ROWS)                                                                                     \
    X(wqkv[0], WEIGHT)                                                                             \
    X(wqkv[1], WEIGHT)                                                                             \
    X(wqkv[2], WEIGHT)                                                                             \
    X(bqkv[0], WEIGHT) X(bqkv[1], WEIGHT) X(bqkv[2], WEIGHT) X(kv_rows, ROWS)
#define MEMBERS_attn(X)             X(att, ROWS) X(q, ROWS) X(kv, CACHE) X(sinks, WEIGHT)
#define MEMBERS_attn_out(X)         X(h, ROWS) X(att, ROWS) X(wo, WEIGHT) X(bo, WEIGHT)
#define MEMBERS_residual_rmsnorm(X) X(x, ROWS) X(y, ROWS) X(h, ROWS) X(norm, WEIGHT)
#define MEMBERS_router(X)                                                                          \
    X(ids, ROWS) X(gates, ROWS) X(y, ROWS) X(wr, WEIGHT) X(br, WEIGHT) X(router_logits, ROWS)
#define MEMBERS_experts(X)                                                                         \
    X(h, ROWS)                                                                                     \
    X(y, ROWS)                                                                                     \
    X(ids, ROWS)                                                                                   \
    X(gates, ROWS)                                                                                 \
    X(w_up, WEIGHT)                                                                                \
    X(b_up, WEIGHT) X(w_down, WEIGHT) X(b_down, WEIGHT) X(units, ROWS) X(parts, ROWS)
#define MEMBERS_logits(X) X(logits, ROWS) X(y, ROWS) X(head, WEIGHT)
#define MEMBERS_sample(X)                                                                          \
    X(tokens, ROWS)                                                                                \
    X(logprobs, ROWS) X(top_tokens, ROWS) X(top_logprobs, ROWS) X(logits, ROWS)

#define STAGE_MEMBERS(stage)                                                                       \
    static const struct member members_##stage[] = {MEMBERS_##stage(MEMBER_OF_##stage)};
#define MEMBER_OF(stage, name, role_)                                                              \
    {.offset = offsetof(struct stage##_args, name), .role = role_},
#define MEMBER_OF_embed_rmsnorm(name, role)    MEMBER_OF(embed_rmsnorm, name, role)
#define MEMBER_OF_attn_qkv(name, role)         MEMBER_OF(attn_qkv, name, role)
#define MEMBER_OF_attn(name, role)             MEMBER_OF(attn, name, role)
#define MEMBER_OF_attn_out(name, role)         MEMBER_OF(attn_out, name, role)
#define MEMBER_OF_residual_rmsnorm(name, role) MEMBER_OF(residual_rmsnorm, name, role)
#define MEMBER_OF_router(name, role)           MEMBER_OF(router, name, role)
#define MEMBER_OF_experts(name, role)          MEMBER_OF(experts, name, role)
#define MEMBER_OF_logits(name, role)           MEMBER_OF(logits, name, role)
#define MEMBER_OF_sample(name, role)           MEMBER_OF(sample, name, role)
STAGE_LIST(STAGE_MEMBERS)

static const struct {
    const struct member *members;
    int n;
} stages[N_STAGE_AT] = {
#define STAGE_ROW(stage) {members_##stage, sizeof(members_##stage) / sizeof(members_##stage[0])},
    STAGE_LIST(STAGE_ROW)
#undef STAGE_ROW
};

static struct tensor *tensor_at(void *args, const struct member *m)
{
    return (struct tensor *)(void *)((char *)args + m->offset);
}

static size_t bytes_of(const struct tensor *t, enum role role)
{
    if (role != CACHE)
        return (size_t)tensor_bytes(t);
    return (size_t)(2 * t->dim[0] * t->dim[2] * naive_side_bytes(t));
}

void move_there(struct mirror *m, void *args)
{
    for (int i = 0; i < stages[m->stage].n && under.is_in_worker; i++) {
        struct tensor *t = tensor_at(args, &stages[m->stage].members[i]);
        const struct tensor host = *t;

        if (t->data == NULL)
            continue; /* the stage does without */
        if (stages[m->stage].members[i].role == WEIGHT) {
            if (t->layout != LAYOUT_PACKED)
                must(under.ops->pack(under.device, t, &host));
            continue;
        }
        must(under.ops->alloc(under.device, &m->mem[i],
                              bytes_of(t, stages[m->stage].members[i].role)));
        t->data = m->mem[i].data;
        must(under.ops->write(under.device, t->data, host.data, m->mem[i].size_bytes));
    }
}

void move_back(struct mirror *m, const void *args, void *there)
{
    for (int i = 0; i < stages[m->stage].n && under.is_in_worker; i++) {
        void *host = tensor_at((void *)(uintptr_t)args, &stages[m->stage].members[i])->data;

        if (stages[m->stage].members[i].role == WEIGHT || host == NULL)
            continue;
        must(under.ops->read(under.device, host,
                             tensor_at(there, &stages[m->stage].members[i])->data,
                             m->mem[i].size_bytes));
        under.ops->release(under.device, &m->mem[i]);
    }
}

void note_time(uint64_t start_ns, bool is_first)
{
    const uint64_t ns = clock_ns() - start_ns;

    under.best_ns = is_first || ns < under.best_ns ? ns : under.best_ns;
}
