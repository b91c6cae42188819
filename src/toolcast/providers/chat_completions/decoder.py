"""The decoder of chat-completions responses.

The fields of a delta are dispatched through a table, so that a field costs only if it has a value. The result is
decided at the end, `[DONE]` or the end of the body: a finish reason may arrive early, twice, or be revoked, and tool
calls may follow it.
"""

# pyright: reportPrivateUsage=false
# The tables of methods follow their class: in a class body, a compiled class has no methods yet.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ...errors import EmptyResponse
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
    ToolCallDelta,
    UsageReport,
)
from ...values.answer_details import SafetyRating, merge_ratings
from ...values.tool_spec import tool_names
from ...values.usage import Usage
from ..answer_detail_forms import token_logprobs
from ..base import RequestInput
from ..http_errors import ErrorSource, stream_error
from ..media_output import PCM, MediaBytes, image_of_url, media_type_of
from ..response_decoder import ARRAY, OBJECT, StreamDecoder, always, as_count, as_dict, as_list, as_str, json_or_text
from ..sse import MEDIA_LIMIT
from ..think_tags import ThinkTags
from ..tool_calls.by_index import ToolCalls
from ..usage_detail_forms import details_of, openai_counts, reported_cost

_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "eos": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "tool_use": "tool_use",
    "function_call": "tool_use",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}
# Fields of a delta that no caller needs.
_SILENT = frozenset(("role", "name", "channel", "token_id", "index", "finish_reason", "audio_id", "obfuscation"))


class OpenAIChatDecoder(StreamDecoder):
    """A decoder of one chat-completions response. `think_tags`: thoughts are in the text, in `<think>` tags."""

    kind: ClassVar[str] = "chat completion"
    longest: ClassVar[int] = MEDIA_LIMIT
    vital: ClassVar[tuple[str, ...]] = ('"tool_calls"', '"function_call"')
    grown: ClassVar[Mapping[type[Event], str]] = {ToolCallDelta: "arguments", TextDelta: "content"}

    def __init__(self, source: ErrorSource, request_input: RequestInput, *, think_tags: bool = False) -> None:
        super().__init__(source, request_input)
        self._readers = READERS
        self._calls = ToolCalls(tool_names(request_input.tools), request_input.calls_before)
        self._tags = ThinkTags() if think_tags else None
        self._finish: str | None = None
        self._lost_late = False  # an event after the finish reason could not be read
        self._answered = False  # a choice has arrived
        self._thought_field: str | None = None
        self._thinks = False  # a thought is open: `_end_thought` is due
        self._details: list[dict[str, Any]] = []
        self._refused = False
        self._found: dict[str, list[object]] = {}  # the sources that xAI and Perplexity list
        self._tokens: dict[str, int] = {}
        self._reported: Usage | None = None
        self._tier: object = None
        self._ratings: tuple[SafetyRating, ...] = ()
        self._media: MediaBytes | None = None
        self._audio_type: str | None = None
        self._recorded: dict[str, Any] = {}  # the id of the recording, and the time when the service deletes it

    def _adder(self, kind: type[Event]) -> Callable[[str], bool]:
        return self._calls.add if kind is ToolCallDelta else always

    def _in_call(self) -> bool:
        return bool(self._calls)

    def _lose(self, text: str) -> None:
        # After a finish reason the last call has ended, unless more of it arrives.
        if self._finish is None or any(word in text for word in self.vital):
            super()._lose(text)
        else:
            self._lost_late = bool(self._calls)

    def _may_end(self) -> bool:
        return self._finish is not None

    def _message(self, message: dict[str, Any], out: list[Event]) -> bool:
        if message:
            self._chunk(message, out)
        return "choices" in message

    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if chunk.get("error"):
            raise stream_error(chunk, self._source)
        if not self.model:
            self._name_model(chunk.get("model"))
            self._response_id = as_str(chunk.get("id")) or self._response_id
        # `in` costs less than `get`, and most chunks have none of these.
        if "service_tier" in chunk:
            self._tier = chunk["service_tier"] or self._tier
        if "prompt_filter_results" in chunk or "prompt_annotations" in chunk:  # Azure
            self._rate_prompt(chunk.get("prompt_filter_results") or chunk.get("prompt_annotations"), out)
        choices: Any = chunk.get("choices")
        if choices and type(choices) is ARRAY:
            for choice in choices:
                self._choice(choice, out)
        else:
            self._without_choices(chunk, out)
        for name in _SOURCES:
            if name in chunk and (found := as_list(chunk[name])):
                self._found[name] = found  # each chunk of Perplexity's repeats them
        if chunk.get("usage"):
            self._usage(chunk["usage"], out)
        elif "x_groq" in chunk:
            self._groq(as_dict(chunk["x_groq"]), out)

    def _groq(self, found: dict[str, Any], out: list[Event]) -> None:
        """Read the extension that Groq adds to a chunk."""
        if found.get("error"):
            raise stream_error(found, self._source)
        self._usage(found.get("usage"), out)

    def _choice(self, given: Any, out: list[Event]) -> None:
        self._answered = True
        # `_object`, which costs a call for each chunk, is for what is no object.
        choice: Any = given
        if type(given) is not dict:
            choice = self._object(given, "choices", out)
        if choice.get("index") and choice["index"] != "0":
            return
        delta: Any = choice.get("delta")
        if delta is None or "message" in choice:
            delta = self._whole_message(choice, out)
        elif type(delta) is not OBJECT:
            delta = self._object(delta, "choices.delta", out)
        for name, value in delta.items():
            if value and name not in _SILENT:
                reader = self._readers.get(name)
                if reader is not None:
                    reader(self, value, out)
                else:
                    out.append(RawEvent({name: value}))
        if choice.get("logprobs"):
            self._log_probabilities(choice["logprobs"], out)
        if "content_filter_results" in choice:  # Azure
            from ..http_errors import azure_ratings

            self._rate(azure_ratings(choice["content_filter_results"], "response", self._source.provider), out)
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])
        if choice.get("usage"):
            self._usage(choice["usage"], out)

    def _log_probabilities(self, found: Any, out: list[Event]) -> None:
        """Emit the log probabilities of the text, or of a refusal."""
        lists = as_dict(found)
        content = lists.get("content") or lists.get("refusal")
        if tokens := token_logprobs(content if content is not None else found):
            out.append(LogprobsDelta(tokens))

    def _rate_prompt(self, found: Any, out: list[Event]) -> None:
        """Emit the ratings of the prompts by Azure."""
        from ..http_errors import azure_ratings

        ratings: tuple[SafetyRating, ...] = ()
        for prompt in map(as_dict, as_list(found)):
            ratings += azure_ratings(prompt.get("content_filter_results"), "prompt", self._source.provider)
        self._rate(ratings, out)

    def _rate(self, ratings: tuple[SafetyRating, ...], out: list[Event]) -> None:
        """Emit ratings that change those so far: each chunk has them."""
        before, self._ratings = self._ratings, merge_ratings(self._ratings, ratings)
        if before != self._ratings:
            out.append(SafetyReport(ratings))

    def _whole_message(self, choice: dict[str, Any], out: list[Event]) -> dict[str, Any]:
        """Return the fields of a choice that has a message or no delta.

        Perplexity has both. A whole answer is in its message, and the delta may be empty. In a stream the message
        repeats all deltas so far: it is read where it comes last, and nothing else did.
        """
        if choice.get("text"):
            return {"content": choice["text"]}
        delta = self._object(choice["delta"], "choices.delta", out) if "delta" in choice else {}
        message = self._object(choice.get("message"), "choices.message", out)
        repeated = self._streamed and (self._has_content or ("delta" in choice and not choice.get("finish_reason")))
        more = {} if repeated else {name: value for name, value in message.items() if value}
        if self._streamed and any(value for name, value in delta.items() if name not in _SILENT):
            return delta
        return delta | more

    def _without_choices(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if chunk.get("object") == "error" or ("choices" not in chunk and "detail" in chunk):
            raise stream_error(chunk, self._source)
        if chunk.get("choices"):
            self._refuse(chunk["choices"], "choices", "a list of objects", out)
        elif not chunk.get("usage"):
            out.append(RawEvent(chunk))

    # -- the fields of a delta

    def _text(self, value: Any, out: list[Event]) -> None:
        if type(value) is not str:
            parts = self._objects(value, "content", out)
            value = "".join([self._string(part.get("text"), "content.text", out) for part in parts])
            if not value:
                self._has_content = True
                return
        self._has_content = True
        if self._thinks:
            self._end_thought(out)
        if self._tags is None:
            out.append(TextDelta(value))
        else:
            out += self._tags.feed(value)

    def _tool_calls(self, value: Any, out: list[Event]) -> None:
        self._has_content = True
        if self._thinks:
            self._end_thought(out)
        self._damaged |= self._lost_late
        for odd in self._calls.take(value, out):
            self._refuse(odd, "tool_calls", "a list of objects", out)

    def _reasoning(self, value: Any, out: list[Event]) -> None:
        self._thought("reasoning", value, out)

    def _reasoning_content(self, value: Any, out: list[Event]) -> None:
        self._thought("reasoning_content", value, out)

    def _thought(self, name: str, value: Any, out: list[Event]) -> None:
        # Some services send the same thought in both fields: the first that is used counts.
        self._thought_field = self._thought_field or name
        if name == self._thought_field and isinstance(value, str):
            self._has_content = True
            out.append(ThinkingDelta(value))

    def _thought_details(self, value: Any, out: list[Event]) -> None:
        self._thinks = True
        for detail in as_list(value):
            if not (new := as_dict(detail)):
                continue
            # Some services have the text of a thought here alone, and others in a field beside it.
            if text := as_str(new.get("text")):
                self._thought("reasoning_details", text, out)
            last = self._details[-1] if self._details else {}
            if last and all(last.get(name) == new.get(name) for name in ("type", "index")) and "data" not in new:
                joined = {name: as_str(last.get(name)) + as_str(new.get(name)) for name in _GROWING if name in new}
                last.update({name: value for name, value in new.items() if value is not None}, **joined)
            else:
                self._details.append(dict(new))

    def _end_thought(self, out: list[Event]) -> None:
        """End the open thought, with the data that the service wants back."""
        self._thinks = False
        if self._details:
            out.append(ThinkingDelta(opaque={"reasoning_details": self._details, "provider": self._source.provider}))
            self._details = []

    def _refusal(self, value: Any, out: list[Event]) -> None:
        self._refused = self._has_content = True
        out.append(TextDelta(str(value)))

    def _function_call(self, value: Any, out: list[Event]) -> None:
        self._calls.take_legacy(value, out)

    def _images(self, value: Any, out: list[Event]) -> None:
        """Read images, which OpenRouter and other gateways have beside the text."""
        media = self._media = self._media or MediaBytes()
        for each in map(as_dict, as_list(value)):
            image = image_of_url(as_str(as_dict(each.get("image_url")).get("url")), media)
            if image is None:
                out.append(RawEvent({"images": [each]}))
            else:
                self._has_content = True
                out.append(ImageOutput(image))

    def _audio(self, value: Any, out: list[Event]) -> None:
        """Read a recording, or a chunk of it: its id, transcript, data and time of expiry may come one by one."""
        found = as_dict(value)
        self._recorded |= {name: found[name] for name in ("id", "expires_at") if found.get(name) is not None}
        text, transcript = as_str(found.get("data")), as_str(found.get("transcript"))
        if text or transcript:
            self._has_content = True
            media = self._media = self._media or MediaBytes()
            data = media.more(text)
            if self._audio_type is None or not self._streamed:
                # A stream has samples without a header; OpenAI has no other format there.
                self._audio_type = PCM if self._streamed else media_type_of(data, "", "audio") or PCM
            out.append(AudioOutput(data, self._audio_type, transcript))

    def _end_audio(self, out: list[Event]) -> None:
        if self._media is not None:
            self._media.end()
        if self._recorded:
            opaque = {"audio": {**self._recorded, "provider": self._source.provider}}
            out.append(AudioOutput(b"", self._audio_type or PCM, opaque=opaque))

    def _executed_tools(self, value: Any, out: list[Event]) -> None:
        """Read the tools that Groq has run. A streamed call comes twice: without, and then with its result."""
        for tool in map(as_dict, as_list(value)):
            found = {name: tool[name] for name in _RESULTS if tool.get(name)}
            if not found and self._streamed:
                out.append(RawEvent({"executed_tools": [tool]}))
                continue
            self._has_content = True
            kind = as_str(tool.get("type"))
            # Nothing is sent back: the service has no field for it in a request.
            out.append(
                ServerToolUse(
                    _EXECUTED.get(kind, kind),
                    str(tool.get("index", "")),
                    json_or_text(tool.get("arguments")),
                    found or None,
                    provider=self._source.provider,
                )
            )

    def _annotations(self, value: Any, out: list[Event]) -> None:
        """Read the citations of the text. Their places count its characters, with those in `<think>` tags."""
        from ..citation_forms import openai_citation

        offset = 0 if self._tags is None else None
        for annotation in as_list(value):
            if as_dict(annotation):
                out.append(TextCitation(openai_citation(annotation, offset, self._source.provider)))
            else:
                out.append(RawEvent({"annotations": [annotation]}))

    def _ground(self, out: list[Event]) -> None:
        """Emit the sources that are listed beside the response; they belong to all of its text."""
        from ..citation_forms import search_grounding

        citations, results = (self._found.get(name, []) for name in _SOURCES)
        grounding = search_grounding(citations, results, self._source.provider)
        out += [TextCitation(source) for source in grounding.sources]
        out.append(GroundingReport(grounding))

    def _usage(self, found: Any, out: list[Event]) -> None:
        report = as_dict(found)
        tokens = self._tokens
        tokens.update(_counts(report))
        input_, output, thought = tokens.get("input", 0), tokens.get("output", 0), tokens.get("thought", 0)
        if thought and tokens.get("total") == input_ + output + thought:
            # xAI counts thoughts in the total, but not in the completion.
            output += thought
        details = details_of(tokens, self._tier)
        audio = details.input_audio_tokens + details.output_audio_tokens
        cached, written = tokens.get("cached", 0), tokens.get("written", 0)
        usage, cost = Usage(input_, output, cached, written, thought, audio, details=details), reported_cost(report)
        if cost is not None or self._reported is None or usage != self._reported:
            self._reported = usage
            out.append(UsageReport(usage if cost is None else usage.with_cost(cost)))

    # -- the end

    def _end(self, out: list[Event]) -> None:
        self._check_whole()
        if not self._answered:
            raise EmptyResponse("the answer was empty: 'choices' lists none")
        if self._thinks:
            self._end_thought(out)
        if self._tags is not None:
            out += self._tags.close()
        if self._found:
            self._ground(out)
        if self._recorded or self._media is not None:
            self._end_audio(out)
        reason = _STOP.get(self._finish or "", "other")
        called = self._calls.finish(out, cut=reason in ("max_tokens", "content_filter"))
        out.append(self._finished(_stop_reason(reason, called=called, refused=self._refused), self._finish))
        self._over = True


Reader = Callable[[Any, Any, list[Event]], None]
"""A method of a decoder that reads one field of a delta."""

READERS: Mapping[str, Reader] = {
    "content": OpenAIChatDecoder._text,
    "tool_calls": OpenAIChatDecoder._tool_calls,
    "reasoning_content": OpenAIChatDecoder._reasoning_content,
    "reasoning": OpenAIChatDecoder._reasoning,
    "reasoning_details": OpenAIChatDecoder._thought_details,
    "refusal": OpenAIChatDecoder._refusal,
    "function_call": OpenAIChatDecoder._function_call,
    "executed_tools": OpenAIChatDecoder._executed_tools,
    "annotations": OpenAIChatDecoder._annotations,
    "images": OpenAIChatDecoder._images,
    "audio": OpenAIChatDecoder._audio,
}
# The fields beside `choices` that list the sources of a response.
_SOURCES = ("citations", "search_results")
# The results of a tool that Groq has run, and our names of its tools.
_RESULTS = ("output", "search_results", "code_results", "browser_results")
_EXECUTED = {
    "search": "web_search",
    "browser_search": "web_search",
    "browser.search": "web_search",
    "python": "code_execution",
    "code_interpreter": "code_execution",
    "visit": "url_context",
    "visit_website": "url_context",
    "browser.open": "url_context",
}
_GROWING = ("text", "summary", "signature")


def _stop_reason(reason: StopReason, *, called: bool, refused: bool) -> StopReason:
    """Return the stop reason, corrected by the content: services disagree on the value for tool calls."""
    if reason in ("max_tokens", "content_filter", "error", "refusal"):
        return reason
    if refused:
        return "refusal"
    if called:
        return "tool_use"
    return "end_turn" if reason == "tool_use" else reason


def _counts(found: dict[str, Any]) -> dict[str, int]:
    """Return the token counts of one report, under our own names."""
    into, out_of = as_dict(found.get("prompt_tokens_details")), as_dict(found.get("completion_tokens_details"))
    read = {
        "input": found.get("prompt_tokens"),
        "output": found.get("completion_tokens"),
        "total": found.get("total_tokens"),
        "cached": into.get("cached_tokens"),
        "written": into.get("cache_write_tokens"),
        "thought": out_of.get("reasoning_tokens"),
    }
    if read["cached"] is None:
        for name in _CACHED:
            if (cached := found.get(name)) is not None:
                read["cached"] = cached
                break
    if read["written"] is None:
        read["written"] = into.get("cache_creation_tokens")
    if read["thought"] is None:
        read["thought"] = found.get("reasoning_tokens")
    counts = openai_counts(found, into, out_of)
    for name, value in read.items():
        if value is not None and (count := as_count(value)) is not None:
            counts[name] = count
    return counts


# The fields of DeepSeek, Mistral and Moonshot for tokens read from the cache.
_CACHED = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens")
