"""HTML as text that a model can read."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from toolcast.toolbox.html_text import page_text

BASE = "https://example.com/docs/index.html"


def read(html: str) -> str:
    return page_text(html, BASE).text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("some  text,\n in a line", "some text, in a line"),
        ("<p>one<p>two</p>three", "one\n\ntwo\n\nthree"),
        ("one<br>two<BR/>three", "one\ntwo\nthree"),
        ("<h1>One</h1><h3 class=x>Two <b>b</b></h3>text", "# One\n\n### Two b\n\ntext"),
        ("a<ul><li>one</li> <li>two<li>three</ul>b", "a\n\n- one\n- two\n- three\n\nb"),
        ("<table><tr><th>A<th>B</tr> <tr><td>1</td><td>2</td></tr></table>", "A | B\n1 | 2"),
        ("<td>alone", "alone"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<pre>def f():\n\treturn  1</pre> a  b", "def f():\n    return  1\n\na b"),
        ("</pre>a  b", "a b"),
        ("<textarea>a <b></textarea>c", "a <b>c"),
        ("<img src=x alt='a  cat'> <img src=y>.", "a cat ."),
        ("1 < 2 &lt; 3 &amp;amp; &copy &#65; &nosuch; &#x1F600;", "1 < 2 < 3 &amp; \xa9 A &nosuch; \U0001f600"),
        ("&#" + "9" * 5000 + ";.", "\ufffd."),
        ("a\ue000b", "a b"),
        ("a<!-- no --> b<!--> c<!-- no --!> d<!doctype html> e<?php no ?> f</ x> g<![CDATA[no]]>", "a b c d e f g"),
        ("a<!-- never ends", "a"),
        ("a<script>if (a<b) '</p>'</script >b<STYLE>p{}</style>c", "abc"),
        ("a<script>never ends", "a"),
        ("a<iframe src=x><p>no</iframe>b", "ab"),
        ("a<svg><text>no<svg>no</svg>no</text></svg>b<template><p>no</template>c<svg />d", "abcd"),
        ("a<svg>never ends", "a"),
        ('a<p title="1 > 2">b<p data-x=a"b>c', "a\n\nb\n\nc"),
        ("a<b title='never ends>b", "a"),
        ("a<b", "a"),
        ("a</", "a"),
    ],
)  # fmt: skip
def test_the_text(html: str, text: str) -> None:
    assert read(html) == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<a href="/x?a=1&amp;b=2">here</a>', "here (https://example.com/x?a=1&b=2)"),
        ("<a class=c HREF = 'next.html'>next  page</a>.", "next page (https://example.com/docs/next.html)."),
        ("<a href=//other.org>x</a>", "x (https://other.org)"),
        ("<a href=mailto:me@example.com>me</a>", "me (mailto:me@example.com)"),
        ("<a href=https://x.org>https://x.org</a>", "https://x.org"),
        ("<a href=/x><img src=y></a>.", "."),
        ("<a href=/x>one <a href=/y>two</a>", "one (https://example.com/x)two (https://example.com/y)"),
        ("<a href=/x>not closed", "not closed (https://example.com/x)"),
        ("<a href=#there>x</a><a>y</a></a>", "xy"),
        ("<a href='javascript:alert(1)'>x</a><a href=data:,x>y</a>", "xy"),
        ("<a href='http://[x'>x</a>", "x"),
        (f"<a href=/{'x' * 500}>x</a>", "x"),
        (f"<a {'b=c ' * 200}{'= ' * 200}d='>' href=/x>x</a>", "x (https://example.com/x)"),
        ("<base href=/else/><a href=x>x</a><base href='javascript:'><a href=y>y</a>",
         "x (https://example.com/else/x)y (https://example.com/else/y)"),
    ],
)  # fmt: skip
def test_links(html: str, text: str) -> None:
    assert read(html) == text


def test_the_title() -> None:
    page = page_text("<title>\n A &amp;\n B</title><title>C</title><p>text", BASE)
    assert (page.title, page.text, page.cut) == ("A & B", "text", False)


def test_no_more_is_written_than_was_asked_for() -> None:
    page = page_text("<p>0123456789" * 100, BASE, 50)
    assert page.cut
    assert len(page.text) < 100
    links = page_text("<base href=https://example.com/" + "x" * 400 + "/>" + "<a href=y>z</a>" * 50_000, BASE, 1000)
    assert links.cut
    assert len(links.text) < 2000


@pytest.mark.nightly
@pytest.mark.fault(141)
@pytest.mark.parametrize(
    "piece",
    ["<a", "<a ", "<a b='", '<a "', "<a a=", "<a/", "<!--", "<!", "</", "<?", "<", "&", "&#1", "<script>", "<title>",
     "<pre> ", "<svg>", "<a href=x>", "<td>", "= ", "<a =" + " " * 50, " ", "\n", "<script></script", "<b a b c "],
)  # fmt: skip
def test_no_page_takes_longer_than_it_is_long(piece: str) -> None:
    """With the square of its length a page of this size would take hours, and the test would not end."""
    page_text(piece * (1_000_000 // len(piece)), BASE)


def test_a_tag_that_does_not_end_needs_little_memory() -> None:
    html = "<a " + "=a" * 100_000
    tracemalloc.start()
    try:
        page_text(html, BASE)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(html)
    finally:
        tracemalloc.stop()


markup = st.lists(
    st.sampled_from(["<", ">", "</", "<a href=", "/>", "'", '"', "=", "<p>", "<script>", "</script>", "<!--", "-->",
                     "&#", "&amp", ";", "<svg>", "</svg>", "<pre>", "<td>", " ", "x", "\n"])
    | st.text(max_size=3)
).map("".join)  # fmt: skip


@given(markup)
def test_any_text_is_a_page(html: str) -> None:
    page = page_text(html, BASE)
    assert page.text == page.text.strip()
    assert "\n\n\n" not in page.text


@given(st.text(st.characters(exclude_characters="<&\ue000", exclude_categories=["Cs"])))
def test_text_without_markup_stays(text: str) -> None:
    assert read(text).split() == text.split()
