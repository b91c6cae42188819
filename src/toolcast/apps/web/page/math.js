// Math in Markdown: `\( \)`, `\[ \]`, `$$ $$`, and `$ $` where it is no amount of money. Drawn by KaTeX as MathML, which
// needs no styles and no fonts.

import "./vendor/katex.js";
import { element } from "./dom.js";
import { MATH, sanitize } from "./sanitize.js";

const LONGEST = 4000; // characters of a formula
const LINES = 100; // of a formula
const CACHED = 500;
const OPTIONS = { output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxExpand: 500, maxSize: 20 };

// Add the rules to a MarkdownIt. They make `<span data-math="inline or display">` with the TeX.
export function addMath(md) {
  md.inline.ruler.before("escape", "math", inlineMath);
  md.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "reference", "blockquote", "list"] });
  md.renderer.rules.math = (tokens, at) => span(md, tokens[at], "span");
  md.renderer.rules.math_block = (tokens, at) => span(md, tokens[at], "div");
}

function span(md, { content, info }, name) {
  return `<${name} data-math="${info}">${md.utils.escapeHtml(content)}</${name}>`;
}

function inlineMath(state, silent) {
  const { src, pos } = state;
  const begin = src.startsWith("$$", pos) ? "$$" : src[pos] === "$" ? "$" : src.startsWith("\\(", pos) ? "\\(" : src.startsWith("\\[", pos) ? "\\[" : null;
  if (begin === null) return false;
  const end = { $: "$", $$: "$$", "\\(": "\\)", "\\[": "\\]" }[begin];
  const text = src.slice(pos + begin.length, Math.min(pos + LONGEST, state.posMax));
  const length = text.indexOf(end);
  if (length <= 0) return false;
  const content = text.slice(0, length), after = text[length + 1] ?? "";
  if (content.trim() === "" || /\n\s*\n/.test(content)) return false;
  if (begin === "$" && !isMath(content, src[pos - 1] ?? "", after)) return false;
  if (begin === "\\[" && !/[\\^_=+<>{}]|^\s*[\p{L}\d]\s*$/u.test(content)) return false;
  if (!silent) {
    const token = state.push("math", "", 0);
    token.content = content.trim();
    token.info = begin === "$$" || begin === "\\[" ? "display" : "inline";
  }
  state.pos = pos + begin.length + length + end.length;
  return true;
}

// Return whether the text between two `$` is math, and not between two amounts or names of variables.
function isMath(content, before, after) {
  if (/^\s|\s$|^\d[\d.,]*$|\n/.test(content) || /[\p{L}\d\\]/u.test(before) || /[\p{L}\d]/u.test(after)) return false;
  if (/[\\^_={}<>]/.test(content)) return true;
  return !/\p{L}{3}|\p{L}{2} |,\s|^\d[\d.,]*\s*(?:[-–—/]\s*)?$/u.test(content) && /\p{L}|\d\s*[-+*/]\s*\d/u.test(content);
}

// A block that begins a line. One that is not closed yet is shown as its source, if more text may follow.
function blockMath(state, startLine, endLine, silent) {
  const from = state.bMarks[startLine] + state.tShift[startLine];
  const begin = state.src.startsWith("$$", from) ? "$$" : state.src.startsWith("\\[", from) ? "\\[" : null;
  if (begin === null || state.sCount[startLine] - state.blkIndent >= 4) return false;
  const end = begin === "$$" ? "$$" : "\\]";
  const lines = [];
  let line = startLine, closed = false;
  for (; line < Math.min(endLine, startLine + LINES) && !closed; line++) {
    const start = line === startLine ? from + 2 : state.bMarks[line] + state.tShift[line];
    const text = state.src.slice(start, state.eMarks[line]).trimEnd();
    if (line > startLine && (text === "" || state.sCount[line] < state.blkIndent)) return false;
    const at = text.indexOf(end);
    if (at !== -1 && at !== text.length - 2) return false;
    closed = at !== -1;
    lines.push(closed ? text.slice(0, -2) : text);
  }
  const content = lines.join("\n").trim();
  if (closed ? content === "" || content.length > LONGEST : state.env.final || line < endLine || state.parentType !== "root" && silent) return false;
  if (silent) return true;
  const token = state.push("math_block", "div", 0);
  token.block = true;
  token.content = content;
  token.info = closed ? "display" : "pending";
  token.map = [startLine, line];
  state.line = line;
  return true;
}

const drawn = new Map();

// Draw the formulas in `root`. TeX that KaTeX rejects is shown as code.
export function drawMath(root) {
  for (const node of root.querySelectorAll("[data-math]")) {
    const tex = node.textContent;
    if (node.dataset.math === "pending") node.replaceChildren(element("code", {}, tex));
    else node.replaceChildren(formula(tex, node.dataset.math === "display"));
  }
}

function formula(tex, displayMode) {
  const key = `${displayMode}${tex}`;
  if (!drawn.has(key)) {
    if (drawn.size >= CACHED) drawn.clear();
    drawn.set(key, typeset(tex, displayMode));
  }
  return drawn.get(key).cloneNode(true);
}

function typeset(tex, displayMode) {
  try {
    const math = sanitize(globalThis.katex.renderToString(tex, { ...OPTIONS, displayMode }), MATH).querySelector("math");
    math.setAttribute("aria-label", tex);
    spaceFunctions(math);
    return math;
  } catch {
    return element("code", { class: "tex" }, tex);
  }
}

// Add the thin spaces of TeX around the names of functions, which browsers leave out.
function spaceFunctions(math) {
  for (const apply of math.querySelectorAll("mo")) {
    if (apply.textContent !== "\u2061") continue;
    const name = apply.previousElementSibling;
    if (apply.nextElementSibling && apply.nextElementSibling.localName !== "mo") apply.setAttribute("rspace", "0.17em");
    if (name?.previousElementSibling && name.previousElementSibling.localName !== "mo") name.before(space());
  }
}

function space() {
  const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", "mspace");
  node.setAttribute("width", "0.17em");
  return node;
}
