/* Colours code of finished code blocks: comments, strings, numbers, keywords, names and calls. A
 * tokenizer per language family, made of one regular expression; not a parser. The text of the
 * tokens together is the code, unchanged. */

const HIGHLIGHT_CHARS_MAX = 60000; // longer code stays plain
const WORD = String.raw`[\p{L}_$][\p{L}\p{N}_$]*`;
const LANGUAGES = new Map();
for (const [language, names] of HIGHLIGHT_NAMES)
  for (const name of names.split(/\s+/)) LANGUAGES.set(name, language);

/* The expression of a language; the names of its groups are "kind" + number. */
function expressionOf(language) {
  if (language.expression) return language.expression;
  const parts = [
    ...language.comments.map((source) => ["comment", source]),
    ...language.strings.map((source) => ["string", source]),
    ...language.more,
    ...(language.isWhole ? [] : [["number", NUMBER], ["word", WORD]]),
  ];
  const fixed = (source, i) => source.replaceAll("\\1", "\\k<b" + i + ">")
      .replace(/(?<![\\[])\((?!\?)/, "(?<b" + i + ">");
  language.kinds = parts.map(([kind]) => kind);
  language.expression = new RegExp(parts.map(([, source], i) =>
    "(?<k" + i + ">" + (source.includes("\\1") ? fixed(source, i) : source) + ")").join("|"), "gu");
  return language.expression;
}

function kindOf(language, groups, text, following) {
  const kind = language.kinds.find((_, i) => groups["k" + i] !== undefined);
  if (kind !== "word") return kind;
  if (language.words.has(language.ignoreCase ? text.toLowerCase() : text)) return "keyword";
  return following === "(" ? "call" : "";
}

/* A list of [kind, text]; kind "" is plain text. */
function tokensOf(code, language) {
  const tokens = [];
  const push = (kind, text) => {
    if (!text) return;
    if (tokens.length && tokens.at(-1)[0] === kind && kind === "") tokens.at(-1)[1] += text;
    else tokens.push([kind, text]);
  };
  let at = 0;
  for (const match of code.matchAll(expressionOf(language))) {
    if (match[0] === "" || match.index < at) continue;
    push("", code.slice(at, match.index));
    at = match.index + match[0].length;
    push(kindOf(language, match.groups, match[0], code[at]), match[0]);
  }
  push("", code.slice(at));
  return tokens;
}

/* HTML with its scripts and styles in their own languages. */
function tokensWithInner(code, language) {
  const tokens = [];
  let at = 0;
  for (const match of code.matchAll(/<(script|style)\b[^>]*>/gi)) {
    const begin = match.index + match[0].length;
    const name = match[1].toLowerCase();
    if (match.index < at) continue;
    const found = code.indexOf("</" + match[1], begin);
    const end = found < 0 ? code.length : found;
    tokens.push(...tokensOf(code.slice(at, begin), language),
        ...tokensOf(code.slice(begin, end), LANGUAGES.get(language.inner[name])));
    at = end;
  }
  return tokens.concat(tokensOf(code.slice(at), language));
}

/* The tokens of `code` in the language of that name; null: unknown language, or too long. */
function highlighted(code, name) {
  const language = LANGUAGES.get(name.toLowerCase());
  if (!language || code.length > HIGHLIGHT_CHARS_MAX) return null;
  return language.inner ? tokensWithInner(code, language) : tokensOf(code, language);
}

/* Nodes for the tokens. */
function tokenNodes(tokens) {
  return tokens.map(([kind, text]) => (kind ? el("span", { class: "t-" + kind }, text) : text));
}
