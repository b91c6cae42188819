"""Citations: their places in a message, their JSON form, and which URLs may be links."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.albums import SEA as ALBUM, Album
from support.sync_and_async import API
from toolcast import Message, ToolOrchestratingLLM
from toolcast.chat.chat_context import ChatContext, Streamed
from toolcast.events import (
    ChatResponse,
    Citation,
    Finish,
    Grounding,
    GroundingReport,
    Restarted,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDone,
    ToolCallStart,
)
from toolcast.llms import Accumulator
from toolcast.messages import DocumentPart, TextPart
from toolcast.testing import ScriptedLLM
from toolcast.values.citations import describe_citation, place_citations, web_link

SEA = Citation("url_citation", 4, 7, "https://sea.example/", "The sea", provider="openai", raw={"type": "url_citation"})


def folded(*events: object) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)  # type: ignore[arg-type]  # any of them
    return accumulator.response()


def test_a_citation_is_in_the_part_with_its_text() -> None:
    response = folded(TextDelta("The "), TextCitation(SEA), TextDelta("sea is calm."), Finish("end_turn"))
    (part,) = response.message.parts
    assert isinstance(part, TextPart)
    assert part.citations == response.citations == (SEA,)
    assert part.text[SEA.start : SEA.end] == "sea"


def test_places_count_from_the_begin_of_each_part() -> None:
    events = [TextDelta("The "), ServerToolUse("web_search", "1"), TextDelta("sea"), ThinkingDelta("?"), TextDelta(".")]
    response = folded(*events, TextCitation(SEA), TextCitation(replace(SEA, start=7, end=8)))
    first, _, second, _, third = response.message.parts
    assert (first, second) == (TextPart("The "), TextPart("sea", (replace(SEA, start=0, end=3),)))
    assert third == TextPart(".", (replace(SEA, start=0, end=1),))
    assert response.citations == (SEA, replace(SEA, start=7, end=8))


def test_a_citation_without_a_place_belongs_to_the_last_text() -> None:
    everywhere = replace(SEA, start=None, end=None)
    wrong = replace(SEA, start=3, end=900)
    response = folded(TextCitation(everywhere), TextDelta("a"), ThinkingDelta("b"), TextDelta("c"), TextCitation(wrong))
    assert response.message.parts[-1] == TextPart("c", (everywhere, everywhere))
    assert response.citations == (everywhere, everywhere)
    assert folded(TextCitation(everywhere)).message.parts == ()


def test_a_restart_forgets_citations_and_grounding() -> None:
    found = GroundingReport(Grounding(("sea",)))
    response = folded(TextDelta("The sea"), TextCitation(SEA), found, Restarted(2, "x"), TextDelta("The sea"))
    assert (response.citations, response.grounding) == ((), None)
    assert folded(found).grounding == found.grounding


@given(
    st.lists(st.integers(0, 5), max_size=5),
    st.lists(st.tuples(st.integers(-1, 25), st.integers(-1, 25)), max_size=5),
)
def test_every_citation_is_in_one_text_and_its_place_within_it(sizes: list[int], places: list[tuple[int, int]]) -> None:
    texts = [str(at) * size for at, size in enumerate(sizes)]
    whole = "".join(texts)
    cited = [replace(SEA, start=start, end=end) for start, end in places]
    placed = place_citations(cited, texts)
    assert sum(map(len, placed)) == (len(cited) if texts else 0)
    for text, citations in zip(texts, placed, strict=True):
        for citation in citations:
            if citation.start is not None and citation.end is not None:
                assert 0 <= citation.start <= citation.end <= len(text)
    message = Message("assistant", tuple(TextPart(text, tuple(c)) for text, c in zip(texts, placed, strict=True)))
    for citation in message.citations:
        if citation.start is not None and citation.end is not None:
            assert whole[citation.start : citation.end] in whole


def test_messages_with_citations_are_stored_and_read() -> None:
    paged = replace(SEA, pages=(1, 3), blocks=(0, 1), characters=(2, 9), document=0)
    message = Message("assistant", (TextPart("The sea.", (paged, SEA)), TextPart("It is calm.")))
    data = json.loads(json.dumps(message.to_dict()))
    assert Message.from_dict(data) == message
    assert data["parts"][1] == {"text": "It is calm.", "type": "text"}
    assert "pages" not in data["parts"][0]["citations"][1]
    assert hash(message) == hash(Message.from_dict(data))


def test_a_document_is_stored_without_the_default_of_citations() -> None:
    for part in (
        DocumentPart(url="https://a.example/a.pdf"),
        DocumentPart(url="https://a.example/a.pdf", citations=True),
    ):
        data = Message("user", (part,)).to_dict()
        assert ("citations" in data["parts"][0]) == part.citations
        assert Message.from_dict(data).parts == (part,)


def test_a_response_with_grounding_is_stored_and_read() -> None:
    grounding = Grounding(("the sea",), (SEA,), "<div>", "google", {"a": [1]})
    response = ChatResponse(Message("assistant", (TextPart("The sea.", (SEA,)),)), grounding=grounding)
    assert ChatResponse.from_dict(json.loads(response.to_json())) == response
    assert "grounding" not in ChatResponse(Message("assistant")).to_dict()
    assert Grounding.from_dict(Grounding().to_dict()) == Grounding()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example/",
        "https:///path",
        "https://bank.example@evil.example/",
        "https://evil.example\\@bank.example/",
        "https://a.example/\u202egpj.exe",
        "https://a.example/ b",
        'https://a.example/"onclick="x',
        "https://a.example/\n",
        "https://[::1/",
        "ftp://a.example/",
        "https://a.example/" + "a" * 9000,
        "",
        None,
    ],
)
def test_other_urls_are_no_links(url: str | None) -> None:
    assert web_link(url) is None
    assert Citation("url_citation", url=url).link is None


@pytest.mark.parametrize(
    "url", ["https://a.example/b?c=d#e", "http://a.example:8080/%20", "https://[::1]/", "https://münchen.example/ü"]
)
def test_urls_of_http_are_links(url: str) -> None:
    assert web_link(url) == url


def test_a_line_about_a_citation_shows_where_it_leads() -> None:
    disguised = Citation("url_citation", url="https://evil.example/", title="https://bank.example/")
    assert describe_citation(disguised) == "https://bank.example/, https://evil.example/"
    assert describe_citation(Citation("x", url="javascript:alert(1)", title="Click")) == "Click"
    assert describe_citation(Citation("page_location", document=0, pages=(3, 4))) == "document 1, page 3"
    assert describe_citation(Citation("page_location", title="Report", pages=(3, 6))) == "Report, pages 3 to 5"
    assert describe_citation(Citation("file_path", file_id="file_1")) == "file_1"
    assert describe_citation(Citation("reference")) == "reference"


def test_the_table_of_a_response_has_its_sources_as_escaped_text() -> None:
    mean = replace(SEA, title="<b>x</b>", url="javascript:alert(1)")
    html = ChatResponse(Message("assistant", (TextPart("The sea.", (SEA, SEA, mean)),)))._repr_html_()
    assert html.count("https://sea.example/") == 1
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "javascript" not in html
    assert "<b>" not in html


def test_the_citations_around_a_typed_object_are_in_its_result(api: API) -> None:
    grounding = Grounding(("the sea",), (SEA,), provider="openai")
    arguments = ALBUM.model_dump_json()
    answer = [
        TextDelta("The sea is calm."),
        TextCitation(SEA),
        GroundingReport(grounding),
        ToolCallStart("c1", "Album"),
        ToolCallDone("c1", "Album", arguments),
        Finish("tool_use"),
    ]
    call = ToolOrchestratingLLM(Album, "About the sea", ScriptedLLM(answer))
    result: Any = api.run(call)
    assert (result.output, result.response.citations, result.response.grounding) == (ALBUM, (SEA,), grounding)


def test_a_partial_answer_with_citations_is_stored_and_read() -> None:
    streamed = Streamed([TextDelta("The sea"), TextCitation(SEA)])
    context = ChatContext(streamed=streamed)
    again = ChatContext.from_dict(json.loads(json.dumps(context.to_dict())))
    assert again.streamed.message == streamed.message
