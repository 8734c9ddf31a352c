/* The state of the server and the name of its model, in the head of the page. `model` and `key` are
 * in main.js. */

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
    if (status !== 200) return;
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
