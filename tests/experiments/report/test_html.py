"""HTML: every value in a template is text, whatever it is."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st
from jinja2 import Template, TemplateNotFound, UndefinedError

from toolcast.experiments.report.html import Cell, Fold, Section, Table, clean, environment, render

EVIL = "<script>alert(\"x\")</script> & 'y' \x1b[31m \u202e \ud800 \0 {{ 7 * 7 }}"
SHOWN = "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; &amp; &#39;y&#39; \\x1b[31m \\u202e \\ud800 \\x00 {{ 7 * 7 }}"


def template(source: str) -> Template:
    return environment().from_string(f'{{% import "parts.html" as parts %}}{source}')


def one_line(page: str) -> str:
    return page.replace("\n", "")


def test_values_are_escaped_in_text_and_attributes() -> None:
    shown = template('<a href="{{ it }}">{{ it }}</a>{{ parts.value(it) }}').render(it=EVIL)
    assert shown == f'<a href="{SHOWN}">{SHOWN}</a>{SHOWN}'


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (Cell("a_b/c.d <", "name"), "a_<wbr>b/<wbr>c.<wbr>d &lt;"),
        (Cell("a-b", "link", "#run-<"), '<a href="#run-&lt;">a-<wbr>b</a>'),
        (Cell("<", "status", "good"), '<span class="status good">&lt;</span>'),
        (Cell("<\n", "prose"), '<div class="text">&lt;\n</div>'),
        (Cell("<…", "opening"), '<div class="opening" dir="auto">&lt;…</div>'),
    ],
)
def test_the_forms_of_a_cell(cell: Cell, shown: str) -> None:
    assert template("{{ parts.value(it) }}").render(it=cell) == shown


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="policy"):
        render("page.html", {})


@pytest.mark.parametrize("name", ["../html.py", "/etc/passwd", "html.py", "nothing.html"])
def test_templates_are_those_of_the_package(name: str) -> None:
    with pytest.raises(TemplateNotFound):
        render(name, {})


def test_lines_and_tabs_stay() -> None:
    assert clean("a\tb\r\nc\rd") == "a\tb\nc\\rd"


def shown_table(table: Table) -> str:
    return one_line(template("{{ parts.table(it) }}").render(it=table))


def test_a_table_has_a_caption_and_scopes() -> None:
    assert shown_table(Table("What", ("A", "B", "C"), [("<", "2", "words")], words=(2,))) == (
        '<div class="wide" role="group" tabindex="0" aria-label="What"><table><caption>What</caption>'
        '<thead><tr><th scope="col">A</th><th class="number" scope="col">B</th><th scope="col">C</th></tr></thead>'
        '<tbody><tr><th scope="row">&lt;</th><td class="number">2</td><td>words</td></tr></tbody></table></div>'
    )


def test_a_long_table_scrolls() -> None:
    assert 'class="wide long"' in shown_table(Table("What", ("A",), [(str(number),) for number in range(31)]))
    assert 'class="wide"' in shown_table(Table("What", ("A",), [(str(number),) for number in range(30)]))


def test_rows_about_runs_name_them() -> None:
    shown = shown_table(Table("What", ("A",), [("x",), ("y",)], runs=("one", "two")))
    assert '<tr data-run="one"><th scope="row">x</th></tr><tr data-run="two"><th' in shown


def test_a_section() -> None:
    folds = [Fold("S", "x"), Fold("S", "y", "z", "<")]
    section = Section("H", "T", "warn", facts=[("A", "<")], notes=["N"], folds=folds)
    assert one_line(template("{{ parts.section(it) }}").render(it=section)) == (
        '<h3>H</h3><p class="warn">T</p><dl><div><dt>A</dt><dd>&lt;</dd></div></dl><p class="note">N</p>'
        '<details><summary>S</summary><div class="words" dir="auto">x</div></details>'
        '<details><summary>S <span class="opening" dir="auto">&lt;</span></summary>'
        '<div class="words" dir="auto">y</div><p class="note words">z</p></details>'
    )


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
    shown = template('<p title="{{ it }}">{{ it }}</p>').render(it=text)
    shown.encode()  # no half characters
    reader.feed(shown)
    reader.close()
    assert reader.tags == ["p"] and reader.text == clean(text) * 2
