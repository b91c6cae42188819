"""The page's modules one by one, run in Chromium: Markdown as nodes, JSON as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unicodedata import category

import pytest

from browser.held_llm import HeldLLM
from browser.served import served
from toolcast.terminal_text import exposed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RENDERED = """async text => {
    const { markdown } = await import("/assets/markdown.js");
    const node = document.createElement("div");
    node.append(...markdown(text));
    return node.innerHTML;
}"""
GROWING = """async text => {
    const { Markdown } = await import("/assets/markdown.js");
    const whole = document.createElement("div");
    const first = new Markdown(whole);
    first.text = text;
    first.draw();
    const wrong = [];
    for (let size = 1; size < 9; size++) {
        const node = document.createElement("div");
        const growing = new Markdown(node);
        for (let at = 0; at < text.length; at += size) {
            growing.text += text.slice(at, at + size);
            growing.draw();
        }
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


TAB = 'tabindex="0"'
TABLE = (
    '<div class="table"><table><thead><tr><th>a</th><th data-align="center">b</th></tr></thead>'
    '<tbody><tr><td>1</td><td data-align="center"><strong>2</strong></td></tr></tbody></table></div>'
)


def table(*rows: str) -> str:
    """A table without alignment; the cells of a row are separated by bars."""

    def row(name: str, cells: str) -> str:
        return f"<tr>{''.join(f'<{name}>{cell}</{name}>' for cell in cells.split('|'))}</tr>"

    body = "".join(row("td", cells) for cells in rows[1:])
    return f'<div class="table"><table><thead>{row("th", rows[0])}</thead><tbody>{body}</tbody></table></div>'


def link(url: str, words: str) -> str:
    return f'<a href="{url}" title="{url}" target="_blank" rel="noopener noreferrer">{words}</a>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "<p>plain</p>"),
        ("two\nlines\n\nand more", "<p>two\nlines</p><p>and more</p>"),
        ("# One\n### Three #", "<h3>One</h3><h5>Three</h5>"),
        ("#no heading", "<p>#no heading</p>"),
        ("# About C#\n## ##\n### a ## b ###  ", "<h3>About C#</h3><h4></h4><h5>a ## b</h5>"),
        ("**b** *i* ~~d~~ `c`", "<p><strong>b</strong> <em>i</em> <del>d</del> <code>c</code></p>"),
        ("__b__ _i_", "<p><strong>b</strong> <em>i</em></p>"),
        ("***both***", "<p><strong><em>both</em></strong></p>"),
        ("a snake_case_name and 2 * 3 * 4", "<p>a snake_case_name and 2 * 3 * 4</p>"),
        ("**open `code", "<p>**open `code</p>"),
        (r"\*not\* \`code\` \x", r"<p>*not* `code` \x</p>"),
        ("``a ` b``", "<p><code>a ` b</code></p>"),
        ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
        ("3. c\n4) d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("- a\n  goes on", "<ul><li>a\ngoes on</li></ul>"),
        ("> quoted\n> so\n\nthen", "<blockquote><p>quoted\nso</p></blockquote><p>then</p>"),
        ("---", "<hr>"),
        ("```py\n<b>\n\n*x*\n```\nz", f'<pre data-language="py" {TAB}><code>&lt;b&gt;\n\n*x*</code></pre><p>z</p>'),
        ("~~~\nnot ended", '<pre tabindex="0"><code>not ended</code></pre>'),
        ("````\n```\n````", '<pre tabindex="0"><code>```</code></pre>'),
        ("| a | b |\n|---|:-:|\n| 1 | **2** |", TABLE),
        ("a | b", "<p>a | b</p>"),
        ("a | b\n---", "<p>a | b</p><hr>"),
        ("a | b\n--- | --- | ---", "<p>a | b\n--- | --- | ---</p>"),
        ("So:\n| a | b |\n|---|---|\n| 1 |\n| 2 | 3 | 4 |", f"<p>So:</p>{table('a|b', '1|', '2|3')}"),
        ("a | b\n-|-\n`x \\| y` | \\|", table("a|b", "<code>x &#124; y</code>|&#124;").replace("&#124;", "|")),
        ("[x](https://a.example/?q=1)", f"<p>{link('https://a.example/?q=1', 'x')}</p>"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("[x](  JaVa\tScript:alert)", "<p>[x](  JaVa\tScript:alert)</p>"),
        ("[x](/relative) [y", "<p>[x](/relative) [y</p>"),
        ("![p](https://a.example/p.png)", f"<p>!{link('https://a.example/p.png', 'p')}</p>"),
        ("<img src=x onerror=alert(1)> &amp;", "<p>&lt;img src=x onerror=alert(1)&gt; &amp;amp;</p>"),
        ("", ""),
    ],
)  # fmt: skip
def test_markdown(page: Page, text: str, html: str) -> None:
    assert page.evaluate(RENDERED, text) == html


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

~~~
open **fence**

to the end
"""


def test_text_that_grows_becomes_what_it_is_as_a_whole(page: Page) -> None:
    assert page.evaluate(GROWING, DOCUMENT) == []


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
