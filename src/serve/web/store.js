/* Stored data: chats and settings in localStorage, the API key and the chat of the tab in
 * sessionStorage. If the browser stores nothing (private window, storage full), the page says so
 * and continues to work.
 *
 * A chat is {id, at, messages}. A message is {role: "user", text}, or {role: "assistant", state,
 * text, reasoning, calls: [{id, name, arguments, result}], finish, trouble, stats}; state is
 * "running", "done", "stopped" or "failed". */

const PREFIX = "osprey.1.";
const CHATS_MAX = 50;
const SETTINGS = ["system", "temperature", "top_p", "max_tokens", "seed", "tools", "effort",
    "theme", "unfolded"];

const store = {
  full: false,

  read(name, fallback) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + name)) ?? fallback;
    } catch {
      return fallback;
    }
  },

  write(name, value) {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
      this.full = false;
    } catch {
      this.full = true;
    }
  },

  settings() {
    const found = this.read("settings", {});
    return Object.fromEntries(SETTINGS.map((name) =>
        [name, typeof found[name] === "string" ? found[name] : ""]));
  },

  setting(name, value) {
    this.write("settings", { ...this.settings(), [name]: value });
  },

  /* Newest first. */
  chats() {
    const found = [];
    try {
      for (const name of Object.keys(localStorage)) {
        const chat = name.startsWith(PREFIX + "chat.") ? this.read(name.slice(PREFIX.length), null)
            : null;
        if (chat && Array.isArray(chat.messages)) found.push(chat);
      }
    } catch {
      return [];
    }
    return found.sort((a, b) => b.at - a.at);
  },

  save(chat) {
    if (chat.messages.length === 0) return;
    chat.at = Date.now();
    this.write("chat." + chat.id, chat);
    for (const old of this.chats().slice(CHATS_MAX)) this.drop(old.id);
  },

  drop(id) {
    try {
      localStorage.removeItem(PREFIX + "chat." + id);
    } catch { /* nothing is stored */ }
  },

  session(name) {
    try {
      return sessionStorage.getItem(PREFIX + name) || "";
    } catch {
      return "";
    }
  },

  setSession(name, value) {
    try {
      sessionStorage.setItem(PREFIX + name, value);
    } catch { /* the value lasts as long as the page */ }
  },

  newChat() {
    const id = Array.from(crypto.getRandomValues(new Uint8Array(8)),
        (b) => b.toString(16).padStart(2, "0")).join("");
    return { id, at: Date.now(), messages: [] };
  },

  /* The chat of this tab, else the newest one that no other tab is using. */
  openChat() {
    const all = this.chats(), mine = this.session("chat");
    const chat = mine ? all.find((c) => c.id === mine)
        : all.find((c) => c.messages.at(-1)?.state !== "running");
    return interrupted(chat || this.newChat());
  },
};

/* An answer that was running when its page was closed cannot continue. */
function interrupted(chat) {
  for (const m of chat.messages) {
    if (m.state !== "running") continue;
    m.state = "failed";
    m.trouble = { kind: "lost", what: "The page was closed before the answer was complete.",
        why: "" };
  }
  return chat;
}

const titleOf = (chat) =>
    (chat.messages.find((m) => m.role === "user")?.text || "New chat").slice(0, 120);

/* ---- API requests ---- */

/* Reasoning is sent back with tool calls, where the model needs it. */
function messagesFor(chat, system) {
  const out = system ? [{ role: "system", content: system }] : [];
  for (const m of chat.messages) {
    if (m.role === "user") out.push({ role: "user", content: m.text });
    else if (m.calls.length === 0 && m.text) out.push({ role: "assistant", content: m.text });
    else if (m.calls.length > 0) out.push(...callMessages(m));
  }
  return out;
}

function callMessages(m) {
  return [
    {
      role: "assistant",
      content: m.text || null,
      ...(m.reasoning ? { reasoning_content: m.reasoning } : {}),
      tool_calls: m.calls.map((c) =>
          ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } })),
    },
    ...m.calls.map((c) =>
        ({ role: "tool", tool_call_id: c.id, content: c.result ?? "(no result)" })),
  ];
}

function requestFor(chat, settings, model) {
  const request = { messages: messagesFor(chat, settings.system), stream: true,
      stream_options: { include_usage: true } };
  if (model) request.model = model;
  for (const name of ["temperature", "top_p", "max_tokens", "seed"])
    if (settings[name] !== "") request[name] = Number(settings[name]);
  if (settings.effort) request.reasoning_effort = settings.effort;
  if (settings.tools) request.tools = JSON.parse(settings.tools);
  return request;
}
