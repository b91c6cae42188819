// Markdown as DOM nodes: parsed by markdown-it, sanitized by DOMPurify. No image is loaded, and links have http, https or
// mailto URLs.
//
// `Markdown` accepts text in chunks and draws at most once in a frame, and then no more than the frame has time for. All
// blocks but the last one are final: they are drawn once, so that the cost of a chunk does not grow with the answer. Of
// the last one, if it is a list or a table, only the items that have changed are drawn again; of a paragraph, its end.

import { CodeBlock } from "./code.js";
import { element, schedule } from "./dom.js";
import { addMath, drawMath } from "./math.js";
import { MARKDOWN, sanitize } from "./sanitize.js";
import { addTags, linkNotes } from "./tags.js";
import MarkdownIt from "./vendor/markdown-it.js";

const SCHEMES = ["http:", "https:", "mailto:"];
const SLICE = { least: 400, first: 1000, most: 3000 }; // characters that one frame draws
const BUDGET = 8; // milliseconds for it
const MANY = 60; // items of a list or a table
const LOOSENED = 200; // items that one frame changes
const LONG = 2000; // characters of a paragraph
const PHRASING = "a, br, code, del, em, input, kbd, span, strong, sub, sup";
const TASK = /^\[([ xX])\]\s/;
const DIRECTED = "p, h3, h4, h5, h6, ul, ol, blockquote, details, [data-note]";

const md = new MarkdownIt({ html: false, linkify: true });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
md.normalizeLink = (url) => address(url) ?? url;
md.normalizeLinkText = (url) => url;
md.validateLink = (url) => address(url) !== null;
addMath(md);
addTags(md);

// A footnote's text is no reference of a link.
const reference = md.block.ruler.__rules__.find((rule) => rule.name === "reference").fn;
md.block.ruler.at("reference", (state, line, ...rest) => !state.src.startsWith("[^", state.bMarks[line] + state.tShift[line]) && reference(state, line, ...rest));

// Headings are below those of the page; columns are aligned without styles; boxes of tasks; images in links.
md.core.ruler.push("page", ({ tokens }) => {
  tokens.forEach((token, at) => {
    if (token.type.startsWith("heading_")) token.tag = `h${Math.min(Number(token.tag[1]) + 2, 6)}`;
    if (token.type === "td_open" || token.type === "th_open") align(token);
    if (token.type !== "inline") return;
    if (tokens[at - 2]?.type === "list_item_open") markTask(token);
    markImages(token.children);
  });
});

function align(token) {
  const style = token.attrGet("style");
  if (style) token.attrs = [["data-align", style.slice("text-align:".length)]];
}

function markTask({ children: [first] }) {
  const box = first?.type === "text" ? TASK.exec(first.content) : null;
  if (box === null) return;
  first.content = first.content.slice(box[0].length);
  first.meta = { task: box[1] === " " ? "open" : "done" };
}

function markImages(tokens) {
  let depth = 0;
  for (const token of tokens) {
    if (token.type === "link_open") depth++;
    else if (token.type === "link_close") depth--;
    else if (token.type === "image") token.meta = { isLinked: depth > 0 };
  }
}

// HTML without line feeds between the elements.

const escapeHtml = md.utils.escapeHtml;
const rules = md.renderer.rules;
md.renderer.renderToken = (tokens, at) => {
  const token = tokens[at];
  if (token.hidden) return "";
  return token.nesting === -1 ? `</${token.tag}>` : `<${token.tag}${md.renderer.renderAttrs(token)}>`;
};
rules.hardbreak = () => "<br>";
rules.s_open = () => "<del>";
rules.s_close = () => "</del>";
rules.softbreak = () => "\n";
rules.text = (tokens, at) => `${tokens[at].meta?.task ? `<span data-task="${tokens[at].meta.task}"></span>` : ""}${escapeHtml(tokens[at].content)}`;
rules.code_inline = (tokens, at) => `<code>${escapeHtml(tokens[at].content)}</code>`;
rules.fence = rules.code_block = (tokens, at) => `<pre data-language="${escapeHtml(languageOf(tokens[at]))}"><code>${escapeHtml(codeOf(tokens[at]))}</code></pre>`;
rules.link_open = (tokens, at) => `<a href="${escapeHtml(tokens[at].attrGet("href"))}" title="${escapeHtml(tokens[at].attrGet("href"))}">`;
rules.image = (tokens, at) => {
  const token = tokens[at], url = escapeHtml(token.attrGet("src"));
  const text = escapeHtml(token.content) || "image";
  return token.meta?.isLinked ? text : `<a href="${url}" title="${url}" data-image="">${text}</a>`;
};

function languageOf(token) {
  return token.info.trim().split(/\s/, 1)[0];
}

function codeOf(token) {
  return token.content.replace(/\n$/, "");
}

// Add what HTML of the sanitizer cannot have: code blocks, formulas, boxes, and tables that scroll; and the direction of
// each block, which the browser would compute again with each element that is parsed.
function enhance(root) {
  for (const node of [...[...root.children].filter((child) => child.matches(DIRECTED)), ...root.querySelectorAll("td, th")]) node.setAttribute("dir", "auto");
  for (const pre of root.querySelectorAll("pre")) {
    const block = new CodeBlock(pre.dataset.language ?? "");
    block.update(pre.textContent);
    pre.replaceWith(block.node);
  }
  for (const box of root.querySelectorAll("[data-task]")) {
    const done = box.dataset.task === "done";
    box.replaceWith(element("input", { type: "checkbox", disabled: true, checked: done, "aria-label": done ? "done" : "not done" }), " ");
  }
  for (const table of root.querySelectorAll("table")) {
    const scrolling = element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table", dir: isRightToLeft(table.textContent) ? "rtl" : null });
    table.replaceWith(scrolling);
    scrolling.append(table);
  }
  drawMath(root);
  return root;
}

// Return true if the first letter is of a script that is written from right to left. (The direction of cells is their own,
// so a table with `dir="auto"` has none.)
function isRightToLeft(text) {
  return /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(/\p{L}/u.exec(text)?.[0] ?? "");
}

function draw(html) {
  return enhance(sanitize(html, MARKDOWN));
}

function render(tokens, env) {
  return md.renderer.render(tokens, md.options, env);
}

// Return the nodes of a whole text.
export function markdown(text) {
  const env = { final: true };
  const root = draw(render(md.parse(plain(text), env), env));
  linkNotes(root);
  return [...root.childNodes];
}

export class Markdown {
  constructor(node) {
    this.node = node;
    this.whole = "";
    this.coming = ""; // what is not drawn
    this.text = ""; // what is not final
    this.env = {};
    this.blocks = []; // of it
    this.slice = SLICE.first;
    this.isLast = false; // no text follows what is coming
    this.closed = null; // the beginning of the paragraph that `text` continues: its source and its HTML
    this.long = LONG; // characters of a paragraph from which on a part of it is closed
  }

  add(text) {
    this.append(text);
    this.schedule(this, () => this.draw());
  }

  // Draw in the next frame, and let the log follow.
  schedule(key, draw) {
    schedule(key, () => {
      draw();
      this.node.dispatchEvent(new CustomEvent("drawn", { bubbles: true }));
    });
  }

  append(text) {
    this.whole += text;
    this.coming += plain(text);
  }

  // Draw what has come, in several frames if it is much.
  draw() {
    const begin = performance.now();
    this.text += this.coming.slice(0, this.slice);
    this.coming = this.coming.slice(this.slice);
    if (this.coming) this.schedule(this, () => this.draw());
    else this.env.final = this.isLast;
    this.drawBlocks();
    const isSlow = performance.now() - begin > BUDGET;
    this.slice = isSlow ? Math.max(this.slice / 2, SLICE.least) : Math.min(this.slice * 2, SLICE.most);
  }

  drawBlocks() {
    const blocks = split(md.parse(this.text, this.env), this.env, this.blocks[0]);
    if (this.closed && blocks[0]?.kind !== PARAGRAPH) return this.reopen();
    this.continueItems(blocks[0]);
    const grows = (at) => at === blocks.length - 1 && !this.env.final;
    createAll(blocks.filter((block, at) => isNew(block, this.blocks[at]) && !(grows(at) && isFolded(block, this.blocks[at]))));
    for (const { node } of this.blocks.splice(blocks.length)) node.remove();
    this.blocks = blocks.map((block, at) => this.place(block, this.blocks[at], grows(at)));
    this.close();
    linkNotes(this.node);
  }

  // Draw the rest: no text follows.
  finish() {
    this.isLast = true;
    this.draw();
  }

  // Return the block with its node, which is that of `before` as far as it is the same.
  place(block, before, grows) {
    if (before === undefined) {
      create(block, grows);
      this.node.append(block.node);
    } else if (before.html === block.html && (grows || !before.grows)) return before;
    else if (grows && isFolded(block, before)) return Object.assign(before, { line: block.line });
    else if (before.kind !== block.kind || before.open !== block.open) {
      create(block, grows);
      before.node.replaceWith(block.node);
    } else update(block, before, grows);
    block.grows = grows;
    return block;
  }

  // Forget the blocks that more text cannot change: those before the last one of which two lines are complete. (One
  // line may yet become the header of a table, or of another kind than its first characters show.)
  close() {
    const lines = lineStarts(this.text);
    let open = this.blocks.length - 1;
    while (open > 0 && this.blocks[open].line + 2 >= lines.length) open--;
    if (this.closed && (open > 0 || this.env.final)) this.checkClosed(lines);
    if (open > 0) {
      this.text = this.text.slice(lines[this.blocks[open].line]);
      this.blocks.splice(0, open);
    } else if (this.env.final || this.blocks.length !== 1) return;
    else if (this.blocks[0].items?.length > MANY) this.closeItems(this.blocks[0], lines);
    else if (this.blocks[0].kind === PARAGRAPH && this.text.length > this.long) this.closeWords(this.blocks[0]);
  }

  // Forget the beginning of a long paragraph, up to a word that it can be divided at: both parts alone are drawn as they
  // are together.
  closeWords(block) {
    this.long = this.text.length + LONG / 4; // to try it again
    const begin = this.text.slice(0, -LONG / 4);
    const spaces = [...begin.matchAll(/(?<![\s\\])[ \n](?=\p{L})/gu)].filter((space, at, all) => (all.length - 1 - at) % 40 === 0).slice(-3);
    for (const { index } of spaces.reverse()) {
      const [head, tail] = [this.text.slice(0, index), this.text.slice(index + 1)].map((text) => paragraph(text, this.env));
      if (head === null || tail === null || head + this.text[index] + tail !== block.inner) continue;
      const [first, rest] = [head + this.text[index], tail].map((html) => [...draw(`<p>${html}</p>`).firstChild.childNodes]);
      replaceFrom(block.node, block.first ?? 0, [...first, ...rest]);
      this.closed = { text: (this.closed?.text ?? "") + this.text.slice(0, index + 1), html: (this.closed?.html ?? "") + head + this.text[index] };
      this.text = this.text.slice(index + 1);
      this.long = LONG;
      Object.assign(block, { inner: tail, html: `<p>${tail}</p>`, first: (block.first ?? 0) + first.length });
      return;
    }
  }

  // Draw a paragraph again whose beginning looks different now that its end is here.
  checkClosed(lines) {
    const [block, next] = this.blocks;
    const html = paragraph(this.closed.text + this.text.slice(0, next ? lines[next.line] : undefined), this.env);
    if (html === null || html === this.closed.html + block.inner) block.node.normalize();
    else {
      const [node] = draw(`<p>${html}</p>`).childNodes;
      block.node.replaceWith(node);
      block.node = node;
    }
    this.closed = null;
  }

  // Draw the whole paragraph again: it is none, but a heading, for instance.
  reopen() {
    this.text = this.closed.text + this.text;
    this.closed = null;
    this.drawBlocks();
  }

  // Forget most items of a long list or table, too: its text then begins with one of the last items.
  closeItems(block, lines) {
    const closed = block.items.length - MANY / 2;
    const header = block.kind === "table" ? this.text.slice(0, lines[2]) : "";
    this.text = header + this.text.slice(lines[block.lines[closed]]);
    block.items.splice(0, closed);
    block.closed = (block.closed ?? 0) + closed;
  }

  // Take a list, a table or a paragraph that was closed in part for one with what follows.
  continueItems(block) {
    const before = this.blocks[0];
    if (before?.first) block.first = before.first;
    if (!before?.closed || block?.kind !== before.kind) return;
    block.closed = before.closed;
    block.html = `${before.closed} ${block.html}`;
    block.open = before.open;
    if (block.isLoose && !before.isLoose) this.loosen([...block.container.host(before.node).children].slice(0, block.closed));
  }

  // Make paragraphs of the items of a list that is loose after all.
  loosen(items) {
    for (const item of items.splice(0, LOOSENED)) addParagraphs(item);
    if (items.length) this.schedule(items, () => this.loosen(items));
  }
}

function plain(text) {
  return text.replaceAll("\r", "");
}

function lineStarts(text) {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

// Return the HTML in a paragraph, or null if the text is none.
function paragraph(text, env) {
  const tokens = md.parse(text, env);
  return tokens.length === 3 && tokens[0].type === PARAGRAPH ? render(tokens.slice(1, 2), env) : null;
}

// Wrap what is in no block of a list item.
function addParagraphs(item) {
  let into = null;
  for (const node of [...item.childNodes]) {
    if (node.nodeType !== Node.TEXT_NODE && !node.matches(PHRASING)) into = null;
    else if (into) into.append(node);
    else {
      into = element("p");
      node.replaceWith(into);
      into.append(node);
    }
  }
}

// A block: its HTML, and for a list or a table the HTML of each item, which is drawn in its `host`.

const CONTAINERS = {
  bullet_list_open: { kind: "list", item: "list_item", wrap: (html) => `<ul>${html}</ul>`, host: (node) => node },
  ordered_list_open: { kind: "list", item: "list_item", wrap: (html) => `<ul>${html}</ul>`, host: (node) => node },
  table_open: { kind: "table", item: "tr", wrap: (html) => `<table><tbody>${html}</tbody></table>`, host: (node) => node.querySelector("tbody") },
};

const PARAGRAPH = "paragraph_open";
const DETAILS = "details_open";

// Split the tokens of a text into its blocks. The first one may continue the list `before`, which stays loose.
function split(tokens, env, before) {
  if (before?.closed && before.isLoose) for (const token of tokens.slice(0, listEnd(tokens))) if (isItemText(token)) token.hidden = false;
  const blocks = [];
  for (let at = 0, end; at < tokens.length; at = end) {
    end = at + 1;
    if (tokens[at].nesting === 1) while (tokens[end - 1].level !== tokens[at].level || tokens[end - 1].nesting !== -1) end++;
    blocks.push(block(tokens.slice(at, end), env));
  }
  return blocks;
}

function listEnd(tokens) {
  return tokens.findIndex(({ level, nesting }) => level === 0 && nesting === -1);
}

// Return true for the paragraphs of the items of a list, which are hidden if it is tight.
function isItemText({ level, type }) {
  return level === 2 && (type === PARAGRAPH || type === "paragraph_close");
}

function block(tokens, env) {
  const [first] = tokens, line = first.map[0];
  if (first.type === "fence" || first.type === "code_block") {
    const text = codeOf(first);
    return { kind: "code", line, open: languageOf(first), html: text, text };
  }
  if (first.type === DETAILS) {
    const html = render(tokens, env);
    return { kind: DETAILS, line, html, open: html.slice(0, html.indexOf("</summary>")) };
  }
  const container = CONTAINERS[first.type];
  if (first.type === PARAGRAPH) {
    const inner = render(tokens.slice(1, 2), env);
    return { kind: PARAGRAPH, line, inner, html: `<p>${inner}</p>` };
  }
  if (container === undefined) return { kind: first.type, line, html: render(tokens, env) };
  const level = first.type === "table_open" ? 2 : 1;
  const body = first.type === "table_open" ? tokens.findIndex((token) => token.type === "tbody_open") : 0;
  if (body === -1) return { kind: "table", line, open: null, html: render(tokens, env) };
  const items = [], lines = [];
  for (let at = body + 1, begin; at < tokens.length; at++) {
    if (tokens[at].level !== level) continue;
    if (tokens[at].type === `${container.item}_open`) {
      begin = at;
      lines.push(tokens[at].map[0]);
    }
    if (tokens[at].type === `${container.item}_close`) items.push(render(tokens.slice(begin, at + 1), env));
  }
  const open = render(tokens.slice(0, body + 1), env), close = render(tokens.slice(first.type === "table_open" ? -2 : -1), env);
  const isLoose = container.kind === "list" && tokens.some((token) => isItemText(token) && !token.hidden);
  return { kind: container.kind, line, container, open, items, lines, isLoose, html: open + items.join("") + close };
}

// Return true if the block needs a node that the sanitizer makes.
function isNew(block, before) {
  if (block.kind === "code") return false;
  if (before === undefined) return true;
  if (before.first) return false;
  return before.html !== block.html && !(block.items && before.kind === block.kind && before.open === block.open);
}

// Return true if only the folded part of `before` changes, which is drawn when it is unfolded, or at its end.
function isFolded(block, before) {
  return block.kind === DETAILS && before?.kind === DETAILS && before.open === block.open && !before.node.open;
}

// Make the nodes of these blocks at once: a call of the sanitizer costs more than a small block.
function createAll(blocks) {
  if (blocks.length === 0) return;
  const nodes = [...draw(blocks.map(({ html }) => html).join("")).childNodes];
  if (nodes.length === blocks.length) blocks.forEach((block, at) => { block.node = nodes[at]; });
}

function create(block, grows) {
  if (block.kind === "code") {
    block.code = new CodeBlock(block.open);
    block.code.update(block.text, { grows });
    block.node = block.code.node;
  } else block.node ??= draw(block.html).firstChild ?? document.createTextNode("");
}

function update(block, before, grows) {
  if (block.kind === "code") {
    block.node = before.node;
    block.code = before.code;
    block.code.update(block.text, { grows });
  } else if (block.items) updateItems(block, before);
  else if (before.first) {
    block.node = before.node;
    replaceFrom(block.node, block.first, draw(block.html).firstChild.childNodes);
  } else {
    create(block, grows);
    if (block.kind === DETAILS) block.node.open = before.node.open;
    before.node.replaceWith(block.node);
  }
}

// Replace the children of `node` from the index `first` on.
function replaceFrom(node, first, children) {
  for (let count = node.childNodes.length - first; count > 0; count--) node.lastChild.remove();
  node.append(...children);
}

function updateItems(block, before) {
  const { wrap, host } = block.container, first = block.closed ?? 0;
  block.node = before.node;
  const children = host(block.node).children;
  const changed = [...block.items.keys()].filter((at) => block.items[at] !== before.items[at]);
  const made = changed.length ? [...host(draw(wrap(changed.map((at) => block.items[at]).join(""))).firstChild).children] : [];
  changed.forEach((at, index) => {
    if (first + at < children.length) children[first + at].replaceWith(made[index]);
    else host(block.node).append(made[index]);
  });
  while (children.length > first + block.items.length) children[children.length - 1].remove();
}

// Return the URL of a source as it is linked: only of HTTP and HTTPS, and without a user name, which would disguise the
// host; else null.
export function webAddress(text) {
  const url = address(text ?? "");
  if (url === null || !/^https?:/.test(url)) return null;
  const { username, password } = new URL(url);
  return username || password ? null : url;
}

function address(text) {
  try {
    const url = new URL(text);
    return SCHEMES.includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
