"""What items of /v1/responses say of themselves: the phase of messages, and their status when the answer was cut by a
limit, by the client or by an engine that failed."""

import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scripted
from test_responses import check_events, events_of, plain, post, stream
from test_worker import health, wait_until, worker_of

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>It is there.<|return|>"
CALL = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>"


@pytest.fixture(scope="module")
def scripted_server(tmp_path_factory):
    running = scripted.ScriptedServer(tmp_path_factory.mktemp("items"))
    yield running
    assert running.stop() == 0, running.log


def whole(server, **body):
    return server.post("/v1/responses", {"max_output_tokens": 200, "tools": TOOLS, **body})


def kinds(response):
    return [item.get("phase", item["type"]) for item in response["output"]]


def test_a_preamble_is_commentary(scripted_server):
    for text, expected in (
        (PREAMBLE + FINAL, ["commentary", "final_answer"]),
        (THOUGHT + PREAMBLE + CALL, ["reasoning", "commentary", "function_call"]),
        (PREAMBLE + THOUGHT + PREAMBLE + FINAL, ["commentary", "reasoning", "commentary", "final_answer"]),
        ("<|channel|>news<|message|>Hello.<|return|>", ["final_answer"]),
    ):
        scripted_server.write(scripted_server.ids_of(text))
        answer = whole(scripted_server, input="Where is it?")
        scripted_server.write(scripted_server.ids_of(text))
        streamed = stream(scripted_server, input="Where is it?", tools=TOOLS, max_output_tokens=200)
        assert kinds(answer) == expected
        assert plain(streamed["output"]) == plain(answer["output"])


def prompt_of(server, items):
    """The prompt of a request, by a chat completion of the same conversation."""
    body = {"messages": items, "return_token_ids": True, "max_tokens": 1, "cache_prompt": False}
    server.write(server.ids_of(FINAL))
    return server.post("/v1/chat/completions", body)["prompt_token_ids"]


def test_it_comes_back_as_it_was(scripted_server):
    """Where the store does not know the answer, its text is rendered by its phase."""
    question = {"role": "user", "content": "Where is it?"}
    texts = {"role": "assistant", "content": "Let me look.", "phase": "commentary"}, {"role": "assistant", "content": "Here."}
    rendered = scripted_server.post("/detokenize", {"tokens": prompt_of(scripted_server, [question, *texts])})["prompt"]
    assert "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>final<|message|>Here." in rendered

    scripted_server.write(scripted_server.ids_of(PREAMBLE + FINAL))
    first = whole(scripted_server, input=[question])
    for items in ({"previous_response_id": first["id"], "input": "Thanks."}, {"input": [question, *first["output"], question]}):
        scripted_server.write(scripted_server.ids_of(FINAL))
        after = whole(scripted_server, **items)
        # What was computed before is found, but for the token that was drawn last.
        assert after["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["total_tokens"] - 1


@pytest.mark.parametrize(
    "text, cut_behind, statuses",
    [
        (THOUGHT + PREAMBLE + FINAL, "<|channel|>analysis<|message|>Hm", ["incomplete"]),
        (THOUGHT + PREAMBLE + FINAL, THOUGHT + "<|channel|>", ["completed"]),
        (THOUGHT + PREAMBLE + FINAL, THOUGHT + PREAMBLE, ["completed", "completed"]),
        (THOUGHT + CALL, THOUGHT + CALL.split("{")[0] + "{", ["completed", "incomplete"]),
        (PREAMBLE + FINAL, PREAMBLE + "<|channel|>final<|message|>It", ["completed", "incomplete"]),
    ],
)
def test_cut_by_a_limit(scripted_server, text, cut_behind, statuses):
    ids, n_left = scripted_server.ids_of(text), len(scripted_server.ids_of(cut_behind))
    scripted_server.write(ids)
    answer = whole(scripted_server, input="Where is it?", max_output_tokens=n_left)
    scripted_server.write(ids)
    streamed = stream(scripted_server, input="Where is it?", tools=TOOLS, max_output_tokens=n_left)
    for response in (answer, streamed):
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert [item["status"] for item in response["output"]] == statuses
        assert response["usage"]["output_tokens"] == n_left
    assert plain(streamed["output"]) == plain(answer["output"])


def test_cut_by_a_failing_engine(start_server):
    """check_events() holds that what was begun is ended, under its id."""
    server = start_server("--worker", "on")
    with server.client() as client:
        events = []
        with client.responses.create(model="osprey-nano", input="Tell me everything.", stream=True, max_output_tokens=4000,
                                     extra_body={"ignore_eos": True}) as answer:  # fmt: skip
            for event in answer:
                if event.type.endswith(".delta") and not any(e.type.endswith(".delta") for e in events):
                    os.kill(worker_of(server), signal.SIGKILL)
                events.append(event)
    last = events[-1].response
    done = [event.item for event in events if event.type == "response.output_item.done"]
    added = [event.item for event in events if event.type == "response.output_item.added"]
    assert last.status == "failed" and "the engine's process has failed" in last.error.message
    assert last.incomplete_details is None
    assert [item.id for item in done] == [item.id for item in added] == [item.id for item in last.output]
    assert done[-1].status == "incomplete"
    wait_until(lambda: health(server)[0] == 200, "well again")
    status, _, _ = post(server, b"", path=f"/v1/responses/{last.id}", method="GET", headers="Authorization: Bearer none\r\n")
    assert status == 404  # what has failed is not kept


def test_cut_by_the_time_limit(start_server):
    server = start_server("--request-time-limit", "1")
    body = {"input": "Tell me everything.", "stream": True, "max_output_tokens": 4000, "ignore_eos": True, "temperature": 1.5}
    _, _, text = post(server, body)
    failed = check_events(events_of(text))
    assert failed["status"] == "failed" and "--request-time-limit" in failed["error"]["message"]
    assert [item["status"] for item in failed["output"]][-1:] == ["incomplete"]


def test_cut_by_the_client(server):
    with server.client() as client:
        with client.responses.create(model="osprey-nano", input="Tell me everything.", stream=True, max_output_tokens=4000,
                                     extra_body={"ignore_eos": True}) as answer:  # fmt: skip
            for event in answer:
                if event.type == "response.created":
                    made = event.response.id
                if event.type.endswith(".delta"):
                    break
        server.wait_idle()
        status, _, _ = post(server, b"", path=f"/v1/responses/{made}", method="GET", headers="Authorization: Bearer none\r\n")
    assert status == 404
