/* Answers with calls, constrained over the published vocabulary. Checks that the tokens which
 * gpt-oss writes are allowed, one by one, in both header orders, and measures the cost of each
 * token (accepting it and computing the mask for the next one). Fails above a median of 50 us or 1
 * ms at 99.9 %, unless CHECK_UNTIMED is set.
 *
 *   check_calls [TOKENIZER] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "engine/grammar/answer_grammar.h"

enum {
    ROUNDS = 40,
    COSTS_MAX = 1 << 16,
    TEXT_BYTES_MAX = 1 << 20,
    MEDIAN_NS_MAX = 50000,
    RARE_NS_MAX = 1000000 /* 99.9 of 100 */
};

#define ARGUMENTS                                                                                  \
    "{\"city\":\"São Paulo\",\"days\":3,\"unit\": \"celsius\", \"details\": {\"wind\":true,"      \
    "\"notes\":[\"at noon\",\"in the evening\"]}}"

static const char published[] = "tests/golden/tokenizer/o200k_base.tiktoken";
static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":"
    "\"integer\",\"minimum\":1,\"maximum\":16},\"unit\":{\"enum\":[\"celsius\",\"fahrenheit\"]},"
    "\"details\":{\"type\":\"object\",\"properties\":{\"wind\":{\"type\":\"boolean\"},\"notes\":{"
    "\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":[\"wind\",\"notes\"]}},"
    "\"required\":[\"city\",\"days\",\"unit\",\"details\"]}";

/* Text before and after the function's name. */
static const struct {
    const char *before, *behind;
} answers[] = {
    {"<|channel|>analysis<|message|>They ask for the weather. Let me look it up: \"São Paulo\"."
     "<|end|><|start|>assistant to=functions.",
     "<|channel|>commentary <|constrain|>json<|message|>" ARGUMENTS "<|call|>"},
    {"<|channel|>analysis<|message|>I look it up.<|end|><|start|>assistant<|channel|>commentary"
     "<|message|>I look up the weather first.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.",
     " <|constrain|>json<|message|>" ARGUMENTS "<|call|>"},
    {"<|channel|>commentary to=functions.",
     " json<|message|>" ARGUMENTS
     "<|end|><|start|>assistant<|channel|>final<|message|>Sunny, 31 °C."
     "<|return|>"},
};
enum { N_ANSWERS = sizeof answers / sizeof answers[0] };

struct bench {
    struct grammar_cache *kit;
    struct tokenizer *t;
    const struct grammar_vocab *tools;
    uint32_t *mask;
    uint64_t costs[COSTS_MAX]; /* ns */
    size_t n_costs;
};

static void mark_dead(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, fail_message());
    exit(1);
}

/* CPU time of this thread, so that other load on the machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static const char *name_of(int i)
{
    static const char *const VERBS[] = {"get", "list", "update", "delete", "search"};
    static char name[64];

    snprintf(name, sizeof name, "%s_weather_%d.v2-Beta", VERBS[i % 5], i / 5);
    return name;
}

static char *rules_of(int n_functions)
{
    struct buf text;
    char *copy;

    buf_init(&text, TEXT_BYTES_MAX);
    buf_puts(&text, "{\"functions\":[");
    for (int i = 0; i < n_functions; i++)
        buf_printf(&text, "%s{\"name\":\"%s\",\"schema\":%s}", i > 0 ? "," : "", name_of(i),
                   schema);
    buf_puts(&text, "]}");
    copy = mem_strdup(buf_text(&text));
    buf_release(&text);
    return copy;
}

static struct answer_grammar *new_form(struct bench *b, const char *rules, const struct ids *prompt)
{
    struct answer_grammar_config request = {.tools = b->tools,
                                            .prompt = prompt->data,
                                            .n_prompt = (int)prompt->n,
                                            .mask = b->mask,
                                            .n_mask_words = (int)b->tools->index->n_words};
    struct answer_grammar *f = NULL;

    memset(b->mask, 0, b->tools->index->n_words * sizeof *b->mask);
    if (call_rules_open(&request.calls, b->kit, rules) != OSP_OK ||
        answer_grammar_new(&f, &request) != OSP_OK)
        mark_dead("rules");
    return f;
}

static void encode(struct bench *b, const char *text, struct ids *out)
{
    ids_init(out, TEXT_BYTES_MAX);
    if (tokenizer_encode_with_specials(b->t, text, strlen(text), out) != OSP_OK)
        mark_dead("encoding");
}

static void receive(struct bench *b, struct answer_grammar *f, const struct ids *ids,
                    const char *text)
{
    for (size_t i = 0; i < ids->n; i++) {
        uint64_t start;

        if (!mask_has(b->mask, ids->data[i])) {
            fprintf(stderr, "token %zu (%d) is not allowed: %s\n", i, (int)ids->data[i], text);
            exit(1);
        }
        start = cpu_ns();
        if (answer_grammar_advance(f, ids->data[i]) != OSP_OK)
            mark_dead(text);
        if (b->n_costs < COSTS_MAX)
            b->costs[b->n_costs++] = cpu_ns() - start;
    }
    for (size_t w = 0; w < b->tools->index->n_words; w++)
        if (b->mask[w] != 0) {
            fprintf(stderr, "something may follow the end: %s\n", text);
            exit(1);
        }
}

static int compare_costs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool report(struct bench *b, int n_functions)
{
    uint64_t median, rare;
    size_t n = b->n_costs;

    qsort(b->costs, n, sizeof *b->costs, compare_costs);
    median = b->costs[n / 2];
    rare = b->costs[n - 1 - n / 1000];
    printf("%3d functions %6zu tokens: median %6.1f us, 99 %% %7.1f us, 99.9 %% %7.1f us, most "
           "%7.1f us\n",
           n_functions, n, (double)median * 1e-3, (double)b->costs[n - 1 - n / 100] * 1e-3,
           (double)rare * 1e-3, (double)b->costs[n - 1] * 1e-3);
    return median <= MEDIAN_NS_MAX && rare <= RARE_NS_MAX;
}

static bool check(struct bench *b, int n_functions)
{
    char *rules = rules_of(n_functions), *text;
    struct ids prompt, ids;

    b->n_costs = 0;
    encode(b, "<|start|>assistant", &prompt);
    for (int i = 0; i < ROUNDS * N_ANSWERS; i++) {
        struct answer_grammar *f = new_form(b, rules, &prompt);

        text = mem_printf("%s%s%s", answers[i % N_ANSWERS].before, name_of(i % n_functions),
                          answers[i % N_ANSWERS].behind);
        encode(b, text, &ids);
        receive(b, f, &ids, text);
        ids_release(&ids);
        free(text);
        answer_grammar_free(f);
    }
    ids_release(&prompt);
    free(rules);
    return report(b, n_functions);
}

int main(int argc, char **argv)
{
    static const int COUNTS[] = {1, 20, 128, 512};
    static struct bench b;
    bool good = true;

    b.kit = grammar_cache_new();
    if (tokenizer_open(&b.t, argc > 1 ? argv[1] : published) != OSP_OK ||
        grammar_cache_prepare(b.kit, b.t, NULL, &b.tools) != OSP_OK)
        mark_dead("the tokenizer");
    b.mask = mem_new(b.tools->index->n_words * sizeof *b.mask);
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++)
        good = check(&b, COUNTS[i]) && good;
    free(b.mask);
    grammar_cache_free(b.kit);
    tokenizer_close(b.t);
    if (!good && getenv("CHECK_UNTIMED") == NULL) {
        fprintf(stderr, "above the limits\n");
        return 1;
    }
    return 0;
}
