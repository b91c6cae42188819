// The message that is being written: its text, its files, and the messages that wait in the queue.
//
// The draft of each chat is stored for this tab, so that a reload or another chat does not lose it.

import { request, url } from "./api.js";
import { element, escapeInvisible, fileSize, glyph } from "./dom.js";

const HEIGHT = 240;  // pixels; longer texts scroll
const $ = (id) => document.getElementById(id);

export class Composer {
  // `send(message, files)` resolves to true if the message was queued; `report(text)` shows an error.
  constructor({ send, dispatch, report }) {
    this.sendMessage = send;
    this.dispatch = dispatch;
    this.report = report;
    this.base = "";
    this.chat = null;
    this.files = [];
    this.queue = [];
    this.held = [];
    this.waiting = [];  // both
    this.ending = Promise.resolve();  // the end of the last edit
    this.holds = false;  // the message that is edited was held back for that alone
    this.limits = { files: 10, bytes: 20_000_000 };
    this.sent = new Promise((resolve) => { this.opened = resolve; });  // the sends, one after the other, once a chat is open
    this.listen();
  }

  // Show the draft of another chat. Files are offered where the chat has an address of its own, `base`.
  open(chat, base) {
    const editing = $("queue").querySelector("textarea");
    if (editing !== null) this.keep(editing);
    $("queue").replaceChildren();
    const draft = stored(chat), isFirst = this.chat === null;
    this.chat = chat;
    this.base = base;
    $("text").value = isFirst && $("text").value !== "" ? $("text").value : draft.text;
    this.files = draft.files;
    this.drawFiles();
    this.grow();
    this.drawQueue([]);
    this.opened();
  }

  // Take the text of the last chat to this one; its files are gone with it.
  move(text) {
    if (text !== "" && $("text").value === "") this.put(text, []);
  }

  allowFiles(limits) {
    this.limits = limits;
    $("attach").hidden = false;
    $("attach").title = `Attach files: at most ${limits.files}, ${fileSize(limits.bytes)} each`;
  }

  listen() {
    const text = $("text"), area = $("composer");
    area.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    text.addEventListener("input", () => { this.grow(); this.store(); this.drawButtons(); });
    text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    text.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length === 0 || $("attach").hidden) return;
      event.preventDefault();
      this.add(files);
    });
    $("attach").addEventListener("click", () => $("file-input").click());
    $("file-input").addEventListener("change", (event) => { this.add([...event.target.files]); event.target.value = ""; });
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      document.body.classList.toggle("dropping", !$("attach").hidden);
    });
    addEventListener("dragleave", (event) => { if (event.relatedTarget === null) document.body.classList.remove("dropping"); });
    addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      document.body.classList.remove("dropping");
      if (!$("attach").hidden) this.add([...event.dataTransfer.files]);
    });
  }

  // Upload files, and show each as a chip. Each that is rejected is reported, and not sent.
  async add(files) {
    const { base } = this, room = Math.max(0, this.limits.files - this.files.length), problems = [];
    const small = files.filter((file) => file.size <= this.limits.bytes), fitting = small.slice(0, room);
    const reject = (problem) => {
      problems.push(escapeInvisible(problem));
      this.report(problems.join("; "));
    };
    this.report("");
    for (const file of files) if (!small.includes(file)) reject(`${file.name} has ${fileSize(file.size)}; a file can have at most ${fileSize(this.limits.bytes)}`);
    const rest = small.slice(room).map((file) => file.name).join(", ");
    if (rest) reject(`A message can have at most ${this.limits.files} files: without ${rest}`);
    await Promise.all(fitting.map(async (file) => {
      const chip = { name: file.name, size: file.size, image: false, id: null };
      this.files.push(chip);
      this.drawFiles();
      const body = new FormData();
      body.append("file", file);
      try {
        const { files: [uploaded] } = await request(`${base}files`, { method: "POST", body });
        Object.assign(chip, uploaded);
      } catch (error) {
        this.files = this.files.filter((each) => each !== chip);
        reject(error.message.startsWith(file.name) ? error.message : `${file.name}: ${error.message}`);
      }
      this.changed();
    }));
    $("text").focus();
  }

  changed() {
    this.drawFiles();
    this.store();
  }

  remove(chip) {
    this.files = this.files.filter((each) => each !== chip);
    this.changed();
    if (chip.id) request(`${this.base}files/${chip.id}`, { method: "DELETE" }).catch(() => {});
    $("text").focus();
  }

  drawFiles() {
    $("chips").hidden = this.files.length === 0;
    $("chips").replaceChildren(...this.files.map((chip) => {
      const name = escapeInvisible(chip.name);
      const picture = chip.image && chip.id ? element("img", { src: url(`${this.base}files/${chip.id}`), alt: "" }) : element("span", { class: "file-icon", "aria-hidden": "true" }, kindOf(chip.name));
      const state = chip.id ? fileSize(chip.size) : "uploading …";
      return element(
        "li",
        { class: "chip", "aria-busy": String(!chip.id) },
        picture,
        element("span", { class: "chip-text" }, element("span", { class: "chip-name", title: name }, name), element("span", { class: "chip-size" }, state)),
        element("button", { type: "button", class: "icon", "aria-label": `Remove ${name}`, click: () => this.remove(chip) }, glyph("cross")),
      );
    }));
    this.drawButtons();
  }

  get isEmpty() {
    return $("text").value.trim() === "" && this.files.length === 0;
  }

  // While the model works, Stop takes the place of Send until something is written.
  drawButtons(busy = this.busy, ready = this.ready) {
    this.busy = busy;
    this.ready = ready;
    const uploading = this.files.some((chip) => !chip.id);
    $("send").hidden = busy && this.isEmpty;
    $("send").disabled = uploading || this.isEmpty;
    const label = ready ? "Send" : "Queue";
    if ($("send-label").textContent !== label) $("send-label").textContent = label;
    $("send").classList.toggle("round", ready);
    $("send").title = uploading ? "Files are being uploaded" : ready ? "Send (Enter)" : "Queue: it is sent after this answer (Enter)";
  }

  send() {
    let { chat, base } = this;
    const { files } = this, message = $("text").value;
    if (this.isEmpty || files.some((chip) => !chip.id)) return;
    this.put("", []);
    // One after the other, so that they arrive in order. A message that could not be sent goes back in front of newer text.
    this.sent = this.sent.then(async () => {
      if (chat === null) ({ chat, base } = this);
      if (await this.sendMessage(base, message, files.map((chip) => chip.id))) return;
      const draft = this.chat === chat ? { text: $("text").value, files: this.files } : stored(chat);
      const text = [message, draft.text].filter(Boolean).join("\n");
      if (this.chat === chat) this.put(text, [...files, ...draft.files]);
      else store(chat, text, [...files, ...draft.files]);
    });
  }

  put(text, files) {
    $("text").value = text;
    this.files = files;
    this.drawFiles();
    this.grow();
    this.store();
  }

  store() {
    if (this.chat !== null) store(this.chat, $("text").value, this.files.filter((chip) => chip.id));
  }

  grow() {
    const text = $("text");
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, HEIGHT)}px`;
  }

  // Draw the messages that wait, with their actions: those of the queue, and those `held` back until they are released.
  drawQueue(queue, held = []) {
    const node = $("queue"), all = [...queue, ...held];
    if (node.queue === queue && node.held?.length === held.length && held.every((each, at) => node.held[at] === each)) return;
    Object.assign(this, { queue, held, waiting: all });
    const editing = node.querySelector("textarea");
    if (editing !== null && all.length > 0) return;  // drawn when the editing ends
    if (editing !== null) this.keep(editing);
    Object.assign(node, { queue, held });
    node.hidden = all.length === 0;
    const focused = [...node.children].findIndex((item) => item.contains(document.activeElement));
    node.replaceChildren(...all.map((message, index) => this.queued(message, index, index >= queue.length)), ...(held.length > 0 ? [this.release()] : []));
    if (focused >= 0) (node.children[Math.min(focused, all.length - 1)]?.querySelector("button") ?? $("text")).focus();
  }

  queued(message, index, isHeld) {
    const text = textOf(message);
    const short = escapeInvisible(text.slice(0, 60));
    return element(
      "li",
      { class: isHeld ? "held" : null },
      element("span", { class: "queued-text" }, text),
      element("button", { type: "button", class: "icon", "aria-label": `Edit “${short}”`, title: "Edit", click: (event) => this.editQueued(event, message, index) }, glyph("pencil")),
      element("button", { type: "button", class: "icon", "aria-label": `Remove “${short}”`, title: "Remove", click: () => this.dispatch({ type: "REMOVE_QUEUED", index }) }, glyph("cross")),
    );
  }

  release() {
    return element("li", { class: "release" }, element("span", {}, "Not sent yet."), element("button", { type: "button", click: () => { this.dispatch({ type: "RELEASE_QUEUE" }); $("text").focus(); } }, "Send now"));
  }

  // Stop the turn. The messages that wait are held back: they begin no other turn until they are sent.
  async stop() {
    this.holds = false;
    if (this.queue.length > 0) await this.dispatch({ type: "HOLD_QUEUE", index: 0 });
    this.dispatch({ type: "STOP" });
  }

  // Put an edited text that has no message any more into the message box.
  keep(area) {
    if (area.value.trim() === "" || area.value === area.defaultValue) return;
    this.put([area.value, $("text").value].filter(Boolean).join("\n"), this.files);
  }

  // Edit a message that waits. Meanwhile it is held back, with those after it: else the old text could be sent.
  editQueued(event, message, index) {
    const item = event.target.closest("li"), node = $("queue");
    const area = element("textarea", { rows: "2", "aria-label": "Queued message" }, message.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n"));
    const held = this.ending.then(async () => { this.holds = await this.dispatch({ type: "HOLD_QUEUE", index }); });  // false if it was already
    const end = (act, releases) => {
      area.remove();
      node.queue = null;
      this.drawQueue(this.queue, this.held);
      (node.children[index]?.querySelector("button") ?? $("text")).focus();
      this.ending = held.then(act).then(() => this.holds && releases && this.dispatch({ type: "RELEASE_QUEUE" }));
      return this.ending;
    };
    const save = () => {
      const shown = JSON.stringify(message);  // a message before it may have been sent meanwhile
      const now = [index, ...this.waiting.keys()].find((at) => JSON.stringify(this.waiting[at]) === shown);
      if (now === undefined) {
        this.keep(area);
        end(null, true).then(() => this.report("This message was sent before it was edited. Your text is in the message box."));
        return;
      }
      const isNew = area.value.trim() !== "" && area.value !== area.defaultValue;
      end(isNew ? () => this.dispatch({ type: "EDIT_QUEUED", index: now, message: area.value }) : null, true);
    };
    const cancel = () => end(null, !this.ready);  // once the chat is ready it would be sent at once
    area.addEventListener("keydown", (key) => {
      if (key.key === "Enter" && !key.shiftKey && !key.isComposing) { key.preventDefault(); save(); }
      else if (key.key === "Escape") { key.stopPropagation(); cancel(); }
    });
    item.replaceChildren(area, element("button", { type: "button", class: "primary", click: save }, "Save"), element("button", { type: "button", click: cancel }, "Cancel"));
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

function textOf(message) {
  return message.parts.map((part) => part.text ?? `[${part.name ?? part.type}]`).join(" ");
}

function kindOf(name) {
  const end = /\.([A-Za-z0-9]{1,4})$/.exec(name);
  return end ? end[1].toUpperCase() : "FILE";
}

// Drafts are stored for this tab only, and removed when they are sent.

function stored(chat) {
  const { text = "", files = [] } = JSON.parse(sessionStorage.getItem(`draft ${chat}`) ?? "{}");
  return { text, files };
}

function store(chat, text, files) {
  if (text === "" && files.length === 0) sessionStorage.removeItem(`draft ${chat}`);
  else sessionStorage.setItem(`draft ${chat}`, JSON.stringify({ text, files }));
}
