// Menus that open at a button: one entry per action, moved through by the arrow keys, closed by Escape.

import { element } from "./dom.js";

let current = null;  // the open menu

// Open a menu below `button`. An entry is `{label, note, checked, danger, href, act}`; `checked` makes it a choice.
export function openMenu(button, label, entries) {
  const wasOpen = current?.button === button;
  closeMenu();
  if (wasOpen) return;
  const items = entries.map(({ label: text, note, checked, danger, href, act }) => {
    const role = checked === undefined ? "menuitem" : "menuitemradio";
    const attributes = { role, tabindex: "-1", class: danger ? "danger" : "", "aria-checked": checked === undefined ? null : String(checked) };
    const children = [element("span", {}, text), ...(note ? [element("small", {}, note)] : [])];
    const click = () => { closeMenu(true); act?.(); };
    return href ? element("a", { ...attributes, href, download: "", click: () => closeMenu(true) }, ...children) : element("button", { ...attributes, type: "button", click }, ...children);
  });
  const node = element("div", { class: "menu", role: "menu", "aria-label": label, keydown: (event) => onKey(event, items) }, ...items);
  button.closest("nav, main").append(node);
  place(node, button);
  button.setAttribute("aria-expanded", "true");
  current = { node, button };
  (items.find((item) => item.ariaChecked === "true") ?? items[0])?.focus();
}

export function closeMenu(focus = false) {
  if (current === null) return;
  const { node, button } = current;
  current = null;
  node.remove();
  button.setAttribute("aria-expanded", "false");
  if (focus) button.focus();
}

function place(node, button) {
  const at = button.getBoundingClientRect(), size = node.getBoundingClientRect();
  const below = at.bottom + 4 + size.height <= innerHeight;
  node.style.top = `${Math.max(4, below ? at.bottom + 4 : at.top - size.height - 4)}px`;
  node.style.left = `${Math.max(8, Math.min(at.left, innerWidth - size.width - 8))}px`;
}

function onKey(event, items) {
  const at = items.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (next !== undefined) items.at(next % items.length).focus();
  else if (event.key === "Escape") closeMenu(true);
  else if (event.key === "Tab") closeMenu(true);
  else return;
  if (event.key !== "Tab") event.preventDefault();
  event.stopPropagation();
}

addEventListener("pointerdown", (event) => {
  if (current !== null && !current.node.contains(event.target) && !current.button.contains(event.target)) closeMenu();
}, true);
addEventListener("resize", () => closeMenu());
