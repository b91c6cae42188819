// Markdown as DOM nodes. Text is never parsed as HTML, no image is loaded, and links have http, https or mailto URLs.
//
// `Markdown` accepts text in chunks. Text before the last blank line outside of code is final and is not drawn again,
// so that the cost of a chunk does not grow with the answer.

import { element, schedule } from "./dom.js";

export class Markdown {
  constructor(node) {
    this.node = node;
    this.text = "";
    this.drawn = [];
  }

  add(text) {
    this.text += text;
    schedule(this, () => this.draw());
  }

  draw() {
    for (const node of this.drawn) node.remove();
    const end = finished(this.text);
    this.node.append(...blocks(this.text.slice(0, end)));
    this.text = this.text.slice(end);
    this.drawn = blocks(this.text);
    this.node.append(...this.drawn);
  }
}

export function markdown(text) {
  return blocks(text);
}

// No pattern has two ways to match the same characters: a line of 100,000 spaces takes linear time.
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const DIVIDER = /^[\s|:-]*$/;
const DIVIDING = /^:?-+:?$/;  // a cell of it

function closes(line, mark) {
  const bare = line.trim();
  return bare.length >= mark.length && bare[0] === mark[0] && bare === bare[0].repeat(bare.length);
}

// Return the start of the last block: everything before it is final.
function finished(text) {
  let mark = null, end = 0, at = 0;
  for (let next; (next = text.indexOf("\n", at)) !== -1; at = next + 1) {
    const line = text.slice(at, next);
    const fence = FENCE.exec(line);
    if (mark !== null) { if (closes(line, mark)) { mark = null; end = next + 1; } }
    else if (fence) mark = fence[1];
    else if (line.trim() === "") end = next + 1;
  }
  return end;
}

function blocks(text) {
  const lines = text.split("\n");
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const [made, next] = block(lines, at);
    if (made) out.push(made);
    at = next;
  }
  return out;
}

function block(lines, at) {
  const line = lines[at];
  let match;
  if (line.trim() === "") return [null, at + 1];
  if ((match = FENCE.exec(line))) return fence(lines, at, match);
  if ((match = HEADING.exec(line))) return [element(`h${Math.min(match[1].length + 2, 6)}`, {}, ...inline(heading(match[2]))), at + 1];
  if (RULE.test(line)) return [element("hr"), at + 1];
  if (QUOTE.test(line)) return quote(lines, at);
  if (ITEM.test(line)) return list(lines, at);
  if (isTable(line, lines[at + 1] ?? "")) return table(lines, at);
  return paragraph(lines, at);
}

// Return the text of a heading, without the closing `#` characters.
function heading(text) {
  const whole = text.trim();
  let end = whole.length;
  while (whole[end - 1] === "#") end--;
  return end === 0 || /\s/.test(whole[end - 1]) ? whole.slice(0, end).trimEnd() : whole;
}

function fence(lines, at, [, mark, info]) {
  let end = at + 1;
  while (end < lines.length && !closes(lines[end], mark)) end++;
  const code = element("code", {}, lines.slice(at + 1, end).join("\n"));
  return [element("pre", { "data-language": info.trim().split(/\s/, 1)[0] || null, tabindex: "0" }, code), end + 1];
}

function quote(lines, at) {
  const inner = [];
  for (let match; at < lines.length && (match = QUOTE.exec(lines[at])); at++) inner.push(match[1]);
  return [element("blockquote", {}, ...paragraphs(inner)), at];
}

function paragraphs(lines) {
  const out = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === "") { at++; continue; }
    const [made, next] = paragraph(lines, at);
    out.push(made);
    at = next;
  }
  return out;
}

function paragraph(lines, at) {
  const own = [lines[at++]];
  const isOther = (line, next) => [FENCE, HEADING, RULE, QUOTE, ITEM].some((kind) => kind.test(line)) || isTable(line, next);
  while (at < lines.length && lines[at].trim() !== "" && !isOther(lines[at], lines[at + 1] ?? "")) own.push(lines[at++]);
  return [element("p", {}, ...inline(own.join("\n"))), at];
}

// Nest items by their indentation.
function list(lines, at) {
  const top = [];
  for (let match; at < lines.length && lines[at].trim() !== ""; at++) {
    if ((match = ITEM.exec(lines[at]))) {
      const [, space, marker, text] = match;
      const depth = space.length;
      while (top.length > 1 && depth < top[top.length - 1].depth) top.pop();
      if (top.length === 0 || (depth > top[top.length - 1].depth + 1 && top.length < 8)) {
        const number = parseInt(marker, 10);
        const made = element(Number.isNaN(number) ? "ul" : "ol", Number.isNaN(number) ? {} : { start: number });
        top[top.length - 1]?.node.lastElementChild?.append(made);
        top.push({ depth, node: made });
      }
      top[top.length - 1].node.append(element("li", {}, ...inline(text)));
    } else if (FENCE.test(lines[at])) break;
    else top[top.length - 1].node.lastElementChild.append("\n", ...inline(lines[at].trim()));
  }
  return [top[0].node, at];
}

function isTable(line, next) {
  if (!line.includes("|") || !DIVIDER.test(next)) return false;
  const divider = cells(next);
  return divider.every((cell) => DIVIDING.test(cell)) && cells(line).length === divider.length;
}

// The cells of a table's row. A pipe behind a backslash is text, also in code.
function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return bare.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function alignment(divider) {
  if (!divider.endsWith(":")) return null;
  return divider.startsWith(":") ? "center" : "right";
}

function table(lines, at) {
  const aligned = cells(lines[at + 1]).map(alignment);
  const row = (name, line) => {
    const texts = cells(line);
    return element("tr", {}, ...aligned.map((align, column) => element(name, { "data-align": align }, ...inline(texts[column] ?? ""))));
  };
  const head = element("thead", {}, row("th", lines[at]));
  const body = element("tbody");
  for (at += 2; at < lines.length && lines[at].includes("|"); at++) body.append(row("td", lines[at]));
  return [element("div", { class: "table" }, element("table", {}, head, body)), at];
}

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

// A search for marks that caches the last result for each mark, so that the total time is linear in the text.
class Marks {
  constructor(text) {
    this.text = text;
    this.found = new Map();
  }

  // Return the index of the first `mark` from `from` on, or -1.
  find(mark, from) {
    return this.cached(mark, from, () => this.text.indexOf(mark, from));
  }

  // Return the index of the first `mark` that is not doubled, or -1.
  findSingle(mark, from) {
    return this.cached(`${mark} alone`, from, () => {
      let at = this.text.indexOf(mark, from);
      while (at !== -1 && this.text[at + 1] === mark) at = this.text.indexOf(mark, at + 2);
      return at;
    });
  }

  cached(key, from, search) {
    const last = this.found.get(key);
    if (last && last.from <= from && (last.at === -1 || from <= last.at)) return last.at;
    const at = search();
    this.found.set(key, { from, at });
    return at;
  }
}

// Emphasis, code and links.
function inline(text, depth = 0) {
  const out = [];
  const marks = new Marks(text);
  let plain = "", at = 0;
  const flush = () => { if (plain) out.push(plain); plain = ""; };
  while (at < text.length) {
    const special = /[\\`*_~[]/g;
    special.lastIndex = at;
    const next = special.exec(text)?.index ?? text.length;
    plain += text.slice(at, next);
    at = next;
    if (at === text.length) break;
    const made = text[at] === "\\" ? escape(text, at) : text[at] === "`" ? code(text, at, marks) : text[at] === "[" ? link(text, at, marks) : marked(text, at, marks, depth);
    if (typeof made[0] === "string") plain += made[0];
    else { flush(); out.push(made[0]); }
    at = made[1];
  }
  flush();
  return out;
}

function escape(text, at) {
  return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? [text[at + 1], at + 2] : ["\\", at + 1];
}

function code(text, at, marks) {
  let end = at;
  while (text[end] === "`") end++;
  const mark = text.slice(at, end);
  let found = marks.find(mark, end);
  while (found !== -1 && text[found + mark.length] === "`") found = marks.find(mark, found + mark.length + 1);
  return found === -1 ? [mark, end] : [element("code", {}, text.slice(end, found).trim() || " "), found + mark.length];
}

function link(text, at, marks) {
  const middle = marks.find("](", at);
  const end = middle === -1 ? -1 : marks.find(")", middle);
  if (end === -1 || middle - at > 1000) return ["[", at + 1];
  const label = text.slice(at + 1, middle);
  const url = address(text.slice(middle + 2, end).trim().split(/\s/)[0]);
  if (url === null) return [text.slice(at, end + 1), end + 1];
  return [element("a", { href: url, title: url, target: "_blank", rel: "noopener noreferrer" }, label || url), end + 1];
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
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function marked(text, at, marks, depth) {
  const [mark, name] = MARKS.find(([characters]) => text.startsWith(characters, at)) ?? [text[at], null];
  const begin = at + mark.length;
  const inWord = mark[0] === "_" && /\w/.test(text[at - 1] ?? "");
  if (name === null || inWord || depth > 6 || /\s|^$/.test(text[begin] ?? "")) return [mark, begin];
  let end = mark.length === 1 ? marks.findSingle(mark, begin + 1) : marks.find(mark, begin + 1);
  while (mark.length === 2 && end !== -1 && text[end + 2] === mark[0]) end++;
  if (end === -1 || /\s/.test(text[end - 1])) return [mark, begin];
  return [element(name, {}, ...inline(text.slice(begin, end), depth + 1)), end + mark.length];
}
