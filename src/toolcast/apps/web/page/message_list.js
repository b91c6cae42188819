// A window of a long list of messages: only some of them are in the document. Where the reader scrolls up, earlier ones
// are drawn, or requested from the server first, and what is far below is removed; the place of what is read is kept.

const STEP = 50;
const MOST = 200; // messages in the document
const MARGIN = 600; // pixels above or below what is visible at which more messages are drawn

export class MessageList {
  // `draw(index)` returns the node of a message, or null if it has none; `load(before)` resolves to `{from, messages}`.
  constructor(node, { draw, load }) {
    this.node = node;
    this.before = node.lastElementChild; // what the messages follow
    this.draw = draw;
    this.load = load;
    this.clear(0);
    node.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.isFollowing = true; // the reader is at the end
    node.addEventListener("following", ({ detail }) => {
      this.isFollowing = detail;
      if (detail) this.toEnd();
    });
  }

  // Begin anew: the messages from index `first` on are here, those before it are at the server.
  clear(first) {
    for (const { node } of this.views ?? []) node?.remove();
    this.first = first;
    this.messages = [];
    this.start = first; // of the window
    this.views = []; // of the window
    this.loading = false;
  }

  get count() {
    return this.first + this.messages.length;
  }

  get end() {
    return this.start + this.views.length;
  }

  at(index) {
    return this.messages[index - this.first];
  }

  nodeAt(index) {
    return this.views[index - this.start]?.node ?? null;
  }

  // Replace the messages from `from` on. New ones are drawn if the end of the list was.
  put(from, messages) {
    const wasEnd = this.end === this.count || from <= this.start;
    for (const { node } of this.views.splice(Math.max(from - this.start, 0))) node?.remove();
    this.messages.splice(Math.max(from - this.first, 0), Infinity, ...messages);
    this.start = Math.min(this.start, Math.max(from, this.first));
    if (!wasEnd) return;
    if (this.views.length === 0) this.start = Math.max(this.first, this.count - MOST / 2);
    this.extend(this.count);
    if (this.isFollowing) this.trimStart();
  }

  // Draw the messages up to index `end`.
  extend(end) {
    const last = this.views.findLast(({ node }) => node?.isConnected)?.node ?? this.before; // before `draw`: the next may be there
    const nodes = [];
    while (this.end < end) {
      const node = this.draw(this.end);
      this.views.push({ node });
      if (node) nodes.push(node);
    }
    if (nodes.length === 1 && nodes[0].parentNode === this.node && nodes[0].previousElementSibling === last) return; // it streamed here
    this.insert(last, nodes);
  }

  insert(before, nodes) {
    if (before) before.after(...nodes);
    else this.node.prepend(...nodes);
  }

  // Draw messages before the window, and let what is visible stay where it is.
  prepend(count) {
    const begin = Math.max(this.first, this.start - count);
    const views = [];
    for (let index = begin; index < this.start; index++) views.push({ node: this.draw(index) });
    const height = this.node.scrollHeight, top = this.node.scrollTop;
    const nodes = views.flatMap(({ node }) => node ?? []);
    this.start = begin;
    this.views.unshift(...views);
    const next = this.views.slice(views.length).find(({ node }) => node)?.node;
    if (next) next.before(...nodes);
    else this.insert(this.before, nodes);
    this.node.scrollTop = top + this.node.scrollHeight - height;
  }

  trimStart() {
    const removed = this.views.splice(0, Math.max(this.views.length - MOST, 0));
    this.start += removed.length;
    for (const { node } of removed) node?.remove();
  }

  trimEnd() {
    for (const { node } of this.views.splice(MOST)) node?.remove();
  }

  // Draw the last messages, and no others.
  toEnd() {
    if (this.end === this.count) return this.trimStart();
    for (const { node } of this.views.splice(0)) node?.remove();
    this.start = Math.max(this.first, this.count - MOST / 2);
    this.extend(this.count);
  }

  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.node;
    if (scrollTop < MARGIN && this.start > this.first) {
      this.prepend(STEP);
      this.trimEnd();
    } else if (scrollTop < MARGIN && this.first > 0) this.request();
    else if (scrollHeight - scrollTop - clientHeight < MARGIN && this.end < this.count) {
      this.extend(Math.min(this.count, this.end + STEP));
      const height = this.node.scrollHeight, top = this.node.scrollTop;
      this.trimStart();
      this.node.scrollTop = top + this.node.scrollHeight - height;
    }
  }

  // Request earlier messages of the server.
  async request() {
    if (this.loading || !this.load) return;
    this.loading = true;
    const { messages } = this;
    try {
      const { from, messages: earlier } = await this.load(this.first);
      if (this.messages !== messages || from + earlier.length !== this.first) return; // another chat, or a branch
      this.messages.unshift(...earlier);
      this.first = from;
      this.prepend(STEP);
      this.trimEnd();
    } finally {
      if (this.messages === messages) this.loading = false;
    }
  }
}
