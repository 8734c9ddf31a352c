/* JSON schema -> type, and the tools section around it. */
#include "unit.h"

#include "harmony_case.h"
#include "text/harmony/harmony_types.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* The type of a schema, or "ERROR message". */
static char *type_of(const char *schema)
{
    struct buf out;
    bool absent = false;

    buf_init(&out, CASE_BYTES_MAX);
    if (harmony_type_append(schema, &out, &absent) != OSP_OK) {
        buf_clear(&out);
        buf_printf(&out, "ERROR %s", fail_message());
    }
    if (absent)
        buf_puts(&out, "ABSENT");
    buf_puts(&out, "");
    return buf_take(&out);
}

static void check_type(const char *schema, const char *want)
{
    char *type = type_of(schema);

    if (strcmp(type, want) != 0)
        fail_msg("%s\ngives  %s\nwanted %s", schema, type, want);
    free(type);
}

/* One property "p" with this schema. */
static void check_property(const char *property, const char *want)
{
    char schema[1024], type[1024];

    snprintf(schema, sizeof schema, "{\"type\":\"object\",\"properties\":{\"p\":%s}}", property);
    snprintf(type, sizeof type, "{\n%s}", want);
    check_type(schema, type);
}

static void test_simple_types(void **state)
{
    static const char *const rows[][2] = {
        {"{\"type\":\"string\"}", "string"},
        {"{\"type\":\"number\"}", "number"},
        {"{\"type\":\"integer\"}", "number"},
        {"{\"type\":\"boolean\"}", "boolean"},
        {"{\"type\":\"null\"}", "any"},
        {"{\"type\":\"nonsense\"}", "any"},
        {"{\"type\":7}", "any"},
        {"{}", "any"},
        {"{\"enum\":[\"a\"]}", "any"},
        {"{\"anyOf\":[{\"type\":\"string\"}]}", "any"},
        {"{\"$ref\":\"#/definitions/x\"}", "any"},
        {"{\"type\":\"string\",\"enum\":[\"a\",\"b\"]}", "\"a\" | \"b\""},
        {"{\"type\":\"string\",\"enum\":[]}", "string"},
        {"{\"type\":\"string\",\"enum\":[1,null]}", "string"},
        {"{\"type\":\"string\",\"enum\":[1,\"a\"]}", "\"a\""},
        {"{\"type\":[\"string\",\"null\"]}", "string | null"},
        {"{\"type\":[\"integer\",\"boolean\"]}", "number | boolean"},
        {"{\"type\":[]}", "any"},
        {"{\"type\":[1]}", "any"},
        {"{\"type\":\"array\"}", "Array<any>"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", "string[]"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"]}}",
         "\"x\" | \"y\"[]"},
        {"{\"type\":\"array\",\"items\":null}", "any[]"},
        {"{\"type\":\"array\",\"items\":true}", "any[]"},
        {"{\"type\":\"object\"}", "{\n}"},
        {"{\"type\":\"object\",\"properties\":[]}", "{\n}"},
        {"{\"type\":\"object\",\"description\":\"d\"}", "// d\n{\n}"},
        {"{\"oneOf\":[]}", ""},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"number\",\"nullable\":true}]}",
         "\n | string\n | number | null"},
        {"{\"oneOf\":[{\"type\":\"string\",\"description\":\"d\",\"default\":\"v\"}]}",
         "\n | string // d default: \"v\""},
        {"{\"oneOf\":[{\"type\":\"string\",\"enum\":[\"v\"],\"default\":\"v\"}]}",
         "\n | \"v\" // default: \"v\""},
        {"null", "ABSENT"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_type(rows[i][0], rows[i][1]);
}

static void test_properties(void **state)
{
    static const char *const rows[][2] = {
        {"{\"type\":\"string\"}", "p?: string,\n"},
        {"true", "p?: any,\n"},
        {"{\"type\":\"string\",\"nullable\":true}", "p?: string | null,\n"},
        {"{\"type\":\"string\",\"nullable\":\"yes\"}", "p?: string,\n"},
        {"{\"type\":[\"string\",\"null\"],\"nullable\":true}", "p?: string | null,\n"},
        {"{\"type\":\"string\",\"enum\":[\"nullify\"],\"nullable\":true}", "p?: \"nullify\",\n"},
        {"{\"type\":\"string\",\"title\":\"T\",\"description\":\"D\",\"examples\":[\"e\",1,\"f\"]}",
         "// T\n//\n// D\n// Examples:\n// - \"e\"\n// - \"f\"\np?: string,\n"},
        {"{\"type\":\"string\",\"examples\":[]}", "p?: string,\n"},
        {"{\"type\":\"string\",\"description\":\"one\\ntwo\"}", "// one\ntwo\np?: string,\n"},
        {"{\"type\":\"string\",\"default\":\"a \\\"b\\\"\"}",
         "p?: string, // default: \"a \"b\"\"\n"},
        {"{\"type\":\"string\",\"enum\":[\"a\"],\"default\":\"a\"}", "p?: \"a\", // default: a\n"},
        {"{\"type\":\"number\",\"default\":null}", "p?: number, // default: null\n"},
        {"{\"type\":\"object\",\"default\":{\"b\":[1,true],\"a\":\"\\n\"}}",
         "p?: {\n    }, // default: {\"b\":[1,true],\"a\":\"\\n\"}\n"},
        {"{\"oneOf\":7,\"description\":\"D\",\"default\":1}", "p?: any,\n"},
        {"{\"oneOf\":[{\"type\":\"string\",\"description\":\"D\"},{\"type\":\"null\","
         "\"description\":"
         "\"E\"}],\"description\":\"D\"}",
         "p?:\n | string\n | any // E\n,\n"},
        {"{\"oneOf\":[{\"type\":\"string\",\"description\":\"A\"},{\"type\":\"number\","
         "\"description\":"
         "\"D\"}],\"description\":\"D\",\"title\":\"T\"}",
         "// T\n//\n// D\np?:\n | string\n | number\n,\n"},
        {"{\"oneOf\":[{\"type\":\"string\",\"description\":\"A\",\"enum\":[\"x\"],\"default\":"
         "\"x\"}]}",
         "p?:\n | \"x\" // A default: x\n,\n"},
        {"{\"oneOf\":[],\"enum\":[\"x\"],\"default\":\"x\"}", "// default: x\np?:\n,\n"},
        {"{\"oneOf\":[],\"default\":\"x\"}", "// default: \"x\"\np?:\n,\n"},
        {"{\"type\":\"object\",\"description\":\"D\",\"properties\":{\"q\":{\"type\":\"number\"}}}",
         "// D\np?:     // D\n{\n    q?: number,\n    },\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_property(rows[i][0], rows[i][1]);
}

/* Numbers in the form of serde_json. */
static void test_default_numbers(void **state)
{
    static const char *const rows[][2] = {
        {"0", "0"},
        {"-7", "-7"},
        {"0.0", "0.0"},
        {"-0.0", "-0.0"},
        {"0.1", "0.1"},
        {"1.0", "1.0"},
        {"1.50", "1.5"},
        {"-2.25", "-2.25"},
        {"100.0", "100.0"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"1e15", "1000000000000000.0"},
        {"1e16", "1e16"},
        {"1.5e300", "1.5e300"},
        {"1e-5", "0.00001"},
        {"1e-6", "1e-6"},
        {"0.00012", "0.00012"},
        {"1.25e-7", "1.25e-7"},
        {"5e-324", "5e-324"},
        {"9007199254740993", "9007199254740993"},
        {"1.7976931348623157e308", "1.7976931348623157e308"},
        {"123456789012345680.0", "1.2345678901234568e17"},
    };
    char property[128], want[128];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(property, sizeof property, "{\"type\":\"number\",\"default\":%s}", rows[i][0]);
        snprintf(want, sizeof want, "p?: number, // default: %s\n", rows[i][1]);
        check_property(property, want);
    }
}

/* A verified sample that combines most cases above. */
static void test_nested_sample(void **state)
{
    check_type(
        "{\"type\":\"object\",\"properties\":{\"filter\":{\"type\":\"object\",\"description\":"
        "\"Filter\",\"properties\":{\"min\":{\"type\":\"integer\",\"default\":0},\"tags\":{"
        "\"type\":"
        "\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"]}},\"where\":{\"type\":"
        "\"object\",\"properties\":{\"k\":{\"type\":\"string\"}}}},\"required\":[\"min\"]},\"any\":"
        "{"
        "\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null},\"u\":{\"type\":["
        "\"string\",\"null\"],\"description\":\"U\"},\"o\":{\"type\":\"object\"},\"l\":{\"type\":"
        "\"array\"}},\"required\":[\"filter\"]}",
        "{\n"
        "// Filter\n"
        "filter:     // Filter\n"
        "{\n"
        "    min: number, // default: 0\n"
        "    tags?: \"x\" | \"y\"[],\n"
        "    where?: {\n"
        "        k?: string,\n"
        "        },\n"
        "    },\n"
        "any?: any, // default: null\n"
        "// U\n"
        "u?: string | null,\n"
        "o?: {\n"
        "    },\n"
        "l?: Array<any>,\n"
        "}");
    (void)state;
}

static void test_bad_schemas(void **state)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "\"string\"",
                                      "1",
                                      "true",
                                      "{} {}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"type\":\"\xff\"}",
                                      "{'type':'object'}"};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *type = type_of(bad[i]);

        if (strncmp(type, "ERROR", 5) != 0)
            fail_msg("%s gives %s", bad[i], type);
        free(type);
    }
}

/* n nested levels of "items"; one level above the limit fails. */
static char *type_of_nested(int n)
{
    struct buf schema;
    char *type;

    buf_init(&schema, CASE_BYTES_MAX);
    for (int i = 1; i < n; i++)
        buf_puts(&schema, "{\"type\":\"array\",\"items\":");
    buf_puts(&schema, "{\"type\":\"string\"}");
    for (int i = 1; i < n; i++)
        buf_puts(&schema, "}");
    type = type_of(buf_text(&schema));
    buf_release(&schema);
    return type;
}

static void test_depth(void **state)
{
    char *deepest = type_of_nested(TYPE_DEPTH_MAX);
    char *deeper = type_of_nested(TYPE_DEPTH_MAX + 1);
    char *deep = type_of_nested(2000);

    (void)state;
    assert_int_equal(strncmp(deepest, "string[][]", 10), 0);
    assert_non_null(strstr(deeper, "nests deeper than the limit of 64"));
    assert_non_null(strstr(deep, "nests deeper than the limit of 64"));
    free(deepest);
    free(deeper);
    free(deep);
}

/* A hundred thousand properties, all required, do not take quadratic time. */
static void test_many_properties(void **state)
{
    struct buf schema;
    char *type;

    (void)state;
    buf_init(&schema, CASE_BYTES_MAX);
    buf_puts(&schema, "{\"type\":\"object\",\"required\":[\"p0\"");
    for (int i = 1; i < 100000; i++)
        buf_printf(&schema, ",\"p%d\"", i);
    buf_puts(&schema, "],\"properties\":{\"p0\":{}");
    for (int i = 1; i < 100000; i++)
        buf_printf(&schema, ",\"p%d\":{}", i);
    buf_puts(&schema, "}}");
    type = type_of(buf_text(&schema));
    assert_non_null(strstr(type, "\np99999: any,\n}"));
    free(type);
    buf_release(&schema);
}

/* Deeply indented properties grow forty-fold; the type is limited, too. */
static void test_limits(void **state)
{
    struct buf schema;
    struct harmony_tool tool = {"f", NULL, NULL};
    struct harmony_namespace functions = {.name = "functions", .tools = &tool, .n_tools = 1};
    struct buf out;
    char *type;

    (void)state;
    buf_init(&schema, CASE_BYTES_MAX);
    for (int i = 0; i < 60; i++)
        buf_puts(&schema, "{\"type\":\"object\",\"properties\":{\"p\":");
    buf_puts(&schema, "{\"type\":\"object\",\"properties\":{\"p\":{}");
    for (int i = 0; i < 300000; i++)
        buf_printf(&schema, ",\"%x\":{}", (unsigned)i);
    buf_puts(&schema, "}}");
    for (int i = 0; i < 60; i++)
        buf_puts(&schema, "}}");
    tool.parameters_json = buf_text(&schema);
    buf_init(&out, SIZE_MAX / 2);
    assert_int_equal(harmony_render_tools(&functions, 1, &out), OSP_ELIMIT);
    assert_non_null(
        strstr(fail_message(), "functions.f: parameters: the type of a function: exceeds"));
    buf_release(&out);
    while (schema.size_bytes <= TYPE_SCHEMA_BYTES_MAX)
        buf_puts(&schema, "                                ");
    type = type_of(buf_text(&schema));
    assert_non_null(strstr(type, "ERROR the schema has 4194"));
    free(type);
    buf_release(&schema);
}

static void check_tools(const struct harmony_namespace *namespaces, size_t n, const char *want)
{
    struct buf out;

    buf_init(&out, CASE_BYTES_MAX);
    assert_int_equal(harmony_render_tools(namespaces, n, &out), OSP_OK);
    assert_string_equal(buf_text(&out), want);
    buf_release(&out);
}

/* Namespaces are ordered by name; descriptions are rendered line by line. */
static void test_tools_section(void **state)
{
    static const struct harmony_tool tools[] = {{"a", "one\r\ntwo\n\nfour\n", NULL},
                                                {"b", "", "null"},
                                                {"c", NULL, "{\"type\":\"object\"}"}};
    static const struct harmony_namespace namespaces[] = {
        {.name = "plain", .description = "line\n\nline"},
        {.name = "functions", .tools = tools, .n_tools = 3},
        {.name = "bare"},
    };

    (void)state;
    check_tools(namespaces, 3,
                "# Tools\n\n## bare\n\n\n## functions\n\nnamespace functions {\n\n"
                "// one\n// two\n// \n// four\ntype a = () => any;\n\n"
                "type b = () => any;\n\n"
                "type c = (_: {\n}) => any;\n\n"
                "} // namespace functions\n\n## plain\n\nline\n\nline");
}

static void test_bad_tools_are_named(void **state)
{
    static const struct harmony_tool bad_schema = {"get_weather", NULL, "{\"type\":"};
    static const struct harmony_tool bad_name = {"get weather", NULL, NULL};
    struct harmony_namespace functions = {.name = "functions", .tools = &bad_schema, .n_tools = 1};
    struct buf out;

    (void)state;
    buf_init(&out, CASE_BYTES_MAX);
    assert_int_equal(harmony_render_tools(&functions, 1, &out), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "functions.get_weather: parameters: not valid JSON"));
    functions.tools = &bad_name;
    assert_int_equal(harmony_render_tools(&functions, 1, &out), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "\"get weather\""));
    buf_release(&out);
}

static void test_tools_limit(void **state)
{
    static const struct harmony_tool tool = {"f", "0123456789", NULL};
    const struct harmony_namespace functions = {.name = "functions", .tools = &tool, .n_tools = 1};
    struct buf out;

    (void)state;
    buf_init(&out, 50);
    assert_int_equal(harmony_render_tools(&functions, 1, &out), OSP_ELIMIT);
    buf_release(&out);
}

UNIT_MAIN(cmocka_unit_test(test_simple_types), cmocka_unit_test(test_properties),
          cmocka_unit_test(test_default_numbers), cmocka_unit_test(test_nested_sample),
          cmocka_unit_test(test_bad_schemas), cmocka_unit_test(test_depth),
          cmocka_unit_test(test_many_properties), cmocka_unit_test(test_tools_section),
          cmocka_unit_test(test_bad_tools_are_named), cmocka_unit_test(test_limits),
          cmocka_unit_test(test_tools_limit))
