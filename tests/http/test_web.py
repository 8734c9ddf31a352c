"""The chat's page as it is served: complete in itself, sound HTML, and nothing that its policy forbids.

What it does in a browser is tests/web's (`make test-web`).
"""

import html.parser
import pathlib
import re
import urllib.request

import pytest

SIZE_MAX = 200_000
VOID = set("area base br col embed hr img input link meta source track wbr".split())
PARTS = pathlib.Path(__file__).resolve().parents[2] / "src" / "serve" / "web"
# Ways by which text becomes markup or code.
FORBIDDEN = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc", "DOMParser",
             "createContextualFragment", "setHTML", "import("]


class Page(html.parser.HTMLParser):
    """Elements with their attributes; every tag that is opened must be closed in turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text_of = [], [], {}
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        assert tag in VOID or "svg" in self.open, f"<{tag}/> is no void element"

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> at {self.getpos()} closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.text_of[self.open[-1]] = self.text_of.get(self.open[-1], "") + data

    def attributes(self, name):
        return [(tag, found[name]) for tag, found in self.elements if name in found]


@pytest.fixture(scope="module")
def source(server):
    request = urllib.request.Request(server.url + "/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.read().decode()


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def test_is_whole_and_small(source):
    assert len(source.encode()) < SIZE_MAX
    for part in PARTS.glob("*.*s"):
        assert part.read_text().strip() in source, part


def test_loads_nothing_from_elsewhere(page, source):
    for name in ("src", "href", "action", "srcset", "data", "poster"):
        for tag, address in page.attributes(name):
            assert address.startswith("#") or (tag == "link" and address.startswith("data:image/svg+xml,")), (tag, address)
    assert not re.search(r"url\(|@import", page.text_of["style"])
    addresses = set(re.findall(r"""["'`](?:\w+:)?//[\w./-]+""", page.text_of["script"]))
    # Names of namespaces, not addresses.
    assert addresses == {'"http://www.w3.org/2000/svg', '"http://www.w3.org/1998/Math/MathML'}


def test_keeps_its_policy(page):
    for tag, attributes in page.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
    for word in FORBIDDEN:
        assert word not in page.text_of["script"], word


def test_names_meet(page):
    """What the script, labels and ARIA refer to is there, once."""
    ids = [value for _, value in page.attributes("id")]
    assert len(ids) == len(set(ids))
    script = page.text_of["script"]
    asked = set(re.findall(r'\$\("([\w-]+)"\)', script)) | set(re.findall(r'\bon\("([\w-]+)",', script))
    assert asked and asked <= set(ids), asked - set(ids)
    for name in ("for", "aria-labelledby", "aria-describedby"):
        for tag, value in page.attributes(name):
            assert value in ids, (tag, name, value)
    icons = set(re.findall(r'[iI]con(?:Button)?\("([\w-]+)"', script)) | {v[3:] for _, v in page.attributes("href") if v[:3] == "#i-"}
    assert icons and {"i-" + name for name in icons} <= set(ids)


def test_buttons_have_names(page, source):
    for tag, attributes in page.elements:
        if tag == "button" and "icon" in attributes.get("class", ""):
            assert attributes.get("aria-label"), attributes
        if tag == "button":
            assert attributes.get("type") in ("button", "submit"), attributes
    assert page.elements[0] == ("html", {"lang": "en"})
    assert "width=device-width" in source and "user-scalable" not in source
