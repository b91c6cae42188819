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

const waiting = new Map();

// Call `draw` once before the next frame, however often it is scheduled under the same `key`.
export function schedule(key, draw) {
  if (waiting.size === 0) requestAnimationFrame(drawAll);
  waiting.set(key, draw);
}

export function drawAll() {
  const draws = [...waiting.values()];
  waiting.clear();
  for (const draw of draws) draw();
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
