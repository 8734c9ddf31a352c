/* Renders the Markdown of answers to DOM nodes; nothing is parsed as HTML. inline.js renders the
 * text within a paragraph. Blocks that are complete keep their nodes and are not read again, so
 * that the cost per token does not grow with the length of the answer. */

const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^`\s]*)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const isRule = (line) => /^ {0,3}[-*_]/.test(line) &&
    /^([-*_])\1{2,}$/.test(line.replace(/ /g, ""));
const isTableRule = (line) => line !== undefined && line.length < 1000 && line.includes("|") &&
    /-/.test(line) && /^[\s|:-]+$/.test(line);
const MATH_BLOCK = /^ {0,3}(\$\$|\\\[)/;
const TASK = /^\[([ xX])\] +/;
const isBlank = (line) => line.trim() === "";
const startsBlock = (line) => FENCE.test(line) || /^#{1,6} /.test(line) || /^ {0,3}>/.test(line) ||
    ITEM.test(line) || isRule(line) || MATH_BLOCK.test(line);

/* A taker gets all lines and its position, and returns {end, make}; make() builds the node. */
function takeFence(lines, at) {
  const [, marker, language] = FENCE.exec(lines[at]);
  let end = at + 1;
  while (end < lines.length &&
      !(lines[end].trim().startsWith(marker) &&
      lines[end].trim().replaceAll(marker[0], "") === "")) end++;
  const code = lines.slice(at + 1, end).join("\n"), open = end >= lines.length;
  const isMath = language === "math" && !open;
  return { end: end + 1, open, code, language,
    make: () => (isMath ? mathBlock(code) : codeBlock(code, language, open)) };
}

/* Lines from $$ to $$, or from \[ to \]. A blank line ends the search: then it is no formula. */
function takeMath(lines, at) {
  const begin = MATH_BLOCK.exec(lines[at]);
  const mark = begin[1] === "$$" ? "$$" : "\\]";
  let end = at, from = begin[0].length;
  const isOver = (i) => i > at && isBlank(lines[i]) && i + 1 < lines.length; // the last may grow
  for (; end < lines.length && !isOver(end); end++, from = 0) {
    const found = lines[end].indexOf(mark, from);
    if (found < 0) continue;
    if (!/^[\s.,;]*$/.test(lines[end].slice(found + 2))) return null; // text follows: inline.js
    const source = lines.slice(at, end + 1).join("\n").trim().slice(2);
    const last = source.lastIndexOf(mark);
    return { end: end + 1, make: () => mathBlock(source.slice(0, last), source.slice(last + 2)) };
  }
  if (end < lines.length) return null;
  const source = lines.slice(at, end).join("\n"); // the end of the formula is not here yet
  return { end, open: true, make: () => el("p", {}, el("code", { class: "math" }, source)) };
}

const mathBlock = (source, after = "") =>
  el("div", { class: "mathblock", tabindex: "0" }, formula(source, true), after.trim());

/* Groups of lines, so that the browser lays out only the last group again when code grows. */
const GROUP_LINES = 200;

function appendCode(parent, text) {
  const lines = text ? text.split(/(?<=\n)/) : [];
  while (lines.length) {
    const last = parent.lastChild;
    const free = last ? GROUP_LINES - last.lines : 0;
    const begun = last?.lastChild && !last.lastChild.data.endsWith("\n");
    if (free <= 0 && !begun) {
      parent.append(el("span", { class: "lines" }));
      parent.lastChild.lines = 0;
      continue;
    }
    const now = lines.splice(0, Math.max(1, free)); // a begun line belongs to its group
    last.append(now.join(""));
    last.lines += now.length - (begun ? 1 : 0);
  }
}

function codeBlock(code, language, open) {
  const copy = iconButton("copy", "Copy this code", () => copyText(node.code, copy));
  const tokens = open ? null : highlighted(code, language);
  const inner = el("code", {}, ...(tokens ? tokenNodes(tokens) : []));
  if (!tokens) appendCode(inner, code);
  const node = el("div", { class: "codeblock" },
      el("div", { class: "codehead" }, el("span", {}, language || "text"), copy),
      el("pre", { tabindex: "0", role: "region", "aria-label": "Code, " + (language || "text") },
          inner));
  node.code = code;
  return node;
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

/* A longer list continues in another block, so that a list that grows is not built again as a
 * whole. */
const LIST_ITEMS_MAX = 100;

function takeList(lines, at, depth) {
  const ordered = (line) => /\d/.test(ITEM.exec(line)[2]);
  const isOrdered = ordered(lines[at]);
  const start = isOrdered ? parseInt(ITEM.exec(lines[at])[2], 10) : 1;
  const items = [];
  let end = at;
  while (end < lines.length && items.length < LIST_ITEMS_MAX && ITEM.test(lines[end]) &&
      !isRule(lines[end]) && ordered(lines[end]) === isOrdered) {
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
    const task = TASK.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    const parts = blocks(inner, depth + 1);
    const tight = parts.length > 0 && parts[0].text !== undefined;
    const item = el("li", { class: task ? "task" : undefined }, ...(task ? [taskBox(task)] : []),
        ...(tight ? [inline(parts[0].text)] : []));
    item.append(...parts.slice(tight ? 1 : 0).map((part) => part.make()));
    list.append(item);
  }
  return list;
}

/* A box that shows a state and cannot be changed. */
function taskBox([, mark]) {
  const done = mark !== " ";
  return el("input", { type: "checkbox", disabled: true, checked: done,
    "aria-label": done ? "done" : "not done" });
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
  return (MATH_BLOCK.test(line) && takeMath(lines, at)) || takeParagraph(lines, at);
}

/* A fault of the page in one block must not hide the answer: then its source is shown. */
function nodeOf(block) {
  try {
    return block.make();
  } catch (e) {
    console.error("the block is shown as text:", e);
    return el("p", { class: "source" }, block.source);
  }
}

/* Splits text to [{source, begin, make}] in one pass, without building nodes; `begin` is the
 * position in the text. */
function blocks(lines, depth = 0) {
  const out = [];
  let begin = 0;
  const pass = (from, to) => { for (let i = from; i < to; i++) begin += lines[i].length + 1; };
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      pass(at, ++at);
      continue;
    }
    const taken = takeBlock(lines, at, depth);
    const end = Math.min(taken.end, lines.length);
    out.push({ ...taken, begin, source: lines.slice(at, end).join("\n") });
    pass(at, end);
    at = end;
  }
  return out;
}

/* Whether the code of an open block, whose end is not here yet, only got longer; then its node is
 * extended. */
function growCode(node, before, now) {
  if (!before.open || !now.open || before.code === undefined ||
      before.language !== now.language || !now.code?.startsWith(before.code)) return false;
  appendCode(node.querySelector("code"), now.code.slice(before.code.length));
  node.code = now.code;
  return true;
}

/* Shows `text` in `parent`. When the text only got longer, the blocks before the last two cannot
 * change: only the rest is read again. Of that, only changed blocks are built again. After
 * `budgetMs` no further block is begun. Returns {made, isWhole}: the new nodes, and whether all of
 * the text is shown; if not, the caller calls again. */
function showMarkdown(parent, text, budgetMs = Infinity) {
  const plain = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
  const { text: oldText, blocks: before } = parent.shown ?? { text: "", blocks: [] };
  if (plain === oldText) return { made: [], isWhole: true };
  const kept = plain.startsWith(oldText) ? Math.max(0, before.length - 2) : 0;
  const from = kept ? before[kept].begin : 0;
  const now = before.slice(0, kept);
  for (const block of blocks(plain.slice(from).split("\n")))
    now.push({ ...block, begin: block.begin + from });
  let same = kept;
  while (same < now.length && same < before.length && (now[same].source === before[same].source &&
      now[same].open === before[same].open ||
      growCode(parent.childNodes[same], before[same], now[same]))) same++;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  const end = performance.now() + budgetMs, made = [];
  for (let i = same; i < now.length && (i === same || performance.now() < end); i++)
    made.push(nodeOf(now[i]));
  parent.append(...made);
  const built = same + made.length, isWhole = built === now.length;
  parent.shown = { text: isWhole ? plain : plain.slice(0, now[built].begin),
    blocks: now.slice(0, built) };
  return { made, isWhole };
}
