"""Who may call: keys of the command line and of a file; what pages of other hosts may do."""

import http.client
import json

import openai
import pytest

from conftest import run


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_any_of_several_keys_opens_everything(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# team\nalpha\r\n\nbeta\n")
    server = start_server("--api-key", "first,second", "--api-key-file", str(keys))
    for key in ("first", "second", "alpha", "beta"):
        assert server.client(key=key).models.list().data
    for key in ("firs", "first,second", "# team", "alph", "alphaalpha"):
        with pytest.raises(openai.AuthenticationError) as caught:
            server.client(key=key).models.list()
        assert caught.value.code == "invalid_api_key"
    paths = json.loads(ask(server, "GET", "/openapi.json", Authorization="Bearer beta")[2])["paths"]
    assert len(paths) >= 11
    for path, methods in paths.items():
        for method in methods:
            body = {} if method == "post" else None
            status = ask(server, method.upper(), path.replace("{name}", "osprey-nano"), body)[0]
            assert (status == 401) == (path not in ("/health", "/v1/health", "/ping")), (method, path, status)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--api-key", "a,,b"], "--api-key: an API key is empty"),
        (["--api-key", "a b"], "--api-key: API key 1 has a space"),
        (["--api-key-file", "/nonexistent"], "--api-key-file: /nonexistent"),
        (["--api-key-file", "/dev/null"], "has no API key"),
    ],
)
def test_keys_that_cannot_be(options, words):
    """A server that would be open by mistake does not start."""
    ended = run("serve", "--port", "0", *options)
    assert ended.returncode != 0 and words in ended.stderr


def test_pages_of_allowed_hosts(start_server):
    server = start_server("--allowed-origins", "https://a.example,https://b.example")
    wanted = "authorization, content-type, x-stainless-lang, X-Stainless-Retry-Count"
    status, headers, _ = ask(
        server,
        "OPTIONS",
        "/v1/completions",
        Origin="https://b.example",
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers=wanted,
    )
    assert status == 204
    assert headers["access-control-allow-origin"] == "https://b.example"
    assert headers["access-control-allow-headers"] == wanted
    assert "POST" in headers["access-control-allow-methods"]
    assert "Origin" in headers["vary"]
    status, headers, _ = ask(server, "GET", "/v1/models", Origin="https://a.example")
    assert status == 200 and headers["access-control-allow-origin"] == "https://a.example"
    assert "x-osprey-warning" in headers["access-control-expose-headers"]
    for method in ("GET", "OPTIONS"):
        status, headers, body = ask(server, method, "/v1/models", Origin="https://c.example")
        assert status == 403 and "access-control-allow-origin" not in headers
        assert json.loads(body)["error"]["code"] == "forbidden_origin"


def test_headers_that_a_page_asks_for_are_no_way_in(start_server):
    server = start_server("--allowed-origins", "*")
    for wanted in ("x" * 2000, "a: b", "é", ""):
        _, headers, _ = ask(
            server, "OPTIONS", "/v1/models", Origin="https://a.example",
            Access_Control_Request_Headers=wanted.encode("latin-1").decode("latin-1"),
        )
        allowed = "authorization, content-type, x-request-id, x-api-key, anthropic-version, anthropic-beta"
        assert headers["access-control-allow-headers"] == allowed


def test_keys_may_come_in_either_header(start_server):
    server = start_server("--api-key", "first,second")
    for headers in (
        {"X_Api_Key": "first"},
        {"X_Api_Key": "second", "Authorization": "Bearer of-another-service"},
        {"X_Api_Key": "of-another-service", "Authorization": "Bearer first"},
        {"X_Api_Key": "first", "Authorization": "Basic Zmlyc3Q6"},
    ):
        assert ask(server, "GET", "/v1/models", **headers)[0] == 200, headers
    for headers in ({}, {"X_Api_Key": "firs"}, {"X_Api_Key": ""}, {"X_Api_Key": "first,second"}):
        status, fields, body = ask(server, "GET", "/v1/models", **headers)
        assert status == 401 and fields["www-authenticate"] == "Bearer"
        assert "x-api-key" in json.loads(body)["error"]["message"]


def test_a_stored_response_belongs_to_the_key_in_either_header(start_server):
    server = start_server("--api-key", "first,second")
    body = {"input": "Hi", "max_output_tokens": 1}
    made = json.loads(ask(server, "POST", "/v1/responses", body, X_Api_Key="first")[2])["id"]
    path = f"/v1/responses/{made}"
    assert ask(server, "GET", path, Authorization="Bearer first")[0] == 200
    assert ask(server, "GET", path, X_Api_Key="first")[0] == 200
    assert ask(server, "GET", path, X_Api_Key="second")[0] == 404


def test_a_probe_needs_no_key_and_tells_nothing(start_server):
    server = start_server("--api-key", "first")
    status, _, body = ask(server, "HEAD", "/")
    assert status == 200 and body == b""
    assert ask(server, "GET", "/")[0] == ask(server, "HEAD", "/v1/models")[0] == 401


def test_the_request_id_has_both_names(server):
    _, headers, _ = ask(server, "GET", "/v1/models")
    assert headers["request-id"] == headers["x-request-id"] and headers["request-id"].startswith("req-")
    _, headers, _ = ask(server, "GET", "/nothing", X_Request_Id="mine-1")
    assert headers["request-id"] == "mine-1"


LIMITS = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 150}] * 16385}, "messages", "16384"),
    (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(513)],
        },
        "tools",
        "512",
    ),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "n": 17}, "n", "16"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stop": ["x"] * 17}, "stop", "16"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stop": "x" * 1025}, "stop", "1024"),
    (
        "/v1/completions",
        {
            "prompt": "x",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "object", "description": "x" * 1_100_000}},
            },
        },
        "response_format",
        "1048576",
    ),
    ("/v1/completions", {"prompt": "x", "regex": "a" * 70_000}, "regex", "65536"),
]


@pytest.mark.parametrize("path, body, param, limit", LIMITS, ids=[f"{x[2]}-{x[3]}" for x in LIMITS])
def test_limits_are_named_with_their_numbers(server, path, body, param, limit):
    status, _, answer = ask(server, "POST", path, body)
    error = json.loads(answer)["error"]
    assert status == 400 and error["code"] == "invalid_value", error
    assert error["param"].split("[")[0] == param and limit in error["message"], error


def test_a_body_that_is_too_large_names_the_limit(start_server):
    server = start_server("--max-body", "2K")
    status, _, answer = ask(server, "POST", "/v1/completions", {"prompt": "x" * 3000})
    error = json.loads(answer)["error"]
    assert status == 413 and "2048 bytes, the limit of this server (--max-body)" in error["message"]
