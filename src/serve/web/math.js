/* Converts the TeX of formulas to MathML, as far as models write it: fractions, roots, scripts,
 * operators, accents, delimiters, matrices, cases, aligned equations, text, fonts and colours. An
 * unknown command is shown as its source within the formula; a formula with unbalanced groups is
 * shown as source as a whole. Sizes and nesting are limited. */

const TEX_CHARS_MAX = 10000;
const TEX_DEPTH_MAX = 40;
const TEX_SCRIPTS_MAX = 20; // scripts of scripts without braces
const TEX_TOKEN = /\\(?:operatorname\*|[A-Za-z]+|[^])|\s+|[^]/gu;

class TexError extends Error {}

class TexParser {
  constructor(source) {
    this.tokens = source.replace(/\\newline(?![A-Za-z])/g, "\\\\").match(TEX_TOKEN) ?? [];
    this.at = 0;
    this.depth = 0;
    this.font = "";
  }

  peek() {
    while (this.tokens[this.at]?.trim() === "") this.at++;
    return this.tokens[this.at];
  }

  next() {
    const token = this.peek();
    this.at++;
    return token;
  }

  skip(token) {
    if (this.peek() !== token) return false;
    this.at++;
    return true;
  }

  expect(token) {
    if (!this.skip(token)) throw new TexError("expected " + token);
  }

  /* Runs f one level deeper. */
  deeper(f) {
    if (++this.depth > TEX_DEPTH_MAX) throw new TexError("nested too deep");
    const result = f();
    this.depth--;
    return result;
  }

  /* ---- arguments ---- */

  /* The source of a {group}, for texts and names. */
  rawArgument() {
    if (this.peek() !== "{") return this.next() ?? "";
    let depth = 0, text = "";
    for (; this.at < this.tokens.length; this.at++) {
      const token = this.tokens[this.at];
      if (token === "{" && depth++ === 0) continue;
      if (token === "}" && --depth === 0) {
        this.at++;
        return text;
      }
      text += token;
    }
    throw new TexError("missing }");
  }

  /* The source of [options]; "" if there are none. */
  rawOption() {
    if (this.peek() !== "[") return "";
    const end = this.tokens.indexOf("]", this.at);
    if (end < 0) throw new TexError("missing ]");
    const text = this.tokens.slice(this.at + 1, end).join("");
    this.at = end + 1;
    return text;
  }

  argument() {
    if (this.peek() === undefined) throw new TexError("missing argument");
    if (/^\d$/.test(this.peek())) return numberAtom(this.next(), this.font).node;
    return this.deeper(() => this.atom().node);
  }

  /* A formula in [ ], as of \sqrt; null if there is none. */
  option() {
    const source = this.rawOption();
    return source ? this.inner(source) : null;
  }

  /* The node of another source, as part of this formula. */
  inner(source) {
    return this.deeper(() => {
      const parser = new TexParser(source);
      parser.depth = this.depth;
      return parser.whole();
    });
  }

  /* ---- lists ---- */

  isEnd(token) {
    return token === undefined || token === "}" || token === "&" || token === "\\\\" ||
        token === "\\cr" || token === "\\end" || token === "\\right" || token === "\\middle";
  }

  /* Up to the end of a group, cell or row. */
  list() {
    return this.deeper(() => {
      const font = this.font, atoms = [];
      let over = null;
      while (!this.isEnd(this.peek())) {
        const kind = { "\\over": "mfrac", "\\choose": "choose" }[this.peek()];
        if (!kind) {
          atoms.push(this.scripted());
          continue;
        }
        if (over) throw new TexError("two \\over in a group");
        this.at++;
        over = { kind, top: mathRow(spacedNodes(atoms.splice(0))) };
      }
      this.font = font;
      const row = mathRow(spacedNodes(atoms));
      if (!over) return row;
      return over.kind === "mfrac" ? mathEl("mfrac", {}, over.top, row)
        : binomial(over.top, row);
    });
  }

  /* Rows of cells up to `end`. */
  rows(end) {
    const rows = [[]];
    for (;;) {
      while (this.peek() === "\\hline" || this.peek() === "\\toprule") {
        this.at++;
        rows.at(-1).isRuled = true;
      }
      rows.at(-1).push(this.list());
      const token = this.next();
      if (token === end) break;
      if (token === "\\\\" || token === "\\cr") {
        this.rawOption();
        rows.push([]);
      } else if (token !== "&") throw new TexError("unexpected " + token);
    }
    const last = rows.at(-1);
    const isEmpty = last.length === 1 && last[0].localName === "mrow" && !last[0].childNodes.length;
    if (rows.length > 1 && isEmpty) rows.pop();
    return rows;
  }

  /* The whole source. Rows outside an environment are aligned, as models write them. */
  whole() {
    const rows = this.rows(undefined);
    return rows.length === 1 && rows[0].length === 1 ? rows[0][0] : alignedTable(rows);
  }

  /* ---- atoms ---- */

  scripted() {
    let base = this.isScript(this.peek()) ? atomOf(mathEl("mrow")) : this.atom();
    for (let n = 0; this.isScript(this.peek()); n++) {
      if (n > TEX_SCRIPTS_MAX) throw new TexError("too many scripts");
      const { sub, sup } = this.scripts(base);
      base = { ...base, node: scriptsNode(base, sub, sup) };
    }
    return base;
  }

  isScript(token) {
    return token === "_" || token === "^" || token === "'" || token === "\\limits" ||
        token === "\\nolimits";
  }

  /* At most one of each; a second one belongs to the result of the first. */
  scripts(base) {
    let sub = null, sup = null;
    for (;;) {
      const token = this.peek();
      if (token === "\\limits" || token === "\\nolimits") {
        base.limits = token === "\\limits";
        if (base.node.localName === "mo") base.node.setAttribute("movablelimits", "false");
        this.at++;
      } else if (token === "_" && !sub) {
        this.at++;
        sub = this.argument();
      } else if (token === "^" && !sup) {
        this.at++;
        sup = this.argument();
      } else if (token === "'" && !sup) {
        sup = this.primes();
      } else return { sub, sup };
    }
  }

  primes() {
    let marks = "";
    while (this.skip("'")) marks += "′";
    const mark = mathEl("mo", {}, marks);
    return this.skip("^") ? mathEl("mrow", {}, mark, this.argument()) : mark;
  }

  atom() {
    const token = this.next();
    if (token === "{") return this.group();
    if (token[0] === "\\") return this.command(token.slice(1));
    if (/\d/.test(token)) return this.number(token);
    if (token === "~") return atomOf(mathGap(0.25));
    if (token === ":" && this.tokens[this.at] === "=") {
      this.at++;
      return operatorAtom("≔");
    }
    if (/\p{L}/u.test(token)) return letterAtom(token, this.font);
    if ("}&".includes(token)) throw new TexError("unexpected " + token);
    return operatorAtom(token);
  }

  group() {
    const node = this.list();
    this.expect("}");
    return atomOf(node);
  }

  number(first) {
    let digits = first;
    const isDigit = (token) => /^\d$/.test(token ?? "");
    for (;;) {
      const token = this.tokens[this.at];
      if (!isDigit(token) && !(token === "." && isDigit(this.tokens[this.at + 1])))
        return numberAtom(digits, this.font);
      digits += token;
      this.at++;
    }
  }

  command(name) {
    const make = TEX_COMMANDS.get(name);
    if (make) return make(this, name);
    if (TEX_LETTERS.has(name)) return letterAtom(TEX_LETTERS.get(name), this.font);
    if (TEX_OPERATORS.has(name)) return operatorAtom(TEX_OPERATORS.get(name));
    if (TEX_IGNORED.has(name)) return atomOf(mathEl("mrow"), "none");
    return atomOf(mathText("\\" + name, "unknown"));
  }
}

/* A <math> element, or the source as <code>. */
function formula(source, display) {
  const text = source.trim();
  try {
    if (!text || text.length > TEX_CHARS_MAX) throw new TexError("size");
    return mathEl("math", { display: display ? "block" : "inline", alttext: text },
        new TexParser(text).whole());
  } catch (e) {
    if (!(e instanceof TexError)) throw e;
    return el("code", { class: "math" }, text);
  }
}
