"""Google's Gemini protocol (Gemini API and Vertex AI): messages to requests.

Contents alternate between user and model; consecutive messages of one role are merged. Gemini signs its thoughts and
expects each signature back on the part it came on (see google/decoder.py). Parts of other providers are sent without a
signature.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit

from ...errors import BadRequest
from ...messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    MediaPart,
    Message,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from ...values.credentials import API_KEY_VARIABLES, GOOGLE_VARIABLES, Secret, SecretURL
from ...values.http_request import HTTPRequest, build_request
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import arguments_object, check_parts, count_system_messages, inline_data, uncited, unsupported_part
from ..http_adapter import (
    CACHE_SETTINGS,
    Endpoint,
    HTTPAdapter,
    RequestEncoder,
    join_url,
    json_body,
    thinking_budget,
    thinking_effort,
    top_logprobs,
)
from ..http_errors import ErrorSource
from ..model_features import model_family
from ..model_table import ModelFamily
from ..refused_settings import EFFORTS, nearest_effort
from ..schemas.strict import gemini_schema
from ..tool_calls.json_calls import instructions, response_schema, schema_call_format, with_instructions
from .decoder import GoogleDecoder

if TYPE_CHECKING:
    from ..batch_codec import BatchCodec
    from ..embedding_codec import EmbeddingCodec
    from ..file_codec import Exchange, FileCodec

BASE_URL = "https://generativelanguage.googleapis.com"
_VERSIONED = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")


class GoogleAdapter(HTTPAdapter):
    """An adapter for one endpoint of the Gemini API.

    Args:
        api_version: A part of the URL, if `base_url` contains no version. For Vertex AI `base_url` is the URL up to
            `/publishers/google`.
        headers: Additional headers of every request; they override the adapter's own.
    """

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        api_version: str = "v1beta",
    ) -> None:
        base_url = base_url or BASE_URL
        versioned = _VERSIONED.search(urlsplit(base_url).path)
        url = join_url(base_url, "" if versioned else f"/{api_version.strip('/')}")
        variables = GOOGLE_VARIABLES if "/projects/" in urlsplit(url).path else API_KEY_VARIABLES["google"]
        super().__init__(Endpoint("google", SecretURL(url), api_key, headers or {}, "x-goog-api-key", variables))

    def url(self, request_input: RequestInput) -> SecretURL:
        """Return the URL of the request. A model that is not a bare name keeps its prefix (`tunedModels/...`)."""
        root, path = self._model_path(request_input.model)
        method = "streamGenerateContent" if request_input.stream else "generateContent"
        url = join_url(root, f"{path}:{method}")
        return SecretURL(f"{url}{'&' if '?' in url else '?'}alt=sse" if request_input.stream else url)

    def _model_path(self, model: str) -> tuple[str, str]:
        """Return the URL that the path of a model follows, and the path.

        On Vertex AI a model may be that of another publisher (`publishers/meta/models/...`), or an endpoint of one's
        own (`endpoints/...`, or its whole name, `projects/...`).
        """
        root = self.service_root
        if self._is_vertex and model.startswith(("publishers/", "endpoints/", "projects/")):
            end = r"(/projects/[^?]*)?/publishers/[^/?]+" if model.startswith("projects/") else r"/publishers/[^/?]+"
            root = re.sub(end + r"(?=/*(\?|$))", "", root)
        elif "/" not in model:
            model = f"models/{model}"
        return root, f"/{quote(model, safe='/@')}"

    def batches(self) -> BatchCodec | None:
        """Return the codec of the batch API; None on Vertex AI, which has another one."""
        from .batches import GoogleBatches

        return None if self._is_vertex else GoogleBatches(self)

    def files(self) -> FileCodec | None:
        """Return the codec of files; None on Vertex AI, which has buckets instead."""
        from .files import GoogleFiles

        return None if self._is_vertex else GoogleFiles(self)

    def embeddings(self) -> EmbeddingCodec:
        """Return the codec of embeddings."""
        from .embeddings import GoogleEmbeddings, VertexEmbeddings

        return VertexEmbeddings(self) if self._is_vertex else GoogleEmbeddings(self)

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int]:
        """Return the request that counts the input tokens of a request."""
        from ..token_counters import count_by_google

        root, path = self._model_path(request_input.model)
        request = self.request(request_input, settings.with_(service_tier=None))

        def post(path: str, body: Mapping[str, Any]) -> HTTPRequest:
            return build_request("POST", SecretURL(join_url(root, path)), self.headers(stream=False), json_body(body))

        return count_by_google(request, post, path[1:], f"{path}:countTokens", vertex=self._is_vertex)

    @property
    def takes_files(self) -> bool:
        """True, but on Vertex AI, where media are in buckets (`gs://`)."""
        return not self._is_vertex

    @property
    def _is_vertex(self) -> bool:
        return "/publishers/" in urlsplit(self.service_root).path

    def encoder(self, options: RequestOptions, settings: Settings) -> GoogleRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        return GoogleRequestEncoder(options, settings, vertex=self._is_vertex, own=self.is_at("googleapis.com"))

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return GoogleDecoder(source, request_input)


class GoogleRequestEncoder(RequestEncoder):
    """The part of a `generateContent` request that does not depend on its contents."""

    protected_fields: ClassVar[tuple[str, ...]] = (
        "toolConfig.functionCallingConfig",
        "generationConfig.responseMimeType",
        "generationConfig.responseJsonSchema",
    )

    takes_server_tools: ClassVar[bool] = True
    returns_server_tools: ClassVar[bool] = True
    takes_cached_content: ClassVar[bool] = True

    def __init__(self, options: RequestOptions, settings: Settings, *, vertex: bool = False, own: bool = True) -> None:
        super().__init__("google", options)
        family = model_family("google", options.model, own=own)
        self._signs_calls = has_levels(family)
        self._instructions: str | None = None
        self.fields["contents"] = []
        config = _sampling(settings, self.notes) | _thinking(family, settings.thinking, self.notes)
        required = schema_call_format(options)
        if required is None:
            self._tools(options)
        else:
            config |= {
                "responseMimeType": "application/json",
                "responseJsonSchema": gemini_schema(response_schema(required)),
            }
            self._instructions = None if required.is_bare else instructions(required)
        if (alternatives := top_logprobs(settings.logprobs)) is not None:
            config |= {"responseLogprobs": True, **({"logprobs": alternatives} if alternatives else {})}
        self.outputs: frozenset[str] = frozenset(("text", "image", "audio", "voice", "aspect_ratio", "image_size"))
        config |= _outputs(settings)
        if config:
            self.fields["generationConfig"] = config
        if settings.service_tier is not None:
            self.fields["serviceTier"] = settings.service_tier
        self.note_settings(settings, "strict", "keep_alive", "num_ctx", *CACHE_SETTINGS)
        if options.server_tools:
            self._run_by_service(options, vertex=vertex)
        self._cached_content = settings.cached_content
        if self._cached_content is not None:
            from .cached_contents import check_fields

            check_fields(self._cached_content, self.fields, options.model)

    # -- tools

    def _run_by_service(self, options: RequestOptions, *, vertex: bool) -> None:
        """Add the tools that Gemini runs. Models before Gemini 3 have them alone.

        Source: ai.google.dev/gemini-api/docs/tool-combination.
        """
        own = "functionDeclarations" if "tools" in self.fields else "responseJsonSchema"
        constrained = "tools" in self.fields or "responseJsonSchema" in self.fields.get("generationConfig", {})
        if constrained and not self._signs_calls:
            raise BadRequest(
                f"{options.model} combines {options.server_tools[0].label} neither with other tools nor with a JSON "
                f"schema ({own}): use a Gemini 3 model, or mode='prompted' for typed output"
            )
        if "tools" in self.fields:
            config: dict[str, Any] = self.fields.setdefault("toolConfig", {})
            calling: dict[str, Any] = config.setdefault("functionCallingConfig", {"mode": "VALIDATED"})
            if calling.get("mode") == "AUTO":
                calling["mode"] = "VALIDATED"  # the combination does not have AUTO
            if not vertex:
                config["includeServerSideToolInvocations"] = True
        run = self.server_tools(options, "google-vertex" if vertex else "google")
        self.fields["tools"] = [*self.fields.get("tools", ()), *run]

    def _tools(self, options: RequestOptions) -> None:
        choice, forced = options.tool_choice, self.required_tool(options.tool_choice)
        if not options.tools:
            return
        self.fields["tools"] = [{"functionDeclarations": [self._declaration(tool) for tool in options.tools]}]
        if isinstance(choice, Mapping):
            self.fields["toolConfig"] = {"functionCallingConfig": choice}
        elif forced:
            calling = {"mode": "ANY", "allowedFunctionNames": [self.names.sent[forced]]}
            self.fields["toolConfig"] = {"functionCallingConfig": calling}
        elif isinstance(choice, str):
            self.fields["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice]}}

    def _declaration(self, tool: ToolSpec) -> dict[str, Any]:
        declared = {"name": self.names.sent[tool.name], "description": tool.description}
        schema = {} if _takes_nothing(tool.parameters) else {"parametersJsonSchema": gemini_schema(tool.parameters)}
        return declared | schema

    # -- messages

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the contents, and the system messages at the start as the system instruction."""
        encoded = self._encode(messages)
        if self._cached_content is None:
            return encoded
        from .cached_contents import without_cached

        return without_cached(self._cached_content, encoded)

    def _encode(self, messages: Sequence[Message]) -> dict[str, Any]:
        if self._instructions is not None:
            messages = with_instructions(messages, self._instructions)
        start = count_system_messages(messages)
        system = [sent for message in messages[:start] for sent in self._user(message, {})]
        calls = {call.id: call for message in messages for call in message.tool_calls}
        contents: list[dict[str, Any]] = []
        for message in messages[start:]:
            role = "model" if message.role == "assistant" else "user"
            parts = self._model(message) if role == "model" else list(self._user(message, calls))
            if parts and contents and contents[-1]["role"] == role:
                contents[-1]["parts"] += parts
            elif parts:
                contents.append({"role": role, "parts": parts})
        if not contents:  # a request without contents is rejected
            return {"contents": [{"role": "user", "parts": system or [{"text": ""}]}]}
        return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}

    def _user(self, message: Message, calls: Mapping[str, ToolCallPart]) -> Iterator[dict[str, Any]]:
        """Return the parts of a message that is not the model's. A late system message becomes a user message."""
        if message.role == "system":
            check_parts(self.provider, message.parts, (TextPart,), "a system message takes only text")
        if message.role == "tool":
            check_parts(self.provider, message.parts, (ToolResultPart,), "a tool message takes only ToolResultPart")
        for part in message.parts:
            match part:
                case TextPart():
                    if part.text:
                        yield {"text": part.text}
                case ImagePart() | AudioPart() | DocumentPart():
                    yield self._media(part)
                case VideoPart():
                    yield self._video(part)
                case FileRef():
                    yield self._file(part)
                case ToolResultPart():
                    yield from self._result(part, calls.get(part.call_id))
                case _:
                    raise unsupported_part(self.provider, part)

    def _video(self, part: VideoPart) -> dict[str, Any]:
        """Return a video and its section. One of YouTube has no media type.

        Source: ai.google.dev/gemini-api/docs/video-understanding.
        """
        host = urlsplit(part.url or "").hostname or ""
        youtube = host == "youtu.be" or host.removeprefix("www.").removeprefix("m.") == "youtube.com"
        sent = {"fileData": {"fileUri": part.url}} if youtube and part.media_type is None else self._media(part)
        section = {
            "startOffset": None if part.start is None else f"{part.start:g}s",
            "endOffset": None if part.end is None else f"{part.end:g}s",
            "fps": part.fps,
        }
        metadata = {name: value for name, value in section.items() if value is not None}
        return {**sent, "videoMetadata": metadata} if metadata else sent

    def _file(self, part: FileRef) -> dict[str, Any]:
        if part.uri is None or part.media_type is None:
            lacks = "uri" if part.uri is None else "media_type"
            raise BadRequest(
                f"{self.provider} needs the {lacks} of the file {part.id!r:.100}: get it with llm.describe_file(id)"
            )
        return {"fileData": {"mimeType": part.media_type, "fileUri": part.uri}}

    def _media(self, part: MediaPart) -> dict[str, Any]:
        found = inline_data(uncited(self.provider, part) if isinstance(part, DocumentPart) else part)
        if found is not None:
            return {"inlineData": {"mimeType": found[0], "data": found[1]}}
        url = part.url or ""
        kind = part.media_type or mimetypes.guess_type(urlsplit(url).path)[0]
        if kind is None:
            raise BadRequest(f"{self.provider} needs the media type of {url!r}: add media_type= to the part")
        return {"fileData": {"mimeType": kind, "fileUri": url}}

    def _result(self, result: ToolResultPart, call: ToolCallPart | None) -> Iterator[dict[str, Any]]:
        """Return the response to `call`. Gemini 3 accepts images in it; for other models they follow it."""
        if call is None and not result.name:
            raise BadRequest(f"{self.provider} needs the tool name of the result of {result.call_id!r}: add name=")
        response: dict[str, Any] = {
            "name": legal_name(result.name or (call.name if call else "")),
            "response": {"error" if result.is_error else "result": result.content},
        }
        if call is not None and (id := _own(call).get("id")):
            response["id"] = id
        images = [self._media(image) for image in result.images]
        inside = images and self._signs_calls and all("inlineData" in image for image in images)
        yield {"functionResponse": response | ({"parts": images} if inside else {})}
        if not inside:
            yield from images

    def _model(self, message: Message) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        unsigned = self._signs_calls
        for part in message.parts:
            match part:
                case TextPart():
                    sent += [{"text": part.text}] if part.text else []
                case ThinkingPart():
                    _signed(part, sent)
                case ToolCallPart():
                    sent.append(self._call(part, foreign=unsigned))
                    unsigned = False
                case ServerToolPart():
                    sent.append(dict(part.raw or {}))
                case ImagePart() | AudioPart():
                    sent.append(self._output(part))
                case _:
                    raise unsupported_part(self.provider, part, "in an assistant message")
        return sent

    def _output(self, part: ImagePart | AudioPart) -> dict[str, Any]:
        """Return an image or a recording of the model, as Gemini made it where it did."""
        own = dict(_own(part))
        sent = self._media(part)
        if "inlineData" in sent and (declared := (part.opaque or {}).get("media_type")):
            sent["inlineData"]["mimeType"] = declared
        return sent | own

    def _call(self, call: ToolCallPart, *, foreign: bool) -> dict[str, Any]:
        """Return a call as Gemini made it. `foreign`: it needs the placeholder signature that disables the check."""
        own = _own(call)
        function: dict[str, Any] = {"name": legal_name(call.name), "args": arguments_object(call)}
        if "id" in own:
            function["id"] = own["id"]
        signature = own.get("thoughtSignature") or ("skip_thought_signature_validator" if foreign else None)
        return {"functionCall": function} | ({"thoughtSignature": signature} if signature else {})


def _own(part: ThinkingPart | ToolCallPart | ImagePart | AudioPart) -> Mapping[str, Any]:
    """Return the data in a part that Gemini itself made, and wants back."""
    return (part.opaque or {}).get("google") or {}


def _signed(thought: ThinkingPart, sent: list[dict[str, Any]]) -> None:
    """Put a signature back on a thought, on a part of its own, or on the end of the text before it."""
    own = dict(_own(thought))
    if "thoughtSignature" not in own:
        return
    count = own.pop("characters", None)
    if count is None:
        sent.append({"text": thought.text, "thought": True, **own} if len(own) == 1 else own)
        return
    before: str = sent[-1].get("text", "") if sent and sent[-1].keys() == {"text"} else ""
    if not count or len(before) < count:
        sent.append({"text": "", **own})
        return
    rest = before[: len(before) - count]
    sent[-1:] = [*([{"text": rest}] if rest else []), {"text": before[len(rest) :], **own}]


_MODES = {"auto": "AUTO", "required": "ANY", "any": "ANY", "none": "NONE"}


def _takes_nothing(parameters: Mapping[str, Any]) -> bool:
    """Return True if a tool has no parameters. Gemini rejects the schema of an object that is always empty."""
    constraints = {name for name, value in parameters.items() if value not in ({}, [], False)}
    return constraints <= {"type", "title", "description"}


# -- settings


def _outputs(settings: Settings) -> dict[str, Any]:
    """Return the fields for images and speech.

    Sources: ai.google.dev/gemini-api/docs/image-generation, .../speech-generation.
    """
    config: dict[str, Any] = {}
    if settings.modalities is not None:
        config["responseModalities"] = [each.upper() for each in settings.modalities]
    named = {"aspectRatio": settings.aspect_ratio, "imageSize": settings.image_size}
    if image := {name: value for name, value in named.items() if value is not None}:
        config["imageConfig"] = image
    if settings.voice is not None:
        config["speechConfig"] = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": settings.voice}}}
    return config


_MOST_STOPS = 5


def _sampling(settings: Settings, notes: list[str]) -> dict[str, Any]:
    if len(settings.stop or ()) > _MOST_STOPS:
        notes.append(f"more than {_MOST_STOPS} stop sequences")
    config = {
        "maxOutputTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "stopSequences": None if settings.stop is None else list(settings.stop)[:_MOST_STOPS],
        "seed": settings.seed,
    }
    return {name: value for name, value in config.items() if value is not None}


_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
_DYNAMIC = -1


def has_levels(family: ModelFamily | None) -> bool:
    """Return True for models that think by levels.

    They also take the tools that Gemini runs together with other tools and with a JSON schema.
    """
    return family is not None and family.thinking == "effort"


def _thinking(family: ModelFamily | None, thinking: bool | str | int | None, notes: list[str]) -> dict[str, Any]:
    """Return the thinking configuration for the model's generation. Thoughts are requested if thinking is enabled."""
    if thinking is None:
        return {}
    if family is not None and family.facts.thinking is False:
        notes.append("thinking")
        return {}
    if family is not None and family.thinking == "effort":
        config = _level(family, thinking, notes)
    else:
        config = _budget(family.least if family else 0, thinking, notes)
    return {"thinkingConfig": config | ({} if thinking_effort(thinking) == "none" else {"includeThoughts": True})}


def _level(family: ModelFamily, thinking: bool | str | int, notes: list[str]) -> dict[str, Any]:
    if thinking is True:
        return {}
    wanted = thinking_effort(thinking)
    level = nearest_effort(wanted, family.efforts.split()) if wanted in EFFORTS else wanted
    if level != wanted:
        notes.append(f"thinking={thinking!r} (the nearest level, {level!r}, was sent)")
    return {"thinkingLevel": level.upper()}


def _budget(least: int, thinking: bool | str | int, notes: list[str]) -> dict[str, Any]:
    wanted = thinking_effort(thinking)
    if wanted == "none":
        notes += [f"thinking=False (the least budget, {least} tokens, was sent)"] if least else []
        return {"thinkingBudget": least}
    return {
        "thinkingBudget": _DYNAMIC if thinking is True else thinking_budget(thinking) or _BUDGETS.get(wanted, _DYNAMIC)
    }
