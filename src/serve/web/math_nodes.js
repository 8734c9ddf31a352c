/* MathML elements for math.js. An atom is {node, kind, limits}: kind decides about thin spaces
 * beside functions ("ord", "op", "open", "close", "rel"); scripts of an atom with `limits` go
 * above and below it. */

const MATH_SPACE = "http://www.w3.org/1998/Math/MathML";

function mathEl(tag, attributes = {}, ...children) {
  const node = document.createElementNS(MATH_SPACE, tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const mathRow = (nodes) => (nodes.length === 1 ? nodes[0] : mathEl("mrow", {}, ...nodes));
const mathGap = (em) => mathEl("mspace", { width: em + "em" });
const atomOf = (node, kind = "ord", limits = false) => ({ node, kind, limits });

/* Spaces at the ends of a text must not collapse. */
const mathText = (text, name) => mathEl("mtext", { class: name }, text.replace(/\s+/g, "\u00a0"));

/* The character of a font, or the character itself. */
function inFont(char, font) {
  const table = TEX_FONTS[font];
  if (table?.other?.[char]) return table.other[char];
  for (const [first, last] of ["AZ", "az", "09", "ΑΩ", "αω"]) {
    if (char >= first && char <= last && table?.[first])
      return String.fromCodePoint(table[first] + char.charCodeAt(0) - first.charCodeAt(0));
  }
  return char;
}

function letterAtom(char, font) {
  return atomOf(mathEl("mi", { mathvariant: font === "normal" ? "normal" : undefined },
      inFont(char, font)));
}

function numberAtom(digits, font) {
  return atomOf(mathEl("mn", {}, ...[...digits].map((digit) => inFont(digit, font))));
}

const NOT_STRETCHED = "()[]{}|‖⟨⟩⌊⌋⌈⌉⟦⟧⟮⟯/∖↑↓↕⇑⇓⇕";
const KIND_OF = new Map([..."([{⟨⌊⌈⟦⟮"].map((c) => [c, "open"])
    .concat([...")]}⟩⌋⌉⟧⟯!"].map((c) => [c, "close"])));
const SIGN = { "-": "−", "*": "∗", "'": "′" };

/* Outside \left and \right a delimiter keeps its size. */
function operatorAtom(char) {
  const fixed = NOT_STRETCHED.includes(char);
  const bar = char === "|" || char === "‖";
  return atomOf(mathEl("mo", { stretchy: fixed ? "false" : undefined,
    lspace: bar ? "0.05em" : undefined, rspace: bar ? "0.05em" : undefined },
  SIGN[char] ?? char), KIND_OF.get(char) ?? (bar ? "ord" : "rel"));
}

/* A delimiter of \left, \middle, \right or \big; "." is none. */
function fenceNode(char, form, size) {
  if (char === ".") return mathEl("mrow");
  return mathEl("mo", { form, stretchy: "true", fence: "true", minsize: size, maxsize: size,
    symmetric: "true", lspace: form === "infix" ? "0.2em" : "0", rspace: form === "infix" ? "0.2em"
      : "0" }, char);
}

/* Base with its scripts; `under` or `over` may be null. */
function scriptsNode(base, sub, sup) {
  const names = base.limits ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
  if (sub && sup) return mathEl(names[2], {}, base.node, sub, sup);
  if (sub) return mathEl(names[0], {}, base.node, sub);
  return sup ? mathEl(names[1], {}, base.node, sup) : base.node;
}

const SIGNS = "−+±∓";

/* A function such as sin has a thin space beside letters, but none before a parenthesis. A sign
 * after a relation or a comma belongs to what follows. */
function spacedNodes(atoms) {
  const nodes = [];
  atoms.forEach((atom, i) => {
    const before = atoms[i - 1]?.kind;
    const afterFunction = before === "op" && (atom.kind === "ord" || atom.kind === "op");
    const beforeFunction = atom.kind === "op" && (before === "ord" || before === "close");
    if (afterFunction || beforeFunction) nodes.push(mathGap(0.167));
    if (SIGNS.includes(atom.node.textContent || " ") && (before === "rel" || before === "open"))
      atom.node.setAttribute("form", "prefix");
    nodes.push(atom.node);
  });
  return nodes;
}

/* rows: lists of cells; align: a function from the column to "left", "right" or "center". */
function tableNode(rows, align, attributes = {}) {
  return mathEl("mtable", attributes, ...rows.map((row) =>
    mathEl("mtr", { class: row.isRuled ? "ruled" : undefined },
      ...row.map((cell, column) => mathEl("mtd", { class: "to-" + align(column) }, cell)))));
}
