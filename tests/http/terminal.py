"""osprey at a pseudo-terminal: chat, or another command."""

import os
import pty
import re
import select
import time

from conftest import PROGRAM


class Terminal:
    def __init__(self, folder, *arguments, command=("chat", "--max-model-len", "4096"), term="xterm"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM=term, LC_ALL="C.UTF-8", XDG_STATE_HOME=str(folder))
            os.execv(PROGRAM, [PROGRAM, *command, *arguments])
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
