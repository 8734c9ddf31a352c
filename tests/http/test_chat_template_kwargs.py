"""Effort and date of prompts: the server's options, what requests say in every spelling, and what is told."""

import datetime
import json
import urllib.request

import pytest

import conftest

QUESTION = [{"role": "user", "content": "Hi"}]
SPELLINGS = [
    {"reasoning_effort": "high"},
    {"reasoning": {"effort": "high"}},
    {"chat_template_kwargs": {"reasoning_effort": "high"}},
    {"think": "high"},
    {"messages": [{"role": "system", "content": "Reasoning: high"}, *QUESTION]},
]


def post(server, path, body):
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(answer.headers), json.load(answer)


def prompt_of(server, **body):
    """The prompt's text: of a generated answer, and the same of /tokenize; and the effort that was told."""
    body = {"messages": QUESTION, **body}
    _, tokens = post(server, "/tokenize", body)
    headers, answer = post(
        server, "/v1/chat/completions", {**body, "max_tokens": 1, "return_token_ids": True}
    )
    assert answer["prompt_token_ids"] == tokens["tokens"]
    headers = {name.lower(): value for name, value in headers.items()}
    text = post(server, "/detokenize", {"tokens": tokens["tokens"]})[1]["prompt"]
    effort = headers["x-osprey-reasoning-effort"]
    assert f"\n\nReasoning: {effort}\n\n# Valid channels" in text
    return text, effort, headers


def test_defaults(server):
    days = {datetime.datetime.now(datetime.timezone.utc).date().isoformat()}
    text, effort, _ = prompt_of(server)
    days.add(datetime.datetime.now(datetime.timezone.utc).date().isoformat())
    assert effort == "medium"
    assert any(f"\nCurrent date: {day}\n" in text for day in days)


@pytest.mark.parametrize("body", SPELLINGS, ids=lambda b: "+".join(b))
def test_spellings(server, body):
    assert prompt_of(server, **body)[1] == "high"


def test_unknown_keys_are_named(server):
    headers = prompt_of(server, chat_template_kwargs={"builtin_tools": [], "current_date": "none"})[2]
    assert headers["x-osprey-warning"] == "ignored unknown fields: chat_template_kwargs.builtin_tools"


def test_streams_tell_it_too(server):
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        json.dumps({"messages": QUESTION, "stream": True, "max_tokens": 1, "think": False}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["x-osprey-reasoning-effort"] == "low"
        assert answer.read().endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "options,effort,date",
    [
        (["--reasoning-effort", "high", "--current-date", "2025-06-28"], "high", "2025-06-28"),
        (["--current-date", "none"], "medium", None),
        (["--default-chat-template-kwargs.reasoning_effort", "high", "--current-date=none"], "high", None),
        (["--chat-template-kwargs", '{"reasoning_effort": "low", "current_date": "none"}'], "low", None),
        (
            [
                "--default-chat-template-kwargs",
                '{"reasoning_effort": "low", "x": 1}',
                "--effort=high",
                "--current-date",
                "2025-06-28",
            ],
            "high",
            "2025-06-28",
        ),
    ],
)
def test_options(start_server, options, effort, date):
    server = start_server(*options)
    text, told, _ = prompt_of(server)
    assert told == effort
    assert f"\nCurrent date: {date}\n" in text if date else "Current date" not in text
    assert prompt_of(server, reasoning_effort="medium")[1] == "medium"
    text = prompt_of(server, chat_template_kwargs={"current_date": "2031-01-31"})[0]
    assert "\nCurrent date: 2031-01-31\n" in text
    server.stop()
    assert ('"x" is ignored' in "\n".join(server.log)) == ("x" in " ".join(options).split('"'))


@pytest.mark.parametrize(
    "option,value,said",
    [
        ("--reasoning-effort", "much", "--reasoning-effort: effort \"much\" is not one of low"),
        ("--current-date", "tomorrow", "--current-date: \"tomorrow\" is not a date"),
        ("--chat-template-kwargs", "high", "--chat-template-kwargs: must be a JSON object"),
        ("--chat-template-kwargs", '{"reasoning_effort": 3}', "--chat-template-kwargs: chat_template_kwargs.reasoning_effort"),
    ],
)
def test_wrong_options(option, value, said):
    done = conftest.run("serve", "--port", "0", option, value)
    assert done.returncode != 0
    assert said in done.stderr, done.stderr
