"""Refusals of settings, in the words of the services: each is answered with a request without it, or rightly not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from support.bound_thoughts_service import anthropic_error
from support.loopback import Piece
from support.openai_by_rule import OpenAIByRule, invalid
from support.responses_service import ResponsesService
from support.service_double import Received, as_json
from support.sync_and_async import API
from toolcast import Anthropic, Engine, Hooks, OpenAI, Result, Settings, ToolOrchestratingLLM
from toolcast.errors import BadRequest
from toolcast.llms.client import client_of
from toolcast.providers.refused_settings import change_for, refused_betas

CHAT = {"model": "m", "messages": [], "max_tokens": 500, "temperature": 0.2, "top_p": 0.9,
        "reasoning_effort": "minimal", "parallel_tool_calls": False, "stream_options": {"include_usage": True},
        "stop": ["x"], "seed": 7, "tools": [{"type": "function"}], "logprobs": True}  # fmt: skip
RESPONSES = {"model": "m", "input": [], "max_output_tokens": 500, "temperature": 0.2,
             "reasoning": {"effort": "minimal", "summary": "auto"}, "parallel_tool_calls": False}  # fmt: skip
CLAUDE = {"model": "m", "max_tokens": 64_001, "temperature": 0.2, "top_p": 0.9, "top_k": 5,
          "thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}  # fmt: skip
GEMINI = {"contents": [], "generationConfig": {"temperature": 0.2, "maxOutputTokens": 500, "thinkingConfig": {
    "thinkingLevel": "MINIMAL", "includeThoughts": True}}}  # fmt: skip
BUDGET = {"contents": [], "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}

# The service's words, the request, and what of it is then sent: a field and its value, which is None if it is left out.
ADAPTED: list[tuple[str, dict[str, Any], str, Any]] = [
    # OpenAI, Azure
    ("Unsupported parameter: 'temperature' is not supported with this model.", CHAT, "temperature", None),
    ("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
     CHAT, "temperature", None),
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
     CHAT, "max_completion_tokens", 500),
    ("Unsupported value: 'minimal' is not supported with the 'gpt-5.1-codex' model. Supported values are: 'low', "
     "'medium', and 'high'.", CHAT, "reasoning_effort", "low"),
    ("Unsupported value: 'minimal' is not supported with the 'gpt-5-pro' model. Supported values are: 'high'.",
     RESPONSES, "reasoning.effort", "high"),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.",
     RESPONSES, "reasoning.effort", None),
    ("Your organization must be verified to generate reasoning summaries.", RESPONSES, "reasoning.summary", None),
    ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
     CHAT, "parallel_tool_calls", None),
    ("Unrecognized request argument supplied: stream_options", CHAT, "stream_options", None),
    ("max_tokens is too large: 500. This model supports at most 400 completion tokens, whereas you provided 500.",
     CHAT, "max_tokens", 400),
    ("Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 256, but got 500 instead.",
     RESPONSES, "max_output_tokens", 256),
    # Anthropic
    ("`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at https://"
     "docs.claude.com/en/docs/build-with-claude/extended-thinking", CLAUDE, "temperature", None),
    ("`temperature` is deprecated for this model.", CLAUDE, "temperature", None),
    ("max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5-20250929",
     CLAUDE, "max_tokens", 64_000),
    ('"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort"'
     " to control thinking behavior.", CLAUDE, "thinking", None),
    ("This model does not support effort level 'max'. Supported levels: high, low, medium.",
     CLAUDE, "output_config.effort", "high"),
    # Gemini
    ("Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.",
     GEMINI, "generationConfig.thinkingConfig.thinkingLevel", None),
    ("Budget 0 is invalid. This model only works in thinking mode.",
     BUDGET, "generationConfig.thinkingConfig.thinkingBudget", None),
    # Groq, xAI, Mistral, vLLM
    ("`reasoning_effort` must be one of `low`, `medium`, or `high`", CHAT, "reasoning_effort", "low"),
    ("Model grok-4 does not support parameter reasoningEffort.", CHAT, "reasoning_effort", None),
    ('{"detail": [{"type": "extra_forbidden", "loc": ["body", "parallel_tool_calls"], "msg": "Extra inputs are not '
     'permitted", "input": false}]}', CHAT, "parallel_tool_calls", None),
    ("[{'type': 'extra_forbidden', 'loc': ('body', 'top_p'), 'msg': 'Extra inputs are not permitted', 'input': 0.9}]",
     CHAT, "top_p", None),
    ("logprobs is not supported with this model", CHAT, "logprobs", None),
]  # fmt: skip
NOT_ADAPTED = [
    ("Unsupported parameter: 'stop' is not supported with this model.", CHAT),
    ("Unsupported parameter: 'seed' is not supported with this model.", CHAT),
    ("Invalid schema for function 'weather': In context=('properties', 'temperature'), 'type' is required", CHAT),
    ("Function tools with reasoning_effort are not supported for gpt-6.1-sol in /v1/chat/completions. To use function "
     "tools, use /v1/responses or set reasoning_effort to 'none'.", CHAT),
    ("Invalid value: 'input_audio'. Supported values are: 'input_text' and 'input_image'.", RESPONSES),
    ("messages.1.content.0: the temperature must be a number", CLAUDE),
    ("`max_tokens` must be greater than `thinking.budget_tokens`.", CLAUDE),
    ("Your credit balance is too low to access the API.", CLAUDE),
    ("The model `gpt-9` does not exist or you do not have access to it.", CHAT),
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", CHAT),
    ("invalid temperature sensor reading in the prompt", {"model": "m", "messages": []}),
]  # fmt: skip


def value(fields: dict[str, Any], path: str) -> Any:
    found: Any = fields
    for name in path.split("."):
        found = (found or {}).get(name)
    return found


@pytest.mark.parametrize(("refusal", "fields", "path", "sent"), ADAPTED)
def test_what_is_sent_after_a_refusal(refusal: str, fields: dict[str, Any], path: str, sent: Any) -> None:
    change = change_for(refusal, fields)
    assert change is not None
    changed = json.loads(json.dumps(fields))
    before = json.dumps(changed)
    change.apply(changed)
    assert json.dumps(fields) == before
    assert value(changed, path) == sent
    names = {path.split(".")[0], change.path[0]}
    assert {name: changed.get(name) for name in fields if name not in names} == {
        name: fields[name] for name in fields if name not in names}  # fmt: skip


@pytest.mark.parametrize(("refusal", "fields"), NOT_ADAPTED)
def test_what_is_an_error(refusal: str, fields: dict[str, Any]) -> None:
    assert change_for(refusal, fields) is None


def test_another_value_is_sent_as_it_is() -> None:
    change = change_for(ADAPTED[3][0], CHAT)
    assert change is not None
    for effort in ("high", "none"):
        fields = {"reasoning_effort": effort}
        assert change.apply(fields) is None
        assert fields == {"reasoning_effort": effort}
    limit = change_for(ADAPTED[9][0], CHAT)
    assert limit is not None
    fields = {"max_tokens": 300}
    assert limit.apply(fields) is None
    assert fields == {"max_tokens": 300}
    assert limit.apply({}) is None


def test_groups_that_are_empty_are_left_out() -> None:
    fields = json.loads(json.dumps(BUDGET))
    change = change_for("Budget 0 is invalid. This model only works in thinking mode.", fields)
    assert change is not None
    change.apply(fields)
    assert fields == {"contents": []}
    assert change.apply({"generationConfig": {"thinkingConfig": 5}}) is None


@given(st.text(), st.sampled_from([CHAT, RESPONSES, CLAUDE, GEMINI, {}]))
def test_no_text_breaks_it(refusal: str, fields: dict[str, Any]) -> None:
    change = change_for(refusal, fields)
    assert change is None or change.path[-1] not in ("tools", "messages", "stop", "seed")


# -- at a service


class Album(BaseModel):
    title: str


def look(title: str) -> str:
    """Look at an album."""
    return f"{title} is blue"


class NewModel(OpenAIByRule):
    """OpenAI on the first day of a model that takes less than its family."""

    def _check(self, body: dict[str, Any]) -> None:
        super()._check(body)
        if "temperature" in body:
            raise invalid("Unsupported parameter: 'temperature' is not supported with this model.", "temperature")
        if body.get("reasoning", {}).get("effort") == "none":
            values = "'low', 'medium', and 'high'"
            text = f"Unsupported value: 'none' is not supported with the {body['model']!r} model."
            raise invalid(f"{text} Supported values are: {values}.", "reasoning.effort")


@pytest.fixture
def service() -> Iterator[NewModel]:
    with NewModel() as double:
        yield double


class Seen(Hooks):
    """What hooks see of retries."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def retry(self, call: Any, error: Exception, wait: float) -> None:
        self.errors.append(f"{type(error).__name__} {wait}")


NEW: dict[str, Any] = {"thinking": False, "temperature": 0.5}
NOTES = ("temperature=0.5 (refused by the service)", "reasoning.effort='none' (refused by the service; 'low' was sent)")


def openai(double: NewModel, **options: Any) -> Any:
    return OpenAI("gpt-6.3-nova", api_key="k", network=double.network, max_retries=0, **options)


def test_a_new_model_is_adapted_to_once(service: NewModel, api: API, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    used = openai(service, settings=Settings(**NEW), hooks=seen)
    make = ToolOrchestratingLLM(Album, "An album", used)
    result = api.run(make)
    assert result.output == Album(title="Sea")
    assert [type(attempt.error) for attempt in result.attempts] == [BadRequest, BadRequest, type(None)]
    assert (sorted(result.notes), seen.errors) == (sorted(NOTES), ["BadRequest 0.0"] * 2)
    assert caplog.text.count("temperature=0.5 (refused by the service)") == 1
    # From now on at once, in streams, chats and turns.
    requests = len(service.log)
    assert [item.title for item in api.stream(make).items][-1] == "Sea"
    engine = Engine(used, [look])
    assert engine.submit("Look").rounds == 2
    assert engine.submit("An album", output_cls=Album).output == Album(title="Sea")
    assert api.chat(used, "Hi", settings=Settings(thinking="high")).text == "Done."
    assert len(service.log) - requests == len(service.created) - 1
    assert service.created[-1].json["reasoning"]["effort"] == "high"
    assert caplog.text.count("temperature=0.5 (refused by the service)") == 1
    assert Result.from_dict(result.to_dict(), Album).notes == result.notes


def test_another_model_is_asked_as_it_was(service: NewModel) -> None:
    used = openai(service, settings=Settings(temperature=0.5))
    assert used.chat("Hi").text == "Done."
    other = client_of(used).preview(
        client_of(used).build_request("Hi", (), None, Settings(temperature=0.5), parallel=True)
    )
    assert b"temperature" not in other.body


def test_it_can_be_switched_off(service: NewModel, api: API) -> None:
    used = openai(service)
    for _ in range(2):
        with pytest.raises(BadRequest, match="'temperature' is not supported"):
            api.chat(used, "Hi", settings=Settings(**NEW, adapt=False))
        assert api.chat(used, "Hi", settings=Settings(**NEW)).text == "Done."
    assert len(service.log) == 1 + 3 + 1 + 1


class Betas(ResponsesService):
    """Anthropic, which refuses a beta header that has ended."""

    routes: ClassVar[Any] = ((r"POST /v1/messages", "messages"),)

    def messages(self, request: Received) -> tuple[Piece, ...]:
        self.created.append(request)
        if "old-2025" in request.headers.get("anthropic-beta", ""):
            raise anthropic_error("Unexpected value(s) `old-2025-01-01` for the `anthropic-beta` header. Please "
                                  "consult our documentation or try again without the header.")  # fmt: skip
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        return as_json({**message, "content": [{"type": "text", "text": "Hi"}],
                        "usage": {"input_tokens": 1, "output_tokens": 1}})  # fmt: skip


@pytest.mark.parametrize("betas", ["old-2025-01-01", "new-2026-01-01,old-2025-01-01"])
def test_a_beta_that_has_ended(api: API, betas: str) -> None:
    with Betas() as service:
        used = Anthropic("claude-opus-5", base_url=service.base, api_key="k", headers={"anthropic-beta": betas})
        for _ in range(2):
            assert api.chat(used, "Hi").text == "Hi"
        sent = [request.headers.get("anthropic-beta") for request in service.created]
    kept = "new-2026-01-01" if "," in betas else None
    assert sent == [betas, kept, kept]
    assert refused_betas("temperature", betas) == set()
