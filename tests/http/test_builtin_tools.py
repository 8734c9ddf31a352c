"""The tools of /v1/responses that the client executes: shell, local_shell, apply_patch; custom tools with a Lark grammar, and
tools within namespaces. A scripted device calls them; the client is the official one."""

import json

import openai
import pytest

from scripted import ScriptedServer

MODEL = "osprey-nano"
ASK = "List the files."
CALL = "<|channel|>commentary to=functions.%s <|constrain|>json<|message|>%s<|call|>"
OK = "<|channel|>final<|message|>Done.<|return|>"
LARK = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\n%import common.LF\n'
PATCH = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"

# name: arguments, what the item says, items of its result, the text that the model reads
BUILTINS = {
    "shell": (
        {"commands": ["ls -l", "pwd"], "timeout_ms": 1000},
        {"action": {"commands": ["ls -l", "pwd"], "timeout_ms": 1000}},
        {"output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
        '[{"stdout":"a.txt","stderr":"","outcome":{"type":"exit","exit_code":0}}]',
    ),
    "local_shell": (
        {"command": ["ls", "-l"], "working_directory": "/tmp"},
        {"action": {"command": ["ls", "-l"], "working_directory": "/tmp", "type": "exec", "env": {}}},
        {"output": "a.txt é"},
        "a.txt é",
    ),
    "apply_patch": (
        {"type": "update_file", "path": "a.txt", "diff": "@@\n-old\n+new\n"},
        {"operation": {"type": "update_file", "path": "a.txt", "diff": "@@\n-old\n+new\n"}},
        {"status": "failed", "output": "no such file"},
        "failed\nno such file",
    ),
}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    server = ScriptedServer(tmp_path_factory.mktemp("builtin"))
    yield server
    assert server.stop() == 0


def calls(server, name, arguments):
    """A client whose next answer is the call."""
    server.write(server.ids_of(CALL % (name, arguments if isinstance(arguments, str) else json.dumps(arguments))))
    return server.client()


@pytest.mark.parametrize("name", BUILTINS)
def test_a_call_and_its_result(scripted, name):
    arguments, members, result, text = BUILTINS[name]
    ask = {"model": MODEL, "input": ASK, "tools": [{"type": name}]}
    first = calls(scripted, name, arguments).responses.create(**ask)
    item = first.output[-1]
    assert item.type == name + "_call" and item.status == "completed" and item.call_id.startswith("call_")
    found = item.model_dump(exclude_none=True)
    assert {k: found[k] for k in members} == members
    assert [t.type for t in first.tools] == [name]

    events = list(calls(scripted, name, arguments).responses.create(**ask, stream=True))
    about = [e for e in events if e.type.startswith("response.output_item.")]
    assert [e.type.rsplit(".")[-1] for e in about] == ["added", "done"]
    assert [e.item.status for e in about] == ["in_progress", "completed"]
    assert all({k: e.item.model_dump(exclude_none=True)[k] for k in members} == members for e in about)
    assert events[-1].response.output[-1].type == name + "_call"

    # the result, by id and with all items, is what a function's result would be
    output = {"type": name + "_call_output", "call_id": item.call_id, **result}
    function = {"type": "function_call", "call_id": item.call_id, "name": name, "arguments": ""}
    prompt = scripted.ids_of(OK)
    scripted.write(prompt)
    by_id = scripted.client().responses.create(model=MODEL, input=[output], previous_response_id=first.id, tools=[{"type": name}])
    scripted.write(prompt)
    call = {k: v for k, v in item.model_dump(exclude_none=True).items()}
    whole = scripted.client().responses.create(
        model=MODEL, input=[{"role": "user", "content": ASK}, call, output], tools=[{"type": name}])
    function["arguments"] = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
    plain = {"type": "function_call_output", "call_id": item.call_id, "output": text}
    scripted.write(prompt)
    as_function = scripted.client().responses.create(
        model=MODEL, input=[{"role": "user", "content": ASK}, function, plain], tools=[{"type": name}])
    assert by_id.usage.input_tokens == whole.usage.input_tokens == as_function.usage.input_tokens
    stored = scripted.client().responses.input_items.list(by_id.id).data
    assert [i.type for i in stored] == [name + "_call_output"]


def test_a_deleted_file_has_no_diff(scripted):
    arguments = {"type": "delete_file", "path": "a.txt", "diff": ""}
    r = calls(scripted, "apply_patch", arguments).responses.create(model=MODEL, input=ASK, tools=[{"type": "apply_patch"}])
    assert r.output[-1].operation.model_dump() == {"type": "delete_file", "path": "a.txt"}


def test_a_cut_call_stays_a_function_call(scripted):
    """Its arguments are not an action yet, and nothing of them is lost."""
    arguments = '{"commands": ["ls'
    ids = scripted.ids_of(CALL % ("shell", arguments))[:-1]
    ask = {"model": MODEL, "input": ASK, "tools": [{"type": "shell"}], "max_output_tokens": len(ids)}
    scripted.write(ids)
    r = scripted.client().responses.create(**ask)
    assert r.status == r.output[-1].status == "incomplete"
    assert r.output[-1].type == "function_call" and r.output[-1].name == "shell"
    assert r.output[-1].arguments == arguments
    scripted.write(ids)
    events = list(scripted.client().responses.create(**ask, stream=True))
    added = next(e for e in events if e.type == "response.output_item.added" and e.item.type == "function_call")
    assert added.item.arguments == ""
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == arguments


def test_a_forced_call_has_an_action(client):
    """The grammar holds the model to the tool's schema, whatever it draws."""
    r = client.responses.create(model=MODEL, input=ASK, tools=[{"type": "shell"}], tool_choice={"type": "shell"},
                                max_output_tokens=300, temperature=0, reasoning={"effort": "low"})
    for item in r.output:
        if item.type == "shell_call":
            assert item.action.commands and all(isinstance(c, str) for c in item.action.commands)
    if r.status == "completed":
        assert [i.type for i in r.output if i.type.endswith("_call")][:1] == ["shell_call"]


def test_a_lark_grammar_is_read_by_the_model(scripted):
    tool = {"type": "custom", "name": "apply_patch", "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": LARK}}
    client = calls(scripted, "apply_patch", {"input": PATCH})
    raw = client.responses.with_raw_response.create(model=MODEL, input=ASK, tools=[tool])
    r = raw.parse()
    assert r.output[-1].type == "custom_tool_call" and r.output[-1].input == PATCH
    assert r.tools[0].format.definition == LARK
    assert "Lark" in raw.headers["x-osprey-warning"] and "apply_patch" in raw.headers["x-osprey-warning"]
    described = {**tool, "format": {"type": "text"},
                 "description": "Edits files.\n\nThe input must match this Lark grammar:\n" + LARK}
    scripted.write(scripted.ids_of(OK))
    same = scripted.client().responses.create(model=MODEL, input=ASK, tools=[described])
    assert same.usage.input_tokens == r.usage.input_tokens


def test_namespaces(scripted):
    tools = [{"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": [
        {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
        {"type": "custom", "name": "patch", "description": "Edits."}]}]
    r = calls(scripted, "mcp__files__read", {"path": "a"}).responses.create(model=MODEL, input=ASK, tools=tools)
    item = r.output[-1]
    assert (item.type, item.namespace, item.name) == ("function_call", "mcp__files", "read")
    events = list(calls(scripted, "mcp__files__patch", {"input": PATCH}).responses.create(
        model=MODEL, input=ASK, tools=tools, stream=True))
    item = events[-1].response.output[-1]
    assert (item.type, item.namespace, item.name, item.input) == ("custom_tool_call", "mcp__files", "patch", PATCH)
    assert "".join(e.delta for e in events if e.type == "response.custom_tool_call_input.delta") == PATCH
    scripted.write(scripted.ids_of(OK))
    again = scripted.client().responses.create(model=MODEL, tools=tools, input=[
        {"role": "user", "content": ASK}, item.model_dump(exclude_none=True),
        {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "Done!"}])
    assert again.status == "completed"


REFUSED = {
    "mcp": ({"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://x"}]}, "tools[0].type"),
    "file_search": ({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "tools[0].type"),
    "code_interpreter": ({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, "tools[0].type"),
    "a definition": ({"tools": [{"type": "custom", "name": "a", "format": {"type": "grammar", "syntax": "lark"}}]},
                     "tools[0].format.definition"),
    "a long definition": ({"tools": [{"type": "custom", "name": "a", "format": {
        "type": "grammar", "syntax": "lark", "definition": "x" * 70000}}]}, "tools[0].format.definition"),
    "a syntax": ({"tools": [{"type": "custom", "name": "a", "format": {"type": "grammar", "syntax": "yacc", "definition": "x"}}]},
                 "tools[0].format.syntax"),
    "two of a name": ({"tools": [{"type": "shell"}, {"type": "function", "name": "shell"}]}, "tools[1]"),
    "choice": ({"tool_choice": {"type": "shell"}}, "tool_choice"),
    "an action": ({"input": [{"type": "shell_call", "call_id": "c", "action": {"commands": [1]}}]}, "input[0].action"),
    "no action": ({"input": [{"type": "local_shell_call", "call_id": "c"}]}, "input[0].action"),
    "an operation": ({"input": [{"type": "apply_patch_call", "call_id": "c", "operation": {"type": "update_file", "path": "a"}}]},
                     "input[0].operation"),
    "no call_id": ({"input": [{"type": "shell_call", "action": {"commands": ["ls"]}}]}, "input[0].call_id"),
    "an output": ({"input": [{"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
                             {"type": "shell_call_output", "call_id": "c", "output": [3]}]}, "input[1].output"),
    "another call": ({"input": [{"type": "shell_call_output", "call_id": "c", "output": []}]}, "input[0].call_id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_place(client, name):
    body, place = REFUSED[name]
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**{"model": MODEL, "input": "x", **body})
    assert e.value.body["param"] == place, e.value.body
