"""Formulas of the chat page: TeX to MathML, and what is a formula in Markdown."""

import pytest
from web_scripts import scripts  # noqa: F401 (a fixture)


def formula(scripts, source, display=True):
    return scripts.call("(text, display) => formula(text, display).inner", source, display)


def in_row(*parts):
    return "<mrow>" + "".join(parts) + "</mrow>"


def mi(text):
    return f"<mi>{text}</mi>"


def mn(text):
    return f"<mn>{text}</mn>"


X, Y, A, B, N = (mi(letter) for letter in "xyabn")


@pytest.mark.parametrize("source, expected", [
    ("x", X),
    ("42", mn("42")),
    ("3.14", mn("3.14")),
    ("x^2", f"<msup>{X}{mn(2)}</msup>"),
    ("x^10", in_row(f"<msup>{X}{mn(1)}</msup>", mn(0))),  # as in TeX
    ("x_n^2", f"<msubsup>{X}{N}{mn(2)}</msubsup>"),
    ("x^2_n", f"<msubsup>{X}{N}{mn(2)}</msubsup>"),
    ("x_{n+1}", f"<msub>{X}{in_row(N, '<mo>+</mo>', mn(1))}</msub>"),
    ("x'", f"<msup>{X}<mo>′</mo></msup>"),
    ("{}^2x", in_row(f"<msup><mrow></mrow>{mn(2)}</msup>", X)),
    (r"\frac{a}{b}", f"<mfrac>{A}{B}</mfrac>"),
    (r"\frac12", f"<mfrac>{mn(1)}{mn(2)}</mfrac>"),
    (r"{a \over b}", f"<mfrac>{A}{B}</mfrac>"),
    ("a=-b", in_row(A, "<mo>=</mo>", '<mo form="prefix">−</mo>', B)),
    ("a,-b", in_row(A, "<mo>,</mo>", '<mo form="prefix">−</mo>', B)),
    (r"\sqrt{x}", f"<msqrt>{X}</msqrt>"),
    (r"\sqrt[n]{x}", f"<mroot>{X}{N}</mroot>"),
    (r"\alpha\Omega", in_row(mi("α"), mi("Ω"))),
    (r"a \leq b", in_row(A, "<mo>≤</mo>", B)),
    ("a-b", in_row(A, "<mo>−</mo>", B)),
    (r"\sum_{x}^n", f'<munderover><mo movablelimits="true" class="big">∑</mo>{X}{N}</munderover>'),
    (r"\sum\limits_x", f'<munder><mo movablelimits="false" class="big">∑</mo>{X}</munder>'),
    (r"\int_a^b", f'<msubsup><mo class="big">∫</mo>{A}{B}</msubsup>'),
    (r"\sin x", in_row(mi("sin"), '<mspace width="0.167em"></mspace>', X)),
    (r"\sin(x)", in_row(mi("sin"), '<mo stretchy="false">(</mo>', X, '<mo stretchy="false">)</mo>')),
    (r"\operatorname{rot} x", in_row(mi("rot"), '<mspace width="0.167em"></mspace>', X)),
    (r"\hat{x}", f'<mover accent="true">{X}<mo stretchy="false">^</mo></mover>'),
    (r"\overline{x}", f'<mover accent="true">{X}<mo stretchy="true">‾</mo></mover>'),
    (r"\mathbb{R}", mi("ℝ")),
    (r"\mathbb{A}", mi("𝔸")),
    (r"\mathbf{x}", mi("𝐱")),
    (r"\mathcal{L}", mi("ℒ")),
    (r"\boldsymbol{\alpha}", mi("𝜶")),
    (r"\mathrm{d}", '<mi mathvariant="normal">d</mi>'),
    (r"\text{if }", "<mtext>if\u00a0</mtext>"),
    (r"\text{a $x$}", in_row("<mtext>a\u00a0</mtext>", X)),
    (r"a\quad b", in_row(A, '<mspace width="1em"></mspace>', B)),
    (r"\not=", "<mo>=\u0338</mo>"),
    (r"\textcolor{red}{x}", f'<mrow mathcolor="red">{X}</mrow>'),
    (r"\textcolor{url(x)}{x}", in_row(X)),
    (r"\overset{a}{b}", f"<mover>{B}{A}</mover>"),
    (r"\boxed{x}", f'<mrow class="boxed">{X}</mrow>'),
    (r"x\,\%", in_row(X, '<mspace width="0.167em"></mspace>', mi("%"))),
    (r"\ce{H2O}", in_row('<msub><mi mathvariant="normal">H</mi><mn>2</mn></msub>', '<mi mathvariant="normal">O</mi>')),
    (r"\ce{Na+ ->}", in_row('<mi mathvariant="normal">N</mi>', '<msup><mi mathvariant="normal">a</mi><mo>+</mo></msup>', "<mo>→</mo>")),
    (r"\Large x", in_row("<mrow></mrow>", X)),
    (r"\nonumber x", in_row("<mrow></mrow>", X)),
])
def test_conversion(scripts, source, expected):
    assert formula(scripts, source) == expected


def test_tables(scripts):
    matrix = formula(scripts, r"\begin{bmatrix} a & b \\ x & y \\ \end{bmatrix}")
    assert matrix.count("<mtr>") == 2 and matrix.count("<mtd") == 4
    assert ">[</mo>" in matrix and ">]</mo>" in matrix
    cases = formula(scripts, r"\begin{cases} 1 & x > 0 \\ 0 & \text{otherwise} \end{cases}")
    assert cases.count('<mtd class="to-left">') == 4 and ">{</mo>" in cases and ">}</mo>" not in cases
    aligned = r"a &= b \\ &= x"
    for source in (rf"\begin{{aligned}}{aligned}\end{{aligned}}", rf"\begin{{align*}}{aligned}\end{{align*}}", aligned,
                   aligned.replace(r"\\", r"\newline")):
        made = formula(scripts, source)
        assert made.startswith('<mtable displaystyle="true" class="aligned">'), source
        assert made.count('<mtd class="to-right">') == 2 and made.count('<mtd class="to-left">') == 2, source
    array = formula(scripts, r"\begin{array}{l|r} a & b \\ \hline x & y \end{array}")
    assert array.count('class="to-left"') == 2 and array.count('class="to-right"') == 2 and array.count('class="ruled"') == 1


def test_delimiters(scripts):
    made = formula(scripts, r"\left( \frac{a}{b} \middle| x \right]")
    assert [made.count(f'form="{form}" stretchy="true"') for form in ("prefix", "infix", "postfix")] == [1, 1, 1]
    assert formula(scripts, r"\left. x \right|").count("<mo") == 1
    assert 'minsize="1.8em" maxsize="1.8em"' in formula(scripts, r"\Big( x \Big)")


def test_unknown_command_is_shown_within_the_formula(scripts):
    assert formula(scripts, r"x + \frobnicate{y}") == in_row(X, "<mo>+</mo>", r'<mtext class="unknown">\frobnicate</mtext>', Y)


@pytest.mark.parametrize("source", [r"\frac{a}", "{x", "x}", r"\left( x", r"\right)", r"\begin{matrix} a", r"\begin{zoo} a \end{zoo}",
                                    r"\begin{matrix} a \end{cases}", "a & b }", r"\sqrt[3", r"\left\alpha x \right)", "{" * 300 + "}" * 300,
                                    r"\frac" * 500, "x" + "^x" * 500, r"\sqrt" * 2000 + "x", r"\text{" * 500, "x" * 10001, "", r"a \over b \over x"])
def test_faulty_formula_is_shown_as_source(scripts, source):
    made = scripts.call("(text) => { const node = formula(text, true); return [node.localName, node.textContent]; }", source)
    assert made == ["code", source.strip()]


def inline(scripts, text):
    """The HTML of a paragraph, with [TeX] in place of each formula."""
    return scripts.call("""(text) => {
        const nodes = inline(text).childNodes;
        return nodes.map((node) => node.localName === "math" ? "[" + node.getAttribute("alttext") + "]"
            : node.outer).join("");
    }""", text)


@pytest.mark.parametrize("text, expected", [
    ("where $x$ is", "where [x] is"),
    ("$x_1 + y^2$.", "[x_1 + y^2]."),
    ("the $n$th and ($n$)", "the [n]th and ([n])"),
    (r"\(a_1\) and \[b\]", "[a_1] and [b]"),
    ("so $$x = 1$$ holds", "so [x = 1] holds"),
    ("$O(n \\log n)$ or $O(n log n)$", "[O(n \\log n)] or [O(n log n)]"),
    ("$a*b$ and $c*d$", "[a*b] and [c*d]"),
    ("`$x$`", "<code>$x$</code>"),
])
def test_formula_in_a_line(scripts, text, expected):
    assert inline(scripts, text) == expected


@pytest.mark.parametrize("text", ["between $5 and $6", "$5, or 10$", "US$5 and CA$6", "$5/$6", "$HOME/bin:$PATH", "a $ b $ c", "$5 to 6$ more",
                                  "$HOME and $USER", "costs $1,000 (or $900)", "$", "$$", "$$$$", "ends with $x", "echo $one$two",
                                  "$plain words$ here", "$word$ here"])
def test_dollars_that_are_no_formula(scripts, text):
    assert inline(scripts, text) == text


def test_escaped_dollar(scripts):
    assert inline(scripts, r"\$x\$ is text") == "$x$ is text"


def blocks(scripts, text):
    return scripts.call("""(text) => { const box = document.createElement("div"); showMarkdown(box, text);
        return box.childNodes.map((node) => [node.attributes.get("class") ?? node.localName, node.textContent]); }""", text)


def test_display_formulas(scripts):
    text = "We have\n$$\nx\n$$\nand \\[ y \\]\n\n\\[\na\n\\]\n\n$$b$$.\n\n```math\nn\n```\n\n$$\nno\n\nformula"
    assert blocks(scripts, text) == [["p", "We have"], ["mathblock", "x"], ["p", "and y"], ["mathblock", "a"], ["mathblock", "b."],
                                     ["mathblock", "n"], ["p", "$$no"], ["p", "formula"]]


def test_formula_that_is_not_complete_yet(scripts):
    """While its end is missing, all of it is one block of source: also lines that look like other blocks."""
    assert blocks(scripts, "$$\na\n- b\n# x") == [["p", "$$\na\n- b\n# x"]]


def test_formula_in_a_list(scripts):
    made = scripts.call("""(text) => { const box = document.createElement("div"); showMarkdown(box, text); return box.inner; }""",
                        "1. first\n   \\[\n   x\n   \\]\n2. second")
    assert made.count("<li>") == 2 and made.count('class="mathblock"') == 1 and '<math display="block"' in made
