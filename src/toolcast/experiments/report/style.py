"""The style sheet of a report: light and dark, for a screen of any width and for paper."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --back: #f6f7fb; --front: #fff; --sunk: #f1f2f8; --line: #dfe2ec; --words: #1d2030; --faint: #5f6578;
  --accent: #0065a0; --good: #0b7a4b; --warn: #8a5000; --bad: #b4232f;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12141c; --front: #1a1d28; --sunk: #14161f; --line: #343a4f; --words: #e7e9f3; --faint: #a3aac0;
    --accent: #6cb6ee; --good: #4cc38a; --warn: #f0b354; --bad: #ff8a91;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--words); overflow-wrap: anywhere; }
main, header, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.1rem; }
header { padding-top: 2rem; }
footer { padding-top: 1rem; padding-bottom: 3rem; color: var(--faint); font-size: .875rem; }
h1 { margin: 0 0 .4rem; font-size: 1.7rem; line-height: 1.25; letter-spacing: -.015em; }
h2 { margin: 0 0 .8rem; font-size: 1.3rem; letter-spacing: -.01em; }
h3 { margin: 2.2rem 0 .7rem; font-size: 1.05rem; }
p { margin: .5rem 0; }
a { color: var(--accent); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; padding: 0; margin: .6rem 0 0; list-style: none; }
.run {
  margin: 1.5rem 0; padding: 1.4rem;
  background: var(--front); border: 1px solid var(--line); border-radius: 12px;
}
.note { color: var(--faint); font-size: .9rem; }
.status { font-weight: 600; }
.good { color: var(--good); }
.warn { color: var(--warn); }
.bad { color: var(--bad); }
dl {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr));
  gap: .9rem 1.2rem; margin: 0 0 .8rem;
}
dt { color: var(--faint); font-size: .8rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 9px; margin: .6rem 0; }
.picture { background: var(--front); border: 0; }
.picture svg { display: block; width: 100%; min-width: 34rem; height: auto; max-height: 38rem; }
.picture svg * { stroke-linejoin: round; stroke-linecap: butt; }
.picture image { image-rendering: pixelated; }
.long { max-height: 34rem; overflow: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .55rem; color: var(--faint); overflow-wrap: normal; }
th, td {
  padding: .3rem .55rem; text-align: left; vertical-align: top;
  border-top: 1px solid var(--line); overflow-wrap: normal;
}
thead th { color: var(--faint); font-weight: 600; vertical-align: bottom; background: var(--sunk); }
.number { text-align: right; white-space: nowrap; }
.long thead th { position: sticky; top: 0; }
thead .number { white-space: normal; }
.text { min-width: 18rem; overflow-wrap: anywhere; white-space: pre-wrap; }
tbody tr:hover { background: var(--sunk); }
details { border: 1px solid var(--line); border-radius: 9px; margin: .5rem 0; }
summary { padding: .5rem .8rem; cursor: pointer; }
details[open] > summary { border-bottom: 1px solid var(--line); }
.words { padding: .8rem; white-space: pre-wrap; }
.code { font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
@media (max-width: 40rem) {
  .run { padding: 1rem .8rem; border-radius: 9px; }
  main, header, footer { padding-left: .6rem; padding-right: .6rem; }
}
@media print {
  :root {
    --back: #fff; --front: #fff; --sunk: #fff; --line: #bbb; --words: #000; --faint: #444;
    --accent: #000; --good: #000; --warn: #000; --bad: #000; font-size: 11px;
  }
  main, header, footer { max-width: none; padding: 0; }
  nav { display: none; }
  .run { border: 0; padding: 0; margin: 0; }
  .run + .run { break-before: page; }
  .wide, .long { overflow: visible; max-height: none; border: 0; }
  .picture svg { min-width: 0; }
  .picture, tr, dl > div { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  table { font-size: .8rem; }
  th, td { padding: .2rem .35rem; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
