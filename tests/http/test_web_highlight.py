"""Highlighting of code in the chat page: tokens per language, and the limits."""

import time

import pytest
from web_scripts import WEB, scripts  # noqa: F401 (a fixture)


def tokens(scripts, code, language):
    return scripts.call("highlighted", code, language)


def words_of(scripts, code, language):
    """"kind:text" of every token that has a kind, in order."""
    return [f"{kind}:{text.strip()}" for kind, text in tokens(scripts, code, language) if kind]


@pytest.mark.parametrize("language, code, expected", [
    ("python", '@cache\ndef f(x):  # note\n    return f"a{x}" + \'b\' * 0x1F',
     ["meta:@cache", "keyword:def", "call:f", "comment:# note", "keyword:return", 'string:f"a{x}"', "string:'b'", "number:0x1F"]),
    ("py", '"""doc\n# no comment"""\nx = 1.5e-3', ['string:"""doc\n# no comment"""', "number:1.5e-3"]),
    ("javascript", "const re = /a\\/[/]\"/g; // note\nlet t = `a ${b}`; x = 4 / 2 / 1",
     ["keyword:const", 'string:/a\\/[/]"/g', "comment:// note", "keyword:let", "string:`a ${b}`", "number:4", "number:2", "number:1"]),
    ("ts", "interface A { x: string }", ["keyword:interface", "keyword:string"]),
    ("c", "#include <stdio.h>\nint main(void) { char c = '\\''; /* a\n b */ return 0; }",
     ["meta:#include <stdio.h>", "keyword:int", "call:main", "keyword:void", "keyword:char", "string:'\\''", "comment:/* a\n b */",
      "keyword:return", "number:0"]),
    ("cuda", '__global__ void k(float *x) { x[threadIdx.x] = 1.0f; R"(a"b)"; }',
     ["keyword:__global__", "keyword:void", "call:k", "keyword:float", "keyword:threadIdx", "number:1.0f", 'string:R"(a"b)"']),
    ("go", "func main() { s := `raw\n\"` // note\n}", ["keyword:func", "call:main", 'string:`raw\n"`', "comment:// note"]),
    ("rust", "fn f<'a>(x: &'a str) -> char { r#\"a\"b\"# ; 'c' }",
     ["keyword:fn", "meta:'a", "meta:'a", "keyword:str", "keyword:char", 'string:r#"a"b"#', "string:'c'"]),
    ("java", "@Override public int f() { return 1_000L; }",
     ["meta:@Override", "keyword:public", "keyword:int", "call:f", "keyword:return", "number:1_000L"]),
    ("bash", 'for f in "$@"; do echo ${f#x} --all # note\ndone',
     ["keyword:for", "keyword:in", 'string:"$@"', "keyword:do", "keyword:echo", "name:${f#x}", "meta:--all", "comment:# note", "keyword:done"]),
    ("json", '{"a:b": [1, -2.5, "x", true, null]}', ['name:"a:b"', "number:1", "number:2.5", 'string:"x"', "keyword:true", "keyword:null"]),
    ("json", '{"k": "x:y"}', ['name:"k"', 'string:"x:y"']),
    ("yaml", "key: value # note\n- other: 'it''s'\n  n: 3\nurl: http://x",
     ["name:key", "comment:# note", "name:- other", "string:'it''s'", "name:n", "number:3", "name:url"]),
    ("toml", '[part]\nkey = "v" # note', ["meta:[part]", "name:key", 'string:"v"', "comment:# note"]),
    ("sql", "SELECT a, 'it''s' FROM t WHERE n >= 3 -- note",
     ["keyword:SELECT", "string:'it''s'", "keyword:FROM", "keyword:WHERE", "number:3", "comment:-- note"]),
    ("html", '<!-- note --><p class="x">a &amp; b</p><script>let x = "<b>";</script><style>a { top: 1px }</style>',
     ["comment:<!-- note -->", "keyword:<p", "name:class", 'string:"x"', "keyword:>", "meta:&amp;", "keyword:</p", "keyword:>",
      "keyword:<script", "keyword:>", "keyword:let", 'string:"<b>"', "keyword:</script", "keyword:>", "keyword:<style", "keyword:>",
      "name:top", "number:1px", "keyword:</style", "keyword:>"]),
    ("css", "@media print { .a:hover { color: #fff; } /* note */ }",
     ["keyword:@media", "meta:.a", "meta::hover", "name:color", "number:#fff", "comment:/* note */"]),
    ("diff", "--- a\n+++ b\n@@ -1 +1 @@\n-old 1\n+new \"2\"\n same",
     ["meta:--- a", "meta:+++ b", "meta:@@ -1 +1 @@", "removed:-old 1", 'added:+new "2"']),
])
def test_tokens(scripts, language, code, expected):
    assert words_of(scripts, code, language) == expected


LANGUAGES = ["python", "js", "c", "cpp", "go", "rust", "java", "sh", "json", "yaml", "toml", "sql", "html", "css", "diff"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_unchanged(scripts, language):
    """The tokens together are the code: for real code, and for code that is cut anywhere."""
    sources = [path.read_text() for path in sorted(WEB.glob("*.*"))] + ['a "b', "'", "/*", "`", '"""x', "<!--", "<script>", "{'", "\\"]
    for source in sources:
        cut = source[:20000]
        made = scripts.call("(code, name) => highlighted(code, name).map(([, text]) => text).join('')", cut, language)
        assert made == cut


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_takes_long(scripts, language):
    """Linear time: each of these would take minutes if it were quadratic with a large factor, or exponential."""
    begin = time.monotonic()
    for piece in ['"', "'", "`", "/", "/*", "<!--", "\\", "(", "- ", " ", "a ", "#", '"a":', "a.", "${", "r#\"", "<", "1_", "'''", "@a", "a'",
                  "<script>", "=", ": ", "\n", "--"]:
        text = (piece * 60000)[:60000]
        assert scripts.call("(code, name) => highlighted(code, name).length", text, language) > 0, piece
    assert time.monotonic() - begin < 120


def test_limits(scripts):
    assert tokens(scripts, "x = 1", "nolanguage") is None
    assert tokens(scripts, "x" * 60001, "python") is None
    assert tokens(scripts, "x" * 60000, "python") == [["", "x" * 60000]]
    assert tokens(scripts, "x", "constructor") is None


def code_block(scripts, text):
    return scripts.call("""(text) => { const box = document.createElement("div"); showMarkdown(box, text);
        return box.querySelector("code").inner; }""", text)


def test_only_finished_blocks_are_coloured(scripts):
    assert code_block(scripts, "```python\nreturn 1\n") == '<span class="lines">return 1\n</span>'
    assert code_block(scripts, "```python\nreturn 1\n```") == \
        '<span class="t-keyword">return</span> <span class="t-number">1</span>'
    assert "t-" not in code_block(scripts, "```nolanguage\nreturn 1\n```")
