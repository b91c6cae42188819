// A file's change as rows of old and new lines, and code in the same rows for copying.

import { element, escapeInvisible } from "./dom.js";

const SIGNS = { add: "+", remove: "−", same: "", gap: "⋯" };
const CHANGES = { create: "new file", edit: "changed", overwrite: "overwritten" };
const SPOKEN = { add: "added: ", remove: "removed: " };

export const WILL_FAIL = /\bwill fail:/; // in the note of an edit whose text is not in the file

// Return the rows of a `diff` preview: both line numbers, and the words of a line that have changed.
// A file whose text before the call is unknown has a `summary`: its rows are its lines, and none is a change.
export function renderDiff({ path, change, added, removed, rows, note, summary }) {
  const counts = summary ? [summary] : [element("span", { class: "added" }, `+${added ?? 0}`), " ", element("span", { class: "removed" }, `−${removed ?? 0}`)];
  const head = element(
    "figcaption",
    {},
    element("span", { class: "path", dir: "ltr" }, escapeInvisible(path ?? "")),
    element("span", { class: "change" }, CHANGES[change] ?? ""),
    element("span", { class: "counts" }, ...counts),
  );
  const body = element("tbody", {}, ...rows.map(row));
  const lines = element("div", { class: "lines", tabindex: "0", role: "region", "aria-label": `Change of ${escapeInvisible(path ?? "the file")}` }, element("table", {}, body));
  return element("figure", { class: "diff", dir: "ltr" }, head, lines, note ? element("p", { class: WILL_FAIL.test(note) ? "note wrong" : "note" }, escapeInvisible(note)) : "");
}

function row({ kind, old, new: now, text, words }) {
  const spoken = SPOKEN[kind] ? element("span", { class: "visually-hidden" }, SPOKEN[kind]) : "";
  const number = (value) => element("td", { class: "number", "data-number": value ?? null });
  return element(
    "tr",
    { class: kind },
    number(old),
    number(now),
    element("td", { class: "sign", "data-sign": SIGNS[kind] ?? "" }),
    element("td", { class: "line" }, spoken, ...marked(text, words ?? [])),
  );
}

// The text of a line, with its changed words marked. Their places are in characters as Python counts them.
function marked(text, words) {
  if (words.length === 0) return [escapeInvisible(text)];
  const characters = [...text], nodes = [];
  let at = 0;
  for (const [begin, end] of words) {
    nodes.push(escapeInvisible(characters.slice(at, begin).join("")), element("mark", {}, escapeInvisible(characters.slice(begin, end).join(""))));
    at = end;
  }
  return [...nodes, escapeInvisible(characters.slice(at).join(""))];
}
