/* The store of conversations: owners, limits, age, and that items are added all or not at all. */
#include "unit.h"

#include "serve/stored/response_conversations.h"

#define S UINT64_C(1000000000)

static struct conversations *open_store(int n, size_t n_bytes)
{
    return conversations_new(&(struct response_limits){n, n_bytes, 60});
}

static enum conversation_result add(struct conversations *all, const char *id, const char *text,
                                    uint64_t now_ns)
{
    struct response_item item = {.begin = 1, .n_bytes = strlen(text) - 1};

    snprintf(item.id, sizeof item.id, "%s", text + 1);
    return conversations_add(all, "me", id, &item, 1, text, now_ns);
}

static void expect_items(struct conversations *all, const char *id, const char *wanted)
{
    struct conversation_items found;

    assert_int_equal(conversations_items(all, "me", id, 0, &found), CONVERSATION_OK);
    assert_string_equal(buf_text(&found.text), wanted);
    for (int i = 0; i < found.n; i++)
        assert_memory_equal(buf_text(&found.text) + found.items[i].begin, found.items[i].id,
                            found.items[i].n_bytes);
    conversation_items_release(&found);
}

static void test_items(void **state)
{
    struct conversations *all = open_store(4, 1 << 20);
    char id[RESPONSE_ID_BYTES];
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    assert_int_equal(conversations_create(all, "me", "{}", id, 0), CONVERSATION_OK);
    assert_int_equal(add(all, id, "xone", 0), CONVERSATION_OK);
    assert_int_equal(add(all, id, "xtwo", 0), CONVERSATION_OK);
    assert_int_equal(add(all, id, "xthree", 0), CONVERSATION_OK);
    expect_items(all, id, "onetwothree");
    assert_int_equal(conversations_item(all, "me", id, "two", 0, &out), CONVERSATION_OK);
    assert_string_equal(buf_text(&out), "two");
    assert_int_equal(conversations_item(all, "me", id, "two", 0, NULL), CONVERSATION_OK);
    assert_int_equal(conversations_item(all, "me", id, "two", 0, NULL), CONVERSATION_UNKNOWN_ITEM);
    assert_int_equal(conversations_item(all, "you", id, "one", 0, &out), CONVERSATION_UNKNOWN);
    expect_items(all, id, "onethree");
    buf_clear(&out);
    assert_int_equal(conversations_put(all, "me", id, "{\"a\":\"b\"}", 0, &out), CONVERSATION_OK);
    assert_non_null(strstr(buf_text(&out), "\"metadata\":{\"a\":\"b\"}"));
    assert_int_equal(conversations_put(all, "you", id, "{}", 0, &out), CONVERSATION_UNKNOWN);
    assert_int_equal(conversations_delete(all, "you", id, 0), CONVERSATION_UNKNOWN);
    assert_int_equal(conversations_delete(all, "me", id, 0), CONVERSATION_OK);
    assert_int_equal(conversations_count(all), 0);
    assert_int_equal(add(all, id, "xone", 0), CONVERSATION_UNKNOWN);
    buf_release(&out);
    conversations_free(all);
}

static void test_limits(void **state)
{
    enum { LARGE = 3000 };
    struct conversations *all = open_store(2, 10000);
    struct response_item many[4] = {{.id = "a", .n_bytes = LARGE},
                                    {.id = "b", .n_bytes = LARGE},
                                    {.id = "c", .n_bytes = LARGE},
                                    {.id = "d", .n_bytes = LARGE}};
    char ids[3][RESPONSE_ID_BYTES], text[LARGE] = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 100000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(conversations_create(all, "me", "{}", ids[i], (uint64_t)i), 0);
    assert_int_equal(conversations_put(all, "me", ids[0], NULL, 3, &out), CONVERSATION_UNKNOWN);
    assert_int_equal(conversations_add(all, "me", ids[1], many, 4, text, 3), CONVERSATION_FULL);
    expect_items(all, ids[1], "");
    assert_int_equal(conversations_add(all, "me", ids[1], many, 2, text, 3), CONVERSATION_OK);
    assert_int_equal(conversations_add(all, "me", ids[2], many, 2, text, 4), CONVERSATION_OK);
    assert_int_equal(conversations_put(all, "me", ids[1], NULL, 5, &out), CONVERSATION_UNKNOWN);
    assert_int_equal(conversations_count(all), 1);
    conversations_tick(all, 60 * S);
    assert_int_equal(conversations_count(all), 1);
    conversations_tick(all, 61 * S);
    assert_int_equal(conversations_count(all), 0);
    conversations_free(all);
    all = open_store(0, 10000);
    assert_int_equal(conversations_create(all, "me", "{}", ids[0], 0), CONVERSATION_FULL);
    conversations_free(all);
    buf_release(&out);
}

/* Metadata that does not fit is refused, and changes nothing. */
static void test_metadata_limit(void **state)
{
    struct conversations *all = open_store(4, 600);
    char metadata[1000], id[RESPONSE_ID_BYTES];
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    snprintf(metadata, sizeof metadata, "{\"a\":\"%0900d\"}", 0);
    assert_int_equal(conversations_create(all, "me", metadata, id, 0), CONVERSATION_FULL);
    assert_int_equal(conversations_count(all), 0);
    assert_int_equal(conversations_create(all, "me", "{\"b\":\"c\"}", id, 0), CONVERSATION_OK);
    assert_int_equal(conversations_put(all, "me", id, metadata, 0, &out), CONVERSATION_FULL);
    assert_int_equal(out.size_bytes, 0);
    assert_int_equal(conversations_put(all, "me", id, NULL, 0, &out), CONVERSATION_OK);
    assert_non_null(strstr(buf_text(&out), "\"metadata\":{\"b\":\"c\"}"));
    buf_release(&out);
    conversations_free(all);
}

static void test_number_of_items(void **state)
{
    struct conversations *all = open_store(2, 64 << 20);
    char id[RESPONSE_ID_BYTES];

    (void)state;
    assert_int_equal(conversations_create(all, "me", "{}", id, 0), CONVERSATION_OK);
    for (int i = 0; i < CONVERSATION_ITEMS_MAX; i++)
        assert_int_equal(add(all, id, "xi", 0), CONVERSATION_OK);
    assert_int_equal(add(all, id, "xi", 0), CONVERSATION_FULL);
    conversations_free(all);
}

/* As many as an operator may allow expire at once, from the oldest on. The cost of each does not
 * depend on how many there are, since all other clients wait meanwhile. */
static void test_many_expire_at_once(void **state)
{
    enum { N = 65536, SECOND = 1000000000 };
    struct conversations *all = conversations_new(
        &(struct response_limits){.n_max = N, .bytes_max = (size_t)1 << 30, .age_s_max = 10});
    char id[RESPONSE_ID_BYTES], used[RESPONSE_ID_BYTES];
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(conversations_create(all, "me", "{}", used, SECOND), CONVERSATION_OK);
    for (int i = 1; i < N; i++)
        assert_int_equal(conversations_create(all, "me", "{}", id, SECOND), CONVERSATION_OK);
    assert_int_equal(conversations_count(all), N);
    assert_int_equal(conversations_put(all, "me", used, NULL, (uint64_t)8 * SECOND, &out),
                     CONVERSATION_OK);
    conversations_tick(all, (uint64_t)12 * SECOND);
    assert_int_equal(conversations_count(all), 1); /* the one that was used */
    assert_int_equal(conversations_put(all, "me", used, NULL, (uint64_t)12 * SECOND, &out),
                     CONVERSATION_OK);
    buf_release(&out);
    conversations_free(all);
}

UNIT_MAIN(cmocka_unit_test(test_items), cmocka_unit_test(test_limits),
          cmocka_unit_test(test_metadata_limit), cmocka_unit_test(test_number_of_items),
          cmocka_unit_test(test_many_expire_at_once))
