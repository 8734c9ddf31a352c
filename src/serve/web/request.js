/* The API request of a chat with the settings, and the check of the tools editor. */

const TOOLS_MAX = 128;
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

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
  const { tools } = readTools(settings.tools);
  if (tools.length) request.tools = tools;
  return request;
}

/* ---- tools ---- */

const EXAMPLE_TOOL = { type: "function", function: { name: "get_weather",
  description: "The current weather of a city.", parameters: { type: "object",
    properties: { city: { type: "string", description: "The name of the city." } },
    required: ["city"] } } };

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/* The fault of tool `i`, or "". */
function faultOfTool(tool, i) {
  const at = "Tool " + (i + 1) + ": ";
  if (!isObject(tool)) return at + "must be an object, { … }.";
  if (tool.type !== "function")
    return at + "type is " + JSON.stringify(tool.type) + "; it must be \"function\".";
  const f = tool.function;
  if (!isObject(f)) return at + "function must be an object with a name.";
  if (typeof f.name !== "string" || !TOOL_NAME.test(f.name))
    return at + "function.name is " + JSON.stringify(f.name) +
        "; it must be 1 to 64 letters, digits, _ or -.";
  if (f.description !== undefined && typeof f.description !== "string")
    return at + "function.description must be a string.";
  if (f.parameters !== undefined && !isObject(f.parameters))
    return at + "function.parameters must be a JSON schema, { … }.";
  return "";
}

/* Where JSON.parse failed, as line and column, if the browser says it. */
function placeOf(message, text) {
  const found = /position (\d+)/.exec(message);
  if (!found || /line \d+/.test(message)) return "";
  const before = text.slice(0, Number(found[1])).split("\n");
  return " (line " + before.length + ", column " + (before.at(-1).length + 1) + ")";
}

/* {tools, fault}: the list of the tools editor; if fault is not "", the list is empty. */
function readTools(text) {
  const failed = (fault) => ({ tools: [], fault });
  if (!text.trim()) return failed("");
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (e) {
    return failed("Tools: not valid JSON: " + e.message + placeOf(e.message, text));
  }
  if (!Array.isArray(tools)) return failed("Tools: must be a JSON list, [ … ].");
  if (tools.length > TOOLS_MAX)
    return failed("Tools: " + tools.length + " tools; at most " + TOOLS_MAX + " are allowed.");
  const names = new Set();
  for (const [i, tool] of tools.entries()) {
    const fault = faultOfTool(tool, i);
    if (fault) return failed(fault);
    if (names.has(tool.function.name))
      return failed("Tool " + (i + 1) + ": the name " + tool.function.name + " is used twice.");
    names.add(tool.function.name);
  }
  return { tools, fault: "" };
}
