// The page: draws the events of the server, and dispatches the actions of the user to the chat. All decisions are the
// server's.
//
// The first event is a `snapshot` of the whole chat; each `change` after it has the fields that changed. After a lost
// connection the browser reconnects, and the server continues after the last event, or begins with a snapshot.

import { Diagram } from "./diagram.js";
import { element, escapeInvisible, schedule } from "./dom.js";
import { Log } from "./messages.js";

const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") ?? "";

const BUSY = ["searching_tools", "generating_response", "streaming_response", "waiting_for_tool_approval", "calling_tool"];
const RETRY_EVENTS = { tool_search: "RETRY_TOOL_SEARCH", generation: "RETRY_GENERATION", stream: "RETRY_GENERATION", tool_call: "RETRY_TOOL_CALL" };
const STAGES = { model_load: "The model could not be loaded", tool_search: "The turn was interrupted", generation: "The model did not answer", stream: "The answer was interrupted", tool_call: "A tool failed" };
const STATE_TEXT = {
  idle: "no model is loaded",
  loading_model: "loading the model",
  load_failed: "no model",
  ready: "ready",
  searching_tools: "searching tools",
  generating_response: "waiting for the model",
  streaming_response: "answering",
  waiting_for_tool_approval: "waiting for your approval",
  calling_tool: "running tools",
};

let state = "";
let context = null;
let diagram = null;
let problem = "";
const log = new Log($("log"), dispatch);

// Events of the server.

function snapshot(data) {
  context = data.context;
  log.put(0, context.messages, context.interrupted);
  if (data.state === "streaming_response") log.restore(context.streamed);
  changeState(data.state, []);
  schedule("view", draw);
  following = true;
}

function change(data) {
  const { messages, ...fields } = data.changes;
  Object.assign(context, fields);
  if (data.state !== "streaming_response" || data.event.type === "GENERATION_SUCCESS") log.endAnswer();
  if (messages) log.put(messages.from, messages.messages, context.interrupted);
  if (data.event.type === "STREAM_CHUNK" && !data.ignored) log.addChunk(data.event.content);
  if (data.event.type === "TOOL_CALL_PROGRESS" && !data.ignored) log.progress(data.event.call_id, data.event.data);
  if (data.event.type === "QUEUE_MESSAGE") following = true;
  if (!data.ignored) changeState(data.state, data.path);
  schedule("view", draw);
}

function changeState(next, path) {
  const stays = next === state && path.length <= 1;
  if (!stays) diagram?.show(next, state, path);
  state = next;
}

// Drawing.

function draw() {
  if (context === null) return;
  const busy = BUSY.includes(state), loading = state === "loading_model";
  $("state").dataset.state = state;
  $("state").textContent = loading ? `${STATE_TEXT[state]}: ${Math.round(context.load_progress)} %` : STATE_TEXT[state] ?? state;
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
  drawApprovals();
  drawQueue();
  drawFacts();
  schedule("follow", follow);
}

function drawNotice() {
  const failed = context.last_error;
  const again = state === "ready" || state === "load_failed" ? retryEvent() : null;
  const text = problem || (failed ? escapeInvisible(`${STAGES[failed.stage] ?? failed.stage}: ${failed.message}`) : again ? "The turn was stopped." : "");
  $("notice").hidden = text === "";
  $("notice").classList.toggle("quiet", !problem && !failed);
  if ($("notice-text").textContent !== text) $("notice-text").textContent = text;
  $("retry").hidden = again === null;
}

function drawApprovals() {
  const waiting = state === "waiting_for_tool_approval" ? context.pending.length : 0;
  $("all").hidden = waiting < 2;
  $("all-text").textContent = `${waiting} calls need your approval.`;
}

// Decide about the calls that are shown, and no others: each by its fingerprint.
function decideAll(type) {
  dispatch({ type, fingerprints: context.pending.map((request) => request.fingerprint) });
}

function retryEvent() {
  if (state === "load_failed") return context.model ? { type: "LOAD_MODEL", model_id: context.model } : null;
  return context.retry in RETRY_EVENTS ? { type: RETRY_EVENTS[context.retry] } : null;
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
  const { input_tokens = 0, output_tokens = 0, cost, known_cost } = context.usage;
  $("fact-tools").textContent = escapeInvisible(context.tools.join(", ")) || "none";
  $("fact-rounds").textContent = `${context.rounds} of ${context.max_rounds}`;
  const tokens = `${input_tokens.toLocaleString("en")} in, ${output_tokens.toLocaleString("en")} out`;
  $("fact-tokens").textContent = tokens + money(cost, known_cost);
}

// The cost is an estimate, and absent where the price of the model is unknown.
function money(cost, known) {
  const amount = Number(cost ?? known ?? NaN);
  if (Number.isNaN(amount)) return "";
  return cost === undefined ? `, at least $${amount.toFixed(4)}` : `, about $${amount.toFixed(4)}`;
}

// The log follows its end until the reader scrolls up, and again once the reader is back at the end.
//
// Only input of the reader stops it: the log also scrolls by itself, when it shrinks for instance, and a scroll event
// arrives a frame late, when more text may already be below.

const NEAR = 60;  // pixels from the end
const UPWARDS = ["ArrowUp", "PageUp", "Home"];
let following = true;
let top = 0;  // position at the last scroll event, or set by `follow`
let finger = 0;
let dragging = false;  // the scrollbar
let grip = 0;  // where the drag began

function isAtEnd() {
  const node = $("log");
  return node.scrollHeight - node.scrollTop - node.clientHeight < NEAR;
}

// Stop following if input at `target` scrolls the log up, and not a box inside it.
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
  else if (event.key === "End") following = true;  // smooth scrolling takes longer than the next lines need to arrive
});
$("log").addEventListener("pointerdown", (event) => {
  dragging = event.target === $("log") && event.offsetX >= $("log").clientWidth;
  if (!dragging) return;
  following = false;
  grip = event.clientY;
});
// The log may scroll a frame after the pointer moved, so its current position does not show an upward drag yet.
addEventListener("pointerup", (event) => {
  const released = dragging && event.clientY >= grip;
  dragging = false;
  if (released) requestAnimationFrame(() => requestAnimationFrame(() => { following ||= isAtEnd(); }));
});
new ResizeObserver(follow).observe($("log"));

// The connection. A hidden tab closes it: a browser allows six per server, and each visible tab needs one.

let source = null;
let last = null;

function connect() {
  if (source !== null || document.visibilityState === "hidden") return;
  const query = new URLSearchParams(last === null ? { token } : { token, after: last });
  source = new EventSource(`events?${query}`);
  const on = (name, act) => source.addEventListener(name, (event) => {
    last = event.lastEventId;
    act(JSON.parse(event.data));
  });
  on("snapshot", snapshot);
  on("change", change);
  source.addEventListener("open", () => { document.body.dataset.connection = "open"; report(""); });
  source.addEventListener("error", connectionLost);
}

function connectionLost() {
  document.body.dataset.connection = "lost";
  const refused = source.readyState === EventSource.CLOSED;
  if (refused) disconnect();
  report(refused ? "The server rejected this page: open the address that the server printed." : "Cannot reach the server. Trying again …");
}

function disconnect() {
  source?.close();
  source = null;
}

function report(text) {
  problem = text;
  if (context !== null) schedule("view", draw);
  else {
    $("notice").hidden = text === "";
    $("notice-text").textContent = text;
  }
}

document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? disconnect() : connect()));

// Actions of the user.

const headers = { Authorization: `Bearer ${token}` };

// Dispatch `event` to the chat; resolves to true if it had an effect.
async function dispatch(event) {
  try {
    const response = await fetch("dispatch", { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(event) });
    const answer = await response.json();
    report(response.ok ? "" : escapeInvisible(answer.error));
    return response.ok && !answer.ignored;
  } catch {
    report("Cannot reach the server: nothing was sent.");
    return false;
  }
}

let sent = Promise.resolve();

function send() {
  const message = $("text").value;
  if (message.trim() === "") return;
  $("text").value = "";
  grow();
  // One after the other, so that they arrive in order. A message that could not be sent goes back in front of newer text.
  sent = sent.then(async () => {
    if (await dispatch({ type: "QUEUE_MESSAGE", message })) return;
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
$("interrupt").addEventListener("click", () => dispatch({ type: "INTERRUPT" }));
$("stop").addEventListener("click", () => dispatch({ type: "STOP" }));
$("approve-all").addEventListener("click", () => decideAll("APPROVE_TOOL_CALL"));
$("reject-all").addEventListener("click", () => decideAll("REJECT_TOOL_CALL"));
$("retry").addEventListener("click", () => { const event = retryEvent(); if (event) dispatch(event); });
$("model-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const model_id = $("model").value.trim();
  $("model").blur();
  if (model_id) dispatch({ type: "LOAD_MODEL", model_id });
});
document.addEventListener("keydown", (event) => {
  const elsewhere = event.target.closest?.(".decision, #model") !== null || event.isComposing;
  // Esc is ignored while an approval is requested: it is pressed too easily.
  if (event.key === "Escape" && BUSY.includes(state) && state !== "waiting_for_tool_approval" && !elsewhere) dispatch({ type: "INTERRUPT" });
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
