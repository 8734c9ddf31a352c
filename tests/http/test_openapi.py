"""/openapi.json against what the server does: every documented field is accepted in its range and refused, by its
name, beyond it; every route answers with the statuses and types that are documented, in the documented form."""

import http.client
import json

import pytest

MESSAGES = [{"role": "user", "content": "What is 2 + 2?"}]
BODIES = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 2},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 2},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 2},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 2, "system": "Hi"},
    "/v1/messages/count_tokens": {"messages": MESSAGES, "system": "Hi"},
    "/v1/conversations": {"items": [{"role": "user", "content": "Hello"}]},
    "/tokenize": {"prompt": "Hello"},
    "/detokenize": {"tokens": [1, 2]},
    "/completion": {"prompt": "Hello", "n_predict": 2},
    "/apply-template": {"messages": MESSAGES},
}
# What a field needs beside it, and values that the schema allows but another rule does not.
COMPANIONS = {
    "top_logprobs": {"logprobs": True},
    "min_tokens": {"max_tokens": None, "max_output_tokens": None},
    "best_of": {"n": "same"},
    "stream_options": {"stream": True},
    "max_completion_tokens": {"max_tokens": None},
    "max_tokens": {"echo": True},  # for 0
    "n_predict": {"echo": True},
    "content": {"prompt": None},
    "tools": {"messages": MESSAGES, "prompt": None},
    "messages": {"prompt": None},
}
# Without which no companion is: fields of /v1/messages that a request must have.
REQUIRED = ("messages", "max_tokens")
LARGE = 1000  # a number of tokens or choices that a test does not wait for


class Api:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.document = self.ask("GET", "/openapi.json")[2]

    def ask(self, method, path, body=None, **headers):
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        data = answer.read()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, kind, json.loads(data) if kind == "application/json" and data else data

    def fields(self, path):
        body = self.document["paths"][path]["post"]["requestBody"]
        return body["content"]["application/json"]["schema"]["properties"]

    def resolve(self, schema):
        while "$ref" in schema:
            name = schema["$ref"].removeprefix("#/components/schemas/")
            schema = self.document["components"]["schemas"][name]
        return schema

    def fits(self, value, schema):
        """Of JSON schema what the document uses."""
        schema = self.resolve(schema)
        if "anyOf" in schema and not any(self.fits(value, s) for s in schema["anyOf"]):
            return False
        if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
            return False
        kinds = schema.get("type", [])
        if kinds and not any(is_type(value, k) for k in ([kinds] if isinstance(kinds, str) else kinds)):
            return False
        if isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            return False
        if isinstance(value, list):
            return all(self.fits(v, schema.get("items", {})) for v in value)
        if isinstance(value, dict):
            if not set(schema.get("required", [])) <= set(value):
                return False
            return all(self.fits(v, schema.get("properties", {}).get(k, {})) for k, v in value.items())
        return True

    def check(self, method, path, body=None, at=None, **headers):
        """Asks, and holds the answer against the document."""
        status, kind, answer = self.ask(method, at or path, body, **headers)
        responses = self.document["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, (path, status, answer)
        contents = responses[str(status)]["content"]
        match = [c for c in contents if kind == c or kind.split(";")[0] == c]
        assert match, (path, status, kind)
        if isinstance(answer, dict):
            assert self.fits(answer, contents[match[0]]["schema"]), (path, answer)
        return status, answer


def is_type(value, kind):
    if isinstance(value, bool):
        return kind == "boolean"
    names = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}
    return kind != "boolean" and isinstance(value, names[kind])


@pytest.fixture(scope="module")
def api(server):
    return Api(server)


def walk(value):
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def test_form(api):
    document = api.document
    assert document["openapi"] == "3.1.0"
    operations = [(p, m, o) for p, methods in document["paths"].items() for m, o in methods.items()]
    ids = [o["operationId"] for _, _, o in operations]
    assert len(set(ids)) == len(ids) >= 11
    for part in walk(document):
        if isinstance(part, dict) and "$ref" in part:
            assert api.resolve(part)
    for path, _, operation in operations:
        assert operation["summary"]
        wanted = [p.split("}")[0] for p in path.split("{")[1:]]
        assert [p["name"] for p in operation.get("parameters", []) if p["in"] == "path"] == wanted
        assert {"200", "401", "405", "503"} <= set(operation["responses"])


def test_it_lists_what_the_index_lists(api):
    status, _, index = api.ask("GET", "/")
    listed = {tuple(line.split()[:2]) for line in index.decode().splitlines()[2:]}
    documented = {
        (method.upper(), path.replace("{name}", "*"))
        for path, methods in api.document["paths"].items()
        for method in methods
    }
    assert status == 200 and documented == listed


def test_every_field_is_described(api):
    for path in BODIES:
        for name, schema in api.fields(path).items():
            assert schema["description"].endswith("."), (path, name)


def good_and_bad(schema):
    """Values at the edges of a schema, and just beyond them."""
    if "anyOf" in schema and "enum" not in schema:
        parts = [good_and_bad(s) for s in schema["anyOf"] if s.get("type") != "null"]
        if not parts:
            return [], [5, "x", True, []]  # of null alone
        shared = [b for b in parts[0][1] if all(b in p[1] for p in parts)]
        return [g for p in parts for g in p[0]], shared
    if "enum" in schema:
        return [v for v in schema["enum"] if v is not None], ["no such word", 5]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind == "boolean":
        return [True, False], [1, "true", [], {}]
    if kind in ("integer", "number"):
        least, most = schema.get("minimum"), schema.get("maximum")
        good = [v for v in (least, most) if v is not None] or [0, -7, 12345678901]
        bad = ["1", True, [], {}] + ([0.5] if kind == "integer" else [])
        return good, bad + [v for v in (least and least - 1, most is not None and most + 1) if v not in (None, False)]
    if kind == "string":
        bad = [5, True, [], {}]
        if schema.get("minLength"):
            bad.append("")
        if "maxLength" in schema:
            bad.append("x" * (schema["maxLength"] + 1))
        return ["x" * schema.get("maxLength", 3)], bad
    return [], [5, "no such word", True]


def edges(name, values):
    """Without those that take long or mean more than their range."""
    if name == "prompt" and values:
        return ["Hello"]
    if name in ("guided_json", "json_schema"):
        return ['{"type": "integer", "maximum": 9}' for _ in values[:1]]
    counts = ("max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "n_predict")
    return [v for v in values if not (name in counts and (v > LARGE or v < 0))]


def with_companions(body, name, value):
    is_messages = "system" in body
    body = {**body, name: value}
    if name == "tool_choice" and is_messages:
        body["tools"] = [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
        body["tool_choice"] = {**value, "name": "f"} if isinstance(value, dict) else value
    elif name == "tool_choice":
        function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
        body["tools"] = [{"type": "function", **(function if "input" in body else {"function": function})}]
    for other, needed in COMPANIONS.get(name, {}).items() if value is not None else ():
        if is_messages and other in REQUIRED:
            continue
        body[other] = value if needed == "same" else needed
    return {k: v for k, v in body.items() if v is not None or k == name}


def field_of(answer):
    """The field that an error names: Anthropic's form has it only at the beginning of the message."""
    error = answer["error"]
    return error["param"] if "param" in error else error["message"].split(":")[0]


@pytest.mark.parametrize("path", BODIES)
def test_fields_beyond_their_range_are_refused_by_name(api, path):
    n_refused = 0
    for name, schema in api.fields(path).items():
        for value in good_and_bad(schema)[1]:
            status, answer = api.check("POST", path, with_companions(BODIES[path], name, value))
            assert status == 400, (name, value, status, answer)
            assert field_of(answer).split(".")[0].split("[")[0] == name, (value, answer)
            n_refused += 1
    assert n_refused > 2 * len(api.fields(path))


@pytest.mark.parametrize("path", BODIES)
def test_fields_in_their_range_are_accepted(api, path):
    for name, schema in api.fields(path).items():
        values = edges(name, good_and_bad(schema)[0])
        if name not in ("messages", "prompt", "tokens") and (path != "/v1/messages" or name not in REQUIRED):
            values.append(None)  # as if it were not given
        for value in values:
            if name == "model" and value is not None:
                value = "osprey-nano"
            if name == "regex" and value is not None:
                value = "[ab]"
            status, answer = api.check("POST", path, with_companions(BODIES[path], name, value))
            if name in ("previous_response_id", "conversation", "continue_final_message") and value:
                assert status == (404 if name == "conversation" else 400) and answer["error"]["param"] == name
            else:
                assert status == 200, (name, value, answer)


def test_larger_fields_in_their_range(api):
    chat, text = "/v1/chat/completions", "/v1/completions"
    for path, more in [
        (chat, {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}),
        (chat, {"reasoning": {"effort": "low"}, "metadata": {"a": "b"}, "functions": [], "modalities": ["text"]}),
        (chat, {"response_format": {"type": "text"}, "logit_bias": {"5": -100, "6": 100}}),
        (chat, {"stop": ["a"] * 16, "stop_token_ids": list(range(64)), "allowed_token_ids": [1, 2, 3]}),
        (text, {"prompt": ["a", "b"], "logprobs": 5, "return_token_ids": True, "structured_outputs": {"regex": "a"}}),
        (text, {"prompt": [[1], [2, 3]], "choice": ["a", "b"]}),
        (text, {"prompt": [1, 2], "stop": "x"}),
        (text, {"prompt": [1, 2], "echo": True, "logprobs": 2, "prompt_logprobs": 1, "max_tokens": 0}),
        (chat, {"prompt_logprobs": 2}),
    ]:
        status, answer = api.check("POST", path, {**BODIES[path], **more})
        assert status == 200, (more, answer)
    for name, value in [
        ("stop", ["a"] * 17),
        ("stop_token_ids", [1] * 65),
        ("logit_bias", {str(i): 1 for i in range(1025)}),
        ("logit_bias", {"5": 101}),
        ("metadata", {"a": 5}),
        ("metadata", {str(i): "x" for i in range(17)}),
        ("cache_salt", "x" * 257),
        ("stream_options", {"include_usage": 1}),
        ("stream_options", {"continuous_usage_stats": "yes"}),
        ("response_format", {"type": "xml"}),
    ]:
        status, answer = api.check("POST", chat, {**BODIES[chat], name: value})
        assert status == 400 and answer["error"]["param"].split(".")[0] == name, (name, answer)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"])
def test_streams(api, path):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    status, kind, data = api.ask("POST", path, {**BODIES[path], **options})
    content = api.document["paths"][path]["post"]["responses"]["200"]["content"]
    assert status == 200 and kind.split(";")[0] in content
    events = [e.split("data: ", 1)[1] for e in data.decode().split("\n\n") if "data: " in e]
    assert len(events) >= 3
    if path not in ("/v1/responses", "/v1/messages"):
        assert events.pop() == "[DONE]"
    chunk, _ = content["text/event-stream"]["schema"]["properties"]["data"]["anyOf"]
    for event in events:
        assert api.fits(json.loads(event), chunk["contentSchema"]), event


def test_every_route_answers_as_documented(api):
    for path, methods in api.document["paths"].items():
        kept = api.ask("POST", "/v1/responses", BODIES["/v1/responses"])[2]["id"]
        talk = api.ask("POST", "/v1/conversations", BODIES["/v1/conversations"])[2]["id"]
        name = "osprey-nano" if "models" in path else talk if "conversations" in path else kept
        at = path.replace("{name}", name)
        if "get" in methods:
            assert api.check("GET", path, at=at)[0] == 200
            assert api.ask("HEAD", at)[0] == 200
        if "delete" in methods:
            assert api.check("DELETE", path, at=at)[0] == 200
            assert api.check("DELETE", path, at=at)[0] == 404
        if path.endswith("/cancel"):
            assert api.check("POST", path, at=at)[0] == 400
        if path in BODIES:
            assert api.check("POST", path, BODIES[path])[0] == 200
            assert api.check("POST", path, "{", at=at)[0] == 400
            assert api.check("POST", path, "[]", at=at)[0] == 400
            page = {"Content-Type": "text/plain", "Sec-Fetch-Site": "same-origin"}
            assert api.check("POST", path, "x=1", **page)[0] == 415
            status, _, answer = api.ask("GET", at)
            kind = "MessageError" if "messages" in path else "Error"
            assert status == 405 and api.fits(answer, {"$ref": f"#/components/schemas/{kind}"})
        assert api.ask("OPTIONS", at)[0] == 204
    assert api.check("GET", "/v1/models/{name}", at="/v1/models/gpt-9")[0] == 404


@pytest.mark.parametrize("path", BODIES)
def test_a_malformed_body_says_where(api, path):
    for body, words in [
        ('{"a": 1,\n "b": }', ("line 2", "column")),
        ('{"a": 1, "a": 2}', ("line 1", "duplicate")),
        (b'{"a": "\xff"}', ("line 1", "column")),
        ("", ("line 1",)),
    ]:
        status, answer = api.check("POST", path, body)
        assert status == 400 and all(w in answer["error"]["message"] for w in words), answer
