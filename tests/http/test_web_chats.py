"""The data of the chat page without a browser: stored chats, files of chats, tools and requests."""

import json

import pytest
from web_scripts import scripts  # noqa: F401 (a fixture)

ANSWER = {"role": "assistant", "state": "done", "text": "Sunny.", "reasoning": "Look.", "stats": {"tokens": 3},
          "calls": [{"id": "c1", "name": "get_weather", "arguments": '{"city": "Oslo"}', "result": "sun ``` shine"}]}
CHAT = {"id": "abc1", "at": 1700000000000, "title": "", "messages": [{"role": "user", "text": "Weather?"}, ANSWER]}


@pytest.fixture(autouse=True)
def empty_storage(scripts):
    scripts.call("() => { localStorage = storageOf(5000000); store.known.clear(); store.failed = ''; }")


def file_of(*chats, **changes):
    return json.dumps({"format": "osprey-chats", "version": 1, "exported": "2026-01-01", "chats": chats, **changes})


def test_export_and_import(scripts):
    """A file that was exported brings back the same chats, in a browser that has none."""
    assert scripts.call("(chat) => store.save(chat, chat.at)", CHAT) is True
    exported = scripts.call("() => chatsToJson(store.chats())")
    stored = scripts.call("() => store.chats()")
    empty = json.loads(exported)
    assert empty["format"] == "osprey-chats" and empty["version"] == 1 and len(empty["chats"]) == 1
    scripts.call("() => { localStorage = storageOf(5000000); }")
    assert scripts.call("importChats", exported) == "1 chat imported."
    assert scripts.call("() => store.chats()") == stored
    assert stored[0]["messages"][1]["calls"] == ANSWER["calls"] and stored[0]["at"] == CHAT["at"]


def test_import_keeps_what_is_stored(scripts):
    scripts.call("(chat) => store.save(chat, chat.at)", CHAT)
    other = {**CHAT, "messages": [{"role": "user", "text": "Another with this id"}]}
    assert scripts.call("importChats", file_of(CHAT, other, other)) == "2 chats imported, 1 already stored."
    texts = scripts.call("() => store.chats().map((chat) => [chat.id, chat.messages[0].text])")
    assert ["abc1", "Weather?"] in texts and len({chat_id for chat_id, _ in texts}) == len(texts)


@pytest.mark.parametrize("text, words", [
    ("{", "not valid JSON"),
    ("[]", "not an export"),
    (json.dumps({"format": "other"}), "not an export"),
    (file_of(version=2), "version 2; this page reads version 1"),
    (file_of(chats={}), "no list"),
    (file_of(CHAT, 5), "Chat 2 of the file: must be an object"),
    (file_of({**CHAT, "id": "../x"}), "Chat 1 of the file: id must be"),
    (file_of({**CHAT, "id": "x" * 65}), "id must be"),
    (file_of({**CHAT, "messages": "x"}), "messages must be a list"),
    (file_of({**CHAT, "messages": [{"role": "user", "text": 1}]}), "message 1"),
    (file_of({**CHAT, "messages": [CHAT["messages"][0], {"role": "system", "text": "x"}]}), "message 2"),
    (file_of({**CHAT, "messages": [{**ANSWER, "calls": [{"name": 1}]}]}), "message 1"),
    (file_of({**CHAT, "messages": [{**ANSWER, "calls": ANSWER["calls"] * 129}]}), "message 1"),
])
def test_faulty_files(scripts, text, words):
    """The fault is named, and nothing is stored."""
    assert words in scripts.call("importChats", text)
    assert scripts.call("() => store.chats()") == []


def test_import_takes_known_fields_only(scripts):
    odd = {**CHAT, "title": "t" * 500, "at": "x", "extra": 1, "__proto__": {"polluted": 1},
           "messages": [{**ANSWER, "extra": 1, "state": "zoo", "stats": {"tokens": "x", "firstMs": 2}, "trouble": 5}]}
    assert scripts.call("importChats", file_of(odd)).startswith("1 chat")
    chat = scripts.call("() => store.chats()")[0]
    assert set(chat) == {"id", "at", "title", "messages"} and len(chat["title"]) == 120
    assert chat["messages"][0] == {**ANSWER, "stats": {"firstMs": 2}}
    assert scripts.call("() => ({}).polluted") is None


def test_answer_that_was_running_is_imported_as_ended(scripts):
    scripts.call("importChats", file_of({**CHAT, "messages": [{**ANSWER, "state": "running"}]}))
    assert scripts.call("() => store.chats()[0].messages[0].state") == "failed"


def test_storage_that_is_full(scripts):
    scripts.call("() => { localStorage = storageOf(2500); }")
    chats = [{**CHAT, "id": f"c{i}", "messages": [{"role": "user", "text": "x" * 900}]} for i in range(5)]
    assert scripts.call("importChats", file_of(*chats)) == "2 chats imported. The browser's storage has no space for more."
    assert scripts.call("() => store.failed") == "full"
    assert scripts.call("(chat) => store.save(chat)", chats[4]) is False
    scripts.call("() => store.drop('c0')")
    assert scripts.call("(chat) => store.save(chat)", chats[4]) is True
    assert scripts.call("() => store.failed") == ""


def test_number_of_chats_is_limited(scripts):
    chats = [{**CHAT, "id": f"c{i}", "at": 1000 + i} for i in range(201)]
    assert scripts.call("importChats", file_of(*chats)) == "200 chats imported. This browser stores at most 200 chats."
    assert scripts.call("(chat) => store.save(chat, 5000)", {**CHAT, "id": "new"}) is True
    kept = scripts.call("() => store.chats().map((chat) => chat.id)")
    assert len(kept) == 200 and kept[0] == "new" and "c0" not in kept and "c1" in kept


def test_damaged_storage_is_left_out(scripts):
    scripts.call("(chat) => store.save(chat, chat.at)", CHAT)
    scripts.call("""() => { localStorage.setItem("osprey.1.chat.bad", "{");
        localStorage.setItem("osprey.1.chat.odd", '{"id": "odd", "messages": [null]}');
        localStorage.setItem("osprey.1.settings", "5"); }""")
    assert [chat["id"] for chat in scripts.call("() => store.chats()")] == ["abc1"]
    assert scripts.call("() => store.settings().system") == ""


def test_deleted_chat_is_not_stored_again(scripts):
    scripts.call("(chat) => { store.save(chat); store.drop(chat.id); chat.isDeleted = true; store.save(chat); }", CHAT)
    assert scripts.call("() => store.chats()") == []


def test_markdown_file(scripts):
    text = scripts.call("chatToMarkdown", {**CHAT, "title": "My\nchat"})
    assert text.startswith("# My chat\n\n## User\n\nWeather?\n\n## Assistant\n\n<details><summary>Reasoning</summary>\n\n```\nLook.\n```")
    assert "Sunny.\n\nCall of `get_weather`:\n\n```json\n" in text
    assert "Result:\n\n````\nsun ``` shine\n````\n" in text  # the fence is longer than that of the text


@pytest.mark.parametrize("stats, text", [
    ({"tokens": 11, "firstMs": 500, "lastMs": 1500}, "11 tokens · 10 tok/s · time to first token 0.50 s"),
    ({"tokens": 1, "firstMs": 12000, "lastMs": 12000}, "1 token · time to first token 12 s"),
    ({"tokens": 0}, ""),
])
def test_statistics(scripts, stats, text):
    assert scripts.call("statsText", stats) == text


@pytest.mark.parametrize("title, name", [("What is 17 + 25?", "What-is-17-25.md"), ("../../etc", "etc.md"), ("???", "chat.md"),
                                         ("naïve 鳥", "naïve-鳥.md"), ("x" * 200, "x" * 60 + ".md")])
def test_file_name(scripts, title, name):
    assert scripts.call("fileName", title, "md") == name


def tool(name="f", **more):
    return {"type": "function", "function": {"name": name, **more}}


@pytest.mark.parametrize("value, fault", [
    ("[{", "Tools: not valid JSON"),
    ("{}", "Tools: must be a JSON list"),
    ([5], "Tool 1: must be an object"),
    ([tool(), {"type": "custom", "custom": {}}], 'Tool 2: type is "custom"; it must be "function".'),
    ([{"type": "function"}], "Tool 1: function must be an object with a name."),
    ([tool("a b")], 'function.name is "a b"; it must be 1 to 64 letters, digits, _ or -.'),
    ([tool("x" * 65)], "function.name"),
    ([tool(description=1)], "function.description must be a string"),
    ([tool(parameters=[])], "function.parameters must be a JSON schema"),
    ([tool("f"), tool("f")], "Tool 2: the name f is used twice."),
    ([tool(f"f{i}") for i in range(129)], "129 tools; at most 128 are allowed"),
])
def test_faulty_tools(scripts, value, fault):
    text = value if isinstance(value, str) else json.dumps(value)
    made = scripts.call("readTools", text)
    assert fault in made["fault"] and made["tools"] == []
    assert "tools" not in scripts.call("(text) => requestFor({messages: []}, {...store.settings(), tools: text}, '')", text)


def test_valid_tools_and_example(scripts):
    tools = [tool("f", description="d", parameters={"type": "object"}), tool("g-2_")]
    assert scripts.call("readTools", json.dumps(tools)) == {"tools": tools, "fault": ""}
    assert scripts.call("readTools", "  \n") == {"tools": [], "fault": ""}
    assert scripts.call("() => readTools(JSON.stringify([EXAMPLE_TOOL])).fault") == ""


def test_request(scripts):
    settings = {"system": "Be brief.", "temperature": "0.5", "top_p": "", "max_tokens": "7", "seed": "", "effort": "low", "tools": json.dumps([tool()])}
    made = scripts.call("requestFor", CHAT, settings, "gpt-oss-20b")
    assert made == {
        "model": "gpt-oss-20b", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5, "max_tokens": 7,
        "reasoning_effort": "low", "tools": [tool()],
        "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "Sunny.", "reasoning_content": "Look.",
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "sun ``` shine"}]}
