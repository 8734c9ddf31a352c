/* Stored data: chats and settings in localStorage, the API key and the chat of the tab in
 * sessionStorage. If the browser stores nothing (private window, storage full), the page says so
 * and continues to work.
 *
 * A chat is {id, at, title, messages}; title is "" until the user renames it. A message is
 * {role: "user", text}, or {role: "assistant", state, text, reasoning, calls: [{id, name,
 * arguments, result}], finish, trouble, stats}; state is "running", "done", "stopped" or
 * "failed". */

const PREFIX = "osprey.1.";
const CHATS_MAX = 200;
const SETTINGS = ["system", "temperature", "top_p", "max_tokens", "seed", "tools", "effort",
    "theme", "unfolded"];

const store = {
  failed: "", // why the last write failed: "", "full" or "disabled"
  known: new Set(), // ids of stored chats that this page wrote

  read(name, fallback) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + name)) ?? fallback;
    } catch {
      return fallback;
    }
  },

  /* Whether the value is stored. */
  write(name, value) {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
      this.failed = "";
    } catch (e) {
      this.failed = e.name === "QuotaExceededError" ? "full" : "disabled";
    }
    return this.failed === "";
  },

  settings() {
    const found = this.read("settings", {});
    return Object.fromEntries(SETTINGS.map((name) =>
        [name, typeof found[name] === "string" ? found[name] : ""]));
  },

  setting(name, value) {
    this.write("settings", { ...this.settings(), [name]: value });
  },

  chatNames() {
    try {
      return Object.keys(localStorage).filter((name) => name.startsWith(PREFIX + "chat."));
    } catch {
      return [];
    }
  },

  /* Newest first. */
  chats() {
    const found = [];
    for (const name of this.chatNames()) {
      const chat = readChat(this.read(name.slice(PREFIX.length), null));
      if (!chat.fault) found.push(chat);
    }
    return found.sort((a, b) => b.at - a.at);
  },

  /* Stores a chat with its time; the oldest chats beyond CHATS_MAX are deleted. */
  save(chat, at = Date.now()) {
    if (chat.messages.length === 0 || chat.isDeleted) return true;
    chat.at = at;
    const isStored = this.write("chat." + chat.id, chat);
    if (isStored && !this.known.has(chat.id)) {
      this.known.add(chat.id);
      if (this.chatNames().length > CHATS_MAX)
        for (const old of this.chats().slice(CHATS_MAX)) this.drop(old.id);
    }
    return isStored;
  },

  drop(id) {
    this.known.delete(id);
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
    return { id, at: Date.now(), title: "", messages: [] };
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

const TITLE_CHARS_MAX = 120;
const titleOf = (chat) => (chat.title || chat.messages.find((m) => m.role === "user")?.text ||
    "New chat").slice(0, TITLE_CHARS_MAX);
