"""Structured output against an independent validator: for random schemas, text sampled from the masks
is valid JSON that the validator accepts, and documents that it accepts, in the form of json.dumps, are
never blocked, token by token of the published vocabulary.

SCHEMAS sets how many random schemas are tried (150).
BUILD names the folder with tests/check_masks (build)."""

import json
import os
import pathlib
import random
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("BUILD", "build") / "tests" / "check_masks"
N_SCHEMAS = int(os.environ.get("SCHEMAS", 150))
N_WALKS = 8
N_DOCUMENTS = 8
DEPTH_MAX = 4


@pytest.fixture(scope="module")
def masks():
    """ask(schema=..., ...) -> the program's answer."""
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


# ---- the validator: draft 2020-12, keyword by keyword as the specification has them ----

def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has_type(value, name):
    return {"null": value is None, "boolean": isinstance(value, bool), "string": isinstance(value, str),
            "array": isinstance(value, list), "object": isinstance(value, dict), "number": is_number(value),
            "integer": is_number(value) and value == int(value)}[name]


def equal(a, b):
    """Equality of JSON values: true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b or is_number(a) and is_number(b) and a == b


def valid(value, schema, root):
    if isinstance(schema, bool):
        return schema
    return all(valid_keyword(value, schema, keyword, root) for keyword in schema)


def valid_keyword(value, schema, keyword, root):
    want = schema[keyword]
    if keyword == "$ref":
        target = root
        for step in want[1:].split("/")[1:]:
            target = target[step]
        return valid(value, target, root)
    if keyword == "type":
        return any(has_type(value, name) for name in ([want] if isinstance(want, str) else want))
    if keyword == "enum":
        return any(equal(value, one) for one in want)
    if keyword == "const":
        return equal(value, want)
    if keyword == "anyOf":
        return any(valid(value, one, root) for one in want)
    if keyword == "oneOf":
        return sum(valid(value, one, root) for one in want) == 1
    if keyword == "allOf":
        return all(valid(value, one, root) for one in want)
    if isinstance(value, str):
        return valid_string(value, keyword, want)
    if is_number(value):
        return {"minimum": lambda: value >= want, "maximum": lambda: value <= want,
                "exclusiveMinimum": lambda: value > want,
                "exclusiveMaximum": lambda: value < want}.get(keyword, lambda: True)()
    if isinstance(value, list):
        return valid_array(value, schema, keyword, root)
    if isinstance(value, dict):
        return valid_object(value, schema, keyword, root)
    return True


def valid_string(value, keyword, want):
    if keyword == "minLength":
        return len(value) >= want
    if keyword == "maxLength":
        return len(value) <= want
    if keyword == "pattern":
        return re.search(want.replace("$", r"\Z"), value, re.ASCII) is not None
    return True


def valid_array(value, schema, keyword, root):
    want = schema[keyword]
    n_fixed = len(schema.get("prefixItems", []))
    if keyword == "minItems":
        return len(value) >= want
    if keyword == "maxItems":
        return len(value) <= want
    if keyword == "prefixItems":
        return all(valid(item, one, root) for item, one in zip(value, want))
    if keyword == "items":
        return all(valid(item, want, root) for item in value[n_fixed:])
    return True


def valid_object(value, schema, keyword, root):
    want = schema[keyword]
    if keyword == "required":
        return all(name in value for name in want)
    if keyword == "properties":
        return all(valid(value[name], one, root) for name, one in want.items() if name in value)
    if keyword == "additionalProperties":
        return all(valid(item, want, root) for name, item in value.items() if name not in schema.get("properties", {}))
    return True


# ---- random schemas, and documents that should fit them ----

PATTERNS = {r"^[a-z]{2,5}$": lambda r: "".join(r.choices("abcxyz", k=r.randint(2, 5))),
            r"^[A-Z]\d{3}(-\w+)?$": lambda r: r.choice(["A123", "Z000-x_1", "Q987-word"]),
            r"o+": lambda r: r.choice(["o", "foo", "x\noo\"", "déo"]),
            r"^(red|green|\u00e9t\u00e9)$": lambda r: r.choice(["red", "green", "été"]),
            r"^[^<>\"]*$": lambda r: r.choice(["", "any text", "tab\tand \\ that", "日本語 😀"]),
            r"^(a|b)*c?$": lambda r: "".join(r.choices("ab", k=r.randint(0, 12))) + r.choice(["", "c"])}
NAMES = ["a", "b", "name", "value", "été", "quo\"te", "a b", "long_property_name", "x1", ""]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.root = {}

    def schema(self, depth=0):
        """A random schema. Recursive ones refer to $defs."""
        r = self.r
        kinds = [self.string, self.integer, self.number, self.listed, self.simple, self.string]
        if depth < DEPTH_MAX:
            kinds += [self.object, self.array, self.object, self.any_of, self.one_of, self.all_of]
        if depth > 0 and "$defs" in self.root:
            kinds += [lambda _: {"$ref": "#/$defs/node"}]
        return r.choice(kinds)(depth)

    def whole(self):
        if self.r.random() < 0.3:
            self.root["$defs"] = {}
            nothing = {"type": "null"}
            node = {"type": "object", "properties": {"v": self.schema(DEPTH_MAX - 1)}, "required": ["v"],
                    "additionalProperties": False}
            node["properties"]["next"] = {"anyOf": [nothing, {"$ref": "#/$defs/node"}]}
            self.root["$defs"]["node"] = node
        self.root.update(self.schema())
        return self.root

    def simple(self, _):
        return self.r.choice([{"type": "null"}, {"type": "boolean"}, {"type": ["string", "null"]}, {"type": "integer"},
                              {"type": "number"}, {"type": "string"}, {}])

    def string(self, _):
        r, schema = self.r, {"type": "string"}
        if r.random() < 0.3:
            schema["pattern"] = r.choice(list(PATTERNS))
        if r.random() < 0.5 and "pattern" not in schema:
            schema["maxLength"] = r.choice([1, 4, 30, 200])
        if r.random() < 0.3 and "pattern" not in schema:
            schema["minLength"] = r.choice([0, 1])
        return schema

    def bounds(self, values):
        r, schema = self.r, {}
        low, high = sorted(r.sample(values, 2))
        if r.random() < 0.7:
            schema[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.7:
            schema[r.choice(["maximum", "exclusiveMaximum"])] = high
        return schema

    def integer(self, _):
        return {"type": "integer", **self.bounds([-1000000, -37, -5, 0, 4, 19, 256, 100000])}

    def number(self, _):
        return {"type": "number", **self.bounds([-100.5, -3.25, -1, 0, 0.001, 0.3, 2, 19.75, 1024, 1e6])}

    def listed(self, _):
        values = ["a", "ab", "b c", "é\n", 1, -2.5, None, True, [1, "x"], {"k": []}, ""]
        if self.r.random() < 0.3:
            return {"const": self.r.choice(values)}
        return {"enum": self.r.sample(values, self.r.randint(1, 5))}

    def object(self, depth):
        r = self.r
        names = r.sample(NAMES, r.randint(0, 5))
        schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        schema["required"] = [name for name in names if r.random() < 0.6]
        extra = r.random()
        if extra < 0.6:
            schema["additionalProperties"] = False
        elif extra < 0.8:
            schema["additionalProperties"] = self.schema(DEPTH_MAX)
        return schema

    def array(self, depth):
        r, schema = self.r, {"type": "array", "items": self.schema(depth + 1)}
        if r.random() < 0.3:
            schema["prefixItems"] = [self.schema(depth + 1) for _ in range(r.randint(1, 2))]
        if r.random() < 0.4:
            schema["minItems"] = r.randint(0, 3)
        if r.random() < 0.5:
            schema["maxItems"] = schema.get("minItems", 0) + r.randint(0, 3)
        return schema

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth + 1) for _ in range(self.r.randint(1, 3))]}

    def one_of(self, depth):
        kinds = [{"properties": {"kind": {"const": kind}, "x": self.schema(depth + 1)}, "required": ["kind"],
                  "type": "object"} for kind in ("first", "second")]
        return {"oneOf": kinds + [self.r.choice([{"type": "null"}, {"type": "integer"}])]}

    def all_of(self, depth):
        return {"allOf": [self.object(depth + 1), {"properties": {"more": self.schema(depth + 1)},
                                                   "required": self.r.choice([[], ["more"]])}]}

    # -- documents: by the schema's outline, right most of the time; the validator decides

    def document(self, schema, depth=0):
        r = self.r
        if schema is False or depth > 12:
            return None
        if schema is True:
            schema = {}
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self.document(r.choice(schema[keyword]), depth + 1)
        if "$ref" in schema:
            return self.document(self.root["$defs"]["node"], depth + 1)
        if "allOf" in schema:
            merged = {}
            for part in schema["allOf"]:
                document = self.document({"type": "object", **part}, depth + 1)
                merged.update(document if isinstance(document, dict) else {})
            known = [name for part in schema["allOf"] for name in part["properties"]]
            return {name: merged[name] for name in dict.fromkeys(known + list(merged)) if name in merged}
        if "enum" in schema or "const" in schema:
            return r.choice(schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", r.choice(["null", "boolean", "integer", "string", "array", "object"]))
        return self.of_type(kind if isinstance(kind, str) else r.choice(kind), schema, depth)

    def of_type(self, kind, schema, depth):
        r = self.r
        if kind == "null":
            return None
        if kind == "boolean":
            return r.random() < 0.5
        if kind == "integer":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -50))
            return r.randint(low, schema.get("maximum", schema.get("exclusiveMaximum", low + 1000)))
        if kind == "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -50))
            high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 1000))
            return r.choice([low, high, round(r.uniform(low, high), r.randint(0, 6)), r.randint(int(low), int(high))])
        if kind == "string":
            if "pattern" in schema:
                return PATTERNS[schema["pattern"]](r)
            return "".join(r.choices("ab \"\\\n\t/é日😀\x01\x7f", k=r.randint(0, min(schema.get("maxLength", 12), 40))))
        if kind == "array":
            fixed = schema.get("prefixItems", [])
            n = r.randint(schema.get("minItems", 0), schema.get("maxItems", schema.get("minItems", 0) + 3))
            return [self.document(fixed[i] if i < len(fixed) else schema.get("items", True), depth + 1)
                    for i in range(n)]
        document = {name: self.document(one, depth + 1) for name, one in schema.get("properties", {}).items()
                    if name in schema.get("required", []) or r.random() < 0.5}
        if schema.get("additionalProperties", True) is not False and r.random() < 0.4:
            document[r.choice(["other", "na", "añb"])] = self.document(schema.get("additionalProperties", True), depth + 1)
        return document


def in_range(value):
    """Numbers as documented: with bounds no exponent, and no -0."""
    if isinstance(value, list):
        return all(map(in_range, value))
    if isinstance(value, dict):
        return all(map(in_range, value.values()))
    return not isinstance(value, float) or ("e" not in repr(value) and repr(value) != "-0.0")


def written(value, r):
    style = r.choice([{}, {"separators": (",", ":")}, {"indent": 2}, {"indent": 1, "separators": (",", ": ")}])
    return json.dumps(value, ensure_ascii=False, **style)


# ---- tests ----

# The message of a schema without a valid value.
UNSATISFIABLE = re.compile("no value (satisfies|of the list|is valid)|allows no value|no finite answer")


def test_random_schemas(masks):
    """Sampled answers are valid, valid documents are allowed."""
    n_walked, n_ended, n_offered, seconds = 0, 0, 0, 0
    for seed in range(N_SCHEMAS):
        maker = Maker(seed)
        schema = maker.whole()
        documents = [maker.document(schema) for _ in range(N_DOCUMENTS)]
        documents = [one for one in documents if valid(one, schema, schema) and in_range(one)]
        texts = [written(one, maker.r) for one in documents]
        reply = masks(schema=schema, walks=N_WALKS, seed=seed, texts=texts, compact=False)
        if "error" in reply and UNSATISFIABLE.search(reply["error"]):
            assert not documents, json.dumps(schema) + reply["error"]
            continue
        assert "error" not in reply, (schema, reply)
        seconds = max(seconds, reply["seconds"])
        for text in reply["documents"]:
            n_walked += 1
            if text is None:
                continue
            n_ended += 1
            assert valid(json.loads(text), schema, schema), json.dumps(schema) + "\n" + text
        for text, fits in zip(texts, reply["fits"]):
            assert fits, json.dumps(schema) + "\n" + text
        n_offered += len(texts)
    print(f"{n_walked} walks, {n_offered} documents, slowest schema {seconds * 1000:.1f} ms")
    assert n_ended >= 0.99 * n_walked and n_offered >= 3 * N_SCHEMAS


def test_mutated_documents(masks):
    """Allowed texts are valid, also among texts that are nearly valid."""
    n_let, n_blocked = 0, 0
    for seed in range(N_SCHEMAS):
        maker = Maker(10_000 + seed)
        schema = maker.whole()
        texts = [written(maker.document(schema), maker.r) for _ in range(N_DOCUMENTS)]
        for text in list(texts):
            at = maker.r.randrange(len(text))
            texts += [text[:at] + maker.r.choice(["", "0", "\"", "}", ",", " ", "x", "é"]) + text[at + 1:]]
        reply = masks(schema=schema, texts=texts, closed=maker.r.random() < 0.5)
        for text, fits in zip(texts, reply.get("fits", [])):
            n_let += fits
            n_blocked += not fits
            assert not fits or valid(json.loads(text), schema, schema), json.dumps(schema) + "\n" + text
    assert n_let > N_SCHEMAS and n_blocked > N_SCHEMAS


@pytest.mark.parametrize("regex", [r"(yes|no|maybe)", r"[A-Z]{2}\d{2,6}", r"\w{1,8}@\w{1,8}\.(com|org)", r"(\d{1,3}\.){3}\d{1,3}",
                                   r"[^\n]{0,80}", r"(- [a-z ]+\n){1,5}", r"[ \n]{0,9}[a-f0-9]{8,}", r"[^é]{0,9}é.{0,9}"])
def test_regex(masks, regex):
    reply = masks(regex=regex, walks=20, seed=1)
    for text in reply["documents"]:
        assert text is None or re.fullmatch(regex, text, re.ASCII), text
    assert sum(text is not None for text in reply["documents"]) >= 15


@pytest.mark.parametrize("name, good, bad", [
    ("duration", ["P4DT12H30M5S", "P1Y2M3D", "PT36H", "P2W", "P1MT1S"], ["P", "P1DT", "PT1D", "P1W1D", "P1Y1D"]),
    ("uri", ["http://a.b/?c=d#e/f?g", "ftp://a#b", "http://a.b:80/c"], ["a.b/c", "http://a/#b#c", "http:///a"])])
def test_format(masks, name, good, bad):
    texts = [f'"{text}"' for text in good + bad]
    assert masks(schema={"format": name}, texts=texts)["fits"] == [True] * len(good) + [False] * len(bad)


def test_choice(masks):
    choices = ["red", "reddish", "green", "a \"quoted\" one", "日本"]
    reply = masks(choice=choices, walks=100, seed=1, texts=choices + ["re", "redd", ""])
    assert set(reply["documents"]) == set(choices)
    assert reply["fits"] == [True] * 5 + [False] * 3
