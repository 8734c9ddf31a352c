/* The store of the arguments of calls: found by id, bounded, the least recently used dropped. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/anthropic/call_texts.h"

enum { ROOM = 4096, TEXT_BYTES = 1000, N_THREADS = 4, N_ROUNDS = 3000 };

/* NULL: not there. Else a text to free(). */
static char *find(struct call_texts *c, const char *id)
{
    struct buf out;

    buf_init(&out, CALL_TEXT_BYTES_MAX);
    if (call_texts_find(c, CALL_ARGUMENTS, id, &out))
        return buf_take(&out);
    buf_release(&out);
    return NULL;
}

static void expect(struct call_texts *c, const char *id, const char *wanted)
{
    char *got = find(c, id);

    if (wanted)
        assert_string_equal(got, wanted);
    else
        assert_null(got);
    free(got);
}

static void test_texts_are_found_by_id(void **state)
{
    struct call_texts *c = call_texts_new(ROOM);

    (void)state;
    expect(c, "a", NULL);
    call_texts_put(c, CALL_ARGUMENTS, "a", "{ }", 3);
    call_texts_put(c, CALL_ARGUMENTS, "b", "{\"x\":1}", 7);
    expect(c, "a", "{ }");
    expect(c, "b", "{\"x\":1}");
    expect(c, "", NULL);
    call_texts_put(c, CALL_THINKING, "a", "I think.", 8);
    call_texts_put(c, CALL_THINKING, "z", "I think.", 8);
    expect(c, "a", "{ }");
    expect(c, "z", NULL);
    call_texts_put(c, CALL_ARGUMENTS, "a", "{}", 2);
    expect(c, "a", "{}");
    call_texts_free(c);
    call_texts_free(NULL);
}

static void put_large(struct call_texts *c, const char *id)
{
    char text[TEXT_BYTES];

    memset(text, 'x', sizeof text);
    call_texts_put(c, CALL_ARGUMENTS, id, text, sizeof text);
}

static void test_the_least_recently_used_is_dropped(void **state)
{
    struct call_texts *c = call_texts_new(ROOM);

    (void)state;
    put_large(c, "a");
    put_large(c, "b");
    put_large(c, "c");
    free(find(c, "a"));
    put_large(c, "d");
    expect(c, "b", NULL);
    free(find(c, "c"));
    for (const char *id = "acd"; *id; id++) {
        const char name[] = {*id, '\0'};
        char *text = find(c, name);

        assert_non_null(text);
        free(text);
    }
    call_texts_free(c);
}

static void test_texts_that_are_too_long(void **state)
{
    struct call_texts *small = call_texts_new(ROOM / 8), *large = call_texts_new(SIZE_MAX);
    char *text = mem_new(CALL_TEXT_BYTES_MAX + 2);

    (void)state;
    memset(text, 'x', CALL_TEXT_BYTES_MAX + 1);
    put_large(small, "a");
    expect(small, "a", NULL);
    call_texts_put(large, CALL_ARGUMENTS, "a", text, CALL_TEXT_BYTES_MAX + 1);
    expect(large, "a", NULL);
    text[CALL_TEXT_BYTES_MAX] = '\0';
    call_texts_put(large, CALL_ARGUMENTS, "a", text, CALL_TEXT_BYTES_MAX);
    expect(large, "a", text);
    free(text);
    call_texts_free(small);
    call_texts_free(large);
}

static void *work(void *ctx)
{
    char id[32];

    for (int i = 0; i < N_ROUNDS; i++) {
        char *text;

        snprintf(id, sizeof id, "call_%d", i % 50);
        call_texts_put(ctx, CALL_ARGUMENTS, id, id, strlen(id));
        text = find(ctx, id);
        if (text && strcmp(text, id) != 0)
            fail_msg("%s has the text %s", id, text);
        free(text);
    }
    return NULL;
}

static void test_several_threads(void **state)
{
    struct call_texts *c = call_texts_new(ROOM);
    pthread_t threads[N_THREADS];

    (void)state;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, c), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    call_texts_free(c);
}

UNIT_MAIN(cmocka_unit_test(test_texts_are_found_by_id),
          cmocka_unit_test(test_the_least_recently_used_is_dropped),
          cmocka_unit_test(test_texts_that_are_too_long), cmocka_unit_test(test_several_threads))
