"""Which route a path means: paths without /v1, and what the answer to any other path says."""

import http.client
import json

import pytest


class Asker:
    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def __call__(self, method, path, body=None):
        self.connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self.connection.getresponse()
        data = answer.read()
        return answer.status, answer.headers, data


@pytest.fixture
def ask(server):
    return Asker(server)


def message(data):
    error = json.loads(data)["error"]
    return error if isinstance(error, str) else error["message"]


def test_paths_with_and_without_the_prefix_are_one_route(ask):
    paths = json.loads(ask("GET", "/openapi.json")[2])["paths"]
    shortened = 0
    for path, methods in paths.items():
        if not path.startswith("/v1/") or path.removeprefix("/v1") in paths:
            continue
        for long, short in [(path, path.removeprefix("/v1"))]:
            long, short = (p.replace("{name}", "osprey-nano") for p in (long, short))
            for method in [m.upper() for m in methods] + ["OPTIONS", "PUT"]:
                body = "{}" if method == "POST" else None
                one, other = ask(method, long, body), ask(method, short, body)
                assert one[0] == other[0] and one[1]["allow"] == other[1]["allow"], (method, short)
                if one[0] not in (200, 204):
                    assert message(one[2]).replace(f"{long} is", f"{short} is") == message(other[2])
                shortened += 1
    assert shortened > 15


def test_answers_are_those_of_the_long_path(ask):
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
    status, _, data = ask("POST", "/chat/completions", body)
    assert status == 200 and json.loads(data)["object"] == "chat.completion"
    status, _, data = ask("POST", "/responses", json.dumps({"input": "Hi", "max_output_tokens": 1}))
    kept = json.loads(data)["id"]
    assert status == 200 and ask("GET", f"/responses/{kept}")[0] == 200
    assert ask("DELETE", f"/responses/{kept}")[0] == 200 and ask("GET", f"/v1/responses/{kept}")[0] == 404
    assert json.loads(ask("GET", "/models/osprey-nano")[2])["id"] == "osprey-nano"
    kept = json.loads(ask("POST", "/conversations", "{}")[2])["id"]
    items = json.dumps({"items": [{"role": "user", "content": "Hi"}]})
    for prefix in ("", "/v1"):
        assert ask("POST", f"{prefix}/conversations/{kept}/items", items)[0] == 200
        assert ask("POST", f"{prefix}/conversations/{kept}", json.dumps({"metadata": {"a": prefix}}))[0] == 200
    assert len(json.loads(ask("GET", f"/conversations/{kept}/items")[2])["data"]) == 2
    for path in ("/health", "/v1/health", "/ping"):
        assert json.loads(ask("GET", path)[2])["status"] == "ok"
    for path in ("/v1", "/v1/", "/v1/v1/models", "/v1/metrics", "/v1models", "//models"):
        assert ask("GET", path)[0] == 404, path


@pytest.mark.parametrize(
    "path, nearest",
    [
        ("/v1/chat/completion", "POST /v1/chat/completions"),
        ("/chat/completion", "POST /v1/chat/completions"),
        ("/v1/model", "GET /v1/models"),
        ("/api/tag", "GET /api/tags"),
        ("/apply_template", "POST /apply-template"),
        ("/healthz", "GET /health"),
    ],
)
def test_an_unknown_path_names_the_nearest_routes(ask, path, nearest):
    status, _, data = ask("GET", path)
    said = message(data)
    assert status == 404 and said.startswith(f"no route matches the path {path}; the most similar routes are ")
    listed = said.split(" are ")[1].split("; ")[0].split(", ")
    assert len(listed) == 3 and nearest in listed[:2] and "GET / lists all" in said


def test_a_long_path_gets_a_short_answer(ask):
    status, _, data = ask("GET", "/" + "x" * 8000)
    assert status == 404 and len(data) < 1000
    status, _, data = ask("GET", "/api/blobs/" + "x" * 8000)
    assert status == 404 and len(data) < 1000


def test_routes_of_other_servers_that_are_absent_say_why(ask):
    for path, words in [
        ("/v1/embeddings", "no embeddings"), ("/embeddings", "no embeddings"), ("/embedding", "no embeddings"),
        ("/infill", "fill in the middle"), ("/rerank", "rank"), ("/v1/reranking", "rank"),
        ("/lora-adapters", "LoRA"), ("/slots/0", "prefix cache"), ("/models/load", "was started with"),
        ("/v1/chat/completions/control", "reasoning"), ("/v1/audio/speech", "text only"), ("/tools", "runs no tools"),
    ]:  # fmt: skip
        status, _, data = ask("POST", path, "{}")
        error = json.loads(data)["error"]
        assert status == 404 and error["code"] == "not_supported", (path, error)
        assert error["message"].startswith(f"{path} is not supported: ") and words in error["message"]


def test_a_wrong_method_names_the_route_that_was_found(ask):
    for method, path, route, allow in [
        ("POST", "/v1/responses/foo", "/v1/responses/*", "GET, HEAD, DELETE, OPTIONS"),
        ("GET", "/chat/completions", "/v1/chat/completions", "POST, OPTIONS"),
        ("DELETE", "/v1/models", "/v1/models", "GET, HEAD, OPTIONS"),
    ]:
        status, headers, data = ask(method, path, "{}" if method == "POST" else None)
        assert status == 405 and headers["allow"] == allow
        assert message(data) == (
            f"{method} {path} is not supported; the route {route} supports the methods {allow}"
        )
    status, _, data = ask("GET", "/api/chat")
    assert status == 405 and message(data).startswith("GET /api/chat is not supported; the route /api/chat supports ")


def test_the_index_is_a_table(ask):
    """Every description begins in the same column."""
    status, _, data = ask("GET", "/")
    lines = data.decode().splitlines()[2:]
    assert status == 200 and len(lines) > 20
    for line in lines:
        method, path, text = line.split(None, 2)
        assert (line.index(path), line.index(text, len(method) + len(path))) == (7, 38), line
