/* Where options come from besides the command line: a file, the environment; and models by their
 * names. */
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/options/commands.h"
#include "cli/options/kernel_json.h"
#include "cli/options/model_args.h"

struct args {
    struct model_args model;
    int port;
    bool quiet;
    const char *api_key;
};

#define T struct args
static const struct option_row ROWS[] = {
    MODEL_PATH_ROWS(T, model),
    MODEL_KERNEL_ROWS(T, model),
    INT_ROW(T, port, "port", "-p", 0, 65535, "PORT", "where"),
    TEXT_ROW(T, api_key, "api-key", NULL, "KEY", "what clients send"),
    FLAG_ROW(T, quiet, "quiet", "-q", "says less"),
    {0},
};
#undef T

static const struct command COMMAND = {
    .name = "try", .summary = "nothing", .usage = "[WORD]", .options = ROWS, .n_positional_max = 1};

static const char *device_option(const struct args *args, const char *name)
{
    const struct option_pairs *pairs = &args->model.device_options;

    for (int i = 0; i < pairs->n; i++)
        if (strcmp(pairs->list[i].name, name) == 0)
            return pairs->list[i].value;
    return "not set";
}

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/osprey-options-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static void run_in_folder(const char *what)
{
    char *line = mem_printf("cd '%s' && %s", folder, what);

    assert_int_equal(system(line), 0);
    free(line);
}

static int remove_folder(void **state)
{
    (void)state;
    run_in_folder("rm -rf \"$PWD\"");
    return 0;
}

/* Gives the path to free(). */
static char *write_file(const char *name, const char *text)
{
    char *path = path_join(folder, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

static enum osp_status parse(struct args *args, char **words)
{
    char *argv[16] = {(char *)"try"};
    struct positional_args rest;
    int argc = 1;

    for (; words[argc - 1]; argc++)
        argv[argc] = words[argc - 1];
    *args = (struct args){0};
    return options_parse(&COMMAND, argc, argv, args, &rest);
}

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

static void test_file(void **state)
{
    static const char text[] = "---\n"
                               "# as vLLM has it\n"
                               "model: /models/a b  # where\n"
                               "port:   8080\r\n"
                               "\n"
                               "api_key: 'it''s # \"this\"'\n"
                               "\"tokenizer\": x\n";
    char *path = write_file("a.yaml", text);
    struct args args;

    (void)state;
    assert_int_equal(parse(&args, WORDS((char *)"--config", path)), OSP_EINVAL); /* a quoted name */
    assert_non_null(strstr(fail_message(), "a.yaml, line 7: "));
    free(path);

    path = write_file("a.yaml", "model: /models/a b  # where\nport:   8080\r\n"
                                "api_key: 'it''s # \"this\"'\nquiet: true\n"
                                "tokenizer: \"C:\\\\a \\\"b\\\" #\"   # a comment\n"
                                "max-num-seqs: 4\n"         /* other commands have it */
                                "trust-remote-code: true\n" /* other servers have it */
                                "enable-lora: false\n");    /* and what is off is off */
    assert_int_equal(parse(&args, WORDS((char *)"--config", path)), OSP_OK);
    assert_string_equal(args.model.options.path, "/models/a b");
    assert_int_equal(args.port, 8080);
    assert_string_equal(args.api_key, "it's # \"this\"");
    assert_string_equal(args.model.options.tokenizer, "C:\\a \"b\" #");
    assert_true(args.quiet);
    free(path);
}

static void test_file_faults(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"port: many", ".yaml: --port many: must be a number"},
        {"quiet: true\nports: 1",
         ".yaml, line 2: --ports: unknown option; the most similar is --port"},
        {"port:", ".yaml, line 1: the value is missing"},
        {"port:80", ".yaml, line 1: expected name: value"},
        {"just words", ".yaml, line 1: expected name: value"},
        {"model:\n  path: x", ".yaml, line 1: the value is missing"},
        {"quiet: true\n  port: 1", ".yaml, line 2: lists and nested values are not supported"},
        {"- port", ".yaml, line 1: lists and nested"},
        {"api-key: |", ".yaml, line 1: only values on one line"},
        {"api-key: 'x", ".yaml, line 1: the closing quote is missing"},
        {"api-key: 'x' y", ".yaml, line 1: unexpected text after"},
        {"config: other.yaml", ".yaml, line 1: config: a --config file cannot name"},
        {"enable-lora: true", "merge them into the weights"},
    };
    struct args args;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = write_file("b.yaml", cases[i].text);

        assert_int_not_equal(parse(&args, WORDS((char *)"--config", path)), OSP_OK);
        if (!strstr(fail_message(), cases[i].error))
            fail_msg("'%s' is not in '%s'", cases[i].error, fail_message());
        free(path);
    }
    assert_int_not_equal(parse(&args, WORDS((char *)"--config=/nowhere/c.yaml")), OSP_OK);
    assert_non_null(strstr(fail_message(), "/nowhere/c.yaml"));
    assert_int_equal(parse(&args, WORDS((char *)"--config")), OSP_EINVAL);
}

/* Flag over environment over file. */
static void test_what_wins(void **state)
{
    char *path = write_file("c.yaml", "port: 1\napi-key: file\ntokenizer: file\n");
    struct args args;

    (void)state;
    setenv("OSPREY_CONFIG", path, 1);
    setenv("OSPREY_PORT", "2", 1);
    setenv("OSPREY_API_KEY", "variable", 1);
    assert_int_equal(parse(&args, WORDS((char *)"--port", (char *)"3")), OSP_OK);
    assert_int_equal(args.port, 3);
    assert_string_equal(args.api_key, "variable");
    assert_string_equal(args.model.options.tokenizer, "file");
    free(path);
    path = write_file("d.yaml", "tokenizer: other\n");
    assert_int_equal(parse(&args, WORDS((char *)"--config", path)),
                     OSP_OK); /* over OSPREY_CONFIG */
    assert_string_equal(args.model.options.tokenizer, "other");
    assert_int_equal(args.port, 2);
    free(path);
    unsetenv("OSPREY_CONFIG");
    unsetenv("OSPREY_PORT");
    unsetenv("OSPREY_API_KEY");
}

static void test_variables_of_others(void **state)
{
    struct args args;

    (void)state;
    setenv("VLLM_MXFP4_BACKEND", "CUTLASS", 1);
    setenv("VLLM_ATTENTION_BACKEND", "FLASHINFER", 1);
    setenv("VLLM_MXFP4_UNHEARD_OF", "1", 1); /* named on standard error */
    setenv("VLLM_PORT", "99", 1);            /* vLLM's own business is not the same */
    setenv("VLLM_API_KEY", "theirs", 1);
    assert_int_equal(parse(&args, WORDS(NULL)), OSP_OK);
    assert_string_equal(device_option(&args, "mxfp4-backend"), "CUTLASS");
    assert_string_equal(device_option(&args, "attention-backend"), "FLASHINFER");
    assert_string_equal(args.api_key, "theirs");
    assert_int_equal(args.port, 0);
    setenv("OSPREY_MXFP4_BACKEND", "mma", 1);
    setenv("OSPREY_API_KEY", "ours", 1);
    assert_int_equal(parse(&args, WORDS(NULL)), OSP_OK);
    assert_string_equal(device_option(&args, "mxfp4-backend"), "mma");
    assert_string_equal(args.api_key, "ours");
    unsetenv("VLLM_MXFP4_BACKEND");
    unsetenv("VLLM_ATTENTION_BACKEND");
    unsetenv("VLLM_MXFP4_UNHEARD_OF");
    unsetenv("VLLM_PORT");
    unsetenv("VLLM_API_KEY");
    unsetenv("OSPREY_MXFP4_BACKEND");
    unsetenv("OSPREY_API_KEY");
}

static void test_attention_config(void **state)
{
    struct option_pairs pairs;
    struct args args;
    char *found;

    (void)state;
    assert_int_equal(kernel_json_backend(&found, "{\"backend\": \"FLASHINFER\", \"x\": 1}"),
                     OSP_OK);
    assert_string_equal(found, "FLASHINFER");
    free(found);
    assert_int_equal(kernel_json_backend(&found, "{\"backend\": null}"), OSP_OK);
    assert_null(found);
    assert_int_equal(kernel_json_backend(&found, "{\"backend\": 1}"), OSP_EINVAL);
    assert_int_equal(kernel_json_backend(&found, "[]"), OSP_EINVAL);
    assert_int_equal(kernel_json_backend(&found, "{"), OSP_EINVAL);

    assert_int_equal(parse(&args, WORDS((char *)"--attention-config.backend=mma")), OSP_OK);
    assert_string_equal(device_option(&args, "attention-backend"), "mma");
    args.model.attention_config = "{\"backend\": \"mma\"}";
    assert_int_equal(model_args_device_options(&pairs, &args.model), OSP_OK);
    assert_int_equal(pairs.n, 1);
    assert_string_equal(pairs.list[0].value, "mma");
    args.model.attention_config = "{\"backend\": \"simt\"}";
    assert_int_equal(model_args_device_options(&pairs, &args.model), OSP_EINVAL);
    args.model.device_options.n = 0;
    assert_int_equal(model_args_device_options(&pairs, &args.model), OSP_OK);
    assert_string_equal(pairs.list[0].name, "attention-backend");
    assert_string_equal(pairs.list[0].value, "simt");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

UNIT_MAIN(IN_FOLDER(test_file), IN_FOLDER(test_file_faults), IN_FOLDER(test_what_wins),
          cmocka_unit_test(test_variables_of_others), cmocka_unit_test(test_attention_config))
