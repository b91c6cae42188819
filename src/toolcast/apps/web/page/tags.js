// What models write beside CommonMark: `<br>`, `<sub>`, `<sup>`, `<kbd>` and `<details>` with a `<summary>`, all without
// attributes, and footnotes. Any other HTML stays text.

import { element } from "./dom.js";

const TAG = /^<(?:(br)\s?\/?|(sub|sup|kbd))>/i;
const ENDS = { sub: /<\/sub>/i, sup: /<\/sup>/i, kbd: /<\/kbd>/i };
const LONGEST = 2000; // characters between two tags of a line
const DETAILS = /^<details( open(?:="")?)?>(?=\s*(?:$|<summary>|.*<\/details>))/i;
const EDGE = /<(\/?)details(?: open(?:="")?)?>/gi;
const SUMMARY = /^\s*<summary>([^]*?)<\/summary>/i;
const SHAPE = /<\/?(?:b|strong|i|em|u|h[1-6])>/gi; // in a summary, which has its own
const FENCE = /^\s*(?:```|~~~)/;
const NOTE = /^\[\^([\w.-]{1,40})\]:[ \t]*/;
const REFERENCE = /^\[\^([\w.-]{1,40})\](?![(:[])/;
const DEEPEST = 6; // details and footnotes in each other

// Add the rules to a MarkdownIt.
export function addTags(md) {
  md.inline.ruler.before("html_inline", "tag", tag);
  md.inline.ruler.before("link", "note_reference", noteReference);
  md.block.ruler.before("html_block", "details", details, { alt: ["paragraph", "reference", "blockquote", "list"] });
  md.block.ruler.before("reference", "note", note, { alt: ["paragraph", "reference"] });
  const { escapeHtml } = md.utils;
  Object.assign(md.renderer.rules, {
    details_open: (tokens, at) => `<details${tokens[at].info}>`,
    note_open: (tokens, at) => `<div data-note="${escapeHtml(tokens[at].info)}"><div>`,
    note_close: () => "</div></div>",
    note_reference: (tokens, at) => `<span data-reference="${escapeHtml(tokens[at].info)}">[^${escapeHtml(tokens[at].info)}]</span>`,
  });
}

function tag(state, silent) {
  const { src, pos, posMax } = state;
  if (src[pos] !== "<") return false;
  const found = TAG.exec(src.slice(pos, pos + 6));
  if (found === null) return false;
  const begin = pos + found[0].length;
  if (begin > posMax) return false;
  if (found[1]) {
    if (!silent) state.push("hardbreak", "br", 0);
    state.pos = begin;
    while (state.pos < posMax && /\s/.test(src[state.pos])) state.pos++;
    return true;
  }
  const name = found[2].toLowerCase(), length = src.slice(begin, Math.min(begin + LONGEST, posMax)).search(ENDS[name]);
  if (length <= 0) return false;
  if (!silent) {
    state.push("tag_open", name, 1);
    state.pos = begin;
    state.posMax = begin + length;
    state.md.inline.tokenize(state);
    state.push("tag_close", name, -1);
    state.posMax = posMax;
  }
  state.pos = begin + length + name.length + 3;
  return true;
}

// A block between `<details>` and its `</details>`, or the end of what it is in.
function details(state, startLine, endLine, silent) {
  const from = state.bMarks[startLine] + state.tShift[startLine];
  const begin = state.src[from] === "<" ? DETAILS.exec(state.src.slice(from, state.eMarks[startLine])) : null;
  if (begin === null || isCode(state, startLine) || isDeep(state)) return false;
  if (silent) return true;
  let depth = 0, fenced = false, line = startLine, text = "", after = "";
  for (; line < endLine && after === ""; line++) {
    if (line > startLine && state.sCount[line] < state.blkIndent && !state.isEmpty(line)) break;
    const source = state.getLines(line, line + 1, state.blkIndent, false);
    if (FENCE.test(source)) fenced = !fenced;
    const end = fenced ? -1 : [...source.matchAll(EDGE)].find(({ 1: slash }) => (depth += slash ? -1 : 1) === 0)?.index ?? -1;
    text += `${end === -1 ? source : source.slice(0, end)}\n`;
    if (end !== -1) after = `${source.slice(end + "</details>".length)}\n`;
  }
  text = text.trimStart().slice(begin[0].length);
  const summary = SUMMARY.exec(text);
  open(state, "details", "details", startLine, line).info = begin[1] ? " open" : "";
  state.push("summary_open", "summary", 1);
  const title = state.push("inline", "", 0);
  title.content = summary?.[1].replace(SHAPE, "").trim().replace(/\s*\n\s*/g, " ") || "Details";
  title.children = [];
  state.push("summary_close", "summary", -1);
  parse(state, summary ? text.slice(summary[0].length) : text, startLine);
  state.push("details_close", "details", -1);
  state.line = line;
  if (after.trim()) parse(state, after, line - 1);
  return true;
}

// The text of a footnote: until an empty line or the next footnote, and what is indented after it.
function note(state, startLine, endLine, silent) {
  const from = state.bMarks[startLine] + state.tShift[startLine];
  const begin = state.src[from] === "[" ? NOTE.exec(state.src.slice(from, Math.min(from + 60, state.eMarks[startLine]))) : null;
  if (begin === null || isCode(state, startLine) || isDeep(state)) return false;
  if (silent) return true;
  let line = startLine + 1;
  for (let wasEmpty = false; line < endLine; line++) {
    const indent = state.sCount[line] - state.blkIndent, isEmpty = state.isEmpty(line);
    const isNote = NOTE.test(state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]));
    if (!isEmpty && (indent < 0 || (indent < 4 && (wasEmpty || isNote)))) break;
    wasEmpty = isEmpty;
  }
  while (state.isEmpty(line - 1)) line--;
  const rest = state.getLines(startLine + 1, line, state.blkIndent + 4, false);
  open(state, "note", "div", startLine, line).info = begin[1];
  parse(state, `${state.src.slice(from + begin[0].length, state.eMarks[startLine])}\n${rest}`, startLine);
  state.push("note_close", "div", -1);
  state.line = line;
  return true;
}

function noteReference(state, silent) {
  const found = state.src[state.pos] === "[" ? REFERENCE.exec(state.src.slice(state.pos, Math.min(state.pos + 50, state.posMax))) : null;
  if (found === null) return false;
  if (!silent) state.push("note_reference", "span", 0).info = found[1];
  state.pos += found[0].length;
  return true;
}

function open(state, kind, name, begin, end) {
  const token = state.push(`${kind}_open`, name, 1);
  token.block = true;
  token.map = [begin, end];
  return token;
}

function isCode(state, line) {
  return state.sCount[line] - state.blkIndent >= 4;
}

function isDeep({ env }) {
  return (env.depth ?? 0) >= DEEPEST;
}

// Parse the blocks of `text`, whose first line is `line`, in place.
function parse(state, text, line) {
  const { env, tokens } = state, from = tokens.length;
  env.depth = (env.depth ?? 0) + 1;
  state.md.block.parse(text, state.md, env, tokens);
  env.depth--;
  for (const token of tokens.slice(from)) {
    token.level += state.level;
    if (token.map) token.map = token.map.map((each) => each + line);
  }
}

// Make references of footnotes lead to them, and back. One without a footnote stays text.
export function linkNotes(root) {
  const notes = new Map([...root.querySelectorAll("[data-note]")].reverse().map((each) => [each.dataset.note, each]));
  if (notes.size === 0) return;
  for (const reference of root.querySelectorAll("[data-reference]")) {
    const label = reference.dataset.reference, found = notes.get(label);
    if (found === undefined) continue;
    if (reference.firstElementChild === null) {
      const to = element("button", { type: "button", class: "to-note", "aria-label": `Footnote ${label}`, click: () => show(to.closest(".prose").querySelector(`[data-note="${label}"]`)) }, label);
      reference.replaceChildren(element("sup", {}, to));
    }
    if (found.lastElementChild.matches("button")) continue;
    const back = element("button", { type: "button", class: "from-note", "aria-label": `Back to footnote ${label} in the text`, click: () => show(back.closest(".prose").querySelector(`[data-reference="${label}"] button`)) }, "↩");
    found.append(back);
  }
}

function show(node) {
  if (node.dataset.note) node.tabIndex = -1;
  node.focus({ preventScroll: true });
  node.scrollIntoView({ block: "nearest" });
}
