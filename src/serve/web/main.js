/* The actions of the page: send, stop, settings, API key. One answer runs at a time. */

const LEAVING_MS = 2000; // a closing page first loses its connections

let chat = store.openChat();
let running = null; // {message, chat, abort, begin, frame, saved}
let isEditing = false;
let key = store.session("key");
let model = "";
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

/* At most once a frame, however fast the tokens come. */
function showSoon() {
  if (!running || running.frame) return;
  running.frame = requestAnimationFrame(() => {
    if (!running) return;
    running.frame = 0;
    showNow(running.message);
  });
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
  }
}

async function answer() {
  const message = newAnswer();
  const mine = { message, chat, abort: new AbortController(), begin: performance.now(), frame: 0,
      saved: performance.now() };
  chat.messages.push(message);
  running = mine;
  showAll();
  try {
    await streamAnswer(requestFor(chat, store.settings(), model), key, mine.abort.signal,
        (event) => takeEvent(message, event));
    message.state = "done";
  } catch (e) {
    answerFailed(message, e);
  }
  cancelAnimationFrame(mine.frame);
  running = null;
  store.save(mine.chat);
  showNow(message);
  showAll();
  announce(message.state === "done" ? "The answer is complete. " + statsText(message.stats)
      : message.trouble?.what || "Stopped");
  refocus();
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

  sendResults(message) {
    if (running) return;
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
  if (store.full) announce("The browser storage is full or disabled: this chat is not stored.");
  showToEnd();
}

/* The stop button is hidden now, so the focus moves to the message field. */
function refocus() {
  if (document.activeElement === document.body && matchMedia("(pointer: fine)").matches)
    $("entry").focus();
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

/* ---- the server ---- */

const STATES = {
  ok: ["good", ""],
  loading: ["wait", "loading the model"],
  draining: ["bad", "shutting down"],
  restarting: ["wait", "restarting"],
  wedged: ["wait", "not responding"],
  dead: ["bad", "failed"],
  away: ["bad", "unreachable"],
};
let healthTimer = 0;

async function watchHealth() {
  clearTimeout(healthTimer);
  const { state } = await healthOf();
  const [colour, words] = STATES[state] ?? ["wait", state];
  const was = $("dot").className;
  if (state === "ok" && !model) await findModel();
  $("dot").className = "dot " + colour;
  $("model").textContent = state === "ok" ? model || "ready" : words;
  if (was === "dot bad" && state === "ok") announce("The server is available again.");
  clearTimeout(healthTimer);
  if (state !== "ok" && document.visibilityState === "visible")
    healthTimer = setTimeout(watchHealth, state === "loading" ? 1000 : 3000);
}

async function findModel() {
  try {
    const { status, body } = await getJson("/v1/models", key);
    if (status === 401) return askKey("");
    model = body.data?.[0]?.id ?? "";
    showExamples();
  } catch { /* watchHealth() reports it */ }
}

/* The bundled model can only answer a few kinds of questions. */
function showExamples() {
  const isNano = model === "osprey-nano";
  const examples = isNano
      ? ["What is the capital of France?", "What is 17 + 25?", "Copy this exactly: naïve café"]
      : [];
  if (isNano) {
    $("welcome-text").textContent = "This is osprey-nano, a tiny model for a first try: it knows " +
      "capitals, small sums and how to copy text. Serve gpt-oss for real answers.";
  }
  $("examples").hidden = !isNano;
  $("examples").replaceChildren(...examples.map((text) => el("li", {}, el("button", {
    type: "button",
    onclick: () => { $("entry").value = text; send(); },
  }, text))));
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
  model = "";
  watchHealth();
}

function openSettings() {
  const form = $("settings-form").elements, now = store.settings();
  for (const name of ["system", "temperature", "top_p", "max_tokens", "seed", "tools"])
    form[name].value = now[name];
  form.key.value = key;
  $("settings-error").textContent = "";
  $("tools-part").open = now.tools !== "";
  $("settings").showModal();
}

/* The error message; "": valid. */
function faultOfTools(text) {
  if (!text.trim()) return "";
  try {
    const tools = JSON.parse(text);
    return Array.isArray(tools) ? "" : "Tools: must be a JSON list, [ ... ].";
  } catch (e) {
    return "Tools: not valid JSON: " + e.message;
  }
}

function saveSettings(event) {
  const form = $("settings-form").elements;
  const fault = faultOfTools(form.tools.value);
  $("settings-error").textContent = fault;
  if (fault) {
    event.preventDefault();
    return;
  }
  for (const name of ["system", "temperature", "top_p", "max_tokens", "seed", "tools"])
    store.setting(name, form[name].value.trim());
  if (form.key.value.trim() !== key) useKey(form.key.value);
}

function openChats() {
  const row = (c) => el("li", { "aria-current": c.id === chat.id },
    el("button", { type: "button", class: "pick",
        onclick: () => { $("chats").close(); if (c.id !== chat.id) openChat(c); } },
      el("span", { class: "title" }, titleOf(c)),
      el("span", { class: "when" }, new Date(c.at).toLocaleString())),
    iconButton("close", "Delete this chat", () => {
      store.drop(c.id);
      if (c.id === chat.id) openChat(store.newChat());
      openChats();
    }));
  const rows = store.chats().map(row);
  $("chat-list").replaceChildren(...(rows.length ? rows : [el("li", {}, "No chats yet.")]));
  if (!$("chats").open) $("chats").showModal();
}

/* ---- start ---- */

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
  on("stop", "click", stop);
  on("edit-cancel", "click", () => { endEdit(); $("entry").value = ""; fitEntry(); });
  on("new", "click", () => openChat(store.newChat()));
  on("open-chats", "click", openChats);
  on("theme", "click", switchTheme);
  on("open-settings", "click", openSettings);
  on("settings-form", "submit", saveSettings);
  on("key-form", "submit", () => {
    useKey($("key-form").elements.key.value);
    if (lastMessage()?.trouble?.kind === "key") act.again();
  });
  on("effort", "change", () => store.setting("effort", $("effort").value));
  on("scroll", "scroll", showToEnd);
  on("to-end", "click", () => { view.toEnd(); $("entry").focus(); });
  for (const button of document.querySelectorAll("[data-close]"))
    button.addEventListener("click", () => button.closest("dialog").close());
  document.addEventListener("keydown",
      (e) => { if (e.key === "Escape" && !document.querySelector("dialog[open]")) stop(); });
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
