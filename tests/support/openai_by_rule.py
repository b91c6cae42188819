"""A double of OpenAI with both protocols, which refuses what its documentation says that OpenAI refuses.

Sources of the rule for tools in chat completions:

* developers.openai.com/api/docs/guides/migrate-to-responses: "Starting with GPT-5.4, Chat Completions does not support
  tool calling with `reasoning_effort` values other than `none`."
* developers.openai.com/api/docs/guides/latest-model: "GPT-6 Astra and GPT-6.1 Sol support Chat Completions, but tool
  calling requires Responses. GPT-6 Sol and GPT-6 Luna support function calling in Chat Completions only with
  `reasoning_effort: "none"`." and "GPT-6 Astra and GPT-6.1 Sol do not support `none`".
* The text of the refusal is that of the service. The default effort of gpt-5.4 is `none`, that of later ones `medium`;
  a model that is not known yet is taken for one that thinks.

The Responses API refuses unknown parameters, `max_output_tokens` below 16, no input, audio, encrypted thoughts of a
model that does not think, and, with `unverified`, summaries of thoughts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, ClassVar

from support.loopback import Piece, whole
from support.responses_service import ResponsesService, function_call, message
from support.service_double import Received, Refused, as_json
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncResponse, Response
from toolcast.values.http_request import HTTPRequest

_TAKES_NO_TOOLS = re.compile(r"gpt-6-astra|gpt-6\.1-sol")
_NO_THOUGHTS = re.compile(r"gpt-[34]")
_NONE_BY_DEFAULT = re.compile(r"gpt-[34]|gpt-5\.[1-4]")
# developers.openai.com/api/docs/guides/reasoning and the pages of the models; the text is that of the service:
# "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. Supported values are: ..."
_EFFORTS = (
    (r"gpt-5-pro", "high"),
    (r"gpt-5(?![.-])", "minimal low medium high"),
    (r"gpt-5\.3-codex", "low medium high xhigh"),
    (r"gpt-5\.1", "none low medium high"),
    (r"gpt-5\.[2-5]", "none low medium high xhigh"),
    (r"gpt-6-astra|gpt-6\.1-sol|gpt-7", "low medium high xhigh max"),
    (r"gpt-5\.6|gpt-6", "none low medium high xhigh max"),
    (r"o4", "low medium high"),
)
_OLDER = re.compile(r"gpt-[34]|gpt-5(\.[1-3])?(?![.\d])")
_TAKEN = frozenset(
    (
        *("background", "conversation", "include", "input", "instructions", "max_output_tokens", "metadata", "model"),
        *("parallel_tool_calls", "previous_response_id", "prompt_cache_key", "reasoning", "service_tier", "store"),
        *("stream", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p"),
    )
)


def invalid(text: str, param: str | None = None) -> Refused:
    """The refusal of a request."""
    return Refused(400, {"error": {"message": text, "type": "invalid_request_error", "param": param, "code": None}})


def effort(model: str, given: str | None) -> str:
    """The effort of a request to a model."""
    return given or ("none" if _NONE_BY_DEFAULT.match(model) and "codex" not in model else "medium")


class OpenAIByRule(ResponsesService):
    """The service. It calls the first tool once, with a title, and answers with a text otherwise."""

    routes: ClassVar[Any] = ((r"POST /v1/chat/completions", "complete"), *ResponsesService.routes)

    def __init__(self) -> None:
        super().__init__()
        self.unverified = False
        self.hides: str | None = None
        """The model behind the name of a deployment."""

    @property
    def network(self) -> HttpxNetwork:
        """The network in which this is OpenAI's own address, and Azure's."""
        return _Moved(self.base)

    def in_a_batch(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a request of a batch, of either protocol."""
        try:
            if "messages" in body:
                return 200, self._completion(body)
            self._check(body)
        except Refused as refused:
            return refused.status, dict(refused.body)
        answer = {"id": "resp_1", "object": "response", "status": "completed", "model": body["model"]}
        return 200, {**answer, "output": [self._item(body)], "usage": {"input_tokens": 9, "output_tokens": 5}}

    def create(self, request: Received) -> tuple[Piece, ...]:
        self._check(request.json)
        self.script.append(self._answer(request.json))
        return super().create(request)

    def _answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._item(body)]

    def _check(self, body: dict[str, Any]) -> None:
        model = self.hides or body["model"]
        if unknown := body.keys() - _TAKEN:
            raise invalid(f"Unknown parameter: '{min(unknown)}'.", min(unknown))
        if not body["input"]:
            raise invalid("One of 'input' or 'previous_response_id' or 'prompt' or 'conversation' must be provided.")
        if (body.get("max_output_tokens") or 16) < 16:
            raise invalid("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.")
        if "reasoning.encrypted_content" in body.get("include", ()) and _NO_THOUGHTS.match(model):
            raise invalid("Encrypted content is not supported with this model.", "include")
        thinking = body.get("reasoning") or {}
        if self.unverified and "summary" in thinking:
            text = "Your organization must be verified to generate reasoning summaries."
            raise invalid(text, "reasoning.summary")
        self._check_effort(model, thinking.get("effort"), body, "reasoning.effort")
        if '"input_audio"' in json.dumps(body["input"]):
            raise invalid("Invalid value: 'input_audio'.", "input")

    def _check_effort(self, model: str, given: str | None, body: dict[str, Any], name: str) -> None:
        """Refuse an effort that the model does not have, and `temperature` beside any but `none`."""
        taken = next((efforts.split() for models, efforts in _EFFORTS if re.match(models, model)), ())
        if given is not None and taken and given not in taken:
            text = f"Unsupported value: {given!r} is not supported with the {model!r} model."
            raise invalid(f"{text} Supported values are: {', '.join(map(repr, taken))}.", name)
        if taken and effort(model, given) != "none" and "temperature" in body:
            raise invalid("Unsupported parameter: 'temperature' is not supported with this model.", "temperature")

    def _item(self, body: dict[str, Any]) -> dict[str, Any]:
        last = body["input"][-1].get("type")
        if body.get("text"):
            return message('{"title": "Sea"}')
        names = [tool["name"] for tool in body.get("tools", ())]
        if last == "function_call_output":
            names = [name for name in names if name == "Album"]
        if not names:
            return message("Done.")
        choice = body.get("tool_choice")
        name = choice["name"] if isinstance(choice, dict) else names[0]
        return function_call(name, {"title": "Sea"}, f"call_{len(body['input'])}")

    def complete(self, request: Received) -> tuple[Piece, ...]:
        answer = self._completion(request.json)
        if not request.json["stream"]:
            return as_json(answer)
        (choice,) = answer["choices"]
        calls = [{**call, "index": place} for place, call in enumerate(choice["message"].get("tool_calls", ()))]
        delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
        chunks = [{"index": 0, "delta": delta}, {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]
        events = [{**answer, "object": "chat.completion.chunk", "choices": [each]} for each in chunks]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return (whole(body.encode(), 200, "content-type: text/event-stream"),)

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        model, sent = body["model"], body.get("reasoning_effort")
        self._check_effort(model, sent, body, "reasoning_effort")
        refuses = not _OLDER.match(model) and effort(model, sent) != "none"
        if body.get("tools") and (refuses or _TAKES_NO_TOOLS.match(model)):
            raise invalid(
                f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use "
                "function tools, use /v1/responses or set reasoning_effort to 'none'.",
                "reasoning_effort",
            )
        answer: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if body.get("response_format"):
            answer["content"] = '{"title": "Sea"}'
        elif body.get("tools") and body["messages"][-1]["role"] != "tool":
            choice = body.get("tool_choice")
            name = choice["function"]["name"] if isinstance(choice, dict) else body["tools"][0]["function"]["name"]
            call = {"name": name, "arguments": '{"title": "Sea"}'}
            answer = {"role": "assistant", "content": None,
                      "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}  # fmt: skip
        return {"id": "chatcmpl-1", "object": "chat.completion", "model": model,
                "choices": [{"index": 0, "message": answer, "finish_reason": "stop"}]}  # fmt: skip


class _Moved(HttpxNetwork):
    """A network in which the addresses of OpenAI and Azure lead to `base`."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base

    def _moved(self, request: HTTPRequest) -> HTTPRequest:
        url = re.sub(r"https://(\w+\.)*openai\.(azure\.)?com(/openai(?=/v1))?", self._base, request.url)
        assert url.startswith(self._base), f"{request.url} is elsewhere"
        return replace(request, url=url)

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        return super().open(self._moved(request), connect=connect, read=read)

    def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Awaitable[AsyncResponse]:
        return super().aopen(self._moved(request), connect=connect, read=read)
