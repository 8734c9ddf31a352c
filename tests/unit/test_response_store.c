/* Responses that are kept: whose they are, what goes first, and what stays because something
 * goes on from it. */
#include "unit.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/rng.h"
#include "serve/stored/response_store.h"

#define S(seconds) ((uint64_t)(seconds)*UINT64_C(1000000000))

static struct response_store *new_store(int n_max, size_t bytes_max, int age_s_max)
{
    return response_store_new(&(struct response_limits){n_max, bytes_max, age_s_max});
}

/* With one item, "item of ID", called i-ID. */
static bool put(struct response_store *s, const char *owner, const char *id,
                const struct stored_response *previous, uint64_t now_ns)
{
    struct response_item item = {.n_bytes = strlen("item of ") + strlen(id)};
    char text[128], json[128];

    snprintf(item.id, sizeof item.id, "i-%s", id);
    snprintf(text, sizeof text, "item of %s", id);
    snprintf(json, sizeof json, "json of %s", id);
    return response_store_put(s,
                              &(struct response_entry){.id = id,
                                                       .owner = owner,
                                                       .json = json,
                                                       .n_json_bytes = strlen(json),
                                                       .text = text,
                                                       .n_text_bytes = strlen(text),
                                                       .items = &item,
                                                       .n_items = 1,
                                                       .previous = previous},
                              now_ns);
}

static bool has(struct response_store *s, const char *owner, const char *id, uint64_t now_ns)
{
    const struct stored_response *r = response_store_find(s, owner, id, now_ns);

    response_store_drop(s, r);
    return r != NULL;
}

static struct response_counts count(struct response_store *s)
{
    struct response_counts c;

    response_store_count(s, &c);
    return c;
}

static void test_owners(void **state)
{
    struct response_store *s = new_store(10, 1 << 20, 100);
    struct buf item;
    size_t n;
    const struct stored_response *r;

    (void)state;
    assert_true(put(s, "alice", "a", NULL, 0));
    assert_true(put(s, "", "b", NULL, 0));
    r = response_store_find(s, "alice", "a", 0);
    assert_non_null(r);
    assert_string_equal(stored_json(r, &n), "json of a");
    assert_int_equal(n, strlen("json of a"));
    assert_null(stored_previous(r));
    response_store_drop(s, r);
    assert_false(has(s, "bob", "a", 0));
    assert_false(has(s, "alic", "a", 0));
    assert_false(has(s, "alicealice", "a", 0));
    assert_false(has(s, "", "a", 0));
    assert_false(has(s, "alice", "b", 0));
    assert_true(has(s, "", "b", 0));
    buf_init(&item, 100);
    assert_false(response_store_item(s, "bob", "i-a", 0, &item));
    assert_false(response_store_item(s, "alice", "a", 0, &item)); /* no item */
    assert_true(response_store_item(s, "alice", "i-a", 0, &item));
    assert_string_equal(buf_text(&item), "item of a");
    assert_false(has(s, "alice", "i-a", 0)); /* no response */
    assert_false(response_store_delete(s, "bob", "a", 0));
    assert_true(response_store_delete(s, "alice", "a", 0));
    assert_false(response_store_delete(s, "alice", "a", 0));
    assert_false(response_store_item(s, "alice", "i-a", 0, &item));
    buf_release(&item);
    response_store_free(s);
}

static void test_the_least_used_goes_first(void **state)
{
    struct response_store *s = new_store(3, 1 << 20, 100);

    (void)state;
    assert_true(put(s, "o", "a", NULL, 0) && put(s, "o", "b", NULL, 0) &&
                put(s, "o", "c", NULL, 0));
    assert_true(has(s, "o", "a", 0));
    assert_true(put(s, "o", "d", NULL, 0));
    assert_false(has(s, "o", "b", 0));
    assert_true(has(s, "o", "a", 0) && has(s, "o", "c", 0) && has(s, "o", "d", 0));
    assert_int_equal(count(s).n, 3);
    response_store_free(s);
}

static void test_bytes(void **state)
{
    struct response_store *s = new_store(1000, 1 << 20, 100);
    size_t one;

    (void)state;
    assert_true(put(s, "o", "x0", NULL, 0));
    one = count(s).n_bytes;
    response_store_free(s);
    s = new_store(1000, one * 3 + one / 2, 100);
    for (int i = 0; i < 8; i++) {
        char id[16];

        snprintf(id, sizeof id, "x%d", i);
        assert_true(put(s, "o", id, NULL, 0));
        assert_int_equal(count(s).n, i < 3 ? i + 1 : 3);
        assert_true(count(s).n_bytes <= one * 3 + one / 2);
    }
    response_store_free(s);
    s = new_store(1000, one - 1, 100);
    assert_false(put(s, "o", "x0", NULL, 0)); /* alone too large */
    assert_int_equal(count(s).n_bytes, 0);
    response_store_free(s);
    s = new_store(0, 1 << 20, 100);
    assert_false(put(s, "o", "x0", NULL, 0));
    response_store_free(s);
}

static void test_age(void **state)
{
    struct response_store *s = new_store(10, 1 << 20, 60);

    (void)state;
    assert_true(put(s, "o", "a", NULL, S(0)) && put(s, "o", "b", NULL, S(10)));
    assert_true(has(s, "o", "a", S(60)));
    assert_false(has(s, "o", "b", S(71)));
    assert_true(has(s, "o", "a", S(120)));
    response_store_tick(s, S(181));
    assert_int_equal(count(s).n, 0);
    assert_int_equal(count(s).n_bytes, 0);
    response_store_free(s);
}

/* a <- b <- c: what c goes on from stays as long as c does, and is counted, but is not found. */
static void test_what_goes_on(void **state)
{
    struct response_store *s = new_store(1, 1 << 20, 100);
    const struct stored_response *a, *b, *c;
    size_t one;

    (void)state;
    assert_true(put(s, "o", "a", NULL, 0));
    one = count(s).n_bytes;
    a = response_store_find(s, "o", "a", 0);
    assert_true(put(s, "o", "b", a, 0)); /* and a is forgotten */
    response_store_drop(s, a);
    assert_false(has(s, "o", "a", 0));
    b = response_store_find(s, "o", "b", 0);
    assert_true(put(s, "o", "c", b, 0));
    response_store_drop(s, b);
    assert_int_equal(count(s).n, 1);
    assert_int_equal(count(s).n_bytes, 3 * one);
    c = response_store_find(s, "o", "c", 0);
    assert_true(response_store_delete(s, "o", "c", 0));
    assert_int_equal(count(s).n, 0);
    assert_int_equal(count(s).n_bytes, 3 * one); /* held here */
    for (const struct stored_response *r = c; r; r = stored_previous(r)) {
        int n;
        const struct response_item *items = stored_items(r, &n);

        assert_int_equal(n, 1);
        assert_memory_equal(stored_item_json(r, items), "item of ", 8);
    }
    assert_null(stored_previous(stored_previous(stored_previous(c))));
    response_store_drop(s, c);
    assert_int_equal(count(s).n_bytes, 0);
    response_store_free(s);
}

/* A conversation of very many turns is let go without a call for each. */
static void test_a_long_chain(void **state)
{
    enum { TURNS = 200000 };
    struct response_store *s = new_store(1, (size_t)1 << 30, 100);
    const struct stored_response *previous = NULL;

    (void)state;
    for (int i = 0; i < TURNS; i++) {
        char id[16];

        snprintf(id, sizeof id, "r%d", i);
        assert_true(put(s, "o", id, previous, 0));
        response_store_drop(s, previous);
        previous = response_store_find(s, "o", id, 0);
    }
    response_store_drop(s, previous);
    response_store_free(s);
}

enum { THREADS = 4, ROUNDS = 3000, IDS = 12 };

static void *use_it(void *ctx)
{
    struct response_store *s = ctx;
    uint64_t seed = (uint64_t)(uintptr_t)&seed;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        char id[16];
        const struct stored_response *previous;

        snprintf(id, sizeof id, "r%d", (int)(rng_bits(seed, i, 0) % IDS));
        previous = response_store_find(s, "o", id, i);
        snprintf(id, sizeof id, "r%d", (int)(rng_bits(seed, i, 1) % IDS));
        if (rng_bits(seed, i, 2) % 4 == 0)
            response_store_delete(s, "o", id, i);
        else
            put(s, "o", id, rng_bits(seed, i, 2) % 4 == 1 ? previous : NULL, i);
        response_store_drop(s, previous);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct response_store *s = new_store(8, 1 << 20, 100);
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_it, s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(count(s).n <= 8 && count(s).n_bytes <= 1 << 20);
    response_store_tick(s, S(1000));
    assert_int_equal(count(s).n_bytes, 0); /* nothing was lost or let go twice */
    response_store_free(s);
}

UNIT_MAIN(cmocka_unit_test(test_owners), cmocka_unit_test(test_the_least_used_goes_first),
          cmocka_unit_test(test_bytes), cmocka_unit_test(test_age),
          cmocka_unit_test(test_what_goes_on), cmocka_unit_test(test_a_long_chain),
          cmocka_unit_test(test_threads))
