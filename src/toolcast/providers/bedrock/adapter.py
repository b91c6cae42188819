"""Amazon Bedrock's Converse API: messages to requests.

Converse is one protocol for the models of many vendors. What it has no field for goes into
`additionalModelRequestFields`, in the vendor's own form: the thinking and `top_k` of Claude, which the encoder of
Anthropic's protocol decides, and those of Nova and of OpenAI's models. The id of the model is a part of the path: it
may be an ARN, and is encoded as one segment.

Source of the fields: the API reference of Amazon Bedrock Runtime, `Converse` and `ConverseStream`, as of November 2026.
"""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, cast
from urllib.parse import quote

from ...errors import BadRequest
from ...messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    MediaPart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from ...values.credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...values.settings import NOTHING_SET, Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..anthropic.adapter import AnthropicRequestEncoder
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import (
    FAILED,
    POINT,
    add_turn,
    arguments_object,
    called_tools,
    check_parts,
    check_section,
    count_system_messages,
    has_cache_point,
    inline_data,
    point_block,
    unique_ids,
    unsupported_part,
)
from ..file_codec import Exchange
from ..http_adapter import (
    CACHE_SETTINGS,
    Endpoint,
    HTTPAdapter,
    RequestEncoder,
    cache_by_options,
    join_url,
    thinking_effort,
)
from ..http_errors import ErrorSource
from ..model_features import bedrock_model_name, model_capabilities, model_family
from ..schemas.strict import anthropic_schema
from ..tool_calls.json_calls import (
    CallFormat,
    answer_format,
    described,
    instructions,
    response_schema,
    schema_call_format,
    with_instructions,
)
from .decoder import BedrockDecoder


class BedrockAdapter(HTTPAdapter):
    """An adapter for the Converse API in one region.

    Args:
        base_url: The URL of Bedrock Runtime, without `/model`.
        api_key: A Bedrock API key, sent as `Authorization: Bearer`; without one, requests are to be signed.
        headers: Additional headers of every request; they override the adapter's own.
    """

    accept: ClassVar[tuple[str, str]] = ("application/json", "application/vnd.amazon.eventstream")
    has_signed_thoughts: ClassVar[bool] = True

    def __init__(
        self,
        *,
        base_url: str,
        api_key: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        url = SecretURL(join_url(base_url, ""))
        super().__init__(Endpoint("bedrock", url, api_key, headers or {}, key_env=API_KEY_VARIABLES["bedrock"]))
        self._holds = cache_by_options(_can_hold)

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int] | None:
        """Return the request that counts the input tokens of a request; None for models that AWS counts no tokens of.

        It takes ids of models alone, and those of Claude (user guide, "Monitor your token usage by counting tokens").
        """
        name = bedrock_model_name(request_input.model)
        if not name.startswith("anthropic."):
            return None
        from ..token_counters import count_adapted, count_by_bedrock

        path = f"/model/{quote(name, safe='')}/count-tokens"

        def count() -> Exchange[int]:
            return count_by_bedrock(self.request(request_input, settings), self.post, path)

        return count_adapted(count, lambda refusal: self.adapt_to(refusal, request_input, settings))

    def can_hold(self, request_input: RequestInput) -> bool:
        """Return True if the text of a response can be constrained to the schema of these tools."""
        return self._holds(replace(request_input, mode="json_schema"), NOTHING_SET)

    def call_format(self, options: RequestInput | RequestOptions) -> CallFormat | None:
        """Return the format of tool calls in the text of a response."""
        return _format_of(options)

    def encoder(self, options: RequestOptions, settings: Settings) -> BedrockRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        return BedrockRequestEncoder(options, settings)

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return BedrockDecoder(source, request_input)

    def url(self, request_input: RequestInput) -> SecretURL:
        """Return the URL of the model, whose id is one segment of the path: `:` and `/` in it are encoded."""
        root, mark, query = self.service_root.partition("?")
        operation = "converse-stream" if request_input.stream else "converse"
        return SecretURL(f"{root}/model/{quote(request_input.model, safe='')}/{operation}{mark}{query}")


def runtime_url(region: str, environ: Mapping[str, str]) -> str:
    """Return the URL of Bedrock Runtime in a region, or the one that the environment names, as AWS SDKs read it.

    Source: botocore's endpoint rules of `bedrock-runtime`, and "Service-specific endpoints" of the SDK reference guide.
    """
    if environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
        for name in ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"):
            if url := environ.get(name):
                return url
    if not re.fullmatch(r"[a-z0-9-]+", region):
        raise BadRequest(f"{region!r} is no region of AWS; expected for example 'us-east-1'")
    fips = "-fips" if environ.get("AWS_USE_FIPS_ENDPOINT", "").lower() == "true" else ""
    domain = next((domain for prefix, domain in _DOMAINS if region.startswith(prefix)), "amazonaws.com")
    return f"https://bedrock-runtime{fips}.{region}.{domain}"


def _format_of(options: RequestInput | RequestOptions) -> CallFormat | None:
    is_claude = bedrock_model_name(options.model).startswith("anthropic.")
    return answer_format(options) if is_claude else schema_call_format(options)


def _can_hold(options: RequestOptions, settings: Settings) -> bool:
    form = _format_of(options)
    return form is None or anthropic_schema(response_schema(form)).loose is None


class BedrockRequestEncoder(RequestEncoder):
    """The part of a Converse request that does not depend on its messages."""

    protected_fields: ClassVar[tuple[str, ...]] = ("toolConfig.toolChoice", "outputConfig.textFormat")
    tools_field: ClassVar[str] = "toolConfig.tools"
    takes_server_tools: ClassVar[bool] = True
    returns_server_tools: ClassVar[bool] = True

    def __init__(self, options: RequestOptions, settings: Settings) -> None:
        super().__init__("bedrock", options)
        self._name = bedrock_model_name(options.model)
        self._facts = model_capabilities("bedrock", self._name)
        family = model_family("bedrock", self._name)
        self.binds_thoughts: bool = family is not None and family.has("binds_thoughts")
        # AWS caches prompts of these alone, and refuses points for others.
        self.takes_cache_points: bool = self._name.startswith(("anthropic.", "amazon.nova"))
        self._points = options.cache_points if self._name.startswith("anthropic.") else ()
        self._marks_alone = settings.cache == "auto" and self.takes_cache_points
        self._call_format = _format_of(options)
        self._beside_tools = options.answers > 0 and self._name.startswith("anthropic.")
        self._tools = [_tool(tool) for tool in options.tools]
        # Amazon Nova user guide, "Using built-in tools"; models of other vendors have none in Converse.
        protocol = "bedrock" if self._name.startswith("amazon.nova") else "bedrock-other"
        self._server_tools = self.server_tools(options, protocol)
        self.fields["messages"] = []
        more: dict[str, Any] = {}
        if self._call_format is not None:
            self.fields["outputConfig"] = {"textFormat": self._text_format(self._call_format)}
        if self._name.startswith("anthropic."):
            self._configure_claude(options, settings, more)
        else:
            if self._call_format is None:
                self._choose(options)
            self._configure(settings, more)
        if more:
            self.fields["additionalModelRequestFields"] = more
        if settings.service_tier is not None:
            self.fields["serviceTier"] = {"type": settings.service_tier}

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the messages and the system prompt."""
        if self._call_format is not None and not self._beside_tools:
            messages = with_instructions(messages, instructions(self._call_format))
        start = count_system_messages(messages)
        encoded: dict[str, Any] = {"messages": self._turns(messages[start:])}
        if system := [block for message in messages[:start] for block in self._blocks(message)]:
            encoded["system"] = system
        if "toolConfig" not in self.fields and (called := called_tools(messages)):
            # Calls in the history are rejected without a tool configuration.
            specs = [_tool(ToolSpec(name, "", {"type": "object"})) for name in called]
            encoded["toolConfig"] = {"tools": specs if self._beside_tools or not self._tools else self._tools}
        if self._points or self._marks_alone or has_cache_point(messages):
            self._mark(encoded)
        return encoded

    def _mark(self, encoded: dict[str, Any]) -> None:
        """Add the points up to which AWS is to cache the prompt."""
        from ..cache_marks import Rules, add_automatic, find_marks, with_cache_points

        claude = self._name.startswith("anthropic.")
        rules = Rules(_can_be_marked, tools=claude, ordered=claude)
        config: dict[str, Any] = encoded.get("toolConfig") or self.fields.get("toolConfig") or {}
        tools: list[dict[str, Any]] = config.get("tools", [])
        system: list[dict[str, Any]] = encoded.get("system", [])
        turns: list[dict[str, Any]] = encoded["messages"]
        contents = [turn["content"] for turn in turns]
        run = len(self._server_tools) if tools else 0
        marks = find_marks("Bedrock", rules, tools, system, contents, self._points, run_by_service=run)
        if self._marks_alone:
            forced = not {"any", "tool"}.isdisjoint(config.get("toolChoice", ()))
            by_role = [(turn["role"], turn["content"]) for turn in turns]
            taken = sum("cachePoint" in block for blocks in (system, *contents) for block in blocks)
            add_automatic(marks, rules, tools, system, by_role, free=bool(tools) and not forced, taken=taken)
        if any(section == 0 for section, _ in marks):
            encoded["toolConfig"] = {**config, "tools": list(with_cache_points(tools, 0, marks))}
        if system:
            encoded["system"] = list(with_cache_points(system, 1, marks))
        else:
            encoded.pop("system", None)  # it was a point alone
        for section, turn in enumerate(turns, 2):
            turn["content"] = list(with_cache_points(turn["content"], section, marks))
        encoded["messages"] = [turn for turn in turns if turn["content"]]
        if not encoded["messages"]:
            raise _no_content()

    # -- tools

    def _text_format(self, form: CallFormat) -> dict[str, Any]:
        schema, loose = anthropic_schema(response_schema(described(form) if self._beside_tools else form))
        if self._facts.json_schema is False:
            loose = f"{self._name} has no such output"
        if loose:
            raise BadRequest(
                f"the response cannot be constrained to a JSON schema: {loose}. Use mode='tool_call' or 'prompted'."
            )
        name = form.only.name if form.only else "calls"
        structure = {"jsonSchema": {"schema": json.dumps(schema, ensure_ascii=False), "name": legal_name(name)}}
        return {"type": "json_schema", "structure": structure}

    def _choose(self, options: RequestOptions) -> None:
        """Add the tools and the tool choice for a model of any vendor but Anthropic."""
        choice, forced = options.tool_choice, self.required_tool(options.tool_choice)
        forcing = forced is not None or choice in ("required", "any") or isinstance(choice, Mapping)
        if not options.tools and forcing:
            raise BadRequest(f"tool_choice={choice!r} needs tools")
        if choice == "none" or not (options.tools or self._server_tools):
            return  # Converse has no such choice
        # Only Claude and Nova can be required to call one of several tools: any other is offered that one alone.
        named = self._name.startswith("amazon.nova")
        offered = {self.names.sent[forced]} if forced and not named else {*self.names.sent.values()}
        sent: Any = None
        if isinstance(choice, Mapping):
            sent = dict(choice)
        elif forcing and self._facts.forced_tools is False:
            self.notes.append("tool_choice")
        elif forced and named:
            sent = {"tool": {"name": self.names.sent[forced]}}
        elif choice is not None:
            sent = {"any": {}} if forcing else {"auto": {}}
        self._offer(sent, offered)

    def _offer(self, choice: Any, names: Container[str]) -> None:
        """Add the tools of these names, and the tool choice if it is not the default."""
        tools = [tool for tool in self._tools if tool["toolSpec"]["name"] in names] + self._server_tools
        self.fields["toolConfig"] = {"tools": tools, **({"toolChoice": choice} if choice else {})}

    # -- settings

    def _configure_claude(self, options: RequestOptions, settings: Settings, more: dict[str, Any]) -> None:
        """Add what the encoder of Anthropic's protocol decides: tools, thinking, sampling, the limit of tokens."""
        choice = options.tool_choice
        own = dict(choice) if isinstance(choice, Mapping) else None
        anthropic_choice = choice if own is None else {"type": next(iter(own), "auto")}
        claude = AnthropicRequestEncoder(options._replace(tool_choice=anthropic_choice, server_tools=()), settings)
        fields = claude.fields
        self.notes.extend(claude.notes)
        if "tools" in fields and choice != "none":
            named = {tool["name"] for tool in fields["tools"]}
            self._offer(own or _converse_choice(fields.get("tool_choice")), named)
        self._infer(
            maxTokens=fields["max_tokens"] if self._facts.known else settings.max_tokens,
            temperature=fields.get("temperature"),
            topP=fields.get("top_p"),
            stopSequences=fields.get("stop_sequences"),
        )
        more |= {name: fields[name] for name in ("thinking", "top_k") if name in fields}
        if effort := fields.get("output_config", {}).get("effort"):
            self.fields.setdefault("outputConfig", {})["effort"] = effort

    def _configure(self, settings: Settings, more: dict[str, Any]) -> None:
        """Add the settings for a model of any vendor but Anthropic."""
        dropped = {"seed"}
        self.note_settings(settings, "strict", "logprobs", "keep_alive", "num_ctx", *CACHE_SETTINGS)
        form = next((form for vendor, form in _FORMS if self._name.startswith(vendor)), ModelForm())
        if settings.thinking is not None and settings.thinking is not False:
            effort = thinking_effort(settings.thinking)
            effort = _EFFORTS.get(effort, effort)
            if form.thinking:
                more |= _filled(form.thinking, effort)
            else:
                self.notes.append("thinking")
            if form.thinks_freely and effort == "high":
                dropped |= {"temperature", "top_p", "max_tokens"}
        if settings.top_k is not None and form.top_k:
            more |= _filled(form.top_k, settings.top_k)
        elif settings.top_k is not None:
            self.notes.append("top_k")
        stops = [stop for stop in settings.stop or () if stop]
        wanted = {
            "max_tokens": ("maxTokens", settings.max_tokens),
            "temperature": ("temperature", settings.temperature),
            "top_p": ("topP", settings.top_p),
            "stop": ("stopSequences", stops or None),
            "seed": ("seed", settings.seed),
        }
        self.notes.extend([name for name, (_, value) in wanted.items() if value is not None and name in dropped])
        self._infer(**{field: value for name, (field, value) in wanted.items() if name not in dropped})

    def _infer(self, **config: Any) -> None:
        """Add the settings that all models have."""
        if given := {name: value for name, value in config.items() if value is not None}:
            self.fields["inferenceConfig"] = given

    # -- messages

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return turns of alternating roles. A system message between others becomes a user message."""
        turns: list[dict[str, Any]] = []
        for message in unique_ids(messages):
            role = "assistant" if message.role == "assistant" else "user"
            blocks = self._blocks(message)
            while blocks and turns and blocks[0].get("type") == POINT:
                turns[-1]["content"].append(blocks.pop(0))  # it belongs to what is before it
            if blocks:
                add_turn(turns, role, blocks)
        if not turns:
            raise _no_content()
        for at, turn in enumerate(turns):
            if turn["role"] == "user":
                turn["content"].sort(key=_is_no_result)
                _name_documents(turn["content"], is_old=at < len(turns) - 2)
        content: list[dict[str, Any]] = turns[-1]["content"]
        nothing: dict[str, Any] = {}  # a turn of points alone
        last = next((block for block in reversed(content) if block.get("type") != POINT), nothing)
        if turns[-1]["role"] == "assistant" and "text" in last:
            last["text"] = last["text"].rstrip()  # an assistant message to continue must not end in white space
        return turns

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        check_parts(self.provider, message.parts, *_TAKES[message.role])
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            own = _own(part)
            if "citations" in own:
                _cite(blocks, own)
            elif isinstance(part, TextPart) and part.citations:
                blocks += self._cited(part)
            elif block := own or self._block(part):
                blocks.append(block)
        return blocks

    def _cited(self, part: TextPart) -> Iterator[dict[str, Any]]:
        """Yield the blocks of a text with citations: they go back on the blocks that they came on."""
        from ..citation_forms import cited_texts

        for text, citations in cited_texts(part, self.provider):
            if citations:
                yield {"citationsContent": {"content": [{"text": text}], "citations": citations}}
            elif text.strip():
                yield {"text": text}

    def _block(self, part: Part) -> dict[str, Any] | None:
        match part:
            case TextPart():
                return {"text": part.text} if part.text.strip() else None  # blank text is rejected
            case ThinkingPart():
                if not part.signature:
                    return None  # another model's, or of one that does not read its thoughts again
                return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.signature}}}
            case ToolCallPart():
                call = {"toolUseId": legal_name(part.id), "name": legal_name(part.name)}
                return {"toolUse": {**call, "input": arguments_object(part)}}
            case ToolResultPart():
                return {"toolResult": self._result(part)}
            case CachePoint():
                return point_block(part)
            case ServerToolPart():
                return dict(part.raw) if part.raw and part.provider == self.provider else None
            case _:
                assert not isinstance(part, FileRef)  # it was refused
                return self._media(part)

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        content = [self._media(image) for image in result.images]
        if result.content.strip() or not content:
            # A failed result without content is rejected.
            text = result.content if result.content.strip() or not result.is_error else FAILED
            content.insert(0, {"text": text})
        status = {"status": "error"} if result.is_error else {}
        return {"toolUseId": legal_name(result.call_id), "content": content, **status}

    def _media(self, part: MediaPart) -> dict[str, Any]:
        found = inline_data(part)
        if found is None and not (part.url or "").startswith("s3://"):
            where = "in a message: it takes media by their bytes, or by the URL of a file in S3 (s3://bucket/key)"
            raise unsupported_part(self.provider, part, where)
        kind = found[0] if found else part.media_type or mimetypes.guess_type(part.url or "")[0] or ""
        field, form = _FORMATS.get(kind.partition(";")[0], ("", ""))
        if isinstance(part, VideoPart):
            check_section(self.provider, part)
        if not field or (isinstance(part, (ImagePart, AudioPart, VideoPart)) and field != part.type):
            raise unsupported_part(self.provider, part, f"as {kind or 'a file without a media type'}")
        source = {"bytes": found[1]} if found else {"s3Location": {"uri": part.url}}
        block: dict[str, Any] = {"format": form, "source": source}
        if field == "document":
            block["name"] = _document_name(part.name if isinstance(part, DocumentPart) else None)
            if isinstance(part, DocumentPart) and part.citations:
                block["citations"] = {"enabled": True}
        return {field: block}


def _no_content() -> BadRequest:
    return BadRequest("no content: Bedrock needs a user message with text or media")


def _tool(tool: ToolSpec) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description.strip() else {}
    return {"toolSpec": {"name": legal_name(tool.name), **description, "inputSchema": {"json": tool.parameters}}}


def _converse_choice(choice: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the Converse form of a tool choice of Anthropic's."""
    kind = (choice or {}).get("type")
    if choice is None or kind not in ("auto", "any", "tool"):
        return None
    return {"tool": {"name": choice["name"]}} if kind == "tool" else {kind: {}}


def _is_no_result(block: Mapping[str, Any]) -> bool:
    return "toolResult" not in block


def _can_be_marked(block: Mapping[str, Any]) -> bool:
    """Return True for a block that a point can follow; not for thoughts, and not for a point."""
    return "reasoningContent" not in block and "cachePoint" not in block


def _own(part: Part) -> dict[str, Any]:
    """Return the block that a part contains for Bedrock alone, unchanged; empty for any other part."""
    opaque = part.opaque if isinstance(part, (ThinkingPart, ToolCallPart)) else None
    return dict((opaque or {}).get("bedrock") or {})


def _cite(blocks: list[dict[str, Any]], cited: Mapping[str, Any]) -> None:
    """Attach citations to the end of the last text, as sessions of the first versions have them."""
    length = cited.get("characters") or 0
    text = blocks[-1].get("text", "") if blocks else ""
    if not 0 < length <= len(text):
        return
    before, text = text[:-length], text[-length:]
    if before.strip():
        blocks[-1]["text"] = before
    else:
        blocks.pop()  # blank text is rejected
    blocks.append({"citationsContent": {"content": [{"text": text}], "citations": cited["citations"]}})


def _document_name(name: str | None) -> str:
    """Return a name with the characters that are allowed in one: letters, digits, single blanks, `-`, `()`, `[]`."""
    stem = (name or "").rpartition(".")[0] or name or ""
    return " ".join(re.sub(r"[^a-zA-Z0-9\s\-()\[\]]", " ", stem).split())[:_LONGEST_NAME] or "document"


def _name_documents(blocks: list[dict[str, Any]], *, is_old: bool) -> None:
    """Append numbers to equal names of documents in a turn.

    They need text beside them: an old turn, which another model may have taken without, gets their names as text.
    Otherwise raise `BadRequest`.
    """
    documents = [block["document"] for block in blocks if "document" in block]
    if documents and not any("text" in block for block in blocks):
        if not is_old:
            raise BadRequest("bedrock takes a document only beside text: add text to the message, such as a question")
        blocks.append({"text": "\n".join(f"[document: {document['name']}]" for document in documents)})
    counts: dict[str, int] = {}
    for document in documents:
        name = document.get("name", "")
        counts[name] = count = counts.get(name, 0) + 1
        if count > 1:
            document["name"] = f"{name} ({count})"


# The domains of the partitions of AWS, by their regions (botocore's partitions.json).
_DOMAINS: Final = (
    ("cn-", "amazonaws.com.cn"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("us-iso-", "c2s.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
)

_LONGEST_NAME: Final = 190  # of 200, with room for a number

_FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "image/png": ("image", "png"),
    "image/jpeg": ("image", "jpeg"),
    "image/jpg": ("image", "jpeg"),
    "image/gif": ("image", "gif"),
    "image/webp": ("image", "webp"),
    "application/pdf": ("document", "pdf"),
    "text/csv": ("document", "csv"),
    "application/msword": ("document", "doc"),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ("document", "docx"),
    "application/vnd.ms-excel": ("document", "xls"),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ("document", "xlsx"),
    "text/html": ("document", "html"),
    "text/plain": ("document", "txt"),
    "text/markdown": ("document", "md"),
    "video/x-matroska": ("video", "mkv"),
    "video/quicktime": ("video", "mov"),
    "video/mp4": ("video", "mp4"),
    "video/webm": ("video", "webm"),
    "video/x-flv": ("video", "flv"),
    "video/mpeg": ("video", "mpeg"),
    "video/x-ms-wmv": ("video", "wmv"),
    "video/3gpp": ("video", "three_gp"),
    "audio/mpeg": ("audio", "mp3"),
    "audio/mp3": ("audio", "mp3"),
    "audio/opus": ("audio", "opus"),
    "audio/wav": ("audio", "wav"),
    "audio/x-wav": ("audio", "wav"),
    "audio/aac": ("audio", "aac"),
    "audio/flac": ("audio", "flac"),
    "audio/ogg": ("audio", "ogg"),
    "audio/mp4": ("audio", "mp4"),
    "audio/webm": ("audio", "webm"),
}
"""The block and the format of each media type."""

_TAKES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "system": ((TextPart, ThinkingPart, CachePoint), "a system message takes only text"),
    "user": (
        (TextPart, ImagePart, AudioPart, VideoPart, DocumentPart, ToolResultPart, ThinkingPart, CachePoint),
        "only the model calls tools",
    ),
    "assistant": (
        (TextPart, ThinkingPart, ToolCallPart, ServerToolPart, CachePoint),
        "an assistant message takes text, thinking and tool calls",
    ),
    "tool": ((ToolResultPart, CachePoint), "a tool message takes only ToolResultPart"),
}


class ModelForm(NamedTuple):
    """The vendor's form of the settings that Converse has no field for; `...` is replaced by the value.

    Attributes:
        thinking: The fields that enable thinking with an effort; None: it cannot be enabled.
        top_k: The fields with `top_k`; None: there is none.
        thinks_freely: With high effort, the sampling settings and the limit of tokens must be left out.
    """

    thinking: Mapping[str, Any] | None = None
    top_k: Mapping[str, Any] | None = None
    thinks_freely: bool = False


_NOVA_TOP_K = {"inferenceConfig": {"topK": ...}}
_FORMS: Final[Sequence[tuple[str, ModelForm]]] = (
    # Amazon Nova 2 developer guide, "Using the Converse API" and "Extended thinking".
    (
        "amazon.nova-2",
        ModelForm({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": ...}}, _NOVA_TOP_K, thinks_freely=True),
    ),
    ("amazon.nova", ModelForm(top_k=_NOVA_TOP_K)),
    ("openai.", ModelForm({"reasoning_effort": ...})),
)
_EFFORTS: Final = {"minimal": "low", "xhigh": "high", "max": "high"}


def _filled(form: Any, value: Any) -> Any:
    """Return `form` with `value` in place of `...`."""
    if isinstance(form, dict):
        return {name: _filled(part, value) for name, part in cast("dict[str, Any]", form).items()}
    return value if form is ... else form
