"""The decoder of Gemini responses.

Every chunk has the form of a whole response in which nearly everything may be missing, and the response is the parts of
all chunks in order; a body that is not streamed is one chunk, or a list of chunks. A signature belongs to its part: on
a call it stays with the call. On any other part it becomes a thought without text, whose `opaque` says where to put it
back: with `characters`, on that many characters at the end of the text before it; alone, on the thought itself; a part
of another kind is stored in it whole. Vertex AI can stream the arguments of a call as paths and values: `PathsToJSON`
converts them to JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ...errors import EmptyResponse, MalformedEvent
from ...events import (
    AudioOutput,
    Event,
    GroundingReport,
    ImageOutput,
    LogprobsDelta,
    RawEvent,
    SafetyReport,
    ServerToolUse,
    StopReason,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    UsageReport,
)
from ...messages import ImagePart
from ...text.text_buffer import JOIN_THRESHOLD, TextBuffer
from ...values.answer_details import SafetyRating, merge_ratings
from ...values.usage import Usage
from ..answer_detail_forms import google_logprobs, google_ratings
from ..base import PartEnd, RequestInput
from ..http_errors import ErrorSource, stream_error
from ..media_output import MediaBytes, media_type_of
from ..response_decoder import StreamDecoder, as_count, as_dict, as_list, as_str
from ..sse import MEDIA_LIMIT
from ..tool_calls.by_id import OpenCalls
from ..usage_detail_forms import details_of, google_counts

if TYPE_CHECKING:
    from ..citation_forms import GoogleGrounding

_STOP: dict[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",  # of one request
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "LANGUAGE": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "PUP_LIMITED_DISABLED": "content_filter",  # of the user's account
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
    "OTHER": "error",
}
# The field with which a response goes on that is longer than one request can be
# (ai.google.dev/gemini-api/docs/generate-content/long-decode).
_TOKEN: Final = "continuationToken"
# Fields of a chunk that are read.
_SAID = ("candidates", "promptFeedback", "usageMetadata")
# Fields of a part that is text or a thought.
_WORDS = frozenset(("text", "thought", "thoughtSignature"))
# Fields of a candidate that are read, or that no caller needs.
_SILENT = frozenset(("content", "finishReason", "index", "tokenCount", "avgLogprobs", "safetyRatings", _TOKEN))


# Fields of a candidate that become citations and `Grounding`.
_GROUNDING = frozenset(("groundingMetadata", "urlContextMetadata", "citationMetadata"))


class GoogleDecoder(StreamDecoder):
    """A decoder of one Gemini response."""

    kind: ClassVar[str] = "Gemini answer"
    longest: ClassVar[int] = MEDIA_LIMIT
    vital: ClassVar[tuple[str, ...]] = ('"functionCall"',)
    grown: ClassVar[Mapping[type[Event], str]] = {TextDelta: "text"}

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input)
        self._calls = OpenCalls(request_input)
        self._growing: PathsToJSON | None = None  # the arguments of the call that is streamed
        self._answered = False  # a candidate has arrived
        self._finish: tuple[StopReason, str] | None = None
        self._tokens: dict[str, int] = {}
        self._usage_read: object = None
        self._tier: object = None
        self._ratings: tuple[SafetyRating, ...] = ()
        self._grounded: GoogleGrounding | None = None
        self._bytes: MediaBytes | None = None
        self._drafts = 0
        self._metadata: dict[str, Any] = {}  # the last of each further field of the candidate
        self._not_joined = 0  # the chunks since the last join of the text
        self._text_read = TextBuffer()  # the text of the response, in whose bytes Gemini counts places
        self._reports_tools = False  # the tools that Gemini ran are among the parts
        self._token: object = None

    def _adder(self, kind: type[Event]) -> Callable[[str], bool]:
        return self._add_text

    def _add_text(self, text: str) -> bool:
        # As `TextBuffer.add` does, without its calls: this one is made for each event of a text.
        self._text_read.fresh.append(text)
        self._not_joined += 1
        if self._not_joined >= JOIN_THRESHOLD:
            self._text_read.join()
            self._not_joined = 0
        return True

    def _in_call(self) -> bool:
        return self._growing is not None

    def _may_end(self) -> bool:
        return self._finish is not None

    def _message(self, message: dict[str, Any], out: list[Event]) -> bool:
        if is_one := not message.keys().isdisjoint((*_SAID, "error")):
            self._chunk(message, out)
        return is_one

    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if chunk.get("error"):
            raise stream_error(chunk, self._source)
        if not self.model:
            self._name_model(chunk.get("modelVersion"))
            self._response_id = as_str(chunk.get("responseId")) or self._response_id
        for candidate in self._objects(chunk.get("candidates"), "candidates", out):
            self._answered = True
            if not candidate.get("index"):
                self._candidate(candidate, out)
        if "promptFeedback" in chunk:
            self._prompt_feedback(as_dict(chunk["promptFeedback"]), out)
        usage = chunk.get("usageMetadata")
        if usage and usage != self._usage_read:
            self._usage_read = usage
            self._usage(as_dict(usage), out)
        if "candidates" not in chunk and chunk.keys().isdisjoint(_SAID):
            out.append(RawEvent(chunk))

    def _candidate(self, candidate: dict[str, Any], out: list[Event]) -> None:
        content = self._object(candidate.get("content"), "candidates.content", out)
        for part in self._objects(content.get("parts"), "candidates.content.parts", out):
            text = part.get("text")
            if text and len(part) == 1 and type(text) is str:  # fast path for the commonest part
                self._has_content = True
                self._add_text(text)
                out.append(TextDelta(text))
            else:
                self._part(part, out)
        if "safetyRatings" in candidate:
            self._rate(google_ratings(candidate["safetyRatings"], "response", self._source.provider), out)
        if "logprobsResult" in candidate and (tokens := google_logprobs(as_dict(candidate["logprobsResult"]))):
            out.append(LogprobsDelta(tokens))
        for name, value in candidate.items():
            if name not in _SILENT and value and name != "logprobsResult":
                self._metadata[name] = value
                if name in _GROUNDING:
                    self._ground(name, value)
                else:
                    out.append(RawEvent({name: value}))
        self._token = candidate.get(_TOKEN) or self._token
        if reason := as_str(candidate.get("finishReason")):
            usual: StopReason = "content_filter" if reason.startswith("IMAGE_") else "other"
            self._finish = _STOP.get(reason, usual), reason
            if self._finish[0] == "content_filter":
                raw: dict[str, Any] = {
                    name: candidate[name] for name in ("finishReason", "finishMessage") if name in candidate
                }
                self._rate((SafetyRating(reason, "response", None, True, self._source.provider, raw),), out)

    def _prompt_feedback(self, feedback: dict[str, Any], out: list[Event]) -> None:
        ratings = google_ratings(feedback.get("safetyRatings"), "prompt", self._source.provider)
        if reason := as_str(feedback.get("blockReason")):
            self._finish = "content_filter", reason
            ratings += (SafetyRating(reason, "prompt", None, True, self._source.provider, feedback),)
        if ratings:
            self._rate(ratings, out)

    def _rate(self, ratings: tuple[SafetyRating, ...], out: list[Event]) -> None:
        """Emit ratings that change those so far: each chunk has them."""
        before, self._ratings = self._ratings, merge_ratings(self._ratings, ratings)
        if before != self._ratings:
            out.append(SafetyReport(ratings))

    # -- the parts

    def _part(self, part: dict[str, Any], out: list[Event]) -> None:
        self._has_content = self._has_content or bool(part)
        signature = part.get("thoughtSignature")
        call = self._object(part.get("functionCall"), "functionCall", out)
        text = self._string(part.get("text"), "text", out)
        if "functionCall" in part and (call or not text):
            self._call(call, signature, out)
        elif part.keys() <= _WORDS or text:
            self._text(text, part, out)
            if unread := {name: value for name, value in part.items() if name not in _WORDS and value}:
                out.append(RawEvent(unread))
        elif (used := self._server_tool(part)) is not None:
            self._reports_tools |= "toolCall" in part
            out.append(used)
        elif (found := as_dict(part.get("inlineData"))) and self._media(found, part, out):
            pass
        else:
            out.append(RawEvent(part))
            if signature:
                out.append(ThinkingDelta(opaque={"google": part}))

    def _media(self, found: dict[str, Any], part: dict[str, Any], out: list[Event]) -> bool:
        """Emit an image or a recording. Return False for data of another kind."""
        declared, text = as_str(found.get("mimeType")), as_str(found.get("data"))
        kind = declared.partition("/")[0]
        if kind not in ("image", "audio"):
            return False
        if self._bytes is None:
            self._bytes = MediaBytes()
        data = self._bytes.whole(text)
        media_type = media_type_of(data, declared, kind)
        if media_type is None:
            return False
        own = {name: value for name, value in part.items() if name not in ("inlineData", "thought")}
        opaque: dict[str, Any] = {"google": own} if own else {}
        if media_type != declared:
            opaque["media_type"] = declared
        if kind == "image":
            image = ImagePart(data=data, media_type=media_type, opaque=opaque or None)
            if not part.get("thought"):
                out.append(ImageOutput(image))
            else:  # a draft, which is not sent back: ai.google.dev/gemini-api/docs/image-generation, "Thinking"
                out.append(ImageOutput(image, self._drafts))
                self._drafts += 1
            return True
        # Samples without a header are one recording; every other file is one by itself.
        is_whole = bool(opaque) or not media_type.lower().startswith(("audio/l16", "audio/pcm"))
        out.append(AudioOutput(data, media_type, "", opaque if is_whole else None))
        return True

    def _server_tool(self, part: dict[str, Any]) -> ServerToolUse | None:
        """Return the call or the result of a tool that Gemini ran; None for any other part."""
        for kind, read in _SERVER_TOOLS.items():
            if found := as_dict(part.get(kind)):
                name, input_, output, error = read(found)
                id, provider = as_str(found.get("id")), self._source.provider
                return ServerToolUse(name, id, input_, output, error, provider, part)
        return None

    def _ground(self, name: str, value: Any) -> None:
        if self._grounded is None:
            from ..citation_forms import GoogleGrounding

            self._grounded = GoogleGrounding(self._source.provider)
        self._grounded.add(name, value)

    def _cite(self, out: list[Event]) -> None:
        """Emit the citations and the sources, whose indexes may refer to all chunks of the response."""
        if self._grounded is not None:
            out += [TextCitation(citation) for citation in self._grounded.citations(self._text_read.whole())]
            out.append(GroundingReport(self._grounded.grounding()))

    def _grounding(self, out: list[Event]) -> None:
        """Emit what the search and the reader of pages did, where the response has no parts of them.

        The metadata are sent with the last chunks, and cannot be sent back.
        """
        provider = self._source.provider
        search, pages = as_dict(self._metadata.get("groundingMetadata")), self._metadata.get("urlContextMetadata")
        queries = as_list(search.get("webSearchQueries"))
        chunks = [as_dict(chunk) for chunk in as_list(search.get("groundingChunks"))]
        found = [web for chunk in chunks if (web := as_dict(chunk.get("web")))]
        files = [text for chunk in chunks if (text := as_dict(chunk.get("retrievedContext")))]
        if queries or found:
            out.append(ServerToolUse("web_search", "", {"queries": queries}, found, provider=provider))
        if files:
            out.append(ServerToolUse("file_search", "", {}, files, provider=provider))
        if read := as_list(as_dict(pages).get("urlMetadata")):
            urls = [as_dict(page).get("retrievedUrl") for page in read]
            out.append(ServerToolUse("url_context", "", {"urls": urls}, read, provider=provider))

    def _text(self, text: str, part: dict[str, Any], out: list[Event]) -> None:
        signature = part.get("thoughtSignature")
        signed: dict[str, Any] = {"thoughtSignature": signature}
        if part.get("thought"):
            if text or signature:
                out.append(ThinkingDelta(text, opaque={"google": signed} if signature else None))
            return
        if text:
            self._add_text(text)
            out.append(TextDelta(text))
        if signature:
            out.append(ThinkingDelta(opaque={"google": signed | {"characters": len(text)}}))

    def _call(self, call: dict[str, Any], signature: Any, out: list[Event]) -> None:
        name, goes_on = as_str(call.get("name")), bool(call.get("willContinue"))
        own_fields = {"id": call.get("id"), "thoughtSignature": signature}
        own = {name: value for name, value in own_fields.items() if value}
        opaque = {"google": own} if own else None
        if name and self._growing is not None:
            self._call_ends(out)
        if name and not goes_on and not call.get("partialArgs"):
            self._calls.whole(call.get("id"), name, _written(call.get("args")), out, opaque=opaque)
            return
        if name:
            self._calls.start(self, call.get("id"), name, out).opaque = opaque
            self._growing = PathsToJSON()
        if self._growing is not None:
            self._calls.more(self, self._growing.more(as_list(call.get("partialArgs"))), out)
            if not goes_on:
                self._call_ends(out)

    def _call_ends(self, out: list[Event]) -> None:
        if self._growing is not None:
            self._calls.more(self, self._growing.end(), out)
            self._growing = None
        self._calls.done(self, out)

    # -- the end

    def _usage(self, found: dict[str, Any], out: list[Event]) -> None:
        tokens, before = self._tokens, self._tokens.copy()
        for name in _COUNTED:
            if name in found and (count := as_count(found[name])) is not None:
                tokens[name] = count
        tokens |= google_counts(found)
        self._tier = found.get("trafficType") or self._tier
        if tokens != before:
            prompt, tools, answer, thoughts, cached = [tokens.get(name, 0) for name in _COUNTED]
            details = details_of(tokens, self._tier)
            audio = details.input_audio_tokens + details.output_audio_tokens
            counts = (prompt + tools, answer + thoughts, cached, 0, thoughts, audio)
            out.append(UsageReport(Usage(*counts, details=details)))

    def expect_body(self) -> None:
        """Read another body from now on, in which the response goes on. It counts its own tokens."""
        super().expect_body()
        self._finish = self._usage_read = None
        self._tokens = {}

    def _end(self, out: list[Event]) -> None:
        self._check_whole()
        if self._finish is None:
            if not (self._answered or self._streamed):
                raise EmptyResponse("the answer was empty: 'candidates' lists none")
            raise self._truncated()
        reason, raw = self._finish
        if raw == "CONTINUATION" and self._token:
            part_end: Any = PartEnd({_TOKEN: self._token})
            out.append(part_end)
            self._over = True
            return
        if reason in ("end_turn", "other"):
            self._call_ends(out)
        self._calls.finish(out, cut=True)
        if self._metadata and not self._reports_tools:
            self._grounding(out)
        self._cite(out)
        reason = "tool_use" if self._calls.count and reason in ("end_turn", "other") else reason
        out.append(self._finished(reason, raw))
        self._over = True


def _ran_code(found: dict[str, Any]) -> tuple[str, Any, Any, str | None]:
    return "code_execution", {"code": found.get("code"), "language": found.get("language")}, None, None


def _code_result(found: dict[str, Any]) -> tuple[str, Any, Any, str | None]:
    outcome = as_str(found.get("outcome"))
    return "code_execution", None, found.get("output"), None if outcome == "OUTCOME_OK" else outcome or None


def _called(found: dict[str, Any]) -> tuple[str, Any, Any, str | None]:
    return _tool_name(found), found.get("args") or {}, None, None


def _responded(found: dict[str, Any]) -> tuple[str, Any, Any, str | None]:
    return _tool_name(found), None, found.get("response"), None


def _tool_name(found: dict[str, Any]) -> str:
    kind = as_str(found.get("toolType"))
    return _TOOL_TYPES.get(kind, kind.lower())


_TOOL_TYPES = {"GOOGLE_SEARCH_WEB": "web_search", "URL_CONTEXT": "url_context", "FILE_SEARCH": "file_search"}
_SERVER_TOOLS: Mapping[str, Callable[[dict[str, Any]], tuple[str, Any, Any, str | None]]] = {
    "executableCode": _ran_code,
    "codeExecutionResult": _code_result,
    "toolCall": _called,
    "toolResponse": _responded,
}
"""Functions from a part of a tool that Gemini ran to its name, input, output and error."""

_COUNTED = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value or {}, ensure_ascii=False, separators=(",", ":"))


_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\[(["'])(.*?)\3\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PathsToJSON:
    """A converter of values with their JSON paths (`$.a[0].b`) to the JSON text of all of them, as it grows.

    A value with the path of the last one continues the same string. Paths arrive in the order of the text: one that
    leads back into a closed container is a `MalformedEvent`, since its text has already been emitted.
    """

    def __init__(self) -> None:
        self._path: list[str | int] = []
        self._left: list[set[str | int]] = []  # for each open object and list: the keys begun in it
        self._in_string = False

    def more(self, values: list[object]) -> str:
        """Return the text that these values add."""
        return "".join([self._value(found) for value in values if (found := as_dict(value))])

    def end(self) -> str:
        """Return the text that closes everything open."""
        return self._closed(0) if self._left else ""

    def _value(self, value: dict[str, Any]) -> str:
        path = [int(index) if index else name or quoted for name, index, _, quoted in _steps(value)]
        kind = next((kind for kind in _VALUES if kind in value), None)
        if not path or kind is None:
            return ""
        found = None if kind == "nullValue" else value[kind]
        text = json.dumps(found, ensure_ascii=False)
        if path == self._path and self._in_string and isinstance(found, str):
            return text[1:-1]
        before = self._to(path)
        self._in_string = isinstance(found, str)
        return before + (text[:-1] if self._in_string else text)

    def _to(self, path: list[str | int]) -> str:
        """Return the text between the last value and the place of another one."""
        common = 0
        while common < min(len(path), len(self._path)) - 1 and path[common] == self._path[common]:
            common += 1
        text = self._closed(common + 1) + "," if self._left else ""
        for depth, step in enumerate(path[common:], common):
            if depth == len(self._left):
                text += "[" if isinstance(step, int) else "{"
                self._left.append(set())
            begun = self._left[depth]
            if step in begun or (isinstance(step, int) and step != len(begun)) or not _alike(step, begun):
                raise MalformedEvent(f"a piece of a tool call's arguments came out of order, at {path}")
            begun.add(step)
            text += "" if isinstance(step, int) else json.dumps(step, ensure_ascii=False) + ":"
        self._path = path
        return text

    def _closed(self, depth: int) -> str:
        """Return the text that closes the last value, and all containers but the outer `depth` ones."""
        ends = "".join("]" if isinstance(step, int) else "}" for step in self._path[depth:][::-1])
        del self._left[depth:]
        ended, self._in_string = ('"' if self._in_string else ""), False
        return ended + ends


def _alike(step: str | int, begun: set[str | int]) -> bool:
    """Return True if a container with these steps can have this one."""
    return all(type(other) is type(step) for other in islice(begun, 1))


def _steps(value: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return _STEP.findall(as_str(value.get("jsonPath")))
