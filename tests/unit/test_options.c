/* Command lines: spelling, values, environment, and what other servers' options do. */
#include "unit.h"

#include <stdlib.h>

#include "cli/options/commands.h"
#include "cli/options/foreign.h"
#include "cli/options/help.h"
#include "cli/options/model_args.h"
#include "base/nearest.h"

struct args {
    bool quiet;
    int port;
    int64_t size_bytes;
    int n_rows;
    struct option_float temperature;
    const char *name;
};

static const struct option_row ROWS[] = {
    {.name = "quiet",
     .aliases = "-q",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct args, quiet),
     .help = "says less"},
    {.name = "port",
     .aliases = "-p,--listen-port,-np",
     .kind = OPTION_INT,
     .offset = offsetof(struct args, port),
     .min = 0,
     .max = 65535,
     .value = "PORT",
     .help = "where"},
    LIMIT_ROW(struct args, n_rows, "row-count", NULL, 1 << 20, "N", "how many"),
    {.name = "size",
     .kind = OPTION_BYTES,
     .offset = offsetof(struct args, size_bytes),
     .min = 0,
     .max = 1e12,
     .value = "BYTES",
     .help = "how much"},
    {.name = "temperature",
     .kind = OPTION_FLOAT,
     .offset = offsetof(struct args, temperature),
     .min = 0,
     .max = 2,
     .value = "T",
     .help = "how warm"},
    {.name = "test-name",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct args, name),
     .value = "NAME",
     .help = "what it is called"},
    {0},
};

static const struct command COMMAND = {
    .name = "try", .summary = "nothing", .usage = "[WORD]", .options = ROWS, .n_positional_max = 1};

static enum osp_status parse(struct args *args, struct positional_args *rest, char **words)
{
    char *argv[16] = {(char *)"try"};
    int argc = 1;

    while (words[argc - 1]) {
        argv[argc] = words[argc - 1];
        argc++;
    }
    *args = (struct args){0};
    return options_parse(&COMMAND, argc, argv, args, rest);
}

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

static void test_spellings(void **state)
{
    static char *const ports[][4] = {{"--port", "80"},
                                     {"--port=80"},
                                     {"-p", "80"},
                                     {"-p80"},
                                     {"-np", "80"},
                                     {"-p=80"},
                                     {"--listen-port", "80"},
                                     {"-q", "-p", "80"},
                                     {"-p", "7", "-p80"}};
    struct positional_args rest;
    struct args args;

    (void)state;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        assert_int_equal(parse(&args, &rest, (char **)ports[i]), OSP_OK);
        assert_int_equal(args.port, 80);
    }
    assert_int_equal(parse(&args, &rest, WORDS("word", "-q")), OSP_OK);
    assert_true(args.quiet);
    assert_int_equal(rest.n, 1);
    assert_string_equal(rest.words[0], "word");
    assert_int_equal(parse(&args, &rest, WORDS("--quiet=false", "--", "-q")), OSP_OK);
    assert_false(args.quiet);
    assert_string_equal(rest.words[0], "-q");
    assert_int_equal(parse(&args, &rest, WORDS("--test-name", "-q")), OSP_OK);
    assert_string_equal(args.name, "-q");
    assert_false(args.quiet);
    assert_int_equal(parse(&args, &rest, WORDS("--test-name=", "-")), OSP_OK);
    assert_string_equal(args.name, "");
    assert_string_equal(rest.words[0], "-");
}

static void test_values(void **state)
{
    struct positional_args rest;
    struct args args;

    (void)state;
    assert_int_equal(parse(&args, &rest, WORDS("--size", "3K")), OSP_OK);
    assert_int_equal(args.size_bytes, 3072);
    assert_int_equal(parse(&args, &rest, WORDS("--size", "2g")), OSP_OK);
    assert_int_equal(args.size_bytes, (int64_t)2 << 30);
    assert_int_equal(parse(&args, &rest, WORDS("--port", "2k", "--row-count", "32K")), OSP_OK);
    assert_int_equal(args.port, 2000);
    assert_int_equal(args.n_rows, 32768);
    assert_int_equal(parse(&args, &rest, WORDS("--row_count=-1")), OSP_OK);
    assert_int_equal(args.n_rows, 0);
    assert_int_equal(parse(&args, &rest, WORDS("--test_name=a_b", "c_d")), OSP_OK);
    assert_string_equal(args.name, "a_b");
    assert_string_equal(rest.words[0], "c_d");
    assert_int_equal(parse(&args, &rest, WORDS("--temperature", "0.5")), OSP_OK);
    assert_true(args.temperature.is_set && args.temperature.value == 0.5);
    assert_int_equal(parse(&args, &rest, WORDS("-q")), OSP_OK);
    assert_false(args.temperature.is_set);
}

static void test_refusals(void **state)
{
    static const struct {
        char *words[4];
        const char *part;
    } cases[] = {
        {{"--prot", "80"}, "--prot: unknown option; the most similar is --port"},
        {{"--por", "80"}, "unknown option"}, /* no abbreviations */
        {{"--quite"}, "the most similar is --quiet"},
        {{"-x"}, "unknown option"},
        {{"--port"}, "--port: needs a value (PORT)"},
        {{"--port", "65536"}, "between 0 and 65535"},
        {{"--port", "-1"}, "between 0 and 65535"},
        {{"--port", "1.5"}, "must be a number"},
        {{"--port", "80x"}, "must be a number"},
        {{"--port", ""}, "must be a number"},
        {{"--size", "3Q"}, "must be a number"},
        {{"--size", "3KB"}, "must be a number"},
        {{"--temperature", "nan"}, "must be a number"},
        {{"--quiet=perhaps"}, "must be true or false"},
        {{"a", "b"}, "b: unexpected argument"},
        {{"--nnodes", "2"}, "only the value 1 is supported"},
        {{"--nnodes"}, "only the value 1 is supported"},
        {{"--row-count", "-2"}, "between -1 and"},
        {{"--temperature", "1k"}, "must be a number"},
        {{"--lora", "a.gguf"}, "--lora is not supported: osprey does not support adapters"},
        {{"--frequency_penalty", "0.1"}, "only the value 0 is supported"},
        {{"--no-lora"}, "unknown option"},
        {{"--no-dtype"}, "unknown option"},
    };
    struct positional_args rest;
    struct args args;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum osp_status st = parse(&args, &rest, (char **)cases[i].words);

        if (st == OSP_OK)
            fail_msg("%s is accepted", cases[i].words[0]);
        if (!strstr(fail_message(), cases[i].part))
            fail_msg("%s: '%s' is not in '%s'", cases[i].words[0], cases[i].part, fail_message());
    }
}

static void test_environment(void **state)
{
    struct positional_args rest;
    struct args args;

    (void)state;
    setenv("OSPREY_PORT", "81", 1);
    setenv("OSPREY_QUIET", "1", 1);
    setenv("OSPREY_TEST_NAME", "from outside", 1);
    assert_int_equal(parse(&args, &rest, WORDS("--port", "82")), OSP_OK);
    assert_int_equal(args.port, 82); /* the command line wins */
    assert_true(args.quiet);
    assert_string_equal(args.name, "from outside");
    setenv("OSPREY_PORT", "many", 1);
    assert_int_equal(parse(&args, &rest, WORDS("--port", "82")), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "environment variable OSPREY_PORT"));
}

/* However it ended: other tests' command lines stand alone. */
static int forget_environment(void **state)
{
    (void)state;
    unsetenv("OSPREY_PORT");
    unsetenv("OSPREY_QUIET");
    unsetenv("OSPREY_TEST_NAME");
    return 0;
}

/* vLLM's name and llama-server's two may say the same thing. */
static void test_kv_cache_types(void **state)
{
    const struct model_args none = {0}, one = {.cache_type_v = "fp8"};
    const struct model_args all = {
        .options.kv_cache_dtype = "bf16", .cache_type_k = "bf16", .cache_type_v = "bf16"};
    const struct model_args two = {.cache_type_k = "bf16", .cache_type_v = "f32"};
    const char *type = "";

    (void)state;
    assert_int_equal(model_args_kv_type(&type, &none), OSP_OK);
    assert_null(type);
    assert_int_equal(model_args_kv_type(&type, &one), OSP_OK);
    assert_string_equal(type, "fp8");
    assert_int_equal(model_args_kv_type(&type, &all), OSP_OK);
    assert_string_equal(type, "bf16");
    assert_int_equal(model_args_kv_type(&type, &two), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "bf16 and f32"));
}

static void test_attention_sinks(void **state)
{
    bool without;

    (void)state;
    assert_int_equal(model_args_sinks(&without, &(struct model_args){0}), OSP_OK);
    assert_false(without);
    assert_int_equal(model_args_sinks(&without, &(struct model_args){.attention_sinks = "on"}),
                     OSP_OK);
    assert_false(without);
    assert_int_equal(model_args_sinks(&without, &(struct model_args){.attention_sinks = "off"}),
                     OSP_OK);
    assert_true(without);
    assert_int_equal(
        model_args_sinks(&without, &(struct model_args){.options = {.no_sinks = true}}), OSP_OK);
    assert_true(without);
    assert_int_equal(model_args_sinks(&without, &(struct model_args){.options = {.no_sinks = true},
                                                                     .attention_sinks = "on"}),
                     OSP_EINVAL);
    assert_int_equal(model_args_sinks(&without, &(struct model_args){.attention_sinks = "yes"}),
                     OSP_EINVAL);
}

static void test_foreign_options(void **state)
{
    struct positional_args rest;
    struct args args;

    (void)state;
    assert_int_equal(
        parse(&args, &rest,
              WORDS("--jinja", "-ngl", "99", "word", "-fa", "--dtype=auto", "-pp", "1")),
        OSP_OK);
    assert_int_equal(rest.n, 1);
    assert_string_equal(rest.words[0], "word");
    assert_int_equal(parse(&args, &rest, WORDS("-fa", "on", "word")), OSP_OK);
    assert_int_equal(rest.n, 1);
    assert_int_equal(parse(&args, &rest, WORDS("-pp", "1", "-p", "5")), OSP_OK);
    assert_int_equal(args.port, 5);
    assert_non_null(foreign_find("--trust-remote-code"));
    assert_null(foreign_find("--trust"));
    assert_ptr_equal(foreign_find("--no-jinja"), foreign_find("--jinja"));
    assert_ptr_equal(foreign_find("--compilation-config.pass_config.x"),
                     foreign_find("--compilation-config"));
    assert_int_equal(parse(&args, &rest, WORDS("-fa", "1", "--compilation-config.level", "3")),
                     OSP_OK);
    assert_int_equal(rest.n, 0);
    assert_int_equal(parse(&args, &rest, WORDS("--repeat-penalty", "1.0", "word")), OSP_OK);
    assert_int_equal(rest.n, 1);
}

static void test_nearest(void **state)
{
    (void)state;
    assert_int_equal(word_distance("", "abc"), 3);
    assert_int_equal(word_distance("kitten", "sitting"), 3);
    assert_int_equal(word_distance("same", "same"), 0);
    assert_true(is_near("srve", word_distance("srve", "serve")));
    assert_true(is_near("chta", word_distance("chta", "chat")));
    assert_false(is_near("pull", word_distance("pull", "eval")));
    assert_false(is_near("--context-length", word_distance("--context-length", "--moe-tile")));
}

/* So does the table of other servers' options. */
static void test_foreign_table_is_sound(void **state)
{
    (void)state;
    for (const struct foreign_option *option = foreign_list(); option->words; option++) {
        assert_non_null(option->why);
        for (const char *one = option->words; *one;) {
            size_t n = strcspn(one, ",");
            char word[64];

            snprintf(word, sizeof word, "%.*s", (int)n, one);
            assert_ptr_equal(foreign_find(word), option);
            one += n + (one[n] == ',');
        }
    }
}

/* Each table names every option once, in words and letters. */
static void test_tables_are_sound(void **state)
{
    (void)state;
    for (int i = 0; i < COMMAND_COUNT; i++)
        for (const struct option_row *row = command_rows(COMMANDS[i]); row->name; row++) {
            char names[160], word[64];

            snprintf(word, sizeof word, "--%s", row->name);
            assert_ptr_equal(options_find(command_rows(COMMANDS[i]), word), row);
            if (strncmp(word, "--no-", 5) != 0) /* --NAME is what osprey does anyway */
                assert_null(foreign_find(word));
            assert_true((row->value == NULL) == (row->kind == OPTION_FLAG));
            assert_non_null(row->help);
            help_option_names(row, names);
            for (const char *alias = row->aliases; alias && *alias;) {
                size_t n = strcspn(alias, ",");

                snprintf(word, sizeof word, "%.*s", (int)n, alias);
                assert_ptr_equal(options_find(command_rows(COMMANDS[i]), word), row);
                /* --NAME may be on anyway, and ignored; --NAME.KEY is one of many keys */
                if (strncmp(word, "--no-", 5) != 0 && !strchr(word, '.'))
                    assert_null(foreign_find(word));
                alias += n + (alias[n] == ',');
            }
        }
}

UNIT_MAIN(cmocka_unit_test(test_spellings), cmocka_unit_test(test_values),
          cmocka_unit_test(test_refusals),
          cmocka_unit_test_teardown(test_environment, forget_environment),
          cmocka_unit_test(test_kv_cache_types), cmocka_unit_test(test_attention_sinks),
          cmocka_unit_test(test_foreign_options), cmocka_unit_test(test_nearest),
          cmocka_unit_test(test_tables_are_sound), cmocka_unit_test(test_foreign_table_is_sound))
