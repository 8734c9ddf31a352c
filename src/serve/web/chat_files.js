/* Chats as files: JSON, which can be imported again, and Markdown. Also checks chats that come
 * from a file or from the browser's storage. Independent of the page. */

const FILE_FORMAT = "osprey-chats";
const FILE_VERSION = 1;
const FILE_BYTES_MAX = 20 << 20;
const MESSAGES_MAX = 10000; // of a chat in a file
const CALLS_MAX = 128; // of a message

/* ---- export ---- */

function chatsToJson(chats) {
  return JSON.stringify({ format: FILE_FORMAT, version: FILE_VERSION,
    exported: new Date().toISOString(), chats }, null, 1);
}

/* A fence longer than any in the text. */
function fencedText(text, language = "") {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((marks) => marks.length));
  const marks = "`".repeat(longest + 1);
  return marks + language + "\n" + text + "\n" + marks;
}

function answerToMarkdown(m) {
  const parts = [];
  if (m.reasoning)
    parts.push("<details><summary>Reasoning</summary>", fencedText(m.reasoning), "</details>");
  if (m.text) parts.push(m.text);
  for (const call of m.calls) {
    parts.push("Call of `" + call.name + "`:", fencedText(indented(call.arguments), "json"));
    if (call.result !== undefined) parts.push("Result:", fencedText(call.result));
  }
  if (m.state === "stopped") parts.push("*Stopped.*");
  if (m.state === "failed" && m.trouble) parts.push("*" + m.trouble.what + "*");
  return parts;
}

function chatToMarkdown(chat) {
  const parts = ["# " + titleOf(chat).replace(/\s+/g, " ")];
  for (const m of chat.messages) {
    if (m.role === "user") parts.push("## User", m.text);
    else parts.push("## Assistant", ...answerToMarkdown(m));
  }
  return parts.join("\n\n") + "\n";
}

/* A name that is valid on every system. */
function fileName(title, ending) {
  const plain = title.normalize("NFC").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60)
      .replace(/^-+|-+$/g, "");
  return (plain || "chat") + "." + ending;
}

/* ---- import ---- */

const isText = (value) => typeof value === "string";
const textOr = (value, fallback) => (isText(value) ? value : fallback);

/* The numbers of an object, for the statistics. */
function numbersOf(value) {
  if (!isObject(value)) return undefined;
  return Object.fromEntries(Object.entries(value).filter(([, n]) => Number.isFinite(n)));
}

function readCall(call) {
  if (!isObject(call) || !isText(call.name) || !isText(call.arguments)) return null;
  const out = { id: textOr(call.id, ""), name: call.name, arguments: call.arguments };
  if (isText(call.result)) out.result = call.result;
  if (isText(call.draft)) out.draft = call.draft;
  return out;
}

const STATES_OF_ANSWERS = ["running", "done", "stopped", "failed"];

/* The message with its known fields only; null: not a message. */
function readMessage(m) {
  if (!isObject(m)) return null;
  if (m.role === "user") return isText(m.text) ? { role: "user", text: m.text } : null;
  const calls = Array.isArray(m.calls) ? m.calls.map(readCall) : [];
  if (m.role !== "assistant" || !isText(m.text) || calls.length > CALLS_MAX || calls.includes(null))
    return null;
  const out = { role: "assistant", text: m.text, reasoning: textOr(m.reasoning, ""), calls,
    state: STATES_OF_ANSWERS.includes(m.state) ? m.state : "done", stats: numbersOf(m.stats) };
  if (isText(m.finish)) out.finish = m.finish;
  if (isObject(m.trouble) && isText(m.trouble.what))
    out.trouble = { kind: textOr(m.trouble.kind, "broken"), what: m.trouble.what,
      why: textOr(m.trouble.why, ""), waitS: Number(m.trouble.waitS) || 0 };
  return out;
}

/* The chat with its known fields only, or {fault}. */
function readChat(chat) {
  if (!isObject(chat)) return { fault: "must be an object" };
  if (!isText(chat.id) || !/^[\w-]{1,64}$/.test(chat.id))
    return { fault: "id must be 1 to 64 letters, digits, _ or -" };
  if (!Array.isArray(chat.messages) || chat.messages.length > MESSAGES_MAX)
    return { fault: "messages must be a list of at most " + MESSAGES_MAX };
  const messages = chat.messages.map(readMessage);
  const bad = messages.indexOf(null);
  if (bad >= 0) return { fault: "message " + (bad + 1) + " has not the fields of a message" };
  return { id: chat.id, at: Number.isFinite(chat.at) ? chat.at : 0,
    title: textOr(chat.title, "").slice(0, TITLE_CHARS_MAX), messages };
}

/* {chats, fault}: the chats of an exported file; if fault is not "", there are none. */
function chatsFromJson(text) {
  const failed = (fault) => ({ chats: [], fault });
  let file;
  try {
    file = JSON.parse(text);
  } catch (e) {
    return failed("The file is not valid JSON: " + e.message + placeOf(e.message, text));
  }
  if (!isObject(file) || file.format !== FILE_FORMAT)
    return failed("The file is not an export of this page: its format must be \"" + FILE_FORMAT +
        "\".");
  if (file.version !== FILE_VERSION)
    return failed("The file has version " + JSON.stringify(file.version) + "; this page reads " +
        "version " + FILE_VERSION + ".");
  if (!Array.isArray(file.chats)) return failed("The file has no list of chats.");
  const chats = file.chats.map(readChat);
  const bad = chats.findIndex((chat) => chat.fault);
  if (bad >= 0) return failed("Chat " + (bad + 1) + " of the file: " + chats[bad].fault + ".");
  return { chats, fault: "" };
}

/* Stores the chats of a file. A chat that is stored already is left alone; another chat with the
 * same id gets a new id. Returns the message for the user. */
function importChats(text) {
  const { chats, fault } = chatsFromJson(text);
  if (fault) return fault;
  const stored = new Map(store.chats().map((chat) => [chat.id, JSON.stringify(chat.messages)]));
  let added = 0, same = 0;
  for (const chat of chats) {
    if (chat.messages.length === 0) continue;
    if (stored.get(chat.id) === JSON.stringify(chat.messages)) {
      same++;
      continue;
    }
    if (stored.size >= CHATS_MAX)
      return imported(added, same) + " This browser stores at most " + CHATS_MAX + " chats.";
    if (stored.has(chat.id)) chat.id = store.newChat().id;
    if (!store.save(interrupted(chat), chat.at || Date.now()))
      return imported(added, same) + " The browser's storage has no space for more.";
    stored.set(chat.id, JSON.stringify(chat.messages));
    added++;
  }
  return imported(added, same);
}

const imported = (added, same) => plural(added, "chat") + " imported" +
    (same ? ", " + same + " already stored." : ".");
