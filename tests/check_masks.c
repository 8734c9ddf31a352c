/* Token masks over the published vocabulary: their cost, and the validity of the text that is
 * sampled from them.
 *
 *   check_masks [TOKENIZER]          samples from built-in schemas; every answer must be complete
 *                                    JSON, and the cost of the masks must stay below the limits
 *                                    unless CHECK_UNTIMED is set
 *   check_masks --serve [TOKENIZER]  reads a JSON object a line and answers with one, for
 *                                    tests/text/:
 *       {"schema": ..., "closed": b, "compact": b, "walks": n, "seed": n, "texts": [...]}
 *       {"documents": [...], "fits": [...]} or {"error": "..."}
 *   Instead of "schema" it accepts "schema_text" (as the client wrote it), "regex" or "choice". */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "text/grammar/constraint.h"
#include "text/schema/schema.h"

enum {
    COSTS_MAX = 1 << 20,
    WALK_TOKENS_MAX = 6000,
    STEERED_AFTER = 60, /* tokens; after them a walk closes brackets and strings where it can */
    DOCUMENT_BYTES_MAX = 1 << 20,
    LINE_BYTES_MAX = 1 << 22,
    MEDIAN_NS_MAX = 50000,
    RARE_NS_MAX = 1000000 /* 99.9 of 100 */
};

static const char published[] = "tests/golden/tokenizer/o200k_base.tiktoken";

struct bench {
    struct tokenizer *t;
    struct token_index *x;
    int32_t stop;
    uint32_t *bits;
    int32_t byte_token[256];
    uint64_t *costs; /* of masks, ns */
    size_t n_costs;
    uint64_t seed;
    uint32_t sample;
};

static void mark_dead(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, fail_message());
    exit(1);
}

static void open_bench(struct bench *b, const char *path)
{
    size_t n;

    *b = (struct bench){.costs = malloc(COSTS_MAX * sizeof *b->costs)};
    if (b->costs == NULL || tokenizer_open(&b->t, path) != OSP_OK ||
        token_index_new(&b->x, b->t) != OSP_OK)
        mark_dead(path);
    b->stop = tokenizer_specials(b->t)->ret;
    b->bits = calloc(b->x->n_words, sizeof *b->bits);
    if (b->bits == NULL)
        mark_dead("memory");
    for (int32_t id = 0; id < b->x->n_tokens; id++) {
        const char *bytes = token_index_bytes(b->x, id, &n);

        if (n == 1)
            b->byte_token[(unsigned char)*bytes] = id;
    }
}

static void close_bench(struct bench *b)
{
    token_index_free(b->x);
    tokenizer_close(b->t);
    free(b->bits);
    free(b->costs);
}

static uint32_t random_below(struct bench *b, uint32_t n)
{
    return (uint32_t)(rng_uniform(b->seed, b->sample++, 1) * n);
}

/* ---- drawing ---- */

static int32_t allowed_at(const struct bench *b, const uint32_t *without, uint32_t index)
{
    for (size_t w = 0; w < b->x->n_words; w++) {
        uint32_t bits = b->bits[w] & (without != NULL ? ~without[w] : ~0U);
        uint32_t n = (uint32_t)__builtin_popcount(bits);

        if (index >= n) {
            index -= n;
            continue;
        }
        while (index-- > 0)
            bits &= bits - 1;
        return (int32_t)(w * 32) + __builtin_ctz(bits);
    }
    return -1;
}

static uint32_t count_allowed(const struct bench *b, const uint32_t *without)
{
    uint32_t n = 0;

    for (size_t w = 0; w < b->x->n_words; w++)
        n += (uint32_t)__builtin_popcount(b->bits[w] & (without != NULL ? ~without[w] : ~0U));
    return n;
}

/* Any allowed token; half of the time one that is not plain text, so that strings end. */
static int32_t sample_any(struct bench *b)
{
    const uint32_t *without = random_below(b, 2) == 0 ? b->x->all_plain : NULL;
    uint32_t n = count_allowed(b, without);

    if (n == 0) {
        without = NULL;
        n = count_allowed(b, NULL);
    }
    return n == 0 ? -1 : allowed_at(b, without, random_below(b, n));
}

static int32_t sample_steered(struct bench *b)
{
    static const char wanted[] = "\"}]0123456789tfn:,";

    if (mask_has(b->bits, b->stop))
        return b->stop;
    for (const char *w = wanted; *w != '\0'; w++)
        if (mask_has(b->bits, b->byte_token[(unsigned char)*w]))
            return b->byte_token[(unsigned char)*w];
    return sample_any(b);
}

/* CPU time of this thread, so that other load on the machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void timed_mask(struct bench *b, struct constraint *c)
{
    uint64_t start = cpu_ns();

    if (constraint_mask(c, b->bits) != OSP_OK)
        mark_dead("a mask");
    if (b->n_costs < COSTS_MAX)
        b->costs[b->n_costs++] = cpu_ns() - start;
}

static struct constraint *new_constraint(struct bench *b, struct grammar *g)
{
    struct constraint *c;

    if (constraint_new(&c, g, b->x, &b->stop, 1) != OSP_OK)
        mark_dead("a constraint");
    return c;
}

/* A walk: its text, NUL-terminated. False: it did not end within WALK_TOKENS_MAX tokens. */
static bool walk(struct bench *b, struct grammar *g, struct buf *text)
{
    struct constraint *c = new_constraint(b, g);
    int n = 0;

    for (; n < WALK_TOKENS_MAX && !constraint_is_done(c); n++) {
        const char *bytes;
        size_t n_bytes;
        int32_t token;

        timed_mask(b, c);
        token = n < STEERED_AFTER ? sample_any(b) : sample_steered(b);
        if (token < 0 || constraint_accept(c, token) != OSP_OK) {
            fprintf(stderr, "after %s\n", buf_text(text));
            mark_dead(token < 0 ? "no token is allowed" : "an allowed token is refused");
        }
        bytes = token_index_bytes(b->x, token, &n_bytes);
        buf_append(text, bytes, n_bytes);
    }
    constraint_free(c);
    return n < WALK_TOKENS_MAX;
}

/* Whether a text is allowed, in the tokens of the tokenizer; each must be in its mask. */
static bool fits(struct bench *b, struct grammar *g, const char *text, size_t n_bytes)
{
    struct constraint *c = new_constraint(b, g);
    struct ids ids;
    bool fit = true;

    ids_init(&ids, DOCUMENT_BYTES_MAX);
    if (tokenizer_encode(b->t, text, n_bytes, &ids) != OSP_OK)
        mark_dead("encoding");
    ids_push(&ids, b->stop);
    for (size_t i = 0; i < ids.n && fit; i++) {
        timed_mask(b, c);
        fit = mask_has(b->bits, ids.data[i]);
        if (fit != (constraint_accept(c, ids.data[i]) == OSP_OK)) {
            fprintf(stderr, "token %d of %s\n", (int)ids.data[i], text);
            mark_dead("mask and acceptance differ");
        }
    }
    ids_release(&ids);
    constraint_free(c);
    return fit;
}

/* ---- serving ---- */

static enum osp_status compile(const json_t *request, struct grammar **g)
{
    const struct schema_options options = {
        .closed = json_is_true(json_object_get(request, "closed")),
        .compact = json_is_true(json_object_get(request, "compact")),
    };
    const json_t *regex = json_object_get(request, "regex");
    const json_t *schema_text = json_object_get(request, "schema_text");
    json_t *choice = json_object_get(request, "choice"), *item;
    char *text;
    enum osp_status st;
    size_t i;

    if (regex != NULL)
        return grammar_from_regex(g, json_string_value(regex), json_string_length(regex));
    if (choice != NULL) {
        const char **choices = calloc(json_array_size(choice) + 1, sizeof *choices);

        json_array_foreach(choice, i, item) choices[i] = json_string_value(item);
        st = grammar_from_choices(g, choices, json_array_size(choice));
        free(choices);
        return st;
    }
    if (schema_text != NULL)
        return grammar_from_schema(g, json_string_value(schema_text),
                                   json_string_length(schema_text), options);
    text = json_dumps(json_object_get(request, "schema"), JSON_ENCODE_ANY);
    st = grammar_from_schema(g, text, strlen(text), options);
    free(text);
    return st;
}

static void add_walks(struct bench *b, const json_t *request, struct grammar *g, json_t *reply)
{
    json_t *documents = json_array();
    int64_t n = json_integer_value(json_object_get(request, "walks"));

    b->seed = (uint64_t)json_integer_value(json_object_get(request, "seed"));
    b->sample = 0;
    for (int64_t i = 0; i < n; i++) {
        struct buf text;

        buf_init(&text, DOCUMENT_BYTES_MAX);
        json_array_append_new(documents, walk(b, g, &text)
                                             ? json_stringn(buf_text(&text), text.size_bytes)
                                             : json_null());
        buf_release(&text);
    }
    json_object_set_new(reply, "documents", documents);
}

static void add_fits(struct bench *b, const json_t *request, struct grammar *g, json_t *reply)
{
    json_t *list = json_array(), *text;
    size_t i;

    json_array_foreach(json_object_get(request, "texts"), i, text) json_array_append_new(
        list, json_boolean(fits(b, g, json_string_value(text), json_string_length(text))));
    json_object_set_new(reply, "fits", list);
}

static void answer(struct bench *b, const json_t *request)
{
    json_t *reply = json_object();
    struct grammar *g;
    uint64_t start = clock_ns();
    char *text;

    if (compile(request, &g) != OSP_OK) {
        json_object_set_new(reply, "error", json_string(fail_message()));
    } else {
        json_object_set_new(reply, "seconds", json_real((double)(clock_ns() - start) * 1e-9));
        add_walks(b, request, g, reply);
        add_fits(b, request, g, reply);
        grammar_unref(g);
    }
    if (json_object_get(reply, "error") != NULL)
        json_object_set_new(reply, "seconds", json_real((double)(clock_ns() - start) * 1e-9));
    text = json_dumps(reply, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(reply);
}

static int serve(struct bench *b)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;

    while ((n = getline(&line, &capacity, stdin)) > 0) {
        json_error_t error;
        json_t *request = json_loadb(line, (size_t)n, 0, &error);

        if (request == NULL) {
            fprintf(stderr, "not JSON: %s\n", error.text);
            return 2;
        }
        b->n_costs = 0;
        answer(b, request);
        json_decref(request);
    }
    free(line);
    return 0;
}

/* ---- costs ---- */

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
    "\"integer\",\"minimum\":0,\"maximum\":130},\"email\":{\"type\":\"string\",\"format\":"
    "\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":40},"
    "\"maxItems\":5}},\"required\":[\"name\",\"age\",\"email\"],\"additionalProperties\":false}",
    "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"number\"},"
    "\"kind\":{\"enum\":[\"leaf\",\"branch\",\"root\"]},\"children\":{\"type\":\"array\",\"items\":"
    "{\"$ref\":\"#/$defs/node\"}}},\"required\":[\"value\",\"kind\",\"children\"],"
    "\"additionalProperties\":false}},\"$ref\":\"#/$defs/node\"}",
    "{\"type\":\"array\",\"minItems\":1,\"items\":{\"anyOf\":[{\"type\":\"object\",\"properties\":{"
    "\"type\":{\"const\":\"text\"},\"text\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":"
    "200}},\"required\":[\"type\",\"text\"]},{\"type\":\"object\",\"properties\":{\"type\":{"
    "\"const\":\"date\"},\"when\":{\"type\":\"string\",\"format\":\"date-time\"}},\"required\":["
    "\"type\",\"when\"]},{\"type\":\"null\"}]}}",
    "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"pattern\":"
    "\"^[A-Z]{2}-[0-9]{4,8}$\"},\"slug\":{\"type\":\"string\",\"pattern\":\"^[a-z0-9-]{1,40}$\"},"
    "\"note\":{\"type\":\"string\",\"pattern\":\"^[^<>]{0,120}$\"},\"score\":{\"type\":\"number\","
    "\"minimum\":0,\"maximum\":1}},\"required\":[\"id\",\"slug\",\"note\",\"score\"]}",
    ("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"array\",\"items\":{\"type\":["
     "\"boolean\",\"string\",\"null\"]}}}"),
    "true",
};

static int compare_costs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Costs of the masks from `first` on; returns whether they are within the limits. */
static bool report(struct bench *b, const char *what, size_t first)
{
    uint64_t *costs = b->costs + first, median, rare;
    size_t n = b->n_costs - first;

    qsort(costs, n, sizeof *costs, compare_costs);
    median = costs[n / 2];
    rare = costs[n - 1 - n / 1000];
    printf("%-20s %7zu masks: median %6.1f us, 99 %% %7.1f us, 99.9 %% %7.1f us, most %7.1f us\n",
           what, n, (double)median * 1e-3, (double)costs[n - 1 - n / 100] * 1e-3,
           (double)rare * 1e-3, (double)costs[n - 1] * 1e-3);
    return median <= MEDIAN_NS_MAX && rare <= RARE_NS_MAX;
}

static bool is_json(const struct buf *text)
{
    json_error_t error;
    json_t *value = json_loadb(buf_text(text), text->size_bytes, JSON_DECODE_ANY, &error);
    bool is = value != NULL;

    if (!is)
        fprintf(stderr, "not JSON (%s): %s\n", error.text, buf_text(text));
    json_decref(value);
    return is;
}

static bool check_schema(struct bench *b, const char *schema, int n_walks, bool compact)
{
    const struct schema_options options = {.compact = compact};
    struct grammar *g;
    bool good = true;

    if (grammar_from_schema(&g, schema, strlen(schema), options) != OSP_OK)
        mark_dead(schema);
    for (int i = 0; i < n_walks; i++) {
        struct buf text;

        buf_init(&text, DOCUMENT_BYTES_MAX);
        b->seed = (uint64_t)i;
        b->sample = 0;
        if (!walk(b, g, &text))
            good = fprintf(stderr, "no end: %s\n", buf_text(&text)) < 0;
        else
            good = is_json(&text) && good;
        buf_release(&text);
    }
    grammar_unref(g);
    return good;
}

/* An answer in the tokenizer's own tokens, as a model writes it. */
static bool check_fit(struct bench *b, const char *schema, const char *text)
{
    const struct schema_options options = {.closed = true};
    struct grammar *g;
    bool fit;

    if (grammar_from_schema(&g, schema, strlen(schema), options) != OSP_OK)
        mark_dead(schema);
    fit = fits(b, g, text, strlen(text));
    if (!fit)
        fprintf(stderr, "does not fit: %s\n", text);
    grammar_unref(g);
    return fit;
}

static bool check_answers(struct bench *b, int n_times)
{
    static const char person[] =
        "{\n  \"name\": \"Ada Lovelace\",\n  \"age\": 36,\n  \"email\": \"ada@example.org\",\n"
        "  \"tags\": [\"mathematics\", \"the analytical engine\", \"\\u00e9t\\u00e9\"]\n}";
    static const char note[] =
        "{\"id\": \"AB-12345\", \"slug\": \"a-note-on-the-analytical-engine\", \"note\": \"It "
        "weaves "
        "algebraical patterns just as the Jacquard loom weaves flowers and leaves.\", \"score\": "
        "0.75}";
    bool good = true;

    for (int i = 0; i < n_times; i++)
        good = check_fit(b, schemas[0], person) && check_fit(b, schemas[3], note) && good;
    return good;
}

static int check(struct bench *b, bool is_quick)
{
    const int n_walks = is_quick ? 5 : 40, n_answers = is_quick ? 10 : 200;
    bool good = true;
    size_t first;

    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        char what[32];

        first = b->n_costs;
        good = check_schema(b, schemas[i], n_walks, false) && good;
        good = check_schema(b, schemas[i], n_walks, true) && good;
        snprintf(what, sizeof what, "schema %zu, random", i);
        (void)report(b, what, first);
    }
    first = b->n_costs;
    good = check_answers(b, n_answers) && good;
    (void)report(b, "answers", first);
    if (!report(b, "all", 0) && !is_quick && getenv("CHECK_UNTIMED") == NULL)
        good = printf("too slow: the limits are %d us and %d us\n", MEDIAN_NS_MAX / 1000,
                      RARE_NS_MAX / 1000) < 0;
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool serving = argc > 1 && strcmp(argv[1], "--serve") == 0;
    const char *path = argc > 1 + serving ? argv[1 + serving] : published;
    struct bench b;
    uint64_t start = clock_ns();
    int code;

    open_bench(&b, path);
    if (!serving)
        printf("%d tokens; tokenizer and index in %.0f ms\n", (int)b.x->n_tokens,
               (double)(clock_ns() - start) * 1e-6);
    code = serving ? serve(&b) : check(&b, getenv("CHECK_QUICK") != NULL);
    close_bench(&b);
    return code;
}
