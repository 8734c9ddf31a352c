/* The dialog with the stored chats: open, search, rename, delete, export and import. */

const chatsDialog = {
  deleted: new Map(), // id -> the chat, until the dialog is closed
  expanded: "", // id of the row that shows its actions
  renaming: "", // id of the row that shows the field of its title
  current: null,
  act: null, // {open(chat), renamed(chat), deleted(chat)}

  open(current, act) {
    Object.assign(this, { current, act, expanded: "", renaming: "" });
    this.deleted.clear();
    $("chats-search").value = "";
    $("chats-note").textContent = "";
    this.show();
    $("chats").showModal();
    $("chats-search").focus();
  },

  /* Stored chats and the deleted ones, which can be restored, that contain the searched text. */
  matching() {
    const wanted = $("chats-search").value.trim().toLowerCase();
    const all = [...store.chats(), ...this.deleted.values()].sort((a, b) => b.at - a.at);
    return { total: all.length, wanted, found: all.filter((chat) => matches(chat, wanted)) };
  },

  show() {
    const { total, wanted, found } = this.matching();
    const none = total ? "No chat contains this text." : "No chats yet.";
    $("chat-list").replaceChildren(...(found.length ? found.map((chat) => this.row(chat, wanted))
      : [el("li", { class: "none" }, none)]));
    $("chats-count").textContent = wanted ? found.length + " of " + plural(total, "chat") : "";
    $("chats-export").disabled = total - this.deleted.size === 0;
  },

  row(chat, wanted) {
    if (this.deleted.has(chat.id)) return this.deletedRow(chat);
    const isExpanded = this.expanded === chat.id;
    const more = iconButton("more", "Actions for " + titleOf(chat), () => {
      this.expanded = isExpanded ? "" : chat.id;
      this.renaming = "";
      this.show();
      this.focusRow(chat.id, ".more-actions");
    });
    more.className += " more-actions";
    more.setAttribute("aria-expanded", String(isExpanded));
    const item = el("li", { "data-id": chat.id },
        el("div", { class: "row" },
            this.renaming === chat.id ? this.titleField(chat) : this.pickButton(chat, wanted),
            more));
    if (isExpanded) item.append(this.actions(chat));
    return item;
  },

  pickButton(chat, wanted) {
    const excerpt = wanted ? excerptOf(chat, wanted) : "";
    const isCurrent = String(chat.id === this.current.id);
    return el("button", { type: "button", class: "pick", "aria-current": isCurrent,
      onclick: () => { $("chats").close(); this.act.open(chat); } },
    el("span", { class: "title" }, titleOf(chat)),
    el("span", { class: "when" }, excerpt || new Date(chat.at).toLocaleString()));
  },

  titleField(chat) {
    const field = el("input", { class: "rename", "aria-label": "Title of the chat",
      maxlength: TITLE_CHARS_MAX });
    field.value = titleOf(chat);
    const end = (title) => {
      if (this.renaming !== chat.id) return; // the field is gone already
      this.renaming = "";
      if (title && title !== titleOf(chat)) this.rename(chat, title);
      this.show();
      this.focusRow(chat.id, ".pick");
    };
    field.addEventListener("keydown", (e) => {
      if (e.isComposing || (e.key !== "Enter" && e.key !== "Escape")) return;
      e.preventDefault(); // Escape does not close the dialog
      e.stopPropagation();
      end(e.key === "Enter" ? field.value.trim() : "");
    });
    field.addEventListener("blur", () => end(field.value.trim()));
    return field;
  },

  actions(chat) {
    const button = (label, onclick) =>
      el("button", { type: "button", class: "plain", onclick }, label);
    return el("div", { class: "chat-actions", role: "group", "aria-label": "Actions for " +
        titleOf(chat) },
    button("Rename", () => {
      this.renaming = chat.id;
      this.show();
      this.focusRow(chat.id, ".rename");
      document.activeElement.select?.();
    }),
    button("Export as Markdown", () =>
      saveFile(fileName(titleOf(chat), "md"), "text/markdown", chatToMarkdown(chat))),
    button("Export as JSON", () =>
      saveFile(fileName(titleOf(chat), "json"), "application/json", chatsToJson([chat]))),
    button("Delete", () => this.remove(chat)));
  },

  rename(chat, title) {
    chat.title = title;
    store.save(chat, chat.at);
    this.act.renamed(chat);
  },

  remove(chat) {
    this.deleted.set(chat.id, chat);
    store.drop(chat.id);
    this.act.deleted(chat);
    this.show();
    this.focusRow(chat.id, "button");
    announce("Deleted. Undo is possible until this dialog is closed.");
  },

  deletedRow(chat) {
    return el("li", { "data-id": chat.id, class: "row none" },
        el("span", { class: "title" }, "Deleted: " + titleOf(chat)),
        el("button", { type: "button", class: "plain", onclick: () => {
          this.deleted.delete(chat.id);
          store.save(chat, chat.at);
          this.show();
          this.focusRow(chat.id, ".pick");
        } }, "Undo"));
  },

  focusRow(id, selector) {
    $("chat-list").querySelector('[data-id="' + id + '"] ' + selector)?.focus();
  },

  exportAll() {
    const day = new Date().toISOString().slice(0, 10);
    saveFile("osprey-chats-" + day + ".json", "application/json", chatsToJson(store.chats()));
  },

  async importFile(file) {
    const tooLarge = file.size > FILE_BYTES_MAX;
    const note = tooLarge ? "The file has " + Math.ceil(file.size / (1 << 20)) +
        " MiB; at most " + (FILE_BYTES_MAX >> 20) + " MiB can be imported."
      : await file.text().then(importChats, () => "The file cannot be read.");
    $("chats-note").textContent = note;
    this.show();
  },

  listen() {
    $("chats-search").addEventListener("input", () => this.show());
    $("chats-export").addEventListener("click", () => this.exportAll());
    $("chats-import").addEventListener("click", () => $("chats-file").click());
    $("chats-file").addEventListener("change", async (e) => {
      const [file] = e.target.files;
      if (file) await this.importFile(file);
      e.target.value = ""; // the same file can be chosen again
    });
  },
};

/* ---- search ---- */

const textsOf = (chat) => [titleOf(chat), ...chat.messages.map((m) => m.text)];
const matches = (chat, wanted) =>
  !wanted || textsOf(chat).some((text) => text.toLowerCase().includes(wanted));

/* A part of the first message that contains the searched text. */
function excerptOf(chat, wanted) {
  for (const m of chat.messages) {
    const at = m.text.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const begin = Math.max(0, at - 30);
    return (begin ? "…" : "") + m.text.slice(begin, at + wanted.length + 60).replace(/\s+/g, " ");
  }
  return "";
}

function saveFile(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000); // the download has begun by then
  announce("Saved as " + name);
}
