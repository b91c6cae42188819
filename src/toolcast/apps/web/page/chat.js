// The page: draws the events of the server, and dispatches the actions of the user to the chat. All decisions are the
// server's.
//
// The first event of a chat is a `snapshot` of it; each `change` after it has the fields that changed. After a lost
// connection the browser reconnects, and the server continues after the last event, or begins with a snapshot.

import { request, url } from "./api.js";
import { Approvals } from "./approvals.js";
import { Composer } from "./composer.js";
import { Diagram } from "./diagram.js";
import { element, escapeInvisible, schedule, withoutEvents } from "./dom.js";
import { openMenu } from "./menu.js";
import { errorNodes } from "./error_text.js";
import { Log } from "./messages.js";
import { ModelPicker } from "./models.js";
import { Notifications } from "./notifications.js";
import { Scroller } from "./scroll.js";
import { Sidebar } from "./sidebar.js";

const $ = (id) => document.getElementById(id);

const BUSY = ["searching_tools", "generating_response", "streaming_response", "waiting_for_tool_approval", "calling_tool"];
const WAITS = "waiting_for_tool_approval";
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
const REJECTED = "The server rejected this page: open the address that the server printed, in the terminal of toolcast web.";
const UNREACHABLE = "Cannot reach the server. Trying again …";
const NARROW = matchMedia("(max-width: 900px)");

let chat = null;  // the id of the chat that is shown
let single = true;  // the server has one chat, without a list
let state = "";
let context = null;
let diagram = null;
let modes = [];
let connection = "";  // what is wrong with the connection
let problem = "";  // the error of the last action
let unsent = false;  // that action did not reach the server
let wanted = null;  // the id of the chat whose calls get the focus once they are shown

const log = new Log($("log"), dispatch, {
  load: (before) => request(`${base()}messages?${new URLSearchParams({ before, limit: 100 })}`),
  fileUrl: (id) => url(`${base()}files/${encodeURIComponent(id)}`),
  leave: () => (NARROW.matches ? $("log") : $("text")).focus({ preventScroll: true }),  // on a phone the box opens a keyboard
});
const scroller = new Scroller($("log"));
const approvals = new Approvals($("approvals"), dispatch);
const composer = new Composer({ send, dispatch, report });
const picker = new ModelPicker((model_id) => dispatch({ type: "LOAD_MODEL", model_id }));
const notifications = new Notifications((id) => { location.hash = id; });
const sidebar = new Sidebar({ watch: watchChats, report, gone: chatDeleted });

// Follow the list of chats: what the title and notifications tell of others.
function watchChats(chats) {
  notifications.watch(chats);
  if (context !== null) schedule("title", drawTitle);
}

// Events of the server.

function snapshot(data) {
  context = data.context;
  log.snapshot(context);
  log.began(context.began ?? {});
  if (data.state === "streaming_response") log.restore(context.streamed);
  $("log").removeAttribute("aria-busy");
  changeState(data.state, []);
  schedule("view", draw);
  scroller.resume();
}

function change(data) {
  const { messages, ...fields } = data.changes;
  Object.assign(context, fields);
  if (data.state !== "streaming_response" || data.event.type === "GENERATION_SUCCESS") log.endAnswer();
  if (messages) log.put(messages.from, messages.messages, context.interrupted);
  if (fields.answers) log.decided(fields.answers);
  if (fields.began) log.began(fields.began);
  if (data.event.type === "STREAM_CHUNK" && !data.ignored) log.addChunk(data.event.content);
  if (data.event.type === "TOOL_CALL_PROGRESS" && !data.ignored) log.progress(data.event.call_id, data.event.data);
  if (data.event.type === "QUEUE_MESSAGE") scroller.resume();
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
  if (context === null) { drawNotice(); return; }
  const reached = connection === "";
  const busy = reached && BUSY.includes(state), loading = reached && state === "loading_model";
  const waiting = state === WAITS ? context.pending.length : 0;
  $("state").dataset.state = state;
  setText($("state"), loading ? `${STATE_TEXT[state]}: ${Math.round(context.load_progress)} %` : STATE_TEXT[state] ?? state);
  $("loading").hidden = !loading;
  if (context.load_progress > 0) $("loading").value = context.load_progress;
  else $("loading").removeAttribute("value");
  $("interrupt").hidden = !reached || state !== "calling_tool";
  $("stop").hidden = !(busy || loading);
  $("empty").hidden = log.messages.length > 0 || log.live !== null;
  setText($("title"), escapeInvisible(context.title || (single ? "toolcast" : "New chat")));
  sidebar.update(chat, { state, waiting, title: context.title ?? "" });
  drawTitle();
  log.calls(context, state);
  log.decorate(context, busy);
  log.restoreFocus();
  approvals.show(waiting ? context.pending : [], busy);
  if (!busy && document.activeElement === document.querySelector("main")) $("text").focus();
  if (wanted === chat) { approvals.focus(); wanted = null; }
  composer.drawButtons(busy || loading, state === "ready");
  composer.drawQueue(context.queue, context.held);
  picker.show(context.model, state);
  drawMode();
  drawNotice();
  drawFacts();
  schedule("follow", () => scroller.follow());
}

function drawTitle() {
  const waiting = state === WAITS, busy = BUSY.includes(state);
  notifications.title(context?.title, { waiting, busy, lost: connection !== "", others: sidebar.waiting(chat) });
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function drawNotice() {
  const failed = context?.last_error;
  const again = state === "ready" || state === "load_failed" ? retryEvent() : null;
  const unsaved = context?.locked || context?.not_saved;
  const turn = unsaved ? escapeInvisible(context.locked ? `You can only read this chat: ${unsaved}` : `This chat is not saved: ${unsaved}`) : failed ? failureText(failed) : again ? stoppedText() : "";
  const text = [connection, connection && !unsent ? "" : problem].filter(Boolean).join(" ") || turn;
  $("notice").hidden = text === "";
  $("notice").classList.toggle("quiet", !connection && !problem && !failed && !unsaved);
  if ($("notice-text").shown !== text) {
    $("notice-text").shown = text;
    $("notice-text").replaceChildren(...(failed && text === turn && !unsaved && !isMarked(failed) ? errorNodes(STAGES[failed.stage] ?? failed.stage, withoutEvents(failed.message)) : [text]));
  }
  $("retry").hidden = connection !== "" || again === null;
  document.body.classList.toggle("lost", connection !== "");
}

function stoppedText() {
  return { empty: "The model answered nothing.", interrupted: "The turn was interrupted." }[context.marks?.at(-1)?.kind] ?? "The turn was stopped.";
}

// Return the stage that failed, and why unless the log shows that.
function failureText(failed) {
  return escapeInvisible(`${STAGES[failed.stage] ?? failed.stage}${isMarked(failed) ? "." : `: ${withoutEvents(failed.message)}`}`);
}

function isMarked({ message }) {
  return context.marks?.some((mark) => mark.kind === "failed" && mark.text === message);
}

function retryEvent() {
  if (state === "load_failed") return context.model ? { type: "LOAD_MODEL", model_id: context.model } : null;
  return context?.retry in RETRY_EVENTS ? { type: RETRY_EVENTS[context.retry] } : null;
}

function drawMode() {
  $("mode").hidden = modes.length === 0;
  setText($("mode-name"), context.mode ?? "no tools");
}

function drawFacts() {
  const { usage, context_tokens: used, context_window: size } = context;
  const { input_tokens = 0, output_tokens = 0 } = usage;
  const tools = context.tools.length > 0 ? context.tools : context.offered_tools ?? [];
  setText($("fact-tools"), escapeInvisible(tools.join(", ")) || "none");
  const allowed = context.always_allowed ?? [];
  $("fact-allowed").parentElement.hidden = allowed.length === 0;
  setText($("fact-allowed"), escapeInvisible(allowed.join("\n")));
  setText($("fact-rounds"), `${context.rounds} of ${context.max_rounds}`);
  setText($("fact-tokens"), `${count(input_tokens)} in, ${count(output_tokens)} out${money(usage)}`);
  const percent = used && size ? `${Math.round((100 * used) / size)} %` : "";
  setText($("fact-context"), used ? `${count(used)}${size ? ` of ${count(size)} tokens, ${percent}` : " tokens"}` : "-");
  const amount = Number(usage.cost ?? usage.known_cost ?? NaN);
  const cost = Number.isNaN(amount) ? "" : `${usage.cost === undefined || usage.cost === null ? "≥ " : ""}$${amount < 1 ? amount.toFixed(3) : amount.toFixed(2)}`;
  $("meter").title = percent ? `Context: ${$("fact-context").textContent}` : "";
  $("meter").hidden = percent === "" && cost === "";
  if ($("meter").textContent !== `${percent}${percent && " context"}${percent && cost && " · "}${cost}`) $("meter").replaceChildren(percent, ...(percent ? [element("span", {}, " context")] : []), percent && cost && " · ", cost);
}

function count(number) {
  return number.toLocaleString("en");
}

// The cost is an estimate, and absent where the price of the model is unknown.
function money({ cost, known_cost }) {
  const amount = Number(cost ?? known_cost ?? NaN);
  if (Number.isNaN(amount)) return "";
  return (cost ?? null) === null ? `, at least $${amount.toFixed(4)}` : `, about $${amount.toFixed(4)}`;
}

// The connection. A hidden tab closes it: a browser allows six per server, and each visible tab needs one.

let source = null;
let last = null;
const received = [];  // events that wait for a frame
const FRAME = 12;  // milliseconds for them: after a pause, thousands may arrive at once

function base(id = chat) {
  return `chats/${encodeURIComponent(id)}/`;
}

function connect() {
  if (source !== null || chat === null || document.visibilityState === "hidden") return;
  source = new EventSource(url(`${base()}events`, last === null ? {} : { after: last }));
  const on = (name, act) => source.addEventListener(name, (event) => {
    last = event.lastEventId;
    received.push(() => act(JSON.parse(event.data)));
    schedule("received", takeReceived);
  });
  on("snapshot", snapshot);
  on("change", change);
  on("chat", (row) => sidebar.put(row));
  source.addEventListener("open", () => {
    if (unsent || document.body.dataset.connection === "lost") report("");
    setConnection("open", "");
  });
  source.addEventListener("error", connectionLost);
}

async function connectionLost() {
  if (source.readyState !== EventSource.CLOSED) { setConnection("lost", UNREACHABLE); return; }
  const lost = chat, wasEmpty = context === null || log.messages.length === 0;
  disconnect();
  setConnection("lost", UNREACHABLE);
  try {
    await request(`${base(lost)}messages?limit=1`);
    if (lost === chat) setTimeout(connect, 1000);
  } catch (error) {
    if (lost !== chat) return;
    if (error.status === 404 && !single) await replaceChat(wasEmpty && context !== null);
    else if (error.status === 0) setTimeout(connect, 1000);
    else setConnection("lost", error.status === 403 ? REJECTED : escapeInvisible(error.message));
  }
}

// Begin a chat in place of one that the server does not have any more. It closes one without messages by itself.
async function replaceChat(wasEmpty) {
  const text = $("text").value;
  if ((await newChat(true)) === null) return;
  composer.move(text);
  if (!wasEmpty) report("That chat does not exist any more. This is a new one.");
}

function takeReceived() {
  const begin = performance.now();
  while (received.length && performance.now() - begin < FRAME) received.shift()();
  if (received.length) schedule("received", takeReceived);
}

function disconnect() {
  source?.close();
  source = null;
}

function setConnection(name, text) {
  document.body.dataset.connection = name;
  connection = text;
  schedule("view", draw);
}

// Show the error of an action, or none.
function report(text) {
  problem = text;
  unsent = false;
  schedule("view", draw);
}

document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? disconnect() : connect()));

// Several chats. The address names the one that is shown, so that back and forward change it.

function openChat(id) {
  if (id === chat) return;
  disconnect();
  chat = id;
  last = null;
  received.length = 0;
  context = null;
  state = "";
  problem = "";
  setConnection("", "");
  log.snapshot({ messages: [], interrupted: [] });
  $("log").setAttribute("aria-busy", "true");
  $("empty").hidden = true;
  approvals.show([]);
  composer.open(id, base(id));
  sidebar.select(id);
  setText($("title"), escapeInvisible(sidebar.chats.find((each) => each.id === id)?.title ?? ""));
  $("state").dataset.state = "";
  setText($("state"), "connecting");
  if (NARROW.matches) showSidebar(false);
  connect();
  if (!document.querySelector("dialog[open]") && !NARROW.matches) $("text").focus();
}

async function newChat(replace = false) {
  try {
    const { id } = await request("chats", { method: "POST", body: {} });
    if (replace) { history.replaceState(null, "", `#${id}`); openChat(id); }
    else location.hash = id;
    sidebar.load();
    $("text").focus();
    return id;
  } catch (error) {
    report(escapeInvisible(error.message));
    return null;
  }
}

function chatDeleted(id) {
  if (id === chat) newChat(true);
}

addEventListener("hashchange", () => {
  const id = decodeURIComponent(location.hash.slice(1));
  if (single || id === "") return;
  openChat(id);
});

// Go to the calls of this chat that wait, or from there, or without any, to those of the next chat that waits.
async function goToCalls() {
  const here = $("approvals");
  if (!here.hidden && !here.contains(document.activeElement)) { approvals.focus(); return; }
  const chats = (await get(`chats?${new URLSearchParams({ limit: 200 })}`))?.chats ?? [];
  const at = chats.findIndex(({ id }) => id === chat);
  const next = [...chats.slice(at + 1), ...chats.slice(0, Math.max(at, 0))].find(({ waiting }) => waiting > 0);
  if (next === undefined) return;
  wanted = next.id;
  location.hash = next.id;
}

function showSidebar(shown, focus = false) {
  if (single) return;
  document.body.classList.toggle("with-sidebar", shown);
  $("sidebar").hidden = !shown;
  $("unfold").hidden = shown && !NARROW.matches;
  $("unfold").setAttribute("aria-expanded", String(shown));
  $("backdrop").hidden = !(shown && NARROW.matches);
  $("fold").setAttribute("aria-label", "Hide the chats");
  if (!NARROW.matches) localStorage.setItem("sidebar", shown ? "shown" : "hidden");
  if (focus) (shown ? $("new-chat") : $("unfold")).focus();
}

function showDetails(shown) {
  $("details").hidden = !shown;
  $("details-button").setAttribute("aria-expanded", String(shown));
  (shown ? $("details-close") : $("details-button")).focus();
}

// Actions of the user.

// Dispatch `event` to the chat; resolves to true if it had an effect.
async function dispatch(event, path = base()) {
  try {
    const answer = await request(`${path}dispatch`, { method: "POST", body: event });
    report("");
    return !answer.ignored;
  } catch (error) {
    report(escapeInvisible(error.message));
    unsent = error.status === 0;
    return false;
  }
}

function send(path, message, files) {
  return dispatch({ type: "QUEUE_MESSAGE", message, ...(files.length > 0 ? { files } : {}) }, path);
}

function chooseMode() {
  openMenu($("mode"), "Mode", modes.map(({ name, description }) => ({ label: name, note: description, checked: name === context.mode, act: () => dispatch({ type: "SET_MODE", mode: name }) })));
}

$("stop").addEventListener("click", () => composer.stop());
$("interrupt").addEventListener("click", () => dispatch({ type: "INTERRUPT" }));
$("retry").addEventListener("click", () => { const event = retryEvent(); if (event) dispatch(event); });
$("mode").addEventListener("click", chooseMode);
$("new-chat").addEventListener("click", () => newChat());
$("fold").addEventListener("click", () => showSidebar(false, true));
$("unfold").addEventListener("click", () => showSidebar(true, true));
$("backdrop").addEventListener("click", () => showSidebar(false, true));
$("details-button").addEventListener("click", () => showDetails($("details").hidden));
$("details-close").addEventListener("click", () => showDetails(false));
$("shortcuts-button").addEventListener("click", () => $("shortcuts").showModal());
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("text").focus(); });
NARROW.addEventListener("change", () => showSidebar(!NARROW.matches && localStorage.getItem("sidebar") !== "hidden"));

const CTRL_SHIFT = {
  KeyO: () => single || newChat(),
  KeyS: () => showSidebar($("sidebar").hidden, true),
  KeyM: () => picker.open(),
  KeyY: goToCalls,
};

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const command = event.ctrlKey || event.metaKey, writing = event.target.closest?.("input, textarea") !== null;
  if (command && event.shiftKey && event.code in CTRL_SHIFT) CTRL_SHIFT[event.code]();
  else if (command && !event.shiftKey && event.code === "KeyK" && !single) { showSidebar(true); $("chat-search").select(); }
  else if ((command && event.key === "/") || (event.key === "?" && !writing)) $("shortcuts").showModal();
  else if (event.key === "/" && !writing) $("text").focus();
  else if (event.key.length === 1 && event.key !== " " && !command && !event.altKey && event.target.matches("body, main, #log")) { $("text").focus(); return; }
  else if (event.key === "Escape") { escape(event); return; }
  else return;
  event.preventDefault();
});

// Esc closes what is open, else it interrupts. It is ignored while an approval is requested: it is pressed too easily.
function escape(event) {
  if (!$("details").hidden && $("details").contains(event.target)) showDetails(false);
  else if (NARROW.matches && !$("sidebar").hidden) showSidebar(false, true);
  else if (BUSY.includes(state) && state !== WAITS && !event.target.closest("#approvals, #sidebar")) dispatch({ type: "INTERRUPT" });
}

async function get(path) {
  try {
    return await request(path);
  } catch {
    return null;
  }
}

async function begin() {
  const chats = await sidebar.load();
  if (chats === null) {
    const isRejected = sidebar.error.status === 403;
    setConnection("lost", isRejected ? REJECTED : UNREACHABLE);
    if (!isRejected) setTimeout(begin, 1000);
    return;
  }
  setConnection("", "");
  single = chats.single;
  document.body.classList.toggle("single", single);
  if (chats.limits) composer.allowFiles(chats.limits);
  showSidebar(!NARROW.matches && localStorage.getItem("sidebar") !== "hidden");
  const named = decodeURIComponent(location.hash.slice(1));
  if (single) openChat(chats.chats[0].id);
  else if (named !== "") openChat(named);
  else await newChat(true);
  const [listed, table] = await Promise.all([get("modes"), get("diagram")]);
  modes = listed?.modes ?? [];
  if (table !== null) diagram = new Diagram($("diagram"), table);
  if (state) diagram?.show(state, state, []);
  schedule("view", draw);
}

begin();
