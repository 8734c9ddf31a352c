"""Harmony: renders chat conversations as the token pieces that gpt-oss models read and write.

A conversation is a dict in OpenAI chat terms, the form of eval.jsonl:
    effort    "low", "medium" or "high"
    date      "YYYY-MM-DD" or None, which leaves the line out
    messages  developer, user, assistant and tool messages; an assistant message may carry "reasoning"
              (its analysis) and "tool_calls"
    tools     OpenAI function tools, or absent

Pieces are special tokens or ordinary text between them; every text is tokenised on its own, so text
can never turn into a control token.
"""

import json

SPECIALS = [
    "<|startoftext|>",
    "<|endoftext|>",
    "<|reserved_200000|>",
    "<|reserved_200001|>",
    "<|return|>",
    "<|constrain|>",
    "<|reserved_200004|>",
    "<|channel|>",
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|reserved_200009|>",
    "<|reserved_200010|>",
    "<|reserved_200011|>",
    "<|call|>",
    "<|reserved_200013|>",
    "<|reserved_200014|>",
    "<|reserved_200015|>",
    "<|reserved_200016|>",
    "<|reserved_200017|>",
    "<|endofprompt|>",
]
SPECIAL_SET = frozenset(SPECIALS)
IDENTITY = "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06"
CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
CALLS = "Calls to these tools must go to the commentary channel: 'functions'."


def system_text(effort, date, has_functions, identity=IDENTITY):
    head = identity + (f"\nCurrent date: {date}" if date else "")
    channels = CHANNELS + ("\n" + CALLS if has_functions else "")
    return "\n\n".join([head, f"Reasoning: {effort}", channels])


def _type(schema, indent=""):
    """The TypeScript-like type of a JSON schema (the subset that function tools use)."""
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join("number" if k == "integer" else k for k in kind)
    if kind == "object":
        return _object_type(schema, indent)
    if kind == "string":
        return " | ".join(f'"{v}"' for v in schema["enum"]) if schema.get("enum") else "string"
    if kind in ("number", "integer"):
        return "number"
    if kind == "boolean":
        return "boolean"
    if kind == "array":
        return _type(schema["items"], indent) + "[]" if "items" in schema else "Array<any>"
    return "any"


def _object_type(schema, indent):
    lines = [f"{indent}// {schema['description']}\n"] if schema.get("description") else []
    lines.append("{\n")
    required = schema.get("required") or []
    for key, prop in (schema.get("properties") or {}).items():
        if prop.get("description"):
            lines.append(f"{indent}// {prop['description']}\n")
        optional = "" if key in required else "?"
        lines.append(f"{indent}{key}{optional}: {_type(prop, indent + '    ')},{_default(prop)}\n")
    return "".join(lines) + indent + "}"


def _default(prop):
    if "default" not in prop:
        return ""
    value = prop["default"]
    if isinstance(value, str):
        text = value if prop.get("enum") else f'"{value}"'
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f" // default: {text}"


def tools_text(tools):
    lines = ["# Tools", "", "## functions", "", "namespace functions {", ""]
    for tool in tools:
        function = tool["function"]
        if function.get("description"):
            lines += ["// " + line for line in function["description"].split("\n")]
        parameters = function.get("parameters")
        signature = f"(_: {_type(parameters)})" if parameters else "()"
        lines += [f"type {function['name']} = {signature} => any;", ""]
    return "\n".join(lines + ["} // namespace functions"])


def developer_text(instructions, tools):
    parts = [f"# Instructions\n\n{instructions}"] if instructions else []
    return "\n\n".join(parts + ([tools_text(tools)] if tools else []))


def _message(header, content, end):
    return ["<|start|>", *header, "<|message|>", content, end]


def _assistant(message, keep_analysis):
    """The pieces of one completed assistant message of the history."""
    pieces = []
    if keep_analysis and message.get("reasoning"):
        pieces += _message(["assistant", "<|channel|>", "analysis"], message["reasoning"], "<|end|>")
    for call in message.get("tool_calls") or []:
        pieces += _message(_call_header(call["function"]["name"]), call["function"]["arguments"], "<|call|>")
    if message.get("content"):
        pieces += _message(["assistant", "<|channel|>", "final"], message["content"], "<|end|>")
    return pieces


def _call_header(name):
    return [f"assistant to=functions.{name}", "<|channel|>", "commentary ", "<|constrain|>", "json"]


def prompt_pieces(conversation):
    """The pieces of the prompt, up to and including the opening of the assistant's turn."""
    tools = conversation.get("tools")
    messages = conversation["messages"]
    identity = conversation.get("identity", IDENTITY)
    pieces = _message(
        ["system"],
        system_text(conversation["effort"], conversation.get("date"), bool(tools), identity),
        "<|end|>",
    )
    instructions = next((m["content"] for m in messages if m["role"] == "developer"), "")
    if instructions or tools:
        pieces += _message(["developer"], developer_text(instructions, tools), "<|end|>")
    last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    call_names = {}
    for i, message in enumerate(messages):
        if message["role"] == "user":
            pieces += _message(["user"], message["content"], "<|end|>")
        elif message["role"] == "assistant":
            call_names.update({c["id"]: c["function"]["name"] for c in message.get("tool_calls") or []})
            pieces += _assistant(message, keep_analysis=i > last_user)
        elif message["role"] == "tool":
            name = call_names[message["tool_call_id"]]
            pieces += _message(
                [f"functions.{name} to=assistant", "<|channel|>", "commentary"], message["content"], "<|end|>"
            )
    return pieces + ["<|start|>", "assistant"]


def target_pieces(target):
    """What the model should write after the prompt: {"analysis", "final"} or {"analysis", "name", "arguments"}."""
    pieces = ["<|channel|>", "analysis", "<|message|>", target["analysis"], "<|end|>", "<|start|>"]
    if "final" in target:
        return pieces + ["assistant", "<|channel|>", "final", "<|message|>", target["final"], "<|return|>"]
    header = _call_header(target["name"])
    arguments = json.dumps(target["arguments"], ensure_ascii=False, separators=(",", ":"))
    return pieces + [*header, "<|message|>", arguments, "<|call|>"]


class Encoder:
    """Pieces to token ids. `encode` turns ordinary text into ids; repeated texts are remembered."""

    def __init__(self, encode, special_ids):
        self.encode, self.special_ids, self.seen = encode, special_ids, {}

    def __call__(self, pieces):
        ids = []
        for piece in pieces:
            if piece in SPECIAL_SET:
                ids.append(self.special_ids[piece])
                continue
            known = self.seen.get(piece)
            if known is None:
                known = self.encode(piece)
                if len(piece) < 400:
                    if len(self.seen) > 50000:
                        self.seen.clear()
                    self.seen[piece] = known
            ids += known
        return ids


def parse_completion(text):
    """Splits generated text, specials included, into {"analysis", "kind", "content", "name", "end"}.

    kind is "final", "tool_call" or None when no such message was found; end is the last control token.
    """
    out = {"analysis": "", "kind": None, "content": "", "name": None, "end": None}
    for end in ("<|return|>", "<|call|>"):
        if text.endswith(end):
            out["end"], text = end, text[: -len(end)]
    for message in text.split("<|start|>"):
        header, separator, content = message.partition("<|message|>")
        content = content.removesuffix("<|end|>")
        if not separator:
            continue
        if " to=functions." in header:
            name = header.split(" to=functions.", 1)[1]
            out.update(kind="tool_call", content=content, name=name.split("<|")[0].split(" ")[0])
        elif "<|channel|>analysis" in header:
            out["analysis"] += content
        elif "<|channel|>final" in header:
            out.update(kind="final", content=content)
    return out
