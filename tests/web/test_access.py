"""Keyboard and screen readers: shortcuts, live regions, names and roles (axe-core's rules), colours."""

import threading

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import DESKTOP, PHONE, chunk, usage

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}}
EVERYTHING = r"""# Title

Text with `code`, a [link](https://example.org), $x^2$ and \(y\).

$$
\frac{a}{b} = \begin{pmatrix} 1 & 2 \end{pmatrix}
$$

- [x] done
- [ ] open

```python
@cache
def f(x):  # comment
    return "text" + 1
```

```diff
@@ -1 +1 @@
-old
+new
```

| a | b |
|---|---|
| 1 | 2 |

> quote
"""


def call_of(*names):
    def calls(answer):
        answer.begin()
        answer.send(chunk({"reasoning_content": "I need a tool."}),
                    *(chunk({"tool_calls": [{"index": i, "id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}}]})
                      for i, name in enumerate(names)), chunk({}, "tool_calls"), usage(30, 5), "[DONE]")
    return calls


def check(chat):
    # The page's policy forbids scripts from strings; the test's own code is evaluated by the browser's debugger.
    found = Axe().run(chat.page, options=RULES).response["violations"]
    assert [(v["id"], [node["html"][:200] for node in v["nodes"]], v["nodes"][0]["failureSummary"]) for v in found] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_rules(stand_in, open_chat, theme, size):
    chat = open_chat(stand_in.url, size=size, color_scheme=theme)
    check(chat)
    stand_in.scripts += [lambda answer: answer.text(EVERYTHING), call_of("get_weather"), lambda answer: answer.error(400, "refused")]
    chat.ask("Show everything")
    chat.done()
    check(chat)
    chat.shot(f"everything-{theme}-{size['width']}")
    chat.ask("Call a tool")
    chat.done().locator(".reasoning summary").click()
    check(chat)
    chat.ask("Fail")
    chat.done()
    check(chat)
    chat.page.keyboard.press("Control+k")
    chat.page.locator(".more-actions").first.click()
    check(chat)
    chat.page.keyboard.press("Escape")
    chat.page.keyboard.press("Control+Shift+S")
    chat.page.click("#tools-part summary")
    chat.page.click("#tools-example")
    check(chat)
    chat.page.fill("[name=tools]", "{")
    check(chat)
    chat.page.keyboard.press("Escape")
    chat.page.keyboard.press("Control+/")
    check(chat)


def test_shortcuts(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    page = chat.page
    focus = "document.activeElement.id"
    stand_in.scripts.append(lambda answer: answer.text("fine"))
    page.fill("#entry", "one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    chat.done()
    assert stand_in.requests[0][0]["messages"] == [{"role": "user", "content": "one\ntwo"}]
    page.keyboard.press("ArrowUp")
    assert page.input_value("#entry") == "one\ntwo" and page.is_visible("#editing")
    page.keyboard.press("Escape")
    assert page.input_value("#entry") == "" and not page.is_visible("#editing")
    page.focus("#theme")
    page.keyboard.press("Shift+Escape")
    assert page.evaluate(focus) == "entry"
    page.keyboard.press("Control+/")
    listed = page.inner_text("#shortcut-list")
    for words in ("Send the message", "Stop the answer", "New chat", "Chats and search"):
        assert words in listed, words
    page.keyboard.press("Control+Shift+O")  # not in a dialog
    assert page.is_visible("#shortcuts") and page.locator(".turn").count() == 2
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+O")
    assert page.locator(".turn").count() == 0 and page.evaluate(focus) == "entry"
    page.keyboard.press("Control+k")
    assert page.is_visible("#chats") and page.evaluate(focus) == "chats-search"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+S")
    assert page.is_visible("#settings")


def test_answer_is_spoken_once(stand_in, open_chat):
    """Each block is added to the live region once, when it is complete; no change repeats it."""
    chat = open_chat(stand_in.url)
    chat.page.evaluate("""() => { window.heard = []; new MutationObserver((all) => {
        for (const change of all) window.heard.push(...[...change.addedNodes].map((node) => node.textContent));
    }).observe(document.getElementById("spoken"), { childList: true, characterData: true, subtree: true }); }""")
    may_go_on = threading.Event()

    def slow(answer):
        answer.begin()
        answer.send(*(chunk({"content": text}) for text in ("First ", "block.\n\nSec", "ond $x^2$ block.\n\n```py\na\n", "b\n```\n\nThe ")))
        may_go_on.wait(60)
        answer.send(chunk({"content": "end."}), chunk({}, "stop"), usage(5), "[DONE]")

    stand_in.scripts.append(slow)
    chat.ask("hello")
    chat.until("window.heard.length === 3")
    assert chat.page.evaluate("window.heard") == ["First block.", "Second x^2 block.", "Code, py, 2 lines."]
    may_go_on.set()
    chat.done()
    assert chat.page.evaluate("window.heard") == ["First block.", "Second x^2 block.", "Code, py, 2 lines.", "The end."]
    assert chat.page.get_attribute("#log", "aria-live") == "off"
    chat.until("document.getElementById('said').textContent.startsWith('The answer is complete')")
    chat.page.click("#new")
    chat.page.click("#open-chats")
    chat.page.click("#chat-list .pick")
    assert len(chat.page.evaluate("window.heard")) == 4  # an old answer is not spoken


def test_tool_calls_by_keyboard(stand_in, open_chat):
    """The focus goes to the first result, and Ctrl+Enter sends them; what was typed survives a reload."""
    chat = open_chat(stand_in.url)
    stand_in.scripts += [call_of("first", "second"), lambda answer: answer.text("Done.")]
    chat.ask("Call two")
    chat.done()
    chat.until("document.getElementById('said').textContent === 'The model calls first, second. Enter the results.'")
    chat.until("document.activeElement.matches('.call textarea')")
    chat.page.keyboard.type("one")
    chat.until("Object.values(localStorage).some((text) => text.includes('\"draft\":\"one\"'))")
    chat.page.reload()
    assert chat.page.locator(".call textarea").first.input_value() == "one"
    chat.page.locator(".call textarea").nth(1).fill("two")
    chat.page.keyboard.press("Control+Enter")
    assert chat.done().locator(".prose").inner_text() == "Done."
    assert [m["content"] for m in stand_in.requests[1][0]["messages"] if m["role"] == "tool"] == ["one", "two"]


def test_tools_editor(stand_in, open_chat):
    chat = open_chat(stand_in.url)
    page = chat.page
    page.click("#open-settings")
    page.click("#tools-part summary")
    page.fill("[name=tools]", '[{"type": "function", "function": {"name": "a b"}}]')
    assert "1 to 64 letters" in page.inner_text("#tools-state")
    assert page.get_attribute("[name=tools]", "aria-invalid") == "true" and page.is_disabled("#tools-format")
    page.click("#settings-form .primary")
    assert page.is_visible("#settings") and page.evaluate("document.activeElement.name") == "tools"
    page.fill("[name=tools]", "")
    page.click("#tools-example")
    page.click("#tools-example")
    assert page.inner_text("#tools-state") == "2 tools: get_weather, get_weather_2"
    page.fill("[name=tools]", '[{"type":"function","function":{"name":"f"}}]')
    page.click("#tools-format")
    assert page.input_value("[name=tools]").count("\n") > 4
    page.fill("[name=system]", "Be brief.")
    page.click("#settings-form .primary")
    assert page.inner_text("#active") == "system prompt, 1 tool"
    stand_in.scripts.append(lambda answer: answer.text("fine"))
    chat.ask("hello")
    chat.done()
    assert stand_in.requests[0][0]["tools"] == [{"type": "function", "function": {"name": "f"}}]
    page.click("#active")
    assert page.is_visible("#settings")
