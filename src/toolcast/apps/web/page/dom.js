// Elements, made so that text is never read as HTML: strings become text nodes, attributes are set one by one.

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

// Have `draw` called once before the next picture, however often it is asked for; `key` says what it draws.
export function soon(key, draw) {
  if (waiting.size === 0) requestAnimationFrame(drawAll);
  waiting.set(key, draw);
}

export function drawAll() {
  const draws = [...waiting.values()];
  waiting.clear();
  for (const draw of draws) draw();
}

// What cannot be seen, and every blank but the one; as `exposed` in terminal_text.py.
const UNSEEN = /(?![ \t\n])[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cs}\p{Co}\p{Z}\u2800\ufff9-\ufffb]/gu;

// The same JSON, indented. Its tokens stay as they are: who is asked about a call must see what it was made with, so that
// a number keeps its digits, a repeated key is seen twice, and what would be invisible or turn text around is spelt out.
// What is no JSON stays as it is.
export function indented(json) {
  if (!isJson(json)) return seen(json);
  let out = "", depth = 0, quoted = false;
  const line = () => "\n" + "  ".repeat(depth);
  for (let at = 0; at < json.length; at++) {
    const sign = json[at];
    if (quoted) {
      out += sign;
      if (sign === "\\") out += json[++at] ?? "";
      else if (sign === '"') quoted = false;
    } else if (sign === '"') {
      quoted = true;
      out += sign;
    } else if (sign === "{" || sign === "[") {
      const empty = /^\s*[}\]]/.exec(json.slice(at + 1, at + 40));
      if (empty) { out += sign + empty[0].trim(); at += empty[0].length; }
      else { depth++; out += sign + line(); }
    } else if (sign === "}" || sign === "]") {
      depth--;
      out += line() + sign;
    } else if (sign === ",") out += sign + line();
    else if (sign === ":") out += ": ";
    else if (!/\s/.test(sign)) out += sign;
  }
  return seen(out);
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function seen(text) {
  return text.replace(UNSEEN, (sign) => sign.split("").map((unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0")).join(""));
}
