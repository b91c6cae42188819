// The list of chats: by day, searched, renamed in place, exported and deleted. The stream of events has the rows that
// change; the list is asked for again every few seconds for what other programs change, and where there is no stream.

import { request, url } from "./api.js";
import { element, escapeInvisible, glyph } from "./dom.js";
import { openMenu } from "./menu.js";

const BUSY = ["loading_model", "searching_tools", "generating_response", "streaming_response", "calling_tool"];
const DAY = 86_400_000;
const PAUSE = 3000;  // milliseconds between two requests for the list
const $ = (id) => document.getElementById(id);

export class Sidebar {
  // `watch(chats)` receives the chats of every answer, `report(text)` an error; `gone(id)` follows a deletion.
  constructor({ watch, report, gone }) {
    this.watch = watch;
    this.report = report;
    this.gone = gone;
    this.chats = [];
    this.more = null;
    this.current = null;
    this.renaming = null;
    this.drawn = "";
    this.error = null;  // of the last request
    this.listen();
  }

  listen() {
    let timer = 0;
    $("chat-search").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.load(), 150);
    });
    $("chat-search").addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") { event.preventDefault(); this.links()[0]?.focus(); }
      else if (event.key === "Escape" && event.target.value) { event.target.value = ""; this.load(); event.stopPropagation(); }
    });
    $("more-chats").addEventListener("click", () => this.loadMore());
    $("chat-list").addEventListener("keydown", (event) => this.onKey(event));
  }

  // Ask for the first chats again, as many as are shown. Resolves to the whole answer, or to null after an error.
  async load() {
    const search = $("chat-search").value.trim();
    const limit = Math.max(50, Math.min(this.chats.length, 500));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), document.visibilityState === "hidden" ? 2 * PAUSE : PAUSE);
    try {
      const answer = await request(`chats?${new URLSearchParams({ limit, ...(search ? { search } : {}) })}`);
      if (search !== $("chat-search").value.trim()) return null;
      this.chats = answer.chats;
      this.more = answer.more;
      this.watch(answer.chats);
      this.draw();
      return answer;
    } catch (error) {
      this.error = error;
      return null;  // the stream of events reports a lost connection
    }
  }

  async loadMore() {
    const search = $("chat-search").value.trim();
    const at = this.chats.length;
    try {
      const { chats, more } = await request(`chats?${new URLSearchParams({ limit: 50, before: this.more, ...(search ? { search } : {}) })}`);
      this.chats = [...this.chats, ...chats];
      this.more = more;
      this.draw();
      this.focusAt(at);
    } catch (error) {
      this.report(escapeInvisible(error.message));
    }
  }

  // Show a row of the stream: a chat that is new, has changed or was deleted. A search shows those that it has found.
  put(row) {
    const isShown = this.chats.some(({ id }) => id === row.id), searching = $("chat-search").value.trim() !== "";
    const others = this.chats.filter(({ id }) => id !== row.id);
    const last = this.chats.at(-1);
    if (row.deleted) this.chats = others;
    else if (isShown || (!searching && (this.more === null || last === undefined || row.updated > last.updated))) {
      this.chats = [row, ...others].sort((one, other) => (one.updated < other.updated ? 1 : one.updated > other.updated ? -1 : 0));
    } else return;
    this.watch(this.chats);
    this.draw();
  }

  // Return the number of other chats that wait for an approval.
  waiting(current) {
    return this.chats.filter((chat) => chat.id !== current && chat.waiting > 0).length;
  }

  // Show what is known of the current chat before the list is asked for again.
  update(id, known) {
    const chat = this.chats.find((each) => each.id === id);
    if (chat === undefined || Object.entries(known).every(([name, value]) => chat[name] === value)) return;
    Object.assign(chat, known);
    this.draw();
  }

  select(id) {
    this.current = id;
    this.draw();
  }

  links() {
    return [...$("chat-list").querySelectorAll(".chat-link")];
  }

  focusAt(index) {
    const links = this.links();
    const link = links[Math.max(0, Math.min(index, links.length - 1))];
    for (const each of links) for (const node of [each, each.parentElement.querySelector(".chat-menu")]) node.tabIndex = each === link ? 0 : -1;
    link?.focus();
  }

  onKey(event) {
    const links = this.links(), at = links.indexOf(event.target.closest("li")?.querySelector(".chat-link"));
    if (at < 0 || event.target.matches("input")) return;
    const chat = this.chats.find(({ id }) => id === links[at].dataset.id);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (next === -1) $("chat-search").focus();
    else if (next !== undefined) this.focusAt(next);
    else if (event.key === "F2") this.rename(chat);
    else if (event.key === "Delete") this.confirm(chat);
    else return;
    event.preventDefault();
  }

  draw() {
    $("more-chats").hidden = this.more === null;
    const search = $("chat-search").value.trim();
    $("no-chats").hidden = this.chats.length > 0;
    $("no-chats").textContent = search ? `No chat has “${search}”.` : "No chats yet.";
    const drawn = JSON.stringify([this.chats, this.current, new Date().toDateString()]);
    if (drawn === this.drawn || this.renaming !== null) return;
    this.drawn = drawn;
    const focused = document.activeElement?.closest?.("#chat-list li")?.querySelector(".chat-link")?.dataset.id;
    const onMenu = document.activeElement?.matches(".chat-menu");
    const groups = new Map();
    for (const chat of this.chats) {
      const day = dayOf(new Date(chat.updated));
      groups.set(day, [...(groups.get(day) ?? []), chat]);
    }
    const entry = focused ?? (this.chats.some(({ id }) => id === this.current) ? this.current : this.chats[0]?.id);
    $("chat-list").replaceChildren(...[...groups].map(([day, chats], at) => element(
      "section",
      { "aria-labelledby": `day-${at}` },
      element("h3", { id: `day-${at}` }, day),
      element("ul", {}, ...chats.map((chat) => this.item(chat, chat.id === entry))),
    )));
    if (focused) {
      const item = this.links().find((link) => link.dataset.id === focused);
      (onMenu ? item?.parentElement.querySelector(".chat-menu") : item)?.focus();
    }
  }

  item(chat, isEntry) {
    const title = escapeInvisible(chat.title || "New chat");
    const link = element("a", { class: "chat-link", href: `#${chat.id}`, title, tabindex: isEntry ? "0" : "-1", "data-id": chat.id, dir: "auto", "aria-current": chat.id === this.current ? "page" : null }, title);
    const menu = element("button", { type: "button", class: "icon chat-menu", tabindex: isEntry ? "0" : "-1", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": `Actions for “${title}”`, click: (event) => this.menu(event.currentTarget, chat) }, glyph("more"));
    return element("li", { "data-chat": chat.id }, link, ...badge(chat), menu);
  }

  menu(button, chat) {
    const file = (format) => url(`chats/${chat.id}/export`, { format });
    openMenu(button, "Actions", [
      { label: "Rename", act: () => this.rename(chat) },
      { label: "Export as Markdown", href: file("markdown") },
      { label: "Export as JSON", href: file("json") },
      { label: "Export as HTML", href: file("html") },
      { label: "Delete …", danger: true, act: () => this.confirm(chat) },
    ]);
  }

  rename(chat) {
    const item = $("chat-list").querySelector(`[data-chat="${CSS.escape(chat.id)}"]`);
    const field = element("input", { class: "rename", "aria-label": "Title of the chat", maxlength: "200" });
    field.value = chat.title || "";
    this.renaming = chat.id;
    const end = async (save) => {
      if (this.renaming === null) return;
      const title = field.value.trim(), had = field === document.activeElement;
      this.renaming = null;
      this.drawn = "";
      if (save && title !== "" && title !== chat.title) {
        try {
          await request(`chats/${chat.id}`, { method: "PATCH", body: { title } });
          this.chats = this.chats.map((each) => (each.id === chat.id ? { ...each, title } : each));
        } catch (error) {
          this.report(escapeInvisible(error.message));
        }
      }
      this.draw();
      if (had) this.focusAt(this.links().findIndex((link) => link.dataset.id === chat.id));
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) end(true);
      else if (event.key === "Escape") end(false);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    field.addEventListener("blur", () => end(true));
    item.replaceChildren(field);
    field.select();
    field.focus();
  }

  confirm(chat) {
    const working = chat.waiting > 0 ? " It waits for your approval." : BUSY.includes(chat.state) ? " It is at work, which will be stopped." : "";
    $("delete-text").textContent = `“${escapeInvisible(chat.title || "New chat")}” and its files will be deleted for good.${working}`;
    $("delete-dialog").showModal();
    const at = this.links().findIndex((link) => link.dataset.id === chat.id);
    $("delete-dialog").onclose = async () => {
      if ($("delete-dialog").returnValue === "delete") {
        try {
          await request(`chats/${chat.id}`, { method: "DELETE" });
          this.chats = this.chats.filter(({ id }) => id !== chat.id);
          sessionStorage.removeItem(`draft ${chat.id}`);
          this.draw();
          this.gone(chat.id);
        } catch (error) {
          this.report(escapeInvisible(error.message));
        }
      }
      this.focusAt(at);
    };
    $("delete-dialog").returnValue = "";
  }
}

function badge({ state, waiting }) {
  if (waiting > 0) return [element("span", { class: "badge waits", role: "img", "aria-label": "waits for approval", title: "waits for approval" }, String(waiting))];
  if (BUSY.includes(state)) return [element("span", { class: "badge runs", role: "img", "aria-label": "working", title: "working" })];
  return [];
}

function dayOf(date) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (date >= today) return "Today";
  if (date >= today - DAY) return "Yesterday";
  if (date >= today - 7 * DAY) return "Previous 7 days";
  if (date >= today - 30 * DAY) return "Previous 30 days";
  return date.toLocaleDateString("en", { month: "long", year: "numeric" });
}
