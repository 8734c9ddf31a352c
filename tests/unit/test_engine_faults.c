/* The engine on a device that fails: a stage that returns an error, and a sample that gives no
 * token. */
#include "engine_fixture.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "engine/core/model_api.h"
#include "stage_hook.h"

enum { STEPS_BEFORE_FAULT = 3 };

static const struct backend_ops *real;
static struct backend_ops faulty;
static atomic_int n_steps;
static atomic_bool is_constrained; /* the device waits: nothing fails before all requests are in */

static enum osp_status failing_run(struct backend *be, struct compiled *c, const struct batch *b,
                                   uint64_t *ticket)
{
    while (atomic_load(&is_constrained))
        sched_yield();
    if (atomic_fetch_add(&n_steps, 1) == STEPS_BEFORE_FAULT)
        return fail(OSP_EDEVICE, "the test pulled the plug");
    return real->run(be, c, b, ticket);
}

static enum osp_status held_run(struct backend *be, struct compiled *c, const struct batch *b,
                                uint64_t *ticket)
{
    while (atomic_load(&is_constrained))
        sched_yield();
    return real->run(be, c, b, ticket);
}

/* The first of several samples finds no token allowed. */
static void fail_sample(enum stage stage, const union stage_args *a, const struct batch *b)
{
    (void)b;
    if (stage == STAGE_sample && atomic_fetch_add(&n_steps, 1) == STEPS_BEFORE_FAULT)
        ((int32_t *)a->sample.tokens.data)[0] = -1;
}

static struct osp_model *faulty_model(void)
{
    struct osp_model *model = fixture_model((struct osp_model_options){.context_tokens_max = 512});

    atomic_store(&n_steps, 0);
    real = model->model->ops;
    faulty = *real;
    model->model->ops = &faulty;
    return model;
}

static struct osp_request *submit(struct osp_engine *engine)
{
    static const int32_t prompt[] = {100, 101, 102};
    struct osp_request_options opt = {.tokens_max = 40, .raw = true, .ignore_stop_tokens = true};
    struct osp_request *r;

    assert_int_equal(osp_submit_tokens(&r, engine, prompt, 3, &opt), OSP_OK);
    return r;
}

static void test_a_failing_device_ends_everything(void **state)
{
    struct osp_model *model = faulty_model();
    struct osp_engine *engine;
    struct osp_request *a, *b, *refused;
    struct osp_request_options opt = {.tokens_max = 1};
    struct osp_engine_health health;
    struct heard heard[2];
    int32_t id = 100;

    (void)state;
    faulty.run = failing_run;
    engine = fixture_engine(model);
    assert_true(osp_engine_alive(engine));
    atomic_store(&is_constrained, true);
    a = submit(engine);
    b = submit(engine);
    atomic_store(&is_constrained, false);
    hear_all(&heard[0], a);
    hear_all(&heard[1], b);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(heard[i].last.kind, OSP_EVENT_ERROR);
        assert_int_equal(heard[i].last.status, OSP_EDEVICE);
        assert_non_null(strstr(heard[i].error, "the test pulled the plug"));
        heard_release(&heard[i]);
    }
    assert_false(osp_engine_alive(engine));
    osp_engine_get_health(engine, &health);
    assert_int_equal(health.state, OSP_ENGINE_DEAD);
    assert_non_null(strstr(health.reason, "the test pulled the plug"));
    assert_int_equal(osp_submit_tokens(&refused, engine, &id, 1, &opt), OSP_EUNAVAILABLE);
    osp_engine_close(engine);
    osp_model_close(model);
}

static void test_a_failed_draw_ends_one(void **state)
{
    struct osp_model *model = faulty_model();
    struct osp_engine *engine;
    struct osp_request *a, *b;
    struct heard heard[2];

    (void)state;
    stage_hook_set(model->model, fail_sample);
    engine = fixture_engine(model);
    a = submit(engine);
    b = submit(engine);
    hear_all(&heard[0], a);
    hear_all(&heard[1], b);
    assert_int_equal(heard[0].last.kind, OSP_EVENT_ERROR);
    assert_int_equal(heard[0].last.status, OSP_EDEVICE);
    assert_non_null(strstr(heard[0].error, "not finite"));
    assert_int_equal(heard[1].last.kind, OSP_EVENT_DONE);
    assert_int_equal(heard[1].last.usage.n_generated_tokens, 40);
    assert_true(osp_engine_alive(engine));
    for (int i = 0; i < 2; i++)
        heard_release(&heard[i]);
    osp_engine_close(engine);
    osp_model_close(model);
}

/* A step that does not end: healthy for 2 seconds, then stuck, and healthy again once it has
 * ended. */
static void test_a_stuck_step_is_told(void **state)
{
    struct osp_model *model = faulty_model();
    struct osp_engine *engine;
    struct osp_engine_health health;
    struct osp_request *r;
    struct heard heard;
    uint64_t begin_ns;

    (void)state;
    faulty.run = held_run;
    engine = fixture_engine(model);
    hear_all(&heard, submit(engine)); /* the first steps teach the usual time */
    heard_release(&heard);
    osp_engine_get_health(engine, &health);
    assert_int_equal(health.state, OSP_ENGINE_OK);
    atomic_store(&is_constrained, true);
    begin_ns = clock_ns();
    r = submit(engine);
    do {
        sched_yield();
        osp_engine_get_health(engine, &health);
        assert_true(health.state == OSP_ENGINE_OK || clock_ns() - begin_ns >= 2000000000u);
    } while (health.state == OSP_ENGINE_OK);
    assert_in_range(clock_ns() - begin_ns, 2000000000u, 4000000000u);
    assert_int_equal(health.state, OSP_ENGINE_WEDGED);
    assert_non_null(strstr(health.reason, "the limit for its rows is 2.0 s"));
    assert_true(osp_engine_alive(engine));
    atomic_store(&is_constrained, false);
    hear_all(&heard, r);
    assert_int_equal(heard.last.kind, OSP_EVENT_DONE);
    osp_engine_get_health(engine, &health);
    assert_int_equal(health.state, OSP_ENGINE_OK);
    assert_string_equal(health.reason, "");
    heard_release(&heard);
    osp_engine_close(engine);
    osp_model_close(model);
}

UNIT_MAIN(cmocka_unit_test(test_a_failing_device_ends_everything),
          cmocka_unit_test(test_a_stuck_step_is_told),
          cmocka_unit_test(test_a_failed_draw_ends_one))
