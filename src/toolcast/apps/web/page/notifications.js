// Notices outside of the page: the title of the document, and notifications of the browser where the user switched them on.

import { escapeInvisible } from "./dom.js";

const BUSY = ["loading_model", "searching_tools", "generating_response", "streaming_response", "calling_tool"];
const KEY = "notifications";
const $ = (id) => document.getElementById(id);

export class Notifications {
  // `open(id)` shows a chat whose notification was clicked.
  constructor(open) {
    this.open = open;
    this.before = new Map();
    this.text = $("notify-note");
    $("notify").checked = this.isOn;
    $("notify").addEventListener("change", (event) => this.toggle(event.target.checked));
  }

  get isOn() {
    return localStorage.getItem(KEY) === "on" && globalThis.Notification?.permission === "granted";
  }

  // Ask for the permission of the browser when the switch is turned on, and only then.
  async toggle(on) {
    localStorage.setItem(KEY, on ? "on" : "off");
    this.text.textContent = "";
    if (!on) return;
    const answer = globalThis.Notification ? await Notification.requestPermission() : "denied";
    if (answer === "granted") return;
    $("notify").checked = false;
    localStorage.setItem(KEY, "off");
    this.text.textContent = "The browser does not allow it: change that in its settings for this page.";
  }

  title(name, { waiting, busy, lost, others = 0 }) {
    const chat = name ? `${escapeInvisible(name)} – toolcast` : "toolcast";
    const title = lost ? `⚠ connection lost – ${chat}` : waiting ? `● waits for approval – ${chat}` : others > 0 ? `● ${others === 1 ? "another chat waits" : `${others} other chats wait`} for approval – ${chat}` : busy ? `… ${chat}` : chat;
    if (document.title !== title) document.title = title;
  }

  // Compare the chats with those of the last call: a notification for each that has begun to wait, or has finished.
  watch(chats) {
    for (const { id, title, state, waiting } of chats) {
      const before = this.before.get(id);
      this.before.set(id, { state, waiting });
      if (before === undefined) continue;
      if (waiting > 0 && before.waiting === 0) this.notify(id, title, "waits for your approval");
      else if (BUSY.includes(before.state) && !BUSY.includes(state) && waiting === 0) this.notify(id, title, state === "load_failed" ? "has no model" : "has finished");
    }
  }

  notify(id, title, text) {
    if (!this.isOn || document.visibilityState === "visible") return;
    const made = new Notification(escapeInvisible(title || "toolcast"), { body: text, tag: id, icon: "assets/icon.svg" });
    made.onclick = () => { focus(); this.open(id); made.close(); };
  }
}
