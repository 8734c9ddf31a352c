"""The tables of src/engine/worker/wire_fields.h name every field of the public options, in order."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def members(struct):
    """Names of a struct's members, as they stand in the header."""
    text = (ROOT / "include" / "osprey.h").read_text()
    body = re.search(rf"^struct {struct} \{{\n(.*?)^\}};", text, re.S | re.M).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    found = []
    for declaration in body.split(";"):
        callback = re.search(r"\(\*\s*(\w+)\)\s*\(", declaration)
        if callback:
            found.append(callback.group(1))
            continue
        for part in declaration.split(","):
            name = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", part.strip())
            if name:
                found.append(name.group(1))
    return found


def rows(table):
    text = (ROOT / "src" / "engine" / "worker" / "wire_fields.h").read_text().replace("\\\n", "\n")
    body = re.search(rf"#define {table}\(TEXT, VALUE, HERE\)(.*?)\n\s*\n", text, re.S).group(1)
    return re.findall(r"(?:TEXT\(|(?:VALUE|HERE)\([^()]*,)\s*(\w+)\)", body)


@pytest.mark.parametrize("name", ["model", "engine", "request"])
def test_every_field_is_in_its_table(name):
    names = members(f"osp_{name}_options")
    assert len(names) >= 3
    assert rows(f"{name.upper()}_OPTION_FIELDS") == names
