"""Sessions in the form that Codex sends: stateless and streamed, with all items of the session in every request, reasoning as
encrypted_content, a function, a freeform tool with a Lark grammar, a namespace, and web_search. A scripted device answers, so
that each kind of call comes in every session; the prefix cache must find all that the session sent before."""

import json
import random

import pytest

from scripted import ScriptedServer

MODEL = "osprey-nano"
N_TURNS = 30  # requests of a session
N_TASKS = 5  # user messages in it
HIT_RATE_MIN = 0.98

# As Codex's: the patch, with its marks, in the syntax of Lark.
PATCH_GRAMMAR = """start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?
hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change
filename: /(.+)/
add_line: "+" /(.*)/ LF
change: (("+" | "-" | " ") /(.*)/ LF)+
%import common.LF
"""
TOOLS = [
    {"type": "function", "name": "shell", "description": "Runs a command.", "strict": False, "parameters": {
        "type": "object", "additionalProperties": False, "required": ["command"], "properties": {
            "command": {"type": "array", "items": {"type": "string"}}, "workdir": {"type": "string"},
            "timeout_ms": {"type": "number"}}}},
    {"type": "function", "name": "update_plan", "description": "Updates the plan.", "strict": False, "parameters": {
        "type": "object", "required": ["plan"], "properties": {"plan": {"type": "array", "items": {
            "type": "object", "properties": {"step": {"type": "string"}, "status": {"type": "string"}}}}}}},
    {"type": "custom", "name": "apply_patch", "description": "Edits files. This is a FREEFORM tool.",
     "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR}},
    {"type": "namespace", "name": "mcp__docs", "description": "The documentation.", "tools": [
        {"type": "function", "name": "search", "description": "Searches it.", "strict": False, "parameters": {
            "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}]},
    {"type": "web_search", "external_web_access": False},
]
WORDS = "the file test build server error change read write line value option queue token cache page".split()


class Session:
    """What the agent holds, and what it sends."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.key = f"0199-{seed}"
        self.instructions = "You are a coding agent.\n" + self.text(9000)
        context = "<environment_context>\n  <cwd>/home/user/project</cwd>\n</environment_context>"
        self.items = [self.message("developer", "<permissions>read only</permissions>"), self.message("user", context)]

    def text(self, n_words):
        return " ".join(self.random.choice(WORDS) for _ in range(n_words))

    def message(self, role, text):
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

    def request(self):
        return {
            "model": MODEL, "instructions": self.instructions, "input": self.items, "tools": TOOLS, "tool_choice": "auto",
            "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"}, "store": False, "stream": True,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": self.key, "text": {"verbosity": "medium"},
        }  # fmt: skip

    def add(self, item):
        """An item of the answer goes into the next request, without its id, and reasoning without its text."""
        kept = {k: v for k, v in item.model_dump(exclude_none=True).items() if k not in ("id", "status")}
        if item.type == "reasoning":
            assert kept.pop("content")[0]["text"] and kept["encrypted_content"].startswith("osprey1.")
            kept["summary"], kept["content"] = [], None
        self.items.append(kept)
        if item.type.endswith("_call"):
            self.items.append({"type": item.type + "_output", "call_id": item.call_id, "output": self.text(12)})

    def answer(self, kind):
        """What the device draws, and the item that becomes of it."""
        thought = f"<|channel|>analysis<|message|>{self.text(6)}<|end|><|start|>assistant"
        if kind == "final":
            text = self.text(8)
            return f"{thought}<|channel|>final<|message|>{text}<|return|>", {"type": "message"}
        name, arguments, item = {
            "shell": ("shell", {"command": ["bash", "-lc", self.text(3)]}, {"type": "function_call", "name": "shell"}),
            "plan": ("update_plan", {"plan": [{"step": self.text(2), "status": "pending"}]},
                     {"type": "function_call", "name": "update_plan"}),
            "docs": ("mcp__docs__search", {"query": self.text(2)},
                     {"type": "function_call", "name": "search", "namespace": "mcp__docs"}),
            "patch": ("apply_patch", {"input": f"*** Begin Patch\n*** Update File: a.c\n-{self.text(2)}\n+é\n*** End Patch"},
                      {"type": "custom_tool_call", "name": "apply_patch"}),
        }[kind]  # fmt: skip
        if kind == "patch":
            item["input"] = arguments["input"]
        body = json.dumps(arguments, ensure_ascii=False)
        return f"{thought}<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{body}<|call|>", item


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    server = ScriptedServer(tmp_path_factory.mktemp("codex"), "--max-model-len", "32768")
    yield server
    assert server.stop() == 0


def play(server, client, session, kind):
    """One request: the events as Codex reads them; gives the usage."""
    text, wanted = session.answer(kind)
    server.write(server.ids_of(text))
    done, text_of, last = [], {}, None
    for event in client.responses.create(**session.request()):
        if event.type.endswith(".delta"):
            text_of[event.item_id, event.type] = text_of.get((event.item_id, event.type), "") + event.delta
        if event.type == "response.output_item.done":
            done.append(event.item)
        last = event
    assert last.type == "response.completed" and last.response.status == "completed" and last.response.error is None
    assert [i.type for i in done] == ["reasoning", wanted["type"]]
    found = done[1].model_dump()
    assert {k: found[k] for k in wanted} == wanted
    if wanted["type"] == "custom_tool_call":
        assert text_of[done[1].id, "response.custom_tool_call_input.delta"] == wanted["input"]
    for item in done:
        session.add(item)
    return last.response.usage


@pytest.mark.parametrize("seed", range(3))
def test_a_session(scripted, seed):
    session, client = Session(seed), scripted.client()
    kinds = ["shell", "plan", "docs", "patch", "shell", "final"]
    n_prompt = n_cached = 0
    for turn in range(N_TURNS):
        within = turn % (N_TURNS // N_TASKS)
        if within == 0:
            session.items.append(session.message("user", session.text(10)))
        usage = play(scripted, client, session, kinds[within])
        cached = usage.input_tokens_details.cached_tokens
        assert usage.input_tokens > 9000 and usage.output_tokens_details.reasoning_tokens > 0
        if turn == 0:
            continue
        n_prompt += usage.input_tokens
        n_cached += cached
        # with a new user message the reasoning of the last task leaves the prompt, and what followed it is read anew
        assert cached / usage.input_tokens >= (HIT_RATE_MIN if within > 0 else 0.9), (turn, usage)
    assert n_cached / n_prompt >= HIT_RATE_MIN, n_cached / n_prompt
    scripted.wait_idle()


def test_what_is_ignored_is_said(scripted):
    """web_search, and that the grammar does not hold the patch; nothing else."""
    session = Session(9)
    session.items.append(session.message("user", "Hello."))
    scripted.write(scripted.ids_of(session.answer("final")[0]))
    raw = scripted.client().responses.with_raw_response.create(**{**session.request(), "stream": False})
    warning = raw.headers["x-osprey-warning"]
    assert "tools.web_search" in warning and "Lark" in warning
    assert "namespace" not in warning and "prompt_cache_key" not in warning and "include" not in warning


def test_a_real_model_in_the_same_form(server):
    """Whatever it draws, the answers are well formed, and come back without an error."""
    session, client = Session(1), server.client()
    session.instructions = "You are a coding agent."
    session.items.append(session.message("user", "Make a file a.txt."))
    for _ in range(6):
        body = {**session.request(), "max_output_tokens": 60}
        events = list(client.responses.create(**body))
        assert events[-1].type in ("response.completed", "response.incomplete")
        for item in events[-1].response.output:
            if item.status == "completed":
                session.add(item)
        session.items.append(session.message("user", "Go on."))
