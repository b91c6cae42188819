"""The official SDKs, each behind the same three questions: an answer whole, streamed, and what an error of it means.

An answer is put together by the SDK itself where it can do that (OpenAI, Anthropic), and piece by piece as its
documentation shows where it cannot. The tables map its stop reasons and its errors to toolcast's; they
follow the services' documentation, not toolcast. No SDK is imported before it is asked.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from sdks.decoded import PROMPT, Decoded, Failed, arguments

MESSAGES: Any = [{"role": "user", "content": PROMPT}]
BEDROCK_MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
BEDROCK_MESSAGES: Any = [{"role": "user", "content": [{"text": PROMPT}]}]
ENCRYPTED: Any = {"model": "gpt-4o", "input": MESSAGES, "store": False, "include": ["reasoning.encrypted_content"]}
BY_STATUS = {
    400: ("BadRequest",),
    401: ("AuthFailed",),
    403: ("AuthFailed",),
    404: ("NotFound",),
    429: ("RateLimited",),
    500: ("ServerError",),
    503: ("Overloaded",),
    529: ("Overloaded",),
}
FAILED = ("ServerError", "Overloaded")


class StreamErrorEvent(Exception):
    """An error event in a stream, which the SDK returns like any other event."""


class Official(ABC):
    """One SDK. `package` is its name on PyPI, `errors` its errors by the name of their class."""

    package: ClassVar[str]
    stops: ClassVar[dict[str, str]]
    errors: ClassVar[dict[str, tuple[str, ...]]] = {}

    @property
    def missing(self) -> bool:
        """Whether the SDK is not installed."""
        try:
            version(self.package)
        except PackageNotFoundError:
            return True
        return False

    def ask(self, url: str, *, stream: bool) -> Decoded:
        """What the SDK makes of the server's answer."""
        return self._streamed(url) if stream else self._whole(url)

    def failure(self, url: str, *, stream: bool) -> Exception:
        """The error that the SDK raises."""
        try:
            decoded = self.ask(url, stream=stream)
        except Exception as error:
            return error
        raise AssertionError(f"{self.package} took this for an answer: {decoded}")

    def meaning(self, error: Exception) -> Failed:
        """What an error of the SDK is in toolcast's words."""
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        status = status if isinstance(status, int) and status >= 400 else None
        kinds = self.errors.get(type(error).__name__) or (BY_STATUS[status] if status else FAILED)
        return Failed(kinds, status)

    def _stop(self, reason: Any, calls: Iterable[Any]) -> str:
        """The stop reason, seen with the calls, for which not every service has a word; none where none came."""
        if reason is None:
            return ""
        stop = self.stops.get(str(reason), "other")
        return "tool_use" if stop in ("end_turn", "other") and tuple(calls) else stop

    @abstractmethod
    def _whole(self, url: str) -> Decoded: ...

    @abstractmethod
    def _streamed(self, url: str) -> Decoded: ...


class OpenAIChat(Official):
    """`openai`, chat completions."""

    package = "openai"
    stops: ClassVar = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "content_filter": "content_filter",
    }
    errors: ClassVar = {
        "AuthenticationError": ("AuthFailed",),
        "PermissionDeniedError": ("AuthFailed",),
        "BadRequestError": ("BadRequest",),
        "NotFoundError": ("NotFound",),
        "RateLimitError": ("RateLimited",),
        "InternalServerError": FAILED,
        "APIError": FAILED,
    }

    def _client(self, url: str) -> Any:
        from openai import OpenAI

        return OpenAI(base_url=url, api_key="any", max_retries=0)

    def _whole(self, url: str) -> Decoded:
        with self._client(url) as client:
            return self._decoded(client.chat.completions.create(model="gpt-4o", messages=MESSAGES))

    def _streamed(self, url: str) -> Decoded:
        """The completion, also where the SDK refuses to call it final: its error holds it."""
        from openai import ContentFilterFinishReasonError, LengthFinishReasonError

        options = {"include_usage": True}
        with (
            self._client(url) as client,
            client.chat.completions.stream(model="gpt-4o", messages=MESSAGES, stream_options=options) as stream,
        ):
            try:
                return self._decoded(stream.get_final_completion())
            except (ContentFilterFinishReasonError, LengthFinishReasonError) as error:
                return self._decoded(error.completion)

    def _decoded(self, completion: Any) -> Decoded:
        choice, usage = completion.choices[0], completion.usage
        message = choice.message
        calls = [call.function for call in message.tool_calls or ()]
        return Decoded(
            text=(message.content or "") + (message.refusal or ""),
            calls=tuple((call.name, arguments(call.arguments)) for call in calls),
            usage=(usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0),
            stop_reason="refusal" if message.refusal else self._stop(choice.finish_reason, calls),
            thinking=getattr(message, "reasoning_content", None) or "",
        )


class OpenAIResponses(OpenAIChat):
    """`openai`, responses."""

    stops: ClassVar = {
        "completed": "end_turn",
        "max_output_tokens": "max_tokens",
        "content_filter": "content_filter",
    }

    def _whole(self, url: str) -> Decoded:
        with self._client(url) as client:
            return self._decoded(client.responses.create(**ENCRYPTED))

    def _streamed(self, url: str) -> Decoded:
        """The response that the last event holds. An error comes as an event, which the caller has to look for."""
        with self._client(url) as client:
            for event in client.responses.create(**ENCRYPTED, stream=True):
                if event.type in ("response.completed", "response.incomplete"):
                    return self._decoded(event.response)
                if event.type == "error":
                    raise StreamErrorEvent(event.message)
        raise StreamErrorEvent("no last event")

    def _decoded(self, response: Any) -> Decoded:
        parts = [part for item in response.output if item.type == "message" for part in item.content]
        refused = any(part.type == "refusal" for part in parts)
        calls = [item for item in response.output if item.type == "function_call"]
        thoughts = [item for item in response.output if item.type == "reasoning"]
        text = response.incomplete_details.reason if response.incomplete_details else response.status
        return Decoded(
            text="".join(part.refusal if part.type == "refusal" else part.text for part in parts),
            calls=tuple((call.name, arguments(call.arguments)) for call in calls),
            usage=(response.usage.input_tokens, response.usage.output_tokens),
            stop_reason="refusal" if refused else self._stop(text, calls),
            thinking="\n\n".join(part.text for item in thoughts for part in item.summary),
            kept=tuple(item.encrypted_content for item in thoughts if item.encrypted_content),
        )


class Anthropic(Official):
    """`anthropic`, messages."""

    package = "anthropic"
    stops: ClassVar = {
        "end_turn": "end_turn",
        "stop_sequence": "stop_sequence",
        "max_tokens": "max_tokens",
        "tool_use": "tool_use",
        "refusal": "refusal",
        "pause_turn": "pause",
    }
    errors: ClassVar = OpenAIChat.errors | {
        "ServiceUnavailableError": ("Overloaded",),
        "OverloadedError": ("Overloaded",),
        "APIStatusError": FAILED,
    }

    def _client(self, url: str) -> Any:
        from anthropic import Anthropic as Client

        return Client(base_url=url, api_key="any", max_retries=0)

    def _whole(self, url: str) -> Decoded:
        with self._client(url) as client:
            return self._decoded(client.messages.create(model="claude-sonnet-4-6", max_tokens=1000, messages=MESSAGES))

    def _streamed(self, url: str) -> Decoded:
        model = "claude-sonnet-4-6"
        with (
            self._client(url) as client,
            client.messages.stream(model=model, max_tokens=1000, messages=MESSAGES) as stream,
        ):
            return self._decoded(stream.get_final_message())

    def _decoded(self, message: Any) -> Decoded:
        blocks, usage = message.content, message.usage
        calls = [block for block in blocks if block.type == "tool_use"]
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        explained = getattr(message.stop_details, "explanation", None) or ""
        kept = {"thinking": "signature", "redacted_thinking": "data"}
        return Decoded(
            text="".join(block.text for block in blocks if block.type == "text") or explained,
            calls=tuple((call.name, call.input) for call in calls),
            usage=(usage.input_tokens + cached, usage.output_tokens),
            stop_reason=self._stop(message.stop_reason, calls),
            thinking="".join(block.thinking for block in blocks if block.type == "thinking"),
            kept=tuple(getattr(block, kept[block.type]) for block in blocks if block.type in kept),
        )


class Gemini(Official):
    """`google-genai`, generate content."""

    package = "google-genai"
    stops: ClassVar = {
        "STOP": "end_turn",
        "MAX_TOKENS": "max_tokens",
        "SAFETY": "content_filter",
        "MALFORMED_FUNCTION_CALL": "error",
    }

    def _ask(self, url: str, method: str, read: Callable[[Any], list[Any]]) -> Decoded:
        from google import genai

        with genai.Client(api_key="any", http_options={"base_url": url, "api_version": "v1beta"}) as client:
            return self._decoded(read(getattr(client.models, method)(model="gemini-2.5-pro", contents=PROMPT)))

    def _whole(self, url: str) -> Decoded:
        return self._ask(url, "generate_content", lambda answer: [answer])

    def _streamed(self, url: str) -> Decoded:
        return self._ask(url, "generate_content_stream", list)

    def _decoded(self, chunks: list[Any]) -> Decoded:
        candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
        parts = [part for one in candidates if one.content for part in one.content.parts or ()]
        calls = [part.function_call for part in parts if part.function_call]
        stops = [one.finish_reason.value for one in candidates if one.finish_reason]
        stops += [chunk.prompt_feedback.block_reason.value for chunk in chunks if chunk.prompt_feedback]
        usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
        signatures = [part.thought_signature for part in parts if part.thought_signature]
        return Decoded(
            text="".join(part.text for part in parts if part.text and not part.thought),
            calls=tuple((call.name, call.args) for call in calls),
            usage=self._tokens(usages[-1]) if usages else (0, 0),
            stop_reason=self._stop(stops[-1] if stops else None, calls),
            thinking="".join(part.text for part in parts if part.text and part.thought),
            kept=tuple(base64.b64encode(signature).decode() for signature in signatures),
        )

    def _tokens(self, usage: Any) -> tuple[int, int]:
        output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        return usage.prompt_token_count or 0, output


class Mistral(Official):
    """`mistralai`, chat completions."""

    package = "mistralai"
    stops: ClassVar = OpenAIChat.stops | {"model_length": "max_tokens", "error": "error"}

    def _client(self, url: str) -> Any:
        from mistralai.client import Mistral as Client

        return Client(api_key="any", server_url=url.removesuffix("/v1"))

    def _whole(self, url: str) -> Decoded:
        with self._client(url) as client:
            answer = client.chat.complete(model="mistral-large-latest", messages=MESSAGES)
            choice = answer.choices[0]
            return self._decoded([choice.message], choice.finish_reason, answer.usage)

    def _streamed(self, url: str) -> Decoded:
        with (
            self._client(url) as client,
            client.chat.stream(model="mistral-large-latest", messages=MESSAGES) as stream,
        ):
            chunks = [event.data for event in stream]
        choices = [choice for chunk in chunks for choice in chunk.choices]
        usages = [chunk.usage for chunk in chunks if chunk.usage]
        stops = [choice.finish_reason for choice in choices if choice.finish_reason]
        return self._decoded(
            [choice.delta for choice in choices], stops[-1] if stops else None, usages[-1] if usages else None
        )

    def _decoded(self, messages: list[Any], stop: Any, usage: Any) -> Decoded:
        contents = [message.content for message in messages if message.content]
        texts = [content for content in contents if isinstance(content, str)]
        thoughts = [part for content in contents if isinstance(content, list) for part in content]
        calls: list[tuple[str, str]] = []
        for call in (call for message in messages for call in message.tool_calls or ()):
            if call.id != "null":  # the SDK's word for an id that did not come: more of the call before
                calls.append(("", ""))
            calls[-1] = calls[-1][0] + call.function.name, calls[-1][1] + call.function.arguments
        return Decoded(
            text="".join(texts + [part.text for part in thoughts if part.type == "text"]),
            calls=tuple((name, arguments(text)) for name, text in calls),
            usage=(usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0),
            stop_reason=self._stop(stop, calls),
            thinking="".join(text.text for part in thoughts if part.type == "thinking" for text in part.thinking),
        )


class Ollama(Official):
    """`ollama`, chat."""

    package = "ollama"
    stops: ClassVar = {"stop": "end_turn", "length": "max_tokens"}

    def _whole(self, url: str) -> Decoded:
        return self._decoded(lambda client: [client.chat(model="llama3.2", messages=MESSAGES)], url)

    def _streamed(self, url: str) -> Decoded:
        return self._decoded(lambda client: list(client.chat(model="llama3.2", messages=MESSAGES, stream=True)), url)

    def _decoded(self, asked: Callable[[Any], list[Any]], url: str) -> Decoded:
        from ollama import Client

        with Client(host=url) as client:
            chunks = asked(client)
        messages, last = [chunk.message for chunk in chunks], chunks[-1]
        calls = [call.function for message in messages for call in message.tool_calls or ()]
        return Decoded(
            text="".join(message.content or "" for message in messages),
            calls=tuple((call.name, dict(call.arguments)) for call in calls),
            usage=(last.prompt_eval_count or 0, last.eval_count or 0),
            stop_reason=self._stop(last.done_reason, calls),
            thinking="".join(message.thinking or "" for message in messages),
        )


class Cohere(Official):
    """`cohere`, version 2 of chat. It has no function that puts a stream together."""

    package = "cohere"
    stops: ClassVar = {
        "COMPLETE": "end_turn",
        "STOP_SEQUENCE": "stop_sequence",
        "MAX_TOKENS": "max_tokens",
        "TOOL_CALL": "tool_use",
    }

    def client(self, url: str) -> Any:
        from cohere import ClientV2

        return ClientV2("any", base_url=url, log_warning_experimental_features=False)

    def _whole(self, url: str) -> Decoded:
        with self.client(url) as client:
            answer = client.chat(model="command-a-03-2025", messages=MESSAGES, request_options={"max_retries": 0})
        found = answer.message
        content = found.content or ()
        calls = [(call.function.name, call.function.arguments) for call in found.tool_calls or ()]
        thinking = [part.thinking for part in content if part.type == "thinking"]
        text = "".join(part.text for part in content if part.type == "text")
        return self._decoded(text, [*thinking, found.tool_plan or ""], calls, answer.finish_reason, answer.usage)

    def _streamed(self, url: str) -> Decoded:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[tuple[str, str]] = []
        end: Any = None
        with self.client(url) as client:
            options = {"max_retries": 0}
            for event in client.chat_stream(model="command-a-03-2025", messages=MESSAGES, request_options=options):
                if event.type in ("content-start", "content-delta"):
                    texts.append(event.delta.message.content.text or "")
                    thoughts.append(event.delta.message.content.thinking or "")
                elif event.type == "tool-plan-delta":
                    thoughts.append(event.delta.message.tool_plan)
                elif event.type == "tool-call-start":
                    function = event.delta.message.tool_calls.function
                    calls.append((function.name, function.arguments or ""))
                elif event.type == "tool-call-delta":
                    name, written = calls[-1]
                    calls[-1] = (name, written + event.delta.message.tool_calls.function.arguments)
                elif event.type == "message-end":
                    end = event.delta
        if end is None:
            return self._decoded("".join(texts), thoughts, calls, None, None)
        return self._decoded("".join(texts), thoughts, calls, end.finish_reason, end.usage)

    def _decoded(self, text: str, thoughts: list[str], calls: list[tuple[str, str]], stop: Any, usage: Any) -> Decoded:
        billed = usage.billed_units if usage else None
        return Decoded(
            text=text,
            calls=tuple((name, arguments(written)) for name, written in calls),
            usage=(int(billed.input_tokens), int(billed.output_tokens)) if billed else (0, 0),
            stop_reason=self._stop(stop, calls),
            thinking="".join(thoughts),
        )


class Bedrock(Official):
    """`boto3`, Converse and ConverseStream. It has no function that puts a stream together."""

    package = "boto3"
    stops: ClassVar = {
        "end_turn": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "model_context_window_exceeded": "max_tokens",
        "stop_sequence": "stop_sequence",
        "guardrail_intervened": "content_filter",
        "content_filtered": "content_filter",
    }

    def client(self, url: str) -> Any:
        import boto3
        from botocore.config import Config

        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        config = Config(retries={"total_max_attempts": 1}, read_timeout=20)
        return boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **keys)

    def meaning(self, error: Exception) -> Failed:
        """By the status of the response, or the code of an event."""
        found: dict[str, Any] = getattr(error, "response", {})
        status = found.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status is not None and status >= 400:
            return Failed(BY_STATUS.get(status, FAILED), status)
        kinds = {"throttlingException": ("RateLimited",), "validationException": ("BadRequest",)}
        return Failed(kinds.get(found.get("Error", {}).get("Code", ""), FAILED))

    def _whole(self, url: str) -> Decoded:
        with closing(self.client(url)) as client:
            answer = client.converse(modelId=BEDROCK_MODEL, messages=BEDROCK_MESSAGES)
        return self._decoded(answer["output"]["message"]["content"], answer["stopReason"], answer["usage"])

    def _streamed(self, url: str) -> Decoded:
        blocks: dict[int, dict[str, Any]] = {}
        stop, usage = None, {}
        with closing(self.client(url)) as client:
            for event in client.converse_stream(modelId=BEDROCK_MODEL, messages=BEDROCK_MESSAGES)["stream"]:
                ((kind, found),) = event.items()
                if kind == "contentBlockStart" and found["start"]:
                    blocks[found["contentBlockIndex"]] = {"toolUse": {**found["start"]["toolUse"], "input": ""}}
                elif kind == "contentBlockDelta":
                    self._grow(blocks.setdefault(found["contentBlockIndex"], {}), found["delta"])
                elif kind == "messageStop":
                    stop = found["stopReason"]
                elif kind == "metadata":
                    usage = found["usage"]
        for block in blocks.values():
            if "toolUse" in block:
                block["toolUse"]["input"] = arguments(block["toolUse"]["input"])
        return self._decoded(list(blocks.values()), stop, usage)

    def _grow(self, block: dict[str, Any], delta: dict[str, Any]) -> None:
        ((kind, value),) = delta.items()
        if kind == "text":
            block["text"] = block.get("text", "") + value
        elif kind == "toolUse":
            block["toolUse"]["input"] += value["input"]
        elif "redactedContent" in value:
            block[kind] = value
        else:
            thought = block.setdefault(kind, {"reasoningText": {"text": ""}})["reasoningText"]
            thought |= {"text": thought["text"] + value["text"]} if "text" in value else value

    def _decoded(self, blocks: list[dict[str, Any]], stop: str | None, usage: dict[str, int]) -> Decoded:
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        thoughts = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
        texts = [thought["reasoningText"] for thought in thoughts if "reasoningText" in thought]
        kept = [
            base64.b64encode(thought["redactedContent"]).decode()
            if "redactedContent" in thought
            else thought["reasoningText"].get("signature")
            for thought in thoughts
        ]
        cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
        return Decoded(
            text="".join(block.get("text", "") for block in blocks),
            calls=tuple((call["name"], call["input"]) for call in calls),
            usage=(usage.get("inputTokens", 0) + cached, usage.get("outputTokens", 0)),
            stop_reason=self._stop(stop, calls),
            thinking="".join(text["text"] for text in texts),
            kept=tuple(each for each in kept if each),
        )


SDKS: dict[str, Official] = {
    "openai": OpenAIChat(),
    "responses": OpenAIResponses(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
    "mistral": Mistral(),
    "ollama": Ollama(),
    "bedrock": Bedrock(),
    "cohere": Cohere(),
}
