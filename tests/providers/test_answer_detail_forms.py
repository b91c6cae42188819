"""Log probabilities and safety ratings of each protocol: whole and streamed alike, at every cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from support.turns import sse
from toolcast import user
from toolcast.events import ChatResponse, SafetyRating, TokenLogprob
from toolcast.providers.answer_detail_forms import bedrock_ratings, google_logprobs, token_logprobs
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import OPENAI
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.accumulator import Accumulator
from toolcast.values.answer_details import UNLIKELY
from toolcast.values.credentials import Secret

KEY = Secret("sk-0123456789")
CHAT = OpenAIChatAdapter(OPENAI, api_key=KEY)
RESPONSES = OpenAIResponsesAdapter(OPENAI, api_key=KEY)
CLAUDE = AnthropicAdapter(api_key=KEY)
GEMINI = GoogleAdapter(api_key=KEY)
OLLAMA = OllamaAdapter()


def token(text: str, logprob: float, **more: Any) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": [*text.encode()], **more}


# The example of developers.openai.com/api/reference/resources/chat: "Logprobs".
HELLO = token("Hello", -0.31725305, top_logprobs=[token("Hello", -0.31725305), token("Hi", -1.3190403)])
BANG = token("!", -0.02380986, top_logprobs=[])
EXPECTED = (
    TokenLogprob(
        "Hello",
        -0.31725305,
        b"Hello",
        (TokenLogprob("Hello", -0.31725305, b"Hello"), TokenLogprob("Hi", -1.3190403, b"Hi")),
    ),
    TokenLogprob("!", -0.02380986, b"!"),
)


def filtered(**levels: str) -> dict[str, Any]:
    return {name: {"filtered": level == "high", "severity": level} for name, level in levels.items()}


def gemini(text: str, *candidates: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    top = [{"candidates": [{"token": "Hello", "logProbability": -0.5}]}]
    candidate = {
        "content": {"parts": [{"text": text}], "role": "model"},
        "logprobsResult": {"chosenCandidates": list(candidates), "topCandidates": top * len(candidates)},
        "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}],
        **({"finishReason": finish} if finish else {}),
    }
    return {"candidates": [candidate], **more}


def ollama(text: str, *tokens: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": text}, "logprobs": list(tokens), **more}


def message(*tokens: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Hello!", "annotations": [], "logprobs": list(tokens)}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}


RESPONSE = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [message(HELLO, BANG)]}


def delta(text: str, found: dict[str, Any]) -> dict[str, Any]:
    short = {"token": found["token"], "logprob": found["logprob"], "top_logprobs": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **place, "delta": text, "logprobs": [short]}


class Case(NamedTuple):
    """One response in its two forms, and what is in it."""

    adapter: HTTPAdapter
    whole: Any
    stream: Sequence[bytes]
    logprobs: tuple[TokenLogprob, ...]
    safety: tuple[SafetyRating, ...]


def rating(category: str, source: Any, level: str | None, provider: str, *, blocked: bool = False) -> SafetyRating:
    return SafetyRating(category, source, level, blocked, provider)


CASES = {
    "chat": Case(
        CHAT,
        {
            "id": "c",
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hello!"},
                    "logprobs": {"content": [HELLO, BANG], "refusal": None},
                    "finish_reason": "stop",
                    "content_filter_results": filtered(hate="safe", violence="low"),
                }
            ],
            "prompt_filter_results": [
                {
                    "prompt_index": 0,
                    "content_filter_results": {"jailbreak": {"filtered": False, "detected": True}, "error": None},
                }
            ],
        },
        sse(
            {
                "id": "c",
                "model": "m",
                "choices": [],
                "prompt_filter_results": [
                    {"prompt_index": 0, "content_filter_results": {"jailbreak": {"filtered": False, "detected": True}}}
                ],
            },
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "Hello"},
                        "logprobs": {"content": [HELLO]},
                        "content_filter_results": filtered(hate="safe", violence="safe"),
                    }
                ]
            },
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "!"},
                        "logprobs": {"content": [BANG]},
                        "content_filter_results": filtered(hate="safe", violence="low"),
                    }
                ]
            },
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "content_filter_results": {}}]},
        ),
        EXPECTED,
        (
            rating("jailbreak", "prompt", "detected", "openai"),
            rating("hate", "response", "safe", "openai"),
            rating("violence", "response", "low", "openai"),
        ),
    ),
    "responses": Case(
        RESPONSES,
        RESPONSE,
        sse(
            {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**message(), "content": []}},
            delta("Hello", HELLO),
            delta("!", BANG),
            {"type": "response.output_item.done", "output_index": 0, "item": message(HELLO, BANG)},
            {"type": "response.completed", "response": RESPONSE},
        ),
        EXPECTED,
        (),
    ),
    "google": Case(
        GEMINI,
        gemini(
            "Hello!",
            {"token": "Hello", "logProbability": -0.5, "tokenId": 1},
            {"token": "!", "logProbability": -1.5},
            finish="STOP",
        ),
        sse(
            gemini("Hello", {"token": "Hello", "logProbability": -0.5, "tokenId": 1}),
            gemini("!", {"token": "!", "logProbability": -1.5}, finish="STOP"),
        ),
        (
            TokenLogprob("Hello", -0.5, None, (TokenLogprob("Hello", -0.5),)),
            TokenLogprob("!", -1.5, None, (TokenLogprob("Hello", -0.5),)),
        ),
        (rating("HARM_CATEGORY_HARASSMENT", "response", "NEGLIGIBLE", "google"),),
    ),
    "google blocked prompt": Case(
        GEMINI,
        blocked := {
            "promptFeedback": {
                "blockReason": "PROHIBITED_CONTENT",
                "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True}],
            }
        },
        sse(blocked),
        (),
        (
            rating("HARM_CATEGORY_HARASSMENT", "prompt", "HIGH", "google", blocked=True),
            rating("PROHIBITED_CONTENT", "prompt", None, "google", blocked=True),
        ),
    ),
    "google rated prompt": Case(
        GEMINI,
        rated := {
            "promptFeedback": {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]},
            "candidates": [{"content": {"parts": [{"text": "Hello!"}], "role": "model"}, "finishReason": "STOP"}],
        },
        sse(rated),
        (),
        (rating("HARM_CATEGORY_HARASSMENT", "prompt", "LOW", "google"),),
    ),
    "google blocked answer": Case(
        GEMINI,
        recited := {"candidates": [{"finishReason": "RECITATION", "finishMessage": "It is a quotation."}]},
        sse(recited),
        (),
        (rating("RECITATION", "response", None, "google", blocked=True),),
    ),
    "ollama": Case(
        OLLAMA,
        ollama("Hello!", HELLO, BANG, done=True, done_reason="stop"),
        [
            json.dumps(ollama("Hello", HELLO, done=False)).encode() + b"\n",
            json.dumps(ollama("!", BANG, done=False)).encode() + b"\n",
            json.dumps({"model": "m", "message": {"content": ""}, "done": True, "done_reason": "stop"}).encode()
            + b"\n",
        ],
        EXPECTED,
        (),
    ),
    "anthropic": Case(
        CLAUDE,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."},
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        sse(
            {
                "type": "message_start",
                "message": {
                    "id": "msg_1",
                    "role": "assistant",
                    "model": "m",
                    "content": [],
                    "usage": {"input_tokens": 1},
                },
            },
            {
                "type": "message_delta",
                "delta": {
                    "stop_reason": "refusal",
                    "stop_details": {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."},
                },
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
            names=True,
        ),
        (),
        (rating("cyber", "response", None, "anthropic", blocked=True),),
    ),
}
EVERY = pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])


def decoded(case: Case, stream: bool, *chunks: bytes) -> ChatResponse:
    decoder = case.adapter.decoder(RequestInput("m", (user("Hi"),), stream=stream))
    accumulator = Accumulator()
    for chunk in chunks:
        for event in decoder.feed(chunk):
            accumulator.apply(event)
    for event in decoder.close():
        accumulator.apply(event)
    return accumulator.response()


@EVERY
def test_whole_and_streamed_are_alike(case: Case) -> None:
    whole = decoded(case, False, json.dumps(case.whole).encode())
    streamed = decoded(case, True, *case.stream)
    assert (whole.logprobs, whole.safety) == (case.logprobs, case.safety)
    assert (streamed.logprobs, streamed.safety) == (case.logprobs, case.safety)
    assert whole.message == streamed.message


@EVERY
def test_every_cut(case: Case) -> None:
    body = b"".join(case.stream)
    expected = decoded(case, True, body)
    for at in range(1, len(body)):
        assert decoded(case, True, body[:at], body[at:]) == expected
    assert decoded(case, True, *[body[at : at + 1] for at in range(len(body))]) == expected


def test_odd_log_probabilities() -> None:
    found = [
        {"token": "a", "logprob": None, "bytes": [300]},
        {"token": "b", "logprob": float("nan"), "bytes": ["x"]},
        {"token": "c", "logprob": float("-inf"), "bytes": None, "top_logprobs": [{"token": 1}, "x"]},
        {"token": None},
        "d",
    ]
    assert token_logprobs(found) == tuple(TokenLogprob(name, UNLIKELY) for name in "abc")
    assert token_logprobs(None) == ()
    together = {"tokens": ["The", 1, " sea"], "token_logprobs": [-0.5, -1, None]}
    assert token_logprobs(together) == (TokenLogprob("The", -0.5), TokenLogprob(" sea", UNLIKELY))
    assert google_logprobs({"chosenCandidates": [{"token": "a", "logProbability": -1}]}) == (TokenLogprob("a", -1.0),)


def test_the_trace_of_a_guardrail() -> None:
    """The example of docs.aws.amazon.com/bedrock/latest/userguide/guardrails-use-converse-api.html."""
    trace = {
        "inputAssessment": {
            "3o06191495ze": {
                "topicPolicy": {"topics": [{"name": "Music", "type": "DENY", "action": "BLOCKED"}]},
                "invocationMetrics": {"guardrailProcessingLatency": 240},
            }
        },
        "outputAssessments": {
            "3o06191495ze": [
                {
                    "contentPolicy": {
                        "filters": [{"type": "VIOLENCE", "confidence": "LOW", "action": "NONE", "detected": True}]
                    },
                    "wordPolicy": {"customWords": [{"match": "sea", "action": "BLOCKED"}]},
                    "sensitiveInformationPolicy": {"regexes": [{"action": "ANONYMIZED"}]},
                }
            ]
        },
    }
    assert bedrock_ratings(trace, "bedrock") == (
        rating("Music", "prompt", None, "bedrock", blocked=True),
        rating("VIOLENCE", "response", "LOW", "bedrock"),
        rating("sea", "response", None, "bedrock", blocked=True),
        rating("sensitiveInformationPolicy", "response", None, "bedrock", blocked=True),
    )
