"""The citations of each protocol: whole and streamed alike, at every cut, with their places in the text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from support.aws_event_messages import event as aws_message
from toolcast import Message, Settings, user
from toolcast.errors import BadRequest, StreamTruncated
from toolcast.events import ChatResponse, Citation, Event, Grounding, GroundingReport, TextCitation
from toolcast.messages import DocumentPart, TextPart
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput
from toolcast.providers.bedrock.adapter import BedrockAdapter
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import OPENAI, OPENROUTER, PERPLEXITY, XAI
from toolcast.providers.citation_forms import GoogleGrounding
from toolcast.providers.cohere.adapter import CohereAdapter
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret

KEY = Secret("sk-0123456789")
RESPONSES = OpenAIResponsesAdapter(OPENAI, api_key=KEY)
CLAUDE = AnthropicAdapter(api_key=KEY)
GEMINI = GoogleAdapter(api_key=KEY)
SEA = "https://sea.example/"


class Case(NamedTuple):
    """A response in both forms, the stretches of its text with the citations' own fields, and what goes back."""

    adapter: HTTPAdapter
    whole: Any
    events: Sequence[Any]
    text: str
    cited: Sequence[tuple[str | None, Mapping[str, Any]]]
    grounding: Grounding | None = None
    back: Any = None


# -- Anthropic: platform.claude.com/docs/en/build-with-claude/citations

CHAR = {
    "type": "char_location",
    "cited_text": "The grass is green.",
    "document_index": 0,
    "document_title": "Example",
    "file_id": None,
    "start_char_index": 0,
    "end_char_index": 20,
}
PAGE = {
    "type": "page_location",
    "cited_text": "Water is essential.",
    "document_index": 1,
    "document_title": "PDF Document",
    "start_page_number": 5,
    "end_page_number": 6,
}
BLOCK = {
    "type": "content_block_location",
    "cited_text": "These are important findings.",
    "document_index": 2,
    "document_title": None,
    "start_block_index": 0,
    "end_block_index": 1,
}
WEB = {
    "type": "web_search_result_location",
    "cited_text": "Claude Elwood Shannon ...",
    "url": "https://en.wikipedia.org/wiki/Claude_Shannon",
    "title": "Claude Shannon - Wikipedia",
    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0OWJmZi1lNm..",
}
RESULT = {
    "type": "search_result_location",
    "cited_text": "To authenticate ...",
    "search_result_index": 0,
    "source": "https://docs.company.com/api-reference",
    "title": "API Reference",
    "start_block_index": 1,
    "end_block_index": 2,
}
CLAUDES = [
    {"type": "text", "text": "According to the document, "},
    {"type": "text", "text": "the gräss is green", "citations": [CHAR, PAGE]},
    {"type": "text", "text": " and "},
    {"type": "text", "text": "the sky is blue", "citations": [BLOCK, WEB, RESULT]},
    {"type": "text", "text": "."},
]
GREEN, BLUE = "the gräss is green", "the sky is blue"
START = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "usage": {"input_tokens": 3},
}


def claude_events() -> list[Any]:
    events: list[Any] = [{"type": "message_start", "message": START | {"content": []}}]
    for index, block in enumerate(CLAUDES):
        begin = {"type": "text", "text": ""} | ({"citations": []} if "citations" in block else {})
        text = str(block["text"])
        cited: Any = block.get("citations", [])
        deltas = [
            {"type": "text_delta", "text": text[:4]},
            *({"type": "citations_delta", "citation": c} for c in cited),
        ]
        deltas.append({"type": "text_delta", "text": text[4:]})
        events += [
            {"type": "content_block_start", "index": index, "content_block": begin},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]
    return [
        *events,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]


# -- OpenAI Responses: ResponseOutputText.annotations of the official client

ANNOTATIONS: list[dict[str, Any]] = [
    {"type": "url_citation", "start_index": 4, "end_index": 7, "url": SEA, "title": "The sea"},
    {"type": "file_citation", "index": 12, "file_id": "file_1", "filename": "blog.pdf"},
    {
        "type": "container_file_citation",
        "container_id": "cntr_1",
        "start_index": 0,
        "end_index": 3,
        "file_id": "cfile_1",
        "filename": "plot.png",
    },
    {"type": "file_path", "file_id": "file_2", "index": 0},
]
PARTS = [
    {"type": "output_text", "text": "Hello. ", "annotations": []},
    {"type": "output_text", "text": "The sea is calm.", "annotations": ANNOTATIONS},
]
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": PARTS}
DONE = {"id": "resp_1", "model": "gpt-5.4", "status": "completed", "output": [ITEM], "usage": {"input_tokens": 3}}


def responses_events(*, repeats: bool = True) -> list[Any]:
    place: dict[str, Any] = {"item_id": "msg_1", "output_index": 0}
    events: list[Any] = [{"type": "response.output_item.added", "output_index": 0, "item": ITEM | {"content": []}}]
    for index, part in enumerate(PARTS):
        here = place | {"content_index": index}
        text = str(part["text"])
        events += [{"type": "response.output_text.delta", **here, "delta": piece} for piece in (text[:5], text[5:])]
        events += [
            {"type": "response.output_text.annotation.added", **here, "annotation_index": number, "annotation": each}
            for number, each in enumerate(ANNOTATIONS if index and repeats else [])
        ]
    return [
        *events,
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
        {"type": "response.completed", "response": DONE},
    ]


RESPONDED: list[tuple[str | None, dict[str, Any]]] = [
    ("sea", {"kind": "url_citation", "url": SEA, "title": "The sea"}),
    ("", {"kind": "file_citation", "start": 19, "file_id": "file_1", "title": "blog.pdf"}),
    ("The", {"kind": "container_file_citation", "file_id": "cfile_1", "title": "plot.png", "source_id": "cntr_1"}),
    (None, {"kind": "file_path", "file_id": "file_2"}),
]


# -- chat completions: the search models of OpenAI, OpenRouter's annotations, the lists of xAI and Perplexity


def chat(message: dict[str, Any], chunks: Sequence[dict[str, Any]], **more: Any) -> tuple[Any, list[Any]]:
    head = {"id": "chatcmpl-1", "model": "m"}
    whole = head | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]} | more
    events: list[Any] = [head | {"choices": [{"index": 0, "delta": chunk}]} | more for chunk in chunks]
    return whole, [*events, head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]} | more, "[DONE]"]


URL = {
    "type": "url_citation",
    "url_citation": {"start_index": 4, "end_index": 7, "url": SEA, "title": "The sea", "content": "Calm today."},
}
CALM = [{"role": "assistant", "content": "The sea"}, {"content": " is calm [1]."}]
ANSWER = {"role": "assistant", "content": "The sea is calm [1]."}
FOUND = [
    {"title": "The sea", "url": SEA, "date": "2026-05-01", "snippet": "Calm today."},
    {"title": "Tides", "url": "https://tides.example/", "date": None},
]
FOUNDS = (
    Citation("search_result", url=SEA, title="The sea", cited_text="Calm today.", provider="perplexity", raw=FOUND[0]),
    Citation("search_result", url="https://tides.example/", title="Tides", provider="perplexity", raw=FOUND[1]),
)
URLS = [SEA, "https://tides.example/"]


# -- Gemini: ai.google.dev/gemini-api/docs/google-search; the indexes are bytes of UTF-8

RHINE = "Größe zählt 😀. Spain won. "
LAST = "Übermorgen auch."
GROUNDED: dict[str, Any] = {
    "webSearchQueries": ["who won"],
    "searchEntryPoint": {"renderedContent": "<style>x</style><script>alert(1)</script>"},
    "groundingChunks": [
        {"web": {"uri": SEA, "title": "sea.example"}},
        {
            "retrievedContext": {
                "uri": "gs://b/a.pdf",
                "title": "a.pdf",
                "text": "Passage",
                "ragChunk": {"pageSpan": {"firstPage": 2, "lastPage": 3}},
            }
        },
    ],
    "groundingSupports": [
        {
            "segment": {"endIndex": len("Größe zählt 😀.".encode()), "text": "Größe zählt 😀."},
            "groundingChunkIndices": [0, 1, 7],
        },
        # The place counts from the start of another part: the text decides.
        {"segment": {"partIndex": 1, "startIndex": 0, "endIndex": 17, "text": LAST}, "groundingChunkIndices": [1]},
        {"segment": {"startIndex": 3, "endIndex": 900, "text": "no such text"}, "groundingChunkIndices": [0]},
        {"segment": {"startIndex": 0, "endIndex": 3}, "groundingChunkIndices": [0]},  # inside of a character
    ],
}
RECITED = {"citationSources": [{"startIndex": 0, "endIndex": 7, "uri": SEA, "license": "MIT"}]}
PAGES: dict[str, Any] = {"urlMetadata": [{"retrievedUrl": SEA, "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]}
METADATA = {"groundingMetadata": GROUNDED, "citationMetadata": RECITED, "urlContextMetadata": PAGES}


def gemini(text: str, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}], "modelVersion": "gemini"}


CONTEXT: dict[str, Any] = {
    "kind": "retrievedContext",
    "url": "gs://b/a.pdf",
    "title": "a.pdf",
    "cited_text": "Passage",
    "pages": (2, 4),
}
WEBS = {"kind": "web", "url": SEA, "title": "sea.example"}
SOURCES = (
    Citation("web", url=SEA, title="sea.example", provider="google", raw=GROUNDED["groundingChunks"][0]),
    Citation(**CONTEXT, provider="google", raw=GROUNDED["groundingChunks"][1]),
    Citation("urlMetadata", url=SEA, provider="google", raw=PAGES["urlMetadata"][0]),
)

# -- Cohere: docs.cohere.com/docs/documents-and-citations

COHERES: list[dict[str, Any]] = [
    {
        "start": 4,
        "end": 7,
        "text": "sea",
        "content_index": 0,
        "type": "TEXT_CONTENT",
        "sources": [
            {
                "type": "document",
                "id": "doc:0",
                "document": {"id": "doc:0", "title": "Sea", "snippet": "Calm.", "url": SEA},
            },
            {"type": "tool", "id": "look:0", "tool_output": {"text": "Calm."}},
        ],
    },
    {"start": 1, "end": 3, "text": "wo", "content_index": 1, "type": "TEXT_CONTENT", "sources": []},
    {"start": 1, "end": 3, "text": "pl", "content_index": 0, "type": "PLAN", "sources": []},
]
COHERED: list[tuple[str | None, dict[str, Any]]] = [
    ("sea", {"kind": "document", "url": SEA, "title": "Sea", "cited_text": "Calm.", "source_id": "doc:0"}),
    ("sea", {"kind": "tool", "cited_text": "Calm.", "source_id": "look:0"}),
    ("wo", {"kind": "citation"}),
    (None, {"kind": "citation"}),
]


def cohere(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    return {"type": kind, **({} if index is None else {"index": index}), "delta": {"message": message}}


COHERE_END = {"finish_reason": "COMPLETE", "usage": {"tokens": {"input_tokens": 3, "output_tokens": 4}}}

# -- Bedrock: CitationsContentBlock in the service model of botocore

BEDROCKS: list[dict[str, Any]] = [
    {
        "title": "Guide",
        "source": "doc-1",
        "sourceContent": [{"text": "It was "}, {"text": "cold."}],
        "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}},
    },
    {"title": "Text", "location": {"documentChar": {"documentIndex": 1, "start": 3, "end": 9}}},
    {"title": "Chunks", "location": {"documentChunk": {"documentIndex": 2, "start": 0, "end": 1}}},
    {"location": {"web": {"url": SEA, "domain": "sea.example"}}},
    {"source": "s", "location": {"searchResultLocation": {"searchResultIndex": 0, "start": 1, "end": 2}}},
]
BEDROCKED: list[tuple[str | None, dict[str, Any]]] = [
    (
        "It is cold.",
        {
            "kind": "documentPage",
            "title": "Guide",
            "cited_text": "It was cold.",
            "document": 0,
            "source_id": "doc-1",
            "pages": (1, 2),
        },
    ),
    ("It is cold.", {"kind": "documentChar", "title": "Text", "document": 1, "characters": (3, 9)}),
    ("It is cold.", {"kind": "documentChunk", "title": "Chunks", "document": 2, "blocks": (0, 1)}),
    ("It is cold.", {"kind": "web", "url": SEA, "title": "sea.example"}),
    ("It is cold.", {"kind": "searchResultLocation", "document": 0, "source_id": "s", "blocks": (1, 2)}),
]
BEDROCK_BLOCKS = [
    {"text": "Let me see. "},
    {"citationsContent": {"content": [{"text": "It is cold."}], "citations": BEDROCKS}},
]
REFERENCE = {"type": "reference", "reference_ids": [0, "a"]}
TOOL_REFERENCE = {"type": "tool_reference", "tool": "web_search", "title": "The sea", "url": SEA}

CASES = {
    "anthropic": Case(
        CLAUDE,
        START | {"content": CLAUDES, "stop_reason": "end_turn"},
        claude_events(),
        "".join(str(block["text"]) for block in CLAUDES),
        [
            (
                GREEN,
                {
                    "kind": "char_location",
                    "title": "Example",
                    "cited_text": CHAR["cited_text"],
                    "document": 0,
                    "characters": (0, 20),
                },
            ),
            (
                GREEN,
                {
                    "kind": "page_location",
                    "title": "PDF Document",
                    "cited_text": PAGE["cited_text"],
                    "document": 1,
                    "pages": (5, 6),
                },
            ),
            (
                BLUE,
                {"kind": "content_block_location", "cited_text": BLOCK["cited_text"], "document": 2, "blocks": (0, 1)},
            ),
            (
                BLUE,
                {
                    "kind": "web_search_result_location",
                    "url": WEB["url"],
                    "title": WEB["title"],
                    "cited_text": WEB["cited_text"],
                },
            ),
            (
                BLUE,
                {
                    "kind": "search_result_location",
                    "title": "API Reference",
                    "cited_text": RESULT["cited_text"],
                    "document": 0,
                    "source_id": RESULT["source"],
                    "blocks": (1, 2),
                },
            ),
        ],
        back=CLAUDES,
    ),
    "responses": Case(RESPONSES, DONE, responses_events(), "Hello. The sea is calm.", RESPONDED),
    "responses without events of annotations": Case(
        RESPONSES, DONE, responses_events(repeats=False), "Hello. The sea is calm.", RESPONDED
    ),
    "chat completions": Case(
        OpenAIChatAdapter(OPENAI, api_key=KEY),
        *chat(ANSWER | {"annotations": [URL]}, [*CALM, {"annotations": [URL]}]),
        ANSWER["content"],
        [("sea", {"kind": "url_citation", "url": SEA, "title": "The sea", "cited_text": "Calm today."})],
    ),
    "openrouter": Case(
        OpenAIChatAdapter(OPENROUTER, api_key=KEY),
        *chat(ANSWER | {"annotations": [URL]}, [CALM[0], {**CALM[1], "annotations": [URL]}]),
        ANSWER["content"],
        [("sea", {"kind": "url_citation", "url": SEA, "title": "The sea", "cited_text": "Calm today."})],
    ),
    "perplexity": Case(
        OpenAIChatAdapter(PERPLEXITY, api_key=KEY),
        *chat(ANSWER, CALM, citations=URLS, search_results=FOUND),
        ANSWER["content"],
        [
            (None, {"kind": "search_result", "url": found.url, "title": found.title, "cited_text": found.cited_text})
            for found in FOUNDS
        ],
        Grounding((), FOUNDS, None, "perplexity", {"citations": URLS, "search_results": FOUND}),
    ),
    "perplexity without citations": Case(
        OpenAIChatAdapter(PERPLEXITY, api_key=KEY),
        *chat(ANSWER, CALM, search_results=FOUND[:1]),
        ANSWER["content"],
        [(None, {"kind": "search_result", "url": SEA, "title": "The sea", "cited_text": "Calm today."})],
        Grounding((), FOUNDS[:1], None, "perplexity", {"search_results": FOUND[:1]}),
    ),
    "xai": Case(
        OpenAIChatAdapter(XAI, api_key=KEY),
        *chat(ANSWER, CALM, citations=[SEA, {"url": URLS[1]}, 7]),
        ANSWER["content"],
        [(None, {"kind": "citation", "url": url}) for url in URLS],
        Grounding(
            (),
            tuple([Citation("citation", url=url, provider="xai") for url in URLS]),
            None,
            "xai",
            {"citations": [SEA, {"url": URLS[1]}, 7]},
        ),
    ),
    "google": Case(
        GEMINI,
        gemini(RHINE + LAST, finishReason="STOP", **METADATA),
        [
            gemini(RHINE[:3]),
            gemini(RHINE[3:]),
            gemini(LAST[:2], groundingMetadata={**GROUNDED, "groundingSupports": GROUNDED["groundingSupports"][:1]}),
            gemini(LAST[2:], finishReason="STOP", **METADATA),
        ],
        RHINE + LAST,
        [
            ("Größe zählt 😀.", WEBS),
            ("Größe zählt 😀.", CONTEXT),
            (LAST, CONTEXT),
            (None, WEBS),
            (None, WEBS),
            ("Größe", {"kind": "citationSource", "url": SEA}),
        ],
        Grounding(("who won",), SOURCES, "<style>x</style><script>alert(1)</script>", "google", METADATA),
    ),
    "cohere": Case(
        CohereAdapter(api_key=KEY),
        {
            "id": "c1",
            "message": {
                "role": "assistant",
                "content": [{"type": "text", "text": "The sea. "}, {"type": "text", "text": "Two."}],
                "citations": COHERES,
            },
        }
        | COHERE_END,
        [
            {"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}},
            cohere("content-start", 0, content={"type": "text", "text": ""}),
            cohere("content-delta", 0, content={"text": "The "}),
            cohere("content-delta", 0, content={"text": "sea. "}),
            cohere("citation-start", 0, citations=COHERES[0]),
            {"type": "citation-end", "index": 0},
            {"type": "content-end", "index": 0},
            cohere("content-start", 1, content={"type": "text", "text": "T"}),
            cohere("content-delta", 1, content={"text": "wo."}),
            cohere("citation-start", 1, citations=COHERES[1:]),
            {"type": "citation-end", "index": 1},
            {"type": "content-end", "index": 1},
            {"type": "message-end", "delta": COHERE_END},
        ],
        "The sea. Two.",
        COHERED,
    ),
    "bedrock": Case(
        BedrockAdapter(base_url="https://bedrock.test"),
        {
            "output": {"message": {"role": "assistant", "content": BEDROCK_BLOCKS}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 3},
        },
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Let me see. "}}},
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": "It is"}}},
            *({"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"citation": each}}} for each in BEDROCKS),
            {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": " cold."}}},
            {"contentBlockStop": {"contentBlockIndex": 1}},
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": {"usage": {"inputTokens": 3}}},
        ],
        "Let me see. It is cold.",
        BEDROCKED,
        back=BEDROCK_BLOCKS,
    ),
    "mistral": Case(
        MistralAdapter(api_key=KEY),
        *chat(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "The sea"},
                    REFERENCE,
                    {"type": "text", "text": " is calm."},
                    TOOL_REFERENCE,
                ],
            },
            [
                {"role": "assistant", "content": "The "},
                {"content": "sea"},
                {"content": [REFERENCE]},
                {"content": " is"},
                {"content": [{"type": "text", "text": " calm."}]},
                {"content": [TOOL_REFERENCE]},
            ],
        ),
        "The sea is calm.",
        [
            ("", {"kind": "reference", "start": 7, "source_id": "0"}),
            ("", {"kind": "reference", "start": 7, "source_id": "a"}),
            ("", {"kind": "tool_reference", "start": 16, "url": SEA, "title": "The sea"}),
        ],
    ),
}


def streamed(case: Case) -> list[bytes]:
    """Return the frames of a stream."""
    if isinstance(case.adapter, BedrockAdapter):
        return [aws_message(name, payload) for event in case.events for name, payload in event.items()]
    named = isinstance(case.adapter, AnthropicAdapter)
    frames: list[bytes] = []
    for event in case.events:
        data = event if isinstance(event, str) else json.dumps(event)
        frames.append(f"{'event: ' + event['type'] + chr(10) if named else ''}data: {data}\n\n".encode())
    return frames


def decode(case: Case, *pieces: bytes) -> list[Event]:
    decoder = case.adapter.decoder(RequestInput("m", (user("Hi"),)))
    events: list[Event] = []
    for piece in pieces:
        events += decoder.feed(piece)
    return [*events, *decoder.close()]


def folded(events: Sequence[Event]) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


def merged(events: Sequence[Event]) -> Message:
    return folded(events).message


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_whole_and_a_streamed_response_have_the_same_citations(case: Case) -> None:
    whole = folded(decode(case, json.dumps(case.whole).encode()))
    assert (whole.text, whole.grounding) == (case.text, case.grounding)
    found = []
    for citation in whole.citations:
        assert citation.provider == case.adapter.provider
        place = citation.start is not None and citation.end is not None
        found.append((whole.text[citation.start : citation.end] if place else None, citation.to_dict()))
    assert len(found) == len(case.cited)
    for (stretch, data), (expected, fields) in zip(found, case.cited, strict=True):
        shown = {name: tuple(each) if isinstance(each, list) else each for name, each in data.items()}
        for name in {"provider", "raw", "start", "end"} - fields.keys():
            shown.pop(name, None)
        assert (stretch, shown) == (expected, {name: each for name, each in fields.items() if each is not None})
    frames = streamed(case)
    streams = folded(decode(case, *frames))
    assert (streams.message, streams.grounding) == (whole.message, whole.grounding)
    assert Message.from_dict(whole.message.to_dict()) == whole.message


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_citations_at_every_cut(case: Case) -> None:
    body = b"".join(streamed(case))
    expected = decode(case, body)
    assert decode(case, *[body[at : at + 1] for at in range(len(body))]) == expected
    for cut in range(1, len(body), 7):
        assert merged(decode(case, body[:cut], body[cut:])) == merged(expected), cut


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_stream_without_its_end_is_an_error(case: Case) -> None:
    frames = streamed(case)
    end = 2 if isinstance(case.adapter, (OpenAIChatAdapter, AnthropicAdapter, BedrockAdapter)) else 1
    for missing in range(end, len(frames)):
        with pytest.raises(StreamTruncated):
            decode(case, *frames[:-missing])
    with pytest.raises(StreamTruncated):
        decode(case, json.dumps(case.whole).encode()[:-1])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.back is not None])
def test_citations_go_back_unchanged(name: str) -> None:
    case = CASES[name]
    message = merged(decode(case, json.dumps(case.whole).encode()))
    for sent in (message, Message.from_dict(json.loads(json.dumps(message.to_dict())))):
        request = case.adapter.request(RequestInput("m", (user("Hi"), sent, user("Go on"))), Settings())
        assert json.loads(request.body)["messages"][1]["content"] == case.back


@pytest.mark.parametrize("name", CASES)
def test_citations_go_to_no_other_provider(name: str) -> None:
    case = CASES[name]
    message = merged(decode(case, json.dumps(case.whole).encode()))
    for other in (
        CLAUDE,
        BedrockAdapter(base_url="https://bedrock.test"),
        RESPONSES,
        GEMINI,
        MistralAdapter(api_key=KEY),
    ):
        if other.provider != case.adapter.provider:
            body = other.request(RequestInput("m", (user("Hi"), message, user("Go on"))), Settings()).body
            assert b"citation" not in body.lower()


def test_citations_that_overlap_or_do_not_fit_are_left_out() -> None:
    def cited(start: int | None, end: int | None) -> Citation:
        return Citation("char_location", start, end, provider="anthropic", raw={"n": start})

    places = ((4, 8), (6, 9), (8, 99), (3, 3), (None, None), (9, 10), (4, 8))
    text = TextPart("0123456789", tuple([cited(*place) for place in places]))
    body = CLAUDE.request(RequestInput("m", (user("Hi"), Message("assistant", (text,)), user("?"))), Settings()).body
    assert json.loads(body)["messages"][1]["content"] == [
        {"type": "text", "text": "0123"},
        {"type": "text", "text": "4567", "citations": [{"n": 4}, {"n": 4}]},
        {"type": "text", "text": "8"},
        {"type": "text", "text": "9", "citations": [{"n": 9}]},
    ]


def test_chunks_of_several_metadata_are_counted_together() -> None:
    """`GroundingSupport` in the reference of the Gemini API: indexes are across all responses of a stream."""
    found = GoogleGrounding("google")
    for number in (1, 2):
        chunk = {"web": {"uri": f"https://{number}.example/", "domain": f"{number}.example"}}
        support = {"segment": {"startIndex": number, "endIndex": number + 1}, "groundingChunkIndices": [number - 1]}
        found.add("groundingMetadata", {"groundingChunks": [chunk], "groundingSupports": [support]})
    cited = list(found.citations("abc"))
    assert [(each.start, each.url, each.title) for each in cited] == [
        (1, "https://1.example/", "1.example"),
        (2, "https://2.example/", "2.example"),
    ]
    assert len(found.grounding().sources) == 2


DOCUMENT = DocumentPart(data=b"%PDF-", media_type="application/pdf", name="a.pdf", citations=True)


def test_a_document_that_is_to_be_cited() -> None:
    """platform.claude.com/docs/en/build-with-claude/citations; `DocumentBlock.citations` of Converse."""
    request = RequestInput("m", (user("Hi", DOCUMENT),))
    block = json.loads(CLAUDE.request(request, Settings()).body)["messages"][0]["content"][1]
    assert block["citations"] == {"enabled": True}
    bedrock = BedrockAdapter(base_url="https://bedrock.test")
    block = json.loads(bedrock.request(request, Settings()).body)["messages"][0]["content"][1]
    assert block["document"]["citations"] == {"enabled": True}


@pytest.mark.parametrize(
    "adapter",
    [
        RESPONSES,
        OpenAIChatAdapter(OPENAI, api_key=KEY),
        GEMINI,
        MistralAdapter(api_key=KEY),
        CohereAdapter(api_key=KEY),
    ],
    ids=lambda adapter: type(adapter).__name__,
)
def test_a_document_cannot_be_cited_elsewhere(adapter: HTTPAdapter) -> None:
    with pytest.raises(BadRequest, match=r"DocumentPart"):
        adapter.request(RequestInput("m", (user("Hi", DOCUMENT),)), Settings())


def test_an_annotation_that_is_none_is_passed_on() -> None:
    odd = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": 7}
    case = CASES["responses"]._replace(events=[*CASES["responses"].events[:1], odd, *CASES["responses"].events[1:]])
    events = decode(case, *streamed(case))
    assert [event.data for event in events if hasattr(event, "damaged")] == [odd]
    assert sum(isinstance(event, TextCitation) for event in events) == len(ANNOTATIONS)
    assert not any(isinstance(event, GroundingReport) for event in events)
