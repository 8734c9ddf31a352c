"""`osprey chat` in pipes and at a terminal, help, completion, manual page."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from conftest import PROGRAM, ROOT, run

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
        [PROGRAM, "chat", "-p", LONG, "--show-reasoning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


class Terminal:
    """osprey chat at a pseudo-terminal."""

    def __init__(self, folder, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", XDG_STATE_HOME=str(folder))
            os.execv(PROGRAM, [PROGRAM, "chat", "--max-model-len", "4096", *arguments])
        self.seen = ""

    def read_until(self, pattern, timeout_s=60):
        """What came up to the pattern; what is behind it stays for the next call."""
        end = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"{pattern!r} did not come: {self.seen!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"ended before {pattern!r}: {self.seen!r}") from None
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text

    def type(self, text):
        os.write(self.fd, text.encode())

    def ask(self, text):
        self.read_until("> ")
        self.type(text + "\r")

    def wait_code(self, key=""):
        """Waits for the end. A key is typed until it comes: before the editor has taken over, the
        terminal itself would have eaten it."""
        end = time.monotonic() + 30
        typed = 0
        while time.monotonic() < end:
            if key and time.monotonic() > typed + 0.5:
                self.type(key)
                typed = time.monotonic()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
        raise AssertionError("did not end")


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
    t.ask(LONG)
    t.read_until(r"\x1b\[2m")
    t.type("\x03")
    assert "; stopped" in t.read_until("stopped")
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


COMMANDS = ["serve", "chat", "validate", "quantize", "bench", "eval", "tokenize", "completion", "help", "version"]


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
