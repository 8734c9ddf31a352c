/* One answer from the server: the request, its events, and error messages. Independent of the
 * page. */

const SILENCE_MS = 45000; // the server sends a ping every 15 s, so the connection is dead
const HEALTH_MS = 5000;
const LOST = "The connection was lost before the answer was complete.";
const KEPT = "The text received so far is shown.";

/* An error for the user. kind: "key", "busy", "lost", "refused", "broken". */
class Trouble extends Error {
  constructor(kind, what, why = "", retryAfterS = 0) {
    super(what);
    Object.assign(this, { kind, what, why, retryAfterS });
  }
}

function headersOf(key) {
  return key ? { authorization: "Bearer " + key } : {};
}

async function messageOf(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).error.message || "";
  } catch {
    return text.slice(0, 300);
  }
}

async function troubleOf(response) {
  const why = await messageOf(response);
  const wait = parseInt(response.headers.get("retry-after"), 10) || 0;
  if (response.status === 401) return new Trouble("key", "The server requires an API key.", why);
  if (response.status === 429) return new Trouble("busy", "The server is busy.", why, wait);
  if (response.status === 503)
    return new Trouble("busy", "The server cannot answer now.", why, wait);
  return new Trouble("refused", "The server refused this request (" + response.status + ").", why);
}

/* The data of server-sent events. Lines and characters may be split between two chunks. */
async function* eventsOf(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    alive();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

function readEvent(data) {
  let event;
  try {
    event = JSON.parse(data);
  } catch {
    throw new Trouble("broken", "The server sent data that is not an answer.", data.slice(0, 200));
  }
  if (event.error)
    throw new Trouble("broken", "The server ended the answer with an error.",
        event.error.message || "");
  return event;
}

/* Streams an answer and calls take(event) for each event, in order. Throws a Trouble on failure.
 * An abort of `signal` cancels the request on the server and throws AbortError. */
async function streamAnswer(request, key, signal, take) {
  const guard = new AbortController();
  let silent = false, began = false, done = false, timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { silent = true; guard.abort(); }, SILENCE_MS);
  };
  const cancel = () => guard.abort();
  signal.addEventListener("abort", cancel);
  alive();
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", ...headersOf(key) },
      body: JSON.stringify(request),
      signal: guard.signal,
      cache: "no-store",
    });
    if (!response.ok) throw await troubleOf(response);
    began = true;
    for await (const data of eventsOf(response.body, alive)) {
      if (data === "[DONE]") done = true; // reading to the end keeps the connection usable
      else take(readEvent(data));
    }
    if (done) return;
    throw new Trouble("lost", LOST, KEPT);
  } catch (e) {
    if (done) return;
    if (e instanceof Trouble) throw e;
    if (signal.aborted) throw new DOMException("stopped", "AbortError");
    if (silent) throw new Trouble("lost", "No data for " + SILENCE_MS / 1000 + " s.", KEPT);
    throw began ? new Trouble("lost", LOST, KEPT)
      : new Trouble("lost", "The server cannot be reached.",
          "Check that it is running, then retry.");
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
    guard.abort(); // nothing more is read
  }
}

async function getJson(path, key) {
  const response = await fetch(path,
      { headers: headersOf(key), cache: "no-store", signal: AbortSignal.timeout(HEALTH_MS) });
  return { status: response.status, body: await response.json().catch(() => ({})) };
}

/* {state: "ok" | "loading" | ... | "away"} */
async function healthOf() {
  try {
    const { body } = await getJson("/health");
    return { state: body.status || "away", reason: body.reason || "" };
  } catch {
    return { state: "away", reason: "" };
  }
}
