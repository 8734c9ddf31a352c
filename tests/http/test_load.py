"""The promises of docs/reliability.md in their short form; `make load` is the long one."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "load"))
import load


@pytest.mark.parametrize("name", load.SHORT)
def test_promises(name):
    result = load.run(name, load.SHORT[name], 0)
    assert result["kept"], result
