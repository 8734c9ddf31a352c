/* Frames and option tables: what crosses comes out as it went in, and what cannot be is refused. */
#include "unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/worker/wire_fields.h"

static void open_pair(struct wire ends[2])
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    wire_init(&ends[0], fds[0]);
    wire_init(&ends[1], fds[1]);
}

static void close_pair(struct wire ends[2])
{
    wire_release(&ends[0]);
    wire_release(&ends[1]);
}

/* Sends what `from` has, and takes the frame at the other end. */
static struct frame cross(struct wire *from, struct wire *to)
{
    struct frame f;
    enum osp_status st;

    for (;;) {
        assert_int_equal(wire_flush(from), OSP_OK);
        assert_int_equal(wire_fill(to), OSP_OK);
        if (wire_next(to, &f, &st))
            return f;
        assert_int_equal(st, OSP_OK);
    }
}

static void send_bytes(struct wire *w, const void *data, size_t n_bytes)
{
    assert_int_equal(send(w->fd, data, n_bytes, 0), (ssize_t)n_bytes);
}

/* Every member another value. */
static void fill(void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(i * 7 + 1);
}

#define SET_TEXT(member)          sent.member = #member " as text";
#define SET_VALUE(type, member)   fill(&sent.member, sizeof sent.member);
#define SET_HERE(type, member)    memset(&sent.member, 0xff, sizeof sent.member);
#define CHECK_TEXT(member)        assert_string_equal(got.member, #member " as text");
#define CHECK_VALUE(type, member) assert_memory_equal(&got.member, &sent.member, sizeof got.member);
#define CHECK_HERE(type, member)  assert_memory_equal(&got.member, &none.member, sizeof got.member);

#define TEST_OPTIONS(name, fields)                                                                 \
    static void test_##name##_options_cross(void **state)                                          \
    {                                                                                              \
        static const struct osp_##name##_options none;                                             \
        struct osp_##name##_options sent, got;                                                     \
        struct wire ends[2];                                                                       \
        struct frame f;                                                                            \
                                                                                                   \
        (void)state;                                                                               \
        fields(SET_TEXT, SET_VALUE, SET_HERE) open_pair(ends);                                     \
        wire_begin(&ends[0], FRAME_PING);                                                          \
        wire_put_##name##_options(&ends[0], &sent);                                                \
        assert_int_equal(wire_end(&ends[0]), OSP_OK);                                              \
        f = cross(&ends[0], &ends[1]);                                                             \
        wire_take_##name##_options(&f, &got);                                                      \
        assert_int_equal(frame_end(&f), OSP_OK);                                                   \
        fields(CHECK_TEXT, CHECK_VALUE, CHECK_HERE) close_pair(ends);                              \
    }
WIRE_OPTIONS_LIST(TEST_OPTIONS)

/* An absent string stays absent, and an empty one stays empty. */
static void test_strings(void **state)
{
    struct osp_model_options sent = {.path = NULL, .device = ""}, got;
    struct wire ends[2];
    struct frame f;

    (void)state;
    open_pair(ends);
    wire_begin(&ends[0], FRAME_OPEN);
    wire_put_model_options(&ends[0], &sent);
    assert_int_equal(wire_end(&ends[0]), OSP_OK);
    f = cross(&ends[0], &ends[1]);
    wire_take_model_options(&f, &got);
    assert_int_equal(frame_end(&f), OSP_OK);
    assert_null(got.path);
    assert_string_equal(got.device, "");
    close_pair(ends);
}

/* A list of pairs; a value may be missing. */
static void test_device_options(void **state)
{
    static const struct osp_device_option list[] = {{"moe-tile", "64x128"}, {"x", NULL}};
    struct osp_model_options sent = {.device_options = list, .n_device_options = 2}, got = {0};
    wire_device_options taken;
    struct wire ends[2];
    struct frame f;
    int n = OSP_DEVICE_OPTIONS_MAX + 1;

    (void)state;
    open_pair(ends);
    wire_begin(&ends[0], FRAME_OPEN);
    wire_put_device_options(&ends[0], &sent);
    assert_int_equal(wire_end(&ends[0]), OSP_OK);
    f = cross(&ends[0], &ends[1]);
    wire_take_device_options(&f, taken, &got);
    assert_int_equal(frame_end(&f), OSP_OK);
    assert_int_equal(got.n_device_options, 2);
    assert_string_equal(got.device_options[0].name, "moe-tile");
    assert_string_equal(got.device_options[0].value, "64x128");
    assert_null(got.device_options[1].value);

    wire_begin(&ends[0], FRAME_OPEN);
    wire_put(&ends[0], &n, sizeof n);
    assert_int_equal(wire_end(&ends[0]), OSP_OK);
    f = cross(&ends[0], &ends[1]);
    wire_take_device_options(&f, taken, &got);
    assert_int_equal(got.n_device_options, 0);
    assert_int_not_equal(frame_end(&f), OSP_OK);
    close_pair(ends);
}

/* Frames of all sizes, many in one piece and one in many pieces. */
static void test_frames_arrive_whole(void **state)
{
    enum { N = 60 };
    struct wire ends[2];
    char *bytes = malloc((size_t)1 << 20);
    size_t sizes[N];
    struct frame f;
    enum osp_status st;
    int n_heard = 0;

    (void)state;
    assert_non_null(bytes);
    fill(bytes, (size_t)1 << 20);
    open_pair(ends);
    for (int i = 0; i < N; i++) {
        sizes[i] = i % 10 == 9 ? (size_t)1 << 20 : (size_t)i * 37;
        wire_begin(&ends[0], FRAME_EVENT);
        wire_put(&ends[0], bytes, sizes[i]);
        assert_int_equal(wire_end(&ends[0]), OSP_OK);
    }
    while (n_heard < N) {
        assert_int_equal(wire_flush(&ends[0]), OSP_OK);
        assert_int_equal(wire_fill(&ends[1]), OSP_OK);
        while (wire_next(&ends[1], &f, &st)) {
            assert_int_equal(f.kind, FRAME_EVENT);
            assert_int_equal(f.n_left, sizes[n_heard]);
            assert_memory_equal(f.at, bytes, f.n_left);
            n_heard++;
        }
        assert_int_equal(st, OSP_OK);
    }
    assert_false(wire_has_output(&ends[0]));
    free(bytes);
    close_pair(ends);
}

static void expect_refusal(const void *bytes, size_t n_bytes)
{
    struct wire ends[2];
    struct frame f;
    enum osp_status st;

    open_pair(ends);
    send_bytes(&ends[0], bytes, n_bytes);
    assert_int_equal(wire_fill(&ends[1]), OSP_OK);
    assert_false(wire_next(&ends[1], &f, &st));
    assert_int_equal(st, OSP_EFORMAT);
    close_pair(ends);
}

static void test_impossible_heads(void **state)
{
    const uint32_t unknown[] = {N_FRAME_KINDS, 0}, long_one[] = {FRAME_EVENT, FRAME_BYTES_MAX + 1},
                   negative[] = {FRAME_EVENT, UINT32_MAX};

    (void)state;
    expect_refusal(unknown, sizeof unknown);
    expect_refusal(long_one, sizeof long_one);
    expect_refusal(negative, sizeof negative);
}

static void test_short_and_long_frames(void **state)
{
    struct frame f = {.kind = FRAME_EVENT, .at = "abcdefgh", .n_left = 8};
    char eight[8], nine[9] = "xxxxxxxx";

    (void)state;
    frame_take(&f, eight, 4);
    assert_int_equal(frame_end(&f), OSP_EFORMAT);
    frame_take(&f, eight, 4);
    assert_memory_equal(eight, "efgh", 4);
    assert_int_equal(frame_end(&f), OSP_OK);
    frame_take(&f, nine, 1);
    assert_int_equal(nine[0], 0);
    assert_int_equal(frame_end(&f), OSP_EFORMAT);
    assert_null(frame_view(&f, SIZE_MAX));
    assert_null(frame_view(&f, 0)); /* bad stays bad */
}

/* A string that has no end, or one too early, and options of any bytes: refused or read, never
 * more. */
static void test_hostile_options(void **state)
{
    enum { LENGTHS = 256 };
    struct osp_request_options got;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        uint64_t seed = (uint64_t)round;
        size_t n = rng_bits(seed, 0, 0) % LENGTHS;
        char *exact = malloc(n + 1); /* so that a sanitizer sees what lies behind */
        struct frame f = {.kind = FRAME_SUBMIT, .at = exact, .n_left = n};

        assert_non_null(exact);
        for (size_t i = 0; i < n; i++)
            exact[i] = (char)(rng_bits(seed, i, 1) % (rng_bits(seed, i, 2) % 4 ? 3 : 256));
        wire_take_request_options(&f, &got);
        if (!f.is_bad && got.client != NULL)
            assert_true(strlen(got.client) < n);
        free(exact);
    }
}

static void test_no_room(void **state)
{
    static char block[1 << 20];
    struct wire ends[2];
    int n = 0;

    (void)state;
    open_pair(ends);
    wire_begin(&ends[0], FRAME_EVENT);
    for (int i = 0; i <= FRAME_BYTES_MAX >> 20; i++)
        wire_put(&ends[0], block, sizeof block);
    assert_int_equal(wire_end(&ends[0]), OSP_ENOMEM);
    assert_false(wire_has_output(&ends[0]));
    for (enum osp_status st = OSP_OK; st == OSP_OK; n += st == OSP_OK) {
        wire_begin(&ends[0], FRAME_EVENT);
        wire_put(&ends[0], block, sizeof block);
        st = wire_end(&ends[0]);
    }
    assert_int_equal(n, (WIRE_QUEUE_BYTES_MAX >> 20) - 1); /* heads take some, too */
    (void)cross(&ends[0], &ends[1]);
    close_pair(ends);
}

static void test_the_other_end_is_gone(void **state)
{
    struct wire ends[2];

    (void)state;
    open_pair(ends);
    wire_release(&ends[1]);
    assert_int_equal(wire_fill(&ends[0]), OSP_EIO);
    wire_begin(&ends[0], FRAME_PING);
    assert_int_equal(wire_end(&ends[0]), OSP_OK);
    assert_int_equal(wire_flush(&ends[0]), OSP_EIO);
    wire_release(&ends[0]);
}

static void test_other_builds_are_refused(void **state)
{
    struct wire_hello hello = wire_hello_make();

    (void)state;
    assert_int_equal(wire_hello_check(&hello), OSP_OK);
    hello.sizes.wire_event++;
    assert_int_equal(wire_hello_check(&hello), OSP_EFORMAT);
    hello = wire_hello_make();
    hello.version++;
    assert_int_equal(wire_hello_check(&hello), OSP_EFORMAT);
}

UNIT_MAIN(cmocka_unit_test(test_model_options_cross), cmocka_unit_test(test_engine_options_cross),
          cmocka_unit_test(test_request_options_cross), cmocka_unit_test(test_strings),
          cmocka_unit_test(test_device_options), cmocka_unit_test(test_frames_arrive_whole),
          cmocka_unit_test(test_impossible_heads), cmocka_unit_test(test_short_and_long_frames),
          cmocka_unit_test(test_hostile_options), cmocka_unit_test(test_no_room),
          cmocka_unit_test(test_the_other_end_is_gone),
          cmocka_unit_test(test_other_builds_are_refused))
