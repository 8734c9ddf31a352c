"""JSON-Schema-Test-Suite (draft 2020-12, as the sdist of jsonschema carries it) against the masks of structured
output: every schema of the suite is compiled. The message of a refused schema must begin with its location. For a
compiled schema, every invalid instance of the suite must be blocked, in every way of writing it. Valid instances
must be allowed, except for the restrictions listed in docs/structured-output.md. NARROWINGS below derives the
applicable restriction from the schema and the instance only, and the test counts them."""

import collections
import itertools
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest
import referencing

import suites

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("BUILD", "build") / "tests" / "check_masks"
KEYS_MAX = 6  # of one object: all orders are tried
WRITINGS_MAX = 20_000
PLACE = re.compile(r"^(the schema|(/([^/~:]|~[01])*)+): ")


@pytest.fixture(scope="module")
def masks():
    process = subprocess.Popen([PROGRAM, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)

    def ask(**request):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"check_masks died of {request}"
        return json.loads(line)

    yield ask
    process.stdin.close()
    assert process.wait(timeout=10) == 0


def orders(value):
    """The value with its objects' members in every order."""
    if isinstance(value, list):
        yield from map(list, itertools.product(*map(lambda v: list(orders(v)), value)))
    elif isinstance(value, dict):
        assert len(value) <= KEYS_MAX, value
        for names in itertools.permutations(value):
            for members in itertools.product(*(list(orders(value[name])) for name in names)):
                yield dict(zip(names, members))
    else:
        yield value


def writings(value):
    out = [json.dumps(one, ensure_ascii=False) for one in orders(value)]
    assert len(out) <= WRITINGS_MAX, value
    return out


# ---- what is valid and yet not written ----

TYPE_OF = {"string": "minLength maxLength pattern format", "number": "minimum maximum exclusiveMinimum exclusiveMaximum",
           "array": "items prefixItems minItems maxItems", "object": "properties required additionalProperties"}
TYPES_OF = {keyword: kind for kind, keywords in TYPE_OF.items() for keyword in keywords.split()}
SCHEMAS_IN = {"items", "additionalProperties"}
LISTS_IN = {"prefixItems", "anyOf", "oneOf", "allOf"}
MAPS_IN = {"properties", "$defs", "definitions"}


def rewritten(schema, change):
    """The schema with change() applied to each schema in it, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    out = {}
    for name, value in schema.items():
        if name in SCHEMAS_IN:
            value = rewritten(value, change)
        elif name in LISTS_IN:
            value = [rewritten(one, change) for one in value]
        elif name in MAPS_IN:
            value = {key: rewritten(one, change) for key, one in value.items()}
        out[name] = value
    return change(out)


def with_implied_type(schema):
    """Keywords of one type imply that type."""
    kinds = {TYPES_OF[name] for name in schema if name in TYPES_OF}
    if "type" in schema or "enum" in schema or "const" in schema or len(kinds) != 1:
        return schema
    return {**schema, "type": kinds.pop()}


def is_valid(schema, value):
    registry = referencing.Registry()
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator(schema, registry=registry, format_checker=checker).is_valid(value)


def any_in(value, test):
    if isinstance(value, list):
        return any(any_in(one, test) for one in value)
    if isinstance(value, dict):
        return any(any_in(one, test) for one in value.values())
    return test(value)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def mentions(schema, keyword):
    found = []
    rewritten(schema, lambda s: found.append(keyword in s) or s)
    return any(found)


NARROWINGS = {
    "without a type, keywords of one type mean that type":
        lambda schema, value: not is_valid(rewritten(schema, with_implied_type), value),
    "a format is asserted, and in part":
        lambda schema, value: mentions(schema, "format"),
    "enum and const write a number as the schema does":
        lambda schema, value: any_in(value, is_number) and (mentions(schema, "enum") or mentions(schema, "const")),
    "integers have no fraction and no exponent":
        lambda schema, value: any_in(value, lambda v: isinstance(v, float) and v == int(v)),
    "integers have up to 18 digits":
        lambda schema, value: any_in(value, lambda v: isinstance(v, int) and abs(v) >= 10**18),
}


def narrowing_of(schema, value):
    return next((name for name, holds in NARROWINGS.items() if holds(schema, value)), None)


# ---- the test ----

def reason_of(error):
    """The message of a refusal without its location, names and numbers."""
    return re.sub(r"\"[^\"]*\"|\d[\d,]*", "...", PLACE.sub("", error))


def test_suite(masks, record):
    folder = suites.sdist("jsonschema") / "json" / "tests" / "draft2020-12"
    files = sorted(folder.rglob("*.json"))
    assert len(files) > 60
    n, refused, narrowed, wrong = collections.Counter(), collections.Counter(), collections.Counter(), []
    for file in files:
        for case in json.loads(file.read_text()):
            n["schemas"] += 1
            tests = case["tests"]
            texts = [writings(test["data"]) for test in tests]
            reply = masks(schema_text=json.dumps(case["schema"]), texts=[text for some in texts for text in some])
            name = f"{file.relative_to(folder)}: {case['description']}"
            if "error" in reply:
                n["schemas refused"] += 1
                refused[reason_of(reply["error"])] += 1
                if not PLACE.match(reply["error"]):
                    wrong.append(f"{name}: no place in {reply['error']!r}")
                continue
            n["schemas compiled"] += 1
            fits = iter(reply["fits"])
            for test, some in zip(tests, texts):
                fit = any([next(fits) for _ in some])
                kind = ("valid" if test["valid"] else "invalid") + (", written" if fit else ", blocked")
                n["instances"] += 1
                n[kind] += 1
                if test["valid"] and not fit:
                    why = narrowing_of(case["schema"], test["data"])
                    narrowed[why] += 1
                if test["valid"] != fit and (fit or why is None):
                    wrong.append(f"{name}: {test['description']}: {kind}: {json.dumps(test['data'])}"
                                 f" by {json.dumps(case['schema'])}")
    record("JSON-Schema-Test-Suite", files=len(files), **n, narrowed=dict(narrowed), refused=dict(refused.most_common()),
           differences=len(wrong))
    assert not wrong, "\n".join(wrong)
    assert n["schemas compiled"] >= 150 and n["valid, written"] >= 250
