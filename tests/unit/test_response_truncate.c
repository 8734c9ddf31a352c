/* Which messages are dropped from a conversation that does not fit. Each message has as many
 * tokens as its content says. */
#include "unit.h"

#include "serve/responses/response_truncate.h"

static enum osp_status count(void *ctx, json_t *messages, size_t *n_tokens)
{
    int *n_counts = ctx;

    (*n_counts)++;
    *n_tokens = 0;
    for (size_t i = 0; i < json_array_size(messages); i++)
        *n_tokens +=
            (size_t)json_integer_value(json_object_get(json_array_get(messages, i), "tokens"));
    return *n_counts == 100 ? fail(OSP_ECANCELED, "the client has disconnected") : OSP_OK;
}

/* One letter for each message: d developer, u user, a assistant, c assistant with a call, r its
 * result. */
static json_t *conversation(const char *letters, int tokens)
{
    json_t *all = json_array();
    int n_calls = 0;

    for (const char *c = letters; *c; c++) {
        const char *role = *c == 'd' ? "developer" : *c == 'u' ? "user" : "assistant";
        json_t *m = json_pack("{s:s,s:i,s:i}", "role", *c == 'r' ? "tool" : role, "tokens", tokens,
                              "at", (int)(c - letters));
        char id[16];

        n_calls += *c == 'c';
        snprintf(id, sizeof id, "c%d", n_calls);
        if (*c == 'c')
            json_object_set_new(m, "tool_calls", json_pack("[{s:s}]", "id", id));
        if (*c == 'r')
            json_object_set_new(m, "tool_call_id", json_string(id));
        json_array_append_new(all, m);
    }
    return all;
}

/* wanted: a letter for each message that is kept, and - for each that is not. */
static void expect(const char *letters, int tokens, int answer, const char *wanted)
{
    int n_counts = 0;
    struct truncation t = {conversation(letters, tokens), 1000, answer, count, &n_counts};
    char found[64];
    json_t *kept;
    size_t n_dropped, n_missing = 0;

    memset(found, '-', sizeof found);
    found[strlen(letters)] = '\0';
    assert_int_equal(response_truncate(&t, &kept, &n_dropped), OSP_OK);
    for (size_t i = 0; i < json_array_size(kept); i++) {
        size_t at = (size_t)json_integer_value(json_object_get(json_array_get(kept, i), "at"));

        found[at] = letters[at];
    }
    for (const char *c = found; *c; c++)
        n_missing += *c == '-';
    assert_string_equal(found, wanted);
    assert_int_equal(n_dropped, n_missing);
    assert_true(n_counts < 10);
    json_decref(kept);
    json_decref(t.messages);
}

static void test_order(void **state)
{
    (void)state;
    expect("duaua", 100, 0, "duaua");
    expect("", 100, 0, "");
    /* 900 of 875: a step of 126 tokens is dropped, which two messages have */
    expect("duauauaua", 100, 0, "d--uauaua");
    expect("duauauaud", 100, 0, "d--uauaud");
    /* more than everything before the last turn: its oldest calls go too */
    expect("duaucrcrcr", 120, 0, "d--u--crcr");
    expect("ucrcrcrcrcr", 100, 0, "u----crcrcr");
    /* a result goes with its call, though the limit lies between them */
    expect("ducrrucrrua", 100, 0, "d----ucrrua");
    /* the last turn alone is too long */
    expect("duau", 400, 0, "d--u");
    expect("duu", 500, 0, "duu");
    expect("dd", 600, 0, "dd");
    expect("u", 2000, 0, "u");
}

static void test_room_for_the_answer(void **state)
{
    (void)state;
    expect("uauauauau", 100, 100, "uauauauau");
    expect("uauauauau", 100, 101, "--uauauau");
    expect("uauauauau", 100, 1, "uauauauau");
    /* at most half of the context is for the answer */
    expect("uauauauau", 100, 900, "------uau");
}

/* Turns that follow drop the same messages. */
static void test_steps(void **state)
{
    (void)state;
    expect("uauauauauau", 100, 0, "---auauauau");
    expect("uauauauauaua", 100, 0, "----uauauaua");
}

static void test_failure(void **state)
{
    int n_counts = 99;
    struct truncation t = {conversation("ua", 900), 1000, 0, count, &n_counts};
    json_t *kept;
    size_t n_dropped;

    (void)state;
    assert_int_equal(response_truncate(&t, &kept, &n_dropped), OSP_ECANCELED);
    assert_null(kept);
    json_decref(t.messages);
}

UNIT_MAIN(cmocka_unit_test(test_order), cmocka_unit_test(test_room_for_the_answer),
          cmocka_unit_test(test_steps), cmocka_unit_test(test_failure))
