"""The table of malformed forms in docs/harmony.md, row by row through the whole server: a device draws what the row
says, and the client gets what the row says, whole and streamed."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scripted

DOCUMENT = scripted.ROOT / "docs" / "harmony.md"
ROW = re.compile(r"\| ([a-z0-9-]+) \| `(.*?)` \| (.*) \|$", re.M)
PART = re.compile(r"(reasoning|content|call (\S+?))(?: `(.*?)`)?(?:; |$)", re.S)
STOPS = ["<|return|>", "<|call|>", "<|endoftext|>"]
# Ids of the published vocabulary; the bundled one has the same texts.
TEXT_OF_ID = {12606: "comment", 13: ".", 200002: "<|return|>"}
HALF_CHARACTER = 9552  # " " and the first half of an emoji

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "search")]


def rows():
    text = DOCUMENT.read_text()
    table = text[text.index("<!-- malformed: begin -->") : text.index("<!-- malformed: end -->")]
    plain = [
        tuple(cell.replace("\\|", "|").replace("\\n", "\n") for cell in row) for row in ROW.findall(table)
    ]
    assert len(plain) == table.count("\n| ") - table.count("\n| name |") > 100
    return plain


def expected(gets):
    want = {"reasoning": "", "content": "", "calls": []}
    if gets == "nothing":
        return want
    assert "".join(m.group(0) for m in PART.finditer(gets)) == gets, gets
    for kind, name, text in PART.findall(gets):
        if name:
            want["calls"].append((name, text))
        else:
            want[kind] += text
    return want


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = scripted.ScriptedServer(tmp_path_factory.mktemp("scripted"))
    yield running
    assert running.stop() == 0, running.log


@pytest.fixture(scope="module")
def client(server):
    return server.client()


@pytest.fixture(scope="module")
def stop_ids(server):
    return [server.ids_of(stop)[0] for stop in STOPS]


@pytest.fixture(scope="module")
def half_character(server):
    """A space and the beginning of a character, as tokens of the bundled vocabulary."""
    for n in (1, 2, 3):
        ids = [*server.ids_of(" "), *server.ids_of("\U0001f496")[:n]]
        if server.post("/detokenize", {"tokens": ids})["prompt"] == " \ufffd":
            return ids
    raise AssertionError("no half of a character")


def tokens_of(server, text, half_character):
    ids = []
    for part in re.split(r"(\[#\d+\])", text):
        number = re.fullmatch(r"\[#(\d+)\]", part)
        if not number:
            ids += server.ids_of(part)
        elif int(number[1]) == HALF_CHARACTER:
            ids += half_character
        else:
            ids += server.ids_of(TEXT_OF_ID[int(number[1])])
    return ids


def ask(server, client, ids, stop_ids, **more):
    server.write(ids)
    return client.chat.completions.create(
        model="osprey-nano",
        messages=[{"role": "user", "content": "Hi"}],
        tools=TOOLS,
        max_tokens=len(ids),
        extra_body={"ignore_eos": any(id in stop_ids for id in ids[:-1]), "return_token_ids": True},
        **more,
    )


def whole(answer):
    message = answer.choices[0].message
    reasoning = getattr(message, "reasoning", None) or ""
    assert reasoning == (getattr(message, "reasoning_content", None) or "")
    return {
        "reasoning": reasoning,
        "content": message.content or "",
        "calls": [(c.function.name, c.function.arguments) for c in message.tool_calls or []],
        "finish": answer.choices[0].finish_reason,
    }


def streamed(stream):
    got = {"reasoning": "", "content": "", "calls": [], "finish": None}
    for chunk in stream:
        for choice in chunk.choices:
            got["reasoning"] += getattr(choice.delta, "reasoning", None) or ""
            got["content"] += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                if call.id:
                    got["calls"].append((call.function.name, ""))
                assert call.index == len(got["calls"]) - 1
                name, text = got["calls"][-1]
                got["calls"][-1] = (name, text + (call.function.arguments or ""))
            assert got["finish"] is None
            got["finish"] = choice.finish_reason
    return got


@pytest.mark.parametrize("name,writes,gets", rows(), ids=[row[0] for row in rows()])
def test_row(server, client, stop_ids, half_character, name, writes, gets):
    ids = tokens_of(server, writes, half_character)
    ended = ids[-1] in stop_ids and not any(id in stop_ids for id in ids[:-1])
    want = expected(gets)
    want["finish"] = "length" if not ended else "tool_calls" if want["calls"] else "stop"
    answer = ask(server, client, ids, stop_ids)
    assert answer.choices[0].token_ids == ids
    assert whole(answer) == want
    assert streamed(ask(server, client, ids, stop_ids, stream=True)) == want
