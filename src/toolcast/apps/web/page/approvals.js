// The calls that wait for an approval, each once: what it would do, and the buttons and keys that decide.
//
// A decision names the fingerprint of the request that was shown, so it never applies to other arguments.

import { WILL_FAIL, renderDiff } from "./diff.js";
import { element, escapeInvisible, indented } from "./dom.js";

const KEYS = { a: "approve", e: "edit", s: "always", r: "reject" };
const GRACE = 600;  // milliseconds without typing, and with the focus here, before a key decides: one that follows was meant for a text
const CONTENT = 60;  // pixels of a card that are visible above its buttons, at least

export class Approvals {
  constructor(node, dispatch) {
    this.node = node;
    this.dispatch = dispatch;
    this.cards = new Map();
    this.arrived = -Infinity;
    this.typed = -Infinity;
    this.pause = Infinity;  // milliseconds without typing before the last key
    this.text = element("p", { id: "all-text", role: "status" });
    this.both = element(
      "span",
      { class: "buttons", hidden: true },
      button("Approve all", "", "approve-all", () => this.decideAll("APPROVE_TOOL_CALL"), "⇧A"),
      button("Reject all", "danger", "reject-all", () => this.decideAll("REJECT_TOOL_CALL"), "⇧R"),
    );
    this.all = element(
      "div",
      { id: "all", class: "all", role: "group", "aria-label": "Decide about all calls", hidden: true },
      this.text,
      this.both,
    );
    this.list = element("div", { class: "approval-list" });
    node.append(this.all, this.list);
    node.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("keydown", (event) => this.onTyping(event), true);
    for (const name of ["focusin", "focusout"]) node.addEventListener(name, (event) => this.tell(node.contains(name === "focusin" ? event.target : event.relatedTarget)));
    node.addEventListener("scroll", () => this.markMore(), { passive: true });
    new ResizeObserver(() => this.markMore()).observe(node);
  }

  // Show these requests, in order. The focus moves to the first that is new, unless it is in a field: it never leaves a
  // field by itself, not even an empty one, in which a text may be begun at this moment. After the last decision it goes
  // to the message box; while the model is `busy` to the chat as a whole, so that it can move to the next request.
  show(pending, busy = false) {
    const before = this.cards, had = this.node.contains(document.activeElement);
    this.cards = new Map(pending.map((request) => [request.fingerprint, before.get(request.fingerprint) ?? new Approval(request, this.dispatch)]));
    const nodes = [...this.cards.values()].map((card) => card.node);
    for (const [fingerprint, card] of before) if (!this.cards.has(fingerprint)) card.node.remove();
    nodes.forEach((node, at) => { if (this.list.children[at] !== node) this.list.insertBefore(node, this.list.children[at] ?? null); });
    this.node.hidden = pending.length === 0;
    this.both.hidden = pending.length < 2;
    this.roving(nodes.find((node) => node.tabIndex === 0) ?? nodes[0]);
    const isNew = pending.some((request) => !before.has(request.fingerprint));
    if (had ? !this.node.contains(document.activeElement) : isNew && !isInField()) this.focus();
    this.tell(this.node.contains(document.activeElement));
    if (had && this.node.hidden) (busy ? this.node.closest("main") : document.getElementById("text")).focus({ preventScroll: true });
    this.markMore();
  }

  // Write how many calls wait, and the keys that lead to them where the focus is elsewhere.
  tell(isHere) {
    const { size } = this.cards, way = isHere ? "" : "Ctrl+Shift+Y", shown = `${size} ${way}`;
    this.all.hidden = size < 2 && isHere;
    if (this.shown === shown) return;
    this.shown = shown;
    const text = size > 1 ? `${size} calls need your approval.` : "A call needs your approval.";
    this.text.replaceChildren(text, ...(way ? [element("span", { class: "keys-only" }, " ", element("kbd", {}, way), " goes there.")] : []));
  }

  // Mark the cards that go on below what is visible: their buttons stay in view, and say so. Those of a card of which
  // hardly anything is visible do not, so that nobody decides about what was not shown.
  markMore() {
    const end = this.node.getBoundingClientRect().bottom;
    for (const { node, actions } of this.cards.values()) {
      const { top, bottom } = node.getBoundingClientRect();
      node.classList.toggle("goes-on", bottom > end + 4 && end - top > actions.offsetHeight + CONTENT);
    }
  }

  focus() {
    if (this.node.hidden) return;
    this.arrived = performance.now();
    this.list.querySelector('[tabindex="0"].approval')?.focus({ preventScroll: true });
    this.node.scrollTop = 0;
  }

  // Measure the pause before each key that writes or deletes a character, wherever it is pressed.
  onTyping({ key, ctrlKey, metaKey, isComposing }) {
    if (!isComposing && (ctrlKey || metaKey || (key.length > 1 && key !== "Backspace" && key !== "Enter"))) return;
    const now = performance.now();
    this.pause = now - this.typed;
    this.typed = now;
  }

  // One card at a time is in the Tab order.
  roving(node) {
    for (const each of this.list.children) each.tabIndex = each === node ? 0 : -1;
  }

  onKey(event) {
    if (event.target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const card = [...this.cards.values()].find(({ node }) => node.contains(event.target));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && event.target === card?.node) {
      const next = this.list.children[[...this.list.children].indexOf(card.node) + step];
      if (!next) return;
      event.preventDefault();
      this.roving(next);
      next.focus();
      return;
    }
    const action = KEYS[event.key.toLowerCase()];
    if (!action || event.repeat || Math.min(this.pause, performance.now() - this.arrived) < GRACE) return;
    event.preventDefault();
    if (event.shiftKey) {
      if (!this.both.hidden && action === "approve") this.decideAll("APPROVE_TOOL_CALL");
      if (!this.both.hidden && action === "reject") this.decideAll("REJECT_TOOL_CALL");
    } else card?.[action]();
  }

  // Decide about the calls that are shown, and no others: each by its fingerprint.
  decideAll(type) {
    this.dispatch({ type, fingerprints: [...this.cards.keys()] });
  }
}

// Return true if the focus is in a field, a dialog or a menu.
function isInField() {
  return document.activeElement?.closest("input, textarea, select, dialog[open], .menu") != null;
}

class Approval {
  constructor(request, dispatch) {
    this.request = request;
    this.dispatch = dispatch;
    this.preview = request.preview ?? { kind: "call", summary: "", arguments: null };
    const name = escapeInvisible(request.tool);
    this.actions = element("div", { class: "decision" });
    this.node = element(
      "section",
      { class: "approval", tabindex: "-1", role: "group", "aria-label": `Approve ${name}?`, "data-call": request.call_id, "data-kind": this.preview.kind },
      element("header", {}, ...this.heading(name)),
      ...(request.reason ? [element("p", { class: "why" }, escapeInvisible(request.reason))] : []),
      ...this.content(),
      this.actions,
    );
    this.offer();
  }

  heading(name) {
    const { kind, directory } = this.preview;
    const tool = element("span", { class: "tool" }, name);
    if (kind === "command") return [tool, element("span", { class: "what" }, directory ? "in " : "", ...(directory ? [element("code", {}, escapeInvisible(directory))] : []))];
    return [tool];
  }

  content() {
    const { kind, command, summary } = this.preview;
    const args = element("pre", { class: "arguments", tabindex: "0", "aria-label": "Arguments" }, indented(this.request.arguments || "{}"));
    if (kind === "diff") return [renderDiff(this.preview)];
    if (kind === "command") return [element("pre", { class: "command", tabindex: "0", "aria-label": "Command" }, escapeInvisible(command))];
    const isShort = args.textContent.split("\n").length < 10 && args.textContent.length < 600;
    const { tool } = this.request, line = summary.startsWith(tool) ? summary.slice(tool.length).trim() : summary;
    const open = isShort && !this.preview.is_complete; // what the line leaves out is shown
    return [element("details", { class: "call-arguments", open }, element("summary", {}, escapeInvisible(line || "no arguments")), args)];
  }

  offer() {
    this.node.classList.remove("edited");
    const always = this.request.always;
    this.why = element("input", { class: "reason", "aria-label": "Reason for the rejection, sent to the model", placeholder: "Reason (sent to the model)" });
    this.why.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) this.refuse();
      else if (event.key === "Escape") this.node.focus();
    });
    this.fill(
      element(
        "div",
        { class: "buttons" },
        button("Approve", WILL_FAIL.test(this.preview.note) ? "approve" : "primary approve", null, () => this.approve(), "A"),
        button("Edit", "edit", null, () => this.edit(), "E"),
        button("Always allow", "always", null, () => this.always(), "S"),
        element("span", { class: "refusal" }, this.why, button("Reject", "danger reject", null, () => this.refuse(), "R")),
      ),
      ...(always ? [element("p", { class: "always-allows" }, "Always allow will allow: ", element("span", {}, escapeInvisible(always)))] : []),
    );
  }

  fill(...elements) {
    const wasHere = this.actions.contains(document.activeElement);
    this.actions.replaceChildren(...elements);
    if (wasHere) this.node.focus({ preventScroll: true });
  }

  answer(type, more = {}) {
    const { call_id, fingerprint } = this.request;
    return this.dispatch({ type, call_id, fingerprint, ...more });
  }

  approve(more) {
    this.answer("APPROVE_TOOL_CALL", more);
  }

  always() {
    this.approve({ for_session: true });
  }

  // Ask for the reason of a rejection first; an empty one is enough.
  reject() {
    this.why.focus();
  }

  refuse() {
    this.answer("REJECT_TOOL_CALL", { reason: this.why.value });
  }

  // Open the text that the call is about, such as a file's new content; else all arguments as JSON.
  edit() {
    const { editable } = this.request;
    const label = editable ? `Edited ${escapeInvisible(editable.argument)}` : "Edited arguments, as JSON";
    const text = editable ? editable.text : indented(this.request.arguments || "{}");
    const rows = Math.min(Math.max(text.split("\n").length + 1, 2), 14);
    const area = element("textarea", { class: "other-arguments", rows, spellcheck: "false", "aria-label": label });
    area.value = text;
    const wrong = element("p", { class: "wrong", role: "alert" });
    const hidden = editable && escapeInvisible(area.value) !== area.value;
    const note = hidden ? [element("p", { class: "note" }, "This text has invisible characters, which are kept where you do not delete them.")] : [];
    const run = () => {
      try {
        this.approve({ arguments: editable ? withText(this.request.arguments, editable.argument, area.value) : checked(area.value) });
      } catch (error) {
        wrong.textContent = `Invalid JSON: ${error.message}`;
      }
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { this.offer(); event.stopPropagation(); }
      else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    });
    this.fill(area, ...note, wrong, element("div", { class: "buttons" }, button("Approve with edits", "primary run-edited", null, run), button("Back", "back", null, () => this.offer())));
    this.node.classList.toggle("edited", !hidden);  // the box takes the place of the text, unless that shows more
    area.focus();
    area.setSelectionRange(0, 0);
    area.scrollTop = 0;
  }
}

function checked(json) {
  JSON.parse(json);
  return json;
}

// Return the arguments with another text for `name`, and every other token as it is: a number keeps its digits.
function withText(json, name, text) {
  let out = "", copied = 0, depth = 0, key = null, begin = null;
  const end = (at) => {
    if (begin === null) return;
    out += json.slice(copied, begin) + JSON.stringify(text);
    copied = at;
    begin = null;
  };
  for (const { 0: token, index } of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if ("]}".includes(token)) depth--;
    if (depth < 2 && (token === "," || depth === 0)) end(index);
    if (depth === 1 && begin === null && token === ":" && key === name) begin = index + 1 + /^\s*/.exec(json.slice(index + 1, index + 99))[0].length;
    if (depth === 1 && token.startsWith('"')) key = JSON.parse(token);
    if ("[{".includes(token)) depth++;
  }
  return out + json.slice(copied);
}

function button(label, kind, id, act, key = "") {
  const hint = key ? [element("kbd", { "aria-hidden": "true" }, key)] : [];
  return element("button", { type: "button", class: kind, id, click: act, "aria-keyshortcuts": key.replace("⇧", "Shift+") || null }, label, ...hint);
}
