"""HTML: what is no markup is text, whatever it is."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given, strategies as st

from toolcast.experiments.report.html import Markup, clean, element, facts, folded, joined, scrolling, table

EVIL = "<script>alert(\"x\")</script> & 'y' \x1b[31m \u202e \ud800 \0"
SHOWN = "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#x27;y&#x27; \\x1b[31m \\u202e \\ud800 \\x00"


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", EVIL) == f"<p>{SHOWN}</p>"
    assert element("p", element("b", "x"), "<") == "<p><b>x</b>&lt;</p>"
    assert joined(("<", Markup("<br>")), " & ") == "&lt; &amp; <br>"


def test_attributes_are_escaped_and_classes_stand_in_the_name() -> None:
    assert element("a.b.c", attributes={"href": EVIL}) == f'<a class="b c" href="{SHOWN}"></a>'


def test_lines_and_tabs_stay() -> None:
    assert clean("a\tb\r\nc\rd") == "a\tb\nc\\rd"


def test_a_table_has_a_caption_and_scopes() -> None:
    shown = table("What", ("A", "B", "C"), [("<", "2", "words")], words=(2,))
    assert shown == scrolling(
        "What",
        Markup(
            '<table><caption>What</caption><thead><tr><th scope="col">A</th><th class="number" scope="col">B</th>'
            '<th scope="col">C</th></tr></thead><tbody><tr><th scope="row">&lt;</th><td class="number">2</td>'
            "<td>words</td></tr></tbody></table>"
        ),
    )
    assert shown.startswith('<div class="wide" role="region" tabindex="0" aria-label="What">')


def test_a_long_table_scrolls() -> None:
    assert 'class="wide long"' in table("What", ("A",), [(str(number),) for number in range(31)])
    assert 'class="wide"' in table("What", ("A",), [(str(number),) for number in range(30)])


def test_facts_and_what_is_folded() -> None:
    assert facts([("A", "<")]) == "<dl><div><dt>A</dt><dd>&lt;</dd></div></dl>"
    assert folded("S", "x") == "<details><summary>S</summary>x</details>"


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.text += "".join(value or "" for _, value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(st.characters()))
def test_any_text_is_read_back_and_is_no_tag(text: str) -> None:
    reader = Reader()
    shown = element("p", text, attributes={"title": text})
    shown.encode()  # no half characters
    reader.feed(shown)
    reader.close()
    assert reader.tags == ["p"] and reader.text == clean(text) * 2
