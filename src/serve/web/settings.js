/* The dialog with the settings: system prompt, sampling, tools, API key. */

const SETTING_FIELDS = ["system", "temperature", "top_p", "max_tokens", "seed", "tools"];

const settingsDialog = {
  useKey: null, // function (key)

  open(key, useKey) {
    const form = $("settings-form").elements, now = store.settings();
    this.useKey = useKey;
    for (const name of SETTING_FIELDS) form[name].value = now[name];
    form.key.value = this.key = key;
    $("settings-error").textContent = "";
    $("tools-part").open = now.tools !== "";
    this.checkTools();
    $("settings").showModal();
  },

  /* Shows the fault, or the names of the tools; returns the fault. */
  checkTools() {
    const field = $("settings-form").elements.tools;
    const { tools, fault } = readTools(field.value);
    field.setAttribute("aria-invalid", String(fault !== ""));
    $("tools-state").className = fault ? "error" : "hint";
    $("tools-state").textContent = fault || (tools.length === 0 ? "No tools."
      : plural(tools.length, "tool") + ": " + tools.map((tool) => tool.function.name).join(", "));
    $("tools-format").disabled = fault !== "" || tools.length === 0;
    return fault;
  },

  /* Adds the example to valid tools; a text with a fault is not replaced. */
  addExample() {
    const field = $("settings-form").elements.tools, { tools, fault } = readTools(field.value);
    if (fault) return;
    const names = new Set(tools.map((tool) => tool.function.name));
    const example = structuredClone(EXAMPLE_TOOL), name = example.function.name;
    for (let n = 2; names.has(example.function.name); n++) example.function.name = name + "_" + n;
    field.value = JSON.stringify([...tools, example], null, 2);
    this.checkTools();
    field.focus();
  },

  format() {
    const field = $("settings-form").elements.tools;
    field.value = JSON.stringify(readTools(field.value).tools, null, 2);
    this.checkTools();
  },

  save(event) {
    const form = $("settings-form").elements, fault = this.checkTools();
    $("settings-error").textContent = fault;
    if (fault) {
      event.preventDefault();
      $("tools-part").open = true;
      form.tools.focus();
      return;
    }
    for (const name of SETTING_FIELDS) store.setting(name, form[name].value.trim());
    if (form.key.value.trim() !== this.key) this.useKey(form.key.value);
    showActive();
  },

  listen() {
    $("settings-form").addEventListener("submit", (e) => this.save(e));
    $("settings-form").elements.tools.addEventListener("input", () => this.checkTools());
    $("tools-example").addEventListener("click", () => this.addExample());
    $("tools-format").addEventListener("click", () => this.format());
  },
};

/* Below the message field: what the next request has besides the messages. */
function showActive() {
  const { system, tools } = store.settings();
  const n = readTools(tools).tools.length;
  const parts = [system && "system prompt", n && plural(n, "tool")].filter(Boolean).join(", ");
  $("active").replaceChildren(...(system ? [el("span", { class: "wide" }, "system ")] : []),
      parts.replace(/^system /, ""));
  $("active").hidden = parts === "";
  $("active").setAttribute("aria-label", "Settings: " + parts);
}
