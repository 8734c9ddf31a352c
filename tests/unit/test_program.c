/* Checks programs without a device: ids by address, arguments that are restored, ranges, and which
 * stage reads the outputs of which other. */
#include "unit.h"

#include <stdlib.h>

#include "backend/program.h"

enum { LAYERS = 2, LAYER_OPS = 7, OPS = 1 + LAYERS * LAYER_OPS + 2, T = 8, C = 64 };

/* Addresses that are never read: one for each activation, then for weights. */
static char memory[256];
static int n_weights;

static struct tensor tensor_at(int place, int64_t n_rows, int64_t n_columns)
{
    return (struct tensor){
        .dtype = DTYPE_F32, .n_dims = 2, .dim = {n_rows, n_columns}, .data = &memory[place]};
}

enum { X, Y, H, Q, ATT, KV_ROWS, IDS, GATES, ROUTER_LOGITS, UNITS, PARTS, LOGITS, TOKENS, WEIGHTS };

static struct tensor rows(int place)
{
    return tensor_at(place, T, C);
}

static struct tensor weight(void)
{
    return tensor_at(WEIGHTS + n_weights++, C, C);
}

static enum osp_status add_layer(struct program *p, int i)
{
    const struct tensor kv = weight();
    const struct attn_qkv_args qkv = {.q = rows(Q),
                                      .kv = kv,
                                      .y = rows(Y),
                                      .wqkv = {weight(), weight(), weight()},
                                      .bqkv = {weight(), weight(), weight()},
                                      .group = GROUP_FULL,
                                      .kv_rows = rows(KV_ROWS)};
    const struct attn_args attn = {.att = rows(ATT), .q = rows(Q), .kv = kv, .sinks = weight()};
    const struct attn_out_args out = {
        .h = rows(H), .att = rows(ATT), .wo = weight(), .bo = weight(), .n_slices = 1};
    const struct residual_rmsnorm_args residual = {
        .x = rows(X), .y = rows(Y), .h = rows(H), .norm = weight(), .eps = 1e-5F};
    const struct router_args router = {.ids = rows(IDS),
                                       .gates = rows(GATES),
                                       .y = rows(Y),
                                       .wr = weight(),
                                       .br = weight(),
                                       .router_logits = rows(ROUTER_LOGITS)};
    const struct experts_args experts = {.h = rows(H),
                                         .y = rows(Y),
                                         .ids = rows(IDS),
                                         .gates = rows(GATES),
                                         .w_up = weight(),
                                         .limit = 7,
                                         .units = rows(UNITS),
                                         .parts = rows(PARTS)};
    enum osp_status st;

    TRY(PROGRAM_ADD(p, attn_qkv, i, qkv));
    TRY(PROGRAM_ADD(p, attn, i, attn));
    TRY(PROGRAM_ADD(p, attn_out, i, out));
    TRY(PROGRAM_ADD(p, residual_rmsnorm, i, residual));
    TRY(PROGRAM_ADD(p, router, i, router));
    TRY(PROGRAM_ADD(p, experts, i, experts));
    TRY(PROGRAM_ADD(p, residual_rmsnorm, i, residual));
out:
    return st;
}

static enum osp_status add_all(struct program *p)
{
    const struct embed_rmsnorm_args embed = {
        .x = rows(X), .y = rows(Y), .table = weight(), .norm = weight()};
    const struct logits_args logits = {.logits = rows(LOGITS), .y = rows(Y), .head = weight()};
    const struct sample_args sample = {.tokens = rows(TOKENS), .logits = rows(LOGITS)};
    enum osp_status st;

    TRY(PROGRAM_ADD(p, embed_rmsnorm, NO_LAYER, embed));
    for (int i = 0; i < LAYERS; i++)
        TRY(add_layer(p, i));
    TRY(PROGRAM_ADD(p, logits, NO_LAYER, logits));
    TRY(PROGRAM_ADD(p, sample, NO_LAYER, sample));
out:
    return st;
}

/* The forward pass of a small model; the caller frees it with program_free(). */
static struct program forward(void)
{
    struct program p = {0};

    n_weights = 0;
    assert_int_equal(add_all(&p), OSP_OK);
    assert_int_equal(p.n_ops, OPS);
    return p;
}

static int id_of(const struct program *p, int place)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].tensor.data == &memory[place])
            return i + 1;
    fail_msg("no tensor at place %d", place);
    return 0;
}

static void tap(struct program *p, int place)
{
    const struct tensor t = rows(place);

    program_tap(p, &t);
}

/* ---- tests ---- */

static void test_fields_name_every_tensor(void **state)
{
    (void)state;
    for (int s = 0; s < N_STAGES; s++) {
        int n;
        const struct stage_field *fields = stage_fields((enum stage)s, &n);

        assert_in_range(n, 1, STAGE_FIELDS_MAX);
        for (int f = 0; f < n; f++) {
            assert_true(fields[f].access < N_ACCESSES);
            assert_true(fields[f].offset + sizeof(struct tensor) <= sizeof(union stage_args));
            for (int other = 0; other < f; other++)
                assert_int_not_equal(fields[f].offset, fields[other].offset);
        }
    }
    assert_string_equal(stage_names[STAGE_residual_rmsnorm], "residual_rmsnorm");
}

static void test_a_tensor_has_one_id(void **state)
{
    struct program p = forward();
    union stage_args args;

    (void)state;
    assert_int_equal(p.n_tensors, WEIGHTS + n_weights);
    for (int i = 0; i < p.n_ops; i++)
        if (p.ops[i].stage == STAGE_residual_rmsnorm) {
            assert_int_equal(p.ops[i].args.residual_rmsnorm.x.id, id_of(&p, X));
            assert_null(p.ops[i].args.residual_rmsnorm.x.data);
        }
    program_args(&p, 0, &args);
    assert_int_equal(args.embed_rmsnorm.x.id, id_of(&p, X));
    assert_string_equal(p.tensors[id_of(&p, H) - 1].name, "h");
    assert_int_equal(p.tensors[id_of(&p, H) - 1].first, ACCESS_WRITE);
    program_free(&p);
    assert_null(p.ops);
}

/* The same address with another shape or dtype is another tensor; a tensor without address has no
 * id. */
static void test_shapes_tell_tensors_apart(void **state)
{
    struct program p = {0};
    struct attn_out_args a = {.h = rows(X), .att = rows(X), .wo = rows(X)};

    (void)state;
    a.att.dim[0] = T + 1;
    a.wo.dtype = DTYPE_BF16;
    assert_int_equal(PROGRAM_ADD(&p, attn_out, 0, a), OSP_OK);
    assert_int_equal(p.n_tensors, 3);
    assert_int_equal(p.ops[0].args.attn_out.bo.id, 0);
    program_free(&p);
}

static void assert_same_tensor(const struct tensor *a, const struct tensor *b)
{
    assert_ptr_equal(a->data, b->data);
    assert_ptr_equal(a->scales, b->scales);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->layout, b->layout);
    assert_int_equal(a->n_dims, b->n_dims);
    assert_memory_equal(a->dim, b->dim, sizeof(a->dim));
}

static void test_arguments_come_back(void **state)
{
    struct program p = {0};
    struct experts_args a = {.h = rows(H), .y = rows(Y), .w_up = rows(X), .limit = 7, .alpha = 2};
    union stage_args back, *all;

    (void)state;
    a.w_up.dtype = DTYPE_MXFP4;
    a.w_up.scales = &memory[WEIGHTS];
    assert_int_equal(PROGRAM_ADD(&p, experts, 3, a), OSP_OK);
    program_args(&p, 0, &back);
    assert_same_tensor(&back.experts.h, &a.h);
    assert_same_tensor(&back.experts.w_up, &a.w_up);
    assert_same_tensor(&back.experts.b_up, &a.b_up);
    assert_true(back.experts.limit == 7 && back.experts.alpha == 2);
    assert_int_equal(p.ops[0].layer, 3);
    assert_int_equal(program_all_args(&p, &all), OSP_OK);
    assert_same_tensor(&all[0].experts.w_up, &a.w_up);
    free(all);
    program_free(&p);
}

static void test_a_range_taps_its_outputs(void **state)
{
    const struct tensor kv_rows = rows(KV_ROWS);
    struct program p = forward(), part = {0};

    (void)state;
    program_end(&p);
    assert_int_equal(program_range(&part, &p, 1, 2), OSP_OK); /* attn_qkv, attn */
    program_free(&p);
    assert_int_equal(part.n_ops, 2);
    assert_int_equal(part.ops[0].stage, STAGE_attn_qkv);
    assert_int_equal(part.ops[1].layer, 0);
    assert_true(part.tensors[id_of(&part, Q) - 1].is_tapped);
    assert_true(part.tensors[id_of(&part, ATT) - 1].is_tapped);
    assert_true(part.tensors[part.ops[0].args.attn_qkv.kv.id - 1].is_tapped);
    assert_false(part.tensors[id_of(&part, Y) - 1].is_tapped);
    assert_ptr_equal(part.tensors[part.ops[0].args.attn_qkv.kv_rows.id - 1].tensor.data,
                     kv_rows.data);
    assert_false(part.tensors[part.ops[0].args.attn_qkv.kv_rows.id - 1].is_tapped);
    assert_int_equal(part.ops[1].rows, ROWS_ALL);
    program_free(&part);
}

static void test_access(void **state)
{
    struct program p = forward();
    const int kv = p.ops[1].args.attn_qkv.kv.id;

    (void)state;
    assert_int_equal(program_access(&p, 0, id_of(&p, X)), ACCESS_WRITE);
    assert_int_equal(program_access(&p, 1, id_of(&p, X)), N_ACCESSES);
    assert_int_equal(program_access(&p, 1, kv), ACCESS_APPEND);
    assert_int_equal(program_access(&p, 2, kv), ACCESS_CACHE);
    assert_int_equal(program_access(&p, 4, id_of(&p, X)), ACCESS_UPDATE);
    assert_int_equal(program_access(&p, 6, id_of(&p, UNITS)), ACCESS_WORKSPACE);
    program_free(&p);
}

/* Ops of layer i: 1 + 7i attn_qkv, attn, attn_out, residual, router, experts, 7 + 7i residual. */
static void test_reads_after(void **state)
{
    struct program p = forward();
    const int kv = p.ops[1].args.attn_qkv.kv.id, last = LAYERS * LAYER_OPS;

    (void)state;
    assert_true(program_reads_after(&p, 0, id_of(&p, X)));      /* the first residual updates it */
    assert_true(program_reads_after(&p, 3, id_of(&p, H)));      /* by the residual after it */
    assert_false(program_reads_after(&p, 4, id_of(&p, H)));     /* the experts write it next */
    assert_false(program_reads_after(&p, 4, id_of(&p, Q)));     /* attn_qkv of the next layer */
    assert_true(program_reads_after(&p, 1, kv));                /* by attention */
    assert_false(program_reads_after(&p, 2, kv));               /* no other stage of this step */
    assert_false(program_reads_after(&p, 6, id_of(&p, UNITS))); /* workspace of the next layer */
    assert_false(program_reads_after(&p, last, id_of(&p, X)));
    assert_true(program_reads_after(&p, last, id_of(&p, Y))); /* by logits */
    assert_false(program_reads_after(&p, OPS - 1, id_of(&p, TOKENS)));
    tap(&p, X);
    tap(&p, TOKENS);
    assert_true(program_reads_after(&p, last, id_of(&p, X)));
    assert_true(program_reads_after(&p, OPS - 1, id_of(&p, TOKENS)));
    program_free(&p);
}

static void assert_last_layer_rows(const struct program *p, enum rows_needed expected)
{
    const int last_qkv = 1 + (LAYERS - 1) * LAYER_OPS;

    for (int i = 0; i < p->n_ops; i++)
        assert_int_equal(p->ops[i].rows,
                         i > last_qkv && i < last_qkv + LAYER_OPS ? expected : ROWS_ALL);
}

static void test_only_the_last_layer_needs_fewer_rows(void **state)
{
    static const int taps[] = {X, Y};
    struct program p = forward();

    (void)state;
    tap(&p, LOGITS);
    tap(&p, TOKENS);
    program_end(&p);
    assert_last_layer_rows(&p, ROWS_SAMPLED);
    program_free(&p);
    for (int i = 0; i < 2; i++) {
        p = forward();
        tap(&p, taps[i]);
        program_end(&p);
        assert_last_layer_rows(&p, ROWS_ALL);
        program_free(&p);
    }
}

UNIT_MAIN(cmocka_unit_test(test_fields_name_every_tensor),
          cmocka_unit_test(test_a_tensor_has_one_id),
          cmocka_unit_test(test_shapes_tell_tensors_apart),
          cmocka_unit_test(test_arguments_come_back),
          cmocka_unit_test(test_a_range_taps_its_outputs), cmocka_unit_test(test_access),
          cmocka_unit_test(test_reads_after),
          cmocka_unit_test(test_only_the_last_layer_needs_fewer_rows))
