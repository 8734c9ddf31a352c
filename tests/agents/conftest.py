"""The scripted server of tests/http, for the tests of this folder (`make test-agents`)."""

import importlib.util
import pathlib
import sys

import pytest

HTTP = pathlib.Path(__file__).resolve().parents[1] / "http"


def load(name):
    """A module of tests/http under its own name; `conftest` is this file's name too."""
    spec = importlib.util.spec_from_file_location(name, HTTP / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    mine = sys.modules.get("conftest")
    load("conftest")
    scripted = load("scripted").ScriptedServer(tmp_path_factory.mktemp("agents"))
    if mine is not None:
        sys.modules["conftest"] = mine
    yield scripted
    assert scripted.stop() == 0
