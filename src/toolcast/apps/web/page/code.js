// Blocks of code: the language, a button that copies, and highlighted text.

import { element, followEnd } from "./dom.js";
import { HIGHLIGHTED, sanitize } from "./sanitize.js";
import hljs from "./vendor/highlight.js";

const WHOLE = 30_000; // characters that are highlighted
const NAME = /^[\w.+#-]{1,30}$/; // of a language
const LIVE = 6000; // of these, highlighted again in each frame while the block grows

export class CodeBlock {
  constructor(language = "") {
    this.language = language;
    this.text = "";
    this.final = { length: 0, nodes: 0 }; // the beginning of a growing block that is not highlighted again
    this.code = element("code");
    this.box = element("pre", { tabindex: "0" }, this.code);
    const copy = copyButton(() => this.text, "Copy code");
    this.node = element(
      "figure",
      { class: "code", dir: "ltr", "data-language": language || null },
      element("figcaption", {}, element("span", {}, language === "mermaid" ? "Mermaid diagram, as text" : NAME.test(language) ? language : "text"), copy),
      this.box,
    );
  }

  // Show `text`. While the block `grows`, its end stays in view, and only the end of a long one is highlighted again.
  update(text, { grows = false } = {}) {
    const isLonger = text.startsWith(this.text);
    if (!grows || !isLonger) this.final = { length: 0, nodes: 0 };
    if (text.length <= WHOLE && hljs.getLanguage(this.language) !== undefined) this.highlight(text, grows);
    else if (isLonger && this.code.childNodes.length === 1 && this.code.firstChild.nodeType === Node.TEXT_NODE) this.code.firstChild.appendData(text.slice(this.text.length));
    else this.code.replaceChildren(text);
    this.text = text;
    if (grows) followEnd(this.box);
  }

  highlight(text, grows) {
    while (this.code.childNodes.length > this.final.nodes) this.code.lastChild.remove();
    const rest = text.slice(this.final.length);
    if (grows && rest.length > LIVE) {
      const half = rest.length - LIVE / 2;
      const head = rest.slice(0, rest.lastIndexOf("\n", half) + 1 || half);
      this.code.append(highlight(head, this.language));
      this.final = { length: this.final.length + head.length, nodes: this.code.childNodes.length };
    }
    this.code.append(highlight(text.slice(this.final.length), this.language));
  }
}

function highlight(text, language) {
  return sanitize(hljs.highlight(text, { language, ignoreIllegals: true }).value, HIGHLIGHTED);
}

// Return a button whose label is drawn by the style sheet: it is no part of the text beside it.
export function labelled(label, title, act, attributes = {}, ...icon) {
  return element("button", { type: "button", "data-label": label, "aria-label": title, title, click: act, ...attributes }, ...icon);
}

// Return a button that copies what `text()` returns, and shows that it has.
export function copyButton(text, title, ...icon) {
  const button = labelled("Copy", title, async () => {
    show((await copyText(text())) ? "Copied" : "Not copied");
    setTimeout(() => show("Copy", title), 2000);
  }, { class: "copy" }, ...icon);
  const show = (label, name = label) => {
    button.dataset.label = label;
    button.setAttribute("aria-label", name);
  };
  return button;
}

// Copy `text`, also where the page is served to another machine without TLS, and the clipboard's API is missing.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = element("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    box.value = text;
    const focused = document.activeElement;
    document.body.append(box);
    box.select();
    const copied = document.execCommand("copy");
    box.remove();
    focused?.focus();
    return copied;
  }
}
