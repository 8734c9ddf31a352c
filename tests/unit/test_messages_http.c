/* /v1/messages over real sockets with a stand-in for the engine: whole and streamed answers, and
 * failures before, at the beginning of and within an answer. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "http_fixture.h"

/* word: selects the behaviour of the engine (fake_osprey.c). */
static char *message_text(const char *word, const char *more)
{
    char *body = mem_printf("{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                            "\"max_tokens\":9%s}",
                            word, more);
    char *bytes = request_text("POST", "/v1/messages", "Content-Type: application/json\r\n", body);

    free(body);
    return bytes;
}

#define THINKING ",\"thinking\":{\"type\":\"adaptive\"}"
#define STREAM   ",\"stream\":true"

static void test_whole(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, message_text("Hi", ""), "\"content\":[{\"type\":\"text\",\"text\":\"Hello world\"}]",
           "\"stop_reason\":\"end_turn\",\"stop_sequence\":null");
    expect(&f, message_text("Hi", THINKING),
           "\"content\":[{\"type\":\"thinking\",\"thinking\":\"thinking\",\"signature\":\"osprey1-",
           "\"output_tokens\":5");
    expect(&f, message_text("TOOL", ""),
           "\"content\":[{\"type\":\"tool_use\",\"id\":\"call_1\",\"name\":\"get_weather\","
           "\"input\":{\"city\":\"Paris\"}}]",
           "\"stop_reason\":\"tool_use\"");
    expect_idle(&f);
    finish(&f);
}

static const char STREAM_OF_CALL[] =
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
    "\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_1\",\"name\":\"get_weather\","
    "\"input\":{}}}\n\n";

static void test_streams(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, message_text("Hi", STREAM), "content-type: text/event-stream",
           "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_");
    expect(&f, message_text("Hi", STREAM),
           "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
           "\"text\":\" world\"}}",
           "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    expect(&f, message_text("TOOL", STREAM), STREAM_OF_CALL,
           "\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"city\\\":"
           "\\\"Paris\\\"\"}");
    expect_idle(&f);
    finish(&f);
}

static void test_failures(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, usual_options());
    expect(&f, message_text("FAIL", ""), "529 Overloaded",
           "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"the device "
           "is gone\"},\"request_id\":\"req-");
    expect(&f, message_text("FAIL", ""), "retry-after: ", NULL);
    expect(&f, message_text("FAIL", STREAM), "200 OK",
           "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
           "\"message\":\"the device is gone\"},\"request_id\":\"req-");
    expect(&f, message_text("BUSY", ""), "429 Too",
           "\"type\":\"rate_limit_error\",\"message\":\"256 requests are waiting\"");
    expect(&f, message_text("BUSY", STREAM), "429 Too", "retry-after: 1");
    expect(&f, message_text("LONG", ""), "400 Bad", "\"type\":\"invalid_request_error\"");
    expect_idle(&f);
    finish(&f);
}

static void test_no_event_follows_a_failure(void **state)
{
    struct fixture f;
    char *bytes = message_text("FAIL", STREAM), *answer;

    (void)state;
    start(&f, usual_options());
    answer = ask(&f, bytes);
    expect_in(answer, "event: error");
    assert_null(strstr(answer, "message_delta"));
    assert_null(strstr(answer, "message_stop"));
    free(answer);
    free(bytes);
    finish(&f);
}

UNIT_MAIN(cmocka_unit_test(test_whole), cmocka_unit_test(test_streams),
          cmocka_unit_test(test_failures), cmocka_unit_test(test_no_event_follows_a_failure))
