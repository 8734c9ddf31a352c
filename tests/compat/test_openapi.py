"""schemathesis on /openapi.json: requests made from the document, right and wrong ones, against the served program. It
checks that no answer is a server error, that statuses, types, headers and bodies are as the document says, and that
wrong requests are refused. COMPAT_EXAMPLES (200) sets how many requests an operation gets in the fuzzing phase."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import suites

N_EXAMPLES = os.environ.get("COMPAT_EXAMPLES", "200")
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,negative_data_rejection,unsupported_method")
# Failures that it reports and that are correct behaviour: kind, operation, reason.
ALLOWED = [("ServerError|UnsupportedMethodResponse", "^QUERY ",
            "501 is RFC 9110's answer to a method that the server does not know")]


@pytest.fixture(scope="module")
def server(start_server):
    """Answers are short: what is looked at is their form."""
    return start_server("--max-model-len", "256", "--max-tokens", "8")


def reason_of(failure):
    for kind, operation, reason in ALLOWED:
        if re.fullmatch(kind, failure["type"]) and all(re.search(operation, o) for o in failure["operations"]):
            return reason
    return None


def test_openapi(server, record, tmp_path):
    try:
        with urllib.request.urlopen(f"{server.url}/openapi.json", timeout=10) as answer:
            json.load(answer)
    except urllib.error.HTTPError:
        pytest.skip("/openapi.json is not served")
    report = tmp_path / "report.json"
    done = subprocess.run([os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", f"{server.url}/openapi.json",
                           "--seed", "1", "--max-examples", N_EXAMPLES, "--checks", CHECKS, "--request-timeout", "60",
                           "--continue-on-failure", "--no-color", "--report-json-path", str(report)],
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3000)
    told = json.loads(report.read_text())
    different = [f for f in told["failures"] if reason_of(f) is None]
    record("schemathesis", operations=told["operations"], requests=told["test_cases"]["generated"],
           allowed=[f["type"] for f in told["failures"] if reason_of(f)], differences=len(different))
    (suites.KEPT / "schemathesis.log").write_text(done.stdout)
    assert not different and not told["errors"], done.stdout[-6000:]
    assert told["complete"] and told["operations"]["tested"] == told["operations"]["selected"] > 5
    assert server.health()["status"] == "ok"
