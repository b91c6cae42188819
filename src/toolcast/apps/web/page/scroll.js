// The log follows its end until the reader scrolls up, and again once the reader is back at the end. Elsewhere a button
// leads to the newest message.
//
// Only input of the reader stops it: the log also scrolls by itself, when it shrinks for instance, and a scroll event
// arrives a frame late, when more text may already be below.

import { element, schedule } from "./dom.js";

const NEAR = 60;  // pixels from the end
const UPWARDS = ["ArrowUp", "PageUp", "Home"];

export class Scroller {
  constructor(node) {
    this.node = node;
    this.top = 0;  // position at the last scroll event, or set by `follow`
    this.unread = false;  // something came while the reader was elsewhere
    this.button = element("button", { type: "button", class: "newest", hidden: true, click: () => this.toNewest() }, "↓ Newest");
    node.after(element("div", { class: "newest-place" }, this.button));
    this.following = true;
    this.listen();
    new ResizeObserver(() => this.follow()).observe(node);
    node.addEventListener("drawn", () => schedule("follow", () => this.follow()));
  }

  get isAtEnd() {
    return this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight < NEAR;
  }

  get following() {
    return this.isFollowing;
  }

  set following(value) {
    if (this.isFollowing === value) return;
    this.isFollowing = value;
    if (value) this.unread = false;
    this.node.dispatchEvent(new CustomEvent("following", { detail: value }));
    this.showButton();
  }

  // Scroll to the end, unless the reader has scrolled up.
  follow() {
    if (!this.following) {
      this.unread ||= this.height !== undefined && this.node.scrollHeight > this.height;
      this.showButton();
      return;
    }
    this.node.scrollTop = this.node.scrollHeight;
    this.top = this.node.scrollTop;
    this.height = this.node.scrollHeight;
  }

  // Follow the end from the next `follow` on.
  resume() {
    this.following = true;
  }

  toNewest() {
    const hadFocus = this.button === document.activeElement;
    this.following = true;
    this.follow();
    this.settle();
    if (hadFocus) this.node.focus({ preventScroll: true });
  }

  // Return to the end when a scroll ends, until the next input: a smooth one, of PageUp, may still be under way, and
  // end after that of `follow`.
  settle() {
    this.settling?.abort();
    this.settling = new AbortController();
    const { settling, settling: { signal } } = this;
    this.node.addEventListener("scrollend", () => this.follow(), { signal });
    for (const input of ["keydown", "wheel", "pointerdown", "touchstart"]) addEventListener(input, () => settling.abort(), { signal, capture: true, passive: true });
  }

  showButton() {
    this.button.hidden = this.following || this.isAtEnd;
    this.button.classList.toggle("unread", this.unread);
    this.button.setAttribute("aria-label", this.unread ? "Newest message; there is more below" : "Newest message");
  }

  // Stop following if input at `target` scrolls the log up, and not a box inside it. The log may have scrolled already,
  // up to its beginning, before the event comes.
  scrolledUp(target) {
    for (let node = target; node !== this.node; node = node.parentElement) if (node.scrollTop > 0) return;
    if (this.node.scrollHeight > this.node.clientHeight) this.following = false;
  }

  listen() {
    const { node } = this;
    let finger = 0;
    let dragging = false;  // the scrollbar
    let grip = 0;  // where the drag began
    // A browser shows the ring around what was clicked at the next key, too: here it is for those who came by keyboard.
    node.addEventListener("focus", () => node.classList.toggle("clicked", !node.matches(":focus-visible")));
    node.addEventListener("scroll", () => {
      const before = this.top;
      this.top = node.scrollTop;
      if (!dragging && this.top > before && this.isAtEnd) this.following = true;
      this.showButton();
    });
    node.addEventListener("wheel", (event) => {
      if (event.deltaY < 0) this.scrolledUp(event.target);
      else if (event.deltaY > 0 && this.isAtEnd) this.following = true;
    }, { passive: true });
    node.addEventListener("touchstart", (event) => { finger = event.touches[0].clientY; }, { passive: true });
    node.addEventListener("touchmove", (event) => {
      const before = finger;
      finger = event.touches[0].clientY;
      if (finger > before) this.scrolledUp(event.target);
    }, { passive: true });
    node.addEventListener("keydown", (event) => {
      if (event.target.matches("input, textarea")) return;
      if (UPWARDS.includes(event.key) || (event.key === " " && event.shiftKey)) this.scrolledUp(event.target);
      else if (event.key === "End") this.toNewest();  // smooth scrolling takes longer than the next lines need to arrive
    });
    node.addEventListener("pointerdown", (event) => {
      dragging = event.target === node && event.offsetX >= node.clientWidth;
      if (!dragging) return;
      this.following = false;
      grip = event.clientY;
    });
    // The log may scroll a frame after the pointer moved, so its current position does not show an upward drag yet.
    addEventListener("pointerup", (event) => {
      const released = dragging && event.clientY >= grip;
      dragging = false;
      if (released) requestAnimationFrame(() => requestAnimationFrame(() => { this.following ||= this.isAtEnd; }));
    });
  }
}
