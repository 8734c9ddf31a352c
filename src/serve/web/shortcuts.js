/* The keyboard shortcuts: one table for the keys and for the dialog that lists them. A shortcut
 * with Ctrl also works with the Command key. */

const SHORTCUTS = [
  { keys: "Enter", what: "Send the message" },
  { keys: "Shift+Enter", what: "New line in the message" },
  { keys: "Esc", what: "Stop the answer; close a dialog" },
  { keys: "↑", what: "Edit the last message (in the empty message field)" },
  { keys: "Ctrl+Enter", what: "Send the results (in the result of a tool call)" },
  { keys: "Shift+Esc", what: "Go to the message field", code: "Escape", shift: true, run: "focus" },
  { keys: "Ctrl+K", what: "Chats and search", code: "KeyK", ctrl: true, run: "chats" },
  { keys: "Ctrl+Shift+O", what: "New chat", code: "KeyO", ctrl: true, shift: true, run: "new" },
  { keys: "Ctrl+Shift+S", what: "Settings", code: "KeyS", ctrl: true, shift: true,
    run: "settings" },
  { keys: "Ctrl+/", what: "This list", code: "Slash", ctrl: true, run: "shortcuts" },
];

/* The shortcut of a key event, or undefined. */
function shortcutOf(event) {
  if (event.altKey || event.isComposing) return undefined;
  return SHORTCUTS.find((s) => s.run && s.code === event.code &&
      Boolean(s.ctrl) === (event.ctrlKey || event.metaKey) && Boolean(s.shift) === event.shiftKey);
}

function openShortcuts() {
  $("shortcut-list").replaceChildren(...SHORTCUTS.map(({ keys, what }) => el("div", {},
      el("dt", {}, ...keys.split(/(?<=.)\+/).flatMap((key, i) =>
        (i ? ["+", el("kbd", {}, key)] : [el("kbd", {}, key)]))),
      el("dd", {}, what))));
  $("shortcuts").showModal();
}
