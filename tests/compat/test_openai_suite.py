"""The openai client's own test-suite, from its sdist, against `osprey serve`: the tests of the resources that are
served (made for a mock server that says yes to everything), and those of parsing and streaming helpers
(openai_live.py says how). A test of it passes, or fails for one of the reasons below, each with what the server must
have said; anything else is a difference. Left out are the client's variant for aiohttp and tests of the client
alone."""

import collections
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import suites

MODELS = "osprey-nano,gpt-6-astra,gpt-3.5-turbo-instruct,gpt-4o,gpt-4o-2024-08-06,gpt-4o-mini"
RESOURCES = [f"tests/api_resources/{name}.py"
             for name in ("chat/test_completions", "test_completions", "test_models", "test_responses")]
HELPERS = ["tests/lib/chat/test_completions.py", "tests/lib/chat/test_completions_streaming.py"]

# Why a test fails: its name, what the client must have heard, the reason.
REASONS = [
    (r"chat.test_completions.*(retrieve|update|list|delete)", r"Error code: 40[45]", "stored completions are not served"),
    (r"test_models.*delete", r"Error code: 405", "models are not deleted"),
    (r"test_responses.*compact", r"Error code: 40[45]", "compaction is not served"),
    (r"test_responses.*(retrieve|cancel|delete)", r"Error code: 40[045]",
     "it requests a response that does not exist"),
    (r"with_all_params", r"Error code: 400",
     "it sends all fields at once: with values of other types than their own ({\"foo\": 0} for logit_bias), for audio, or 0 tokens"),
    (r"lib.chat", r"LengthFinishReasonError", "osprey-nano did not end a text that the schema leaves unbounded"),
]


def run(folder, report, url, files, *options):
    environment = {**os.environ, "TEST_API_BASE_URL": f"{url}/v1", "PYTHONPATH": str(suites.ROOT / "tests" / "compat")}
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=default",
                    "--timeout", "300", "--tb", "short", "--junitxml", str(report), *options, *files],
                   cwd=folder, env=environment, stdout=subprocess.DEVNULL, timeout=3000, check=False)
    return list(xml.etree.ElementTree.parse(report).iter("testcase"))


def reason_of(name, message):
    for pattern, said, reason in REASONS:
        if re.search(pattern, name) and re.search(said, message):
            return reason
    return None


def judge(cases, record, suite):
    passed, failed, different = 0, collections.Counter(), []
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        trouble = case.find("failure") if case.find("failure") is not None else case.find("error")
        if trouble is None:
            passed += 1
            continue
        reason = reason_of(name, trouble.get("message") or "")
        failed[reason] += 1
        if reason is None:
            different.append(f"{name}: {trouble.get('message')}")
    failed.pop(None, None)
    record(suite, tests=len(cases), passed=passed, not_served=dict(failed), differences=len(different))
    assert not different, "\n".join(different)
    return passed


def test_resources(start_server, record, tmp_path):
    server = start_server("--served-model-name", MODELS)
    cases = run(suites.sdist("openai"), tmp_path / "report.xml", server.url, RESOURCES, "-k", "not aiohttp")
    assert judge(cases, record, "openai's tests of resources") >= 80
    assert server.health()["status"] == "ok"


def test_helpers(start_server, record, tmp_path):
    server = start_server("--served-model-name", MODELS)
    cases = run(suites.sdist("openai"), tmp_path / "report.xml", server.url, HELPERS, "-p", "openai_live")
    assert judge(cases, record, "openai's tests of helpers") >= 30
    assert server.health()["status"] == "ok"
