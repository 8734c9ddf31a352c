"""Several API keys: none sees another's text through the caches, and none takes more than its share of the engine."""

import concurrent.futures
import http.client
import json
import re
import socket
import urllib.error
import urllib.request

import pytest

TEXT = "The lighthouse keeper counted seventeen grey gulls on the rail and wrote that down. " * 6
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
ANSWERS = {"max_tokens": 8, "seed": 1, "temperature": 0}


@pytest.fixture
def two_keys(start_server):
    def start(*options):
        return start_server("--api-key", "first,second", *options)

    return start


def ask(server, key, path="/v1/chat/completions", **body):
    """Gives the answer's JSON, or the status of an error."""
    request = urllib.request.Request(
        server.url + path,
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code


def cached(server, key, **more):
    """Tokens of a chat's prompt that were found in the prefix cache."""
    messages = [{"role": "user", "content": TEXT}]
    usage = ask(server, key, messages=messages, **ANSWERS, **more)["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


def test_a_key_does_not_see_what_another_one_asked(two_keys):
    server = two_keys()
    assert cached(server, "first") == 0
    whole = cached(server, "first")
    assert whole > 50
    assert cached(server, "second") == 0
    assert cached(server, "second") == whole


def test_salts_within_a_key(two_keys):
    server = two_keys()
    assert cached(server, "first", cache_salt="s") == 0
    whole = cached(server, "first", cache_salt="s")
    assert whole > 50
    assert cached(server, "first") == 0
    assert cached(server, "first", cache_salt="t") == 0
    assert cached(server, "second", cache_salt="s") == 0
    longest = "s" * 256
    assert cached(server, "first", cache_salt=longest) == 0
    assert cached(server, "first", cache_salt=longest) == whole
    assert cached(server, "first", cache_salt=longest[:-1]) == 0


@pytest.mark.parametrize("path, field", [("/v1/completions", "prompt"), ("/v1/responses", "input")])
def test_other_endpoints(two_keys, path, field):
    server = two_keys()

    def found(key):
        body = {"max_output_tokens": 4} if field == "input" else {"max_tokens": 4}
        usage = ask(server, key, path, temperature=0, seed=1, **{field: TEXT}, **body)["usage"]
        details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
        return details["cached_tokens"]

    assert found("first") == 0
    whole = found("first")
    assert whole > 50
    assert found("second") == 0
    assert found("second") == whole


def test_share_prefix_cache(two_keys):
    server = two_keys("--share-prefix-cache")
    assert cached(server, "first") == 0
    assert cached(server, "second") > 50
    assert cached(server, "second", cache_salt="own") == 0


def test_one_key_and_none(start_server):
    """Nothing changes there: whoever calls shares the cache."""
    for server in (start_server("--api-key", "only"), start_server()):
        assert cached(server, "only") == 0
        assert cached(server, "only") > 50


def metric(server, name):
    request = urllib.request.Request(server.url + "/metrics", headers={"Authorization": "Bearer first"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.M)[1])


def test_answers_are_replayed_to_their_own_key(two_keys):
    """What the model wrote is looked for by the key, too: another key's conversation is rendered from its text."""
    server = two_keys()
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": CITY, "strict": True}}
    asked = {"tools": [tool], "tool_choice": "required", "temperature": 0}
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    said = ask(server, "first", messages=messages, max_tokens=400, **asked)["choices"][0]["message"]
    call = said["tool_calls"][0]
    messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": "Sunny."}]
    for key, hits in (("second", 0), ("first", 1)):
        before = metric(server, "osprey:replay_hits_total")
        assert ask(server, key, messages=messages, max_tokens=1, **asked)["usage"]
        assert metric(server, "osprey:replay_hits_total") - before == hits, key


# ---- shares ----

ANSWER_TOKENS = 30  # long enough that the order of starts shows in milliseconds


class Asker:
    """Requests in threads of their own, each under an id by which the server's log names it when it is answered."""

    def __init__(self, server):
        self.server = server
        self.pool = concurrent.futures.ThreadPoolExecutor(64)
        self.n = 0

    def _request(self, name, key, address="127.0.0.1", **body):
        """A connection, and the call that sends the request."""
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {key}",
            "X-Request-Id": f"{name}-{self.n}",
        }
        self.n += 1
        body = json.dumps({"prompt": name, "ignore_eos": True, "max_tokens": ANSWER_TOKENS, **body})
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.server.port, timeout=120, source_address=(address, 0)
        )
        return connection, lambda: connection.request("POST", "/v1/completions", body, headers)

    def ask(self, name, key, **body):
        connection, send = self._request(name, key, **body)

        def get():
            send()
            assert connection.getresponse().read()
            connection.close()

        return self.pool.submit(get)

    def occupy(self, key, **body):
        """A long answer that runs alone, so that all others wait until it is closed."""
        connection, send = self._request("ahead", key, **body, max_tokens=4000)
        send()
        self.server.wait_until(lambda h: h["running"] == 1, "the first one runs")
        return connection

    def queue_ms(self, name):
        """Queueing times of the requests of this name, in ascending order. The engine measures them: the order of
        the answers also depends on when the server's loop reads them."""
        line = re.compile(rf"http id={name}-\d+ .* path=/v1/completions status=200 .*queue_ms=([0-9.]+)")
        found = (line.search(one) for one in self.server.log)
        return sorted(float(m[1]) for m in found if m)


def in_turn(server, many, few):
    """Sixteen requests wait, then four of another client come, which are served in turn with those. When the last of
    the four starts, half of the sixteen still wait, and they began to wait earlier."""
    asker = Asker(server)
    ahead = asker.occupy(**many(0))
    asked = [asker.ask("many", **many(i)) for i in range(16)]
    server.wait_until(lambda h: h["waiting"] == 16, "all wait")
    asked += [asker.ask("few", **few) for _ in range(4)]
    server.wait_until(lambda h: h["waiting"] == 20, "the others wait, too")
    ahead.close()
    for one in asked:
        one.result()
    server.wait_idle()
    assert server.stop() == 0
    many_ms, few_ms = asker.queue_ms("many"), asker.queue_ms("few")
    assert len(many_ms) == 16 and len(few_ms) == 4
    assert sum(ms > few_ms[-1] for ms in many_ms) >= 8, (few_ms, many_ms)


CHOSEN = {
    "users": lambda i: {"user": f"user {i}"},
    "priority": lambda i: {"priority": -1000},
    "both": lambda i: {"safety_identifier": f"user {i}", "priority": -(2**31)},
}


@pytest.mark.parametrize("chosen", CHOSEN)
def test_users_and_priority_do_not_raise_a_keys_share(two_keys, chosen):
    in_turn(two_keys("-np", "1"), lambda i: {"key": "first", **CHOSEN[chosen](i)}, {"key": "second"})


@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_nor_an_addresss_without_keys(start_server, host):
    """There are no keys: the share belongs to the address, whatever tokens clients send."""
    if host == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    server = start_server("-np", "1", "--host", host)
    in_turn(
        server,
        lambda i: {"key": f"any {i}".replace(" ", "-"), **CHOSEN["both"](i)},
        {"key": "x", "address": "127.0.0.2"},
    )


def test_priority_and_users_within_a_key(start_server):
    """There they mean what they did: lower goes first, then the user that was served least."""
    server = start_server("--api-key", "only", "-np", "1")
    asker = Asker(server)
    ahead = asker.occupy("only")
    asked = []
    for name, body in (("low", {"priority": 1}), ("a", {"user": "a"}), ("a", {"user": "a"}), ("b", {"user": "b"})):
        asked.append(asker.ask(name, "only", **body))
        server.wait_until(lambda h: h["waiting"] == len(asked), "it waits")
    ahead.close()
    for one in asked:
        one.result()
    assert server.stop() == 0
    # b begins to wait last, low first
    assert asker.queue_ms("b")[0] < asker.queue_ms("a")[-1] < asker.queue_ms("low")[0]


def test_a_short_prompt_does_not_wait_for_a_long_one(start_server):
    """Both are of one key. When the short one is answered, the long one's prompt is still being computed."""
    server = start_server("--api-key", "only", "--max-model-len", "65536")
    long = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer only"}
    body = {"prompt": [1 + i % 1000 for i in range(60000)], "max_tokens": 1}
    long.request("POST", "/v1/completions", json.dumps(body), headers)
    server.wait_until(lambda h: h["running"] == 1, "the long one runs")
    for i in range(3):
        assert ask(server, "only", "/v1/completions", prompt=f"short {i}", max_tokens=2)["usage"]
    assert server.health()["running"] == 1
    long.close()
    server.wait_idle()
    assert server.stop() == 0


class Streams:
    """Answers that are begun and never read."""

    def __init__(self, server):
        self.server = server
        self.open, self.refused = [], []

    def send(self, key, **more):
        body = {"prompt": "x", "ignore_eos": True, "max_tokens": 3000, "stream": True, **more}
        request = urllib.request.Request(
            f"{self.server.url}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        try:
            self.open.append(urllib.request.urlopen(request, timeout=120))
            return 200
        except urllib.error.HTTPError as error:
            self.refused.append(json.load(error)["error"]["message"])
            return error.code

    def leave(self):
        for stream in self.open:
            stream.close()
        self.open = []
        self.server.wait_idle()


def test_a_key_cannot_fill_the_queue(two_keys):
    """However many requests one key sends, another one's finds a place."""
    server = two_keys("-np", "1", "--max-queue", "20")
    streams = Streams(server)
    assert streams.send("first") == 200
    server.wait_until(lambda h: h["running"] == 1, "one runs")
    statuses = [streams.send("first") for _ in range(40)]
    assert statuses.count(200) in range(14, 18), statuses  # four fifths of 20 places
    assert all(status in (200, 429) for status in statuses)
    assert all("requests of this API key are waiting" in message for message in streams.refused), streams.refused
    assert streams.send("second") == 200
    assert streams.send("first") == 429
    streams.leave()
    assert [streams.send("first") for _ in range(8)] == [200] * 8  # what has left is counted no more
    streams.leave()
    assert server.stop() == 0


def test_nor_with_many_prompts_in_one_body(two_keys):
    server = two_keys("-np", "1", "--max-queue", "20")
    streams = Streams(server)
    assert streams.send("first") == 200
    server.wait_until(lambda h: h["running"] == 1, "one runs")
    assert streams.send("first", n=16) == 200
    assert streams.send("first", n=2) == 429
    assert streams.send("second") == 200
    streams.leave()
    assert streams.send("first") == 200
    server.wait_until(lambda h: h["running"] == 1, "one runs")
    assert streams.send("first", prompt=["x"] * 20) == 429
    server.wait_until(lambda h: h["waiting"] == 0, "what was refused has left")
    assert streams.send("second") == 200
    streams.leave()
    assert server.stop() == 0


def test_a_key_leaves_slots_to_others(two_keys):
    """Answers without end of one key take four of five slots; another key's chat does not wait for one of them to end."""
    server = two_keys("--max-num-seqs", "5")
    endless = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 3000, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        running = [pool.submit(ask, server, "first", seed=i, temperature=1, **endless) for i in range(6)]
        server.wait_until(lambda h: h["running"] >= 4 and h["waiting"] >= 2, "four running and two waiting")
        assert server.health()["running"] == 4
        answer = ask(server, "second", messages=[{"role": "user", "content": "What is the capital of France?"}])
        assert answer["usage"]["completion_tokens"] > 0
        assert not any(r.done() for r in running)
        server.process.kill()  # ends the answers


def as_client(server, key, method, path, body=None):
    """A request with this server's key as x-api-key, beside a token of a gateway that all clients share."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer gateway", "x-api-key": key}
    request = urllib.request.Request(server.url + path, body and json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_token_of_another_service_joins_no_clients(two_keys):
    """Stored responses and conversations belong to the key that admitted the request, not to the first token in it."""
    server = two_keys()
    stored = as_client(server, "first", "POST", "/v1/responses", {"input": "Hi", "max_output_tokens": 16})["id"]
    running = as_client(
        server, "first", "POST", "/v1/responses", {"input": "Hi", "background": True, "stream": False}
    )["id"]
    talk = as_client(server, "first", "POST", "/v1/conversations", {"metadata": {"of": "first"}})["id"]
    for path in (f"/v1/responses/{stored}", f"/v1/responses/{stored}/input_items", f"/v1/responses/{running}",
                 f"/v1/conversations/{talk}", f"/v1/conversations/{talk}/items"):  # fmt: skip
        assert as_client(server, "second", "GET", path) == 404, path
    assert as_client(server, "second", "POST", f"/v1/responses/{running}/cancel", {}) == 404
    assert as_client(server, "second", "DELETE", f"/v1/responses/{stored}") == 404
    assert as_client(server, "second", "DELETE", f"/v1/conversations/{talk}") == 404
    for more in ({"previous_response_id": stored}, {"conversation": talk},
                 {"input": [{"type": "item_reference", "id": "msg_x"}]}):  # fmt: skip
        assert as_client(server, "second", "POST", "/v1/responses", {"input": "x", **more}) in (400, 404)
    assert as_client(server, "first", "GET", f"/v1/responses/{stored}")["id"] == stored
    assert as_client(server, "first", "GET", f"/v1/conversations/{talk}")["metadata"] == {"of": "first"}
    request = urllib.request.Request(
        f"{server.url}/v1/responses/{stored}", headers={"Authorization": "Bearer first"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:  # the same key in the other header
        assert json.load(answer)["id"] == stored
