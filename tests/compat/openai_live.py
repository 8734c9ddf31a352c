"""A plug-in for pytest, loaded into the openai client's own test-suite: its tests of parsing and streaming replay what
OpenAI's servers once sent, and compare with snapshots of that. Here their requests go to the server that
TEST_API_BASE_URL names, the snapshots of what another model said equal anything, and all else that the tests assert
stays. Beside that, each streamed answer must be the one that the same request gives whole."""

import json
import os

import httpx2
import openai
import pytest

URL = os.environ["TEST_API_BASE_URL"]
KEY = "none"


class Anything:
    """A snapshot of another model's words."""

    def __eq__(self, other):
        return True


class Sent:
    """Keeps the requests of a client."""

    def __init__(self):
        self.bodies = []

    def __call__(self, request):
        self.bodies.append(request.read())


def client_of(sent):
    http_client = httpx2.Client(event_hooks={"request": [sent]}, timeout=120)
    return openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, http_client=http_client)


def live_request(func, *, respx2_mock, **_):
    respx2_mock.stop()
    with client_of(Sent()) as client:
        return func(client)


async def live_async_request(func, *, respx2_mock, **_):
    respx2_mock.stop()
    async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=120) as client:
        return await func(client)


def told(choice):
    """Of a choice, what does not differ from one request to the next."""
    message = choice.message
    calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or []]
    scores = choice.logprobs and [entry.token for entry in choice.logprobs.content or []]
    return choice.index, message.role, message.content or None, calls, choice.finish_reason, scores or None


def check_whole(client, body, completion):
    whole = client.post("/chat/completions", cast_to=openai.types.chat.ChatCompletion,
                        body={**json.loads(body), "stream": False, "stream_options": None})
    assert [told(c) for c in completion.choices] == [told(c) for c in whole.choices]


def live_stream(listener_type):
    def request(func, *, respx2_mock, on_event=None, **_):
        respx2_mock.stop()
        sent = Sent()
        with client_of(sent) as client:
            with func(client) as stream:
                listener = listener_type(stream)
                for event in listener:
                    if on_event:
                        on_event(stream, event)
            check_whole(client, sent.bodies[0], stream.get_final_completion())
        return listener

    return request


def live_raw_stream(func, *, respx2_mock, **_):
    respx2_mock.stop()
    with client_of(Sent()) as client:
        n = sum(1 for _ in func(client))
    assert n > 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        for name in ("snapshot", "external"):
            if hasattr(module, name):
                setattr(module, name, lambda *_: Anything())
        if hasattr(module, "make_snapshot_request"):
            module.make_snapshot_request = live_request
        if hasattr(module, "make_async_snapshot_request"):
            module.make_async_snapshot_request = live_async_request
        if hasattr(module, "_make_stream_snapshot_request"):
            module._make_stream_snapshot_request = live_stream(module.StreamListener)
            module._make_raw_stream_snapshot_request = live_raw_stream
