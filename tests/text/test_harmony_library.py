"""Prompts against openai-harmony, the reference renderer: random requests, rendered by libosprey through its C API
and by that library, must have the same ids. HARMONY_PROMPTS sets how many (1,500).
BUILD names the folder with libosprey.so.0 (build)."""

import ctypes
import json
import os
import pathlib
import random

import pytest

from strings import Strings

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / os.environ.get("BUILD", "build") / "libosprey.so.0"
VOCABULARY = ROOT / "tests" / "golden" / "tokenizer" / "o200k_base.tiktoken"
os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(VOCABULARY.parent)  # before the import, so that it stays offline
import openai_harmony as harmony  # noqa: E402

N_PROMPTS = int(os.environ.get("HARMONY_PROMPTS", 1_500))
SEED = 20
DATE = "2026-01-31"
CONTROL = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>final", "<|constrain|>json", "<|call|>", "<|return|>"]


class Osprey:
    """The C API, as far as prompts need it."""

    def __init__(self):
        self.lib = ctypes.CDLL(LIBRARY)
        self.lib.osp_error.restype = ctypes.c_char_p
        self.tokenizer = ctypes.c_void_p()
        self.check(self.lib.osp_tokenizer_open(ctypes.byref(self.tokenizer), str(VOCABULARY).encode()))

    def check(self, status):
        assert status == 0, self.lib.osp_error().decode()

    def render(self, request):
        body = json.dumps(request).encode()
        chat, ids, n = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        self.check(self.lib.osp_chat_from_json(ctypes.byref(chat), body, ctypes.c_size_t(len(body))))
        self.check(self.lib.osp_chat_set_date(chat, DATE.encode()))
        self.check(self.lib.osp_chat_render(chat, self.tokenizer, ctypes.byref(ids), ctypes.byref(n)))
        out = ids[: n.value]
        self.lib.osp_free(ids)
        self.lib.osp_chat_free(chat)
        return out


class Requests:
    """Random requests. Only the last turn has reasoning, because it is not omitted there."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.strings = Strings([b"token"])
        self.strings.r = self.r
        self.kinds = [kind for _, kind in self.strings.kinds]

    def text(self, may_have_nul=True):
        raw = self.r.choice(self.kinds)()
        text = raw if isinstance(raw, str) else raw.decode(errors="replace")
        if self.r.random() < 0.2:
            text += self.r.choice(CONTROL) + text
        return text if may_have_nul else text.replace("\0", "")

    def name(self):
        first = self.r.choice("abcxyzABC_")
        return first + "".join(self.r.choices("abcdefXYZ019_.-", k=self.r.randint(0, 20)))

    def real(self):
        """Few digits, small exponents: that library parses other numbers with an error in the last bit."""
        return float(f"{self.r.randint(-10**self.r.randint(0, 9), 10**9)}e{self.r.randint(-22, 13)}")

    def value(self, depth=0):
        r = self.r
        kinds = [lambda: None, lambda: r.random() < 0.5, lambda: r.randint(-10**18, 10**18), lambda: r.randint(-9, 99),
                 self.real, self.text]
        if depth < 3:
            kinds += [lambda: [self.value(depth + 1) for _ in range(r.randint(0, 3))],
                      lambda: {self.key(): self.value(depth + 1) for _ in range(r.randint(0, 3))}]
        return r.choice(kinds)()

    def key(self):
        return self.text(may_have_nul=False) if self.r.random() < 0.1 else self.name()

    def maybe(self, schema, key, make, chance=0.3):
        if self.r.random() < chance:
            schema[key] = make() if self.r.random() < 0.95 else self.value()

    def schema(self, depth=0):
        r = self.r
        kinds = ["string", "number", "integer", "boolean", "null", "any", "object", "array", "list", "oneOf", "empty"]
        kind = r.choice(kinds if depth < 4 else kinds[:6]) if depth or r.random() < 0.2 else "object"
        schema = {}
        self.maybe(schema, "title", self.text, 0.15)
        self.maybe(schema, "description", self.text)
        self.maybe(schema, "nullable", lambda: r.random() < 0.7, 0.2)
        self.maybe(schema, "default", self.value)
        self.maybe(schema, "examples", lambda: [self.value() for _ in range(r.randint(0, 3))], 0.2)
        self.maybe(schema, "enum", lambda: [self.text() for _ in range(r.randint(0, 3))], 0.2)
        if kind == "list":
            schema["type"] = [r.choice(["string", "integer", "number", "null", "object", 7]) for _ in range(r.randint(0, 3))]
        elif kind == "oneOf":
            schema["oneOf"] = [self.schema(depth + 1) for _ in range(r.randint(0, 3))]
            if r.random() < 0.3 and schema["oneOf"] and "description" in schema["oneOf"][0]:
                schema["description"] = schema["oneOf"][0]["description"]
        elif kind != "empty":
            schema["type"] = kind
        if kind == "object":
            self.maybe(schema, "properties", lambda: {self.key(): self.schema(depth + 1) for _ in range(r.randint(0, 4))}, 0.9)
            names = list(schema["properties"]) if isinstance(schema.get("properties"), dict) else []
            self.maybe(schema, "required", lambda: [n for n in names if r.random() < 0.5], 0.7)
        if kind == "array":
            self.maybe(schema, "items", lambda: self.schema(depth + 1), 0.8)
        return dict(r.sample(list(schema.items()), len(schema)))

    def tools(self):
        tools = {}
        for _ in range(self.r.randint(0, 4)):
            function = {"name": self.name(), "description": self.text(may_have_nul=False)}
            self.maybe(function, "parameters", self.schema, 0.8)
            if not isinstance(function.get("parameters", {}), dict):
                function["parameters"] = None
            tools[function["name"]] = {"type": "function", "function": function}
        return list(tools.values())

    def turn(self, is_last, tools):
        """A user's message and what the assistant did."""
        messages = [{"role": "user", "content": self.text()}]
        if self.r.random() < 0.2:
            messages[0]["name"] = self.name()
        for _ in range(self.r.randint(0, 2)):
            call = {"role": "assistant", "content": self.r.choice([None, "", self.text()]), "tool_calls": []}
            if is_last and self.r.random() < 0.7:
                call["reasoning"] = self.text()
            for i in range(self.r.randint(1, 2)):
                name = self.r.choice(tools)["function"]["name"] if tools else self.name()
                call["tool_calls"].append({"id": f"c{i}", "type": "function",
                                           "function": {"name": name, "arguments": self.text()}})
            results = [{"role": "tool", "tool_call_id": c["id"], "content": self.text()} for c in call["tool_calls"]]
            messages += [call] + self.r.sample(results, len(results))
        if not is_last or self.r.random() < 0.3:
            messages.append({"role": "assistant", "content": self.text()})
        return messages

    def request(self):
        tools = self.tools()
        messages = [{"role": self.r.choice(["system", "developer"]), "content": self.text()}] if self.r.random() < 0.6 else []
        n_turns = self.r.randint(1, 3)
        for i in range(n_turns):
            messages += self.turn(i == n_turns - 1, tools)
        return {"messages": messages, "tools": tools, "reasoning_effort": self.r.choice(["low", "medium", "high"])}


def conversation(request):
    """The same request as the library's messages."""
    role, author = harmony.Role, harmony.Author
    text = harmony.Message.from_role_and_content
    effort = harmony.ReasoningEffort[request["reasoning_effort"].upper()]
    system = harmony.SystemContent.new().with_reasoning_effort(effort).with_conversation_start_date(DATE)
    out = [text(role.SYSTEM, system)]
    developer = harmony.DeveloperContent.new()
    instructions = [m["content"] for m in request["messages"] if m["role"] in ("system", "developer") and m["content"]]
    if instructions:
        developer = developer.with_instructions("\n\n".join(instructions))
    if request["tools"]:
        developer = developer.with_function_tools(
            [harmony.ToolDescription.new(f["name"], f["description"], f.get("parameters"))
             for f in (t["function"] for t in request["tools"])])
    if instructions or request["tools"]:
        out.append(text(role.DEVELOPER, developer))
    names = {}
    for m in request["messages"]:
        if m["role"] == "user":
            out.append(harmony.Message.from_author_and_content(author(role=role.USER, name=m.get("name")), m["content"]))
        elif m["role"] == "tool":
            out.append(harmony.Message.from_author_and_content(author.new(role.TOOL, names[m["tool_call_id"]]), m["content"])
                       .with_channel("commentary").with_recipient("assistant"))
        elif m["role"] == "assistant":
            calls = m.get("tool_calls", [])
            if m.get("reasoning"):
                out.append(text(role.ASSISTANT, m["reasoning"]).with_channel("analysis"))
            if m["content"] or (m["content"] is not None and not calls):
                out.append(text(role.ASSISTANT, m["content"]).with_channel("commentary" if calls else "final"))
            for call in calls:
                names[call["id"]] = "functions." + call["function"]["name"]
                out.append(text(role.ASSISTANT, call["function"]["arguments"]).with_channel("commentary")
                           .with_recipient(names[call["id"]]).with_content_type("<|constrain|>json"))
    return harmony.Conversation.from_messages(out)


@pytest.fixture(scope="module")
def osprey():
    return Osprey()


@pytest.fixture(scope="module")
def encoding():
    return harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


def test_prompts(osprey, encoding):
    keep = harmony.RenderConversationConfig(auto_drop_analysis=False)
    requests = Requests(SEED)
    for i in range(N_PROMPTS):
        request = requests.request()
        want = encoding.render_conversation_for_completion(conversation(request), harmony.Role.ASSISTANT, keep)
        got = osprey.render(request)
        if got != want:
            at = next((j for j, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            pytest.fail(f"prompt {i} differs at token {at} of {len(want)}: {encoding.decode(got[at - 20:at + 20])!r} "
                        f"instead of {encoding.decode(want[at - 20:at + 20])!r}\n{json.dumps(request)}")
