// HTML from text, with an allow-list: elements and attributes that are not named here are removed, whatever made them.

import DOMPurify from "./vendor/purify.js";

const COMMON = { ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true };

// DOMPurify compares every attribute with the schemes of URLs but those that are named as safe.
const attributes = (safe, urls = []) => ({ ALLOWED_ATTR: [...safe, ...urls], ADD_URI_SAFE_ATTR: safe, ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i });

export const MARKDOWN = {
  ...COMMON,
  ALLOWED_TAGS: ["a", "blockquote", "br", "code", "del", "details", "div", "em", "h3", "h4", "h5", "h6", "hr", "kbd", "li", "ol", "p", "pre", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul", "#text"],
  ...attributes(["title", "start", "data-align", "data-image", "data-language", "data-math", "data-note", "data-reference", "data-task", "open"], ["href"]),
};
export const HIGHLIGHTED = { ...COMMON, ALLOWED_TAGS: ["span", "#text"], ...attributes(["class"]) };
export const MATH = {
  ...COMMON,
  ALLOWED_TAGS: ["math", "menclose", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom", "mprescripts", "mroot", "mrow", "ms", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover", "none", "semantics", "#text"],
  ...attributes(["accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display", "displaystyle", "fence", "height", "largeop", "linethickness", "lspace", "mathbackground", "mathcolor", "mathsize", "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowlines", "rowspacing", "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width", "xmlns"]),
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

// Return the elements of `html` that `allowed` names, as a fragment.
export function sanitize(html, allowed) {
  return DOMPurify.sanitize(html, allowed);
}
