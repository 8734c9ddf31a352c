/* Kept events of background responses: where readers begin, slow readers, and what is dropped. */
#include "unit.h"

#include "base/buf.h"
#include "base/memory.h"
#include "serve/http/http.h"
#include "serve/stored/response_events.h"

/* A connection whose client reads when the test says so. */
struct http_exchange {
    struct buf got;
    size_t n_unread;
    bool has_begun, has_ended;
    void (*on_close)(void *ctx);
    void *ctx;
};

void http_stream_begin(struct http_exchange *x, int status, const char *content_type)
{
    assert_int_equal(status, 200);
    assert_non_null(strstr(content_type, "event-stream"));
    x->has_begun = true;
}

void http_stream_set_ping(struct http_exchange *x, const char *ping)
{
    (void)x, (void)ping;
}

void http_stream_write(struct http_exchange *x, const char *data, size_t n_bytes)
{
    assert_true(x->has_begun && !x->has_ended);
    buf_append(&x->got, data, n_bytes);
    x->n_unread += n_bytes;
}

size_t http_stream_unread(const struct http_exchange *x)
{
    return x->n_unread;
}

void http_stream_end(struct http_exchange *x)
{
    assert_false(x->has_ended);
    x->has_ended = true;
}

void http_exchange_on_close(struct http_exchange *x, void (*on_close)(void *ctx), void *ctx)
{
    x->on_close = on_close;
    x->ctx = ctx;
}

static void connect(struct http_exchange *x)
{
    *x = (struct http_exchange){0};
    buf_init(&x->got, 64 << 20);
}

static void write_text(struct background *b, const char *text)
{
    struct buf out;

    buf_init(&out, 16 << 20);
    buf_puts(&out, text);
    background_write(b, &out);
    buf_release(&out);
}

static struct background *begin(struct backgrounds *all, const char *id)
{
    static int job;

    return background_begin(all, &(struct background_entry){id, "me", &job, true});
}

static void test_where_readers_begin(void **state)
{
    static const char *const rest[] = {"a\n\nb\n\nc\n\n", "b\n\nc\n\n", "c\n\n", "c\n\n", "c\n\n"};
    struct backgrounds *all = backgrounds_new();
    struct background *b = begin(all, "r1");
    struct http_exchange x[5];
    int64_t oldest;

    (void)state;
    write_text(b, "a\n\nb\n\n");
    for (int i = 0; i < 5; i++) {
        connect(&x[i]);
        assert_int_equal(background_follow(b, &x[i], i - 1, &oldest), BACKGROUND_READS);
    }
    write_text(b, "c\n\n");
    assert_true(background_has_reader(b));
    background_end(b, 5);
    assert_ptr_equal(background_find(all, "me", "r1"), b);
    assert_null(background_find(all, "you", "r1"));
    assert_null(background_find(all, "me", "r2"));
    assert_null(background_job(b));
    for (int i = 0; i < 5; i++) { /* events that are not there yet: from the next one on */
        assert_string_equal(buf_text(&x[i].got), rest[i]);
        assert_true(x[i].has_ended);
    }
    for (int i = 0; i < 5; i++)
        buf_release(&x[i].got);
    backgrounds_tick(all, 6);
    assert_non_null(background_find(all, "me", "r1"));
    backgrounds_tick(all, UINT64_C(1000000000) * (BACKGROUND_EVENTS_AGE_S_MAX + 1));
    assert_null(background_find(all, "me", "r1"));
    backgrounds_free(all);
}

static char *event_of(size_t n_bytes, char letter)
{
    char *text = malloc(n_bytes + 1);

    assert_non_null(text);
    memset(text, letter, n_bytes);
    memcpy(text + n_bytes - 2, "\n\n", 3);
    return text;
}

/* A client that does not read is not sent more, and loses its place when the events are dropped. */
static void test_a_slow_reader(void **state)
{
    enum { EVENT_BYTES = 100 << 10, N = BACKGROUND_EVENTS_BYTES_MAX / EVENT_BYTES + 2 };
    struct backgrounds *all = backgrounds_new();
    struct background *b = begin(all, "r1");
    char *event = event_of(EVENT_BYTES, 'x');
    struct http_exchange slow, gone, late;
    int64_t oldest;

    (void)state;
    connect(&slow);
    connect(&gone);
    connect(&late);
    assert_int_equal(background_follow(b, &slow, -1, &oldest), BACKGROUND_READS);
    assert_int_equal(background_follow(b, &gone, -1, &oldest), BACKGROUND_READS);
    write_text(b, event);
    assert_true(slow.n_unread <= (size_t)2 * BACKGROUND_WRITE_BYTES);
    slow.n_unread = 0;
    backgrounds_tick(all, 1);
    assert_int_equal(slow.got.size_bytes, EVENT_BYTES);
    gone.on_close(gone.ctx);
    for (int i = 1; i < N; i++)
        write_text(b, event);
    assert_true(slow.has_ended && !gone.has_ended);
    assert_false(background_has_reader(b));
    assert_int_equal(background_follow(b, &late, 2, &oldest), BACKGROUND_TOO_OLD);
    assert_true(oldest > 3 && oldest < N && !late.has_begun);
    assert_int_equal(background_follow(b, &late, oldest - 1, &oldest), BACKGROUND_READS);
    background_remove(b);
    assert_true(late.has_ended);
    buf_release(&slow.got);
    buf_release(&gone.got);
    buf_release(&late.got);
    free(event);
    backgrounds_free(all);
}

/* Of all responses together: finished ones lose their events first. */
static void test_limit_of_all(void **state)
{
    enum { EVENT_BYTES = 2 << 20, N = BACKGROUND_ALL_EVENTS_BYTES_MAX / EVENT_BYTES };
    struct backgrounds *all = backgrounds_new();
    char *event = event_of(EVENT_BYTES, 'x'), id[16];
    struct background *last;
    struct http_exchange x;
    int64_t oldest;

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "r%d", i);
        write_text(begin(all, id), event);
        if (i == 3 || i == 5)
            background_end(background_find(all, "me", id), 1);
    }
    last = begin(all, "last");
    write_text(last, "a\n\n");
    assert_null(background_find(all, "me", "r3"));
    assert_non_null(background_find(all, "me", "r5"));
    write_text(last, event);
    assert_null(background_find(all, "me", "r5"));
    write_text(last, event); /* no other events may be dropped: its own older ones are */
    connect(&x);
    assert_int_equal(background_follow(last, &x, -1, &oldest), BACKGROUND_TOO_OLD);
    assert_int_equal(oldest, 2);
    buf_release(&x.got);
    free(event);
    backgrounds_free(all);
}

static void test_without_events(void **state)
{
    struct backgrounds *all = backgrounds_new();
    struct http_exchange x;
    int64_t oldest;
    int job, n = 0;
    struct background *b =
        background_begin(all, &(struct background_entry){"r1", "me", &job, false});

    (void)state;
    connect(&x);
    write_text(b, "a\n\n");
    assert_int_equal(background_follow(b, &x, -1, &oldest), BACKGROUND_NO_EVENTS);
    assert_false(x.has_begun);
    background_end(b, 1); /* only the store has it now */
    assert_null(background_find(all, "me", "r1"));
    while (n <= BACKGROUND_RUNNING_MAX && backgrounds_reserve(all))
        n++;
    assert_int_equal(n, BACKGROUND_RUNNING_MAX);
    assert_int_equal(backgrounds_running(all), BACKGROUND_RUNNING_MAX);
    backgrounds_unreserve(all);
    assert_true(backgrounds_reserve(all));
    backgrounds_free(all);
}

/* A response that the visit ends with an event. */
struct canceled {
    struct background *of;
    const char *event;
    int n_visits;
};

static void cancel(void *job)
{
    struct canceled *c = job;

    c->n_visits++;
    write_text(c->of, c->event);
    background_end(c->of, 1);
}

static void write_finished(struct backgrounds *all, const char *id, const char *event)
{
    struct background *b = begin(all, id);

    write_text(b, event);
    background_end(b, 1);
}

/* The event that a visit writes exceeds the limit of all, so that the oldest finished response is
 * removed. That is the next one in the list. */
static void test_a_visit_that_removes_another(void **state)
{
    enum { EVENT_BYTES = 2 << 20, N = BACKGROUND_ALL_EVENTS_BYTES_MAX / EVENT_BYTES };
    struct backgrounds *all = backgrounds_new();
    char *event = event_of(EVENT_BYTES, 'x'), id[16];
    struct canceled one = {.event = event};

    (void)state;
    write_finished(all, "oldest", event);
    one.of = background_begin(all, &(struct background_entry){"one", "me", &one, true});
    for (int i = 1; i < N; i++) {
        snprintf(id, sizeof id, "r%d", i);
        write_finished(all, id, event);
    }
    assert_non_null(background_find(all, "me", "oldest"));
    backgrounds_each_unread(all, cancel);
    assert_int_equal(one.n_visits, 1);
    assert_null(background_find(all, "me", "oldest"));
    assert_non_null(background_find(all, "me", "one"));
    free(event);
    backgrounds_free(all);
}

UNIT_MAIN(cmocka_unit_test(test_where_readers_begin), cmocka_unit_test(test_a_slow_reader),
          cmocka_unit_test(test_limit_of_all), cmocka_unit_test(test_without_events),
          cmocka_unit_test(test_a_visit_that_removes_another))
