"""`RedactedLLM`: a function over every text that is sent."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from ...errors import BadRequest
from ...events import Event
from ...messages import (
    FILE_LIMIT,
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    MediaPart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from ...providers.content_parts import inline_data
from ...values.hooks import Hooks
from ...values.option_types import require, require_callable
from ..client import LLMClient, client_of
from ..function_calling_llm import FunctionCallingLLM
from ..request import ChatRequest
from .wrapper_llm import Next, WrapperClient, WrapperLLM

if TYPE_CHECKING:
    from ..uploads import Upload

_LIST: Any = list  # typed as Any, so that isinstance does not narrow Any to an unknown type
_DICT: Any = dict
_TEXT_TYPE: Final = re.compile(r"text/|application/(.+\+|x-)?(json|xml|yaml|ndjson|javascript)\b", re.IGNORECASE)
M = TypeVar("M", bound=MediaPart)


class RedactedClient(WrapperClient["RedactedLLM"]):
    """A client of an LLM with redacted requests."""

    def sent(self, request: ChatRequest) -> ChatRequest:
        """Return the redacted request."""
        return self.llm.redacted(request)

    def prepare_upload(self, request: Upload) -> Upload:
        """Return the upload with its name redacted, and its content if that is text."""
        from ..uploads import file_content, file_name, file_type

        name = file_name(request.source, request.name)
        media_type = file_type(name, request.media_type)
        source = request.source
        if _TEXT_TYPE.match(media_type):
            content = file_content(source)
            if content.size > FILE_LIMIT:
                raise BadRequest(
                    f"{name!r} has {content.size:,} bytes of text, and at most {FILE_LIMIT:,} are redacted: split it"
                )
            source = self.llm.redacted_text(content.read(0, content.size).decode("utf-8", "replace")).encode()
        request = replace(request, source=source, name=self.llm.redacted_text(name), media_type=media_type)
        return self.wrapped.prepare_upload(request)


class RedactedLLM(WrapperLLM):
    """An LLM that gets every message through a function, for example one that replaces names and numbers.

    The function gets the texts of all messages: system prompt, user, model, tool results, the names and URLs of media,
    documents that are text (also JSON, XML and YAML), and each key, string and number in the arguments of earlier tool
    calls. A text file to upload is redacted, too, and so is the name of each. Images, audio, video, other documents and
    files, the settings, the definitions of the tools, and the service's own data
    (signatures, encrypted reasoning) are sent as they are; signed reasoning whose text the function changes is left
    out, as the service would reject it, and so are the blocks of tools that the provider ran. The response is not
    changed: the application sees what the model wrote.

    Args:
        llm: The LLM that gets the redacted messages, or its name.
        redact: A sync function from a text to the text that is sent, which always returns the same for the same text:
            it may be called again for a preview or for the key of a cache. If it raises, nothing is sent.
        hooks: Hooks of its calls. Those of the wrapped LLM observe redacted requests.
        max_concurrency: The number of responses at once; None is no limit.

    Example:
        ```python
        llm = RedactedLLM(OpenAI("gpt-5.4"), lambda text: text.replace("Ada Lovelace", "[NAME]"))
        ```
    """

    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = RedactedClient

    def __init__(
        self,
        llm: FunctionCallingLLM | str,
        redact: Callable[[str], str],
        *,
        hooks: Sequence[Hooks] | Hooks | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        super().__init__(llm, hooks=hooks, max_concurrency=max_concurrency)
        require_callable("redact", redact, "a function from a text to the text that is sent")
        self.redact: Callable[[str], str] = redact

    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        """Yield the events of the response to the redacted request."""
        async for event in call_next(self.redacted(request)):
            yield event

    def cache_data(self, request: ChatRequest) -> list[Any]:
        """Return the data that a cached answer is found by: those of the redacted request."""
        return client_of(self.llm).cache_data(self.redacted(request))

    def redacted(self, request: ChatRequest) -> ChatRequest:
        return replace(request, messages=tuple([self._message(message) for message in request.messages]))

    def _message(self, message: Message) -> Message:
        # A service rejects a changed block, and a result without its call: all blocks of the call are left out.
        gone = {part.call_id for part in message.server_tools if self._is_changed(part)}
        left = [part for part in message.parts if not (isinstance(part, ServerToolPart) and part.call_id in gone)]
        parts = [self._part(part) for part in left]
        return replace(message, parts=tuple([part for part in parts if part is not None]))

    def _part(self, part: Part) -> Part | None:
        """Return the redacted part; None if it cannot be sent."""
        match part:
            case TextPart():
                return self._cited(part)
            case ThinkingPart():
                text = self.redacted_text(part.text)
                signed = part.signature is not None or part.opaque is not None
                return None if signed and text != part.text else replace(part, text=text)
            case ToolCallPart():
                return replace(part, arguments=self._arguments(part.arguments))
            case ToolResultPart():
                images = tuple([self._media(image) for image in part.images])
                return replace(part, content=self.redacted_text(part.content), images=images)
            case ServerToolPart() | CachePoint():
                return part
            case DocumentPart():
                return self._document(part)
            case FileRef():
                return part if part.name is None else replace(part, name=self.redacted_text(part.name))
            case AudioPart():
                return self._recording(part)
            case _:
                return self._media(part)

    def _cited(self, part: TextPart) -> Part:
        """Return the redacted text, with its citations if neither they nor the text are changed."""
        text = self.redacted_text(part.text)
        unchanged = text == part.text and all(
            self._value(data) == data for data in [citation.to_dict() for citation in part.citations]
        )
        return replace(part, text=text, citations=part.citations if unchanged else ())

    def _is_changed(self, part: ServerToolPart) -> bool:
        """Return True if a text in the block would be changed; not counting what the service has encrypted in it."""
        return any(self._value(value) != value for value in (part.input, part.output, part.error))

    def _recording(self, part: AudioPart) -> Part:
        """Return the recording, or the redacted transcript alone where that is changed: the bytes speak the text."""
        transcript = self.redacted_text(part.transcript or "")
        return self._media(part) if transcript == (part.transcript or "") else TextPart(transcript)

    def _media(self, part: M) -> M:
        # A `data:` URL is the file itself, which a changed text would damage.
        if part.url is None or part.url.startswith("data:"):
            return part
        return replace(part, url=self.redacted_text(part.url))

    def _document(self, part: DocumentPart) -> DocumentPart:
        if part.name is not None:
            part = replace(part, name=self.redacted_text(part.name))
        inline = inline_data(part)
        if inline is None or not _TEXT_TYPE.match(inline[0]):
            return self._media(part)
        text = b64decode(inline[1]).decode("utf-8", "replace")
        return replace(part, url=None, data=self.redacted_text(text).encode(), media_type=inline[0])

    def _arguments(self, text: str) -> str:
        """Return the JSON text of arguments with its keys, strings and numbers redacted, and otherwise unchanged."""
        repeats = False

        def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal repeats
            made = dict(pairs)
            repeats = repeats or len(made) < len(pairs)
            return made

        try:
            found: Any = json.loads(text, object_pairs_hook=to_dict)
            changed = self._value(found)
        except (json.JSONDecodeError, RecursionError):  # it was cut off, or the model wrote no JSON
            return self.redacted_text(text)
        # A key that is repeated has values in the text that `redact` was not called with.
        return text if changed == found and not repeats else json.dumps(changed, ensure_ascii=False)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redacted_text(value)
        if isinstance(value, _LIST):
            return [self._value(item) for item in value]
        if isinstance(value, _DICT):
            return {self.redacted_text(key): self._value(item) for key, item in value.items()}
        if value is None or isinstance(value, bool):
            return value
        shown = json.dumps(value)
        changed = self.redacted_text(shown)
        return value if changed == shown else changed

    def redacted_text(self, text: str) -> str:
        changed = self.redact(text)
        require("the result of redact", changed, str, "str; nothing was sent")
        return changed
