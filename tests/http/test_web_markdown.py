"""Markdown of the chat page without a browser: task lists, images, and rendering of text that grows."""

import random

import pytest
from web_scripts import WEB, scripts  # noqa: F401 (a fixture)

SHOW = """(text) => { const box = document.createElement("div"); showMarkdown(box, text); return box.inner; }"""


def test_task_list(scripts):
    made = scripts.call(SHOW, "- [x] done *well*\n- [ ] open\n- [X] also\n- plain [x]\n\n1. [ ] first")
    assert made.count('<li class="task">') == 4 and made.count("<li>") == 1
    box = '<input type="checkbox" disabled="" checked="" aria-label="done">'
    assert made.count(box) == 2 and made.count('<input type="checkbox" disabled="" aria-label="not done">') == 2
    assert "</input>done <em>well</em></li>" in made and "<li>plain [x]</li>" in made


def test_nested_task_list(scripts):
    made = scripts.call(SHOW, "- [ ] outer\n  - [x] inner")
    assert made.count("<ul>") == 2 and made.count('class="task"') == 2


def test_image_is_a_link(scripts):
    made = scripts.call(SHOW, "![A bird](https://example.org/a.png) and ![](https://example.org/b.png) ![x](javascript:1)!")
    assert "<img" not in made
    assert '<a href="https://example.org/a.png" target="_blank" rel="noopener noreferrer">Image: A bird</a>' in made
    assert ">Image</a>" in made and "![x](javascript:1)!" in made


# The pieces that a text may be made of, with what may follow them.
PIECES = ["word ", "\n", "\n\n", "- item", "1. one", "  indented", "| a | b |", "|---|---|", "```python\n", "```", "x = 1\n", "$$", "$x$", "\\[", "\\]",
          "> quote", "# head", "---", "**bold**", "- [x] task", "`code`", "\t", "\r\n", "    deep"]


@pytest.mark.parametrize("seed", range(60))
def test_growing_text_looks_like_the_whole(scripts, seed):
    """The blocks that are kept while a text grows are those of the whole text."""
    chance = random.Random(seed)
    text = "".join(chance.choice(PIECES) for _ in range(200))
    cuts = sorted(chance.sample(range(len(text)), 40)) + [len(text)]
    grown, whole = scripts.call("""(text, cuts) => {
        const box = document.createElement("div"), all = document.createElement("div");
        for (const cut of cuts) showMarkdown(box, text.slice(0, cut));
        showMarkdown(all, text);
        return [box.inner, all.inner];
    }""", text, cuts)
    assert grown == whole


def test_formula_that_grows_over_line_feeds(scripts):
    """The empty rest after the last line feed is not a blank line: the formula goes on."""
    made = scripts.call("""(parts) => {
        const box = document.createElement("div"), whole = document.createElement("div");
        for (const part of parts) showMarkdown(box, part);
        showMarkdown(whole, parts.at(-1));
        return [box.inner, whole.inner, box.childNodes.length];
    }""", ["$$\n> a\n- b\n", "$$\n> a\n- b\n- c\n$$"])
    assert made[0] == made[1] and made[2] == 1


def test_text_that_changes_is_shown_anew(scripts):
    made = scripts.call("""() => { const box = document.createElement("div");
        for (const text of ["a\\n\\nb\\n\\nc\\n\\nd", "a\\n\\nx", ""]) showMarkdown(box, text);
        return box.inner; }""")
    assert made == ""


def test_finished_blocks_are_not_read_again(scripts):
    """An answer of 1 MB in small pieces: the work per piece does not grow with the text before it."""
    read = scripts.call("""() => {
        const box = document.createElement("div"), split = String.prototype.split;
        let chars = 0, text = "";
        String.prototype.split = function (...how) { chars += this.length; return split.apply(this, how); };
        for (let i = 0; i < 1000; i++) {
          text += ("A line of text, number " + i + ". ").repeat(30) + "\\n\\n";
          showMarkdown(box, text);
        }
        String.prototype.split = split;
        return [text.length, chars, box.childNodes.length];
    }""")
    assert read[2] == 1000 and read[0] > 750_000
    assert read[1] < 5 * read[0]


def test_open_code_grows_in_groups_of_lines(scripts):
    """The code of an open block is extended; its nodes before the last group stay as they are."""
    made = scripts.call("""() => {
        const box = document.createElement("div");
        let text = "```text\\n", first = null;
        for (let i = 0; i < 1000; i++) {
          text += "line " + i;
          showMarkdown(box, text);
          text += "\\n";
          showMarkdown(box, text);
          if (i === 300) first = box.querySelector("code").childNodes[0];
        }
        const code = box.querySelector("code");
        return [code.childNodes[0] === first, code.childNodes.map((group) => group.textContent.split("\\n").length),
                code.textContent === text.slice(8), box.childNodes[0].code === code.textContent];
    }""")
    assert made[0] is True and made[2] is True and made[3] is True
    assert made[1] == [201, 201, 201, 201, 201]  # each ends with a line feed


def test_page_reads_its_own_sources(scripts):
    """Code is shown as it is: nothing in it is lost."""
    for path in sorted(WEB.glob("*.js")):
        text = path.read_text()
        shown = scripts.call("""(text) => { const box = document.createElement("div");
            showMarkdown(box, "````js\\n" + text + "\\n````"); return box.querySelector("code").textContent; }""", text)
        assert shown == text


def test_text_is_shown_in_steps(scripts):
    """With a limit of time, each call builds one block more at least, and the last call has all of the text."""
    made = scripts.call("""() => {
        const text = Array.from({ length: 50 }, (_, i) => "- item " + i + "\\n\\nParagraph " + i).join("\\n\\n");
        const box = document.createElement("div"), whole = document.createElement("div"), counts = [];
        while (counts.length < 1000 && !showMarkdown(box, text, -1).isWhole) counts.push(box.childNodes.length);
        showMarkdown(whole, text);
        return [counts, box.inner === whole.inner];
    }""")
    assert made[0] == list(range(1, 100)) and made[1] is True


def test_fault_in_a_block_shows_its_source(scripts):
    made = scripts.call("""(text) => {
        LANGUAGES.set("faulty", { comments: ["("], strings: [], more: [], words: new Set() });
        const box = document.createElement("div");
        showMarkdown(box, text);
        LANGUAGES.delete("faulty");
        return [box.inner, console.errors.splice(0).length];
    }""", "before\n\n```faulty\ncode\n```\n\nafter")
    assert made == ['<p>before</p><p class="source">```faulty\ncode\n```</p><p>after</p>', 1]


def test_long_list_is_several_blocks(scripts):
    made = scripts.call(SHOW, "\n".join(f"{i}. item" for i in range(1, 251)))
    assert made.count("<ol") == 3 and '<ol start="101">' in made and '<ol start="201">' in made and made.count("<li>") == 250
