"""/v1/conversations by the official client, and responses that continue them."""

import json

import openai
import pytest

from test_background import wait_for
from test_responses import post

MODEL = "osprey-nano"


def message(text, role="user"):
    return {"type": "message", "role": role, "content": text}


def texts(client, id, **more):
    return [i.content[0].text for i in client.conversations.items.list(id, order="asc", **more).data]


def raw(server, path, body=b"", method="POST"):
    return post(server, body, f"/v1/conversations{path}", method=method, headers="Authorization: Bearer none\r\n")


def test_its_life(client):
    c = client.conversations.create(metadata={"a": "b"}, items=[message("one"), message("two", "assistant")])
    assert c.id.startswith("conv_") and c.object == "conversation" and c.metadata == {"a": "b"} and c.created_at > 0
    assert client.conversations.retrieve(c.id) == c
    assert client.conversations.update(c.id, metadata={"c": "d"}).metadata == {"c": "d"}
    assert client.conversations.retrieve(c.id).metadata == {"c": "d"}
    assert texts(client, c.id) == ["one", "two"]
    gone = client.conversations.delete(c.id)
    assert gone.deleted is True and gone.id == c.id and gone.object == "conversation.deleted"
    for attempt in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list,
                    lambda id: client.conversations.update(id, metadata={}),
                    lambda id: client.conversations.items.create(id, items=[message("x")]),
                    lambda id: client.responses.create(model=MODEL, input="x", conversation=id)):  # fmt: skip
        with pytest.raises(openai.NotFoundError, match=c.id):
            attempt(c.id)
    empty = client.conversations.create()
    assert empty.metadata == {} and texts(client, empty.id) == []


def test_items(client):
    c = client.conversations.create(items=[message("one")])
    added = client.conversations.items.create(c.id, items=[message(str(i)) for i in range(5)])
    assert [i.content[0].text for i in added.data] == ["0", "1", "2", "3", "4"] and added.has_more is False
    assert added.first_id == added.data[0].id and added.last_id == added.data[-1].id
    item = client.conversations.items.retrieve(added.data[2].id, conversation_id=c.id)
    assert item == added.data[2]
    page = client.conversations.items.list(c.id, limit=2)
    assert [i.content[0].text for i in page.data] == ["4", "3"] and page.has_more is True
    assert [i.content[0].text for i in page] == ["4", "3", "2", "1", "0", "one"]  # all pages
    assert client.conversations.items.delete(added.data[2].id, conversation_id=c.id).id == c.id
    assert texts(client, c.id) == ["one", "0", "1", "3", "4"]
    for attempt in (client.conversations.items.retrieve, client.conversations.items.delete):
        with pytest.raises(openai.NotFoundError, match=added.data[2].id):
            attempt(added.data[2].id, conversation_id=c.id)


@pytest.mark.parametrize("as_object", [False, True])
def test_responses_continue_it(client, as_object):
    c = client.conversations.create(items=[message("My name is Ada.")])
    named = {"id": c.id} if as_object else c.id
    first = client.responses.create(model=MODEL, input="What is the capital of France?", conversation=named, temperature=0)
    assert first.conversation.id == c.id
    items = client.conversations.items.list(c.id, order="asc").data
    assert [i.id for i in items[2:]] == [i.id for i in first.output]
    assert items[1].content[0].text == "What is the capital of France?"
    assert client.responses.input_items.list(first.id).data[0].id == items[1].id
    # the second sees what the conversation has, as if it had been sent
    sent = [message("My name is Ada."), message("What is the capital of France?"),
            *[i.model_dump(exclude_none=True) for i in first.output], message("And of Italy?")]
    counted = client.responses.input_tokens.count(model=MODEL, input="And of Italy?", conversation=named)
    seed = {"extra_body": {"seed": 1}}  # the prompt is made of the texts alone, not of the tokens that the model drew
    second = list(client.responses.create(model=MODEL, input="And of Italy?", conversation=named, stream=True, store=False,
                                          max_output_tokens=20, **seed))[-1].response
    same = client.responses.create(model=MODEL, input=sent, max_output_tokens=1, **seed)
    assert second.usage.input_tokens == same.usage.input_tokens == counted.input_tokens
    again = client.conversations.items.list(c.id, order="asc").data
    assert [i.id for i in again[len(items) + 1:]] == [i.id for i in second.output]


def test_a_conversation_without_input(client):
    """Its items are the input."""
    c = client.conversations.create(items=[message("What is the capital of France?")])
    r = client.responses.create(model=MODEL, conversation=c.id, temperature=0)
    same = client.responses.create(model=MODEL, input="What is the capital of France?", temperature=0)
    assert r.output_text == same.output_text and r.usage.input_tokens == same.usage.input_tokens
    assert len(client.conversations.items.list(c.id).data) == 1 + len(r.output)
    empty = client.conversations.create()
    assert client.responses.create(model=MODEL, conversation=empty.id).output == []


def test_in_the_background(client):
    c = client.conversations.create()
    r = client.responses.create(model=MODEL, input="Hi", conversation=c.id, background=True, max_output_tokens=10)
    last = wait_for(lambda: client.responses.retrieve(r.id), lambda r: r.status not in ("queued", "in_progress"), "the end")
    assert last.conversation.id == c.id
    assert [i.id for i in client.conversations.items.list(c.id, order="asc").data[1:]] == [i.id for i in last.output]


def test_a_failed_request_adds_nothing(client):
    c = client.conversations.create(items=[message("one")])
    for body in ({"input": "x", "temperature": 9}, {"input": "word " * 6000},
                 {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}):  # fmt: skip
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model=MODEL, conversation=c.id, **body)
    assert texts(client, c.id) == ["one"]


def test_nobody_else_finds_it(server):
    alice, bob = server.client("alice"), server.client("bob")
    c = alice.conversations.create(items=[message("mine")])
    item = alice.conversations.items.list(c.id).data[0].id
    for attempt in (
        lambda: bob.conversations.retrieve(c.id),
        lambda: bob.conversations.update(c.id, metadata={}),
        lambda: bob.conversations.delete(c.id),
        lambda: bob.conversations.items.list(c.id),
        lambda: bob.conversations.items.create(c.id, items=[message("x")]),
        lambda: bob.conversations.items.retrieve(item, conversation_id=c.id),
        lambda: bob.conversations.items.delete(item, conversation_id=c.id),
        lambda: bob.responses.create(model=MODEL, input="x", conversation=c.id),
    ):
        with pytest.raises(openai.NotFoundError):
            attempt()
    assert texts(alice, c.id) == ["mine"]


def test_limits(start_server):
    server = start_server("--max-stored-responses", "2", "--stored-responses-bytes", "100000")
    client = server.client()
    ids = [client.conversations.create().id for _ in range(3)]
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(ids[0])
    assert [client.conversations.retrieve(i).id for i in ids[1:]] == ids[1:]
    with pytest.raises(openai.BadRequestError) as e:
        client.conversations.items.create(ids[1], items=[message("x" * 60000), message("x" * 60000)])
    assert e.value.code == "conversation_full" and texts(client, ids[1]) == []
    client.conversations.items.create(ids[1], items=[message("x" * 60000)])
    client.conversations.items.create(ids[2], items=[message("y" * 60000)])  # drops the other
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(ids[1])
    assert server.stop() == 0
    none = start_server("--max-stored-responses", "0")
    with pytest.raises(openai.BadRequestError, match="--max-stored-responses"):
        none.client().conversations.create()
    assert none.stop() == 0


REFUSED = {
    "items no list": ("", {"items": "x"}, 400, "items"),
    "21 items": ("", {"items": [message("x")] * 21}, 400, "items"),
    "a bad item": ("", {"items": [message("x"), {"type": "message", "role": "tool", "content": "x"}]}, 400, "items[1].role"),
    "no object": ("", {"items": [3]}, 400, "items[0]"),
    "metadata": ("", {"metadata": {"a": 1}}, 400, "metadata.a"),
    "metadata a string": ("", {"metadata": "a"}, 400, "metadata"),
    "not JSON": ("", b"{", 400, None),
    "no metadata": ("/ID", {}, 400, "metadata"),
    "items of the path": ("/ID/items", {"items": [{"type": "item_reference", "id": "msg_1"}]}, 400, "items[0].id"),
    "another path": ("/ID/other", {"metadata": {}}, 404, None),
    "unknown": ("/conv_1", {"metadata": {}}, 404, None),
    "unknown items": ("/conv_1/items", {"items": []}, 404, None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(server, client, name):
    path, body, wanted, param = REFUSED[name]
    id = client.conversations.create().id
    status, _, text = raw(server, path.replace("ID", id), body)
    error = json.loads(text)["error"]
    assert status == wanted and error["param"] == param, error
    assert texts(client, id) == []


def test_methods_and_media_types(server, client):
    id = client.conversations.create().id
    assert raw(server, f"/{id}", method="PUT")[0] == 405
    assert raw(server, "", method="GET")[0] == 405
    assert raw(server, f"/{id}/items/x/y", method="GET")[0] == 404
    assert raw(server, f"/{id}/items?limit=0", method="GET")[0] == 400
