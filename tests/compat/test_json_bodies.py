"""JSONTestSuite (github.com/nst/JSONTestSuite, its folder test_parsing) as request bodies. No registry carries it:
SUITES=DIR names a folder with JSONTestSuite/. Every file is sent as a body and, so that good ones are whole requests,
as the value of a field: what is no JSON is a 400, what is JSON is answered, and what is left to the parser is either."""

import http.client
import json

import pytest

import suites

ROUTES = {"/v1/chat/completions": b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"x":%s}',
          "/tokenize": b'{"prompt":"hi","x":%s}'}
# JSON by the letter and refused all the same: two values for one name, of which others would take either, and a
# name with U+0000 in it, which no field has.
REFUSED = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json", "y_object_escaped_null_in_key.json"}
N_FILES = 318


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


def post(connection, route, body):
    connection.request("POST", route, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def expected(name):
    """Statuses of a file as a field's value."""
    if name in REFUSED or name.startswith("n_"):
        return {400}
    return {200} if name.startswith("y_") else {200, 400}


def test_bodies(server, record):
    files = sorted((suites.given("JSONTestSuite", "JSONTestSuite") / "test_parsing").glob("*.json"))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    n, wrong = {"200": 0, "400": 0}, []
    for route, frame in ROUTES.items():
        for file in files:
            content = file.read_bytes()
            for kind, body, statuses in (("body", content, {400}), ("value", frame % content, expected(file.name))):
                status, answer = post(connection, route, body)
                n[str(status)] = n.get(str(status), 0) + 1
                error = answer.get("error", {})
                if status not in statuses or (status == 400) != bool(error.get("message")):
                    wrong.append(f"{route}, {file.name} as {kind}: {status} {answer}")
                if kind == "value" and status == 400 and not error["message"].startswith("the body is not valid JSON"):
                    wrong.append(f"{route}, {file.name}: refused for another reason: {answer}")
    status, _ = post(connection, "/tokenize", b'{"prompt":"still here"}')
    record("JSONTestSuite", files=len(files), bodies=sum(n.values()), answered=n, refused_on_purpose=sorted(REFUSED),
           differences=len(wrong))
    assert not wrong, "\n".join(wrong)
    assert len(files) == N_FILES and status == 200 and server.process.poll() is None
