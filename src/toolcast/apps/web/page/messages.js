// The log of the chat: its messages, the answer in progress, and a card for each tool call.
//
// A message is drawn once. The answer in progress grows chunk by chunk, and is removed when it arrives as a message.

import { element, escapeInvisible, indented, schedule } from "./dom.js";
import { Markdown, markdown, webAddress } from "./markdown.js";

const STATUS = {
  writing: "being written",
  asked: "needs your approval",
  allowed: "will run",
  running: "runs",
  done: "done",
  failed: "error",
  denied: "denied",
  open: "no result",
};

const DENIED = "permission denied: ";  // prefix of the result of a denied call

export class Log {
  constructor(node, dispatch) {
    this.node = node;
    this.dispatch = dispatch;
    this.messages = [];
    this.views = [];
    this.cards = new Map();
    this.live = null;
  }

  // Replace the messages from index `from` on.
  put(from, messages, interrupted) {
    this.endAnswer();
    for (const view of this.views.splice(from)) view.undo();
    this.messages.splice(from, Infinity, ...messages);
    messages.forEach((message, at) => this.views.push(this.view(message, interrupted.includes(from + at))));
  }

  view(message, broken) {
    if (message.role === "tool") return this.results(message);
    const node = element("article", { class: `message ${message.role}`, "aria-label": WHO[message.role] ?? message.role });
    const before = new Map(this.cards);
    for (const part of message.parts) node.append(...this.part(part, message.role));
    if (broken) node.append(element("p", { class: "broken" }, "interrupted"));
    this.node.append(node);
    return { undo: () => { node.remove(); this.cards = before; } };
  }

  part(part, role) {
    if (part.type === "text") {
      return role === "user" ? [element("p", { class: "plain-text" }, part.text)] : [element("div", { class: "prose" }, ...markdown(part.text)), ...sources(part.citations ?? [])];
    }
    if (part.type === "thinking") return part.text ? [thought(part.text)] : [];
    if (part.type === "tool_call") return [this.card(part.id, part.name, part.arguments).node];
    if (part.type === "server_tool") return [used(part)];
    return [element("p", { class: "plain-text" }, `[${part.name ?? part.type}]`)];
  }

  card(id, name, args) {
    const card = new Card(id, name, this.dispatch);
    if (args !== undefined) card.whole(args);
    this.cards.set(id, card);
    return card;
  }

  results(message) {
    const undo = [];
    for (const part of message.parts.filter((each) => each.type === "tool_result")) {
      const card = this.cards.get(part.call_id);
      card?.answered(part.content, part.is_error);
      undo.push(() => card?.unanswered());
    }
    return { undo: () => undo.forEach((back) => back()) };
  }

  // Update the cards: pending approvals and running calls.
  calls({ pending, running }, state) {
    const asked = new Map(pending.map((request) => [request.call_id, request]));
    for (const [id, card] of this.cards) {
      if (card.result !== null || card.isLive) continue;
      if (asked.has(id)) card.ask(asked.get(id));
      else card.become(state === "calling_tool" && running.includes(id) ? "running" : state === "waiting_for_tool_approval" ? "allowed" : "open");
    }
  }

  progress(id, data) {
    this.cards.get(id)?.progress(typeof data === "string" ? data : JSON.stringify(data));
  }

  // Add a chunk of the answer in progress: an event of its stream, or text.
  addChunk(content) {
    const event = typeof content === "string" ? { type: "TextDelta", text: content } : content;
    if (event.type === "Restarted") this.endAnswer();
    this.live ??= new Answer(this);
    this.live.take(event);
  }

  // Draw the answer so far, from a snapshot.
  restore(message) {
    for (const part of message.parts) {
      if (part.type === "text") {
        this.addChunk(part.text);
        for (const citation of part.citations ?? []) this.addChunk({ type: "TextCitation", citation });
      }
      else if (part.type === "thinking") this.addChunk({ type: "ThinkingDelta", text: part.text });
      else if (part.type === "server_tool") this.addChunk({ ...part, type: "ServerToolUse" });
      else if (part.type === "tool_call") {
        this.addChunk({ type: "ToolCallStart", id: part.id, name: part.name });
        this.addChunk({ type: "ToolCallDelta", id: part.id, arguments: part.arguments });
      }
    }
  }

  endAnswer() {
    this.live?.undo();
    this.live = null;
  }
}

const WHO = { user: "You", assistant: "Model", system: "Instructions" };

class Answer {
  constructor(log) {
    this.log = log;
    this.before = new Map(log.cards);
    this.last = null;
    this.node = element("article", { class: "message assistant live", "aria-label": WHO.assistant, "aria-busy": "true" });
    log.node.append(this.node);
  }

  take(event) {
    TAKES[event.type]?.(this, event);
  }

  undo() {
    this.node.remove();
    this.log.cards = this.before;
  }

  text(text) {
    if (this.last?.kind !== "text") {
      const node = element("div", { class: "prose" });
      this.begin("text", node, new Markdown(node));
    }
    this.last.content.add(text);
  }

  thinking(text) {
    if (!text) return;
    if (this.last?.kind !== "thinking") {
      const node = thought("");
      node.open = true;
      this.begin("thinking", node, node.querySelector(".thoughts").firstChild);
    }
    this.last.content.appendData(text);
  }

  call(id, name) {
    const card = this.log.card(id, name);
    card.isLive = true;
    this.begin("call", card.node, card);
  }

  use(event) {
    this.begin("server_tool", used(event));
  }

  // Draw the sources of the text so far, below everything else.
  cite(citation) {
    this.citations ??= [];
    this.citations.push(citation);
    const [node] = sources(this.citations);
    node.open = this.sources?.open ?? false;
    this.sources?.remove();
    this.node.append(node);
    this.sources = node;
  }

  begin(kind, node, content) {
    if (this.last?.kind === "thinking") this.last.node.open = false;
    this.last = { kind, node, content };
    this.node.append(node);
  }
}

const TAKES = {
  TextDelta: (answer, event) => answer.text(event.text),
  ThinkingDelta: (answer, event) => answer.thinking(event.text),
  ServerToolUse: (answer, event) => answer.use(event),
  TextCitation: (answer, event) => answer.cite(event.citation),
  ToolCallStart: (answer, event) => answer.call(event.id, event.name),
  ToolCallDelta: (answer, event) => answer.log.cards.get(event.id)?.add(event.arguments),
  ToolCallReset: (answer, event) => answer.log.cards.get(event.id)?.reset(),
  ToolCallDone: (answer, event) => {
    if (!answer.log.cards.has(event.id)) answer.call(event.id, event.name);
    answer.log.cards.get(event.id).whole(event.arguments);
  },
};

// What the provider did with a tool of its own. Its texts are of web pages, and shown as text alone.
function used({ name, input, output, error }) {
  const found = error ?? output ?? input ?? null;
  const text = typeof found === "string" ? found : JSON.stringify(found, null, 1);
  const kind = error ? "failed" : output === null || output === undefined ? "is used" : "answered";
  return element("details", { class: "thinking" }, element("summary", {}, escapeInvisible(`${name} ${kind}`)), element("div", { class: "thoughts" }, escapeInvisible(text)));
}

// The sources that a text names, each once. URLs and titles are of web pages: a link always shows the URL that it leads
// to, and other URLs than those of HTTP are not shown.
function sources(citations) {
  const shown = new Map();
  for (const { url, title, source_id, file_id, document: index, pages, kind } of citations) {
    const address = webAddress(url);
    const name = escapeInvisible(title || source_id || file_id || (Number.isInteger(index) ? `document ${index + 1}` : address ? "" : kind));
    const where = pages ? ` (page ${pages[0]})` : "";
    const link = address ? element("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer" }, address) : "";
    const key = JSON.stringify([name, where, address]);
    if (!shown.has(key)) shown.set(key, element("li", {}, `${name}${where} `, link));
  }
  if (shown.size === 0) return [];
  return [element("details", { class: "sources" }, element("summary", {}, `Sources (${shown.size})`), element("ol", {}, ...shown.values()))];
}

function thought(text) {
  return element("details", { class: "thinking" }, element("summary", {}, "Thinking"), element("div", { class: "thoughts" }, document.createTextNode(text)));
}

class Card {
  constructor(id, name, dispatch) {
    this.id = id;
    this.name = name;
    this.dispatch = dispatch;
    this.result = null;
    this.request = null;
    this.isLive = false; // its answer is still in progress
    this.text = document.createTextNode("");
    this.status = element("span", { class: "status" });
    this.more = element("div", { class: "more" });
    this.far = element("p", { class: "progress" });
    this.node = element(
      "section",
      { class: "call", tabindex: "-1", "aria-label": `Tool call: ${escapeInvisible(name)}` },
      element("header", {}, element("span", { class: "tool" }, escapeInvisible(name)), this.status),
      element("pre", { class: "arguments", tabindex: "0", "aria-label": "Arguments" }, this.text),
      this.far,
      this.more,
    );
    this.become("writing");
  }

  become(status) {
    if (this.node.dataset.status === status) return;
    this.node.dataset.status = status;
    this.status.textContent = STATUS[status];
    this.request = null;
    this.fill();
  }

  // Show these elements below the arguments. Keyboard focus inside the old ones moves to the card.
  fill(...elements) {
    const wasHere = this.more.contains(document.activeElement);
    this.more.replaceChildren(...elements);
    if (wasHere) this.node.focus({ preventScroll: true });
  }

  // Append a chunk of the arguments' text.
  add(text) {
    this.text.appendData(escapeInvisible(text));
  }

  reset() {
    this.text.data = "";
  }

  whole(args) {
    this.text.data = indented(args || "{}");
  }

  ask(request) {
    if (this.request?.fingerprint === request.fingerprint) return;
    this.become("asked");
    this.request = request;
    this.whole(request.arguments);
    this.fill(this.decision());
  }

  decision() {
    const { call_id, fingerprint, reason } = this.request;
    const approve = (more) => this.dispatch({ type: "APPROVE_TOOL_CALL", call_id, fingerprint, ...more });
    const why = element("input", { class: "reason", "aria-label": "Reason for the rejection, sent to the model", placeholder: "Reason (sent to the model)" });
    const reject = () => this.dispatch({ type: "REJECT_TOOL_CALL", call_id, fingerprint, reason: why.value });
    why.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) reject(); });
    const button = (label, kind, act) => element("button", { type: "button", class: kind, click: act }, label);
    return element(
      "div",
      { class: "decision", role: "group", "aria-label": `Approve ${escapeInvisible(this.name)}?` },
      element("p", { class: "ask" }, reason ? escapeInvisible(reason) : `Run ${escapeInvisible(this.name)} with these arguments?`),
      element(
        "div",
        { class: "buttons" },
        button("Approve", "primary approve", () => approve({})),
        button("Edit", "edit", () => this.edit(approve)),
        button("Always allow", "always", () => approve({ for_session: true })),
        element("span", { class: "refusal" }, why, button("Reject", "danger reject", reject)),
      ),
    );
  }

  edit(approve) {
    const text = element("textarea", { class: "other-arguments", rows: "6", spellcheck: "false", "aria-label": "Edited arguments, as JSON" });
    text.value = indented(this.request.arguments || "{}");
    const wrong = element("p", { class: "wrong", role: "alert" });
    const run = () => {
      try {
        JSON.parse(text.value);
      } catch (error) {
        wrong.textContent = `Invalid JSON: ${error.message}`;
        return;
      }
      approve({ arguments: text.value });
    };
    const back = () => this.fill(this.decision());
    text.addEventListener("keydown", (event) => { if (event.key === "Escape") back(); });
    const buttons = element(
      "div",
      { class: "buttons" },
      element("button", { type: "button", class: "primary run-edited", click: run }, "Run with these"),
      element("button", { type: "button", class: "back", click: back }, "Back"),
    );
    this.fill(element("div", { class: "decision" }, text, wrong, buttons));
    text.focus();
  }

  progress(text) {
    schedule(this.far, () => { this.far.textContent = this.result === null ? escapeInvisible(text) : ""; });
  }

  answered(content, failed) {
    this.become(!failed ? "done" : content.startsWith(DENIED) ? "denied" : "failed");
    this.result = content;
    this.far.textContent = "";
    const text = element("pre", { tabindex: "0" }, content);
    const short = content.length < 300 && content.split("\n").length < 8;
    this.fill(element("details", { class: "result", open: short || failed }, element("summary", {}, "Result"), text));
  }

  unanswered() {
    this.result = null;
    this.become("open");
  }
}
