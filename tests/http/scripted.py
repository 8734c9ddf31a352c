"""A server whose device draws what a test says: build/tests/osprey-fake with a script of token ids."""

import json
import os
import pathlib
import urllib.request

import conftest

ROOT = conftest.ROOT
PROGRAM = pathlib.Path(os.environ.get("BUILD", ROOT / "build")) / "tests" / "osprey-fake"


class ScriptedServer(conftest.Server):
    """One request at a time; every answer is what write() was last given."""

    def __init__(self, folder, *options, environment=None):
        self.script = folder / "script"
        self.n_scripts = 0
        super().__init__(
            "--log-level",
            "warn",
            *options,
            program=str(PROGRAM),
            environment={
                "OSPREY_FAKE_SCRIPT": str(self.script), "OSPREY_FAKE_STEP_MS": "0", **(environment or {})
            },
        )

    def post(self, path, body):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def ids_of(self, text):
        """Tokens of a text in which the names of control tokens are those."""
        return self.post("/tokenize", {"prompt": text, "parse_special": True})["tokens"] if text else []

    def write(self, ids):
        self.n_scripts += 1
        new = self.script.with_suffix(".new")
        new.write_text(" ".join(map(str, [self.n_scripts, *ids])))
        new.replace(self.script)
