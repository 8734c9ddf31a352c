"""Runs scripts of the chat page without a browser, in V8 (mini-racer), with a small stand-in for the DOM.

The stand-in has what math.js, highlight.js, inline.js and markdown.js use to build nodes; `text` of a node is its outer
HTML. What depends on a layout, on events or on the storage of a browser is tested in tests/web.
"""

import json
import pathlib

import pytest
from py_mini_racer import MiniRacer

WEB = pathlib.Path(__file__).resolve().parents[2] / "src" / "serve" / "web"
SCRIPTS = ["dom", "math_symbols", "math_nodes", "math_commands", "math", "highlight_languages", "highlight", "inline", "markdown", "store",
           "request", "chat_files", "view"]
TIMEOUT_S = 120

DOM = """
class TextNode {
  constructor(data) { this.data = data; }
  get textContent() { return this.data; }
  get outer() { return this.data.replace(/&/g, "&amp;").replace(/</g, "&lt;"); }
  remove() { this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1); }
}
class Element {
  constructor(name) { Object.assign(this, { localName: name, attributes: new Map(), childNodes: [] }); }
  setAttribute(name, value) { this.attributes.set(name, String(value)); }
  getAttribute(name) { return this.attributes.get(name) ?? null; }
  addEventListener() {}
  add(node, front) {
    const made = typeof node === "object" ? node : new TextNode(String(node));
    const nodes = made.localName === "#fragment" ? made.childNodes.splice(0) : [made];
    for (const child of nodes) child.parent = this;
    if (front) this.childNodes.unshift(...nodes);
    else this.childNodes.push(...nodes);
  }
  append(...nodes) { for (const node of nodes) this.add(node, false); }
  prepend(...nodes) { for (const node of nodes.reverse()) this.add(node, true); }
  remove() { this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1); }
  get lastChild() { return this.childNodes.at(-1) ?? null; }
  get firstChild() { return this.childNodes[0] ?? null; }
  get textContent() { return this.childNodes.map((node) => node.textContent).join(""); }
  querySelector(name) {
    for (const node of this.childNodes) {
      const found = node.localName === name ? node : node.querySelector?.(name);
      if (found) return found;
    }
    return null;
  }
  get outer() {
    const attributes = [...this.attributes].map(([name, value]) => " " + name + '="' + value + '"').join("");
    return "<" + this.localName + attributes + ">" + this.inner + "</" + this.localName + ">";
  }
  get inner() { return this.childNodes.map((node) => node.outer).join(""); }
}
globalThis.document = {
  createElement: (name) => new Element(name),
  createElementNS: (space, name) => new Element(name),
  createDocumentFragment: () => new Element("#fragment"),
};
globalThis.console = { errors: [], error(...parts) { this.errors.push(parts.join(" ")); } };
globalThis.performance = { now: () => Date.now() };
globalThis.structuredClone = (value) => JSON.parse(JSON.stringify(value));
globalThis.crypto = { getRandomValues: (bytes) => bytes.map(() => Math.floor(Math.random() * 256)) };

/* A storage of so many characters. */
function storageOf(charsMax) {
  const values = {};
  const own = { enumerable: false };
  return Object.defineProperties(values, {
    getItem: { ...own, value: (name) => values[name] ?? null },
    removeItem: { ...own, value: (name) => { delete values[name]; } },
    setItem: { ...own, value: (name, value) => {
      const used = Object.entries(values).reduce((sum, [k, v]) => sum + (k === name ? 0 : k.length + v.length), 0);
      if (used + name.length + value.length > charsMax)
        throw Object.assign(new Error("full"), { name: "QuotaExceededError" });
      values[name] = value;
    } },
  });
}
globalThis.localStorage = storageOf(5000000);
globalThis.sessionStorage = storageOf(5000000);
"""


class Scripts:
    """The scripts, loaded once; call(function, arguments) passes JSON both ways. The owner must close() it: the threads
    of V8 keep the process alive."""

    def __init__(self):
        self.engine = MiniRacer()
        source = DOM + "".join((WEB / f"{name}.js").read_text() for name in SCRIPTS)
        self.engine.eval(source)

    def call(self, function, *values):
        """Evaluates a JavaScript function with arguments; its result must be JSON."""
        given = ", ".join(json.dumps(value) for value in values)
        return json.loads(self.engine.eval(f"JSON.stringify(({function})({given}) ?? null)", timeout_sec=TIMEOUT_S))

    def close(self):
        self.engine.close()


@pytest.fixture(scope="module")
def scripts():
    loaded = Scripts()
    yield loaded
    loaded.close()
