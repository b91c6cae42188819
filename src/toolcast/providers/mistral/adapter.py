"""Mistral's API: chat completions, and its differences.

Unknown fields are rejected, so only supported ones are sent. Thoughts arrive as chunks of the content and are returned
unchanged: `ThinkingPart.opaque` stores the chunk, its fragments joined. Tool call ids have exactly nine letters and
digits: any other id is mapped to a stable one, in the call and in its result. Only the model may follow a tool result:
if the user does, because a turn was cancelled, an assistant message is inserted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ...errors import BadRequest
from ...messages import AudioPart, DocumentPart, FileRef, Message, Part, ThinkingPart, ToolResultPart
from ...values.credentials import API_KEY_VARIABLES, Secret
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..chat_completions.adapter import ChatRequestEncoder, OpenAIChatAdapter
from ..chat_completions.services import EmbeddingSpec, ServiceSpec
from ..content_parts import base64_of, data_url, uncited, unsupported_part
from ..http_adapter import thinking_effort
from ..http_errors import ErrorSource
from ..model_features import model_family
from .decoder import MistralDecoder

if TYPE_CHECKING:
    from ..batch_codec import BatchCodec
    from ..file_codec import FileCodec

MISTRAL = ServiceSpec(
    "mistral",
    "https://api.mistral.ai/v1",
    key_env=API_KEY_VARIABLES["mistral"],
    url_env=("MISTRAL_BASE_URL",),
    stream_options=False,
    strict=True,
    response_format="json_schema",
    service_tier=True,
    cache_key=True,
    # One request takes 16,384 tokens.
    embeddings=EmbeddingSpec(64, 10_000, "output_dimension"),
    server_tools="mistral",
)


class MistralAdapter(OpenAIChatAdapter):
    """An adapter for Mistral's API."""

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        super().__init__(MISTRAL, api_key=api_key, base_url=base_url, headers=headers)

    def batches(self) -> BatchCodec:
        """Return the codec of the batch API."""
        from .batches import MistralBatches

        return MistralBatches(self)

    def files(self) -> FileCodec:
        """Return the codec of files."""
        from .files import MistralFiles

        return MistralFiles(self)

    @property
    def takes_files(self) -> bool:
        """True: messages can refer to uploaded files."""
        return True

    def encoder(self, options: RequestOptions, settings: Settings) -> MistralRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        return MistralRequestEncoder(MISTRAL, options, settings)

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return MistralDecoder(source, request_input)


_BROKEN_OFF = "I stopped here."
_LEGAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class MistralRequestEncoder(ChatRequestEncoder):
    """The part of a chat-completions request of Mistral that does not depend on its messages."""

    def _tools(self, options: RequestOptions, thinking: bool) -> None:
        super()._tools(options, thinking)
        if self.fields.get("tool_choice") == "required":
            self.fields["tool_choice"] = "any"

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        # Not `strict`: the schemas it supports are documented for responses only.
        described = {"description": tool.description} if tool.description else {}
        return {
            "type": "function",
            "function": {"name": self.names.sent[tool.name], **described, "parameters": tool.parameters},
        }

    def _settings(self, settings: Settings) -> None:
        super()._settings(settings.with_(seed=None, thinking=None))
        if settings.seed is not None:
            self.fields["random_seed"] = settings.seed
        self.note_settings(settings, "strict")  # of tools
        thinking = settings.thinking
        if thinking is None:
            return
        family = model_family("mistral", self.fields["model"])
        if family is None or family.thinking != "mode":
            # True: the only level besides none that every model with levels has.
            self.fields["reasoning_effort"] = "high" if thinking is True else thinking_effort(thinking)
        elif thinking:
            self.fields["prompt_mode"] = "reasoning"
        else:
            self.notes.append("thinking")

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        for message in super()._messages(messages):
            role = message["role"] if sent and sent[-1]["role"] == "tool" else ""
            if role == "user":
                sent.append({"role": "assistant", "content": _BROKEN_OFF})
            # Results are followed by an answer alone: a system message goes before their calls.
            calls = len(sent) - 1
            while role == "system" and sent[calls]["role"] == "tool":
                calls -= 1
            sent.insert(calls if role == "system" else len(sent), message)
        return sent

    def _message(self, message: Message) -> list[dict[str, Any]]:
        # An empty assistant message is rejected.
        is_sent = message.role != "assistant" or message.text or message.tool_calls or _thoughts(message)
        return super()._message(message) if is_sent else []

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case AudioPart():
                return {"type": "input_audio", "input_audio": part.url or base64_of(part)}
            case DocumentPart():
                name = {"document_name": part.name} if uncited(self.provider, part).name else {}
                return {"type": "document_url", "document_url": part.url or data_url(part), **name}
            case FileRef():
                return self._file(part)
            case _:
                return super()._part(part)

    def _file(self, part: FileRef) -> dict[str, Any]:
        """Return a file by its signed URL, or a document without one by its id."""
        kind = (part.media_type or "").partition("/")[0]
        if kind == "video":
            raise unsupported_part(self.provider, part)
        if part.uri is None and kind in ("image", "audio"):
            raise BadRequest(
                f"the file {part.id!r:.100} has no uri, by which {self.provider} takes {kind}: get it with "
                "llm.describe_file(id)"
            )
        if part.uri is None:
            return {"type": "file", "file_id": part.id}
        if kind == "image":
            return {"type": "image_url", "image_url": {"url": part.uri}}
        if kind == "audio":
            return {"type": "input_audio", "input_audio": part.uri}
        name = {"document_name": part.name} if part.name else {}
        return {"type": "document_url", "document_url": part.uri, **name}

    def _assistant(self, message: Message) -> dict[str, Any]:
        sent = super()._assistant(message)
        if chunks := _thoughts(message):
            sent["content"] = [*chunks, *([{"type": "text", "text": message.text}] if message.text else [])]
        return {name: value for name, value in sent.items() if value is not None}

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        return super()._result(result) | ({"name": legal_name(result.name)} if result.name else {})

    def _id(self, id: str) -> str:
        if _LEGAL_ID.fullmatch(id):
            return id
        number = int.from_bytes(blake2b(id.encode(errors="replace"), digest_size=8).digest(), "big")
        return "".join(_DIGITS[number // 62**place % 62] for place in range(9))


def _thoughts(message: Message) -> list[Any]:
    """Return the chunks of a message's thoughts that are Mistral's own."""
    found = [part.opaque.get("mistral") for part in message.parts if isinstance(part, ThinkingPart) and part.opaque]
    return [chunk for chunk in found if chunk]
