"use strict";
/* Renders the Markdown of answers to DOM nodes. The output of the model becomes text nodes and a
 * few elements; the only attribute taken from it is the address of a link, which must be http,
 * https or mailto. Nothing is parsed as HTML. Blocks with unchanged source keep their nodes, so
 * that the cost per token does not grow with the length of the answer. */

const INLINE_CHARS_MAX = 20000; // longer paragraphs are shown as plain text
const NESTING_MAX = 6;

/* el("p", {class: "x", onclick: f}, "text", node): an element. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", "#i-" + name);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

function iconButton(name, label, onclick) {
  return el("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick },
      icon(name));
}

/* ---- inline ---- */

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

function escapeRule(text, at, find) {
  const next = text[at + 1];
  if (next === "(" || next === "[") {
    const end = find(next === "(" ? "\\)" : "\\]", at + 2);
    return end < 0 ? null
        : { node: el("code", { class: "math" }, text.slice(at + 2, end).trim()), end: end + 2 };
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

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^`\s]*)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const isRule = (line) => /^ {0,3}[-*_]/.test(line) &&
    /^([-*_])\1{2,}$/.test(line.replace(/ /g, ""));
const isTableRule = (line) => line !== undefined && line.length < 1000 && line.includes("|") &&
    /-/.test(line) && /^[\s|:-]+$/.test(line);
const isBlank = (line) => line.trim() === "";
const startsBlock = (line) => FENCE.test(line) || /^#{1,6} /.test(line) || /^ {0,3}>/.test(line) ||
    ITEM.test(line) || isRule(line);

/* A taker gets all lines and its position, and returns {end, make}; make() builds the node. */
function takeFence(lines, at) {
  const [, marker, language] = FENCE.exec(lines[at]);
  let end = at + 1;
  while (end < lines.length &&
      !(lines[end].trim().startsWith(marker) &&
      lines[end].trim().replaceAll(marker[0], "") === "")) end++;
  const code = lines.slice(at + 1, end).join("\n");
  return { end: end + 1, make: () => codeBlock(code, language) };
}

function codeBlock(code, language) {
  const copy = iconButton("copy", "Copy this code", () => copyText(code, copy));
  return el("div", { class: "codeblock" },
      el("div", { class: "codehead" }, el("span", {}, language || "text"), copy),
    el("pre", { tabindex: "0" }, el("code", {}, code)));
}

function takeHeading(lines, at) {
  const level = /^#+/.exec(lines[at])[0].length;
  const text = lines[at].slice(level).trim().replace(/ #+$/, "");
  return { end: at + 1, make: () => el("h" + Math.min(6, level + 2), {}, inline(text)) };
}

function takeQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { end, make: () =>
      el("blockquote", {}, ...blocks(inner, depth + 1).map((b) => b.make())) };
}

const cellsOf = (line) =>
    line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/)
        .map((cell) => cell.trim().replaceAll("\\|", "|"));

function takeTable(lines, at) {
  const classes = cellsOf(lines[at + 1]).map((c) =>
      (/^:-+:$/.test(c) ? "to-center" : /-:$/.test(c) ? "to-end" : undefined));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end++;
  const row = (line, tag) =>
      el("tr", {}, ...cellsOf(line).slice(0, classes.length)
          .map((c, i) => el(tag, { class: classes[i] }, inline(c))));
  return {
    end,
    make: () => el("div", { class: "table" }, el("table", {}, el("thead", {}, row(lines[at], "th")),
      el("tbody", {}, ...lines.slice(at + 2, end).map((line) => row(line, "td"))))),
  };
}

/* The lines of one item, without its marker; `width` is where its text begins. */
function takeItem(lines, at) {
  const [marker, spaces] = ITEM.exec(lines[at]);
  const width = marker.length || spaces.length + 2;
  const inner = [lines[at].slice(marker.length)];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const indent = /^ */.exec(line)[0].length;
    const goesOn = isBlank(line) ? end + 1 < lines.length &&
        /^ */.exec(lines[end + 1])[0].length >= 2 && !isBlank(lines[end + 1])
      : indent >= Math.min(width, spaces.length + 2) ||
          (!startsBlock(line) && !isBlank(lines[end - 1]));
    if (!goesOn) break;
    inner.push(line.slice(Math.min(indent, width)));
  }
  return { end, inner };
}

function takeList(lines, at, depth) {
  const ordered = (line) => /\d/.test(ITEM.exec(line)[2]);
  const isOrdered = ordered(lines[at]);
  const start = isOrdered ? parseInt(ITEM.exec(lines[at])[2], 10) : 1;
  const items = [];
  let end = at;
  while (end < lines.length && ITEM.test(lines[end]) && !isRule(lines[end]) &&
      ordered(lines[end]) === isOrdered) {
    const item = takeItem(lines, end);
    items.push(item.inner);
    end = item.end;
    if (end + 1 < lines.length && isBlank(lines[end]) && ITEM.test(lines[end + 1])) end++;
  }
  return { end, make: () => listNode(items, isOrdered, start, depth) };
}

function listNode(items, isOrdered, start, depth) {
  const list = el(isOrdered ? "ol" : "ul", isOrdered && start !== 1 ? { start } : {});
  for (const inner of items) {
    const parts = blocks(inner, depth + 1);
    const tight = parts.length > 0 && parts[0].text !== undefined;
    const item = el("li", {}, ...(tight ? [inline(parts[0].text)] : []));
    item.append(...parts.slice(tight ? 1 : 0).map((part) => part.make()));
    list.append(item);
  }
  return list;
}

function takeParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines[end]) &&
      !isTableRule(lines[end + 1])) end++;
  const text = lines.slice(at, end).join("\n").trim();
  return { end, text, make: () => el("p", {}, inline(text)) };
}

function takeBlock(lines, at, depth) {
  const line = lines[at];
  if (depth > NESTING_MAX) return takeParagraph(lines, at);
  if (FENCE.test(line)) return takeFence(lines, at);
  if (/^#{1,6} /.test(line)) return takeHeading(lines, at);
  if (isRule(line)) return { end: at + 1, make: () => el("hr") };
  if (/^ {0,3}>/.test(line)) return takeQuote(lines, at, depth);
  if (ITEM.test(line)) return takeList(lines, at, depth);
  if (line.includes("|") && isTableRule(lines[at + 1])) return takeTable(lines, at);
  return takeParagraph(lines, at);
}

/* Splits text to [{source, make}] in one pass, without building nodes. */
function blocks(lines, depth = 0) {
  const out = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const taken = takeBlock(lines, at, depth);
    out.push({ ...taken, source: lines.slice(at, taken.end).join("\n") });
    at = taken.end;
  }
  return out;
}

/* Shows `text` in `parent`; only blocks that changed since the last call are built again. */
function showMarkdown(parent, text) {
  const now = blocks(text.replace(/\r\n?/g, "\n").split("\n"));
  const before = parent.sources || [];
  let same = 0;
  while (same < now.length && same < before.length && now[same].source === before[same]) same++;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  parent.append(...now.slice(same).map((block) => block.make()));
  parent.sources = now.map((block) => block.source);
}
