"""What goes wrong, as the page tells it; and text that would like to be more than text."""

import threading

import pytest
from conftest import chunk, usage


@pytest.mark.parametrize("status, words", [(429, "The server is busy."), (503, "The server cannot answer now.")])
def test_busy(stand_in, open_chat, status, words):
    chat = open_chat(stand_in.url)
    stand_in.scripts += [lambda answer: answer.error(status, "256 requests wait", retry_after="7"), lambda answer: answer.text("at last")]
    chat.ask("hello")
    trouble = chat.done().locator(".trouble")
    assert words in trouble.inner_text() and "256 requests wait" in trouble.inner_text() and "7 s" in trouble.inner_text()
    chat.shot(f"error-{status}")
    trouble.locator("button").click()
    chat.until("document.querySelector('.theirs .prose').textContent === 'at last'")
    assert len(stand_in.requests) == 2 and stand_in.requests[0][0] == stand_in.requests[1][0]


def test_refused(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    stand_in.scripts.append(lambda answer: answer.error(400, "the prompt has 5000 tokens, the context 4096"))
    chat.ask("hello")
    assert "5000 tokens" in chat.done().locator(".trouble").inner_text()


def cut(answer):
    answer.begin()
    answer.send(chunk({"content": "Half of "}), chunk({"content": "an answer"}))


def error_event(answer):
    cut(answer)
    answer.send({"error": {"message": "the device has failed"}}, "[DONE]")


def nonsense(answer):
    cut(answer)
    answer.send("<html>")


@pytest.mark.parametrize("script, words", [(cut, "The connection was lost"), (error_event, "the device has failed"), (nonsense, "not an answer")])
def test_broken_streams_keep_what_came(stand_in, open_chat, script, words):
    chat = open_chat(stand_in.url)
    stand_in.scripts.append(script)
    chat.ask("hello")
    answer = chat.done()
    assert answer.locator(".prose").inner_text() == "Half of an answer"
    assert words in answer.locator(".trouble").inner_text()
    chat.page.reload()
    assert chat.page.locator(".theirs .prose").inner_text() == "Half of an answer"
    stand_in.scripts.append(lambda again: again.text("Whole."))
    chat.page.click(".trouble button")
    chat.until("document.querySelector('.theirs .prose').textContent === 'Whole.'")


def test_page_left_in_mid_answer(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    may_end = threading.Event()

    def slow(answer):
        cut(answer)
        may_end.wait(60)

    stand_in.scripts.append(slow)
    chat.ask("hello")
    chat.wait(".prose >> text=an answer")
    chat.page.reload()
    may_end.set()
    assert "closed before the answer was complete" in chat.page.locator(".trouble").inner_text()
    assert chat.page.locator(".theirs .prose").inner_text() == "Half of an answer"


def test_events_cut_anywhere(stand_in, open_chat):
    """Bytes come one by one, so characters and lines are cut."""
    def by_bytes(answer):
        answer.begin()
        answer.write(": ping\r\n\r\n")
        for byte in ('data: {"choices":[{"index":0,"delta":{"content":"naïve 🦅 café"}}]}\n\ndata: [DONE]\n\n').encode():
            answer.write(bytes([byte]))

    chat = open_chat(stand_in.url)
    stand_in.scripts.append(by_bytes)
    chat.ask("hello")
    assert chat.done().locator(".prose").inner_text() == "naïve 🦅 café"


HOSTILE = """<script>window.hurt = 1</script> <img src=x onerror="window.hurt = 2">

[click](javascript:window.hurt=3) ![pic](https://evil.example/x.png) <https://evil.example>

```html
</code></pre><script>window.hurt = 4</script>
```

<iframe srcdoc="<script>parent.hurt = 5</script>"></iframe> <style>body { display: none }</style>

$\\text{<img src=x onerror="window.hurt=6">}$ and $\\href{javascript:window.hurt=7}{x}$ and $\\textcolor{red" onload="window.hurt=8}{x}$
and $\\style{position:fixed}{x}$

$$
\\text{<script>window.hurt = 9</script>} \\class{<b>}{x} <img>
$$

- [x] <input onfocus=window.hurt=10 autofocus>

[ok](https://example.org/a_b_c) and `<b>code</b>` and data:text/html,<script>1</script>
"""


def test_text_is_only_text(stand_in, open_chat):
    asked = []
    chat = open_chat(stand_in.url)
    chat.page.on("request", lambda request: asked.append(request.url))
    stand_in.scripts.append(lambda answer: answer.text(HOSTILE, 40))
    chat.ask(HOSTILE)
    answer = chat.done()
    assert chat.page.evaluate("window.hurt") is None
    assert answer.locator("script, img, iframe, style, object, form, [onload], [onerror], [onfocus]").count() == 0
    assert answer.locator("input").count() == 1 and answer.locator("math").count() == 5
    kinds = answer.locator("math, math *").evaluate_all("(all) => [...new Set(all.flatMap((e) => [...e.attributes].map((a) => a.name)))].sort()")
    assert set(kinds) <= {"alttext", "class", "display", "mathcolor", "stretchy", "form", "lspace", "rspace", "mathvariant"}
    assert answer.locator("pre code").inner_text() == "</code></pre><script>window.hurt = 4</script>"
    links = answer.locator(".prose a").evaluate_all("(all) => all.map((a) => [a.getAttribute('href'), a.rel])")
    assert ["https://example.org/a_b_c", "noopener noreferrer"] in links
    assert all(href.startswith("https://") for href, _ in links)
    assert all(url.startswith(stand_in.url) for url in asked), asked
    assert chat.page.locator(".mine .said").inner_text().strip() == HOSTILE.strip()


MARKDOWN = """# Title

A **bold** and *slanted* word, `code`, ~~gone~~, snake_case_name, 2 * 3 * 4, and \\*stars\\*.

1. one
2. two
   - inner
   - list

     with a paragraph

- [a link](https://example.org)

| name | size |
|:-----|-----:|
| a \\| b | 1 |
| `x` | 22 |

> quoted
> twice

```python
def f(x):
    return x  # **not bold**
```

Inline \\(a_1^2\\) maths.

---
Last **unclosed
"""


def test_markdown(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    stand_in.scripts += [lambda answer: answer.text(MARKDOWN, 60)]
    chat.ask("show me")
    prose = chat.done().locator(".prose")
    chat.shot("markdown")
    tags = prose.evaluate("(p) => [...p.querySelectorAll('*')].map((e) => e.localName).filter((t) => t !== 'svg' && t !== 'use')")
    for tag, n in (("h3", 1), ("strong", 1), ("em", 1), ("del", 1), ("ol", 1), ("ul", 2), ("li", 5), ("table", 1), ("th", 2), ("td", 4),
                   ("blockquote", 1), ("pre", 1), ("hr", 1)):
        assert tags.count(tag) == n, (tag, n, tags)
    text = prose.inner_text()
    for part in ("snake_case_name", "2 * 3 * 4", "*stars*", "a | b", "# **not bold**", "Last **unclosed"):
        assert part in text, part
    assert prose.locator("td.to-end").count() == 2
    assert prose.locator("math").get_attribute("alttext") == "a_1^2"
    assert prose.locator("pre .t-keyword").all_inner_texts() == ["def", "return"]


def test_formula_without_a_font_for_mathematics(stand_in, open_chat):
    """Brackets are as high as what they enclose, also where the font cannot stretch them."""
    chat = open_chat(stand_in.url)
    chat.page.evaluate("""() => { const sheet = new CSSStyleSheet(); sheet.replaceSync("math { font-family: serif !important; }");
        document.adoptedStyleSheets = [sheet]; }""")
    stand_in.scripts.append(lambda answer: answer.text("$$\\begin{pmatrix} 1 \\\\ 2 \\\\ 3 \\\\ 4 \\end{pmatrix}$$\n\nand $\\overline{ABCDEF}$"))
    chat.ask("a matrix")
    prose = chat.done()
    chat.shot("no-math-font")
    sizes = prose.evaluate("""(p) => ["mtable", "mo[form=prefix]", "mo[form=postfix]"].map((name) =>
        p.querySelector(name).getBoundingClientRect().height)""")
    assert sizes[0] > 60 and min(sizes[1:]) > 0.8 * sizes[0], sizes
    widths = prose.evaluate("""(p) => [p.querySelector("mover").getBoundingClientRect().width,
        p.querySelector("mover > mo").getBoundingClientRect().width]""")
    assert widths[1] > 0.6 * widths[0], widths


@pytest.mark.parametrize("text", ["*" * 30000, "`" * 20001, "[" * 20000, "> " * 5000, "- " * 5000, "|" * 20000 + "\n" + "|-" * 9000,
                                  "_a" * 9000, "\\(" * 9000, "#" * 20000, "   \n" * 9000, "**a " * 5000, "](" * 9000 + "[",
                                  "$a " * 9000, "$$" * 9000, "$" * 20000, "$x$" * 6000, "\\(" + "{" * 9000 + "\\)", "$$\n" + "\\frac" * 1500 + "\n$$",
                                  "```js\n" + "`" * 50000 + "\n```", "- [x] " * 5000, "![" * 9000])
def test_texts_that_are_meant_to_hurt(stand_in, open_chat, text):
    """Each is shown, and takes no more than a moment a frame."""
    chat = open_chat(stand_in.url)
    ms = chat.page.evaluate("""(text) => { const begin = performance.now(); const box = document.createElement("div");
        showMarkdown(box, text); return performance.now() - begin; }""", text)
    assert ms < 2000


def test_long_answer_keeps_its_nodes(stand_in, open_chat):
    """Blocks that are complete are not made anew for every token."""
    chat = open_chat(stand_in.url)
    first_made, may_go_on = threading.Event(), threading.Event()

    def slow(answer):
        answer.begin()
        answer.send(chunk({"content": "first\n\nsecond"}))
        first_made.set()
        may_go_on.wait(60)
        answer.send(chunk({"content": " goes on\n\nthird"}), chunk({}, "stop"), usage(5), "[DONE]")

    stand_in.scripts.append(slow)
    chat.ask("hello")
    chat.wait(".prose p >> text=second")
    chat.page.evaluate("document.querySelector('.prose p').mark = 'kept'")
    may_go_on.set()
    chat.wait(".prose p >> text=third")
    assert chat.page.evaluate("document.querySelector('.prose p').mark") == "kept"


def test_reader_who_scrolls_up_stays_there(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    may_go_on = threading.Event()

    def slow(answer):
        answer.begin()
        answer.send(chunk({"content": "line\n\n" * 60}))
        may_go_on.wait(60)
        answer.send(chunk({"content": "more\n\n" * 60}), chunk({}, "stop"), usage(5), "[DONE]")

    stand_in.scripts.append(slow)
    chat.ask("hello")
    chat.wait(".prose p:nth-child(60)")
    at_end = "document.getElementById('scroll').scrollHeight - document.getElementById('scroll').scrollTop - document.getElementById('scroll').clientHeight < 100"
    chat.until(at_end)
    chat.page.evaluate("document.getElementById('scroll').scrollTop = 10")
    may_go_on.set()
    chat.done()
    assert chat.page.evaluate("document.getElementById('scroll').scrollTop") == 10
    chat.page.click("#to-end")
    chat.until(at_end)


def test_store_that_is_closed(stand_in, open_chat, browser):
    """A browser that keeps nothing still chats."""
    context = browser.new_context()
    context.add_init_script("for (const s of ['localStorage', 'sessionStorage']) Object.defineProperty(window, s, "
                            "{ get() { throw new DOMException('no', 'SecurityError'); } });")
    chat = open_chat(stand_in.url, context=context)
    stand_in.scripts.append(lambda answer: answer.text("fine"))
    chat.ask("hello")
    assert chat.done().locator(".prose").inner_text() == "fine"
    context.close()


def test_loading_then_ready(stand_in, open_chat):
    stand_in.health = "loading"
    chat = open_chat(stand_in.url, ready=False)
    chat.wait("#dot.wait")
    chat.until("document.getElementById('model').textContent === 'loading the model'")
    stand_in.health = "ok"
    chat.wait("#dot.good")
    assert chat.page.inner_text("#model") == "gpt-oss-20b"
