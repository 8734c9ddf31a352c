"""Background responses, by the official client: polled, followed, canceled, deleted; the client leaves, the engine fails, the
server ends."""

import json
import os
import signal
import time
import urllib.request

import openai
import pytest

from conftest import Server
from scripted import PROGRAM as FAKE
from test_responses import check_events, events_of, post
from test_worker import worker_of

MODEL = "osprey-nano"
ASK = {"model": MODEL, "input": "Tell me everything.", "background": True}
LONG = {**ASK, "max_output_tokens": 3500, "extra_body": {"ignore_eos": True}}
WAIT_S = 120  # for a state that comes; CI has two slow cores
OPEN = ("queued", "in_progress")


@pytest.fixture(scope="module")
def slow():
    """A device of 50 ms a step: LONG takes minutes, and is in progress while a test looks at it."""
    running = Server("--max-num-seqs", "1", program=str(FAKE), environment={"OSPREY_FAKE_STEP_MS": "50"})
    yield running
    assert running.stop() == 0


def wait_for(read, condition, what):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = read()
        if condition(found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"not reached in {WAIT_S} s: {what}; last {found}")


def finished(client, id):
    return wait_for(lambda: client.responses.retrieve(id), lambda r: r.status not in OPEN, "the end of " + id)


def running(server):
    """How many have not finished."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("osprey:background_responses{"))


def raw(server, path, method="GET", body=b""):
    return post(server, body, f"/v1/responses/{path}", method=method, headers="Authorization: Bearer none\r\n")


def test_polled_to_its_end(client):
    body = {"model": MODEL, "input": "What is the capital of France?", "temperature": 0, "max_output_tokens": 100}
    r = client.responses.create(**body, background=True, metadata={"a": "b"})
    assert r.status == "queued" and r.background is True and r.output == [] and r.usage is None and r.store is True
    last = finished(client, r.id)
    same = client.responses.create(**body)
    assert last.status == same.status and last.output_text == same.output_text and last.background is True
    assert last.usage.output_tokens == same.usage.output_tokens and last.metadata == {"a": "b"}
    assert last.created_at == r.created_at and same.background is False
    assert [i.content[0].text for i in client.responses.input_items.list(r.id).data] == [body["input"]]
    more = client.responses.create(model=MODEL, input="And of Italy?", previous_response_id=r.id, max_output_tokens=1)
    assert more.usage.input_tokens > same.usage.input_tokens
    assert client.responses.cancel(r.id).status == last.status  # nothing to cancel any more


def test_cut_by_max_output_tokens(client):
    r = client.responses.create(**{**LONG, "max_output_tokens": 3})
    last = finished(client, r.id)
    assert last.status == "incomplete" and last.incomplete_details.reason == "max_output_tokens"


def test_canceled(slow):
    client = slow.client()
    r = client.responses.create(**LONG)
    wait_for(lambda: client.responses.retrieve(r.id), lambda now: now.status == "in_progress", "in progress")
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model=MODEL, input="x", previous_response_id=r.id)  # not there yet
    stopped = client.responses.cancel(r.id)
    assert stopped.status == "cancelled" and stopped.id == r.id
    slow.wait_idle()
    assert client.responses.retrieve(r.id).status == client.responses.cancel(r.id).status == "cancelled"
    assert client.responses.input_items.list(r.id).data


def test_deleted(slow):
    client = slow.client()
    r = client.responses.create(**LONG)
    client.responses.delete(r.id)
    slow.wait_idle()
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(r.id)
    status, _, _ = raw(slow, f"{r.id}/cancel", "POST")
    assert status == 404


def test_nobody_else_finds_it(slow):
    alice, bob = slow.client("alice"), slow.client("bob")
    r = alice.responses.create(**LONG)
    for attempt in (bob.responses.retrieve, bob.responses.cancel, bob.responses.delete,
                    lambda id: list(bob.responses.retrieve(id, stream=True))):  # fmt: skip
        with pytest.raises(openai.NotFoundError):
            attempt(r.id)
    assert alice.responses.cancel(r.id).status == "cancelled"


def test_queued(slow):
    """One at a time: the second waits, and can be canceled before it has begun."""
    client = slow.client()
    first = client.responses.create(**LONG)
    wait_for(lambda: client.responses.retrieve(first.id), lambda r: r.status == "in_progress", "in progress")
    second = client.responses.create(**LONG)
    assert client.responses.retrieve(second.id).status == "queued"
    assert client.responses.cancel(second.id).status == "cancelled"
    assert client.responses.cancel(first.id).status == "cancelled"
    slow.wait_idle()


# ---- events ----


def test_a_stream_and_its_replay(server, client):
    events = list(client.responses.create(**{**ASK, "max_output_tokens": 30, "extra_body": {"ignore_eos": True}}, stream=True))
    kinds = [e.type for e in events]
    assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert kinds[-1] == "response.incomplete" and [e.sequence_number for e in events] == list(range(len(events)))
    last = events[-1].response
    assert client.responses.retrieve(last.id).output == last.output
    for after in (None, 0, 3, len(events) - 2, len(events) - 1, len(events) + 5):
        more = {} if after is None else {"starting_after": after}
        again = list(client.responses.retrieve(last.id, stream=True, **more))
        assert again == events[0 if after is None else after + 1 :]


def test_the_client_leaves_and_comes_back(client):
    stream = client.responses.create(**{**ASK, "max_output_tokens": 400, "extra_body": {"ignore_eos": True}}, stream=True)
    seen = []
    for event in stream:
        seen.append(event)
        if event.type.endswith(".delta"):
            break
    stream.close()
    id = seen[0].response.id
    rest = list(client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number))
    assert [e.sequence_number for e in seen + rest] == list(range(len(seen) + len(rest)))
    last = rest[-1].response
    assert last.status == "incomplete" and last.usage.output_tokens == 400
    text = "".join(e.delta for e in seen + rest if e.type in ("response.output_text.delta", "response.reasoning_text.delta"))
    assert text == "".join(i.content[0].text for i in last.output)


def test_the_events_keep_the_rules(server):
    """The checker of streams, on the raw text of a replay."""
    _, _, text = post(server, {"input": "Hi", "background": True, "stream": True, "max_output_tokens": 20})
    events = events_of(text)
    assert events[1]["type"] == "response.queued"
    assert events[0]["response"]["status"] == events[1]["response"]["status"] == "queued"
    rest = [events[0], *events[2:]]
    check_events([{**e, "sequence_number": i} for i, e in enumerate(rest)])


def test_a_canceled_stream_ends(slow):
    client = slow.client()
    events = []
    for event in client.responses.create(**LONG, stream=True):
        events.append(event)
        if event.type.endswith(".delta") and not any(e.type.endswith(".delta") for e in events[:-1]):
            assert client.responses.cancel(events[0].response.id).status == "cancelled"
    assert events[-1].type == "response.incomplete" and events[-1].response.status == "cancelled"
    added = [e.item.id for e in events if e.type == "response.output_item.added"]
    assert added == [e.item.id for e in events if e.type == "response.output_item.done"]


def test_many_readers(client):
    r = None
    first = client.responses.create(**{**ASK, "max_output_tokens": 60, "extra_body": {"ignore_eos": True}}, stream=True)
    r = next(iter(first)).response
    second = client.responses.retrieve(r.id, stream=True)
    third = client.responses.retrieve(r.id, stream=True, starting_after=0)
    second, third = list(second), list(third)
    assert second[1:] == third and len(list(first)) == len(third)


# ---- ends ----


def test_the_engine_fails(start_server):
    server = start_server("--worker", "on")
    client = server.client()
    quiet = client.responses.create(**LONG)
    events = []
    for event in client.responses.create(**LONG, stream=True):
        if event.type.endswith(".delta") and not any(e.type.endswith(".delta") for e in events):
            os.kill(worker_of(server), signal.SIGKILL)
        events.append(event)
    assert events[-1].type == "response.failed"
    for id in (quiet.id, events[0].response.id):
        r = finished(client, id)
        assert r.status == "failed" and "the engine's process has failed" in r.error.message
    assert server.stop() == 0


def test_the_time_limit(start_server):
    server = start_server("--request-time-limit", "1")
    client = server.client()
    r = client.responses.create(**{**LONG, "max_output_tokens": 4000, "temperature": 1.5})
    last = finished(client, r.id)
    assert last.status == "failed" and "time limit" in last.error.message
    assert server.stop() == 0


def test_the_server_ends(start_server):
    """Nobody could fetch the result any more: what nobody follows is canceled, what is followed is finished."""
    server = start_server()
    client = server.client()
    quiet = client.responses.create(**LONG)
    stream = client.responses.create(**{**ASK, "max_output_tokens": 200, "extra_body": {"ignore_eos": True}}, stream=True)
    events = [next(iter(stream))]
    server.process.send_signal(signal.SIGTERM)
    events += list(stream)
    assert events[-1].type == "response.incomplete" and events[-1].response.usage.output_tokens == 200
    assert server.process.wait(60) == 0
    server.reader.join(5)
    assert any(quiet.id in line and "finish=cancelled" in line for line in server.log)


def test_killed_at_the_second_signal(start_server):
    server = start_server()
    client = server.client()
    client.responses.create(**LONG)
    client.responses.create(**LONG, stream=True)
    def ended():
        server.process.send_signal(signal.SIGTERM)
        return server.process.poll()

    code = wait_for(ended, lambda code: code is not None, "the end")
    assert code in (0, -signal.SIGTERM)


# ---- limits ----


def test_how_many():
    """The limit of those that have not finished; one more when one of them has ended."""
    server = Server("--max-num-seqs", "1", "--max-queue", "1100", program=str(FAKE), environment={"OSPREY_FAKE_STEP_MS": "50"})
    try:
        client = server.client()
        ids = [client.responses.create(**LONG).id for _ in range(1024)]
        with pytest.raises(openai.RateLimitError) as e:
            client.responses.create(**LONG)
        assert "1024" in e.value.body["message"] and e.value.response.headers["retry-after"]
        client.responses.cancel(ids[7])
        wait_for(lambda: running(server), lambda n: n < 1024, "one has ended")
        ids.append(client.responses.create(**LONG).id)
        assert server.stop() == 0  # all are canceled: nobody follows them
    finally:
        server.process.kill()


REFUSED = {
    "not stored": ({"background": True, "store": False}, "background"),
    "a word": ({"background": "yes"}, "background"),
    "a bad field": ({"background": True, "temperature": 9}, "temperature"),
    "too long": ({"background": True, "input": "word " * 6000}, None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_come_at_once(server, name):
    body, place = REFUSED[name]
    status, _, text = post(server, {"input": "x", **body})
    assert status == 400 and json.loads(text)["error"]["param"] == place


@pytest.mark.parametrize("query", ["stream=true&starting_after=x", "stream=true&starting_after=-1",
                                   "stream=true&starting_after=99999999999999999999", "stream=true&starting_after="])
def test_where_to_start(server, client, query):
    r = client.responses.create(**{**LONG, "max_output_tokens": 1})
    status, _, text = raw(server, f"{r.id}?{query}")
    assert status == 400 and json.loads(text)["error"]["param"] == "starting_after"


def test_events_that_are_not_kept(slow):
    client = slow.client()
    plain = client.responses.create(model=MODEL, input="x", max_output_tokens=1)
    background = client.responses.create(**LONG)
    for id in (background.id, plain.id):
        status, _, text = raw(slow, f"{id}?stream=true")
        assert status == 400 and json.loads(text)["error"]["param"] == "stream"
    client.responses.cancel(background.id)
    assert raw(slow, "resp_1?stream=true")[0] == 404


def test_a_server_without_a_store(start_server):
    server = start_server("--max-stored-responses", "0")
    with pytest.raises(openai.BadRequestError) as e:
        server.client().responses.create(**ASK)
    assert e.value.body["param"] == "background"
    assert server.stop() == 0


def test_metrics(slow):
    client = slow.client()
    r = client.responses.create(**LONG)
    assert running(slow) >= 1
    client.responses.cancel(r.id)
    wait_for(lambda: running(slow), lambda n: n == 0, "none")
