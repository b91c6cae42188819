// The card of a tool call: one line with the tool, what it is called with, and its status; what it does and the result
// are below it, folded. A file's change is shown as a diff and a command as its text, others with their arguments.

import { copyButton } from "./code.js";
import { renderDiff } from "./diff.js";
import { element, escapeInvisible, followEnd, indented, schedule } from "./dom.js";
import { media } from "./media.js";

const STATUS = {
  writing: "being written",
  asked: "needs your approval",
  allowed: "will run",
  running: "runs",
  done: "done",
  failed: "error",
  denied: "denied",
  interrupted: "interrupted",
  unused: "not run",
  open: "no result",
};
const ENDS = { "permission denied: ": "denied", "This call had begun when the user interrupted it": "interrupted", "The call was not run: ": "unused" };  // by the beginning of an error
const EDITED = /^\(The user changed the arguments to (\{.*?)\.\)\n/s;  // before the result of a call, of long arguments the first characters
const COMMAND_END = /\[((?:exit code|ended by the signal|stopped:) .*)\]\n*$/;  // of a command's result
const COMMAND = "run_command";
const OUTPUT = 8000;  // characters of the output of a running command
const ROWS = 2000;  // lines of a diff
const FIRST = ["path", "file_path", "command", "url", "query", "pattern", "name"]; // arguments that say most
const HEAD = 8, TAIL = 7; // lines of a long text
const LONGEST = 4000; // characters of it at each end

export class Card {
  constructor(id, name, log) {
    this.id = id;
    this.name = name;
    this.log = log;
    this.seen = "";  // the output so far of a running command
    this.result = null;
    this.edited = null;  // the arguments of the user, with which it has run
    this.isLive = false; // its answer is still in progress
    this.isWhole = false;
    this.written = 0;
    this.text = document.createTextNode("");
    this.status = element("span", { class: "status" });
    this.summary = element("span", { class: "call-summary", dir: "ltr" });
    this.output = element("div", { class: "result" });
    this.far = element("pre", { class: "progress", dir: "auto" });
    this.json = argumentsBox(this.text);
    this.input = element("div", { class: "input" }, this.json);
    this.fold = element(
      "details",
      {},
      element("summary", {}, element("span", { class: "tool" }, escapeInvisible(name)), this.summary, this.status),
      this.input,
      this.output,
    );
    this.fold.addEventListener("toggle", () => this.drawInput());
    this.node = element("section", { class: "call", tabindex: "-1", "aria-label": `Tool call: ${escapeInvisible(name)}` }, this.fold, this.far);
    this.become("writing");
  }

  become(status) {
    if (this.node.dataset.status === status) return;
    this.node.dataset.status = status;
    this.status.textContent = STATUS[status];
  }

  // Append a chunk of the arguments' text.
  add(text) {
    this.text.appendData(escapeInvisible(text));
    this.written += text.length;
    schedule(this, () => {
      if (this.isWhole) return;
      this.summary.textContent = `${this.written.toLocaleString("en")} characters`;
      followEnd(this.json);
    });
  }

  // Show that the user has allowed this call, and always those like it.
  allowedAlways() {
    this.status.dataset.always = "";
  }

  // Take what is known of the call from before it ran.
  began({ always, arguments: args }) {
    if (args !== this.args && this.edited === null) return;  // of another call: ids are not always different
    if (always) this.allowedAlways();
    this.drawn = null;
    this.drawInput();
  }

  reset() {
    this.text.data = "";
    this.written = 0;
  }

  whole(args) {
    this.args = args || "{}";
    this.text.data = indented(this.args);
    this.summary.textContent = this.edited === null ? summarize(args) : summarize(this.edited, true);
    this.isWhole = true;
    this.drawInput();
  }

  // Draw what the call does, or what it did after an edit of the user, and then folded what the model had written.
  drawInput() {
    const isDone = this.node.dataset.status === "done";
    const key = JSON.stringify([this.args, this.edited, isDone]);
    if (!this.isWhole || !this.fold.open || this.drawn === key) return;
    this.drawn = key;
    const proposed = renderPreview(this.log.shownAs(this.id, this.args) ?? shownBy(this.name, this.args, isDone)) ?? this.json;
    if (this.edited === null) {
      this.input.replaceChildren(proposed);
      return;
    }
    const more = readArguments(this.edited, true).isCut ? "…" : "";
    const known = this.log.facts.get(this.id);  // its arguments are those of the edit
    const ran = renderPreview(known?.preview ?? shownBy(this.name, this.edited, isDone, true)) ?? argumentsBox(indented(this.edited) + more);
    const before = element("details", { class: "proposed" }, element("summary", {}, "What the model had written"), proposed);
    this.input.replaceChildren(element("p", { class: "note" }, "You edited this call. It ran as:"), ran, before);
  }

  editedTo(args) {
    if (this.edited === args) return;
    this.edited = args;
    this.whole(this.args);
  }

  // Show what a running tool reports: the output of a command is appended, other reports follow one another.
  progress(text) {
    this.seen = this.name === COMMAND ? (this.seen + text).slice(-OUTPUT) : text;
    schedule(this.far, () => {
      this.far.textContent = this.result === null ? escapeInvisible(this.seen) : "";
      followEnd(this.far);
    });
  }

  answered({ content: whole, is_error, images }) {
    const edit = EDITED.exec(whole), content = edit ? whole.slice(edit[0].length) : whole;
    this.editedTo(edit ? edit[1] : null);
    const end = this.name === COMMAND && !is_error ? COMMAND_END.exec(content)?.[1] ?? "exit code 0" : "exit code 0";
    const begin = is_error ? Object.keys(ENDS).find((each) => content.startsWith(each)) : undefined;
    this.become(begin ? ENDS[begin] : is_error || end !== "exit code 0" ? "failed" : "done");
    if (end !== "exit code 0") this.status.textContent = escapeInvisible(end);
    this.drawInput();
    if (this.result === content) return;
    this.result = content;
    this.far.textContent = "";
    const output = ENDS[begin] === "interrupted" && this.seen !== "" ? longText(this.seen, "Output until then") : [];
    this.output.replaceChildren(...output, ...longText(content), ...(images ?? []).map((image) => media(image, this.log.fileUrl)));
    if (is_error || end !== "exit code 0") this.fold.open = true;
  }

  unanswered() {
    if (this.result === null) return;
    this.result = null;
    this.editedTo(null);
    this.output.replaceChildren();
    this.become("open");
  }
}

function argumentsBox(text) {
  return element("pre", { class: "arguments", tabindex: "0", "aria-label": "Arguments", dir: "ltr" }, text);
}

// Return the node of a preview; null if it is of another kind.
function renderPreview(shown) {
  if (shown?.kind === "diff") return renderDiff(shown);
  if (shown?.kind !== "command") return null;
  return element("pre", { class: "command", tabindex: "0", "aria-label": "Command", dir: "ltr" }, escapeInvisible(shown.command));
}

// Return the values of arguments, which may be cut within their last text. They are undefined for what is no JSON.
function readArguments(args, mayBeCut = false) {
  try {
    return { given: JSON.parse(args), isCut: false };
  } catch {
    for (let end = args.length; mayBeCut && end > args.length - 6; end--) {  // an escape may be cut, too
      try {
        return { given: JSON.parse(`${args.slice(0, end)}"}`), isCut: true };
      } catch { /* one character less */ }
    }
    return { given: undefined, isCut: mayBeCut };
  }
}

// Return one line for the arguments: the value of the one that says most, or all of them.
function summarize(args, mayBeCut = false) {
  const { given: values } = readArguments(args || "{}", mayBeCut);
  if (values === undefined) return "";
  if (values === null || typeof values !== "object") return cut(String(values));
  const main = FIRST.find((name) => typeof values[name] === "string");
  if (main) return cut(values[main]);
  return cut(Object.entries(values).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", "));
}

// Return what a call of a file tool or of the command tool does, as a preview of approval_preview.py; null for others.
// What a file was before the call is unknown here, so that a written file is shown as its text.
function shownBy(name, args, isDone, mayBeCut = false) {
  const { given, isCut } = readArguments(args, mayBeCut);
  const has = (...names) => names.every((each) => typeof given?.[each] === "string");
  if (name === COMMAND && has("command")) return { kind: "command", command: isCut ? `${given.command}…` : given.command };
  if (name === "write_file" && has("path", "content")) return writtenTo(given.path, given.content, isDone, isCut);
  if (name === "edit_file" && has("path", "old", "new")) return diffOf(given.path, given.old, given.new, isCut);
  return null;
}

// Return the text of a file as a preview without changes.
function writtenTo(path, text, isDone, isCut) {
  const count = linesOf(text).length, lines = `${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"}`;
  return { ...diffOf(path, text, text, isCut), summary: [isDone ? "wrote" : "", isCut ? "at least" : "", lines].filter(Boolean).join(" ") };
}

function linesOf(text) {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

// Return the diff of two texts: their lines between the first and the last that differ. The end of `now` may be cut.
function diffOf(path, old, now, isCut) {
  const before = linesOf(old), after = linesOf(now);
  const shortest = Math.min(before.length, after.length);
  let begin = 0, end = 0;
  while (begin < shortest && before[begin] === after[begin]) begin++;
  while (end < shortest - begin && before.at(-1 - end) === after.at(-1 - end)) end++;
  const removed = before.slice(begin, before.length - end), added = after.slice(begin, after.length - end);
  const rows = [
    ...before.slice(0, begin).map((text) => ({ kind: "same", text })),
    ...removed.map((text) => ({ kind: "remove", text })),
    ...added.map((text) => ({ kind: "add", text })),
    ...before.slice(before.length - end).map((text) => ({ kind: "same", text })),
  ];
  const left = rows.length - ROWS;
  const note = left > 0 ? `${left.toLocaleString("en")} more lines are not shown.` : isCut ? "The rest is not shown." : null;
  return { kind: "diff", path, added: added.length, removed: removed.length, rows: rows.slice(0, ROWS), note };
}

function cut(text) {
  const line = text.replace(/\s+/g, " ").trim();
  return escapeInvisible(line.length > 160 ? `${line.slice(0, 159)}…` : line);
}

// Return the text in a box under its name: of a long one its first and last lines, and a button for the rest.
function longText(text, name = "Result") {
  const box = element("pre", { tabindex: "0", "aria-label": name, dir: "auto" });
  const lines = text.split("\n");
  const isLong = lines.length > HEAD + TAIL + 10 || text.length > 3 * LONGEST;
  const head = element("div", { class: "result-head" }, element("span", { "data-label": name }), copyButton(() => text, `Copy ${name.toLowerCase()}`));
  if (!isLong) {
    box.textContent = text;
    return [head, box];
  }
  const first = lines.slice(0, HEAD).join("\n").slice(0, LONGEST), tail = lines.slice(-TAIL).join("\n").slice(-LONGEST);
  const left = lines.length - HEAD - TAIL;
  const what = left > 0 ? `${left.toLocaleString("en")} more lines` : `${(text.length - first.length - tail.length).toLocaleString("en")} more characters`;
  const button = element("button", { type: "button", class: "rest" }, `⋯ Show ${what}`);
  button.addEventListener("click", () => {
    box.textContent = text;
    box.focus({ preventScroll: true });
  });
  box.append(`${first}\n`, button, `\n${tail}`);
  return [head, box];
}
