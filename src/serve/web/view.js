/* The view of the conversation: one node per message, made once and updated by update(). The
 * actions of the buttons are in main.js (`act`). */

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not a secure context: plain HTTP from another machine
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    (document.querySelector("dialog[open]") || document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  announce("Copied");
}

/* ---- texts ---- */

const seconds = (ms) =>
    (ms / 1000 >= 10 ? (ms / 1000).toFixed(0) : (ms / 1000).toFixed(ms >= 1000 ? 1 : 2)) + " s";
const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");

/* Tokens per second after the first token. */
function paceOf(stats) {
  const ms = stats.lastMs - stats.firstMs;
  return stats.tokens > 1 && ms > 0 ? ((stats.tokens - 1) * 1000) / ms : 0;
}

function paceText(stats) {
  const pace = paceOf(stats);
  return pace > 0 ? (pace >= 10 ? pace.toFixed(0) : pace.toFixed(1)) + " tok/s" : "";
}

function statsText(stats) {
  if (!stats || stats.firstMs === undefined) return "";
  return [plural(stats.tokens, "token"), paceText(stats),
      "time to first token " + seconds(stats.firstMs)].filter(Boolean).join(" · ");
}

function statsTitle(stats) {
  if (!stats || stats.promptTokens === undefined) return undefined;
  return "Prompt: " + plural(stats.promptTokens, "token") + ", " + stats.cachedTokens +
      " of them from the prefix cache. Answer: " +
    plural(stats.tokens, "token") + ", " + stats.reasoningTokens + " of them reasoning.";
}

/* ---- a message ---- */

function userNode(message, isLast, act) {
  const node = el("article", { class: "turn mine" }, el("h2", { class: "unseen" }, "You"),
      el("div", { class: "said" }, message.text));
  const actions = el("div", { class: "actions" });
  const copy = iconButton("copy", "Copy your message", () => copyText(message.text, copy));
  if (isLast) actions.append(iconButton("edit", "Edit your message", act.edit));
  actions.append(copy);
  node.append(actions);
  return node;
}

const STEP_MS = 40; // of building nodes without a pause
const PAUSE_MS = 10;

/* Parts are made when they have content and are then updated in place, so that the selection and
 * the folding of the user remain. */
class AnswerView {
  constructor(message, act) {
    this.message = message;
    this.act = act;
    this.node = el("article", { class: "turn theirs" });
    this.heading = el("h2", { class: "unseen" }, "Answer");
    this.working = el("p", { class: "working" }, "Waiting");
    this.prose = el("div", { class: "prose" });
    this.fresh = []; // nodes whose formulas were not measured
    this.calls = el("div");
    this.end = el("div");
    this.node.append(this.heading, this.working, this.prose, this.calls, this.end);
  }

  update(isLast) {
    const m = this.message;
    this.showReasoning(m);
    this.working.hidden = m.state !== "running" || Boolean(m.reasoning || m.text || m.calls.length);
    this.showProse();
    this.showCalls(m, isLast);
    this.end.replaceChildren(...this.endParts(m, isLast));
  }

  /* A long text is shown in several steps, so that the page stays responsive. */
  showProse() {
    const m = this.message, follow = this.rest && view.isAtEnd();
    const { made, isWhole } = showMarkdown(this.prose, m.text, STEP_MS);
    this.fresh.push(...made);
    if (this.node.isConnected) for (const node of this.fresh.splice(0)) mathFont.fit(node);
    this.node.setAttribute("aria-busy", String(m.state === "running" || !isWhole));
    this.speak(m.state !== "running" && isWhole);
    if (follow) view.toEnd();
    clearTimeout(this.rest);
    const goesOn = !isWhole && this.node.isConnected;
    this.rest = goesOn ? setTimeout(() => this.showProse(), PAUSE_MS) : 0;
  }

  /* The last block of a running answer may still grow. */
  speak(isOver) {
    if (this.message.state === "running") this.isSpoken = true;
    if (!this.isSpoken) return;
    const n = this.prose.childNodes.length;
    speech.upTo(this.prose, isOver ? n : n - 1);
    this.isSpoken = !isOver;
  }

  showReasoning(m) {
    if (!m.reasoning) return;
    if (!this.reasoning) {
      this.thoughts = el("div", { class: "thoughts", tabindex: "0", role: "region",
        "aria-label": "Reasoning" });
      this.summary = el("summary");
      this.reasoning = el("details",
          { class: "reasoning", open: store.settings().unfolded === "yes" }, this.summary,
          this.thoughts);
      this.summary.addEventListener("click",
          () => store.setting("unfolded", this.reasoning.open ? "" : "yes"));
      this.heading.after(this.reasoning);
    }
    const isThinking = m.state === "running" && !m.text && !m.calls.length;
    this.summary.className = isThinking ? "working" : "";
    this.summary.textContent = isThinking ? "Thinking"
        : "Reasoning" + (m.stats?.thoughtMs ? ", " + seconds(m.stats.thoughtMs) : "");
    const text = this.thoughts.firstChild;
    if (text && m.reasoning.startsWith(text.data))
      text.appendData(m.reasoning.slice(text.data.length));
    else this.thoughts.textContent = m.reasoning;
  }

  showCalls(m, isLast) {
    const wants = m.state === "done" && isLast && m.calls.length > 0;
    const key = JSON.stringify([m.calls.map(({ draft, ...call }) => call), wants]);
    if (key === this.callsKey) return;
    this.callsKey = key;
    this.calls.replaceChildren(...m.calls.map((call) => this.callNode(call, wants)));
    if (wants) this.calls.append(el("button",
        { type: "button", class: "primary", onclick: () => this.act.sendResults(m) },
        m.calls.length > 1 ? "Send the results" : "Send the result"));
  }

  callNode(call, wants) {
    const node = el("section", { class: "call", "aria-label": "Call of " + call.name },
        el("p", { class: "call-name" }, call.name),
      codeBox("Arguments", indented(call.arguments), "json"));
    if (call.result !== undefined)
      node.append(el("details", {}, el("summary", {}, "Result"),
        codeBox("Result", call.result, "json")));
    else if (wants)
      node.append(el("label", {}, "Result", this.resultField(call)));
    return node;
  }

  resultField(call) {
    const field = el("textarea", { rows: "2", spellcheck: "false",
      placeholder: "What the function returns",
      oninput: () => { call.draft = field.value; this.act.keepDraft(); },
      onkeydown: (e) => {
        if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
        e.preventDefault();
        this.act.sendResults(this.message);
      } });
    field.value = call.draft ?? "";
    return field;
  }

  endParts(m, isLast) {
    const parts = [];
    if (m.state === "failed" && m.trouble) parts.push(this.troubleNode(m.trouble, isLast));
    if (m.state === "stopped") parts.push(el("p", { class: "note" }, "Stopped."));
    if (m.finish === "length")
      parts.push(el("p", { class: "note" }, "The answer reached its token limit."));
    if (m.state !== "running") parts.push(this.actionsNode(m, isLast));
    return parts;
  }

  troubleNode(trouble, isLast) {
    const node = el("div", { class: "trouble" }, el("p", {}, trouble.what));
    if (trouble.why) node.append(el("p", { class: "why" }, trouble.why));
    if (!isLast) return node;
    if (trouble.kind === "key")
      node.append(el("button", { type: "button", onclick: this.act.askKey }, "Enter the API key"));
    else node.append(el("button", { type: "button", onclick: this.act.again },
        trouble.waitS > 0 ? "Retry (after " + trouble.waitS + " s)" : "Retry"));
    return node;
  }

  actionsNode(m, isLast) {
    const actions = el("div", { class: "actions" });
    if (m.text) {
      const copy = iconButton("copy", "Copy the answer", () => copyText(m.text, copy));
      actions.append(copy);
    }
    if (isLast && !m.trouble)
      actions.append(iconButton("again", "Regenerate the answer", this.act.again));
    if (statsText(m.stats))
      actions.append(el("span", { class: "stats", title: statsTitle(m.stats) },
        statsText(m.stats)));
    return actions;
  }
}

function codeBox(label, text, language) {
  const tokens = highlighted(text, language);
  return el("pre", { tabindex: "0", role: "region", "aria-label": label },
      el("code", {}, ...(tokens ? tokenNodes(tokens) : [text])));
}

function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // not complete yet
  }
}

/* ---- the conversation ---- */

const view = {
  answers: new Map(), // message -> AnswerView

  /* Called after any change except a change of an answer's text. */
  rebuild(chat, act) {
    const messages = chat.messages;
    const lastUser = messages.findLastIndex((m) => m.role === "user");
    this.answers = new Map(messages.filter((m) => m.role !== "user").map((m) =>
        [m, this.answers.get(m) ?? new AnswerView(m, act)]));
    $("log").replaceChildren(...messages.map((m, i) => {
      if (m.role === "user") return userNode(m, i === lastUser, act);
      return this.answers.get(m).node;
    }));
    messages.forEach((m, i) => this.update(m, i === messages.length - 1));
    $("welcome").hidden = messages.length > 0;
    this.showTitle(chat);
  },

  showTitle(chat) {
    document.title = chat.messages.length ? titleOf(chat).slice(0, 60) + " · osprey" : "osprey";
  },

  update(message, isLast = true) {
    this.answers.get(message)?.update(isLast);
  },

  /* The view follows the end of the answer unless the user has scrolled away. */
  isAtEnd() {
    const box = $("scroll");
    return box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  },

  toEnd() {
    $("scroll").scrollTop = $("scroll").scrollHeight;
  },
};
