"""`osprey chat` in pipes and at a terminal, help, completion, manual page."""

import json
import os
import re
import signal
import subprocess

import pytest

from conftest import PROGRAM, ROOT, run
from terminal import Terminal

LONG = "Copy this exactly: " + "one two three four five six seven eight nine ten " * 2


def test_one_answer_alone_on_standard_output():
    done = run("chat", "-p", "What is the capital of France?")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert done.stdout.endswith("\n") and done.stdout.count("\n") == 1
    assert re.search(r"\d+ tokens in [\d.]+ s \([\d.]+ tokens/s\)", done.stderr)


def test_the_question_as_an_argument():
    done = run("chat", "What is the capital of France?", "--temperature", "0")
    assert done.returncode == 0
    assert done.stdout == run("chat", "-p", "What is the capital of France?", "--temperature", "0").stdout
    model = str(ROOT / "models" / "osprey-nano")
    assert run("chat", model, "What is the capital of France?", "--temperature", "0").stdout == done.stdout
    for arguments, text in [
        ((model, "Paris"), "unexpected argument 'Paris'; a prompt of one word needs -p"),
        (("a question", "-p", "another"), "there are two prompts"),
        (("nothing",), "nothing: no such folder"),
    ]:
        wrong = run("chat", *arguments)
        assert wrong.returncode != 0 and text in wrong.stderr, arguments


def test_quiet_says_nothing_else():
    done = run("chat", "-q", "-p", "What is the capital of France?")
    assert "Paris" in done.stdout
    assert done.stderr == ""


def test_the_same_every_time():
    answers = {run("chat", "-q", "-p", "What is 17 + 25?").stdout for _ in range(2)}
    assert len(answers) == 1


@pytest.mark.parametrize("arguments", [[], ["-p", "-"]])
def test_the_question_from_a_pipe(arguments):
    done = run("chat", "-q", *arguments, stdin="What is the capital of France?\n")
    assert done.returncode == 0
    assert "Paris" in done.stdout


def prompt_tokens(*arguments, stdin):
    done = run("chat", *arguments, "-n", "1", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"after a prompt of (\d+) in", done.stderr)[1])


@pytest.mark.parametrize("arguments", [["Copy this exactly:"], ["-p", "Copy this exactly:"]])
def test_the_text_at_standard_input_follows_the_question(arguments):
    """Both are one message: the question, an empty line, the text."""
    whole = "Copy this exactly:\n\nred naïve blue"
    assert prompt_tokens(*arguments, stdin="red naïve blue\n") == prompt_tokens("-p", whole, stdin="")
    assert prompt_tokens(*arguments, stdin="") == prompt_tokens(stdin="Copy this exactly:\n") < prompt_tokens("-p", whole, stdin="")
    answers = {run("chat", "-q", *a, stdin=text).stdout for a, text in [(arguments, "red naïve blue\n"), (["-p", whole], "")]}
    assert len(answers) == 1


def test_an_open_pipe_is_explained():
    with subprocess.Popen([PROGRAM, "chat", "-q", "What is the capital of France?"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        assert "waiting for the text at standard input" in process.stderr.readline()
        process.stdin.close()
        assert "Paris" in process.stdout.read()


def test_wrong_texts_at_standard_input(tmp_path):
    done = run("chat", "-q", "A question about this:", stdin="a\0b")
    assert done.returncode == 1 and "NUL byte" in done.stderr
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with large.open("rb") as file:
        done = subprocess.run([PROGRAM, "chat", "A question about this:"], stdin=file, capture_output=True, text=True)
    assert done.returncode == 1 and "standard input is larger than the limit of 67108864 bytes" in done.stderr


def test_reasoning_goes_to_standard_error():
    done = run("chat", "-p", "What is the capital of France?", "--show-reasoning")
    assert "Paris" in done.stdout and done.stdout.count("\n") == 1
    assert len(done.stderr.splitlines()) > 1


def test_settings():
    cut = run("chat", "-p", "What is the capital of France?", "-n", "2", "--effort", "low", "-s", "Be brief.")
    assert cut.returncode == 0
    assert "2 tokens" in cut.stderr and "stopped at --max-tokens" in cut.stderr
    assert run("chat", "-p", "x", "--effort", "enormous").returncode == 1
    assert run("chat", "-p", "").returncode == 1
    assert run("chat", "-p", "x", environment={"OSPREY_TEMPERATURE": "9"}).returncode == 2


def test_an_interrupt_stops_one_shot():
    process = subprocess.Popen(
        [PROGRAM, "chat", "-p", LONG, "--show-reasoning"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_conversation(tmp_path):
    t = Terminal(tmp_path)
    t.ask("What is the capital of France?")
    answer = t.read_until(r"tokens/s")
    assert "Paris" in answer
    assert "\x1b[2m" in answer  # the reasoning is dim
    t.ask("/help")
    assert "/effort low|medium|high" in t.read_until("Ctrl-C stops an answer")
    t.ask("/effort low")
    t.read_until("effort: low")
    t.ask("/nothing")
    t.read_until("/nothing: unknown command")
    t.ask("/stats")
    t.read_until("1 answers, ")
    t.ask("/temperature 3")
    t.read_until("/temperature 3: must be a number from 0 to 2")
    t.ask("/temperature 0")
    t.read_until("Temperature: 0")
    t.ask('"""Copy this exactly: naïve')
    t.read_until(r"\. ")
    t.type('café"""\r')
    t.read_until("tokens/s")
    t.ask("/clear")
    t.read_until("New conversation")
    t.ask("/quit")
    assert t.wait_code() == 0
    history = tmp_path / "osprey" / "chat_history"
    assert "France" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def saved(t, path):
    """The messages of the conversation, by /save."""
    t.ask(f"/save {path}")
    t.read_until(r"Saved.* \d+ messages to ")
    return json.loads(path.read_text())["messages"]


def test_a_paste_of_several_lines_is_one_message(tmp_path):
    t = Terminal(tmp_path)
    t.read_until(r"\x1b\[\?2004h")  # pastes are marked while a line is read
    t.read_until("> ")
    t.type("Copy this exactly: \x1b[200~red naïve\r\r\nblue\n\ngray\r\x1b[201~ green\r")
    t.read_until(r"\x1b\[\?2004l")
    t.read_until("tokens/s")
    messages = saved(t, tmp_path / "a.json")
    assert [m["role"] for m in messages].count("user") == 1
    assert messages[0]["content"] == "Copy this exactly: red naïve\n\nblue\n\ngray green"
    t.ask("/clear")
    t.read_until("> ")
    t.type("\x1b[200~/temperature 0\x1b[201~\r")  # one line is a line
    t.read_until("Temperature: 0")
    t.read_until("> ")
    t.type("\x1b[200~not yet\rcomplete\x03")  # Ctrl-C in a paste, like in a line
    t.ask("\x1b[200~\x1b[201~/bye")  # an empty one
    assert t.wait_code() == 0
    t = Terminal(tmp_path)  # the history has the message as one line
    t.read_until("> ")
    t.type("\x1b[A" * 5)
    t.read_until(r"Copy this exactly: red naïve\S*\s+blue\s+gray green")
    t.type("\x03")
    t.ask("/bye")
    assert t.wait_code() == 0


def test_a_paste_that_is_too_long_is_left_out(tmp_path):
    t = Terminal(tmp_path)
    t.read_until("> ")
    t.type("\x1b[200~")
    for _ in range(17):
        t.type("x" * (64 << 10))
    t.type("\x1b[201~")
    t.read_until("the pasted text is left out: it is longer than 1048576 characters")
    t.type("/bye\r")
    assert t.wait_code() == 0


def test_tab_completes_commands(tmp_path):
    (tmp_path / "only.json").write_text("[]")
    t = Terminal(tmp_path)
    t.read_until("> ")
    t.type("/te\t0\r")
    t.read_until("Temperature: 0")
    t.read_until("> ")
    t.type("/e\t")
    assert "/effort" in t.read_until("/exit")
    t.type("f\tl\t\r")
    t.read_until("effort: low")
    t.read_until("> ")
    t.type(f"/load {tmp_path}/on\t\r")
    t.read_until("Loaded 0 messages from ")
    t.read_until("> ")
    t.type("/nothing\t\r")
    t.read_until("/nothing: unknown command")
    t.read_until("> ")
    t.type("no\tcommand\r")
    t.read_until("tokens/s")
    assert saved(t, tmp_path / "a.json")[0]["content"] == "no\tcommand"
    t.ask("/bye")
    assert t.wait_code() == 0


def test_save_and_load(tmp_path):
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    b.write_text("mine")
    t = Terminal(tmp_path, "-s", "Be brief.", "--effort", "low")
    t.ask("What is the capital of France?")
    t.read_until("tokens/s")
    messages = saved(t, a)
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    assert "Paris" in messages[2]["content"] and messages[2]["reasoning"]
    assert a.stat().st_mode & 0o777 == 0o600
    t.ask(f"/save {b}")  # a file of something else is not overwritten
    t.read_until(r"b\.json: exists already; /save! .*b\.json replaces it")
    assert b.read_text() == "mine"
    t.ask(f"/save! {b}")
    t.read_until("Saved 3 messages")
    assert json.loads(b.read_text()) == {"model": "osprey-nano", "reasoning_effort": "low", "messages": messages}
    t.ask("What is 17 + 25?")
    t.read_until("tokens/s")
    t.ask(f"/save {b}")  # it is this conversation's file now
    t.read_until("Saved again: [45] messages")
    t.ask("/save")
    t.read_until("/save: needs a file")
    t.ask(f"/save {tmp_path}")
    t.read_until("is a folder, expected a file")
    t.ask("/save /nowhere/x")
    t.read_until("/nowhere/x: cannot be written: No such file")
    t.ask("/exit")
    assert t.wait_code() == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.json", "osprey"]
    t = Terminal(tmp_path)
    t.ask(f"/load {a}")
    t.read_until("Loaded 3 messages from ")
    t.ask("/effort")
    t.read_until("effort: low")
    t.ask("/clear")  # the system prompt stays
    t.read_until("New conversation")
    t.ask("Copy this exactly: one")
    t.read_until("tokens/s")
    assert [m["content"] for m in saved(t, a)[:2]] == ["Be brief.", "Copy this exactly: one"]
    t.ask("/exit")
    assert t.wait_code() == 0


@pytest.mark.parametrize("text, error", [
    (None, "cannot open: No such file"),
    ("", "not JSON"),
    ('{"messages": [\n  {"role": "user",\n}]}', "line 3: not JSON"),
    ("{}", r"expected \{\"messages\": \[\.\.\.\]\} or a list"),
    ('[{"role": "tool", "content": "x"}]', r"messages\[0\]\.role is not one of system, developer"),
    ('[{"role": "user", "content": "x"}, {"role": "user"}]', r"messages\[1\]\.content is missing"),
    ('[{"role": "user", "content": [{"type": "image_url"}]}]', "a part that is not text"),
    ('[{"role": "assistant", "content": "x", "tool_calls": [{}]}]', "has tool calls"),
    ('[{"role": "user", "content": "a\\u0000b"}]', "not JSON"),
    ('{"messages": [], "reasoning_effort": "much"}', "reasoning_effort"),
    ("[" * 99, "deep|nest"),
])  # fmt: skip
def test_files_that_cannot_be_loaded(tmp_path, text, error):
    file = tmp_path / "a.json"
    if text is not None:
        file.write_text(text)
    t = Terminal(tmp_path, "-s", "Be brief.")
    t.ask(f"/load {file}")
    t.read_until(r"a\.json: [^\n]*" + error)
    assert len(saved(t, tmp_path / "b.json")) == 1  # the conversation is as it was
    t.ask("/exit")
    assert t.wait_code() == 0


def test_a_pipe_is_not_loaded(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    t = Terminal(tmp_path)
    for path in (tmp_path / "pipe", tmp_path):
        t.ask(f"/load {path}")
        t.read_until(f"{path}: not a regular file")
    t.ask("/exit")
    assert t.wait_code() == 0


def test_a_file_of_parts(tmp_path):
    """Messages of other programs: a bare list, text parts, reasoning by its other name."""
    (tmp_path / "a.json").write_text(json.dumps([
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho", "reasoning_content": "Hm"},
    ]))  # fmt: skip
    t = Terminal(tmp_path)
    t.ask(f"/load {tmp_path}/a.json")
    t.read_until("Loaded 3 messages")
    assert saved(t, tmp_path / "b.json") == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho", "reasoning": "Hm"},
    ]
    t.ask("What is the capital of France?")
    t.read_until("tokens/s")
    t.ask("/exit")
    assert t.wait_code() == 0


def test_the_model_command(tmp_path):
    t = Terminal(tmp_path)
    t.ask("/model")
    t.read_until("osprey-nano on .*; context length 4096 tokens")
    t.ask("/model other")
    t.read_until("/model other: the model osprey-nano is loaded in this process; start another chat")
    t.ask("/temperature")
    t.read_until("Temperature: 0")
    t.ask("/exit")
    assert t.wait_code() == 0


def test_the_history_is_there_next_time(tmp_path):
    t = Terminal(tmp_path)
    t.ask("/system Answer briefly.")
    t.read_until("New conversation with this system prompt")
    t.ask("/exit")
    assert t.wait_code() == 0
    t = Terminal(tmp_path)
    t.read_until("> ")
    t.type("\x1b[A\x1b[A\r")  # twice up
    t.read_until("New conversation with this system prompt")
    t.ask("/exit")
    assert t.wait_code() == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(tmp_path):
    t = Terminal(tmp_path)
    for _ in range(20):  # on a busy machine the answer may end before the key is typed
        t.ask(LONG)
        t.read_until(r"\x1b\[2m")
        t.type("\x03")
        if "; stopped" in t.read_until(r"tokens[^\n]*\n"):
            break
    else:
        raise AssertionError("no answer was stopped")
    t.read_until("> ")
    t.type("half a line\x03")
    t.ask("What is the capital of France?")
    t.read_until("Paris")
    t.read_until("tokens/s")
    t.ask("/exit")
    assert t.wait_code() == 0


def test_hidden_reasoning_is_one_line(tmp_path):
    t = Terminal(tmp_path, "--hide-reasoning")
    t.ask("What is the capital of France?")
    answer = t.read_until("tokens/s")
    assert re.search(r"thinking took [\d.]+ s", answer)
    assert "The user" not in answer
    t.ask("/exit")
    assert t.wait_code() == 0


COMMANDS = ["serve", "chat", "status", "doctor", "pull", "validate", "quantize", "bench", "eval", "tokenize", "completion", "help",
            "version"]


def test_help():
    top = run("--help").stdout
    for command in COMMANDS:
        assert f"\n    {command}" in top
        text = run(command, "--help")
        assert text.returncode == 0 and text.stdout.startswith(f"osprey {command}: ")
        assert text.stdout == run("help", command).stdout
        assert max(map(len, text.stdout.splitlines())) <= 110
    assert "Examples:" in top
    assert run().returncode == 2


def test_every_option_is_in_the_documentation():
    """And every option there is one of the program, or of another server's and in the table of those."""
    known = set(re.findall(r"--[a-z][a-z0-9-]+", run("help", "--foreign").stdout)) | {"--help"}
    table = (ROOT / "docs" / "cli.md").read_text()
    for command in COMMANDS:
        names = re.findall(r"^    .*$", run(command, "--help").stdout, re.M)
        options = {x for line in names if line.startswith("    -") for x in re.findall(r"--[a-z][a-z0-9-]+", line)}
        own = {re.match(r"    (--[a-z0-9-]+)", line)[1] for line in names if line.startswith("    --")}
        missing = [x for x in own if f"`{x}`" not in table]
        assert not missing, (command, missing)
        known |= options
    named = set(re.findall(r"`(--[a-z][a-z0-9-]+)`", table))
    assert named <= known, named - known


def test_manual_page():
    page = run("help", "--man").stdout
    assert page.startswith(".TH OSPREY 1")
    for option in (r"\-\-max\-model\-len", r"\-\-show\-reasoning"):
        assert option in page


def test_completion(tmp_path):
    script = tmp_path / "osprey.bash"
    script.write_text(run("completion", "bash").stdout)
    ask = (
        f"source {script}; COMP_WORDS=(osprey {{}}); COMP_CWORD={{}}; _osprey; echo ${{{{COMPREPLY[*]}}}}"
    )
    first = subprocess.run(["bash", "-c", ask.format("se", 1)], capture_output=True, text=True)
    assert first.stdout.split() == ["serve"]
    option = subprocess.run(["bash", "-c", ask.format("serve --max-mo", 2)], capture_output=True, text=True)
    assert option.stdout.split() == ["--max-model-len"]


def test_tokenize():
    done = run("tokenize", "-p", "Hello, world")
    ids = [int(x) for x in done.stdout.split()]
    assert len(ids) > 1
    assert run("tokenize", stdin="Hello, world").stdout == done.stdout
    pieces = run("tokenize", "-p", "Hello, world", "--pieces").stdout.splitlines()
    assert [int(line.split("\t")[0]) for line in pieces] == ids
    special = run("tokenize", "-p", "<|end|>", "--special").stdout.split()
    assert len(special) == 1
    assert len(run("tokenize", "-p", "<|end|>").stdout.split()) > 1


def test_validate():
    text = run("validate").stdout
    assert "memory to serve, maximum" in text and "The checkpoint is complete" in text
    import json

    report = json.loads(run("validate", "--json").stdout)
    assert report["n_experts"] >= 8 and report["n_experts_active"] == 4
    broken = run("validate", "/nowhere")
    assert broken.returncode == 1 and "/nowhere" in broken.stderr
