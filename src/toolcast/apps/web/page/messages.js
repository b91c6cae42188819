// The log of the chat: its messages, the answer in progress, and a card for each tool call.
//
// A message is drawn once. The answer in progress grows chunk by chunk; when it arrives as a message, its text stays.

import { copyButton, labelled } from "./code.js";
import { element, escapeInvisible, followEnd, glyph, schedule, withoutEvents } from "./dom.js";
import { errorNodes } from "./error_text.js";
import { Markdown, markdown, webAddress } from "./markdown.js";
import { media } from "./media.js";
import { MessageList } from "./message_list.js";
import { Card } from "./tool_card.js";

const WHO = { user: "You", assistant: "Model", system: "Instructions" };
const MARKS = { failed: "This turn failed", stopped: "This turn was stopped", limit: "This turn reached a limit", empty: "The model answered nothing", interrupted: "This turn was interrupted" };

export class Log {
  // `load(before)` requests earlier messages, `fileUrl(id)` is the address of a file of a message, and `leave()` moves
  // the focus out of the log.
  constructor(node, dispatch, { load, fileUrl = (id) => id, leave = () => {} } = {}) {
    this.node = node;
    this.dispatch = dispatch;
    this.fileUrl = fileUrl;
    this.leave = leave;
    this.focused = null; // the button that had the focus when it was removed
    this.list = new MessageList(node, { draw: (index) => this.view(index), load });
    this.cards = new Map();
    this.asked = new Map(); // the requests for the approval of calls, by their ids
    this.facts = new Map(); // of calls before they ran: what they would change, and whether they were always allowed
    this.live = null;
    this.ended = null; // the answer that has ended, until its message arrives
    this.interrupted = [];
    this.context = null;
    this.editing = null; // the index of the message that is edited
  }

  get messages() {
    return this.list.messages;
  }

  // Show the whole chat of a snapshot: its last messages, from the index `first` on.
  snapshot({ messages, interrupted, first = 0 }) {
    this.endAnswer();
    this.dropEnded();
    this.cards.clear();
    this.facts.clear();
    this.editing = null;
    this.list.clear(first);
    this.put(first, messages, interrupted);
  }

  // Replace the messages from index `from` on.
  put(from, messages, interrupted) {
    this.noteFocus();
    this.endAnswer();
    this.interrupted = interrupted;
    this.editing = null;
    for (const [id, card] of this.cards) if (card.index >= from) this.cards.delete(id);
    this.list.put(from, messages);
    this.dropEnded();
    this.answerCalls(from - 1);
    this.drawn = null;
  }

  view(index) {
    const message = this.list.at(index);
    if (message.role === "tool") return null;
    const children = message.parts.flatMap((part) => this.part(part, message.role, index));
    if (this.interrupted.includes(index)) children.push(element("p", { class: "broken" }, "interrupted"));
    this.drawn = null;
    if (children.some((child) => child.parentNode === this.ended?.node)) return this.continued(children);
    return element("article", { class: `message ${message.role}`, "aria-label": WHO[message.role] ?? message.role }, ...children);
  }

  part(part, role, index) {
    if (part.type === "text") {
      if (role !== "assistant") return [element("p", { class: "plain-text", dir: "auto" }, part.text)];
      return [this.adopt(part.text) ?? element("div", { class: "prose" }, ...markdown(part.text)), ...sources(part.citations ?? [])];
    }
    if (part.type === "thinking") return part.text ? [thought(part.text)] : [];
    if (part.type === "tool_call") return [this.card(part.id, part.name, part.arguments, index).node];
    if (part.type === "server_tool") return [used(part)];
    if (part.type === "cache_point") return [];
    return [media(part, this.fileUrl)];
  }

  // Return the node of the answer in progress that has drawn `text`.
  adopt(text) {
    const view = this.ended?.texts.find((each) => each.whole === text);
    view?.finish();
    return view?.node;
  }

  // Make a message of the answer that has ended. What stays is not moved: its layout would be computed again.
  continued(children) {
    const { node } = this.ended;
    this.ended = null;
    for (const child of [...node.childNodes]) if (!children.includes(child)) child.remove();
    children.forEach((child, at) => { if (node.childNodes[at] !== child) node.insertBefore(child, node.childNodes[at] ?? null); });
    node.classList.remove("live");
    node.removeAttribute("aria-busy");
    return node;
  }

  card(id, name, args, index) {
    const card = new Card(id, name, this);
    card.index = index;
    if (args !== undefined) card.whole(args);
    if (!(this.cards.get(id)?.index > index)) this.cards.set(id, card);
    if (this.facts.has(id)) card.began(this.facts.get(id));
    const result = this.result(index, id);
    if (result) card.answered(result);
    return card;
  }

  // Return the result of a call of the message at `index`.
  result(index, id) {
    for (let at = index + 1; this.list.at(at)?.role === "tool"; at++) {
      const part = this.list.at(at).parts.find((each) => each.type === "tool_result" && each.call_id === id);
      if (part) return part;
    }
    return null;
  }

  // Update the results of the message that the tool messages after `index` belong to.
  answerCalls(index) {
    while (this.list.at(index)?.role === "tool") index--;
    for (const card of this.cards.values()) {
      if (card.index !== index) continue;
      const result = this.result(index, card.id);
      if (result) card.answered(result);
      else card.unanswered();
    }
  }

  // Update the cards: calls that wait for an approval, which approvals.js shows, and running calls.
  calls({ pending, running }, state) {
    const asked = new Set(pending.map((request) => request.call_id));
    for (const request of pending) this.asked.set(request.call_id, request);
    for (const [id, card] of this.cards) {
      if (card.result !== null || card.isLive) continue;
      if (asked.has(id)) card.become("asked");
      else card.become(state === "calling_tool" && running.includes(id) ? "running" : state === "waiting_for_tool_approval" ? "allowed" : "open");
    }
  }

  // Mark the cards of calls that the user has allowed, with those like them, for the session.
  decided(answers) {
    for (const { call_id, action } of answers) if (action === "allow_session") this.cards.get(call_id)?.allowedAlways();
  }

  // Take the facts of calls that are about to run.
  began(calls) {
    for (const [id, facts] of Object.entries(calls)) {
      this.facts.set(id, facts);
      this.cards.get(id)?.began(facts);
    }
  }

  // Return how a call with these arguments was shown before it ran, or for its approval.
  shownAs(id, args) {
    return [this.facts.get(id), this.asked.get(id)].find((each) => each?.preview && each.arguments === args)?.preview;
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
      } else if (part.type === "thinking") this.addChunk({ type: "ThinkingDelta", text: part.text });
      else if (part.type === "server_tool") this.addChunk({ ...part, type: "ServerToolUse" });
      else if (part.type === "tool_call") {
        this.addChunk({ type: "ToolCallStart", id: part.id, name: part.name });
        this.addChunk({ type: "ToolCallDelta", id: part.id, arguments: part.arguments });
      }
    }
  }

  endAnswer() {
    if (this.live === null) return;
    this.live.end();
    this.dropEnded();
    this.ended = this.live;
    this.live = null;
    schedule(this, () => this.dropEnded());
  }

  // Remove the answer that has ended, unless its message has taken its place.
  dropEnded() {
    this.ended?.node.remove();
    this.ended = null;
  }

  // Draw the marks of turns that ended early and the buttons of messages, where they have changed.
  // While the model is `busy` its turn has none: another answer would drop the calls that wait.
  decorate(context, busy = false) {
    const { marks, branches, answered_by: notes } = context;
    const { drawn } = this;
    if (drawn && drawn.marks === marks && drawn.branches === branches && drawn.busy === busy && drawn.notes === notes) return;
    this.drawn = { marks, branches, busy, notes };
    const hasBranches = Array.isArray(branches);
    for (let index = this.list.start; index < this.list.end; index++) {
      const node = this.list.nodeAt(index);
      if (node === null) continue;
      const last = this.turnEnd(index) && !(busy && this.nextShown(index) === Infinity);
      const branch = hasBranches ? this.branchAt(index, last, branches) : null;
      const ended = (marks ?? []).filter((mark) => mark.index >= index && mark.index < this.nextShown(index));
      const note = notes?.[index] ?? null;
      const wanted = JSON.stringify([last, branch, ended, hasBranches, note]);
      if (node.wanted === wanted) continue;
      node.wanted = wanted;
      this.noteFocus();
      for (const old of node.querySelectorAll(":scope > :is(.toolbar, .mark)")) old.remove();
      const marked = ended.map(mark), toolbar = this.toolbar(index, last, branch, hasBranches, note);
      node.append(...(this.list.at(index).role === "user" ? [...toolbar, ...marked] : [...marked, ...toolbar]));
    }
  }

  // Note the button of a message that has the focus, or the box in which a message is edited, before it is removed.
  noteFocus() {
    const active = document.activeElement;
    if (!this.node.contains(active) || !active.closest(".toolbar, .message-edit")) return;
    const article = active.closest("article");
    for (let index = this.list.start; index < this.list.end; index++) {
      if (this.list.nodeAt(index) === article) this.focused = { index, label: active.getAttribute("aria-label"), active };
    }
  }

  // Move the focus of a button that was removed to the one in its place, or else out of the log.
  restoreFocus() {
    const { focused } = this;
    this.focused = null;
    if (focused === null || focused.active.isConnected || document.activeElement !== document.body) return;
    const node = this.list.nodeAt(focused.index);
    const same = [...(node?.querySelectorAll(":scope > .toolbar button") ?? [])].find((each) => each.getAttribute("aria-label") === focused.label);
    const button = same?.disabled ? same.parentNode.querySelector("button:not([disabled])") : same;
    if (button) button.focus({ preventScroll: true });
    else this.leave();
  }

  // Return the index of the message after `index` that has a node.
  nextShown(index) {
    let next = index + 1;
    while (this.list.at(next)?.role === "tool") next++;
    return this.list.at(next) ? next : Infinity;
  }

  // Return true if the message is the last of the model in its turn.
  turnEnd(index) {
    return this.list.at(this.nextShown(index))?.role !== "assistant";
  }

  // Return the branches that the buttons of a message switch: those of a message of the user, or of a turn's answers.
  branchAt(index, last, branches) {
    const { role } = this.list.at(index);
    let begin = index;
    if (role === "assistant") {
      if (!last) return null;
      while (begin > this.list.first && this.list.at(begin - 1).role !== "user") begin--;
    }
    const isLastOfAll = index === this.list.count - 1;
    const point = branches.find((each) => (each.index >= begin && each.index <= index) || (role === "user" && isLastOfAll && each.index === index + 1));
    return point && point.count > 1 ? point : null;
  }

  toolbar(index, last, branch, hasBranches, note) {
    const { role } = this.list.at(index);
    if (role !== "user" && !(role === "assistant" && last)) return [];
    const made = [copyButton(() => this.textOf(index), "Copy message", glyph("copy"))];
    if (role === "user" && hasBranches) made.push(labelled("Edit", "Edit message", () => this.edit(index), {}, glyph("pencil")));
    if (role === "assistant" && hasBranches) made.push(labelled("Regenerate", "Regenerate the answer", () => this.dispatch({ type: "REGENERATE", index }), {}, glyph("again")));
    if (branch) {
      const go = (to) => this.dispatch({ type: "SWITCH_BRANCH", index: branch.index, branch: to });
      made.push(
        element(
          "span",
          { class: "branches", role: "group", "aria-label": "Versions" },
          labelled("‹", "Previous version", () => go(branch.current - 1), { disabled: branch.current === 0 }, glyph("previous")),
          element("span", {}, `${branch.current + 1}/${branch.count}`),
          labelled("›", "Next version", () => go(branch.current + 1), { disabled: branch.current === branch.count - 1 }, glyph("next")),
        ),
      );
      if (role === "assistant") made.unshift(made.pop());  // the other buttons are hidden until one comes near
    }
    if (role === "assistant" && note) made.push(stamp(note));
    return [element("div", { class: "toolbar", role: "toolbar", "aria-label": "Message" }, ...made)];
  }

  // Return the text of a message; of a turn of the model that of all its messages.
  textOf(index) {
    const texts = [];
    for (let at = index; this.list.at(at) && (at === index || this.list.at(at).role !== "user"); at--) {
      if (this.list.at(at).role === this.list.at(index).role) texts.unshift(...textsOf(this.list.at(at)));
      if (this.list.at(index).role === "user") break;
    }
    return texts.join("\n\n");
  }

  // Replace a message of the user by a box in which it is edited.
  edit(index) {
    const node = this.list.nodeAt(index), message = this.list.at(index);
    const shown = [...node.children];
    const box = element("textarea", { "aria-label": "Edited message", rows: "3", dir: "auto" });
    box.value = textsOf(message).join("\n\n");
    const back = () => {
      form.remove();
      for (const each of shown) each.hidden = false;
      node.classList.remove("edited");
      node.querySelector(".toolbar button")?.focus();
    };
    const send = () => {
      const text = box.value.trim();
      if (text === "") return;
      const others = message.parts.filter((part) => part.type !== "text");
      const files = others.flatMap((part) => part.file ?? []);
      this.dispatch({ type: "EDIT_MESSAGE", index, message: text, ...(files.length ? { files } : {}) }).then((done) => {
        if (!done) return;
        const hadFocus = form.contains(document.activeElement);
        back();
        if (hadFocus) this.leave();
      });
    };
    box.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        back();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send();
      }
    });
    box.addEventListener("input", () => grow(box));
    const buttons = element("div", { class: "buttons" }, element("button", { type: "button", class: "primary", click: send }, "Send"), element("button", { type: "button", click: back }, "Cancel"));
    const form = element("div", { class: "message-edit" }, box, buttons);
    for (const each of shown) each.hidden = true;
    node.classList.add("edited");
    node.append(form);
    grow(box);
    box.focus();
  }
}

function grow(box) {
  box.rows = Math.min(Math.max(box.value.split("\n").length + 1, 3), 16);
}

function textsOf(message) {
  return message.parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
}

// Return who has written an answer, and when.
function stamp({ model, time }) {
  const date = new Date(time * 1000), isToday = date.toDateString() === new Date().toDateString();
  const clock = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const day = isToday ? "" : `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, `;
  const text = [escapeInvisible(model.replace(/^[^:]+:/, "")), day + clock].filter(Boolean).join(" · ");
  return element("span", { class: "stamp", title: `${escapeInvisible(model)}, ${date.toLocaleString()}` }, text);
}

function mark({ kind, text }) {
  const words = MARKS[kind] ?? kind;
  const nodes = text && !["stopped", "empty"].includes(kind) ? errorNodes(words, withoutEvents(text)) : [`${words}.`];
  return element("div", { class: "mark", "data-kind": kind }, ...nodes);
}

class Answer {
  constructor(log) {
    this.log = log;
    this.last = null;
    this.texts = [];
    this.node = element("article", { class: "message assistant live", "aria-label": WHO.assistant, "aria-busy": "true" });
    log.node.append(this.node);
  }

  take(event) {
    TAKES[event.type]?.(this, event);
  }

  end() {
    for (const [id, card] of this.log.cards) if (card.isLive) this.log.cards.delete(id);
  }

  text(text) {
    if (this.last?.kind !== "text") {
      const node = element("div", { class: "prose" });
      this.begin("text", node, new Markdown(node));
      this.texts.push(this.last.content);
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
    const { content } = this.last;
    content.appendData(text);
    schedule(content, () => followEnd(content.parentNode));
  }

  call(id, name) {
    const card = this.log.card(id, name, undefined, Infinity);
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
    if (node === undefined) return;
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
  GroundingReport: (answer, event) => (event.grounding.sources ?? []).forEach((source) => answer.cite(source)),
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
