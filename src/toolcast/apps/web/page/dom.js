// Creation of elements from text nodes and single attributes: text is never parsed as HTML.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
const GLYPHS = {
  again: "M15.6 10a5.6 5.6 0 1 1-1.6-3.9M15.6 3.4v3.2h-3.2",
  copy: "M7.5 7.5h8.2v8.2H7.5zM4.3 12.5V4.3h8.2",
  cross: "m5.5 5.5 9 9M14.5 5.5l-9 9",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  next: "m8 5 5 5-5 5",
  pencil: "m4 16 .8-3.3 8.3-8.3a1.4 1.4 0 0 1 2 0l.5.5a1.4 1.4 0 0 1 0 2l-8.3 8.3z",
  previous: "m12 5-5 5 5 5",
};

export function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Return a line drawing for a button, whose label is elsewhere.
export function glyph(name) {
  return shape("svg", { class: "glyph", viewBox: "0 0 20 20", "aria-hidden": "true" }, shape("path", { d: GLYPHS[name] }));
}

// Return an error without the advice for programs: the page has a button for the event that it names.
export function withoutEvents(text) {
  return text.replace(/; (RETRY|LOAD)_[A-Z_]+ .*$/s, "");
}

const ends = new WeakMap();  // where boxes were scrolled to

// Scroll a box that grows to its end, unless the reader has scrolled up in it.
export function followEnd(box) {
  if (box.scrollTop < (ends.get(box) ?? 0) - 1) return;
  box.scrollTop = box.scrollHeight;
  ends.set(box, box.scrollTop);
}

// Return a number of bytes for a person.
export function fileSize(bytes) {
  if (bytes < 1000) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1).replace(".0", "")} MB`;
}

const waiting = new Map();
let isRequested = false;

// Call `draw` once before the next frame, however often it is scheduled under the same `key`; or in this frame, if it is
// scheduled by another draw.
export function schedule(key, draw) {
  waiting.set(key, draw);
  if (isRequested) return;
  isRequested = true;
  requestAnimationFrame(drawAll);
}

function drawAll() {
  const drawn = new Set();
  for (const [key, draw] of waiting) {
    if (drawn.has(key)) continue;
    drawn.add(key);
    waiting.delete(key);
    draw();
  }
  isRequested = waiting.size > 0;
  if (isRequested) requestAnimationFrame(drawAll);
}

// Invisible characters, and spaces other than U+0020; the same set as `exposed` in terminal_text.py.
const INVISIBLE = /(?![ \t\n])[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cs}\p{Co}\p{Z}\u2800\ufff9-\ufffb]/gu;

// Return the JSON indented, with its tokens unchanged. The user approves exactly these arguments, so a number keeps its
// digits, a repeated key appears twice, and invisible characters and changes of direction are escaped. Text that is not
// JSON is escaped only.
export function indented(json) {
  if (!isJson(json)) return escapeInvisible(json);
  let out = "", depth = 0, quoted = false;
  const line = () => "\n" + "  ".repeat(depth);
  for (let at = 0; at < json.length; at++) {
    const character = json[at];
    if (quoted) {
      out += character;
      if (character === "\\") out += json[++at] ?? "";
      else if (character === '"') quoted = false;
    } else if (character === '"') {
      quoted = true;
      out += character;
    } else if (character === "{" || character === "[") {
      const empty = /^\s*[}\]]/.exec(json.slice(at + 1, at + 40));
      if (empty) { out += character + empty[0].trim(); at += empty[0].length; }
      else { depth++; out += character + line(); }
    } else if (character === "}" || character === "]") {
      depth--;
      out += line() + character;
    } else if (character === ",") out += character + line();
    else if (character === ":") out += ": ";
    else if (!/\s/.test(character)) out += character;
  }
  return escapeInvisible(out);
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function escapeInvisible(text) {
  return text.replace(INVISIBLE, (character) => character.split("").map((unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0")).join(""));
}
