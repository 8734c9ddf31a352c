"""Long answers: the page stays responsive, and shows all of the text."""

import pytest
from conftest import chunk, usage

LINE = "A line of text with some **bold** words, `code` and $x_1$ in it. "
LONG = {
    "paragraphs": (LINE * 10 + "\n\n") * 1600,
    "code": "```python\n" + "def f(x):  # a comment\n    return x + 1\n" * 25000 + "```\n",
    "list": "".join(f"- item {i}: {LINE}\n" for i in range(12000)),
    "one line": "word " * 200000,
    "table": "| a | b |\n|---|---|\n" + "| cell | `code` |\n" * 20000,
}


@pytest.mark.parametrize("kind", [*LONG, "reasoning"])
def test_a_long_answer_does_not_block_the_page(stand_in, open_chat, kind):
    """While 300 kB to 1 MB arrive, timers of the page still run between the frames: the longest pause is bounded. The bound is far above
    the pauses of a fast machine; work that is quadratic in the text exceeds it by far."""
    text, field, box = (LONG["paragraphs"], "reasoning_content", ".thoughts") if kind == "reasoning" else (LONG[kind], "content", ".prose")
    chat = open_chat(stand_in.url)
    chat.page.evaluate("store.setting('unfolded', 'yes')")
    chat.page.evaluate("""() => { window.pause = 0; let last = performance.now(); setInterval(() => {
        const now = performance.now(); window.pause = Math.max(window.pause, now - last); last = now; }, 10); }""")

    def stream(answer):
        answer.begin()
        step = len(text) // 400
        for i in range(0, len(text), step):
            answer.send(chunk({field: text[i : i + step]}))
        answer.send(chunk({}, "stop"), usage(400), "[DONE]")

    stand_in.scripts.append(stream)
    chat.ask("Much text")
    chat.page.wait_for_selector(".turn:last-child.theirs[aria-busy=false]", timeout=200_000)
    pause = chat.page.evaluate("window.pause")
    print(f"{kind}: {len(text)} characters, longest pause {pause:.0f} ms")
    shown = chat.page.locator(box).evaluate("(node) => node.textContent.length")
    assert shown > 0.4 * len(text)
    assert pause < 30_000
    chat.page.fill("#entry", "still here")
    assert chat.page.input_value("#entry") == "still here"
