/* Fuzzing entry for libFuzzer: a chat request with tools, tool_choice, parallel_tool_calls and
 * response_format, as JSON (input that begins with '{'), or made from the bytes: of functions,
 * choices and schemas that mostly hold. It is refused, or a walk draws an answer from the masks,
 * which the reader of Harmony must understand: calls of functions on offer, as many as were
 * allowed, arguments and final message in the form they are held to. The calls are then put into
 * the conversation, as a client would, and that renders. Run from the root of the repository. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "engine/grammar/answer_grammar.h"
#include "serve/fields/request_params.h"
#include "serve/fields/json_fields.h"
#include "text/harmony/harmony_parser.h"

enum {
    WALK_TOKENS = 300,
    TEXT_BYTES_MAX = 1 << 20,
    FUNCTIONS_MAX = 4,
    DEPTH_MAX = 4,
    MEMBERS_MAX = 3,
    MESSAGES_MAX = ANSWER_MESSAGES_MAX + 2
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check_at(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s (%s)\n", what, fail_message());
    abort();
}

#define check(holds) check_at(holds, #holds)

static struct {
    struct tokenizer *tokenizer;
    struct grammar_cache *kit;
    const struct grammar_vocab *tools;
} bundled;

static void need_bundled(void)
{
    if (bundled.kit != NULL)
        return;
    check(tokenizer_open(&bundled.tokenizer, "models/osprey-nano/tokenizer.json") == OSP_OK);
    bundled.kit = grammar_cache_new();
    check(grammar_cache_prepare(bundled.kit, bundled.tokenizer, NULL, &bundled.tools) == OSP_OK);
}

/* ---- a request out of bytes ---- */

struct source {
    const uint8_t *at;
    size_t n_left;
};

static unsigned take(struct source *s, unsigned n)
{
    if (s->n_left == 0)
        return 0;
    s->n_left--;
    return *s->at++ % n;
}

static void put_schema(struct buf *out, struct source *s, int depth);

static void put_members(struct buf *out, struct source *s, int depth)
{
    static const char *const BEHIND[] = {"", "-", "é"};
    unsigned n = take(s, MEMBERS_MAX + 1), n_required = take(s, n + 1);

    buf_puts(out, "{\"type\":\"object\",\"properties\":{");
    for (unsigned i = 0; i < n; i++) {
        buf_printf(out, "%s\"%c%s\":", i > 0 ? "," : "", 'a' + (char)i, BEHIND[take(s, 3)]);
        put_schema(out, s, depth + 1);
    }
    buf_puts(out, "},\"required\":[");
    for (unsigned i = 0; i < n_required; i++)
        buf_printf(out, "%s\"%c\"", i > 0 ? "," : "", 'a' + (char)i);
    buf_printf(out, "],\"additionalProperties\":%s}", take(s, 2) == 0 ? "false" : "true");
}

static void put_list(struct buf *out, struct source *s, int depth)
{
    unsigned least = take(s, 3);

    buf_puts(out, "{\"type\":\"array\",\"items\":");
    put_schema(out, s, depth + 1);
    buf_printf(out, ",\"minItems\":%u,\"maxItems\":%u}", least, least + take(s, 3));
}

static void put_either(struct buf *out, struct source *s, int depth)
{
    buf_printf(out, "{\"%s\":[", take(s, 2) == 0 ? "anyOf" : "oneOf");
    put_schema(out, s, depth + 1);
    buf_puts(out, ",");
    put_schema(out, s, depth + 1);
    buf_puts(out, "]}");
}

static void put_schema(struct buf *out, struct source *s, int depth)
{
    static const char *const LEAVES[] = {"{\"type\":\"string\"}",
                                         "{\"type\":\"boolean\"}",
                                         "{\"type\":\"null\"}",
                                         "{\"type\":\"number\"}",
                                         "{\"type\":[\"integer\",\"null\"]}",
                                         "{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}",
                                         "{\"type\":\"number\",\"exclusiveMinimum\":0.5}",
                                         "{\"type\":\"string\",\"minLength\":1,\"maxLength\":4}",
                                         "{\"type\":\"string\",\"pattern\":\"^[a-c]{1,3}$\"}",
                                         "{\"type\":\"string\",\"format\":\"date\"}",
                                         "{\"enum\":[\"x\",\"\\\"<|end|>\\\"\",3,null,[1]]}",
                                         "{\"const\":{\"k\":\"v\"}}",
                                         "{}",
                                         "false",
                                         "{\"$ref\":\"#\"}",
                                         "{\"type\":\"array\"}"};
    enum { N_LEAVES = sizeof LEAVES / sizeof LEAVES[0] };
    unsigned kind = take(s, N_LEAVES + 6);

    if (kind < N_LEAVES || depth >= DEPTH_MAX)
        buf_puts(out, LEAVES[kind % N_LEAVES]);
    else if (kind < N_LEAVES + 3)
        put_members(out, s, depth);
    else if (kind == N_LEAVES + 3)
        put_either(out, s, depth);
    else
        put_list(out, s, depth);
}

/* f0, f0.f1, ...: names that begin as others do. */
static void put_name(struct buf *out, unsigned i)
{
    buf_puts(out, "\"f0");
    for (unsigned k = 1; k <= i; k++)
        buf_printf(out, "%cf%u", ".-_"[k % 3], k);
    buf_puts(out, "\"");
}

static void put_functions(struct buf *out, struct source *s, unsigned n)
{
    buf_puts(out, ",\"tools\":[");
    for (unsigned i = 0; i < n; i++) {
        buf_puts(out, i > 0 ? ",{" : "{");
        buf_puts(out, "\"type\":\"function\",\"function\":{\"name\":");
        put_name(out, i);
        buf_printf(out, ",\"strict\":%s", take(s, 3) > 0 ? "true" : "false");
        if (take(s, 5) > 0) {
            buf_puts(out, ",\"parameters\":");
            if (take(s, 5) > 0)
                put_members(out, s, 0);
            else
                put_schema(out, s, 0);
        }
        buf_puts(out, "}}");
    }
    buf_puts(out, "]");
}

static void put_choice(struct buf *out, struct source *s, unsigned n_functions)
{
    static const char *const MODES[] = {"\"none\"", "\"auto\"", "\"required\""};
    unsigned kind = take(s, 6);

    buf_puts(out, ",\"tool_choice\":");
    if (kind < 3) {
        buf_puts(out, MODES[kind]);
        return;
    }
    if (kind > 3)
        buf_printf(out, "{\"type\":\"allowed_tools\",\"mode\":%s,\"tools\":[", MODES[kind - 3]);
    buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
    put_name(out, take(s, n_functions + 1)); /* or one that is not there */
    buf_puts(out, kind > 3 ? "}}]}" : "}}");
}

static void put_form(struct buf *out, struct source *s)
{
    switch (take(s, 6)) {
    case 0:
        buf_puts(out, ",\"response_format\":{\"type\":\"json_object\"}");
        break;
    case 1:
        buf_printf(out,
                   ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"strict\":%s,"
                   "\"schema\":",
                   take(s, 2) == 0 ? "true" : "false");
        put_members(out, s, 0);
        buf_puts(out, "}}");
        break;
    case 2:
        buf_puts(out, ",\"choice\":[\"yes\",\"no\",\"<|call|>\"]");
        break;
    case 3:
        buf_puts(out, ",\"regex\":\"[a-f]{2,5}( [0-9]+)?\"");
        break;
    default: /* free */
        break;
    }
}

static void put_request(struct buf *out, struct source s)
{
    unsigned n_functions = take(&s, FUNCTIONS_MAX + 1);

    buf_puts(out, "{\"messages\":[{\"role\":\"user\",\"content\":\"Do it.\"}]");
    buf_printf(out, ",\"parallel_tool_calls\":%s", take(&s, 2) == 0 ? "true" : "false");
    put_form(out, &s);
    put_choice(out, &s, n_functions);
    put_functions(out, &s, n_functions);
    buf_puts(out, "}");
}

/* ---- what the reader makes of an answer ---- */

struct message {
    enum harmony_part part;
    char channel[32], recipient[128];
    struct buf text;
    int32_t terminator;
};

struct heard {
    struct message messages[MESSAGES_MAX];
    size_t n;
};

static void on_begin(void *ctx, const struct harmony_header *h)
{
    struct heard *heard = ctx;
    struct message *m = &heard->messages[heard->n++];

    check(heard->n <= MESSAGES_MAX);
    check(strcmp(h->role, "assistant") == 0);
    *m = (struct message){.part = h->part, .terminator = -1};
    strcpy(m->channel, h->channel);
    strcpy(m->recipient, h->recipient);
    buf_init(&m->text, TEXT_BYTES_MAX);
}

static void on_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n_bytes)
{
    struct heard *heard = ctx;

    (void)h;
    buf_append(&heard->messages[heard->n - 1].text, text, n_bytes);
}

static void on_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct heard *heard = ctx;

    (void)h;
    heard->messages[heard->n - 1].terminator = terminator;
}

static void read_answer(struct heard *out, const int32_t *tokens, int n)
{
    const struct harmony_sink sink = {out, on_begin, on_delta, on_end};
    struct harmony_parser *r = harmony_parser_new(bundled.tokenizer, &sink, true);

    check(r != NULL);
    for (int i = 0; i < n; i++)
        harmony_parser_push(r, tokens[i]);
    harmony_parser_finish(r);
    harmony_parser_free(r);
}

/* ---- a request and its answer ---- */

struct request {
    struct request_params params;
    struct osp_chat *chat;
    struct ids prompt;
    struct answer_grammar *form;
    bool has_calls; /* the answer's calls are held */
    uint32_t *mask;
};

static enum osp_status open_form(struct request *r)
{
    const struct osp_request_options *opt = &r->params.options;
    struct answer_grammar_config config = {.tools = bundled.tools,
                                           .prompt = r->prompt.data,
                                           .n_prompt = (int)r->prompt.n,
                                           .mask = r->mask,
                                           .n_mask_words = (int)bundled.tools->index->n_words};
    char *calls = NULL;
    enum osp_status st;

    TRY(calls_text(&calls, r->chat, opt));
    if (opt->form != OSP_FORM_NONE)
        TRY(grammar_cache_get(bundled.kit, opt->form, opt->form_text, &config.grammar));
    if (calls != NULL)
        TRY(call_rules_open(&config.calls, bundled.kit, calls));
    r->has_calls = calls != NULL;
    if (calls != NULL || config.grammar != NULL)
        st = answer_grammar_new(&r->form, &config);
out:
    grammar_unref(config.grammar);
    free(calls);
    return st;
}

static enum osp_status open_request(struct request *r, const char *text, size_t n_bytes)
{
    static const struct field_set fields = {.endpoint = FOR_CHAT};
    json_t *body = NULL;
    enum osp_status st;

    TRY(json_body_read(&body, text, n_bytes));
    TRY(fields_read(&r->params, &fields, body));
    TRY(osp_chat_from_json(&r->chat, text, n_bytes));
    TRY(chat_render_ids(r->chat, bundled.tokenizer, &r->prompt));
    TRY(open_form(r));
out:
    json_decref(body);
    return st;
}

static bool is_empty(const uint32_t *mask)
{
    for (size_t w = 0; w < bundled.tools->index->n_words; w++)
        if (mask[w] != 0)
            return false;
    return true;
}

/* Tokens of JSON that close something, and may bring an answer to its end. */
static const struct ids *closing_tokens(void)
{
    static const char *const CLOSING[] = {"}", "]", "\"", "\"}", "{}"};
    static struct ids closing;
    struct ids one;

    if (closing.n > 0)
        return &closing;
    ids_init(&closing, sizeof CLOSING / sizeof CLOSING[0]);
    ids_init(&one, 8);
    for (size_t i = 0; i < closing.limit; i++) {
        ids_clear(&one);
        check(tokenizer_encode(bundled.tokenizer, CLOSING[i], strlen(CLOSING[i]), &one) == OSP_OK);
        if (one.n == 1)
            check(ids_push(&closing, one.data[0]));
    }
    ids_release(&one);
    check(closing.n > 0);
    return &closing;
}

/* Half of the time one that closes something; of the rest, half of the time a control token;
 * else any allowed one, from a random place on. */
static int32_t pick(const uint32_t *mask, uint64_t random)
{
    const struct ids *closing = closing_tokens();
    const uint32_t n = (uint32_t)bundled.tools->index->n_tokens;

    for (size_t i = 0; random % 2 == 0 && i < closing->n; i++)
        if (mask_has(mask, closing->data[i]))
            return closing->data[i];
    for (int32_t id = (int32_t)n - 1; random / 2 % 2 == 0 && id >= 0; id--)
        if (tokenizer_is_special(bundled.tokenizer, id) && mask_has(mask, id))
            return id;
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = (int32_t)((random / 4 + i) % n);

        if (mask_has(mask, id))
            return id;
    }
    return -1;
}

/* Gives how many tokens there are; *ended: nothing may follow. */
static int draw(struct request *r, uint64_t seed, int32_t *out, bool *ended)
{
    int n = 0;

    *ended = false;
    while (n < WALK_TOKENS && !*ended) {
        enum osp_status st;

        seed = seed * 6364136223846793005U + 1442695040888963407U;
        out[n] = pick(r->mask, seed >> 33);
        check(out[n] >= 0);
        st = answer_grammar_advance(r->form, out[n++]);
        if (st == OSP_ELIMIT)
            return n - 1;
        check(st == OSP_OK);
        *ended = is_empty(r->mask);
        check(!*ended || out[n - 1] == bundled.tools->specials.ret ||
              out[n - 1] == bundled.tools->specials.call);
    }
    return n;
}

static bool is_json(const struct message *m, bool is_object)
{
    json_t *v =
        json_loadb(buf_text(&m->text), m->text.size_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool fits = v != NULL && (!is_object || json_is_object(v));

    json_decref(v);
    return fits;
}

static bool may_call(const struct request *r, const char *name)
{
    const struct chat_functions all = chat_get_functions(r->chat);
    const struct osp_request_options *opt = &r->params.options;
    bool is_offered = false, is_chosen = opt->n_tools == 0;

    for (size_t i = 0; i < all.n; i++)
        is_offered = is_offered || strcmp(all.items[i].name, name) == 0;
    for (int i = 0; i < opt->n_tools; i++)
        is_chosen = is_chosen || strcmp(opt->tools[i], name) == 0;
    return is_offered && is_chosen && opt->tool_choice != OSP_TOOLS_NONE;
}

/* Calls that are whole; a message that the walk's end cut is not looked at. */
static int check_messages(const struct request *r, const struct heard *h)
{
    const struct osp_request_options *opt = &r->params.options;
    const bool is_json_form = opt->form == OSP_FORM_OBJECT || opt->form == OSP_FORM_SCHEMA ||
                              opt->form == OSP_FORM_STRICT_SCHEMA;
    int n_calls = 0, n_finals = 0;

    for (size_t i = 0; i < h->n; i++) {
        const struct message *m = &h->messages[i];

        if (m->terminator < 0)
            continue;
        if (m->part == PART_TOOL_CALL) {
            check(r->has_calls && may_call(r, harmony_call_name(m->recipient)));
            check(is_json(m, true));
            n_calls++;
        } else {
            check(m->recipient[0] == '\0');
        }
        if (strcmp(m->channel, "final") != 0)
            continue;
        n_finals++;
        check(!is_json_form || is_json(m, opt->form == OSP_FORM_OBJECT));
        check(i + 1 == h->n);
        check(opt->tool_choice != OSP_TOOLS_REQUIRED || n_calls > 0);
    }
    check(!r->has_calls || !opt->one_tool_call || n_calls <= 1);
    check(n_finals <= 1);
    return n_calls + n_finals;
}

/* As a client sends them back, each with a result. */
static void start_next(struct request *r, const struct heard *h)
{
    struct ids again;

    for (size_t i = 0; i < h->n; i++) {
        const struct message *m = &h->messages[i];
        const struct harmony_text arguments = {buf_text(&m->text), m->text.size_bytes},
                                  result = {"1", 1};
        char id[32], name[HARMONY_NAME_BYTES_MAX + 1];

        if (m->part != PART_TOOL_CALL || m->terminator < 0)
            continue;
        snprintf(id, sizeof id, "call_%zu", i);
        harmony_call_name_safe(name, m->recipient);
        check(chat_add_call_text(r->chat, id, name, arguments) == OSP_OK);
        check(chat_add_result_text(r->chat, id, result) == OSP_OK);
    }
    ids_init(&again, CHAT_TOKENS_MAX);
    check(chat_render_ids(r->chat, bundled.tokenizer, &again) == OSP_OK);
    check(again.n >= r->prompt.n);
    ids_release(&again);
}

static void answer(struct request *r, uint64_t seed)
{
    int32_t tokens[WALK_TOKENS];
    struct heard heard = {.n = 0};
    bool ended;
    int n = draw(r, seed, tokens, &ended), n_messages;

    read_answer(&heard, tokens, n);
    n_messages = check_messages(r, &heard);
    check(!ended || n_messages > 0);
    start_next(r, &heard);
    for (size_t i = 0; i < heard.n; i++)
        buf_release(&heard.messages[i].text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct request r = {.form = NULL};
    struct buf text;
    enum osp_status st;

    need_bundled();
    buf_init(&text, TEXT_BYTES_MAX);
    if (n_bytes > 0 && data[0] == '{')
        buf_append(&text, data, n_bytes);
    else
        put_request(&text, (struct source){data, n_bytes});
    ids_init(&r.prompt, CHAT_TOKENS_MAX);
    r.mask = mem_new(bundled.tools->index->n_words * sizeof *r.mask);
    st = open_request(&r, buf_text(&text), text.size_bytes);
    check(st == OSP_OK || st == OSP_EINVAL || st == OSP_ELIMIT || st == OSP_EFORMAT);
    if (st == OSP_OK && r.form != NULL)
        answer(&r, hash_bytes(0, data, n_bytes));
    answer_grammar_free(r.form);
    osp_chat_free(r.chat);
    request_params_release(&r.params);
    ids_release(&r.prompt);
    free(r.mask);
    buf_release(&text);
    return 0;
}
