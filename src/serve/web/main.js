/* The actions of the page: send, stop, settings, API key. One answer runs at a time. */

const LEAVING_MS = 2000; // a closing page first loses its connections

let chat = store.openChat();
let running = null; // {message, chat, abort, begin, frame, saved, shown, shownMs}
let isEditing = false;
let key = store.session("key");
let model = "";
let draftTimer = 0; // of the results that the user is typing
let leftAt = -Infinity; // time of the last beforeunload

const lastMessage = () => chat.messages.at(-1);

/* ---- an answer ---- */

function newAnswer() {
  return { role: "assistant", state: "running", text: "", reasoning: "", calls: [],
      stats: { tokens: 0 } };
}

function takeCall(message, delta) {
  const call = (message.calls[delta.index] ??= { id: "", name: "", arguments: "" });
  if (delta.id) call.id = delta.id;
  if (delta.function?.name) call.name = delta.function.name;
  if (delta.function?.arguments) call.arguments += delta.function.arguments;
}

/* Counts one token per event; the usage at the end has the exact number. */
function countToken(stats, message, hasWords) {
  const now = Math.round(performance.now() - running.begin);
  stats.firstMs ??= now;
  stats.lastMs = now;
  stats.tokens++;
  if (hasWords && message.reasoning) stats.thoughtMs ??= now - stats.firstMs;
}

function takeUsage(stats, usage) {
  stats.tokens = usage.completion_tokens;
  stats.promptTokens = usage.prompt_tokens;
  stats.cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
  stats.reasoningTokens = usage.completion_tokens_details?.reasoning_tokens ?? 0;
}

function takeEvent(message, event) {
  const choice = event.choices?.[0], delta = choice?.delta ?? {};
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
  if (event.usage) takeUsage(message.stats, event.usage);
  if (reasoning || delta.content || delta.tool_calls)
    countToken(message.stats, message, Boolean(delta.content || delta.tool_calls));
  message.reasoning += reasoning;
  message.text += delta.content ?? "";
  for (const call of delta.tool_calls ?? []) takeCall(message, call);
  if (choice?.finish_reason) message.finish = choice.finish_reason;
  showSoon();
}

/* At most once a frame, however fast the tokens come. Showing takes at most a quarter of the time:
 * a long answer is shown less often, and the page stays responsive. */
function showSoon() {
  const mine = running;
  if (!mine || mine.frame) return;
  const waitMs = Math.max(0, mine.shown + 3 * mine.shownMs - performance.now());
  mine.frame = setTimeout(() => requestAnimationFrame(() => {
    if (running !== mine) return;
    mine.frame = 0;
    const begin = performance.now();
    showNow(mine.message);
    mine.shown = performance.now();
    mine.shownMs = mine.shown - begin;
  }), waitMs);
}

function showNow(message) {
  const follow = view.isAtEnd();
  view.update(message, message === lastMessage());
  $("pace").textContent = message.state === "running" ? paceText(message.stats) : "";
  if (follow) view.toEnd();
  showToEnd();
  if (running && performance.now() - running.saved > 1000) {
    running.saved = performance.now();
    store.save(running.chat);
    showStorage();
  }
}

async function answer() {
  const message = newAnswer();
  const mine = { message, chat, abort: new AbortController(), begin: performance.now(), frame: 0,
      saved: performance.now(), shown: 0, shownMs: 0 };
  chat.messages.push(message);
  running = mine;
  speech.begin();
  showAll();
  try {
    await streamAnswer(requestFor(chat, store.settings(), model), key, mine.abort.signal,
        (event) => takeEvent(message, event));
    message.state = "done";
  } catch (e) {
    answerFailed(message, e);
  }
  clearTimeout(mine.frame);
  running = null;
  store.save(mine.chat);
  showNow(message);
  showAll();
  announce(endOf(message));
  refocus();
}

/* What a screen reader says at the end of an answer. */
function endOf(message) {
  if (message.state !== "done") return message.trouble?.what || "Stopped";
  if (message.calls.length === 0) return "The answer is complete. " + statsText(message.stats);
  return "The model calls " + message.calls.map((call) => call.name).join(", ") +
      ". Enter " + (message.calls.length > 1 ? "the results." : "the result.");
}

function answerFailed(message, error) {
  if (error.name === "AbortError") {
    message.state = "stopped";
    return;
  }
  if (performance.now() - leftAt < LEAVING_MS) {
    interrupted({ messages: [message] });
    return;
  }
  const trouble = error instanceof Trouble ? error
      : new Trouble("broken", "The page failed to show the answer.", String(error));
  message.state = "failed";
  message.trouble = { kind: trouble.kind, what: trouble.what, why: trouble.why,
      waitS: trouble.retryAfterS };
  if (trouble.kind === "key") askKey(trouble.why);
  if (trouble.kind === "lost" || trouble.kind === "busy") watchHealth();
}

function stop() {
  running?.abort.abort();
}

/* ---- user actions ---- */

function send() {
  const text = $("entry").value.trim();
  if (!text || running) return;
  clearTimeout(draftTimer);
  if (isEditing) cutFrom(chat.messages.findLastIndex((m) => m.role === "user"));
  chat.messages.push({ role: "user", text });
  $("entry").value = "";
  endEdit();
  fitEntry();
  store.setSession("chat", chat.id);
  answer();
  view.toEnd();
}

function cutFrom(index) {
  if (index >= 0) chat.messages.length = index;
}

const act = {
  edit() {
    if (running) return;
    isEditing = true;
    $("editing").hidden = false;
    $("entry").value = chat.messages.findLast((m) => m.role === "user").text;
    fitEntry();
    $("entry").focus();
  },

  again() {
    if (running) return;
    if (lastMessage()?.role === "assistant") chat.messages.pop();
    answer();
  },

  askKey: () => askKey(""),

  keepDraft() {
    clearTimeout(draftTimer);
    draftTimer = setTimeout(() => store.save(chat, chat.at), 300);
  },

  sendResults(message) {
    if (running) return;
    clearTimeout(draftTimer);
    for (const call of message.calls) {
      call.result = call.draft ?? "";
      delete call.draft;
    }
    answer();
  },
};

function endEdit() {
  isEditing = false;
  $("editing").hidden = true;
}

function openChat(next) {
  stop();
  chat = interrupted(next);
  store.setSession("chat", chat.id);
  endEdit();
  showAll();
  view.toEnd();
  $("entry").focus();
}

/* ---- parts of the page ---- */

function showAll() {
  view.rebuild(chat, act);
  $("send").hidden = Boolean(running);
  $("stop").hidden = !running;
  showActive();
  showStorage();
  showToEnd();
}

const STORAGE_NOTICES = {
  full: "The browser's storage is full: this chat is not stored. Delete or export chats.",
  disabled: "The browser stores nothing for this page: its chats end with this tab.",
};

function showStorage() {
  const notice = STORAGE_NOTICES[store.failed] ?? "";
  if ($("notice-text").textContent === notice) return;
  $("notice-text").textContent = notice;
  $("notice").hidden = notice === "";
}

/* The focus moves to the field that is to be filled in, unless the user is somewhere else: the stop
 * button is hidden now, and an empty message field waits for the results of the calls. */
function refocus() {
  const entry = $("entry"), field = document.querySelector(".call textarea") ?? entry;
  const now = document.activeElement;
  const isFree = now === document.body || (now === entry && entry.value === "");
  if (isFree && matchMedia("(pointer: fine)").matches) field.focus();
}

function showToEnd() {
  $("to-end").hidden = view.isAtEnd();
}

function fitEntry() {
  const entry = $("entry");
  entry.style.height = "auto";
  entry.style.height = entry.scrollHeight + 2 + "px";
}

function showTheme() {
  const chosen = store.settings().theme;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const other = dark ? "Light colours" : "Dark colours";
  $("theme").title = other;
  $("theme").setAttribute("aria-label", other);
}

/* A choice equal to the system setting is not stored, so that the page follows the system. */
function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  const systems = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  store.setting("theme", next === systems ? "" : next);
  showTheme();
}

/* ---- dialogs ---- */

function askKey(why) {
  if ($("key").open) return;
  $("key-text").textContent = key ? "The server refused this API key. Enter another one."
    : "Enter an API key of this server.";
  $("key-form").elements.key.value = "";
  $("key").showModal();
  if (why) announce(why);
}

function useKey(text) {
  key = text.trim();
  store.setSession("key", key);
  findModel().then(watchHealth);
}

function openChats() {
  chatsDialog.open(chat, {
    open: (next) => { if (next.id !== chat.id) openChat(next); },
    renamed: ({ id, title }) => {
      if (id !== chat.id) return;
      chat.title = title;
      view.showTitle(chat);
    },
    deleted: ({ id }) => {
      if (id !== chat.id) return;
      chat.isDeleted = true; // its running answer must not store it again
      openChat(store.newChat());
    },
  });
}

/* ---- start ---- */

const SHORTCUT_ACTIONS = {
  focus: () => $("entry").focus(),
  chats: openChats,
  new: () => openChat(store.newChat()),
  settings: () => settingsDialog.open(key, useKey),
  shortcuts: openShortcuts,
};

function editKey(event) {
  if (event.key !== "ArrowUp" || event.shiftKey || $("entry").value || running || isEditing ||
      !chat.messages.some((m) => m.role === "user")) return;
  event.preventDefault();
  act.edit();
}

function cancelEdit() {
  endEdit();
  $("entry").value = "";
  fitEntry();
  $("entry").focus();
}

/* A dialog has its own keys: only Esc, which closes it. */
function pageKey(event) {
  if (document.querySelector("dialog[open]")) return;
  const run = shortcutOf(event)?.run;
  if (run) {
    event.preventDefault();
    SHORTCUT_ACTIONS[run]();
  } else if (event.key === "Escape" && isEditing) cancelEdit();
  else if (event.key === "Escape") stop();
}

function sendKey(event) {
  const touch = matchMedia("(pointer: coarse)").matches;
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || (touch && !event.ctrlKey))
    return;
  event.preventDefault();
  send();
}

function listen() {
  const on = (id, type, f) => $(id).addEventListener(type, f);
  on("composer", "submit", (e) => { e.preventDefault(); send(); });
  on("entry", "input", fitEntry);
  on("entry", "keydown", sendKey);
  on("entry", "keydown", editKey);
  on("stop", "click", stop);
  on("edit-cancel", "click", cancelEdit);
  on("new", "click", SHORTCUT_ACTIONS.new);
  on("open-chats", "click", openChats);
  on("notice-chats", "click", openChats);
  on("theme", "click", switchTheme);
  on("open-settings", "click", SHORTCUT_ACTIONS.settings);
  on("active", "click", SHORTCUT_ACTIONS.settings);
  on("open-shortcuts", "click", openShortcuts);
  settingsDialog.listen();
  chatsDialog.listen();
  on("key-form", "submit", () => {
    useKey($("key-form").elements.key.value);
    if (lastMessage()?.trouble?.kind === "key") act.again();
  });
  on("effort", "change", () => store.setting("effort", $("effort").value));
  on("scroll", "scroll", showToEnd);
  on("to-end", "click", () => { view.toEnd(); $("entry").focus(); });
  for (const button of document.querySelectorAll("[data-close]"))
    button.addEventListener("click", () => button.closest("dialog").close());
  document.addEventListener("keydown", pageKey);
  document.addEventListener("visibilitychange",
      () => { if (document.visibilityState === "visible") watchHealth(); });
  window.addEventListener("beforeunload", () => { leftAt = performance.now(); });
  window.addEventListener("pagehide", () => { if (running) store.save(running.chat); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
}

showTheme();
listen();
$("effort").value = store.settings().effort;
showAll();
view.toEnd();
fitEntry();
watchHealth();
if (matchMedia("(pointer: fine)").matches) $("entry").focus();
