/* The TeX commands of math.js that take arguments: TEX_COMMANDS maps a name to a function
 * (parser, name) that reads the arguments and returns an atom. */

const binomial = (top, bottom) => mathEl("mrow", {}, fenceNode("(", "prefix"),
    mathEl("mfrac", { linethickness: "0" }, top, bottom), fenceNode(")", "postfix"));

function styled(display, node) {
  return mathEl("mstyle", { displaystyle: display, scriptlevel: "0" }, node);
}

/* ---- delimiters ---- */

function delimiter(parser) {
  const token = parser.next();
  if (token === undefined) throw new TexError("missing delimiter");
  if (token === "<") return "⟨";
  if (token === ">") return "⟩";
  if ("()[]|/.".includes(token)) return token;
  const char = TEX_OPERATORS.get(token.slice(1));
  if (token[0] !== "\\" || !char) throw new TexError("not a delimiter: " + token);
  return char;
}

function leftRight(parser) {
  const parts = [fenceNode(delimiter(parser), "prefix"), parser.list()];
  for (;;) {
    if (parser.skip("\\middle"))
      parts.push(fenceNode(delimiter(parser), "infix"), parser.list());
    else break;
  }
  parser.expect("\\right");
  return atomOf(mathEl("mrow", {}, ...parts, fenceNode(delimiter(parser), "postfix")), "close");
}

const BIG_EM = { big: "1.2em", Big: "1.8em", bigg: "2.4em", Bigg: "3em" };

function bigDelimiter(parser, name) {
  const [, size, side] = /^(\w+?)([lrm]?)$/.exec(name);
  const form = { l: "prefix", r: "postfix", m: "infix" }[side] ?? "prefix";
  const kind = { l: "open", r: "close", m: "rel" }[side] ?? "ord";
  return atomOf(fenceNode(delimiter(parser), form, BIG_EM[size]), kind);
}

/* ---- text and names ---- */

/* Text with $formulas$. */
function textAtom(parser, name) {
  const kind = { textbf: "bold", textit: "slanted", emph: "slanted", texttt: "code" }[name];
  const parts = parser.rawArgument().split("$").flatMap((part, i) => {
    if (part === "") return [];
    return i % 2 ? [parser.inner(part)]
      : [mathText(part.replace(/\\([#$%&_{} ])/g, "$1"), kind)];
  });
  return atomOf(mathRow(parts));
}

const functionAtom = (name) => atomOf(mathEl("mi", { mathvariant: [...name].length === 1 ? "normal"
    : undefined }, name), "op");
const limitsAtom = (name) => atomOf(mathEl("mo", { movablelimits: "true", form: "prefix",
  lspace: "0", rspace: "0" }, name), "op", true);

function operatorName(parser, name) {
  const text = parser.rawArgument().replace(/\\[,;: ]/g, "\u2009").replace(/\\[A-Za-z]+|[{}]/g, "");
  return name.endsWith("*") ? limitsAtom(text) : functionAtom(text);
}

/* A chemical formula: numbers after letters are indices, charges are superscripts. */
function chemistry(parser) {
  const tex = parser.rawArgument().replace(/<=>|<-->|<->/g, "\\rightleftharpoons ")
      .replace(/->/g, "\\rightarrow ").replace(/<-/g, "\\leftarrow ")
      .replace(/\^(\d*[+-]+)/g, "^{$1}").replace(/([A-Za-z)\]])(\d+)/g, "$1_{$2}")
      .replace(/([A-Za-z)\]}])([+-])(?=\s|$)/g, "$1^{$2}");
  return atomOf(parser.inner("\\mathrm{" + tex + "}"));
}

/* ---- over and under ---- */

function accent(parser, name) {
  const [char, stretches] = TEX_ACCENTS.get(name);
  const mark = mathEl("mo", { stretchy: String(Boolean(stretches)) }, char);
  return atomOf(mathEl("mover", { accent: "true" }, parser.argument(), mark), "ord",
      name === "overbrace");
}

function accentUnder(parser, name) {
  const mark = mathEl("mo", { stretchy: "true" }, TEX_ACCENTS_UNDER.get(name)[0]);
  return atomOf(mathEl("munder", { accentunder: "true" }, parser.argument(), mark), "ord",
      name === "underbrace");
}

function stacked(tag) {
  return (parser) => {
    const script = parser.argument(), base = parser.argument();
    return atomOf(mathEl(tag, {}, base, script), "rel");
  };
}

function extensibleArrow(parser, name) {
  const below = parser.option();
  const above = mathEl("mrow", {}, mathGap(0.4), parser.argument(), mathGap(0.4));
  const arrow = mathEl("mo", { stretchy: "true" }, TEX_ARROWS.get(name));
  return atomOf(below ? mathEl("munderover", {}, arrow, below, above)
    : mathEl("mover", {}, arrow, above), "rel");
}

/* ---- environments ---- */

const MATRIX_FENCES = { matrix: "", smallmatrix: "", pmatrix: "()", bmatrix: "[]", Bmatrix: "{}",
  vmatrix: "||", Vmatrix: "‖‖" };
const ALIGNED = new Set("align aligned alignat alignedat split eqnarray flalign".split(" "));
const GATHERED = new Set("gather gathered equation multline displaymath math".split(" "));

/* Right and left in turn, so that the relations stand below each other. */
function alignedTable(rows) {
  const widest = Math.max(...rows.map((row) => row.length));
  return tableNode(rows, (column) => (widest === 1 ? "left" : column % 2 ? "left" : "right"),
      { displaystyle: "true", class: "aligned" });
}

function columnsOf(spec) {
  const letters = spec.replace(/[@!>]\{[^}]*\}/g, "").match(/[lcr]/g) ?? [];
  return (column) => ({ l: "left", r: "right" }[letters[column]] ?? "center");
}

function fenced(fences, table) {
  if (!fences) return table;
  return mathEl("mrow", {}, fenceNode(fences[0], "prefix"), table,
      fenceNode(fences[1] ?? ".", "postfix"));
}

function environment(parser) {
  const name = parser.rawArgument(), plain = name.replace(/\*$/, "");
  let columns = columnsOf("");
  if (plain === "array" || plain === "alignat" || plain === "alignedat") {
    parser.rawOption();
    columns = columnsOf(parser.rawArgument());
  } else if (/matrix|aligned|gathered|cases/.test(plain)) columns = columnsOf(parser.rawOption());
  const rows = parser.rows("\\end");
  if (parser.rawArgument() !== name) throw new TexError("\\end does not match \\begin");
  return atomOf(environmentNode(plain, rows, columns));
}

function environmentNode(name, rows, columns) {
  const left = () => "left", center = () => "center";
  if (name in MATRIX_FENCES) return fenced(MATRIX_FENCES[name], tableNode(rows, columns));
  if (name === "array" || name === "tabular") return tableNode(rows, columns);
  if (name === "cases" || name === "dcases")
    return fenced("{.", tableNode(rows, left, { displaystyle: String(name === "dcases") }));
  if (name === "rcases") return fenced(".}", tableNode(rows, left));
  if (ALIGNED.has(name)) return alignedTable(rows);
  if (GATHERED.has(name)) return tableNode(rows, center, { displaystyle: "true" });
  throw new TexError("unknown environment " + name);
}

/* ---- other commands ---- */

function withFont(font) {
  return (parser) => {
    const before = parser.font;
    parser.font = font;
    const node = parser.argument();
    parser.font = before;
    return atomOf(node);
  };
}

/* The rest of the group. */
const restWith = (wrap) => (parser) => atomOf(wrap(parser.list()));

/* A colour by name or #hex; others have no effect. */
function colouredNode(colour, node) {
  const known = /^([a-z]{3,20}|#[0-9a-f]{3,8})$/i.test(colour);
  return mathEl("mrow", known ? { mathcolor: colour } : {}, node);
}

function length(parser) {
  const found = /^\s*(-?[\d.]+)\s*(em|ex|mu|pt|cm|mm|in)/.exec(parser.rawArgument());
  const [, number, unit] = found ?? [];
  const em = { em: 1, ex: 0.45, mu: 1 / 18, pt: 0.1, cm: 2.8, mm: 0.28, in: 7.2 }[unit] ?? 0;
  return atomOf(mathGap(Math.max(-2, Math.min(20, Number(number) * em || 0))));
}

function negated(parser) {
  const node = parser.argument();
  if (!node.childNodes.length || node.localName === "mrow") throw new TexError("\\not");
  return atomOf(mathEl(node.localName, {}, node.textContent + "\u0338"), "rel");
}

function modulo(parser) {
  return atomOf(mathEl("mrow", {}, mathGap(0.5), operatorAtom("(").node, mathText("mod "),
      parser.argument(), operatorAtom(")").node));
}

function root(parser) {
  const index = parser.option(), base = parser.argument();
  return atomOf(index ? mathEl("mroot", {}, base, index) : mathEl("msqrt", {}, base));
}

function substack(parser) {
  parser.expect("{");
  return atomOf(tableNode(parser.rows("}"), () => "center"));
}

const wrapped = (tag, attributes) => (parser) => atomOf(mathEl(tag, attributes, parser.argument()));
const fraction = (wrap) => (parser) => {
  const top = parser.argument();
  return atomOf(wrap(mathEl("mfrac", {}, top, parser.argument())));
};
const asIs = (kind, limits) => (parser) => atomOf(parser.argument(), kind, limits);
const unused = (parser) => { parser.rawArgument(); return atomOf(mathEl("mrow"), "none"); };

const TEX_COMMANDS = new Map(Object.entries({
  frac: fraction((node) => node), dfrac: fraction((node) => styled("true", node)),
  tfrac: fraction((node) => styled("false", node)), cfrac: fraction((node) => styled("true", node)),
  binom: (p) => { const top = p.argument(); return atomOf(binomial(top, p.argument())); },
  sqrt: root, substack, not: negated, begin: environment, left: leftRight,
  overset: stacked("mover"), stackrel: stacked("mover"), underset: stacked("munder"),
  operatorname: operatorName, "operatorname*": operatorName,
  pmod: modulo, pod: modulo,
  bmod: () => atomOf(mathEl("mo", { lspace: "0.22em", rspace: "0.22em" }, "mod"), "rel"),
  mod: () => atomOf(mathEl("mo", { lspace: "0.5em", rspace: "0.22em" }, "mod"), "rel"),
  ce: chemistry, hspace: length, mspace: length, kern: length, hskip: length, tag: (p) =>
    atomOf(mathEl("mrow", {}, mathGap(2), mathText("(" + p.rawArgument() + ")"))),
  label: unused, vspace: unused,
  phantom: wrapped("mphantom", {}), hphantom: wrapped("mphantom", {}),
  vphantom: (p) => atomOf(mathEl("mpadded", { width: "0" }, mathEl("mphantom", {}, p.argument()))),
  boxed: wrapped("mrow", { class: "boxed" }), fbox: wrapped("mrow", { class: "boxed" }),
  cancel: wrapped("mrow", { class: "cancel" }), bcancel: wrapped("mrow", { class: "cancel" }),
  xcancel: wrapped("mrow", { class: "cancel" }), sout: wrapped("mrow", { class: "cancel" }),
  textcolor: (p) => { const colour = p.rawArgument();
    return atomOf(colouredNode(colour, p.argument())); },
  color: (p) => { const colour = p.rawArgument();
    return atomOf(colouredNode(colour, p.list())); },
  mathop: asIs("op", true), mathbin: asIs("rel"), mathrel: asIs("rel"), mathord: asIs("ord"),
  mathopen: asIs("open"), mathclose: asIs("close"), mathpunct: asIs("close"),
  mathinner: asIs("ord"), ensuremath: asIs("ord"), smash: asIs("ord"),
}));

function defineCommands(names, make) {
  for (const name of names) TEX_COMMANDS.set(name, make);
}

defineCommands(TEX_ACCENTS.keys(), accent);
defineCommands(TEX_ACCENTS_UNDER.keys(), accentUnder);
defineCommands(TEX_ARROWS.keys(), extensibleArrow);
defineCommands(["text", "textrm", "textsf", "textup", "textnormal", "mbox", "hbox", "textbf",
  "textit", "emph", "texttt"], textAtom);
defineCommands(TEX_FUNCTIONS, (parser, name) => functionAtom(name));
defineCommands(TEX_LIMIT_FUNCTIONS.keys(), (p, name) => limitsAtom(TEX_LIMIT_FUNCTIONS.get(name)));
defineCommands(TEX_BIG.keys(), (parser, name) =>
  atomOf(mathEl("mo", { movablelimits: "true", class: "big" }, TEX_BIG.get(name)), "rel", true));
defineCommands(TEX_INTEGRALS.keys(), (parser, name) =>
  atomOf(mathEl("mo", { class: "big" }, TEX_INTEGRALS.get(name)), "rel"));
defineCommands(TEX_SPACES.keys(), (parser, name) => atomOf(mathGap(TEX_SPACES.get(name)), "none"));
for (const size of Object.keys(BIG_EM))
  defineCommands([size, size + "l", size + "r", size + "m"], bigDelimiter);
for (const [name, font] of TEX_FONT_COMMANDS) TEX_COMMANDS.set(name, withFont(font));
for (const [name, font] of TEX_FONT_SWITCHES)
  TEX_COMMANDS.set(name, (p) => { p.font = font; return atomOf(mathEl("mrow"), "none"); });
for (const [name, [displaystyle, scriptlevel]] of TEX_STYLE_SWITCHES)
  TEX_COMMANDS.set(name, restWith((node) => mathEl("mstyle", { displaystyle, scriptlevel }, node)));
