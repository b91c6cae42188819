"""The page's modules one by one, run in Chromium: Markdown as nodes, JSON as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unicodedata import category

import pytest

from browser.held_llm import HeldLLM
from browser.served import served
from toolcast.text.terminal_text import exposed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RENDERED = """async text => {
    const { markdown } = await import("/assets/markdown.js");
    const node = document.createElement("div");
    node.append(...markdown(text));
    return node.innerHTML;
}"""
GROWING = """async text => {
    const { Markdown, markdown } = await import("/assets/markdown.js");
    const whole = document.createElement("div");
    whole.append(...markdown(text));
    const wrong = [];
    for (let size = 1; size < 9; size++) {
        const node = document.createElement("div");
        const growing = new Markdown(node);
        for (let at = 0; at < text.length; at += size) {
            growing.append(text.slice(at, at + size));
            growing.draw();
        }
        growing.finish();
        if (!node.isEqualNode(whole)) wrong.push([size, node.innerHTML, whole.innerHTML]);
    }
    return wrong;
}"""
SEEN = "async text => (await import('/assets/dom.js')).escapeInvisible(text)"
INDENTED = "async text => (await import('/assets/dom.js')).indented(text)"


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page whose modules can be had."""
    with served(HeldLLM()) as chat:
        page = browser.new_page()
        page.goto(chat.url)
        yield page
        page.close()


P = '<p dir="auto">'


DONE = '<input type="checkbox" disabled="" checked="" aria-label="done"> '
OPEN = '<input type="checkbox" disabled="" aria-label="not done"> '
IMAGE = ' data-image=""'
NOTE = "A note[^1].\n\n[^1]: https://a.example/"
TO_NOTE = '<sup><button type="button" class="to-note" aria-label="Footnote 1">1</button></sup>'
BACK = '<button type="button" class="from-note" aria-label="Back to footnote 1 in the text">↩</button>'


def element(name: str, content: str, *attributes: str) -> str:
    return f"<{' '.join((name, *sorted(filter(None, attributes))))}>{content}</{name}>"


def table(*rows: str, align: tuple[str, ...] = ("", "")) -> str:
    """A table; the cells of a row are separated by bars."""

    def row(name: str, cells: str) -> str:
        made = (
            element(name, cell, 'dir="auto"', f'data-align="{at}"' if at else "")
            for cell, at in zip(cells.split("|"), align, strict=True)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(row("td", cells) for cells in rows[1:])
    box = '<div class="table" tabindex="0" role="region" aria-label="Table">'
    return f"{box}<table><thead>{row('th', rows[0])}</thead><tbody>{body}</tbody></table></div>"


def link(url: str, words: str, more: str = "") -> str:
    return f'<a href="{url}" title="{url}"{more} target="_blank" rel="noopener noreferrer">{words}</a>'


def fold(summary: str, content: str, more: str = "", to: str = ' dir="auto"') -> str:
    return f"<details{more}{to}><summary>{summary}</summary>{content}</details>"


def ref(label: str, content: str = "") -> str:
    return f'<span data-reference="{label}">{content or f"[^{label}]"}</span>'


def note(label: str, content: str, more: str = "") -> str:
    return f'<div data-note="{label}" dir="auto"><div><p>{content}</p></div>{more}</div>'


def code(text: str, language: str = "") -> str:
    named = f' data-language="{language}"' if language else ""
    copy = '<button type="button" data-label="Copy" aria-label="Copy code" title="Copy code" class="copy"></button>'
    caption = f"<figcaption><span>{language or 'text'}</span>{copy}</figcaption>"
    figure = f'<figure class="code" dir="ltr"{named}>{caption}'
    return f'{figure}<pre tabindex="0"><code>{text}</code></pre></figure>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", f"{P}plain</p>"),
        ("two\nlines\n\nand more", f"{P}two\nlines</p>{P}and more</p>"),
        ("two  \nlines\\\nbroken", f"{P}two<br>lines<br>broken</p>"),
        ("# One\n### Three #", '<h3 dir="auto">One</h3><h5 dir="auto">Three</h5>'),
        ("#no heading", f"{P}#no heading</p>"),
        ("**b** *i* ~~d~~ `c`", f"{P}<strong>b</strong> <em>i</em> <del>d</del> <code>c</code></p>"),
        ("__b__ _i_", f"{P}<strong>b</strong> <em>i</em></p>"),
        ("***both***", f"{P}<em><strong>both</strong></em></p>"),
        ("a snake_case_name and 2 * 3 * 4", f"{P}a snake_case_name and 2 * 3 * 4</p>"),
        ("**open `code", f"{P}**open `code</p>"),
        (r"\*not\* \`code\` \x", rf"{P}*not* `code` \x</p>"),
        ("``a ` b``", f"{P}<code>a ` b</code></p>"),
        ("- a\n- b\n  - c\n- d", '<ul dir="auto"><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>'),
        ("1. a\n   - b\n     1. c", '<ol dir="auto"><li>a<ul><li>b<ol><li>c</li></ol></li></ul></li></ol>'),
        ("3. c\n4. d", '<ol start="3" dir="auto"><li>c</li><li>d</li></ol>'),
        ("- a\n\n  > q", '<ul dir="auto"><li><p>a</p><blockquote><p>q</p></blockquote></li></ul>'),
        ("- [ ] a\n- [x] b\n- [y] c", f'<ul dir="auto"><li>{OPEN}a</li><li>{DONE}b</li><li>[y] c</li></ul>'),
        ("> quoted\n> so\n\nthen", f'<blockquote dir="auto"><p>quoted\nso</p></blockquote>{P}then</p>'),
        ("---", "<hr>"),
        ("```none\n<b>\n\n*x*\n```\nz", code("&lt;b&gt;\n\n*x*", "none") + P + "z</p>"),
        ("```py\nif 1:\n```", code('<span class="hljs-keyword">if</span> <span class="hljs-number">1</span>:', "py")),
        ('``` "><img\nx\n```', code("x", "XX").replace('"XX"', '"&quot;&gt;&lt;img"').replace("XX", "text")),
        ("~~~\nnot ended", code("not ended")),
        ("````\n```\n````", code("```")),
        ("| a | b |\n|---|:-:|\n| 1 | **2** |", table("a|b", "1|<strong>2</strong>", align=("", "center"))),
        ("a | b\n:--|--:\n1 | 2", table("a|b", "1|2", align=("left", "right"))),
        ("a | b", f"{P}a | b</p>"),
        ("So:\n\n| a | b |\n|---|---|\n| 1 |\n| 2 | 3 | 4 |", P + "So:</p>" + table("a|b", "1|", "2|3")),
        ("a | b\n-|-\n`x \\| y` | \\|", table("a|b", "<code>x &#124; y</code>|&#124;").replace("&#124;", "|")),
        ("[x](https://a.example/?q=1)", f"{P}{link('https://a.example/?q=1', 'x')}</p>"),
        ('[x](https://a.example/ "https://b.example/")', f"{P}{link('https://a.example/', 'x')}</p>"),
        ("see https://a.example/x.", f"{P}see {link('https://a.example/x', 'https://a.example/x')}.</p>"),
        ("a.example and me@a.example", f"{P}a.example and me@a.example</p>"),
        ("[x](javascript:alert(1))", f"{P}[x](javascript:alert(1))</p>"),
        ("[x](  JaVa\tScript:alert)", f"{P}[x](  JaVa\tScript:alert)</p>"),
        ("[x](/relative) [y", f"{P}[x](/relative) [y</p>"),
        ("![p](https://a.example/p.png)", P + link("https://a.example/p.png", "p", IMAGE) + "</p>"),
        ("[![p](https://a.example/p.png)](https://b.example/)", f"{P}{link('https://b.example/', 'p')}</p>"),
        (NOTE, f"{P}A note{ref('1', TO_NOTE)}.</p>{note('1', link('https://a.example/', 'https://a.example/'), BACK)}"),
        ("[^a]: one\ntwo\n[^b]: *x*\n\nend[^c]", note("a", "one\ntwo") + note("b", "<em>x</em>")
         + f"{P}end{ref('c')}</p>"),
        ("[^a]: one\n\n    two\n\n\nend", f"{note('a', 'one</p><p>two')}{P}end</p>"),
        ("[^1](https://a.example/) a[^-z](x)", f"{P}{link('https://a.example/', '^1')} a[^-z](x)</p>"),
        ("".join(f"[^{n}]: " for n in range(1, 8)) + "x", '<div data-note="1" dir="auto"><div>' +
         "".join(f'<div data-note="{n}"><div>' for n in range(2, 7)) + "<p>[^7]: x</p>" + "</div></div>" * 6),
        ("one<br>two<BR/>\nthree<br />", f"{P}one<br>two<br>three<br></p>"),
        ("H<sub>2</sub>O, 10<SUP>*3*</SUP>", f"{P}H<sub>2</sub>O, 10<sup><em>3</em></sup></p>"),
        ("<kbd>Ctrl</kbd> [<sub>a</sub>](https://a.example/)",
         f"{P}<kbd>Ctrl</kbd> {link('https://a.example/', '<sub>a</sub>')}</p>"),
        ("<sub>a<sub>b</sub>c</sub> <sup>d", f"{P}<sub>a&lt;sub&gt;b</sub>c&lt;/sub&gt; &lt;sup&gt;d</p>"),
        ("<sub class=a>b</sub> <b>c</b> `<br>` **<br**>",
         f"{P}&lt;sub class=a&gt;b&lt;/sub&gt; &lt;b&gt;c&lt;/b&gt; <code>&lt;br&gt;</code> "
         "<strong>&lt;br</strong>&gt;</p>"),
        ("| a | b |\n|---|---|\n| 1<br>2 | <kbd>x</kbd> |", table("a|b", "1<br>2|<kbd>x</kbd>")),
        ("<details>\n<summary><b>*One*</b></summary>\n\n- a\n\n</details>\n\nb",
         f"{fold('<em>One</em>', '<ul><li>a</li></ul>')}{P}b</p>"),
        ("a\n<details open><summary>One</summary>b</details> c",
         f"{P}a</p>{fold('One', '<p>b</p>', ' open=' + chr(34) * 2)}{P}c</p>"),
        ("<details>\n<details>\na\n</details>\nb", fold("Details", fold("Details", "<p>a</p>", to="") + "<p>b</p>")),
        ("<details>\n```none\n</details>\n```\n</details>", fold("Details", code("&lt;/details&gt;", "none"))),
        ("- <details>\n  <summary>One</summary>\n\n  a\n\n- b",
         f'<ul dir="auto"><li>{fold("One", "<p>a</p>", to="")}</li><li><p>b</p></li></ul>'),
        ("<details> is a tag", f"{P}&lt;details&gt; is a tag</p>"),
        ("    <details>\n    [^1]: a", code("&lt;details&gt;\n[^1]: a")),
        ("<details ontoggle=a>\n<summary onclick=b>", f"{P}&lt;details ontoggle=a&gt;\n&lt;summary onclick=b&gt;</p>"),
        ("```mermaid\ngraph TD\n```", code("graph TD", "mermaid").replace(">mermaid<", ">Mermaid diagram, as text<")),
        ("<img src=x onerror=alert(1)> &amp;", f"{P}&lt;img src=x onerror=alert(1)&gt; &amp;</p>"),
        ("a\r\nb", f"{P}a\nb</p>"),
        ("", ""),
    ],
)  # fmt: skip
def test_markdown(page: Page, text: str, html: str) -> None:
    assert page.evaluate(RENDERED, text) == html
    assert page.evaluate(GROWING, text) == []


FORMULAS = """async text => {
    const { markdown } = await import("/assets/markdown.js");
    const node = document.createElement("div");
    node.append(...markdown(text));
    const label = each => each.querySelector("math")?.getAttribute("aria-label") ?? null;
    return [...node.querySelectorAll("[data-math]")].map(each => [each.dataset.math, label(each)]);
}"""


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("so $x$ and $a^2 + b^2 = c^2$.", [["inline", "x"], ["inline", "a^2 + b^2 = c^2"]]),
        (r"so \(x\) and \[y^2\] here", [["inline", "x"], ["display", "y^2"]]),
        ("$$\nE = mc^2\n$$", [["display", "E = mc^2"]]),
        ("$$E = mc^2$$", [["display", "E = mc^2"]]),
        ("\\[\n\\sum_i x_i\n- 1\n\\]\n\nafter", [["display", "\\sum_i x_i\n- 1"]]),
        ("- a\n  $$\n  x\n  $$", [["display", "x"]]),
        ("$2 + 2$ and $n+1$", [["inline", "2 + 2"], ["inline", "n+1"]]),
        ("It costs $5 and then $6, or US$7 - $8.", []),
        ("from $20-$30 to $1,000", []),
        ("$HOME/$USER and ${x} or $PATH", []),
        ("`$x$` and \\$x\\$", []),
        ("```\n$$\nx\n$$\n```", []),
        ("$$\nnever closed", []),
        ("$$\na\n\nb$$", []),
        (r"\[an option\] is optional", []),
        (r"$\undefined{x}$", [["inline", None]]),
        (r"$\def\a{\a\a}\a$", [["inline", None]]),
    ],
)
def test_only_math_becomes_a_formula(page: Page, text: str, formulas: list[Any]) -> None:
    assert page.evaluate(FORMULAS, text) == formulas


@pytest.mark.parametrize("tex", [r"\href{javascript:alert(1)}{x}", r"\includegraphics{https://evil.example/x.png}"])
def test_a_formula_leads_nowhere(page: Page, tex: str) -> None:
    html = page.evaluate(RENDERED, f"${tex}$")
    assert "<math" in html
    assert not any(word in html for word in ("href=", "src=", "<img", "style="))


DOCUMENT = """# Title

Some *text* with `code`, a [link](https://example.org) and
a second line.

- one
- two
  - nested

  still here

```python
def f():

    return "```"
```

> quoted

| a | b |
|---|---|
| 1 | 2 |

- [ ] to do
- [x] done

$$
a^2
$$

1. one
2. `two`

~~~
open **fence**

to the end
"""


WORDS = "".join(f"word{n} *with* `code` and\n" if n % 9 else f"[link](https://a.example/{n}) of " for n in range(300))


def test_text_that_grows_becomes_what_it_is_as_a_whole(page: Page) -> None:
    assert page.evaluate(GROWING, DOCUMENT) == []


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"- item {n} *b*\n" for n in range(200)),
        "".join(f"{n}. item\n   - nested\n\n     more\n" for n in range(7, 150)) + "\nafter",
        "| a | b |\n|---|:-:|\n" + "".join(f"| {n} | `c` |\n" for n in range(200)) + "\nafter *it*\n",
        "".join(f"* item {n}\n\n" for n in range(150)) + "# End\n\n" + "- other\n" * 100,
        "".join(f"- item *{n}* `c`\n  > quote\n" for n in range(100)) + "\n" + "- more\n" * 100 + "\nafter",
        "- one\n\n" + "- **item**\n  - nested\n  ```\n  code\n  ```\n" * 150,
        WORDS + " and *all* of **that**.\n\nafter",
        "It *begins " + WORDS + " to the* end.",
        WORDS + "\n---\nafter",
        WORDS + "\n| a | b |\n|---|---|\n| 1 | 2 |",
        "".join(f"- H<sub>{n}</sub>O <kbd>x</kbd>[^1]\n" for n in range(100)) + "\n- more\n\n[^1]: Note.",
        f"It[^1] *begins {WORDS} to the* end[^2].\n\n[^1]: One.\n[^2]: Two.",
        f"<details>\n<summary>One</summary>\n\n{WORDS}\n\n- a\n</details>\n\n{WORDS}",
    ],
    ids=[
        "a list",
        "a loose list",
        "a table",
        "two lists",
        "a list that is loose at its end",
        "a list that is loose at its beginning",
        "a paragraph",
        "a paragraph with words that end late",
        "a heading",
        "a paragraph before a table",
        "a list with tags and footnotes",
        "a paragraph with footnotes",
        "a folded part",
    ],
)
def test_many_items_that_grow_become_what_they_are_as_a_whole(page: Page, text: str) -> None:
    assert page.evaluate(GROWING.replace("size = 1; size < 9", "size = 37; size < 39"), text) == []


DRAWN = """async text => {
    const { Markdown } = await import("/assets/markdown.js");
    const node = document.createElement("div"), growing = new Markdown(node);
    let drawn = 0, most = 0;
    const count = nodes => [...nodes].reduce((sum, each) => sum + 1 + (each.querySelectorAll?.("*").length ?? 0), 0);
    const observer = new MutationObserver(() => {});
    observer.observe(node, { childList: true, subtree: true });
    for (let at = 0; at < text.length; at += 20) {
        growing.append(text.slice(at, at + 20));
        growing.draw();
        const now = observer.takeRecords().reduce((sum, record) => sum + count(record.addedNodes), 0);
        drawn += now;
        most = Math.max(most, now);
    }
    return [most, growing.text.length];
}"""


@pytest.mark.parametrize(
    "block",
    ["Some *text* with `code`.\n\n", "- one *b*\n", "```py\nx = 1\n```\n\n", "> quoted\n\n---\n", "1. a\n   - b\n"],
)
def test_a_chunk_draws_the_last_block_only(page: Page, block: str) -> None:
    """However long the text is, the same few elements are drawn, and the same few characters are parsed."""
    short, long = (page.evaluate(DRAWN, block * count) for count in (100, 400))
    assert long[0] <= short[0] < 100
    assert long[1] < 2500


def test_a_chunk_draws_nothing_in_a_folded_part(page: Page) -> None:
    """It is drawn when it is unfolded, and at its end."""
    begin = "<details>\n<summary>One</summary>\n\n"
    short, long = (page.evaluate(DRAWN, begin + "Some *text* with `code`.\n\n" * count) for count in (20, 100))
    assert long[0] == short[0] < 20


def test_a_chunk_draws_the_end_of_a_long_paragraph_only(page: Page) -> None:
    short, long = (page.evaluate(DRAWN, "words *and* `more` " * count) for count in (200, 600))
    assert short[0] < 1500
    assert long[0] < 1.2 * short[0]
    assert long[1] < 4000


def test_a_chunk_draws_the_last_rows_of_a_table_only(page: Page) -> None:
    short, long = (page.evaluate(DRAWN, "| a | b |\n|---|---|\n" + "| 1 | *c* |\n" * count) for count in (100, 1000))
    assert long[0] <= short[0] < 100
    assert long[1] < 2500


@pytest.mark.nightly
@pytest.mark.parametrize(
    "piece",
    [
        *("*", "[", "`", "_a", "**a *b ", "[a](", "> ", "|", "- ", "\\", " ", "-", "#", ":", "- - ", "1. ", "~", "<"),
        *(
            "# a",
            "*a",
            "*a **b",
            "`a``",
            "[a",
            "](",
            "| a | b |\n",
            "|-",
            "| -",
            "```",
            "``` a",
            "_a __b ",
            "~~a ~",
            "<sub>",
            "<sub></sup>",
            "<details>\n",
            "<details>\n</details>\n",
            "[^a]",
            "[^a]: ",
            "[^a]:\n",
            "a\n",
        ),
        *("-\n", ">\n", "a|\n-|\n", "***a", "**a ", "\t", "=", "[[](", "[a]"),
    ],
)
def test_no_text_is_too_odd(page: Page, piece: str) -> None:
    """A hundred thousand characters are shown, with nothing lost but marks."""
    for begin, end in (
        ("", ""),
        ("", "x"),
        ("# a", "x"),
        ("a | b\n", "x"),
        ("```", "`"),
        ("", "**b" * 10_000),
        ("", "](x)"),
    ):
        text = f"{begin}{piece * (100_000 // len(piece))}{end}"
        assert page.evaluate(RENDERED, text) or text.isspace()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{}", "{}"),
        ("[ ]", "[]"),
        ('{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'),
        ('[1e400, -0.10, "x\\"]"]', '[\n  1e400,\n  -0.10,\n  "x\\"]"\n]'),
        ('{"a": "\u202e\u200b\u0085\ufeff"}', '{\n  "a": "\\u202e\\u200b\\u0085\\ufeff"\n}'),
        ('{"cut": [1, "o\u202eff', '{"cut": [1, "o\\u202eff'),
        ("no json\tat all", "no json\tat all"),
        (
            '"\U000e0041\ufe0f\u00a0\u2003\u3164\u00ad\u0301\U0001f600"',
            r'"\udb40\udc41\ufe0f\u00a0\u2003\u3164\u00ad' + '\u0301\U0001f600"',
        ),
        ("}}", "}}"),
    ],
)
def test_json_keeps_its_tokens(page: Page, text: str, shown: str) -> None:
    assert page.evaluate(INDENTED, text) == shown


def test_what_the_page_and_the_terminal_expose_is_the_same(page: Page) -> None:
    text = "".join(
        map(chr, (*range(0xD800), *range(0xE000, 0xFFFE), *range(0xE0000, 0xE1000), 0x1D173, 0x1F600, 0xF0000))
    )
    assigned = "".join(sign for sign in text if category(sign) not in ("Cn", "Cf") or exposed(sign) != sign)
    assert page.evaluate(SEEN, assigned) == exposed(assigned)


@pytest.mark.parametrize("data", [{"a": [1, {"b": 'c\n\t"{'}], "d": {}, "e": [[]]}, "text", 5, None, "\u2028\u202e"])
def test_indented_json_means_the_same(page: Page, data: Any) -> None:
    for written in (json.dumps(data), json.dumps(data, ensure_ascii=False), json.dumps(data, indent=3)):
        assert json.loads(page.evaluate(INDENTED, written)) == data
