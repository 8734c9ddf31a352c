/* Options that devices export: their list, the check of names and values, and the public API. The
 * CPU's table stands for all; tests/tools/test_device_options.py has a plug-in's. */
#include "unit.h"

#include <stdlib.h>

#include "backend/device_options.h"
#include "osprey_tools.h"

static enum osp_status check(const char *name, const char *value)
{
    const struct device_option option = {name, value};

    return device_options_check(&(struct device_options){.n = 1, .list = &option}, "cpu");
}

static void refuses(const char *name, const char *value, const char *message)
{
    assert_int_equal(check(name, value), OSP_EUNSUPPORTED);
    if (strstr(fail_message(), message) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", message, fail_message());
}

static void test_check(void **state)
{
    (void)state;
    assert_int_equal(check("mxfp4-backend", "auto"), OSP_OK);
    assert_int_equal(check("mxfp4-backend", "AUTO"), OSP_OK);
    assert_int_equal(check("mxfp4-backend", "CUTLASS"), OSP_OK);
    assert_int_equal(check("mxfp4-backend", "cutlass"), OSP_OK);
    assert_int_equal(check("mxfp4-activation", "bf16"), OSP_OK);
    assert_int_equal(check("an-option-of-another-device", "auto"), OSP_OK);
    refuses("mxfp4-backend", "wgmma",
            "--mxfp4-backend wgmma: the device cpu accepts auto, MARLIN, TRITON, CUTLASS, TRTLLM, "
            "TRTLLM_MXFP8; other values need --device cuda");
    refuses("moe-tile", "64x128", "--moe-tile 64x128: the device cpu accepts auto; ");
    refuses("attention-backend", "CUTLASS", "accepts auto, FLASH_ATTN, FLASHINFER, ");
    refuses("an-option-of-another-device", "3",
            "--an-option-of-another-device 3: the device cpu has no such option");
}

static void test_last_value_counts(void **state)
{
    static const struct device_option list[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
    const struct device_options o = {.n = 3, .list = list};

    (void)state;
    assert_string_equal(device_option_value(&o, "a"), "3");
    assert_string_equal(device_option_value(&o, "b"), "2");
    assert_null(device_option_value(&o, "c"));
}

/* Each name once, with all that a help text needs. */
static void test_list(void **state)
{
    struct osp_device_option_info o, other;
    int n = 0;

    (void)state;
    for (; osp_device_option_get(n, &o); n++) {
        assert_non_null(o.metavar);
        assert_non_null(o.help);
        assert_int_equal(strncmp(o.values, o.initial, strlen(o.initial)), 0);
        for (int i = 0; i < n && osp_device_option_get(i, &other); i++)
            assert_string_not_equal(o.name, other.name);
    }
    assert_true(n >= 4);
    assert_false(osp_device_option_get(n, &o));
}

static enum osp_status open_with(const struct osp_device_option *list, int n, const char *member)
{
    struct osp_model *model;
    const struct osp_model_options opt = {
        .device = "cpu", .moe_tile = member, .device_options = list, .n_device_options = n};
    const enum osp_status st = osp_model_open(&model, &opt);

    if (st == OSP_OK)
        osp_model_close(model);
    return st;
}

/* The list, and the members of osp_model_options that came before it. */
static void test_public_api(void **state)
{
    static const struct osp_device_option right[] = {{"moe-tile", "auto"}};
    static const struct osp_device_option wrong[] = {{"moe-tile", "64x128"}};
    static const struct osp_device_option nameless[] = {{NULL, "64x128"}};

    (void)state;
    setenv("OSPREY_MODEL_DIR", "models/osprey-nano", 0);
    assert_int_equal(open_with(right, 1, NULL), OSP_OK);
    assert_int_equal(open_with(right, 1, "auto"), OSP_OK);
    assert_int_equal(open_with(wrong, 1, NULL), OSP_EUNSUPPORTED);
    assert_int_equal(open_with(NULL, 0, "64x128"), OSP_EUNSUPPORTED);
    assert_non_null(strstr(osp_error(), "--moe-tile 64x128: the device cpu accepts auto"));
    assert_int_equal(open_with(nameless, 1, NULL), OSP_EINVAL);
    assert_int_equal(open_with(NULL, 1, NULL), OSP_EINVAL);
    assert_int_equal(open_with(right, -1, NULL), OSP_EINVAL);
    assert_int_equal(open_with(right, OSP_DEVICE_OPTIONS_MAX + 1, NULL), OSP_EINVAL);
}

UNIT_MAIN(cmocka_unit_test(test_check), cmocka_unit_test(test_last_value_counts),
          cmocka_unit_test(test_list), cmocka_unit_test(test_public_api))
