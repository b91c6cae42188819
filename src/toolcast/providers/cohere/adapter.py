"""Cohere's Chat API, `/v2/chat`: messages to requests.

Its tool choice has no names: a tool that must be called is the only one that is offered. Thoughts go back in the form
they came in, as content or as the plan of tool calls; those of other models are left out.

Source: docs.cohere.com/reference/chat, as of November 2026, and version 7.3 of Cohere's SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...errors import BadRequest
from ...messages import ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...values.credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import check_parts, data_url, result_text, unique_ids, unsupported_part, valid_arguments
from ..http_adapter import (
    CACHE_SETTINGS,
    Endpoint,
    HTTPAdapter,
    RequestEncoder,
    join_url,
    thinking_budget,
    thinking_effort,
    top_logprobs,
)
from ..http_errors import ErrorSource
from ..model_features import model_capabilities
from ..schemas.strict import cohere_schema
from ..tool_calls.json_calls import CallFormat, instructions, response_schema, schema_call_format, with_instructions
from .decoder import CohereDecoder

if TYPE_CHECKING:
    from ..embedding_codec import EmbeddingCodec

BASE_URL: Final = "https://api.cohere.com"


class CohereAdapter(HTTPAdapter):
    """An adapter for one endpoint of Cohere's API.

    Args:
        base_url: The URL, with or without `/v2` or `/v2/chat` at its end.
        headers: Additional headers of every request; they override the adapter's own.
    """

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        root, mark, query = (base_url or BASE_URL).strip().partition("?")
        root = root.rstrip("/").removesuffix("/chat").removesuffix("/v2")
        url = SecretURL(join_url(f"{root}{mark}{query}", "/v2/chat"))
        super().__init__(Endpoint("cohere", url, api_key, headers or {}, key_env=API_KEY_VARIABLES["cohere"]))

    @property
    def service_root(self) -> str:
        """The URL that the paths of all requests follow, with any credentials."""
        url, mark, query = super().service_root.partition("?")
        return f"{url.removesuffix('/v2/chat')}{mark}{query}"

    def embeddings(self) -> EmbeddingCodec:
        """Return the codec of embeddings."""
        from .embeddings import CohereEmbeddings

        return CohereEmbeddings(self)

    def encoder(self, options: RequestOptions, settings: Settings) -> CohereRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        return CohereRequestEncoder(options, settings)

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return CohereDecoder(source, request_input)


class CohereRequestEncoder(RequestEncoder):
    """The part of a `/v2/chat` request that does not depend on its messages."""

    def __init__(self, options: RequestOptions, settings: Settings) -> None:
        super().__init__("cohere", options)
        self._facts = model_capabilities("cohere", options.model)
        self._instructions: str | None = None
        self.fields.update({"model": options.model, "messages": [], "stream": options.stream})
        form = schema_call_format(options)
        if form is None:
            self._tools(options)
        else:
            self._answer(form)
        self._sampling(settings)
        self._think(settings.thinking)
        self.note_settings(settings, "strict", "service_tier", "keep_alive", "num_ctx", *CACHE_SETTINGS)

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the messages, encoded."""
        messages = messages if self._instructions is None else with_instructions(messages, self._instructions)
        return {"messages": [sent for message in unique_ids(messages) for sent in self._message(message)]}

    # -- tools and settings

    def _answer(self, form: CallFormat) -> None:
        """Constrain the text of the response to a schema, or to JSON if the schema has no form at Cohere."""
        schema, loose = cohere_schema(response_schema(form))
        self.fields["response_format"] = {"type": "json_object", **({} if loose else {"json_schema": schema})}
        # The messages must ask for JSON, or the model may write white space for ever (docs, "Structured Outputs").
        self._instructions = instructions(form)

    def _tools(self, options: RequestOptions) -> None:
        choice, forced = options.tool_choice, self.required_tool(options.tool_choice)
        if not options.tools:
            return
        only = self.names.sent[forced] if forced else None
        sent = [self._tool(tool) for tool in options.tools]
        self.fields["tools"] = [tool for tool in sent if only in (None, tool["function"]["name"])]
        if isinstance(choice, Mapping):
            raise BadRequest(f"cohere has no such tool choice: {dict(choice)!r:.100}. Use a name, 'required' or 'none'")
        if choice == "none":
            self.fields["tool_choice"] = "NONE"
        elif forced or choice in ("required", "any"):
            if self._facts.forced_tools is False:
                self.notes.append("tool_choice")
            else:
                self.fields["tool_choice"] = "REQUIRED"

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        function = {
            "name": self.names.sent[tool.name],
            "description": tool.description,
            "parameters": tool.parameters,
        }
        return {"type": "function", "function": function}

    def _sampling(self, settings: Settings) -> None:
        wanted = {
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "p": settings.top_p,
            "k": settings.top_k,
            "stop_sequences": None if settings.stop is None else list(settings.stop)[:_MOST_STOPS],
            "seed": settings.seed,
        }
        self.fields.update({name: value for name, value in wanted.items() if value is not None})
        if len(settings.stop or ()) > _MOST_STOPS:
            self.notes.append(f"more than {_MOST_STOPS} stop sequences")
        if (alternatives := top_logprobs(settings.logprobs)) is not None:
            self.fields["logprobs"] = True
            if alternatives:
                self.notes.append("alternatives of logprobs")

    def _think(self, thinking: bool | str | int | None) -> None:
        """Add the setting of thinking. Levels become token budgets; the highest ones are unlimited."""
        if thinking is None:
            return
        if self._facts.thinking is False:
            self.notes.append("thinking")
        elif thinking_effort(thinking) == "none":
            self.fields["thinking"] = {"type": "disabled"}
        else:
            budget = thinking_budget(thinking) or (None if thinking is True else _BUDGETS.get(str(thinking)))
            self.fields["thinking"] = {"type": "enabled", **({"token_budget": budget} if budget else {})}

    # -- messages

    def _message(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "assistant":
            if sent := self._assistant(message):
                yield sent
            return
        others: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                yield self._result(part)
            else:
                others.append(part)
        if message.role == "tool":
            check_parts(self.provider, others, (), "a tool message takes only ToolResultPart")
        elif message.role == "system":
            check_parts(self.provider, others, (TextPart,), "a system message takes only text")
            yield {"role": "system", "content": message.text}
        elif others or not message.parts:
            yield {"role": "user", "content": self._content(others)}

    def _content(self, parts: Sequence[Part]) -> str | list[dict[str, Any]]:
        """Return the content of a user message: text, or a list if there is more than text."""
        if all(isinstance(part, TextPart) for part in parts):
            return "".join([part.text for part in parts if isinstance(part, TextPart)])
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case TextPart():
                return {"type": "text", "text": part.text}
            case ImagePart():
                detail = {} if part.detail is None else {"detail": part.detail}
                return {"type": "image_url", "image_url": {"url": part.url or data_url(part), **detail}}
            case _:
                raise unsupported_part(self.provider, part)

    def _assistant(self, message: Message) -> dict[str, Any]:
        kinds = (TextPart, ThinkingPart, ToolCallPart)
        check_parts(self.provider, message.parts, kinds, "an assistant message takes text, thinking and tool calls")
        content: list[dict[str, Any]] = []
        plan = ""
        for part in message.parts:
            if isinstance(part, TextPart) and part.text:
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, ThinkingPart) and (form := _form(part)):
                plan += part.text if form == "tool_plan" else ""
                content += [{"type": "thinking", "thinking": part.text}] if form == "thinking" else []
        sent: dict[str, Any] = {}
        if calls := message.tool_calls:
            sent["tool_calls"] = [_call(call) for call in calls]
        if plan:
            sent["tool_plan"] = plan
        if content:
            only_text = len(content) == 1 and content[0]["type"] == "text"
            sent["content"] = content[0]["text"] if only_text else content
        return {"role": "assistant", **sent} if sent else {}

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        if result.images:
            raise unsupported_part(self.provider, result.images[0], "in the result of a tool")
        return {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}


def _form(part: ThinkingPart) -> str | None:
    """Return the form in which Cohere wrote a thought; None for a thought of another provider."""
    own: Mapping[str, Any] = (part.opaque or {}).get("cohere") or {}
    form = own.get("type")
    return form if isinstance(form, str) else None


def _call(call: ToolCallPart) -> dict[str, Any]:
    function = {"name": legal_name(call.name), "arguments": valid_arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


_MOST_STOPS: Final = 5
_BUDGETS: Final[Mapping[str, int]] = {"minimal": 512, "low": 2_048, "medium": 8_192}
