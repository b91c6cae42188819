// The page: it shows what the server tells of the chat, and says to the chat what its user does. It decides nothing.
//
// The server's first event is a `snapshot`, from which all is drawn; each `change` after it holds what has changed. If
// the connection breaks, the browser makes it again, and the server goes on where it broke, or begins with a snapshot.

import { Diagram } from "./diagram.js";
import { element, seen, soon } from "./dom.js";
import { Log } from "./messages.js";

const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") ?? "";

const BUSY = ["searching_tools", "generating_response", "streaming_response", "waiting_for_tool_approval", "calling_tool"];
const SAY_AGAIN = { tool_search: "RETRY_TOOL_SEARCH", generation: "RETRY_GENERATION", stream: "RETRY_GENERATION", tool_call: "RETRY_TOOL_CALL" };
const STAGES = { model_load: "The model could not be loaded", tool_search: "The turn did not go on", generation: "The model did not answer", stream: "The answer broke off", tool_call: "A tool failed" };
const WORDS = {
  idle: "no model is loaded",
  loading_model: "loading the model",
  load_failed: "no model",
  ready: "ready",
  searching_tools: "looking for tools",
  generating_response: "waiting for the model",
  streaming_response: "answering",
  waiting_for_tool_approval: "waits for your word",
  calling_tool: "running tools",
};

let state = "";
let context = null;
let diagram = null;
let problem = "";
const log = new Log($("log"), say);

// What the server tells.

function snapshot(data) {
  context = data.context;
  log.put(0, context.messages, context.interrupted);
  if (data.state === "streaming_response") log.begun(context.streamed);
  moved(data.state, []);
  soon("view", draw);
  following = true;
}

function change(data) {
  const { messages, ...fields } = data.changes;
  Object.assign(context, fields);
  if (data.state !== "streaming_response" || data.event.type === "GENERATION_SUCCESS") log.endAnswer();
  if (messages) log.put(messages.from, messages.messages, context.interrupted);
  if (data.event.type === "STREAM_CHUNK" && !data.ignored) log.piece(data.event.content);
  if (data.event.type === "TOOL_CALL_PROGRESS" && !data.ignored) log.progress(data.event.call_id, data.event.data);
  if (data.event.type === "QUEUE_MESSAGE") following = true;
  if (!data.ignored) moved(data.state, data.path);
  soon("view", draw);
}

function moved(next, path) {
  const stays = next === state && path.length <= 1;
  if (!stays) diagram?.show(next, state, path);
  state = next;
}

// What is seen of it.

function draw() {
  if (context === null) return;
  const busy = BUSY.includes(state), loading = state === "loading_model";
  $("state").dataset.state = state;
  $("state").textContent = loading ? `${WORDS[state]}: ${Math.round(context.load_progress)} %` : WORDS[state] ?? state;
  $("loading").hidden = !loading;
  if (context.load_progress > 0) $("loading").value = context.load_progress;
  else $("loading").removeAttribute("value");
  $("interrupt").hidden = !busy;
  $("stop").hidden = !(busy || loading);
  $("send").textContent = state === "ready" ? "Send" : "Queue";
  $("empty").hidden = log.messages.length > 0 || log.live !== null;
  if (document.activeElement !== $("model")) $("model").value = context.model ?? "";
  log.calls(context, state);
  drawNotice();
  drawQueue();
  drawFacts();
  soon("follow", follow);
}

function drawNotice() {
  const failed = context.last_error;
  const again = state === "ready" || state === "load_failed" ? retryEvent() : null;
  const words = problem || (failed ? seen(`${STAGES[failed.stage] ?? failed.stage}: ${failed.message}`) : again ? "The turn was stopped." : "");
  $("notice").hidden = words === "";
  $("notice").classList.toggle("quiet", !problem && !failed);
  if ($("notice-text").textContent !== words) $("notice-text").textContent = words;
  $("retry").hidden = again === null;
}

function retryEvent() {
  if (state === "load_failed") return context.model ? { type: "LOAD_MODEL", model_id: context.model } : null;
  return context.retry in SAY_AGAIN ? { type: SAY_AGAIN[context.retry] } : null;
}

function drawQueue() {
  if ($("queue").queue === context.queue) return;
  $("queue").queue = context.queue;
  $("queue").hidden = context.queue.length === 0;
  $("queue").replaceChildren(...context.queue.map((message) => element("li", {}, textOf(message))));
}

function textOf(message) {
  return message.parts.map((part) => part.text ?? `[${part.name ?? part.type}]`).join(" ");
}

function drawFacts() {
  const { input_tokens = 0, output_tokens = 0 } = context.usage;
  $("fact-tools").textContent = seen(context.tools.join(", ")) || "none";
  $("fact-rounds").textContent = `${context.rounds} of ${context.max_rounds}`;
  $("fact-tokens").textContent = `${input_tokens.toLocaleString("en")} in, ${output_tokens.toLocaleString("en")} out`;
}

// The log follows its end until the reader scrolls up, and again once the reader is back at the end.
//
// Only input of the reader ends it: the log also scrolls by itself, when it shrinks for instance, and a scroll event
// arrives a frame late, when more text may already stand below.

const NEAR = 60;  // pixels from the end
const UPWARDS = ["ArrowUp", "PageUp", "Home"];
let following = true;
let top = 0;  // where the log was at the last scroll event, or was put by `follow`
let finger = 0;
let dragging = false;  // the scrollbar
let grip = 0;  // where the pointer took the scrollbar

function isAtEnd() {
  const node = $("log");
  return node.scrollHeight - node.scrollTop - node.clientHeight < NEAR;
}

// End following where input at `target` scrolls the log up, and not a box inside it.
function scrolledUp(target) {
  for (let node = target; node !== $("log"); node = node.parentElement) if (node.scrollTop > 0) return;
  if ($("log").scrollTop > 0) following = false;
}

function follow() {
  if (!following) return;
  $("log").scrollTop = $("log").scrollHeight;
  top = $("log").scrollTop;
}

$("log").addEventListener("scroll", () => {
  const before = top;
  top = $("log").scrollTop;
  if (!dragging && top > before && isAtEnd()) following = true;
});
$("log").addEventListener("wheel", (event) => {
  if (event.deltaY < 0) scrolledUp(event.target);
  else if (event.deltaY > 0 && isAtEnd()) following = true;
}, { passive: true });
$("log").addEventListener("touchstart", (event) => { finger = event.touches[0].clientY; }, { passive: true });
$("log").addEventListener("touchmove", (event) => {
  const before = finger;
  finger = event.touches[0].clientY;
  if (finger > before) scrolledUp(event.target);
}, { passive: true });
$("log").addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea")) return;
  if (UPWARDS.includes(event.key) || (event.key === " " && event.shiftKey)) scrolledUp(event.target);
  else if (event.key === "End") following = true;  // the way there takes longer than the next lines
});
$("log").addEventListener("pointerdown", (event) => {
  dragging = event.target === $("log") && event.offsetX >= $("log").clientWidth;
  if (!dragging) return;
  following = false;
  grip = event.clientY;
});
// The log may scroll a frame after the pointer moved: where it is now does not show yet that it was dragged up.
addEventListener("pointerup", (event) => {
  const released = dragging && event.clientY >= grip;
  dragging = false;
  if (released) requestAnimationFrame(() => requestAnimationFrame(() => { following ||= isAtEnd(); }));
});
new ResizeObserver(follow).observe($("log"));

// The connection. A tab that nobody sees leaves it, for browsers have only six for one server, and all tabs need one.

let source = null;
let last = null;

function connect() {
  if (source !== null || document.visibilityState === "hidden") return;
  const query = new URLSearchParams(last === null ? { token } : { token, after: last });
  source = new EventSource(`events?${query}`);
  const hear = (name, act) => source.addEventListener(name, (event) => {
    last = event.lastEventId;
    act(JSON.parse(event.data));
  });
  hear("snapshot", snapshot);
  hear("change", change);
  source.addEventListener("open", () => { document.body.dataset.connection = "open"; report(""); });
  source.addEventListener("error", lost);
}

function lost() {
  document.body.dataset.connection = "lost";
  const refused = source.readyState === EventSource.CLOSED;
  if (refused) leave();
  report(refused ? "The server does not know this page: open the address that it has printed." : "The server is not there. Trying again …");
}

function leave() {
  source?.close();
  source = null;
}

function report(words) {
  problem = words;
  if (context !== null) soon("view", draw);
  else {
    $("notice").hidden = words === "";
    $("notice-text").textContent = words;
  }
}

document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? leave() : connect()));

// What the user does.

const headers = { Authorization: `Bearer ${token}` };

// Say `event` to the chat; gives whether it could happen.
async function say(event) {
  try {
    const response = await fetch("dispatch", { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(event) });
    const answer = await response.json();
    report(response.ok ? "" : seen(answer.error));
    return response.ok && !answer.ignored;
  } catch {
    report("The server is not there: that was not said.");
    return false;
  }
}

let sent = Promise.resolve();

function send() {
  const message = $("text").value;
  if (message.trim() === "") return;
  $("text").value = "";
  grow();
  // One after the other, so that they arrive in order; what could not be sent goes in front of what has been typed since.
  sent = sent.then(async () => {
    if (await say({ type: "QUEUE_MESSAGE", message })) return;
    $("text").value = [message, $("text").value].filter(Boolean).join("\n");
    grow();
  });
}

function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, 220)}px`;
}

$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("text").addEventListener("input", grow);
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("interrupt").addEventListener("click", () => say({ type: "INTERRUPT" }));
$("stop").addEventListener("click", () => say({ type: "STOP" }));
$("retry").addEventListener("click", () => { const event = retryEvent(); if (event) say(event); });
$("model-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const model_id = $("model").value.trim();
  $("model").blur();
  if (model_id) say({ type: "LOAD_MODEL", model_id });
});
document.addEventListener("keydown", (event) => {
  const elsewhere = event.target.closest?.(".decision, #model") !== null || event.isComposing;
  // Where somebody is asked, Esc is no answer: it is pressed too easily.
  if (event.key === "Escape" && BUSY.includes(state) && state !== "waiting_for_tool_approval" && !elsewhere) say({ type: "INTERRUPT" });
});

async function get(path) {
  const response = await fetch(path, { headers });
  return response.ok ? response.json() : null;
}

async function begin() {
  if (matchMedia("(max-width: 900px)").matches) $("states").open = false;
  connect();
  const [models, table] = await Promise.all([get("models"), get("diagram")]);
  $("models").replaceChildren(...(models?.models ?? []).map((value) => element("option", { value })));
  if (table === null) return;
  diagram = new Diagram($("diagram"), table);
  if (state) diagram.show(state, state, []);
}

begin();
