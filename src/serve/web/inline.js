/* Markdown within a paragraph: emphasis, code, links, formulas. The output of the model becomes
 * text nodes and a few elements; the only attribute taken from it is the address of a link, which
 * must be http, https or mailto. */

const INLINE_CHARS_MAX = 20000; // longer paragraphs are shown as plain text
const NESTING_MAX = 6;
const FORMULA_CHARS_MAX = 1000; // within a line

function safeAddress(text) {
  return /^(https?:\/\/|mailto:)[^\s<>"]+$/i.test(text) ? text : null;
}

function linkTo(address, content) {
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, content);
}

/* A rule handles the character text[at], its key. It returns {node, end}, or null for an ordinary
 * character. `find(marker, from)` is an indexOf that remembers missing markers, so that a line of
 * stars takes linear time. */
const isSpace = (c) => c === undefined || /\s/.test(c);
const isWord = (c) => c !== undefined && /[\p{L}\p{N}_]/u.test(c);

function codeRule(text, at, find) {
  let n = 1;
  while (text[at + n] === "`") n++;
  const marker = "`".repeat(n);
  const end = find(marker, at + n);
  if (end < 0 || text[end + n] === "`") return { node: marker, end: at + n };
  const inner = text.slice(at + n, end).replace(/\n/g, " ");
  const trimmed = /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner;
  return { node: el("code", {}, trimmed), end: end + n };
}

function pairRule(marker, tag) {
  return (text, at, find, depth) => {
    if (!text.startsWith(marker, at) || isSpace(text[at + marker.length])) return null;
    if (marker[0] === "_" && isWord(text[at - 1])) return null;
    for (let end = find(marker, at + marker.length + 1); end > 0; end = find(marker, end + 1)) {
      const after = end + marker.length;
      const alone = text[after] !== marker[0] && (marker.length > 1 || text[end - 1] !== marker[0]);
      if (isSpace(text[end - 1]) || !alone || (marker[0] === "_" && isWord(text[after]))) continue;
      return { node: el(tag, {}, inline(text.slice(at + marker.length, end), depth + 1)),
          end: after };
    }
    return null;
  };
}

const firstOf = (...rules) => (...args) => {
  for (const rule of rules) {
    const made = rule(...args);
    if (made) return made;
  }
  return null;
};

function linkRule(text, at, find, depth) {
  const middle = find("](", at);
  const end = middle < 0 ? -1 : find(")", middle);
  if (end < 0) return null;
  const address = safeAddress(text.slice(middle + 2, end).split(/\s/)[0].replace(/^<|>$/g, ""));
  const label = text.slice(at + 1, middle);
  if (!address || label.includes("[")) return null;
  return { node: linkTo(address, inline(label, depth + 1)), end: end + 1 };
}

function bareLinkRule(text, at) {
  if (isWord(text[at - 1]) || !/^https?:\/\//.test(text.slice(at, at + 8))) return null;
  const found = /^[^\s<>"]+/.exec(text.slice(at, at + 2048))[0].replace(/[.,;:!?'*_)\]]+$/, "");
  return safeAddress(found) ? { node: linkTo(found, found), end: at + found.length } : null;
}

/* An image is a link: the page loads nothing from elsewhere. */
function imageRule(text, at, find, depth) {
  if (text[at + 1] !== "[") return null;
  const made = linkRule(text, at + 1, find, depth);
  if (!made) return null;
  made.node.prepend(made.node.textContent ? "Image: " : "Image");
  return made;
}

/* ---- formulas ---- */

const FUNCTION_WORDS = new Set("log ln exp sin cos tan min max gcd lcm mod lim det deg".split(" "));

/* Whether the text between two $ is a formula. "5 or 6" between prices is not: plain words need a
 * sign of TeX beside them. */
function isFormula(text) {
  if (/[\\^_{}]/.test(text)) return true;
  const words = (text.match(/\p{L}+/gu) ?? []).filter((word) =>
    word.length > 1 && !FUNCTION_WORDS.has(word));
  if (/^\d/.test(text) && /\s/.test(text) && words.length > 0) return false;
  if (/[=<>+]/.test(text)) return words.length < 3;
  return words.length === 0 || (words.length === 1 && /^\p{Lu}{2,3}$/u.test(text));
}

/* $formula$: no space inside the marks, and no word or digit after the second one. */
function dollarRule(text, at, find) {
  if (text[at + 1] === "$") return doubleDollarRule(text, at, find);
  if (isSpace(text[at + 1]) || isWord(text[at - 1])) return null;
  for (let end = find("$", at + 2); end > 0 && end - at <= FORMULA_CHARS_MAX;
    end = find("$", end + 1)) {
    if (text[end - 1] === "\\") continue;
    if (isSpace(text[end - 1]) || text[end + 1] === "$") return null;
    const isSuffix = /^(th|st|nd|rd|s)\b/.test(text.slice(end + 1, end + 4));
    if (isWord(text[end + 1]) && !isSuffix) return null;
    const source = text.slice(at + 1, end);
    return isFormula(source) ? { node: formula(source, false), end: end + 1 } : null;
  }
  return null;
}

function doubleDollarRule(text, at, find) {
  const end = find("$$", at + 2);
  if (end < at + 3) return null;
  return { node: formula(text.slice(at + 2, end), true), end: end + 2 };
}

function escapeRule(text, at, find) {
  const next = text[at + 1];
  if (next === "(" || next === "[") {
    const end = find(next === "(" ? "\\)" : "\\]", at + 2);
    return end < 0 ? null
        : { node: formula(text.slice(at + 2, end), next === "["), end: end + 2 };
  }
  return next !== undefined && "\\`*_{}#+-.!|~>&$".includes(next)
      ? { node: next, end: at + 2 } : null;
}

const INLINE_RULES = {
  "`": codeRule,
  "*": firstOf(pairRule("**", "strong"), pairRule("*", "em")),
  _: firstOf(pairRule("__", "strong"), pairRule("_", "em")),
  "~": pairRule("~~", "del"),
  "[": linkRule,
  "!": imageRule,
  $: dollarRule,
  h: bareLinkRule,
  "\\": escapeRule,
  "\n": () => ({ node: el("br"), end: 0 }),
};

function inline(text, depth = 0) {
  const out = document.createDocumentFragment();
  if (depth > NESTING_MAX || text.length > INLINE_CHARS_MAX) {
    out.append(text);
    return out;
  }
  const missing = new Set();
  const find = (marker, from) => {
    const at = missing.has(marker) ? -1 : text.indexOf(marker, from);
    if (at < 0) missing.add(marker);
    return at;
  };
  let begin = 0;
  for (let at = 0; at < text.length;) {
    const rule = INLINE_RULES[text[at]];
    const made = rule && rule(text, at, find, depth);
    if (!made) {
      at++;
      continue;
    }
    out.append(text.slice(begin, at), made.node);
    at = begin = made.end || at + 1;
  }
  out.append(text.slice(begin));
  return out;
}
